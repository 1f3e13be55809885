"""JupyterLab in a real Chromium, for tests that do what a student does.

The server is the one that `make course` starts (`course.build.lab_server`); only the folder is the test's own.
"""

import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from course.build.lab_server import HOST, LabServer, lab_server

# In containers Chromium needs no sandbox of its own; the rest keeps it from calling home.
CHROMIUM_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

ELSEWHERE = re.compile(rf"^(?!(?:https?|wss?)://{re.escape(HOST)}[:/]|data:|blob:|about:)")
KERNEL_IS_IDLE = """() => {
  const kernel = window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel;
  return kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
}"""
RUN_ALL = """() => {
  window.courseRan = false;
  window.jupyterapp.commands.execute('notebook:run-all-cells').finally(() => { window.courseRan = true; });
}"""
CODE_CELLS = """() => {
  const cells = window.jupyterapp.shell.currentWidget.content.model.cells;
  return Array.from({length: cells.length}, (_, i) => cells.get(i).toJSON()).filter(c => c.cell_type === 'code');
}"""
NOTEBOOK = ".jp-NotebookPanel:not(.lm-mod-hidden)"


def find_chromium() -> str:
    """Return the path of a Chromium on this machine; fail the test with the command that installs one."""
    named = os.environ.get("CHROMIUM")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if found is None:
        missing = f"CHROMIUM={named} is no program" if named else "no Chromium is on the PATH"
        pytest.fail(
            f"{missing}: install one with `apt-get install -y --no-install-recommends chromium fonts-dejavu-core` "
            "(Debian, Ubuntu) or set the environment variable CHROMIUM to its path.",
            pytrace=False,
        )
    return found


