"""Promises of `make course`: JupyterLab opens on the copies, runs them, and answers a student's hand."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from course.build import lab_server as lab_server_module
from course.build.execute import ROOT
from course.build.files import write_notebook
from course.build.lab_server import HOST, LabError, lab_server
from course.build.sources import read_lesson
from course.build.workfolder import lay_copies

# The long cell puts the widgets below the window's edge, where a student scrolls to them.
LESSON = """# Sliders and buttons

```{code-cell} ipython3
:name: 01-long
print("\\n".join(f"line {number}" for number in range(80)))
```

```{code-cell} ipython3
:name: 01-slider
import ipywidgets
slider = ipywidgets.IntSlider(1, 0, 9, description="step")
seen = ipywidgets.Label("nothing yet")
slider.observe(lambda change: setattr(seen, "value", f"the kernel saw {change.new}"), "value")
option = ipywidgets.SelectionSlider(options=["loss", "rate", "norm"], description="show")
ipywidgets.VBox([slider, seen, option])
```

```{code-cell} ipython3
:name: 01-quiz
answers = ipywidgets.RadioButtons(options=["up", "down"], value=None, description="the loss goes")
guess = ipywidgets.FloatText(description="your guess")
button = ipywidgets.Button(description="Check")
feedback = ipywidgets.Output()

def check(_):
    with feedback:
        print("right" if answers.value == "down" else "wrong", guess.value, option.value)

button.on_click(check)
ipywidgets.VBox([answers, guess, button, feedback])
```

```{code-cell} ipython3
:name: 01-attended
import os
print("attended:", "MINIMIND_COURSE_UNATTENDED" not in os.environ)
```

```{code-cell} ipython3
:name: 01-end
print("the end")
```
"""


def publish(root: Path, text: str = LESSON) -> Path:
    """Write a tiny lesson's notebook (not executed: copies have no outputs anyway) and return its folder."""
    source = root / "01-widgets.md"
    source.write_text(text)
    notebooks = root / "notebooks"
    notebooks.mkdir()
    write_notebook(read_lesson(source).notebook("student"), notebooks / "01-widgets.ipynb")
    return notebooks


@pytest.mark.browser
def test_a_lesson_runs_in_jupyterlab_and_its_widgets_answer_through_the_kernel(
    jupyter_page: Any, tmp_path: Path
) -> None:
    lay_copies(publish(tmp_path), jupyter_page.work)
    jupyter_page.open("01-widgets.ipynb")
    assert "the end\n" not in jupyter_page.text().replace('print("the end")', "")
    jupyter_page.run_all()
    assert [cell["execution_count"] for cell in jupyter_page.code_cells()] == [1, 2, 3, 4, 5]
    assert jupyter_page.errors() == []
    assert "attended: True" in jupyter_page.text()

    jupyter_page.set_slider("step", 7)
    jupyter_page.wait_for_text("the kernel saw 7")
    jupyter_page.set_slider("show", "norm")
    jupyter_page.choose("down")
    jupyter_page.fill("your guess", 2.5)
    jupyter_page.click("Check")
    jupyter_page.wait_for_text("right 2.5 norm")

    jupyter_page.screenshot(tmp_path / "widgets.png")
    assert (tmp_path / "widgets.png").stat().st_size > 10_000
    assert jupyter_page.page.locator(".jp-Dialog").count() == 0
    assert jupyter_page.off_host == []


@pytest.mark.browser
def test_an_error_and_a_request_to_another_machine_are_seen(jupyter_page: Any, tmp_path: Path) -> None:
    broken = """```{code-cell} ipython3
:name: 01-far
from IPython.display import HTML
HTML('<img src="http://far.invalid/picture.png">')
```

```{code-cell} ipython3
:name: 01-raises
:tags: [raises-exception]
1 / 0
```
"""
    lay_copies(publish(tmp_path, broken), jupyter_page.work)
    jupyter_page.open("01-widgets.ipynb")
    jupyter_page.run_all()
    assert jupyter_page.errors() == ["ZeroDivisionError: division by zero"]
    assert set(jupyter_page.off_host) == {"http://far.invalid/picture.png"}


def listening_addresses(port: int) -> set[str]:
    """Return the addresses, in hexadecimal, on which a port is listened to."""
    table = Path("/proc/net/tcp")
    if not table.exists():  # not Linux: at least no other interface of this machine answers
        with socket.socket() as probe:
            assert probe.connect_ex((socket.gethostbyname(socket.gethostname()), port)) != 0
        return {"0100007F"}
    rows = [line.split() for path in (table, Path("/proc/net/tcp6")) for line in path.read_text().splitlines()[1:]]
    return {row[1].split(":")[0] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == port}


def test_a_server_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        monkeypatch.setattr(lab_server_module, "_free_port", lambda: taken.getsockname()[1])
        with pytest.raises(LabError, match="JupyterLab ended while starting"), lab_server(tmp_path):
            pass


def test_the_command_lays_the_copies_and_serves_them_to_this_machine_and_its_token_only(tmp_path: Path) -> None:
    publish(tmp_path)
    code = (
        "import sys, pathlib, course.build.__main__ as build\n"
        "sys.exit(build.main(sys.argv[2:], pathlib.Path(sys.argv[1])))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), "lab", "--no-browser"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        laid, started = process.stdout.readline(), process.stdout.readline()
        assert "1 notebooks, 1 of them new" in laid
        found = re.fullmatch(rf"JupyterLab: (http://{re.escape(HOST)}:(\d+))/lab\?token=(\w{{32,}})\n", started)
        assert found is not None, started
        site, port, token = found.groups()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{site}/api/contents", timeout=10)
        assert refused.value.code == 403
        refused.value.close()
        with urllib.request.urlopen(f"{site}/api/contents/01-widgets.ipynb?token={token}", timeout=10) as answer:
            assert json.load(answer)["name"] == "01-widgets.ipynb"
        assert listening_addresses(int(port)) == {"0100007F"}
        assert token not in (tmp_path / "work" / ".lab" / "server.log").read_text()
        for command_line in Path("/proc").glob("[0-9]*/cmdline"):  # every user of the machine can read these
            with contextlib.suppress(OSError):
                assert token not in command_line.read_text(errors="replace")
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait(60)
        process.stdout.close()
    assert process.returncode == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(site, timeout=5)


def test_a_missing_browser_fails_with_the_command_that_installs_one(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHROMIUM", "/nowhere/chromium")
    with pytest.raises(pytest.fail.Exception, match="apt-get install -y --no-install-recommends chromium"):
        request.getfixturevalue("jupyter_page")
