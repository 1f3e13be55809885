"""Lesson 7 as a student works it: opened from the work folder, run, touched."""

import re
from pathlib import Path

import pytest

from course.build.execute import ROOT
from course.build.workfolder import lay_copies
from tests.notebooks.conftest import JupyterPage

LESSON = "07-pretraining-entry.ipynb"


@pytest.mark.browser
def test_a_student_can_work_lesson_7_in_jupyterlab(jupyter_page: JupyterPage, tmp_path: Path) -> None:
    lay_copies(ROOT / "notebooks", jupyter_page.work)
    jupyter_page.open(LESSON)
    assert all(not cell["outputs"] for cell in jupyter_page.code_cells()), "an answer stood under its question"
    jupyter_page.run_all(timeout_s=300)
    assert jupyter_page.errors() == []

    # The gates are closed until the student commits, and open then.
    assert "loss of the first update" not in _outputs(jupyter_page)
    gate = jupyter_page.notebook.locator(".course-predict").first
    gate.scroll_into_view_if_needed()
    gate.locator("label", has_text=re.compile("about 8.8")).locator("input").check()
    gate.get_by_role("button", name="Commit my prediction").click()
    jupyter_page.wait_for_text("loss of the first update")
    jupyter_page.wait_for_text("You predicted C (about 8.8); the run gave the same: right")
    jupyter_page.screenshot(tmp_path / "lesson07-gate.png")

    # The scrubber answers through the kernel.
    scrubber = jupyter_page.notebook.locator(".course-scrub").first
    handle = scrubber.locator(".noUi-handle").first
    handle.scroll_into_view_if_needed()
    handle.focus()
    handle.press("ArrowRight")
    handle.press("ArrowRight")
    jupyter_page.wait_for_text("step 3 of 8")
    jupyter_page.screenshot(tmp_path / "lesson07-scrubber.png")

    # A wrong choice is told why, a right one that it is right.
    quiz = jupyter_page.notebook.locator(".course-quiz").first
    quiz.scroll_into_view_if_needed()
    quiz.locator("label", has_text=re.compile("The seed was a lucky one")).locator("input").check()
    quiz.get_by_role("button", name="Check").click()
    jupyter_page.wait_for_text("Not A.")
    quiz.locator("label", has_text=re.compile("can see the answers")).locator("input").check()
    quiz.get_by_role("button", name="Check").click()
    jupyter_page.wait_for_text("Right.")
    jupyter_page.screenshot(tmp_path / "lesson07-quiz.png")

    # The exercise says that it waits, and no request left the machine.
    jupyter_page.wait_for_text("Not done yet")
    assert jupyter_page.off_host == []


def _outputs(page: JupyterPage) -> str:
    return "\n".join(page.notebook.locator(".jp-OutputArea").all_inner_texts())
