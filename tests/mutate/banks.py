"""The wrong answers of every exercise, handed to its check one by one.

python -m tests.mutate.banks              names every wrong answer, one a line
python -m tests.mutate.banks KEY          tries those of one exercise; a line of JSON for each
"""

import dataclasses
import json
import sys
import time
from dataclasses import asdict, dataclass

from course.kit.exercises import Exercise, find_exercises, judge, prove


@dataclass(frozen=True)
class Tried:
    """What the check of an exercise said to one wrong answer.

    Attributes:
        name: of the exercise and of the wrong answer.
        problem: why the answer counts as not caught; empty when it was.
        time_s: seconds that the check took.
    """

    name: str
    problem: str
    time_s: float


def names(exercise: Exercise) -> list[str]:
    """How the wrong answers of an exercise are called here."""
    return [f"{exercise.key}: {wrong.name}" for wrong in exercise.wrong_answers]


def try_bank(exercise: Exercise) -> list[Tried]:
    """Each wrong answer must be called wrong, in the words that it expects, by a check that is sound otherwise."""
    # What is wrong with the check itself; that there are no wrong answers is said by the course's own tests.
    unsound = [p for p in prove(dataclasses.replace(exercise, wrong_answers=())) if "no wrong answers" not in p]
    tried = []
    for name, wrong in zip(names(exercise), exercise.wrong_answers, strict=True):
        begun_s = time.perf_counter()
        verdict = judge(exercise, wrong.function)
        problem = "; ".join(unsound)
        if verdict.status != "wrong":
            problem = f"the check says {verdict.status}: {verdict.message}"
        elif wrong.expect_in_message not in verdict.message:
            problem = f"the check rejects it without the words {wrong.expect_in_message!r}: {verdict.message}"
        tried.append(Tried(name, problem, time.perf_counter() - begun_s))
    return tried


def main(argv: list[str]) -> None:
    """Names all wrong answers, or tries those of the exercise named."""
    exercises = find_exercises()
    if not argv:
        for exercise in exercises.values():
            print(*names(exercise), sep="\n")
        return
    for tried in try_bank(exercises[argv[0]]):
        print(json.dumps(asdict(tried)))


if __name__ == "__main__":
    main(sys.argv[1:])
