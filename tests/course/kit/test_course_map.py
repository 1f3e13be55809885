import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from course.build import course_map as readme
from course.kit.answers import ANSWERS
from course.kit.course_map import MapExplorer, begun_lessons, course_map
from course.kit.map_figure import draw_map
from course.kit.rooms import LESSONS, first_sentence, read_map

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def found():
    return read_map()


@pytest.fixture
def copy(tmp_path):
    """A copy of the package, the lessons and the labs to change; `copy()` reads the map of it."""
    for folder in ("minimind", "labs", "course/lessons"):
        for path in [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).glob("*.md")]:
            target = tmp_path / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)

    def read():
        return read_map(tmp_path / "minimind", tmp_path / "course/lessons", tmp_path / "labs")

    read.folder = tmp_path
    return read


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


# --- what the package says ------------------------------------------------------------------------


def test_every_module_of_the_package_lies_in_one_room_with_its_real_length(found):
    shown = {file.path: file.lines for room in found.rooms for file in room.files}
    modules = [
        path for path in (ROOT / "minimind").rglob("*.py") if path.parent.name != "minimind" or "__" not in path.name
    ]
    assert shown == {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in modules
    }


def test_the_rooms_stand_in_the_order_of_the_journey(found):
    road = [room.name for room in found.at("road")]
    chain = [name for name in ("tokenizer", "data", "model", "objectives", "train", "evaluate") if name in road]
    assert chain == [name for name in road if name in chain] and len(chain) == 6
    assert road.index("tokenizer") < road.index("chat") < road.index("data")
    assert {"config", "world", "trace"} <= {room.name for room in found.at("beside")}
    assert "cli" in {room.name for room in found.at("door")}


def test_the_arrows_are_the_imports(found):
    assert "data" in found.room("train").imports and "trace" in found.room("model").imports
    assert "data" not in found.room("model").imports  # as the contract of the house says
    assert found.room("config").imports == ()
    assert "train" in found.used_by("objectives")


def test_a_new_room_appears_with_its_arrows_and_its_place(copy):
    write(
        copy.folder / "minimind/rollout/__init__.py",
        '"""policy -> trajectories: what it did."""\n\nimport minimind.model\n',
    )
    write(
        copy.folder / "minimind/plan.py",
        '"""What will it cost? Counted beforehand."""\n\nfrom minimind.config import preset\n',
    )
    with (copy.folder / "minimind/train/step.py").open("a") as step:
        step.write("\nfrom minimind.rollout import x\n")
    found = copy()
    names = [room.name for room in found.rooms]
    rollout, plan = found.room("rollout"), found.room("plan")
    assert rollout.place == "road" and names.index("model") < names.index("rollout") < names.index("train")
    assert rollout.imports == ("model",) and rollout.sentence == "policy -> trajectories: what it did."
    assert "rollout" in found.room("train").imports
    assert plan.place == "door" and plan.sentence == "What will it cost?"
    assert {"rollout", "plan"} <= drawn_texts(draw_map(found))


def test_the_docstring_of_the_package_orders_the_road(copy):
    head = copy.folder / "minimind/__init__.py"
    text = head.read_text(encoding="utf-8")
    chain = next(line for line in text.splitlines() if " -> " in line)
    write(head, text.replace(chain, "train -> tokenizer, and so on."))
    road = [room.name for room in copy().at("road")]
    assert road.index("train") < road.index("tokenizer")
    write(head, text.replace(chain, "tokenizer -> cellar."))
    with pytest.raises(ValueError, match="names 'cellar', which is no room"):
        copy()
    write(head, text.replace(chain, "Nothing."))
    with pytest.raises(ValueError, match="has no line such as 'data -> model'"):
        copy()


def test_a_room_that_does_not_say_what_it_is_for_is_named(copy):
    write(copy.folder / "minimind/cellar.py", "import json\n")
    with pytest.raises(ValueError, match="minimind/cellar has no docstring"):
        copy()


# --- lessons and labs -----------------------------------------------------------------------------


