"""The sentences of a story as data, and the rules of the world that they speak of.

Both sides use this file: the generator fills in a template and applies its effect, the checker finds the
template that a sentence fills and applies the same effect. There is one set of rules, so the two cannot
disagree.

Roles in a template: {a} who acts, {b} who receives, {i} the item, {c} its color, {p} the place.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from minimind.world.words import COLORS, ITEMS, PEOPLE, PLACES, Language, Word

StoryKind = Literal["open", "find", "give", "come", "go", "has", "is_in", "end"]
Roles = dict[str, str]  # role letter -> word, all in the language of the story

ROLE_WORDS: dict[str, tuple[Word, ...]] = {
    "a": PEOPLE,
    "b": PEOPLE,
    "i": ITEMS,
    "c": COLORS,
    "p": PLACES,
}


class Template(NamedTuple):
    """One way to say one kind of event, in one language."""

    kind: StoryKind
    language: Language
    text: str


def _templates(kind: StoryKind, en: tuple[str, ...], zh: tuple[str, ...]) -> tuple[Template, ...]:
    return (*(Template(kind, "en", text) for text in en), *(Template(kind, "zh", text) for text in zh))


TEMPLATES: tuple[Template, ...] = (
    *_templates(
        "open",
        en=(
            "One day, {a} went to the {p}.",
            "{a} was in the {p}.",
            "It was a sunny day. {a} was in the {p}.",
        ),
        zh=("有一天，{a}去了{p}。", "{a}在{p}里。", "今天天气很好，{a}在{p}里玩。"),
    ),
    *_templates(
        "find",
        en=("{a} found a {c} {i} there.", "There {a} saw a {c} {i} and picked it up."),
        zh=("{a}在那里找到了{c}色的{i}。", "{a}看见{c}色的{i}，就拿了起来。"),
    ),
    *_templates(
        "give",
        en=("{a} gave the {i} to {b}.", "{b} wanted the {i}, so {a} gave it to {b}."),
        zh=("{a}把{i}给了{b}。", "{b}想要{i}，{a}就把{i}给了{b}。"),
    ),
    *_templates(
        "come",
        en=("Then {a} came to the {p} too.", "{a} came to the {p} to play."),
        zh=("后来{a}也来到了{p}。", "{a}也来{p}玩。"),
    ),
    *_templates(
        "go",
        en=("After that {a} went to the {p}.", "{a} ran to the {p}."),
        zh=("然后{a}去了{p}。", "{a}跑到{p}去了。"),
    ),
    *_templates("has", en=("Now {a} has the {c} {i}.",), zh=("现在{a}有{c}色的{i}。",)),
    *_templates("is_in", en=("Now {a} is in the {p}.",), zh=("现在{a}在{p}。",)),
    *_templates(
        "end",
        en=("They were all very happy.", "It was a good day.", "{a} smiled."),
        zh=("大家都很高兴。", "这是开心的一天。", "{a}笑了。"),
    ),
)

# How an evaluation begins a story: the words of an opening up to its first role.
STORY_OPENINGS: dict[Language, tuple[str, ...]] = {
    "en": ("One day,", "It was a sunny day."),
    "zh": ("有一天，", "今天天气很好，"),
}


def templates_of(kind: StoryKind, language: Language) -> tuple[Template, ...]:
    """Return the ways to say `kind` in `language`, in the order of the table."""
    return tuple(t for t in TEMPLATES if t.kind == kind and t.language == language)


@dataclass
class StoryState:
    """Who is where, who holds what, and which color it has. Keys and values are words of one language."""

    place_of: dict[str, str] = field(default_factory=dict)
    holder_of: dict[str, str] = field(default_factory=dict)
    color_of: dict[str, str] = field(default_factory=dict)

    def contradiction(self, kind: StoryKind, roles: Roles) -> str | None:
        """Say why this sentence cannot come next, or return None when it can."""
        a, b, i, c, p = (roles.get(role, "") for role in "abicp")
        if kind == "open":
            return "the story has already begun" if self.place_of else None
        if not self.place_of:
            return "the story has not begun"
        if kind == "come":
            # The only way into a story after the opening: to where somebody is.
            if self.place_of.get(a) == p:
                return f"{a} is already in the {p}"
            return None if p in self.place_of.values() else f"nobody is in the {p}"
        if a and a not in self.place_of:
            return f"{a} is not in the story yet"
        if kind == "find" and i in self.holder_of:
            return f"{self.holder_of[i]} already has the {i}"
        if kind == "go" and self.place_of[a] == p:
            return f"{a} is already in the {p}"
        if kind == "is_in" and self.place_of[a] != p:
            return f"{a} is in the {self.place_of[a]}"
        if kind in ("give", "has") and self.holder_of.get(i) != a:
            return f"{a} does not have the {i}"
        if kind == "has" and self.color_of.get(i) != c:
            return f"the {i} is not {c}"
        if kind == "give" and a == b:
            return f"{a} gives the {i} to themselves"
        if kind == "give" and self.place_of.get(b) != self.place_of[a]:
            return f"{b} is not where {a} is"
        return None

    def apply(self, kind: StoryKind, roles: Roles) -> None:
        """Change the state as the sentence says. Recap and end sentences change nothing."""
        if kind in ("open", "come", "go"):
            self.place_of[roles["a"]] = roles["p"]
        elif kind == "find":
            self.holder_of[roles["i"]] = roles["a"]
            self.color_of[roles["i"]] = roles["c"]
        elif kind == "give":
            self.holder_of[roles["i"]] = roles["b"]
