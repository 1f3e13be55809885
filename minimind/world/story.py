"""Tell a story: a simulation that only takes steps which the rules of the world allow."""

import random

from minimind.world.sentences import StoryKind, StoryState, templates_of
from minimind.world.words import COLORS, ITEMS, PEOPLE, PLACES, Language


class Story:
    """One story, told on construction; `text` is what a model reads, `state` is what is true at its end.

    Args:
        rng: The source of every choice; the same state of it gives the same story.
        language: "en" or "zh".
        events: How many times something happens after the finds; drawn from 1 to 3 when None.
        recap: Whether the story ends by saying who has what, who is where, and how it was.
    """

    def __init__(self, rng: random.Random, language: Language, events: int | None = None, recap: bool = True) -> None:
        self.rng = rng
        self.language = language
        self.state = StoryState()
        self.sentences: list[str] = []
        self.people = [word.text(language) for word in rng.sample(PEOPLE, 2)]
        self.items = [word.text(language) for word in rng.sample(ITEMS, 1)]
        self.places = [word.text(language) for word in PLACES]
        colors = [word.text(language) for word in rng.sample(COLORS, len(self.items))]

        self._say("open", a=self.people[0], p=rng.choice(self.places))
        for item, color in zip(self.items, colors, strict=True):
            self._say("find", a=self.people[0], i=item, c=color)
        for _ in range(rng.choice((1, 2, 2, 3)) if events is None else events):
            self._happen()
        if recap:
            self._recap()

    @property
    def text(self) -> str:
        """The whole story; English sentences are set apart by a space, Chinese ones are not."""
        return ("" if self.language == "zh" else " ").join(self.sentences)

    def question(self) -> tuple[str, str, str, str]:
        """Ask about the end of the story: (question, answer, key word of the answer, kind)."""
        zh = self.language == "zh"
        asked = self.rng.choice(("who", "who", "color", "where"))
        if asked == "where":
            person = self.rng.choice(list(self.state.place_of))
            place = self.state.place_of[person]
            if zh:
                return f"{person}在哪里？", f"{person}在{place}。", place, "story-where"
            return f"Where is {person}?", f"{person} is in the {place}.", place, "story-where"
        item = self.rng.choice(self.items)
        if asked == "color":
            color = self.state.color_of[item]
            if zh:
                return f"{item}是什么颜色？", f"{item}是{color}色的。", color, "story-color"
            return f"What color is the {item}?", f"The {item} is {color}.", color, "story-color"
        holder = self.state.holder_of[item]
        if zh:
            return f"谁有{item}？", f"{holder}有{item}。", holder, "story-who"
        return f"Who has the {item}?", f"{holder} has the {item}.", holder, "story-who"

    def _say(self, kind: StoryKind, **roles: str) -> None:
        """Choose a template of this kind, write the sentence and let it take effect."""
        reason = self.state.contradiction(kind, roles)
        assert reason is None, f"a story may not say {kind} {roles}: {reason}"
        template = self.rng.choice(templates_of(kind, self.language)).text
        self.sentences.append(template.format(**roles))
        self.state.apply(kind, roles)

    def _happen(self) -> None:
        """One event. What cannot happen gives way to what can: give, else come, else go."""
        alone = len(self.state.place_of) < len(self.people)
        event = self.rng.choice(("come", "give", "give") if alone else ("go", "give", "give"))
        happened = event == "give" and self._give()
        if not happened and event != "go":
            happened = self._come()
        if not happened:
            self._go()

    def _give(self) -> bool:
        place_of = self.state.place_of
        item = self.rng.choice(self.items)
        giver = self.state.holder_of[item]
        beside = [p for p in self.people if p != giver and place_of.get(p) == place_of[giver]]
        if not beside:
            return False
        self._say("give", a=giver, b=self.rng.choice(beside), i=item)
        return True

    def _come(self) -> bool:
        """Somebody who is elsewhere, or was not in the story yet, comes to the first person."""
        here = self.state.place_of[self.people[0]]
        away = [person for person in self.people if self.state.place_of.get(person) != here]
        if not away:
            return False
        self._say("come", a=self.rng.choice(away), p=here)
        return True

    def _go(self) -> None:
        person = self.rng.choice(list(self.state.place_of))
        elsewhere = [place for place in self.places if place != self.state.place_of[person]]
        self._say("go", a=person, p=self.rng.choice(elsewhere))

    def _recap(self) -> None:
        for item in self.items:
            if self.rng.random() < 0.6:
                self._say("has", a=self.state.holder_of[item], i=item, c=self.state.color_of[item])
        for person, place in self.state.place_of.items():
            if self.rng.random() < 0.3:
                self._say("is_in", a=person, p=place)
        if self.rng.random() < 0.6:
            self._say("end", a=self.people[0])
