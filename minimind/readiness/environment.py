"""Checks of what is installed: Python, packages, the text and the browser that come with the course.

Nothing is fetched: versions come from the metadata of what is installed, corpora are compared with the hashes that
lie beside them.
"""

import hashlib
import importlib.metadata
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import minimind
from minimind.data.corpora import corpus_path
from minimind.readiness.finding import Finding
from minimind.readiness.machine import Machine

ROOT = Path(minimind.__file__).parents[1]
"""The course's folder, when the package runs from a checkout."""
DISTRIBUTION = "minimind-course"
OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[\w, -]+\])?\s*>=\s*([\d.]+)(?:\s*;\s*extra == [\"']([\w-]+)[\"'])?")
_LISTED_FILE = re.compile(r"^\| (\S+\.jsonl) \| ([\d,]+) \| [\d,]+ \| ([0-9a-f]{64}) \|$", re.MULTILINE)

Installed = Callable[[str], str | None]
"""Name of a package -> its installed version, or None."""


def installed_version(name: str) -> str | None:
    """The version of an installed package; None when it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """The Python that runs this."""
    found, needed = ".".join(map(str, version)), "3.11 to 3.13"
    if version[:2] < OLDEST_PYTHON:
        return Finding("python", found, needed, "missing", "make environment PYTHON=python3.11")
    if version[:2] > NEWEST_PYTHON:
        return Finding("python", found, needed, "degraded", "make environment PYTHON=python3.13")
    return Finding("python", found, needed)


def check_packages(installed: Installed = installed_version, root: Path = ROOT) -> list[Finding]:
    """Each package that the course depends on, against its lower bound and its pin."""
    pins = _pins(root)
    findings = []
    for name, lower in _requirements(root)[""].items():
        version, pin = installed(name), pins.get(name)
        needed = f"{pin}, the pin" if pin else f"at least {lower}"
        fix = f"python -m pip install {name}=={pin}" if pin else f"python -m pip install '{name}>={lower}'"
        if version is None:
            findings.append(Finding(f"package {name}", "not installed", needed, "missing", fix))
        elif _release(version) < _release(lower):
            findings.append(Finding(f"package {name}", version, f"at least {lower}; {needed}", "missing", fix))
        elif pin and version.partition("+")[0] != pin:
            findings.append(Finding(f"package {name}", version, needed, "degraded", fix))
        else:
            findings.append(Finding(f"package {name}", version, needed))
    return findings


def check_torch_build(machine: Machine, torch_version: str) -> Finding:
    """Whether torch can use the GPU that is here."""
    kinds = {each.device.partition(":")[0] for each in machine.accelerators}
    build = "CUDA" if "cuda" in kinds else "Apple GPU" if "mps" in kinds else "CPU"
    found = f"{torch_version} on {build}"
    if machine.nvidia_driver and "cuda" not in kinds:
        plain = torch_version.partition("+")[0]
        fix = f"python -m pip install --force-reinstall --no-deps torch=={plain}"
        return Finding("torch build", f"{found}, beside an NVIDIA driver", "a CUDA build", "degraded", fix)
    return Finding("torch build", found, "a build for this machine")


def check_corpus(name: str, folder: Path | None = None) -> Finding:
    """Whether a shipped corpus is whole: every file as its SOURCES.md says, byte for byte.

    Args:
        name: of the corpus.
        folder: where it lies; None is where it is shipped.
    """
    folder = folder or corpus_path(name)
    sources = folder / "SOURCES.md"
    listed = _LISTED_FILE.findall(sources.read_text(encoding="utf-8")) if sources.is_file() else []
    documents = sum(int(rows.replace(",", "")) for _, rows, _ in listed)
    needed = f"{documents:,} documents, byte for byte" if listed else "its SOURCES.md, which lists its files"
    problems = [] if listed else ["no list of its files"]
    for file, rows, digest in listed:
        content = (folder / file).read_bytes() if (folder / file).is_file() else None
        if content is None:
            problems.append(f"{file} is not there")
        elif hashlib.sha256(content).hexdigest() != digest:
            rows_here = content.count(b"\n")
            problems.append(
                f"{file} has {rows_here:,} of {rows} rows" if f"{rows_here:,}" != rows else f"{file} differs"
            )
    if problems:
        fix = f"git restore minimind/data/corpora/{name}"
        return Finding(f"corpus {name}", "; ".join(problems), needed, "missing", fix)
    return Finding(f"corpus {name}", f"{documents:,} documents", needed)


def check_tests(installed: Installed = installed_version, root: Path = ROOT) -> list[Finding]:
    """What only `make test` needs; a lesson works without."""
    names = list(_requirements(root)["test"])
    missing = [name for name in names if installed(name) is None]
    needed = f"{len(names)} packages, for make test"
    if missing:
        fix = "python -m pip install -c constraints.txt -e '.[test]'"
        packages = Finding("tests packages", f"without {', '.join(missing)}", needed, "degraded", fix)
    else:
        packages = Finding("tests packages", f"all {len(names)}", needed)
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), "")
    if browser:
        return [packages, Finding("tests browser", Path(browser).name, "Chromium or Chrome, for make test")]
    fix = "brew install --cask chromium" if sys.platform == "darwin" else "sudo apt-get install chromium"
    return [packages, Finding("tests browser", "none", "Chromium or Chrome, for make test", "degraded", fix)]


def _requirements(root: Path) -> dict[str, dict[str, str]]:
    """Name -> lower bound, of the packages that are always needed (under "") and of those for tests ("test")."""
    if (root / "pyproject.toml").is_file():
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        tests = project["optional-dependencies"]["test"]
        lines = [*project["dependencies"], *(f'{line}; extra == "test"' for line in tests)]
    else:  # installed as a wheel, away from the checkout
        lines = importlib.metadata.requires(DISTRIBUTION) or []
    found: dict[str, dict[str, str]] = {"": {}, "test": {}}
    for line in lines:
        match = _REQUIREMENT.fullmatch(line)
        assert match is not None, f"a requirement without a plain lower bound: {line}"
        found.setdefault(match[3] or "", {})[match[1]] = match[2]
    return found


def _pins(root: Path) -> dict[str, str]:
    """Name -> pinned version; empty where there is no constraints.txt."""
    path = root / "constraints.txt"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)$", text, re.MULTILINE))


def _release(version: str) -> tuple[int, ...]:
    """The numbers at the head of a version: "2.13.0+cpu" -> (2, 13, 0)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else (0,)