def test_a_lesson_opens_the_rooms_it_imports_and_whose_source_it_shows(copy):
    write(
        copy.folder / "course/lessons/42-test.md",
        "# 42 · A test\n\n**What is it?**\n\nfrom minimind.world import no_code\n\n"
        "```{code-cell} ipython3\n:name: 42-a\n:tags: [hide-input]\nfrom minimind import MiniMindForCausalLM\n"
        "%matplotlib inline\nfrom minimind.trace import (\n    Record,\n)\n```\n\n"
        "```{code-cell} ipython3\n---\nname: 42-b\ntags: [student]\n---\n"
        'source("minimind.objectives.next_token.NextToken", start="a")\nprint("minimind.serve.x")\n```\n\n'
        "```{code-cell} ipython3\n:name: 42-c\nthis is no Python\n```\n",
    )
    found = copy()
    assert {room.name for room in found.rooms if "42" in room.lessons} == {"model", "trace", "objectives"}
    assert (found.lessons["42"].title, found.lessons["42"].question) == ("42 · A test", "What is it?")


def test_lesson_7_opens_what_it_shows(found):
    opened = {room.name for room in found.rooms if "07" in room.lessons}
    assert {"config", "tokenizer", "data", "model", "objectives", "train"} <= opened
    assert found.lessons["07"].question == "How do arguments become one parameter update?"


def test_a_lab_opens_the_rooms_it_imports_and_other_modules_of_labs_none(copy):
    write(copy.folder / "labs/new_lab.py", 'import minimind.world.story\n\nQUESTION = "Who?"\n')
    write(copy.folder / "labs/helper.py", "import minimind.world.story\n")
    found = copy()
    assert found.labs["new_lab"].question == "Who?" and "helper" not in found.labs
    assert "new_lab" in found.room("world").labs and "new_lab" not in found.room("data").labs


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("A model of 0.16M parameters. More.", "A model of 0.16M parameters."),
        ("How good\nis it? On text.", "How good is it?"),
        ("No end", "No end"),
    ],
)
def test_the_first_sentence_ends_where_a_reader_ends_it(text, sentence):
    assert first_sentence(text) == sentence


# --- the figure -----------------------------------------------------------------------------------


def drawn_texts(figure):
    return {text.get_text() for axes in figure.axes for text in axes.texts}


def test_the_figure_shows_every_room_and_an_arrow_for_every_import(found):
    figure = draw_map(found, "07")
    assert {room.name for room in found.rooms} <= drawn_texts(figure)
    curves = [patch for patch in figure.axes[0].patches if type(patch).__name__ == "PathPatch"]
    assert len(curves) == 2 + sum(len(room.imports) for room in found.rooms)  # two in the legend


def test_the_rooms_of_the_current_lesson_stand_out(found):
    def thick(lesson):
        boxes = [patch for patch in draw_map(found, lesson).axes[0].patches if patch.get_linewidth() == 2.6]
        return len(boxes)

    assert thick("") == 0
    assert thick("07") == sum("07" in room.lessons for room in found.rooms) > 0


def test_the_arrows_of_the_chosen_room_stand_out(found):
    curves = [p for p in draw_map(found, "", "data").axes[0].patches if type(p).__name__ == "PathPatch"]
    strong = sum(curve.get_linewidth() == 1.7 for curve in curves)
    assert strong == len(found.room("data").imports) + len(found.used_by("data"))


def test_nothing_is_drawn_outside_of_the_page_and_no_text_over_the_edge_of_its_box(found):
    figure = draw_map(found, "07", "train")
    figure.canvas.draw()
    axes = figure.axes[0]
    wide, high = figure.get_size_inches()
    for artist in [*axes.texts, *axes.patches]:
        box = artist.get_window_extent().transformed(axes.transData.inverted())
        assert box.x0 >= 0 and box.x1 <= wide and min(box.y0, box.y1) >= 0 and max(box.y0, box.y1) <= high
    boxes = [p for p in axes.patches if type(p).__name__ == "FancyBboxPatch" and p.get_width() > 2]
    assert len(boxes) == len(found.rooms)
    for text in axes.texts:
        extent = text.get_window_extent().transformed(axes.transData.inverted())
        for box in boxes:
            x, y = box.get_x(), box.get_y()
            if x < text.get_position()[0] < x + box.get_width() and y < text.get_position()[1] < y + box.get_height():
                assert x <= extent.x0 and extent.x1 <= x + box.get_width(), text.get_text()


def test_many_lessons_and_labs_still_fit(found):
    lessons = tuple(f"{number:02}" for number in range(1, 35))
    labs = tuple(f"trace_something_long_{number}" for number in range(30))
    rooms = tuple(replace(room, lessons=lessons, labs=labs) for room in found.rooms)
    texts = drawn_texts(draw_map(replace(found, rooms=rooms), "07"))
    assert {"1-6", "7", "8-34"} <= texts
    assert any(re.search(r"and \d+ more$", text) for text in texts)


