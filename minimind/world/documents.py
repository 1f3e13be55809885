"""Documents to pretrain on, and questions with their answers to fine-tune on.

A document is a story (55 %), a list of facts (25 %) or a list of sums (20 %). A tenth of the pairs of digits is
never used in training (`is_held_out`), so that a lesson can tell what was memorised from what was understood.
"""

import random
from dataclasses import dataclass

from minimind.world.story import Story
from minimind.world.words import FACTS, Language

STORY_SHARE = 0.55
SUMS_SHARE = 0.20  # the rest are facts
CHINESE_SHARE = 0.4
QUESTION_KINDS = ("fact", "sum", "story")


@dataclass(frozen=True)
class Question:
    """One question as a chat of two turns.

    Attributes:
        user: What is asked; for story kinds the story comes first.
        assistant: The full answer.
        key: The part of the answer that must be right ("= 9", "Mia", "red").
        kind: "fact", "sum", "story-who", "story-color" or "story-where".
    """

    user: str
    assistant: str
    key: str
    kind: str


def pretrain_documents(count: int, seed: int) -> list[str]:
    """Return `count` documents. A longer list with the same seed begins with the shorter one.

    Raises:
        ValueError: `count` is negative.
    """
    if count < 0:
        raise ValueError(f"count is {count}, but a number of documents is 0 or more.")
    rng = random.Random(seed)
    return [pretrain_document(rng) for _ in range(count)]


def pretrain_document(rng: random.Random) -> str:
    """Return one document: a story, six sums, or five facts."""
    share = rng.random()
    if share < STORY_SHARE:
        return Story(rng, _language(rng)).text
    if share < STORY_SHARE + SUMS_SHARE:
        return " ".join(_sum(rng) + _full_stop(_language(rng)) for _ in range(6))
    language = _language(rng)
    facts = [fact.statement.text(language) for fact in rng.sample(FACTS, 5)]
    return ("" if language == "zh" else " ").join(facts)


def question(rng: random.Random, kinds: tuple[str, ...] = QUESTION_KINDS, held_out_sums: bool = False) -> Question:
    """Draw a question about a fact, a sum or a story.

    Args:
        rng: The source of every choice.
        kinds: Which of "fact", "sum" and "story" to draw from, each as likely.
        held_out_sums: Ask only for sums that no training document contains.

    Raises:
        ValueError: `kinds` is empty or names an unknown kind.
    """
    unknown = [kind for kind in kinds if kind not in QUESTION_KINDS]
    if unknown or not kinds:
        raise ValueError(f"kinds is {kinds!r}; give one or more of {', '.join(QUESTION_KINDS)}.")
    kind = rng.choice(kinds)
    language = _language(rng)
    if kind == "fact":
        fact = rng.choice(FACTS)
        asked, statement, key = (word.text(language) for word in fact)
        return Question(asked, statement, key, "fact")
    if kind == "sum":
        solved = _sum(rng, held_out_sums)
        term, result = solved.split(" = ")
        asked = f"{term} 等于几？" if language == "zh" else f"What is {term}?"
        return Question(asked, solved + _full_stop(language), f"= {result}", "sum")
    story = Story(rng, language, events=rng.choice((0, 1, 2)), recap=False)
    asked, answer, key, story_kind = story.question()
    return Question(story.text + ("" if language == "zh" else " ") + asked, answer, key, story_kind)


def is_held_out(left: int, right: int) -> bool:
    """Whether this pair of digits is kept out of training: one `right` for each `left`, 10 pairs of 100."""
    return (7 * left + 3 * right) % 10 == 0


def _sum(rng: random.Random, held_out: bool = False) -> str:
    """Return a solved sum or difference of two digits, such as "6 + 3 = 9". No result is negative."""
    while True:
        left, right = rng.randint(0, 9), rng.randint(0, 9)
        if is_held_out(left, right) == held_out:
            break
    if left >= right and rng.choice("+-") == "-":
        return f"{left} - {right} = {left - right}"
    return f"{left} + {right} = {left + right}"


def _language(rng: random.Random) -> Language:
    return "zh" if rng.random() < CHINESE_SHARE else "en"


def _full_stop(language: Language) -> str:
    return "。" if language == "zh" else "."