class JupyterPage:
    """One browser page on one JupyterLab, with the moves of a student.

    Args:
        server: The running JupyterLab.
        page: The page, of playwright; use it for what has no method here.
        off_host: Every address on another machine that the browser asked for.
        console_errors: What the page's console reported as errors.
    """

    def __init__(self, server: LabServer, page: Page, off_host: list[str], console_errors: list[str]) -> None:
        self.server = server
        self.page = page
        self.off_host = off_host
        self.console_errors = console_errors

    @property
    def work(self) -> Path:
        """The folder that JupyterLab serves; a test puts its notebooks here."""
        return self.server.work

    @property
    def notebook(self) -> Locator:
        """The open notebook."""
        return self.page.locator(NOTEBOOK)

    def open(self, notebook: str) -> None:
        """Open a notebook of the folder, such as "07-entry.ipynb", and wait until its kernel is idle."""
        self.page.goto(self.server.address(f"lab/tree/{quote(notebook)}", "reset"))
        self.notebook.locator(".jp-CodeCell").first.wait_for()
        self.wait_until_idle()

    def wait_until_idle(self, timeout_s: float = 60) -> None:
        """Wait until the kernel is connected and has nothing to do."""
        self.page.wait_for_function(KERNEL_IS_IDLE, timeout=1000 * timeout_s)

    def run_all(self, timeout_s: float = 180) -> None:
        """Run all cells and wait until each has run.

        A cell that raises stops the run, as it does for a student; the test then sees it in `errors()`.
        """
        self.page.evaluate(RUN_ALL)
        self.page.wait_for_function("() => window.courseRan", timeout=1000 * timeout_s)
        self.wait_until_idle(timeout_s)

    def code_cells(self) -> list[dict[str, Any]]:
        """Return the open notebook's code cells as JSON: id, source, execution_count, outputs."""
        cells: list[dict[str, Any]] = self.page.evaluate(CODE_CELLS)
        return cells

    def errors(self) -> list[str]:
        """Return "name: message" of every error output in the notebook, inside Output widgets too."""
        outputs = [output for cell in self.code_cells() for output in cell["outputs"]]
        raised = [f"{each['ename']}: {each['evalue']}" for each in outputs if each["output_type"] == "error"]
        shown = self.notebook.locator(".widget-output [data-mime-type='application/vnd.jupyter.error']")
        return raised + shown.all_inner_texts()

    def set_slider(self, label: str, value: object, timeout_s: float = 30) -> None:
        """Move a slider with the keyboard until its readout shows a value.

        Args:
            label: The slider's description, as it is shown.
            value: What the readout is to show (a number, or the label of a SelectionSlider's option).
            timeout_s: Seconds until the move counts as failed.
        """
        slider = self._widget(".widget-slider", label)
        handle, readout = slider.locator(".noUi-handle").first, slider.locator(".widget-readout")
        handle.scroll_into_view_if_needed()
        handle.focus()
        handle.press("Home")
        deadline = time.monotonic() + timeout_s
        while (shown := readout.inner_text().strip()) != str(value):
            if time.monotonic() > deadline:
                pytest.fail(f"the slider {label!r} shows {shown!r} and did not come to {str(value)!r}.", pytrace=False)
            handle.press("ArrowRight")
        self.wait_until_idle()

    def click(self, text: str) -> None:
        """Click the button with exactly this text in the notebook, and wait for the kernel's answer."""
        self.notebook.locator(".jp-OutputArea").get_by_role("button", name=text, exact=True).first.click()
        self._settle()

    def choose(self, text: str) -> None:
        """Choose an option of a group of radio buttons, or tick a checkbox, by the text beside it."""
        option = re.compile(rf"^\s*{re.escape(text)}\s*$")
        self.notebook.locator(".jp-OutputArea label").filter(has_text=option).locator("input").first.check()
        self._settle()

    def fill(self, label: str, value: object) -> None:
        """Type into the text or number field with this description, and press Enter."""
        field = self._widget(".jupyter-widgets", label).locator("input, textarea").first
        field.fill(str(value))
        field.press("Enter")
        self._settle()

    def text(self) -> str:
        """Return all that the notebook shows, text cells, code and outputs."""
        return self.notebook.inner_text()

    def wait_for_text(self, text: str, timeout_s: float = 60) -> None:
        """Wait until the notebook shows a text."""
        try:
            self.page.wait_for_function(
                "([panel, text]) => document.querySelector(panel)?.innerText.includes(text)",
                arg=[NOTEBOOK, text],
                timeout=1000 * timeout_s,
            )
        except PlaywrightTimeout:
            pytest.fail(f"the notebook did not show {text!r} within {timeout_s:g} s; it shows:\n{self.text()}")

    def screenshot(self, path: Path) -> None:
        """Save a picture of what the window shows (for a person to look at)."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)

    def _widget(self, kind: str, label: str) -> Locator:
        description = self.page.locator(".widget-label", has_text=re.compile(rf"^\s*{re.escape(label)}\s*$"))
        return self.notebook.locator(kind).filter(has=description).last

    def _settle(self) -> None:
        self.page.wait_for_timeout(200)  # the click's message is on its way: the kernel still looks idle
        self.wait_until_idle()


@pytest.fixture
def jupyter_page(tmp_path: Path) -> Iterator[JupyterPage]:
    """JupyterLab on an empty folder, open in a real browser.

    Mark the test `browser`. Put a notebook into `jupyter_page.work` (with `lay_copies(notebooks, jupyter_page.work)` as
    `make course` does, or `write_notebook`), then do what a student does:

        @pytest.mark.browser
        def test_lesson_7_works_in_jupyterlab(jupyter_page):
            lay_copies(ROOT / "notebooks", jupyter_page.work)
            jupyter_page.open("07-pretraining-entry.ipynb")   # returns when the kernel is idle
            jupyter_page.run_all()                            # returns when every cell has run
            assert jupyter_page.errors() == []
            jupyter_page.set_slider("step", 3)                # by the slider's description
            jupyter_page.choose("the second answer")          # radio button or checkbox
            jupyter_page.fill("your guess", 2.5)              # text or number field
            jupyter_page.click("Check")                       # by the button's text
            jupyter_page.wait_for_text("right, because")
            jupyter_page.screenshot(tmp_path / "lesson07.png")
            assert jupyter_page.off_host == []

    The kernel runs as a student's does: MINIMIND_COURSE_UNATTENDED is not set, so gates wait for an answer.
    """
    executable = find_chromium()
    off_host: list[str] = []
    console_errors: list[str] = []

    work = tmp_path / "work"
    work.mkdir()
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        for name in ("MINIMIND_COURSE_UNATTENDED", "MPLBACKEND"):  # a student's shell has neither
            patch.delenv(name, raising=False)
        with lab_server(work, expose_app=True) as server:
            browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
            page = browser.new_page(viewport={"width": 1280, "height": 1100})
            page.set_default_timeout(60_000)
            # A request to another machine is refused, so that a test never leaves this one, and remembered.
            page.context.route(ELSEWHERE, lambda route: route.abort())
            page.on("request", lambda request: off_host.append(request.url) if ELSEWHERE.match(request.url) else None)
            page.on("websocket", lambda socket: off_host.append(socket.url) if ELSEWHERE.match(socket.url) else None)
            page.on("console", lambda line: console_errors.append(line.text) if line.type == "error" else None)
            page.on("pageerror", lambda error: console_errors.append(str(error)))
            try:
                yield JupyterPage(server, page, off_host, console_errors)
            finally:
                browser.close()
