"""Lesson 1, second exercise: score answers by exact match, for each kind of question.

A score is code too, and a lenient one flatters the model. The check asks about answers that are nearly right.
"""

from collections.abc import Callable, Sequence
from typing import Any

from course.kit.exercises import Exercise, Verdict, WrongAnswer
from minimind.world import Question

Score = Callable[[Sequence[Question], Sequence[str]], Any]

ASKED = (
    (Question("What is 2 + 3?", "2 + 3 = 5.", "= 5", "sum"), "2 + 3 = 5."),
    (Question("What is 8 - 7?", "8 - 7 = 1.", "= 1", "sum"), "8 - 7 = 15."),
    (Question("What is 9 - 4?", "9 - 4 = 5.", "= 5", "sum"), "2 + 3 = 5."),
    (Question("What is 1 + 1?", "1 + 1 = 2.", "= 2", "sum"), ""),
    (Question("What color is snow?", "Snow is white.", "white", "fact"), "snow is white."),
    (Question("What does a cow say?", "A cow says moo.", "moo", "fact"), "A cow says moo. A cow says moo."),
    (Question("What does a dog say?", "A dog says woof.", "woof", "fact"), "A dog says woof.\n"),
    (Question("What does a hen eat?", "A hen eats corn.", "corn", "fact"), "Yes. A hen eats corn."),
    (Question("What does a cat eat?", "A cat eats fish.", "fish", "fact"), "What does a cat eat?"),
    (Question("Is the sky blue?", "The sky is blue.", "blue", "fact-yes-no"), "The sky is blue."),
    (
        Question("Tom was in the park. Where is Tom?", "Tom is in the park.", "park", "story-where"),
        "Tom is in the park.",
    ),
    (
        Question("Mia saw a red hat. What color is the hat?", "The hat is red.", "red", "story-color"),
        "The hat is blue.",
    ),
    (Question("Ben found a drum. Who has the drum?", "Ben has the drum.", "Ben", "story-who"), "Ben has the drum."),
)
"""Questions, and what a model said to each. The answers that are not exact are nearly right."""

CASES = (ASKED, *((each,) for each in ASKED), ASKED[-3:], ())
"""All together, and one by one, so that two mistakes which count alike are told apart."""


def exact_by_kind(questions: Sequence[Question], answers: Sequence[str]) -> dict[str, tuple[int, int]]:
    """The reference answer."""
    score: dict[str, tuple[int, int]] = {}
    for question, answer in zip(questions, answers, strict=True):
        kind = question.kind.split("-")[0]
        right, asked = score.get(kind, (0, 0))
        score[kind] = right + (answer == question.assistant), asked + 1
    return score


def _scored(
    equal: Callable[[Question, str], bool] = lambda question, answer: answer == question.assistant,
    kind: Callable[[Question], str] = lambda question: question.kind.split("-")[0],
    entry: Callable[[int, int], Any] = lambda right, asked: (right, asked),
    keep_zeros: bool = True,
) -> Score:
    """The score, with one thing done differently."""

    def score(questions: Sequence[Question], answers: Sequence[str]) -> dict[str, Any]:
        asked: dict[str, list[bool]] = {}
        for question, answer in zip(questions, answers, strict=True):
            asked.setdefault(kind(question), []).append(equal(question, answer))
        return {name: entry(sum(found), len(found)) for name, found in asked.items() if keep_zeros or any(found)}

    return score


def _among_all(questions: Sequence[Question], answers: Sequence[str]) -> dict[str, Any]:
    expected = {question.assistant for question in questions}
    return _scored(equal=lambda question, answer: answer in expected)(questions, answers)


def _sorted_first(questions: Sequence[Question], answers: Sequence[str]) -> dict[str, Any]:
    return exact_by_kind(questions, sorted(answers))


