"""Checks of Python, packages, corpora and test tools: what is missing is named, with the command that mends it."""

import dataclasses
import re
import shutil
import tomllib

import pytest

from minimind.data.corpora import CORPORA, corpus_path
from minimind.readiness import Machine, this_machine
from minimind.readiness.environment import (
    ROOT,
    check_corpus,
    check_packages,
    check_python,
    check_tests,
    check_torch_build,
    installed_version,
)
from tests import tiny

PINS = dict(re.findall(r"^([\w.-]+)==([^\s;]+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M))


@pytest.mark.parametrize(
    ("version", "status"),
    [((3, 10, 9), "missing"), ((3, 11, 0), "ok"), ((3, 13, 5), "ok"), ((3, 14, 0), "degraded")],
)
def test_the_python_must_be_one_that_the_pins_are_for(version, status):
    finding = check_python(version)
    assert finding.status == status
    assert finding.fix == "" or re.fullmatch(r"make environment PYTHON=python3\.1[13]", finding.fix)


def test_every_dependency_of_the_project_is_checked_against_its_pin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.match(r"[\w.-]+", line)[0] for line in project["dependencies"]}
    findings = check_packages()
    assert {finding.name.removeprefix("package ") for finding in findings} == names
    assert {finding.status for finding in findings} == {"ok"}, "this environment is the pinned one"
    assert all(PINS[finding.name.removeprefix("package ")] in finding.needed for finding in findings)


@pytest.mark.parametrize(
    ("version", "status", "found"),
    [
        (None, "missing", "not installed"),
        ("2.10.1", "missing", "2.10.1"),
        ("2.9", "missing", "2.9"),
        ("2.11.0", "degraded", "2.11.0"),
        ("2.14.0+cu130", "degraded", "2.14.0+cu130"),
        (PINS["torch"], "ok", PINS["torch"]),
        (PINS["torch"] + "+cu130", "ok", PINS["torch"] + "+cu130"),
    ],
)
def test_a_package_is_compared_as_a_version_and_not_as_text(version, status, found):
    findings = check_packages(lambda name: version if name == "torch" else installed_version(name))
    (torch_finding,) = [finding for finding in findings if finding.name == "package torch"]
    assert (torch_finding.status, torch_finding.found) == (status, found)
    assert torch_finding.fix == ("" if status == "ok" else f"python -m pip install torch=={PINS['torch']}")
    assert {f.status for f in findings if f is not torch_finding} == {"ok"}


def test_away_from_a_checkout_the_lower_bounds_are_those_of_the_installed_package(tmp_path):
    findings = check_packages(lambda name: None if name == "numpy" else installed_version(name), root=tmp_path)
    (numpy,) = [finding for finding in findings if finding.status == "missing"]
    assert re.fullmatch(r"python -m pip install 'numpy>=[\d.]+'", numpy.fix)
    assert {"package torch", "package transformers"} <= {finding.name for finding in findings}


@pytest.mark.parametrize("name", CORPORA)
def test_a_shipped_corpus_is_whole(name):
    finding = check_corpus(name)
    assert finding.status == "ok" and finding.fix == ""


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (lambda file, rows: file.write_bytes(b"".join(rows[:4202])), "tang5-1.jsonl has 4,202 of 8,404 rows"),
        (lambda file, rows: file.write_bytes(b"".join(rows)[:-30]), "tang5-1.jsonl has 8,403 of 8,404 rows"),
        (lambda file, rows: file.write_bytes(b"".join([rows[1], rows[0], *rows[2:]])), "tang5-1.jsonl differs"),
        (lambda file, rows: file.write_bytes(b"".join(rows).replace(b"\n", b"\r\n")), "tang5-1.jsonl differs"),
        (lambda file, rows: file.unlink(), "tang5-1.jsonl is not there"),
        (lambda file, rows: (file.parent / "SOURCES.md").unlink(), "no list of its files"),
    ],
)
def test_a_corpus_that_is_not_whole_is_found_by_its_bytes(harm, found, tmp_path):
    folder = tmp_path / "tang5"
    shutil.copytree(corpus_path("tang5"), folder)
    file = folder / "tang5-1.jsonl"
    harm(file, file.read_bytes().splitlines(keepends=True))
    finding = check_corpus("tang5", folder)
    assert (finding.status, finding.found) == ("missing", found)
    assert finding.fix == "git restore minimind/data/corpora/tang5"


def test_what_only_the_tests_need_never_stops_a_run(monkeypatch):
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    packages, browser = check_tests(lambda name: None if name == "pytest" else "1.0")
    assert (packages.status, packages.found) == ("degraded", "without pytest")
    assert packages.fix == "python -m pip install -c constraints.txt -e '.[test]'"
    assert browser.status == "degraded" and "chromium" in browser.fix
    monkeypatch.setenv("CHROMIUM", "/somewhere/chromium")
    packages, browser = check_tests()
    assert packages.status == browser.status == "ok"
    assert browser.found == "chromium", "no path of a machine"


def test_a_gpu_that_torch_cannot_use_is_named(tmp_path):
    here = this_machine(tiny.run(tmp_path))
    assert isinstance(here, Machine)
    unused = dataclasses.replace(here, accelerators=(), nvidia_driver=True)
    finding = check_torch_build(unused, "2.13.0+cpu")
    assert (finding.status, finding.fix) == (
        "degraded",
        "python -m pip install --force-reinstall --no-deps torch==2.13.0",
    )
    assert check_torch_build(dataclasses.replace(unused, nvidia_driver=False), "2.13.0+cpu").status == "ok"
