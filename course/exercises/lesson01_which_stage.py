"""Lesson 1, first exercise: say which stage makes which number better or worse, and be compared with a run.

The right answers are not written here; they are read from the record of the lab, so that a table which no longer holds
cannot stay.
"""

from collections.abc import Callable, Mapping
from typing import Any

from course.kit.exercises import Exercise, Verdict, WrongAnswer
from labs.lab import load_reference
from labs.trace_whole_game import MEASURES, as_words

Expect = Callable[[str], Any]

STAGES = ("pretraining", "fine-tuning")
WORDS = ("better", "same", "worse")

LEAST_CHANGE = 0.25
"""A change by less than a quarter, of a loss or of all questions, is called the same."""

WHY = {
    ("document_loss", "pretraining"): "Documents are what it was trained on.",
    ("document_loss", "fine-tuning"): (
        "No update asked it for documents any more, and each one moved parameters that had been good for them: the "
        "model *forgets*."
    ),
    ("answer_loss", "pretraining"): (
        "Answers are made of the same words and facts as documents, so they surprise it less, although it cannot give "
        "one yet."
    ),
    ("answer_loss", "fine-tuning"): "Answers are all that it was asked for.",
    ("valid_sentences", "pretraining"): "To continue a document is to write sentences.",
    ("valid_sentences", "fine-tuning"): "After the beginning of a story it no longer goes on as a story: it forgets.",
    ("exact_sums_never_trained", "pretraining"): "It has never seen the form of an answer.",
    ("exact_sums_never_trained", "fine-tuning"): (
        "It knows the sums that it has seen. It did not find the rule behind them, so the others stay unknown."
    ),
}
"""Why it came out so, where the measure does not share its reason with others."""

WHY_EXACT = {
    "pretraining": (
        "An answer in the turns of a conversation is a form that no document has. Even of what it knows by then it "
        "gives none in that form: it takes the question for text to continue."
    ),
    "fine-tuning": "It was shown thousands of questions with their answers.",
}


def which_stage(measure: str) -> tuple[str, str]:
    """The reference answer."""
    table = {
        "document_loss": ("better", "worse"),
        "answer_loss": ("better", "better"),
        "valid_sentences": ("better", "worse"),
        "exact_facts": ("same", "better"),
        "exact_sums": ("same", "better"),
        "exact_stories": ("same", "better"),
        "exact_sums_never_trained": ("same", "same"),
    }
    return table[measure]


def what_happened(values: Mapping[str, Any]) -> dict[tuple[str, str], tuple[str, float, float]]:
    """For each measure and stage: better, same or worse, and the number before and after.

    Args:
        values: of a record of the lab.
    """
    found = {}
    for measure in MEASURES:
        moments = [float(values[f"{measure}_{moment}"]) for moment in ("untrained", "pretrained", "fine_tuned")]
        for stage, before, after in zip(STAGES, moments[:-1], moments[1:], strict=True):
            is_loss = measure.endswith("_loss")
            gain = (before - after) / max(before, after) if is_loss else after - before
            word = "same" if abs(gain) < LEAST_CHANGE else "better" if gain > 0 else "worse"
            found[measure, stage] = word, before, after
    return found


def check_which_stage(expect: Expect) -> Verdict:
    """Compares fourteen expectations with the reference record, and explains each that came out otherwise."""
    happened = what_happened(load_reference("trace_whole_game").values)
    surprises = []
    for measure, words in MEASURES.items():
        expected = expect(measure)
        if expected is None:
            return Verdict.wrong(f"`expect({measure!r})` returns nothing; return a pair such as `('better', 'same')`.")
        if isinstance(expected, str) or not isinstance(expected, tuple | list) or len(expected) != 2:
            return Verdict.wrong(
                f"`expect({measure!r})` returns `{expected!r}`; return a pair, one word for pretraining and one for "
                "fine-tuning."
            )
        for stage, word in zip(STAGES, expected, strict=True):
            if word not in WORDS:
                return Verdict.wrong(
                    f"`expect({measure!r})` says `{word!r}` of {stage}; use one of {', '.join(WORDS)}. *Better* is "
                    "what one wants: a smaller loss, a larger share."
                )
            right, before, after = happened[measure, stage]
            if word != right:
                why = WHY.get((measure, stage)) or WHY_EXACT[stage]
                surprises.append(
                    f"- **{words}**, {stage}: you expect *{word}*, and it came out *{right}*, from "
                    f"{as_words(measure, before)} to {as_words(measure, after)}. {why}"
                )
    if surprises:
        held = len(happened) - len(surprises)
        return Verdict.wrong(
            f"{held} of {len(happened)} expectations hold in the recorded run. The others:\n\n" + "\n".join(surprises)
        )
    return Verdict.correct(
        "All fourteen hold in the recorded run. Pretraining gives the words, the sentences and many facts; fine-tuning "
        "gives the form of an answer and whatever the documents had not taught yet, and costs the stories."
    )


def _with(**changes: tuple[str, str]) -> Expect:
    return lambda measure: changes.get(measure) or which_stage(measure)


WHICH_STAGE = Exercise(
    key="01-which-stage",
    title="Which stage changes which number",
    task=(
        "Write `expect(measure)`: for each of the seven measures a pair of words, what pretraining did to it and what "
        "fine-tuning did to it. The words are `'better'`, `'worse'` and `'same'`."
    ),
    check=check_which_stage,
    reference=which_stage,
    wrong_answers=(
        WrongAnswer("every stage makes everything better", lambda m: ("better", "better"), "**loss on documents**"),
        WrongAnswer(
            "fine-tuning leaves what was learned", _with(document_loss=("better", "same")), "the model *forgets*"
        ),
        WrongAnswer("it can still write stories", _with(valid_sentences=("better", "same")), "no longer goes on"),
        WrongAnswer("pretraining answers facts", _with(exact_facts=("better", "better")), "text to continue"),
        WrongAnswer("pretraining answers sums", _with(exact_sums=("better", "same")), "thousands of questions"),
        WrongAnswer("the answer loss waits", _with(answer_loss=("same", "better")), "the same words and facts"),
        WrongAnswer("it learned to add", _with(exact_sums_never_trained=("same", "better")), "the rule behind them"),
        WrongAnswer("stories stay out of reach", _with(exact_stories=("same", "same")), "questions on a story"),
        WrongAnswer("stages swapped", lambda m: which_stage(m)[::-1], "**loss on documents**, pretraining"),
        WrongAnswer(
            "a smaller loss called worse",
            _with(document_loss=("worse", "better"), answer_loss=("worse", "worse")),
            "10 of 14",
        ),
        WrongAnswer("one word", lambda m: "better", "return a pair"),
        WrongAnswer("up and down", lambda m: ("down", "up"), "use one of"),
        WrongAnswer("nothing inside", lambda m: (None, None), "use one of"),
        WrongAnswer("true and false", lambda m: (True, False), "use one of"),
    ),
    hints=(
        "For each stage ask what its updates asked the model for. What they did not ask for either stays, or is paid "
        "for it.",
        "A loss can fall although no answer is exact yet: it is enough that the words of an answer have become less "
        "surprising.",
        "Two numbers get worse in fine-tuning; both are about documents. One of the seven changes in neither stage.",
    ),
)

EXERCISES = (WHICH_STAGE,)
