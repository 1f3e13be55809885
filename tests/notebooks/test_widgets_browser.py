"""The sampling explorer and the course map as a student touches them, with the keyboard, in light and dark."""

from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator

from course.build.files import write_notebook
from course.build.sources import read_lesson
from course.build.workfolder import lay_copies
from course.kit.rooms import read_map
from course.kit.style import number
from labs.shipped import world_chat
from minimind.serve.sampling import next_token_probabilities
from tests.notebooks.conftest import JupyterPage

PROMPT = "One day,"

LESSON = f"""# 7 · Widgets

```{{code-cell}} ipython3
:name: 07-imports
import torch
from course.kit.course_map import course_map
from course.kit.sampling_explorer import explore_sampling
from labs.shipped import world_chat
```

```{{code-cell}} ipython3
:name: 07-sampling
model, tokenizer = world_chat()
ids = tokenizer({PROMPT!r}, add_special_tokens=False)["input_ids"]
with torch.no_grad():
    logits = model(torch.tensor([ids])).logits[0, -1]
explore_sampling(logits, tokenizer, prompt={PROMPT!r}, chosen=int(logits.argmax()))
```

```{{code-cell}} ipython3
:name: 07-map
course_map("07")
```
"""

DARK = "() => window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})"
PLACE = (
    "element => element.getBoundingClientRect().top - document.querySelector('.course-kit').getBoundingClientRect().top"
)


@pytest.fixture
def widgets_page(jupyter_page: JupyterPage, tmp_path: Path) -> JupyterPage:
    """A notebook with both widgets, run."""
    source = tmp_path / "07-widgets.md"
    source.write_text(LESSON, encoding="utf-8")
    (tmp_path / "notebooks").mkdir()
    write_notebook(read_lesson(source).notebook("student"), tmp_path / "notebooks" / "07-widgets.ipynb")
    lay_copies(tmp_path / "notebooks", jupyter_page.work)
    jupyter_page.open("07-widgets.ipynb")
    jupyter_page.run_all()
    assert jupyter_page.errors() == []
    return jupyter_page


@pytest.mark.browser
def test_moving_the_temperature_shows_what_the_packages_sampling_gives(
    widgets_page: JupyterPage, tmp_path: Path
) -> None:
    explorer = widgets_page.notebook.locator(".course-sampling")
    button = explorer.get_by_role("button", name="Draw 20")
    explorer.scroll_into_view_if_needed()
    where = button.evaluate(PLACE)
    assert f"Entropy: {_entropy(1.0)} nats" in explorer.inner_text()
    widgets_page.screenshot(tmp_path / "sampling-light.png")

    widgets_page.set_slider("temperature", "0.50")
    widgets_page.wait_for_text(f"Entropy: {_entropy(0.5)} nats")
    likeliest = float(next_token_probabilities(_logits(), 0.5, 0, 1.0).max())
    assert f"→ {likeliest:.3f}" in explorer.locator("svg").inner_html()
    widgets_page.set_slider("top-k (0: all)", 3)
    widgets_page.wait_for_text("3 of 800 tokens are left.")
    assert "→ out" in explorer.locator("svg").inner_html()

    button.press("Enter")
    widgets_page.wait_for_text("20 draws at seed 0:")
    assert explorer.locator("circle").count() == 20
    assert button.evaluate(PLACE) == where, "the page jumped under the student's hand"
    widgets_page.screenshot(tmp_path / "sampling-drawn.png")
    _in_the_dark(widgets_page)
    explorer.scroll_into_view_if_needed()
    widgets_page.screenshot(tmp_path / "sampling-dark.png")
    assert widgets_page.off_host == []


@pytest.mark.browser
def test_a_room_chosen_on_the_map_tells_what_it_is(widgets_page: JupyterPage, tmp_path: Path) -> None:
    explorer = widgets_page.notebook.locator(".course-map")
    picture = explorer.locator("img")
    explorer.scroll_into_view_if_needed()
    where, before = picture.evaluate(PLACE), picture.get_attribute("src")
    assert explorer.get_by_role("button").all_inner_texts() == [room.name for room in read_map().rooms]
    widgets_page.screenshot(tmp_path / "map-light.png")

    explorer.get_by_role("button", name="objectives", exact=True).press("Enter")
    widgets_page.wait_for_text("what a stage of training asks of the model")
    shown = explorer.inner_text()
    assert "objectives/next_token.py" in shown
    assert "How do arguments become one parameter update?" in shown
    _wait_for_another_picture(picture, before)
    assert picture.evaluate(PLACE) == where, "the page jumped under the student's hand"
    before = picture.get_attribute("src")
    explorer.get_by_role("button", name="data", exact=True).press("Enter")
    widgets_page.wait_for_text("data/loader.py")
    _wait_for_another_picture(picture, before)
    assert picture.evaluate(PLACE) == where, "the page jumped under the student's hand"
    widgets_page.screenshot(tmp_path / "map-chosen.png")
    _in_the_dark(widgets_page)
    explorer.scroll_into_view_if_needed()
    widgets_page.screenshot(tmp_path / "map-dark.png")
    assert widgets_page.off_host == []


def _wait_for_another_picture(picture: Locator, before: str | None) -> None:
    picture.page.wait_for_function("([img, old]) => img.src !== old", arg=[picture.element_handle(), before])


def _in_the_dark(page: JupyterPage) -> None:
    page.page.evaluate(DARK)
    page.page.locator("body[data-jp-theme-light='false']").wait_for(state="attached")


def _logits() -> torch.Tensor:
    model, tokenizer = world_chat()
    ids = tokenizer(PROMPT, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits: torch.Tensor = model(torch.tensor([ids])).logits[0, -1:]
    return logits


def _entropy(temperature: float) -> str:
    probabilities = next_token_probabilities(_logits(), temperature, 0, 1.0).double()
    return number(float(torch.special.entr(probabilities).sum()))