MISTAKES: dict[str, tuple[Score, str]] = {
    "key found in the answer": (
        _scored(equal=lambda question, answer: question.key in answer),
        "An answer counts here when it contains the key: `8 - 7 = 15.` contains `= 1`. Compare whole answers.",
    ),
    "begins rightly": (
        _scored(equal=lambda question, answer: answer.startswith(question.assistant)),
        "An answer counts here when it begins rightly. A model that does not stop when it has answered is not right.",
    ),
    "expected found in the answer": (
        _scored(equal=lambda question, answer: question.assistant in answer),
        "An answer counts here when the expected one stands somewhere in it, whatever else was said. Use `==`.",
    ),
    "answer found in the expected": (
        _scored(equal=lambda question, answer: answer in question.assistant),
        "An answer counts here when it is part of the expected one, and an empty answer is part of every text.",
    ),
    "spaces stripped": (
        _scored(equal=lambda question, answer: answer.strip() == question.assistant),
        "Spaces or line feeds at the ends were removed before comparing. Then a model that adds a line looks right.",
    ),
    "case ignored": (
        _scored(equal=lambda question, answer: answer.lower() == question.assistant.lower()),
        "Capital and small letters were made equal before comparing; `snow is white.` is not the answer asked for.",
    ),
    "compared with the question": (
        _scored(equal=lambda question, answer: answer == question.user),
        "The answers were compared with `question.user`, which is what was asked; compare with `question.assistant`.",
    ),
    "right for another question": (
        _among_all,
        "An answer counts here when it is right for *some* question: `2 + 3 = 5.` is no answer to `What is 9 - 4?`.",
    ),
    "answers in another order": (
        _sorted_first,
        "The answers are not in the order of the questions any more. Take them pair by pair, with `zip`.",
    ),
    "story kinds apart": (
        _scored(kind=lambda question: question.kind),
        "`story-who`, `story-color` and `story-where` are one kind, `story`: take what stands before the first `-`.",
    ),
    "kinds cut at the last hyphen": (
        _scored(kind=lambda question: question.kind.rsplit("-", 1)[0]),
        "A kind with two hyphens is cut at the last one; take what stands before the *first* `-`.",
    ),
    "case and spaces ignored": (
        _scored(equal=lambda question, answer: answer.strip().lower() == question.assistant.lower()),
        "Letters and spaces at the ends were made equal before comparing. Exact means every character, with `==`.",
    ),
    "all kinds in one": (
        _scored(kind=lambda question: "all"),
        "One number for all kinds hides that facts are easy and stories hard; give an entry to each kind.",
    ),
    "kinds with nothing right left out": (
        _scored(keep_zeros=False),
        "A kind of which no answer is exact is missing. That is the kind one wants to see: `(0, 4)`.",
    ),
    "shares": (
        _scored(entry=lambda right, asked: right / asked),
        "These are shares. Return both counts, since 1 of 1 and 32 of 32 do not say the same.",
    ),
    "only the right ones": (
        _scored(entry=lambda right, asked: right),
        "These are only the numbers of exact answers. Return pairs `(right, asked)`: 5 of what?",
    ),
    "pair swapped": (_scored(entry=lambda right, asked: (asked, right)), "The pairs are `(asked, right)`; swap them."),
    "wrong ones counted": (
        _scored(entry=lambda right, asked: (asked - right, asked)),
        "The first number counts the answers that are *not* exact.",
    ),
}


def check_exact_match(score: Score) -> Verdict:
    """Compares with the reference on answers that are nearly right, and names the mistake."""
    yours = []
    for case in CASES:
        scored = score([question for question, _ in case], [answer for _, answer in case])
        if scored is None:
            return Verdict.wrong("The function returns nothing; return a dict such as `{'fact': (3, 4)}`.")
        if not isinstance(scored, dict):
            return Verdict.wrong(f"Return a dict from kind to `(right, asked)`; this is a `{type(scored).__name__}`.")
        yours.append({kind: tuple(entry) if isinstance(entry, list) else entry for kind, entry in scored.items()})
    expected = _on_all_cases(exact_by_kind)
    if yours != expected:
        for wrong, sentence in MISTAKES.values():
            if yours == _on_all_cases(wrong):
                return Verdict.wrong(sentence)
        case, ours, right = next(each for each in zip(CASES, yours, expected, strict=True) if each[1] != each[2])
        return Verdict.wrong(f"Of {len(case)} answers you count `{ours!r}`; it should be `{right!r}`.")
    return Verdict.correct(
        "It counts as `minimind.evaluate.exact_match` does. A strict score that everybody understands is worth more "
        "than a kind one: what it says of two models can be compared."
    )


def _on_all_cases(score: Score) -> list[Any]:
    return [score([question for question, _ in case], [answer for _, answer in case]) for case in CASES]


EXACT_MATCH = Exercise(
    key="01-exact-match",
    title="Score the answers",
    task=(
        "Write `score(questions, answers)`: for each kind of question the pair `(right, asked)`, in a dict such as "
        "`{'fact': (3, 4)}`. An answer is right when it equals `question.assistant`, character by character. The kind "
        "is `question.kind` up to the first `-`, so that `story-who` and `story-where` count as `story`."
    ),
    check=check_exact_match,
    reference=exact_by_kind,
    wrong_answers=(
        *(WrongAnswer(name, wrong, sentence) for name, (wrong, sentence) in MISTAKES.items()),
        WrongAnswer("a list", lambda questions, answers: list(exact_by_kind(questions, answers).items()), "a dict"),
        WrongAnswer(
            "always one asked too many",
            _scored(entry=lambda right, asked: (right, asked + 1)),
            "it should be",
        ),
    ),
    hints=(
        "Go through questions and answers together: `for question, answer in zip(questions, answers)`.",
        "`question.kind.split('-')[0]` is the kind. `answer == question.assistant` is `True` or `False`, and these "
        "count as 1 and 0 when they are added.",
        "Keep the pair so far: `right, asked = result.get(kind, (0, 0))`, then store "
        "`(right + (answer == question.assistant), asked + 1)`.",
    ),
)

EXERCISES = (EXACT_MATCH,)
