"""The two commands of the README, run against a stand-in environment that only notes what it was asked to do."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ["checks", "unit and parity tests", "notebooks", "JupyterLab in Chromium"]

# Stands for python and for lint-imports: notes its arguments, and fails when they contain $FAIL_AT.
STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >> "{log}"
case "$*" in *"${{FAIL_AT:-nothing fails}}"*) exit 3;; esac
"""


class House:
    """The Makefile with a stand-in environment in a folder of its own."""

    def __init__(self, folder: Path):
        """Lays a stand-in environment, newer than what it was made from, into `folder`."""
        self.folder, self.log = folder, folder / "log"
        (folder / "venv" / "bin").mkdir(parents=True)
        for name in ("python", "lint-imports", "chromium"):
            self.program(folder / "venv" / "bin" / name, STAND_IN.format(log=self.log))
        self.stamp = folder / "venv" / ".installed"
        self.stamp.touch()

    def program(self, path: Path, text: str) -> Path:
        """Writes an executable script."""
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def make(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs make as a person would type it, and not as a part of the make that runs these tests."""
        inherited = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
        venv = self.folder / "venv"
        return subprocess.run(
            ["make", f"VENV={venv}", f"PYTHON={sys.executable}", f"CHROMIUM={venv}/bin/chromium", *arguments],
            cwd=ROOT, env={**inherited, **environment}, capture_output=True, text=True,
        )  # fmt: skip

    def asked(self) -> str:
        """What the stand-ins were asked to do, one line each."""
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_make_test_runs_every_part_and_says_how_long_each_took(house):
    result = house.make("test")
    assert result.returncode == 0, result.stderr
    assert re.findall(r"== (.*): passed in \d+ s", result.stdout) == PARTS
    asked = house.asked()
    for tool in ("ruff format --check", "ruff check", "mypy", "lint-imports", "course.build check"):
        assert tool in asked
    assert "--nbval --nbval-current-env --nbval-cell-timeout 300 -n 2 --dist loadfile notebooks" in asked
    assert "pytest -n 2 --dist loadfile -m not browser" in asked and "pytest -m browser" in asked


@pytest.mark.parametrize(
    ("fail_at", "part"),
    [
        ("ruff format", PARTS[0]),
        ("mypy", PARTS[0]),
        ("--no-logo", PARTS[0]),
        ("course.build check", PARTS[0]),
        ("not browser", PARTS[1]),
        ("--nbval", PARTS[2]),
        ("-m browser", PARTS[3]),
    ],
)
def test_make_test_stops_at_the_part_that_fails_and_names_it(fail_at, part, house):
    result = house.make("test", FAIL_AT=fail_at)
    assert result.returncode != 0
    assert f"== {part}: FAILED after " in result.stderr
    assert re.findall(r"== (.*): passed in \d+ s", result.stdout) == PARTS[: PARTS.index(part)]
    assert "everything passed" not in result.stdout


def test_make_test_says_what_to_install_when_there_is_no_browser(house):
    result = house.make("test", f"CHROMIUM={house.folder}/absent")
    assert result.returncode != 0
    assert "sudo apt-get install chromium fonts-dejavu-core" in result.stderr
    assert not house.asked(), "said before anything slow runs"


def test_a_python_that_is_too_old_is_refused_in_a_sentence(house):
    house.stamp.unlink()
    text = f"#!{sys.executable}\nimport sys\nsys.version_info = (3, 10, 14)\nexec(sys.argv[2])\n"
    old = house.program(house.folder / "old-python", text)
    result = house.make("course", f"PYTHON={old}")
    assert result.returncode != 0
    assert f"needs Python 3.11 or newer, and '{old}' is not" in result.stderr
    assert "make course PYTHON=" in result.stderr
    assert not house.asked()


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_the_environment_is_made_anew_when_its_lists_change_and_only_then(changed, house):
    house.make("course")
    assert "pip install" not in house.asked()
    before = house.stamp.stat().st_mtime_ns
    result = house.make("course", f"--what-if={changed}")
    assert result.returncode == 0, result.stderr
    assert "-m pip install --quiet -c constraints.txt -e .[test]" in house.asked()
    assert house.asked().splitlines()[-1] == "python -m course.build lab"
    assert house.stamp.stat().st_mtime_ns > before


def test_an_environment_that_failed_to_install_is_not_taken_for_a_good_one(house):
    house.stamp.unlink()
    assert house.make("course", FAIL_AT="pip install").returncode != 0
    assert not house.stamp.exists()
    assert "course.build lab" not in house.asked()
