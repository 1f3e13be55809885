"""The list of mistakes is alive, and a mistake that nothing notices does not stay hidden."""

import ast
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from course.kit.exercises import Exercise, Verdict, WrongAnswer
from tests.mutate import __main__ as command
from tests.mutate import copy_of_tree
from tests.mutate.banks import main as name_banks
from tests.mutate.banks import try_bank
from tests.mutate.copy_of_tree import Copy, copy_tree
from tests.mutate.mutation import DoesNotApply, Mutation
from tests.mutate.mutations import MUTATIONS
from tests.mutate.runner import ROOT, mutate

# --- the list ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_applies_and_changes_what_the_code_does(mutation):
    before = ast.parse((ROOT / mutation.file).read_text(encoding="utf-8"))
    after = ast.parse(mutation.mutated(ROOT))
    assert ast.dump(after) != ast.dump(before)


def test_every_mutation_has_a_name_of_its_own_and_names_what_should_notice():
    assert [name for name, times in Counter(m.name for m in MUTATIONS).items() if times > 1] == []
    for mutation in MUTATIONS:
        assert bool(mutation.caught_by) != bool(mutation.lab), mutation.name
        for test in mutation.caught_by:
            file, _, name = test.partition("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            assert name and f"def {name}(" in text, f"{mutation.name}: there is no {test}"
        assert not mutation.lab or (ROOT / "labs" / f"{mutation.lab}.py").is_file(), mutation.name


@pytest.mark.parametrize(("text", "times"), [("x = 2\n", 0), ("x = 1\ny = 1\n", 2)])
def test_a_mutation_of_what_is_not_there_once_is_refused_by_name(text, times, tmp_path):
    mutation = Mutation("one is two", "a.py", "= 1", "= 2", ("tests/test_a.py::test_a",))
    with pytest.raises(DoesNotApply, match="there is no a.py"):
        mutation.mutated(tmp_path)
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    with pytest.raises(DoesNotApply, match=rf"'one is two'.*a\.py.*{times} times"):
        mutation.mutated(tmp_path)


# --- the runner, on a house of a few lines ----------------------------------------------------------

HOUSE = {
    ".gitignore": ".venv/\n__pycache__/\n/out\n",
    "minimind/__init__.py": "ONE, TWO, THREE = 1, 2, 3\nFOUR = 4\n# a comment\n",
    "labs/__init__.py": "",
    "labs/__main__.py": (
        "import sys\n"
        "from minimind import TWO\n"
        "verdict = 'equal to its reference' if TWO == 2 else '1 field differs from its reference: two'\n"
        "print(f'counting     0.1 s  {verdict}')\n"
        "sys.exit(TWO != 2)\n"
    ),
    "tests/__init__.py": "",
    "tests/conftest.py": "",
    "tests/test_named.py": (
        "import pytest\n"
        "import minimind\n"
        "@pytest.mark.parametrize('right', [1], ids=['1 - as it should be'])\n"
        "def test_one(right):\n"
        "    assert minimind.ONE == right\n"
    ),
    "tests/test_others.py": (
        "import minimind\ndef test_three():\n    assert minimind.THREE == 3\n"
        "def test_always_fails_late():\n    assert minimind.FOUR == 5 or minimind.THREE != 3\n"
    ),
}
NAMED = "tests/test_named.py::test_one"


def change(name: str, old: str, new: str, caught_by: str = NAMED) -> Mutation:
    return Mutation(name, "minimind/__init__.py", old, new, (caught_by,))


def house(folder: Path, **changes: str) -> Path:
    """A working tree with the packages of ours that a run may import, and the process that runs commands."""
    root = folder / "house"
    for name, text in {**HOUSE, **changes}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (root / "tests" / "mutate").mkdir()
    for name in ("__init__.py", "warm_python.py"):
        shutil.copy(ROOT / "tests" / "mutate" / name, root / "tests" / "mutate")
    return root


def run(root: Path, mutations: list[Mutation], jobs: int = 2) -> tuple[int, list[str]]:
    lines: list[str] = []
    status = mutate(mutations, jobs=jobs, root=root, preload=(), say=lines.append)
    return status, "\n".join(lines).splitlines()


def line_of(name: str, lines: list[str]) -> str:
    (line,) = (line for line in lines if f"  {name}  " in line)
    return line


def test_what_notices_a_mistake_is_named_and_the_tree_itself_stays_as_it_was(tmp_path):
    root = house(tmp_path)
    mistakes = [
        change("one is five", "ONE, TWO, THREE = 1,", "ONE, TWO, THREE = 5,"),
        change("two is five", "2,", "5,"),
    ]
    status, lines = run(root, mistakes)
    assert line_of("one is five", lines).startswith("caught")
    assert line_of("one is five", lines).endswith(f"  {NAMED}[1 - as it should be]")
    assert line_of("two is five", lines).endswith("  counting (and not by what it names itself)")
    assert status == 0
    assert (root / "minimind" / "__init__.py").read_text(encoding="utf-8") == HOUSE["minimind/__init__.py"]


def test_a_mistake_that_nothing_notices_is_named_and_the_status_is_1(tmp_path):
    others = HOUSE["tests/test_others.py"].split("def test_always")[0]
    root = house(tmp_path, **{"tests/test_others.py": others})
    status, lines = run(
        root, [change("a comment changes", "# a comment", "# another"), change("three", ", 3\n", ", 4\n")]
    )
    assert line_of("a comment changes", lines).startswith("SURVIVED")
    assert line_of("three", lines).endswith("tests/test_others.py::test_three (and not by what it names itself)")
    assert lines[-2] == "SURVIVED: a comment changes"
    assert status == 1


def test_a_run_that_says_nothing_of_the_mistake_gives_no_result(tmp_path):
    root = house(tmp_path)
    mistakes = [
        change("gone", "SIX = 6", "SIX = 7"),
        change("no Python", "FOUR = 4", "FOUR ="),
        change("fails without it too", "FOUR = 4", "FOUR = 40"),
    ]
    status, lines = run(root, mistakes)
    assert status == 1
    assert "'gone' does not apply: minimind/__init__.py contains 'SIX = 6' 0 times" in line_of("gone", lines)
    assert "NO RESULT" in line_of("no Python", lines) and any("SyntaxError" in line for line in lines)
    late = line_of("fails without it too", lines)
    assert late.startswith("NO RESULT") and late.endswith("test_always_fails_late fails without the mutation too")
    assert f"{len(mistakes)} mistakes, 0 caught" in "\n".join(lines)


def test_when_a_named_test_fails_without_any_mistake_none_is_made(tmp_path):
    root = house(tmp_path, **{"minimind/__init__.py": "ONE, TWO, THREE = 5, 2, 3\n"})
    status, lines = run(root, [change("one is six", "= 5,", "= 6,")], jobs=1)
    assert status == 1
    assert lines[0].startswith("without any mutation these do not pass")
    assert lines[1].startswith(NAMED)
    assert len(lines) == 2


def test_a_package_that_is_not_the_copy_s_own_is_noticed(tmp_path):
    root = house(tmp_path)
    shutil.rmtree(root / "minimind")  # so that the installed one is imported
    test = "import minimind\ndef test_one():\n    assert minimind.__file__\n"
    (root / "tests" / "test_named.py").write_text(test, encoding="utf-8")
    status, lines = run(root, [change("anything", "a", "b")], jobs=1)
    assert status == 1
    assert any("imported from outside" in line and "minimind" in line for line in lines)


def test_a_command_that_does_not_end_is_killed_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(copy_of_tree, "LIMIT_S", 1)
    endless = "import time\nwhile True:\n    print('.', end='', flush=True)\n    time.sleep(0.02)\n"
    starts_it = "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'minimind.endless'])\n"
    root = house(tmp_path, **{"minimind/endless.py": endless, "minimind/starts_it.py": starts_it})
    with Copy(root, tmp_path) as copy:
        assert copy.run("minimind.starts_it", []).status == -signal.SIGALRM
        output = tmp_path / "output"
        size = output.stat().st_size
        time.sleep(0.2)
        assert output.stat().st_size <= size + 1  # one may have been on its way
        assert copy.run("no_such_module", []).status == 1  # and the next command runs


def test_a_copy_holds_what_git_would_and_no_environment(tmp_path):
    root = house(tmp_path)
    for name in (".git/HEAD", ".venv/a", "env/pyvenv.cfg", "out/w", "minimind/__pycache__/a.pyc", "minimind/out/kept"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    copy_tree(root, tmp_path / "copy")
    names = {
        path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*") if path.is_file()
    }
    assert names == {*HOUSE, "minimind/out/kept", "tests/mutate/__init__.py", "tests/mutate/warm_python.py"}


# --- banks and the command --------------------------------------------------------------------------


def check_double(function) -> Verdict:
    if function(3) == 9:
        return Verdict.wrong("that is the square.")
    return Verdict.correct("Twice as much.") if function(2) == 4 else Verdict.wrong("twice 2 is 4.")


def bank(reference=lambda x: 2 * x, **functions) -> list[str]:
    wrong = tuple(WrongAnswer(name, function, "square") for name, function in functions.items())
    exercise = Exercise("01-double", "Double", "Write it.", check_double, reference, wrong, ("Add.",))
    return [f"{tried.name}: {tried.problem}" for tried in try_bank(exercise)]


def test_a_wrong_answer_that_its_check_accepts_or_takes_for_another_mistake_is_named():
    assert bank(square=lambda x: x * x) == ["01-double: square: "]
    assert bank(sum=lambda x: x + x)[0].startswith("01-double: sum: the check says correct")
    assert "without the words 'square': twice 2 is 4." in bank(three=lambda x: 3)[0]
    assert "the reference is wrong" in bank(reference=lambda x: 3, square=lambda x: x * x)[0]


def test_the_banks_of_the_course_have_names(capsys):
    name_banks([])
    names = capsys.readouterr().out.splitlines()
    assert "07-update: mean of means" in names
    assert len(names) == len(set(names)) > 20


def test_the_command_names_mistakes_and_makes_those_asked_for(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(command, "wrong_answers", lambda: ["01-double: square", "01-double: twice it all"])
    monkeypatch.setattr(command, "mutate", lambda *arguments: asked.append(arguments) or 1)
    assert command.main(["--list", "--only", "Twice"]) == 0
    assert {"labels are shifted twice", "01-double: twice it all"} <= set(capsys.readouterr().out.splitlines())
    assert command.main(["--only", "shifted TWICE", "--jobs", "3"]) == 1
    ((mutations, exercises, jobs),) = asked
    assert ([m.name for m in mutations], exercises, jobs) == (["labels are shifted twice"], [], 3)
    with pytest.raises(SystemExit):
        command.main(["--only", "no such mistake"])
    assert "no mistake is called 'no such mistake'" in capsys.readouterr().err
