"""The house as a whole: one set of packages in three lists, imports that run downwards, habits that hold."""

import ast
import fnmatch
import importlib.metadata
import itertools
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = {name: [Requirement(line) for line in lines] for name, lines in PROJECT["optional-dependencies"].items()}
DEPENDENCIES = [Requirement(line) for line in PROJECT["dependencies"]]
PINS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]

# The systems that the pins are for. An installed package may need another one on any of them.
SYSTEMS = [
    {
        "python_version": python[:4],
        "python_full_version": python,
        "os_name": os_name,
        "sys_platform": sys_platform,
        "platform_system": platform_system,
    }
    for python in ("3.11.0", "3.12.0", "3.13.0")
    for os_name, sys_platform, platform_system in (
        ("posix", "linux", "Linux"),
        ("posix", "darwin", "Darwin"),
        ("nt", "win32", "Windows"),
    )
]
# pip and setuptools come with the environment; each build of torch brings its own CUDA libraries.
UNPINNED = re.compile(r"pip|setuptools|triton|cuda-.*|nvidia-.*")


# --- one set of packages in three lists -----------------------------------------------------------


def applies(requirement: Requirement, extras: set[str], systems: list[dict[str, str]]) -> bool:
    """Whether `requirement` of a package installed with `extras` is needed on one of `systems`."""
    marker = requirement.marker
    return marker is None or any(
        marker.evaluate({**system, "extra": extra}) for system in systems for extra in extras | {""}
    )


def reached(roots: list[Requirement], systems: list[dict[str, str]]) -> set[str]:
    """The names of every package that `roots` need on one of `systems`, through what is installed."""
    seen: dict[str, set[str]] = {}
    queue = [(root, {""}) for root in roots]
    while queue:
        requirement, extras_of_parent = queue.pop()
        if not applies(requirement, extras_of_parent, systems):
            continue
        name = canonicalize_name(requirement.name)
        if name in seen and requirement.extras <= seen[name]:
            continue
        seen[name] = seen.get(name, set()) | requirement.extras
        if (version := installed_version(name)) is not None:
            needs = importlib.metadata.requires(name) or []
            assert version, f"{name} is installed without a version"
            queue += [(Requirement(need), seen[name]) for need in needs]
    return {name for name in seen if not UNPINNED.fullmatch(name)}


def installed_version(name: str) -> str | None:
    """The installed version of `name` without a build suffix such as +cpu; None when it is not installed."""
    try:
        return Version(importlib.metadata.version(name)).public
    except importlib.metadata.PackageNotFoundError:
        return None


def pins_here() -> dict[str, str]:
    """Pinned name -> version, of the lines that apply to this machine."""
    return {
        canonicalize_name(pin.name): next(iter(pin.specifier)).version
        for pin in PINS
        if pin.marker is None or pin.marker.evaluate()
    }


def test_every_pin_is_exact_and_stands_once_in_order():
    names = [canonicalize_name(pin.name) for pin in PINS]
    assert names == sorted(names)
    for pin in PINS:
        (specifier,) = pin.specifier
        assert specifier.operator == "==" and "*" not in specifier.version and "+" not in specifier.version, pin
    for system in SYSTEMS:
        applying = [pin.name for pin in PINS if pin.marker is None or pin.marker.evaluate(dict(system))]
        assert len(applying) == len(set(applying)) == len(set(names)), f"a package is pinned twice or never on {system}"


def test_every_dependency_is_pinned_at_or_above_its_tested_lower_bound():
    pins = pins_here()
    for dependency in [*DEPENDENCIES, *itertools.chain.from_iterable(EXTRAS.values())]:
        assert {specifier.operator for specifier in dependency.specifier} == {">="}, (
            f"{dependency}: state a lower bound"
        )
        pin = pins.get(canonicalize_name(dependency.name))
        assert pin is not None, f"{dependency.name} is in pyproject.toml and not pinned in constraints.txt"
        assert dependency.specifier.contains(pin), (
            f"constraints.txt pins {dependency.name} at {pin}, below {dependency}"
        )


def test_the_installed_packages_are_the_pinned_ones():
    pins = pins_here()
    here = reached([*DEPENDENCIES, *EXTRAS["test"]], [{}])
    assert len(here) > 50, "the walk over installed packages found next to nothing"
    unpinned = sorted(here - pins.keys())
    assert not unpinned, f"installed and not pinned in constraints.txt: {unpinned}"
    different = [
        f"{name}: installed {installed_version(name)}, pinned {pins[name]}"
        for name in sorted(here)
        if installed_version(name) != pins[name]
    ]
    assert not different, f"not the pinned environment; `make environment` mends it: {different}"


