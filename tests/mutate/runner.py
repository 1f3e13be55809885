"""Makes every mistake in a copy of the working tree, one at a time, and says what caught it.

First come the tests that a mutation names. When these pass, the labs are compared with their reference records,
then come all other tests that are quick. A mutation that passes everything is a survivor.
"""

import json
import queue
import re
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from tests.mutate.copy_of_tree import Copy, Run
from tests.mutate.mutation import DoesNotApply, Mutation

ROOT = Path(__file__).parents[2]
PRELOAD = (
    "torch torch.nn.parallel torch.multiprocessing numpy tokenizers safetensors.torch matplotlib.figure jsonargparse "
    "hypothesis xdist.plugin IPython transformers.generation.utils transformers.modeling_utils "
    "transformers.trainer transformers.models.auto.tokenization_auto transformers.models.qwen3.modeling_qwen3"
).split()
# Not these: they look at the text of the repository, or drive a browser, or are this program.
QUICK_TESTS = (
    "tests", "-m", "not slow and not browser", "--ignore=tests/mutate", "--ignore=tests/notebooks",
    "--ignore=tests/test_house.py", "--ignore=tests/test_make.py",
)  # fmt: skip

Status = Literal["caught", "SURVIVED", "NO RESULT"]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """What became of one mistake.

    Attributes:
        name: of the mutation, or of the exercise and its wrong answer.
        status: whether it was caught; "NO RESULT" when it could not be tried.
        by: what caught it, or why there is no result.
        time_s: seconds that it took.
    """

    name: str
    status: Status
    by: str
    time_s: float

    def __str__(self) -> str:
        return f"{self.status:9}  {self.time_s:5.1f} s  {self.name:66}  {self.by}"


@dataclass(frozen=True)
class Stage:
    """One command that may notice a mistake, and where in its output stands what did."""

    module: str
    argv: tuple[str, ...]
    failed: str  # regular expression, whose first group names what failed

    def run(self, copy: Copy, write_bytecode: bool = False) -> Run:
        """Runs the command in a copy."""
        return copy.run(self.module, self.argv, write_bytecode)

    def catcher(self, run: Run) -> str:
        """What noticed; empty when the command ended in any other way than by a failed test."""
        found = re.search(self.failed, run.output, re.MULTILINE)
        return found[1] if run.status == 1 and found else ""


def tests(*arguments: str) -> Stage:
    """Tests, until the first that fails; examples made up by hypothesis are the same every time."""
    # nbval, which none of these tests needs, would take longer to load than most of them run.
    options = "-x -v -p no:cacheprovider -p no:nbval --hypothesis-seed=0 --basetemp=../pytest".split()
    return Stage("pytest", (*options, *arguments), r"^(tests/\S+::.+?) (?:FAILED|ERROR) +\[ *\d+%\]$")


def labs(*names: str) -> Stage:
    """Labs against their reference records; all of them when none is named."""
    return Stage("labs", ("run", *(names or ("--all",)), "--check"), r"^(\w+) +[\d.]+ s  (?!equal to its reference)")


def first_stage(mutation: Mutation) -> Stage:
    """What a mutation names as its catcher."""
    return labs(mutation.lab) if mutation.lab else tests(*mutation.caught_by)


def try_mutation(mutation: Mutation, copy: Copy) -> list[Result]:
    """Makes one mistake in a copy and looks for what notices it."""
    begun_s = time.perf_counter()

    def result(status: Status, by: str) -> list[Result]:
        return [Result(mutation.name, status, by, time.perf_counter() - begun_s)]

    stages = [first_stage(mutation), labs(), tests(*QUICK_TESTS)]
    for number, stage in enumerate(stages):
        try:
            with copy.mutated(mutation):
                run = stage.run(copy)
        except DoesNotApply as error:
            return result("NO RESULT", str(error))
        if run.status == 0:
            continue
        catcher = stage.catcher(run)
        if not catcher:
            return result("NO RESULT", f"{how_it_ended(stage, run)}")
        if number == 0:
            return result("caught", catcher)
        again = labs(catcher) if stage.module == "labs" else tests(catcher)
        if again.run(copy).status != 0:  # the package was tried with the named tests only
            return result("NO RESULT", f"what it names passes, and {catcher} fails without the mutation too")
        return result("caught", f"{catcher} (and not by what it names itself)")
    return result("SURVIVED", f"{mutation.file}: the named tests, the labs and all other quick tests passed")


