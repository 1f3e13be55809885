"""A student answers, closes the kernel, comes back, and finds the answers as they were."""

import json
from pathlib import Path

import pytest

from course.build.files import write_notebook
from course.build.sources import read_lesson
from course.build.workfolder import lay_copies
from tests.notebooks.conftest import JupyterPage

LESSON = """# 7 · Questions

```{code-cell} ipython3
:name: 07-imports
from course.kit import Choice, exercise, predict, progress, quiz
from course.kit.quizzes import Quiz
from course.recall.lesson07 import ITEMS
```

```{code-cell} ipython3
:name: 07-predict
guess = predict("07-loss", "What does the loss do?", ["it grows", "it falls"])
```

```{code-cell} ipython3
:name: 07-result
guess.reveal(lambda: print("the loss fell"), answer="it falls", then="Since it learns.")
```

```{code-cell} ipython3
:name: 07-quiz
quiz("07-quiz", "Is it so?", [Choice("never", why="It is, at times."), Choice("always", right=True, why="It is.")])
```

```{code-cell} ipython3
:name: 07-recall
Quiz("08-again-" + ITEMS[0].key, ITEMS[0].question, ITEMS[0].choices, kind="recall", lead="From lesson 7.").show()
```

```{code-cell} ipython3
:name: 07-exercise
exercise("07-parameter-count")
```

```{code-cell} ipython3
:name: 07-check
exercise("07-parameter-count").check(lambda config: 3)
```

```{code-cell} ipython3
:name: 07-progress
progress()
```
"""

RESTART = """() => {
  window.courseRestarted = false;
  const context = window.jupyterapp.shell.currentWidget.sessionContext;
  context.restartKernel().then(() => { window.courseRestarted = true; });
}"""


@pytest.mark.browser
def test_answers_come_back_after_the_kernel_was_restarted(jupyter_page: JupyterPage, tmp_path: Path) -> None:
    source = tmp_path / "07-questions.md"
    source.write_text(LESSON, encoding="utf-8")
    (tmp_path / "notebooks").mkdir()
    write_notebook(read_lesson(source).notebook("student"), tmp_path / "notebooks" / "07-questions.ipynb")
    lay_copies(tmp_path / "notebooks", jupyter_page.work)

    jupyter_page.open("07-questions.ipynb")
    jupyter_page.run_all()
    assert jupyter_page.errors() == []
    assert "Nothing is answered yet" not in jupyter_page.text()  # the wrong check above it is counted already
    notebook = jupyter_page.notebook
    jupyter_page.choose("B. it falls")
    jupyter_page.click("Commit my prediction")
    jupyter_page.wait_for_text("You predicted B (it falls); the run gave the same: right")
    jupyter_page.choose("A. never")
    notebook.locator(".course-quiz").get_by_role("button", name="Check").click()
    jupyter_page.wait_for_text("Not A. It is, at times.")
    recalled = notebook.locator(".course-recall")
    recalled.scroll_into_view_if_needed()
    recalled.locator("input").nth(1).check()
    recalled.get_by_role("button", name="Check").click()
    jupyter_page.wait_for_text("Right. B:")
    jupyter_page.screenshot(tmp_path / "progress-answered.png")
    assert "There is a hint: press Show a hint above" in jupyter_page.text()
    jupyter_page.click("Show a hint")
    jupyter_page.wait_for_text("Hint 1 of 3.")

    lessons = json.loads((jupyter_page.work / "progress.json").read_text(encoding="utf-8"))["lessons"]
    assert lessons["07"]["07-loss"]["answer"] == "it falls" and lessons["07"]["07-loss"]["right"] is True
    assert lessons["07"]["07-quiz"]["answer"] == "never" and lessons["07"]["07-quiz"]["right"] is False
    assert lessons["07"]["07-parameter-count"]["hints"] == 1
    assert lessons["08"]["08-again-07-recall-first-loss"]["right"] is True

    jupyter_page.page.evaluate(RESTART)
    jupyter_page.page.wait_for_function("() => window.courseRestarted")
    jupyter_page.wait_until_idle()
    jupyter_page.run_all()
    assert jupyter_page.errors() == []
    jupyter_page.wait_for_text("Not A. It is, at times.")
    assert notebook.locator(".course-quiz input").nth(0).is_checked()
    assert notebook.locator(".course-recall input").nth(1).is_checked()
    assert notebook.locator(".course-predict input").nth(1).is_checked()
    assert notebook.locator(".course-predict input").nth(1).is_disabled()
    shown = jupyter_page.text()
    assert "Committed: B (it falls)" in shown and "You predicted B (it falls); the run gave the same" in shown
    assert "Since it learns." in shown and "Hint 1 of 3." in shown and "Saved in work/progress.json" in shown
    table = notebook.locator("table", has_text="predictions made")
    row = table.locator("tbody tr", has_text="7 · ").locator("td")
    assert row.all_inner_texts()[1:] == ["1", "1", "0 of 1", "-", "0", "1"]
    jupyter_page.screenshot(tmp_path / "progress-restored.png")
    table.scroll_into_view_if_needed()
    jupyter_page.screenshot(tmp_path / "progress-table.png")
    assert jupyter_page.off_host == []
