"""Read a text of the small world: which sentences belong to the language, and does the story hold together?

The text is read from left to right. Where a template, a fact or a sum fits, that is a valid sentence; where
nothing fits, everything up to the next full stop is one invalid sentence (so is a sentence that was cut off).
The valid sentences of a story are then replayed: each must be possible in the world that the earlier ones made.
"""

import re
import string
from dataclasses import dataclass
from typing import Literal, NamedTuple

from minimind.world.sentences import ROLE_WORDS, TEMPLATES, Roles, StoryKind, StoryState, Template
from minimind.world.words import FACTS, Language

DocumentKind = Literal["story", "facts", "sums", "mixed", "unknown"]


@dataclass(frozen=True)
class StoryVerdict:
    """What reading and replaying one story found.

    Attributes:
        sentences: Number of sentences; an opening of two sentences counts once.
        valid_sentences: How many of them the world's stories could contain.
        consistent: All of them are valid and none contradicts an earlier one.
        problems: For each sentence at fault the sentence and why, in reading order.
    """

    sentences: int
    valid_sentences: int
    consistent: bool
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class DocumentVerdict:
    """The same for a document of any kind; "mixed" documents are never consistent.

    Attributes:
        kind: What its valid sentences are; "unknown" when there are none.
        sentences: Number of sentences.
        valid_sentences: How many are true facts, right sums, or sentences of a story.
        consistent: All are valid and of one kind, and a story holds together.
        problems: For each sentence at fault the sentence and why, in reading order.
    """

    kind: DocumentKind
    sentences: int
    valid_sentences: int
    consistent: bool
    problems: tuple[str, ...] = ()


class _Story(NamedTuple):
    """A sentence of a story that was read back into its kind and roles."""

    text: str
    kind: StoryKind
    roles: Roles


class _Other(NamedTuple):
    """A fact, a sum, or (problem is not None) a sentence that is not of the world."""

    text: str
    kind: Literal["facts", "sums", "unknown"]
    problem: str | None


_Sentence = _Story | _Other

_SUM = re.compile(r"([0-9]) ([+-]) ([0-9]) = (-?[0-9]+)[.。]")
_UNTIL_FULL_STOP = re.compile(r"[^.。!！?？\n]*[.。!！?？\n]?")
_FIRST_LETTER = re.compile(r"[A-Za-z\u4e00-\u9fff]")


def _pattern(template: Template) -> re.Pattern[str]:
    """Turn a template into the pattern of all sentences that fill it."""
    pattern = ""
    seen: set[str] = set()
    for literal, role, _, _ in string.Formatter().parse(template.text):
        pattern += re.escape(literal)
        if role is None:
            continue
        if role in seen:  # the same person or thing again: it must be the same word
            pattern += f"(?P={role})"
        else:
            words = "|".join(re.escape(word.text(template.language)) for word in ROLE_WORDS[role])
            pattern += f"(?P<{role}>{words})"
            seen.add(role)
    return re.compile(pattern)


def _facts_pattern(language: Language) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(fact.statement.text(language)) for fact in FACTS))


_STORY_PATTERNS = tuple((template, _pattern(template)) for template in TEMPLATES)
_FACT_PATTERNS: dict[Language, re.Pattern[str]] = {"en": _facts_pattern("en"), "zh": _facts_pattern("zh")}


def check_story(text: str) -> StoryVerdict:
    """Read `text` as one story, in the language of its first letter, and replay it."""
    return _replay(_read(text))


def check_document(text: str) -> DocumentVerdict:
    """Read `text` as a story, facts or sums, whichever it turns out to be."""
    sentences = _read(text)
    kinds = {kind for kind in map(_kind, sentences) if kind != "unknown"}
    if kinds == {"story"}:
        story = _replay(sentences)
        return DocumentVerdict("story", story.sentences, story.valid_sentences, story.consistent, story.problems)
    problems = tuple(
        f"{sentence.text!r}: {sentence.problem}"
        for sentence in sentences
        if isinstance(sentence, _Other) and sentence.problem
    )
    valid = len(sentences) - len(problems)
    if len(kinds) > 1:
        return DocumentVerdict("mixed", len(sentences), valid, False, problems)
    kind: DocumentKind = next(iter(kinds), "unknown")
    return DocumentVerdict(kind, len(sentences), valid, bool(sentences) and not problems, problems)


def _kind(sentence: _Sentence) -> DocumentKind:
    return "story" if isinstance(sentence, _Story) else sentence.kind


def _replay(sentences: list[_Sentence]) -> StoryVerdict:
    state = StoryState()
    valid = 0
    problems = []
    for sentence in sentences:
        if isinstance(sentence, _Other):
            problems.append(f"{sentence.text!r}: {sentence.problem or 'not a sentence of a story'}")
            continue
        valid += 1
        reason = state.contradiction(sentence.kind, sentence.roles)
        if reason is not None:
            problems.append(f"{sentence.text!r}: {reason}")
        # Even a contradiction is believed from here on, so that one fault is not reported twice.
        state.apply(sentence.kind, sentence.roles)
    consistent = bool(sentences) and not problems
    return StoryVerdict(len(sentences), valid, consistent, tuple(problems))


def _read(text: str) -> list[_Sentence]:
    """Read a whole text into sentences; white space between them does not count."""
    first_letter = _FIRST_LETTER.search(text)
    language: Language = "zh" if first_letter and not first_letter.group().isascii() else "en"
    sentences: list[_Sentence] = []
    start = 0
    while start < len(text):
        if text[start].isspace():
            start += 1
            continue
        sentences.append(_read_one(text, start, language))
        start += len(sentences[-1].text)
    return sentences


def _read_one(text: str, start: int, language: Language) -> _Sentence:
    for template, pattern in _STORY_PATTERNS:
        if template.language == language and (match := pattern.match(text, start)):
            return _Story(match.group(), template.kind, match.groupdict())
    if match := _FACT_PATTERNS[language].match(text, start):
        return _Other(match.group(), "facts", None)
    if match := _SUM.match(text, start):
        left, operator, right, result = match.groups()
        right_result = int(left) + int(right) if operator == "+" else int(left) - int(right)
        if str(right_result) != result:
            return _Other(match.group(), "sums", f"{left} {operator} {right} is {right_result}")
        return _Other(match.group(), "sums", None)
    match = _UNTIL_FULL_STOP.match(text, start)
    assert match is not None and match.group()
    return _Other(match.group(), "unknown", "not a sentence of the small world")