def how_it_ended(stage: Stage, run: Run) -> str:
    """A command that neither passed nor failed a test, with the last that it said."""
    return f"{stage.module} ended with status {run.status}; the last it said was\n{run.output[-3000:]}"


def try_exercise(key: str, copy: Copy) -> list[Result]:
    """Hands every wrong answer of an exercise to its check."""
    run = copy.run("tests.mutate.banks", [key], write_bytecode=True)
    if run.status != 0:
        return [Result(key, "NO RESULT", run.output[-3000:], 0.0)]
    results = []
    for line in run.output.splitlines():
        tried = json.loads(line)
        problem = tried["problem"]
        results.append(
            Result(tried["name"], "SURVIVED" if problem else "caught", problem or "its check", tried["time_s"])
        )
    return results


def unmutated_problems(copies: Sequence[Copy], mutations: Sequence[Mutation]) -> list[str]:
    """Runs all that the mutations name on the package as it is, the files divided among the copies.

    Returns:
        What failed; mutations that fail the same tests would prove nothing.
    """
    named = sorted({test for mutation in mutations for test in mutation.caught_by})
    files = sorted({test.partition("::")[0] for test in named})
    problems: list[str] = []

    def check(index: int) -> None:
        mine = files[index :: len(copies)]
        stages = [tests(*(test for test in named if test.partition("::")[0] in mine))] if mine else []
        stages += [labs(lab) for lab in sorted({m.lab for m in mutations} - {""})][index :: len(copies)]
        for stage in stages:
            run = stage.run(copies[index], write_bytecode=True)
            if run.status != 0:
                problems.append(stage.catcher(run) or how_it_ended(stage, run))

    in_parallel([partial(check, index) for index in range(len(copies))])
    return problems


def in_parallel(calls: Sequence[Callable[[], None]]) -> None:
    """Runs each call in a thread of its own; raises what the first of them raised."""
    errors: list[BaseException] = []

    def guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def mutate(
    mutations: Sequence[Mutation],
    exercises: Sequence[str] = (),
    jobs: int = 2,
    root: Path = ROOT,
    preload: Sequence[str] = tuple(PRELOAD),
    say: Say = print,
) -> int:
    """Tries every mistake and says, a line each, what caught it.

    Args:
        mutations: of the package.
        exercises: keys of the exercises whose wrong answers to try.
        jobs: copies to work in at the same time.
        root: the working tree.
        preload: libraries to import once.
        say: takes each line.

    Returns:
        The exit status: 1 when a mistake was not caught, or could not be tried.
    """
    begun_s = time.perf_counter()
    results: list[Result] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="minimind-mutate-")))
        copies = []
        for index in range(jobs):
            (folder / str(index)).mkdir()
            copies.append(stack.enter_context(Copy(root, folder / str(index), preload)))
        if problems := unmutated_problems(copies, mutations):
            say("without any mutation these do not pass, so that nothing can be said of mutations:")
            say("\n".join(problems))
            return 1
        say(f"without a mutation all named tests pass  ({time.perf_counter() - begun_s:.0f} s)")

        waiting: queue.SimpleQueue[Callable[[Copy], list[Result]]] = queue.SimpleQueue()
        for key in exercises:
            waiting.put(partial(try_exercise, key))
        for mutation in mutations:
            waiting.put(partial(try_mutation, mutation))

        def work(copy: Copy) -> None:
            while True:
                try:
                    task = waiting.get_nowait()
                except queue.Empty:
                    return
                for result in task(copy):
                    results.append(result)
                    say(str(result))

        in_parallel([partial(work, copy) for copy in copies])
    return _summary(results, time.perf_counter() - begun_s, say)


def _summary(results: Sequence[Result], time_s: float, say: Say) -> int:
    missed = [result for result in results if result.status != "caught"]
    say(f"\n{len(results)} mistakes, {len(results) - len(missed)} caught, in {time_s:.0f} s")
    for result in missed:
        say(f"{result.status}: {result.name}\n    {result.by}")
    return int(bool(missed))
