"""Where the right answers of questions stand, read from the sources without running them.

In: the code of lessons (`quiz`, `predict`, `predict_number`, `exercise`) and of the banks in `course/recall`
(`RecallItem`), and the executed notebooks, which say what the runs gave that predictions wait for. Out: one sentence
for each key used twice, and for right answers that stand in one place more often than chance would have it: a student
notices, and stops reading the question.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from IPython.core.inputtransformer2 import TransformerManager

from course.build.files import NotebookError, read_notebook
from course.build.sources import Lesson, notebook_path, tags_of

# From so many items on, no place may hold more than half of the right answers, and each must hold one.
ENOUGH_ITEMS = 6

# What asks, and where its answers stand: the name and position of that argument. A number has no choices.
_ASKS: dict[str, tuple[str, int] | None] = {
    "quiz": ("choices", 2),
    "RecallItem": ("choices", 2),
    "predict": ("options", 2),
    "predict_number": None,
    "exercise": None,
}
_OUTCOME = re.compile(r"predicted \*\*([A-Z])\*\*.*?; the run gave (?:the same|\*\*([A-Z])\*\*)", re.DOTALL)


@dataclass(frozen=True)
class Question:
    """One call that asks something.

    Args:
        where: The file and the line or cell.
        key: The item's key.
        ask: What asks, one of "quiz", "RecallItem", "predict", "predict_number", "exercise".
        choices: How many answers there are to choose among; 0 when there are none or they cannot be read.
        right: The place of the right answer, from 0; None when the source does not say.
    """

    where: str
    key: str
    ask: str
    choices: int = 0
    right: int | None = None


def answer_key_defects(read: Sequence[Lesson], recall: Path, notebooks: Path) -> list[str]:
    """Return one sentence per key that is used twice or in a wrong lesson, per answer that cannot be read, and per
    group of questions whose right answers are unbalanced.

    Args:
        read: The lessons.
        recall: The folder of the banks of recall items; it may be missing.
        notebooks: The folder of the executed notebooks.
    """
    questions: list[Question] = []
    defects: list[str] = []
    for lesson in read:
        # Of a cell that stands in both variants, one is enough.
        code = [cell for cell in lesson.cells if cell.cell_type == "code" and "solution" not in tags_of(cell)]
        outcomes = _outcomes(notebook_path(notebooks, lesson.name, "student"))
        for cell in code:
            python = str(TransformerManager().transform_cell(cell.source))  # `%` and `!` lines become calls
            questions += _questions(python, f"{lesson.path}, cell {cell.id}", lesson.name[:2], outcomes, defects)
    for path in sorted(recall.glob("lesson[0-9][0-9].py")):
        questions += _questions(path.read_text(encoding="utf-8"), str(path), path.stem[-2:], {}, defects)
    return [*defects, *_repeated(questions), *_unbalanced(questions)]


def _questions(
    source: str, where: str, lesson: str, outcomes: dict[str, int], defects: list[str]
) -> Iterator[Question]:
    """Yield the questions of a cell or module; what cannot be read is added to the defects."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return  # found elsewhere
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        ask = ast.unparse(call.func).rpartition(".")[2]
        if ask not in _ASKS:
            continue
        key = _argument(call, "key", 0)
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            defects.append(f"{where}: the key of {ask}(...) is not written out; write it as a text.")
            continue
        if not key.value.startswith(f"{lesson}-"):
            defects.append(f"{where}: the key {key.value!r} must start with '{lesson}-', the number of its lesson.")
        place = _ASKS[ask]
        answers = _elements(_argument(call, *place)) if place is not None else []
        right = outcomes.get(key.value) if ask == "predict" else _marked(answers)
        if ask in ("quiz", "RecallItem") and right is None:
            defects.append(
                f"{where}: the right answer of {key.value!r} cannot be read; write the choices out, one of them as "
                "Choice(..., right=True)."
            )
        yield Question(where, key.value, ask, len(answers), right)


def _argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    named = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    return named or (call.args[position] if len(call.args) > position else None)


def _elements(node: ast.expr | None) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.List | ast.Tuple) else []


def _marked(answers: Sequence[ast.expr]) -> int | None:
    """Return the place of the one Choice that is marked as right."""
    marks = [_argument(answer, "right", 1) if isinstance(answer, ast.Call) else None for answer in answers]
    right = [place for place, mark in enumerate(marks) if isinstance(mark, ast.Constant) and mark.value is True]
    return right[0] if len(right) == 1 else None


def _outcomes(path: Path) -> dict[str, int]:
    """Return what the runs of a notebook gave, by the key of the prediction: the place of that option."""
    try:
        cells = read_notebook(path).cells
    except NotebookError:
        return {}  # missing or broken, which is found elsewhere
    found = {}
    for output in (output for cell in cells for output in cell.get("outputs", [])):
        name = str(output.get("data", {}).get("text/plain", ""))
        match = _OUTCOME.search(str(output.get("data", {}).get("text/markdown", "")))
        if name.startswith("result of prediction ") and match:
            found[name.removeprefix("result of prediction ")] = ord(match[2] or match[1]) - ord("A")
    return found


def _repeated(questions: Sequence[Question]) -> Iterator[str]:
    """Yield keys that name two items."""
    items = [(question.key, question.where) for question in questions if question.ask != "exercise"]
    # An exercise is named again wherever it is shown or checked.
    items += {
        question.key: (question.key, "an exercise") for question in questions if question.ask == "exercise"
    }.values()
    for key, times in Counter(key for key, _ in items).items():
        if times > 1:
            places = "; ".join(where for other, where in items if other == key)
            yield f"The key {key!r} names {times} items ({places}); rename all but one."


def _unbalanced(questions: Sequence[Question]) -> Iterator[str]:
    groups: dict[tuple[str, int], list[Question]] = {}
    for question in questions:
        if question.right is not None and question.choices:
            kind = "predictions" if question.ask == "predict" else "quiz and recall items"
            groups.setdefault((kind, question.choices), []).append(question)
    for (kind, choices), group in sorted(groups.items()):
        places = [question.right for question in group if question.right is not None]
        counts = [places.count(place) for place in range(choices)]
        if moves := _moves(group, counts.copy()):
            shown = ", ".join(f"{_letter(place)} {count}" for place, count in enumerate(counts))
            yield (
                f"The right answers of {len(group)} {kind} with {choices} choices stand at {shown}. No place may hold "
                f"more than half of them, and each must hold one: {'; '.join(moves)}."
            )


def _moves(group: Sequence[Question], counts: list[int]) -> list[str]:
    """Return which right answers to move where, one by one from the fullest place to the emptiest, until it is well."""
    moves: list[str] = []
    waiting = list(group)
    total = len(group)
    while total >= ENOUGH_ITEMS and (2 * max(counts) > total or (min(counts) == 0 and total >= len(counts))):
        full, empty = counts.index(max(counts)), counts.index(min(counts))
        # The last one: it is the newest.
        question = next(question for question in reversed(waiting) if question.right == full)
        waiting.remove(question)
        moves.append(f"move the right answer of {question.key!r} ({question.where}) to {_letter(empty)}")
        counts[full] -= 1
        counts[empty] += 1
    return moves


def _letter(place: int) -> str:
    return chr(ord("A") + place)