def test_no_pin_is_left_over():
    everywhere = reached([*DEPENDENCIES, *itertools.chain.from_iterable(EXTRAS.values())], SYSTEMS)
    left_over = sorted({canonicalize_name(pin.name) for pin in PINS} - everywhere)
    assert not left_over, f"pinned in constraints.txt, and nothing needs it: {left_over}"


def test_conda_and_make_install_the_same_pins():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    python, pip, packages = environment["dependencies"]
    assert Version(python.removeprefix("python=")) in Requirement(f"python{PROJECT['requires-python']}").specifier
    assert (pip, packages) == ("pip", {"pip": ["-c constraints.txt", "-e .[test]"]})
    assert "pip install --quiet -c constraints.txt -e '.[test]'" in (ROOT / "Makefile").read_text(encoding="utf-8")


# --- imports run downwards ------------------------------------------------------------------------


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the import contracts on the packages in `folder`."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_the_import_contracts_hold():
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("minimind/model/intruder.py", "import matplotlib"),
        ("minimind/train/intruder.py", "from IPython import display"),
        ("minimind/data/intruder.py", "import ipywidgets"),
        ("minimind/train/intruder.py", "import labs"),
        ("minimind/train/intruder.py", "import course"),
        ("labs/intruder.py", "import course"),
        ("minimind/trace/intruder.py", "import minimind.config"),
        ("minimind/model/intruder.py", "import minimind.data.batch"),
        ("minimind/model/intruder.py", "import minimind.train"),
        ("minimind/data/intruder.py", "import minimind.model"),
        ("minimind/data/intruder.py", "import minimind.train"),
        ("minimind/objectives/intruder.py", "import minimind.train"),
        ("minimind/objectives/intruder.py", "import minimind.data.loader"),
        ("minimind/new_room.py", "import json"),
    ],
)
def test_an_import_that_runs_upwards_is_refused(file, line, tmp_path):
    for source in (path for package in ("minimind", "labs", "course") for path in (ROOT / package).rglob("*.py")):
        target = tmp_path / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / file).write_text(line + "\n", encoding="utf-8")
    result = lint_imports(tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert Path(file).stem in result.stdout + result.stderr


# --- habits that hold in every file ---------------------------------------------------------------


# (what, where it may not stand). Written so that this file does not contain what it looks for.
FORBIDDEN_TEXT = {
    "a path of one machine": r"(?<![\w.}\])-])/(ro[o]t|wo[r]k)/|/tmp/scr[a]tch|\.\./sha[r]ed",
    "somebody's home folder": r"/home/(?!(user|you|student|jovyan)\b)[a-z]|\b[A-Z]:\\+Users\\",
    "an issue number": r"\b([Ii]ssue|[Ff]ixes|[Cc]loses) #?\d",
    "a package registry": r"\b(py[p]i\.org|pythonho[s]ted\.org|npm[j]s\.(org|com)|deb\.deb[i]an\.org)",
    "who typed it": r"(?i)\b(cla[u]de|anthro[p]ic|co[p]ilot|sub-?a[g]ents?|AI[- ](generated|written))\b",
}


def texts() -> Iterator[tuple[str, str]]:
    """Every text file that git does not ignore: (path from the root, content)."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    ignored = {line.rstrip("/") for line in lines if line and not line.startswith("#")} | {".git"}
    for folder, folders, files in os.walk(ROOT):
        anchor = "/" if Path(folder) == ROOT else None

        def kept(name: str, anchor: str | None = anchor) -> bool:
            names = [name] if anchor is None else [name, anchor + name]
            return not any(fnmatch.fnmatch(each, pattern) for each in names for pattern in ignored)

        folders[:] = filter(kept, folders)
        for path in (Path(folder) / name for name in filter(kept, files)):
            try:
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # a picture or weights


def code() -> Iterator[tuple[str, str]]:
    """The Python of every module and of every notebook cell: (where, source)."""
    for path, text in texts():
        if path.endswith(".py"):
            yield path, text
        elif path.endswith(".ipynb"):
            for cell in nbformat.reads(text, as_version=4).cells:
                if cell.cell_type == "code":
                    lines = [line for line in cell.source.splitlines() if not line.lstrip().startswith(("%", "!"))]
                    yield f"{path}, cell {cell.id}", "\n".join(lines)


def bad_habits(source: str) -> list[str]:
    """What in `source` hides a mistake, runs what a file says, or depends on where a program was started."""
    found = []
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # a notebook cell may await
    for node in ast.walk(compile(source, "source", "exec", flags)):
        if isinstance(node, ast.ExceptHandler):
            everything = node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
            if everything and all(isinstance(line, ast.Pass | ast.Continue) for line in node.body):
                found.append(f"line {node.lineno}: every error is swallowed")
        if not isinstance(node, ast.Call):
            continue
        function = ast.unparse(node.func)
        keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        first = ast.unparse(node.args[0]).strip("'\"") if node.args else keywords.get("action", "").strip("'\"")
        refused = (
            function in ("eval", "exec", "pickle.load", "pickle.loads", "pickle.Unpickler")
            or re.fullmatch(r"sys\.path\.(insert|append|extend)", function) is not None
            or (function.endswith(("filterwarnings", "simplefilter")) and first == "ignore")
            or re.fullmatch(r"(pytest\.|pytest\.mark\.)?(skip|skipif|xfail|importorskip)", function) is not None
            or (keywords.get("strict") == "False" and function != "zip")
            or keywords.get("trust_remote_code") == "True"
            or keywords.get("weights_only") == "False"
        )
        if refused:
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def test_the_search_reads_every_room_and_nothing_that_git_ignores():
    folders = {path.split("/")[0] for path, _ in texts()}
    assert {"minimind", "labs", "course", "notebooks", "tests", ".ci", "README.md", "Makefile"} <= folders
    assert not folders & {".git", ".venv", "work", "out", "checkpoints", ".mypy_cache", "minimind_course.egg-info"}


def test_no_file_names_a_machine_a_person_or_a_registry():
    found = [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {what}: {match.group()}"
        for path, text in texts()
        for what, pattern in FORBIDDEN_TEXT.items()
        for match in re.finditer(pattern, text)
        # tests of the searches for such paths have to make some up
        if not (what == "somebody's home folder" and path.startswith("tests/"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "see /ro" + "ot/x",
        "open('/wo" + "rk/main/a')",
        "/tmp/scr" + "atch/a",
        "../sha" + "red/A.md",
        "/home/" + "mia/a",
        "C:\\Us" + "ers\\mia",
        "as issue " + "12 says",
        "fixes " + "#3",
        "https://py" + "pi.org/simple",
        "AI-" + "generated",
    ],
)
def test_a_forbidden_text_is_found(text):
    assert any(re.search(pattern, text) for pattern in FORBIDDEN_TEXT.values())


@pytest.mark.parametrize(
    "text",
    [
        "course/work/a",
        "{ROOT}/work/a",
        "/home/student/course",
        "an issue of 3 pages",
        "agentic RL",
        "../out/a",
    ],
)
def test_an_ordinary_text_is_not_taken_for_a_forbidden_one(text):
    assert not [what for what, pattern in FORBIDDEN_TEXT.items() if re.search(pattern, text)]


def test_no_code_hides_a_mistake():
    found = [f"{where}, {habit}" for where, source in code() for habit in bad_habits(source)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "model.load_state_dict(weights, strict=False)",
        "AutoModel.from_pretrained(folder, trust_remote_code=True)",
        "torch.load(path, weights_only=False)",
        "pickle.load(file)",
        "eval(reply)",
        "sys.path.insert(0, folder)",
        "sys.path.append(folder)",
        "warnings.filterwarnings('ignore')",
        "warnings.simplefilter(action='ignore')",
        "pytest.skip('later')",
        "@pytest.mark.xfail()\ndef f(): ...",
        "try:\n    save()\nexcept Exception:\n    pass",
        "try:\n    save()\nexcept:\n    pass",
    ],
)
def test_a_bad_habit_is_found(source):
    assert bad_habits(source)


@pytest.mark.parametrize(
    "source",
    [
        "model.eval()",
        "model.load_state_dict(weights, strict=True)",
        "zip(a, b, strict=False)",
        "print(sys.path)",
        "warnings.simplefilter('error')",
        "'never eval(reply)'",
        "try:\n    save()\nexcept FileNotFoundError:\n    pass",
    ],
)
def test_ordinary_code_is_not_taken_for_a_bad_habit(source):
    assert not bad_habits(source)


# --- tests stay on this machine -------------------------------------------------------------------


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("2001:db8::1", 80), ("example.org", 80)])
def test_a_connection_that_leaves_this_machine_is_refused_and_remembered(address, network_attempts):
    with pytest.raises(RuntimeError, match="tests run offline"):
        socket.create_connection(address, timeout=1)
    assert network_attempts == [address[0]]
    network_attempts.clear()  # or the guard fails this test, as it should any other


def test_a_connection_to_this_machine_is_allowed():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1]), timeout=5).close()


def test_tests_never_ask_a_hub_and_compute_on_stated_threads():
    assert os.environ["HF_HUB_OFFLINE"] == os.environ["TRANSFORMERS_OFFLINE"] == "1"
    assert os.environ["OMP_NUM_THREADS"]