# --- the picture of the README --------------------------------------------------------------------


def test_the_picture_of_the_readme_shows_the_package_as_it_is():
    assert readme.picture_defects() == []


def test_a_picture_that_is_no_longer_the_packages_is_named(copy, tmp_path):
    picture = tmp_path / "map.png"
    assert readme.picture_defects(picture) == [f"map.png is missing; {readme.REMEDY}."]
    readme.draw(picture, copy())
    assert readme.picture_defects(picture, copy()) == []

    def defects(file, text):
        path = copy.folder / file
        old = path.read_text(encoding="utf-8") if path.exists() else None
        write(path, text if old is None else old + text)
        found = readme.picture_defects(picture, copy())
        path.unlink() if old is None else write(path, old)
        return "\n".join(found)

    assert defects("minimind/chat.py", "# one more line\n") == ""  # too little to see in a bar
    (old, new) = re.search(
        r"chat had (\d+) lines and has (\d+);", defects("minimind/chat.py", "# more\n" * 100)
    ).groups()
    assert int(new) == int(old) + 100
    assert "imports of world was [] and is ['config']" in defects("minimind/world/words.py", "import minimind.config\n")
    assert "it shows the rooms" in defects("minimind/cellar.py", '"""Where wine is."""\n')
    assert "model had the files" in defects("minimind/model/lora.py", '"""A delta."""\n')
    cell = "```{code-cell} ipython3\nimport minimind.folders\n```\n"
    assert "lessons of folders was [] and is ['42']" in defects("course/lessons/42-x.md", f"# 42\n\n{cell}")
    assert "labs of folders" in defects("labs/new_lab.py", 'import minimind.folders\n\nQUESTION = "Who?"\n')
    assert readme.picture_defects(picture, copy()) == []


def test_a_picture_from_elsewhere_is_refused(found, tmp_path):
    draw_map(found).savefig(tmp_path / "other.png", dpi=20)
    assert "holds no data of a map" in readme.picture_defects(tmp_path / "other.png", found)[0]


# --- the widget and its twin ----------------------------------------------------------------------


def test_choosing_a_room_shows_what_is_known_of_it_and_its_arrows(attended, found):
    explorer = MapExplorer(found, "07")
    first = bytes(explorer.picture.value)
    assert "Choose a room." in explorer.details.value and first.startswith(b"\x89PNG")
    explorer.rooms.value = "objectives"
    text = explorer.details.value
    assert "logits -&gt; (loss sum, weight): what a stage of training asks of the model." in text
    assert "<code>objectives/next_token.py</code>" in text and "The language loss" in text
    assert "7 · The pretraining entry" in text and "trace_pretrain_step" in text
    assert "begun" not in text  # nothing is known of a student
    assert explorer.picture.value != first


def test_the_room_says_which_lessons_the_student_has_begun(work, found):
    ANSWERS.put("07-loss", "it falls", "prediction")
    explorer = MapExplorer(found, "07")
    explorer.rooms.value = "tokenizer"
    seven = re.search(r"7 · The pretraining entry.*", explorer.details.value)[0]
    two = re.search(r"2 · Readiness.*", explorer.details.value)[0]
    assert "(✓ begun)" in seven and "(not begun)" in two


def test_a_run_without_a_person_has_begun_nothing(unattended):
    ANSWERS.put("07-loss", "it falls", "prediction")
    assert begun_lessons() == set()


def test_all_rooms_take_the_same_height_so_that_the_picture_stays(attended, found):
    explorer = MapExplorer(found, "07")
    assert explorer.details.layout.height and explorer.details.layout.overflow == "auto"


@pytest.mark.parametrize("mode", ["attended", "unattended"])
def test_the_static_twin_is_a_table_with_a_row_for_each_room(request, mode, found, capsys):
    request.getfixturevalue(mode)
    course_map("07")
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| **")]
    assert len(rows) == len(found.rooms)
    (evaluate,) = (row for row in rows if row.startswith("| **evaluate** |"))
    assert "| How good is it? |" in evaluate
    (objectives,) = (row for row in rows if row.startswith("| **objectives** |"))
    assert "**7**" in objectives and "`trace_pretrain_step`" in objectives


def test_a_lesson_that_does_not_exist_is_a_sentence(unattended):
    with pytest.raises(ValueError, match="There is no lesson '99' on the map; there are "):
        course_map("99")


def test_the_map_reads_the_lessons_of_the_course():
    assert LESSONS == ROOT / "course" / "lessons"
