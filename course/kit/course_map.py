"""The course as a map: the rooms of `minimind`, and the lessons and labs that open them.

All of it is read from the package, the lessons and the labs when it is shown (`course.kit.rooms`).
"""

from collections.abc import Iterable, Sequence

import ipywidgets as widgets

from course.kit.answers import ANSWERS, unattended
from course.kit.output import container, show, show_figure, to_png
from course.kit.progress_file import lesson_of
from course.kit.rooms import CourseMap, Room, Titled, read_map
from course.kit.style import GREY, RIGHT_SIGN, to_html

DETAILS_HIGH = "23em"
"""All rooms take this much height, so that the picture stays where it is; a longer text scrolls."""

SIDE_BY_SIDE = "display: grid; grid-template-columns: minmax(14em, 2fr) minmax(18em, 3fr); gap: 0 1.5em"
PICTURE_WIDE = 900
"""Pixels, where the page has them."""


class MapExplorer:
    """A button for each room, what is known of the chosen one, and the map with its arrows. Made by `course_map`."""

    def __init__(self, course_map: CourseMap, lesson: str) -> None:
        self.map, self.lesson = course_map, lesson
        self._pictures: dict[str, bytes] = {}
        self.rooms = widgets.ToggleButtons(
            options=[room.name for room in course_map.rooms], value=None, style={"button_width": "auto"}
        )
        self.details = widgets.HTML(
            to_html("Choose a room."),
            layout=widgets.Layout(height=DETAILS_HIGH, overflow="auto", border_bottom=f"1px solid {GREY}"),
        )
        self.picture = widgets.Image(format="png", width=PICTURE_WIDE, value=self._picture(""))
        self.box = container("map", self.rooms, self.details, self.picture)
        self.box.layout.max_width = "none"  # wider than text, so that the map's own is large enough to read
        self.rooms.observe(lambda change: self.choose(change["new"]), names="value")

    def choose(self, name: str) -> None:
        """Shows what is known of a room, then the map with its arrows drawn out."""
        about, opened_by, files = map(to_html, room_markdown(self.map, self.map.room(name), begun_lessons()))
        self.details.value = f'{about}<div style="{SIDE_BY_SIDE}"><div>{opened_by}</div><div>{files}</div></div>'
        self.picture.value = self._picture(name)

    def _picture(self, room: str) -> bytes:
        from course.kit.map_figure import draw_map

        if room not in self._pictures:
            self._pictures[room] = to_png(draw_map(self.map, self.lesson, room))
        return self._pictures[room]


def course_map(lesson: str = "01") -> None:
    """Displays the map of the course with the rooms that a lesson opens standing out; a room can be chosen.

    The Tab key moves between the rooms and Enter chooses one. In an unattended run, and wherever no kernel runs, a
    table of the rooms stands in its place.

    Args:
        lesson: the number of the lesson that shows it, two digits.

    Raises:
        ValueError: there is no such lesson, or the package does not say what the map needs.
    """
    found = read_map()
    if lesson not in found.lessons:
        raise ValueError(f"There is no lesson {lesson!r} on the map; there are {', '.join(found.lessons)}.")
    table = rooms_markdown(found, lesson)
    if unattended():
        from course.kit.map_figure import draw_map

        show_figure(draw_map(found, lesson), plain="map of the course")
        show(table, plain="rooms of minimind")
    else:
        show(table, plain="map of the course", widget=MapExplorer(found, lesson).box)


def begun_lessons() -> set[str]:
    """The lessons in which the student answered something; none in a run without a person."""
    if unattended():
        return set()
    return {lesson_of(key) for key, entry in ANSWERS.entries(fresh=True).items() if entry.answer is not None}


def rooms_markdown(course_map: CourseMap, lesson: str) -> str:
    """The static twin: a row for each room, in the order of the map."""
    groups = {"road": "", "beside": ", beside the road", "door": ", a door"}
    rows = [
        [
            f"**{room.name}**{groups[room.place]}",
            room.sentence,
            ", ".join(f"**{int(each)}**" if each == lesson else str(int(each)) for each in room.lessons),
            ", ".join(f"`{lab}`" for lab in room.labs),
        ]
        for room in course_map.rooms
    ]
    table = _table(["room", "what it is for", "lessons that open it", "labs that open it"], rows)
    return f"**The rooms of minimind.** In bold: lesson {int(lesson)}.\n\n{table}"


def room_markdown(course_map: CourseMap, room: Room, begun: set[str]) -> tuple[str, str, str]:
    """All that the map knows of one room: what it is, what opens it, and its files.

    Args:
        course_map: the map.
        room: one of its rooms.
        begun: the lessons in which the student has answered something; with none, nothing is said of it.
    """

    def note(number: str) -> str:
        return "" if not begun else f" ({RIGHT_SIGN} begun)" if number in begun else " (not begun)"

    opened = [f"lesson {_titled(course_map.lessons[each])}{note(each)}" for each in room.lessons]
    opened += [f"lab {_titled(course_map.labs[each])}" for each in room.labs]
    files = [[f"`{file.path.partition('/')[2]}`, {file.lines:,} lines", file.says] for file in room.files]
    about = [
        f"**{room.name}.** {room.says}",
        f"It imports {_listed(room.imports)}. It is imported by {_listed(course_map.used_by(room.name))}.",
    ]
    opened_by = "**Opened by**\n\n" + "\n".join(f"- {each}" for each in opened) if opened else "No lesson opens it yet."
    return "\n\n".join(about), opened_by, _table(["file", "what it says of itself"], files)


def _titled(item: Titled) -> str:
    return f"{item.title}: *{item.question}*" if item.question else item.title


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "no room"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table of text: all columns stand left."""
    lines = [header, [":---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
