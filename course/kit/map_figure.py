"""The course map as a figure, drawn from what `course.kit.rooms` read."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon, Rectangle
from matplotlib.path import Path as Curve
from matplotlib.textpath import text_to_path

from course.kit.rooms import CourseMap, Room
from labs.figures import DATA, FAINT, INK, LOSS, MODEL, MOVE

WIDTH = 9.3
"""Inches. All lengths here are inches from the upper left corner, and all sizes of text are points."""

_LEFT, _LEFT_WIDE = 0.36, 2.56
_ROAD, _ROAD_WIDE = 3.76, 4.66
_LEFT_ROOM, _RIGHT_ROOM = 0.3, 0.8
"""How far an arrow may swing out on either side of the page."""
_TOP, _GAP, _ROAD_GAP, _CAPTION = 1.5, 0.2, 0.24, 0.15
_PAD, _TITLE, _LINE, _FOOT = 0.11, 0.27, 0.165, 0.2
_NAME, _TEXT, _SMALL = 11.5, 8.8, 7.8
_LONGEST_BAR = 1.9
_HEAD = 0.085
_PALE = "#c3c8d0"

# As in every figure of the course: data is grey, the model blue, the loss orange, movement green.
_COLOURS = {"tokenizer": DATA, "chat": DATA, "data": DATA, "model": MODEL, "objectives": LOSS, "train": MOVE}


@dataclass
class _Box:
    """A room with its place on the page."""

    room: Room
    x: float
    y: float
    wide: float
    sentence: list[str]
    labs: list[str]

    @property
    def high(self) -> float:
        return _PAD + _TITLE + _LINE * (len(self.sentence) + len(self.labs)) + _FOOT + 0.12

    @property
    def right(self) -> float:
        return self.x + self.wide

    @property
    def bottom(self) -> float:
        return self.y + self.high

    @property
    def middle(self) -> float:
        return self.y + self.high / 2


@dataclass(frozen=True)
class _Arrow:
    """An import: from the room that is used to the room that uses it."""

    used: str
    user: str


def draw_map(course_map: CourseMap, lesson: str = "", room: str = "") -> Figure:
    """The rooms in the order of the journey, who imports whom, how long each is, and what opens it.

    Args:
        course_map: what was read.
        lesson: the number of a lesson whose rooms are to stand out; "" for none.
        room: the name of a room whose arrows are to stand out; "" for none.
    """
    with mpl.rc_context({"font.family": "DejaVu Sans", "text.color": INK}):
        boxes, high = _lay_out(course_map)
        figure = Figure(figsize=(WIDTH, high))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, WIDTH)
        axes.set_ylim(high, 0)
        axes.axis("off")
        _draw_head(axes, boxes, lesson)
        _draw_road(axes, [box for box in boxes.values() if box.room.place == "road"])
        _draw_arrows(axes, course_map, boxes, room)
        most = max(each.lines for each in course_map.rooms)
        for box in boxes.values():
            _draw_box(axes, box, lesson, chosen=box.room.name == room, most=most)
    return figure


def _lay_out(course_map: CourseMap) -> tuple[dict[str, _Box], float]:
    """The boxes by name, and the height of the page."""

    def column(rooms: Iterable[Room], x: float, y: float, wide: float, gap: float) -> list[_Box]:
        boxes = []
        for room in rooms:
            sentence = _wrap(_as_said(room.sentence), wide - 2 * _PAD, _TEXT)
            box = _Box(room, x, y, wide, sentence, _name_labs(room.labs, wide - 2 * _PAD - 0.04))
            boxes.append(box)
            y = box.bottom + gap
        return boxes

    road = column(course_map.at("road"), _ROAD, _TOP, _ROAD_WIDE, _ROAD_GAP)
    beside = column(course_map.at("beside"), _LEFT, _TOP, _LEFT_WIDE, _GAP)
    doors = column(course_map.at("door"), _LEFT, 0, _LEFT_WIDE, _GAP)
    # The left column is as long as the road: what is free stands between its rooms.
    end = max((box.bottom for box in [*road, *beside]), default=_TOP)
    column_end = (beside[-1].bottom + 0.6 if beside else _TOP) + (doors[-1].bottom if doors else 0)
    spread = max(0, end - column_end) / max(1, len(beside) + len(doors) - 1)
    for place, box in enumerate(beside):
        box.y += place * spread
    drop = beside[-1].bottom + 0.6 + spread if beside else _TOP
    for place, box in enumerate(doors):
        box.y += drop + place * spread
    boxes = {box.room.name: box for box in [*beside, *road, *doors]}
    return boxes, max(box.bottom for box in boxes.values()) + 0.44


def _draw_head(axes: Axes, boxes: dict[str, _Box], lesson: str) -> None:
    """The title, the meaning of the signs, and what each group of rooms has in common."""
    axes.text(_LEFT, 0.3, "The rooms of minimind", fontsize=17, fontweight="bold", va="center")

    def say(x: float, y: float, text: str) -> float:
        axes.text(x, y, text, fontsize=_TEXT, color=FAINT, va="center")
        return x + _wide_of(text, _TEXT)

    y = 0.62
    _curve(axes, (_LEFT, y), (_LEFT + 0.4, y), "right", "left", INK, 0.9)
    x = say(_LEFT + 0.46, y, "leads from a room to one that imports it") + 0.2
    _curve(axes, (x, y), (x + 0.4, y), "right", "left", INK, 0.9, dashed=True)
    say(x + 0.46, y, "the same, against the way of the data")
    y = 0.86
    x = _LEFT
    for wide in (0.16, 0.14, 0.1):
        axes.add_patch(Rectangle((x, y - 0.055), wide, 0.11, facecolor="#f5f6f8", edgecolor=INK, linewidth=0.7))
        x += wide
    x = say(x + 0.06, y, "a room's code, a piece for each file") + 0.2
    x = say(_pill(axes, x, y, "n") + 0.06, y, "a lesson that opens the room") + 0.2
    if lesson:
        say(_pill(axes, x, y, str(int(lesson)), dark=True) + 0.06, y, "this lesson")

    captions = {"beside": "They import no other room.", "road": "", "door": "No room on the road uses them."}
    for place, caption in captions.items():
        first = next((box for box in boxes.values() if box.room.place == place), None)
        if first is not None:
            axes.text(first.x, first.y - _CAPTION, caption, fontsize=_TEXT, style="italic", color=FAINT, va="center")


def _draw_road(axes: Axes, road: Sequence[_Box]) -> None:
    """The way of the data, a broad pale line behind the rooms."""
    x = _ROAD + _ROAD_WIDE / 2
    begin, end = road[0].y - 0.2, road[-1].bottom + 0.06
    axes.add_patch(Rectangle((x - 0.1, begin), 0.2, end - begin, facecolor=_PALE, linewidth=0))
    axes.add_patch(Polygon([(x - 0.2, end), (x + 0.2, end), (x, end + 0.16)], facecolor=_PALE, linewidth=0))
    axes.text(x, begin - 0.1, "text", ha="center", va="center", fontsize=_TEXT, style="italic", color=FAINT)


def _draw_arrows(axes: Axes, course_map: CourseMap, boxes: dict[str, _Box], chosen: str) -> None:
    arrows = [_Arrow(used, room.name) for room in course_map.rooms for used in room.imports]
    left = [name for name, box in boxes.items() if box.x == _LEFT]
    lanes = {name: 0.78 - 0.56 * place / max(1, len(left) - 1) for place, name in enumerate(left)}
    page = max(box.bottom for box in boxes.values()) - min(box.y for box in boxes.values())
    # The ends of all arrows at one side of one box, so that each gets a point of its own.
    sides: dict[tuple[str, str], list[tuple[_Arrow, str]]] = {}
    for arrow in arrows:
        from_side, to_side = _sides(boxes[arrow.used], boxes[arrow.user])
        sides.setdefault((arrow.used, from_side), []).append((arrow, arrow.user))
        sides.setdefault((arrow.user, to_side), []).append((arrow, arrow.used))
    points: dict[tuple[_Arrow, str], float] = {}
    for (name, _), ends in sides.items():
        box = boxes[name]
        ends.sort(key=lambda end: _rank(box, boxes[end[1]]))
        for place, (arrow, _) in enumerate(ends):
            points[arrow, name] = box.y + box.high * (place + 1) / (len(ends) + 1)
    for arrow in sorted(arrows, key=lambda arrow: chosen in (arrow.used, arrow.user)):
        used, user = boxes[arrow.used], boxes[arrow.user]
        from_side, to_side = _sides(used, user)
        start = (used.right if from_side == "right" else used.x, points[arrow, arrow.used])
        end = (user.right if to_side == "right" else user.x, points[arrow, arrow.user])
        stands_out = chosen in (arrow.used, arrow.user)
        door = user.room.place == "door"
        colour = INK if stands_out else _PALE if chosen or door else FAINT
        backwards = used.x == user.x and used.y > user.y
        # The longer an arrow, the further out: so they lie in one another and do not cross.
        reach = _RIGHT_ROOM if from_side == "right" else _LEFT_ROOM
        lane = lanes[used.room.name] if used.x == _LEFT else 1 - lanes.get(user.room.name, 0)
        swing = reach * (0.15 + 0.85 * abs(end[1] - start[1]) / page)
        _curve(axes, start, end, from_side, to_side, colour, 1.7 if stands_out else 0.9, backwards, swing, lane)


def _sides(used: _Box, user: _Box) -> tuple[str, str]:
    """On which side an arrow leaves the one box and enters the other."""
    if used.x < user.x:
        return "right", "left"
    if used.x > user.x:
        return "left", "right"
    return ("right", "right") if used.x == _ROAD else ("left", "left")


def _rank(box: _Box, other: _Box) -> tuple[int, float]:
    """The order of ends at one side of a box, from the top, in which curves cross least."""
    if other.x != box.x:
        return 0, other.middle
    # In its own column: above, the near one first; then those below, the near one last.
    return (0, -other.middle) if other.middle < box.middle else (1, -other.middle)


def _curve(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    from_side: str,
    to_side: str,
    colour: str,
    width: float,
    dashed: bool = False,
    swing: float = 0,
    lane: float = 0.5,
) -> None:
    """An arrow that leaves and enters at a right angle.

    Args:
        axes: in inches.
        start: a point on the side of a box.
        end: a point on the side of another.
        from_side: which side `start` is on, "left" or "right".
        to_side: which side `end` is on.
        colour: of line and head.
        width: in points.
        dashed: draws the line so.
        swing: how far it goes out when both ends are on the same side.
        lane: where between two columns it goes down, from 0 at its start to 1 at its end.
    """
    out = {"right": 1, "left": -1}
    tip = (end[0] + out[to_side] * _HEAD, end[1])
    if from_side == to_side:
        leaves = enters = swing / 0.75  # a curve reaches three quarters of its handles
    else:
        leaves, enters = (1.1 * share * abs(end[0] - start[0]) for share in (lane, 1 - lane))
    handles = (start[0] + out[from_side] * leaves, start[1]), (tip[0] + out[to_side] * enters, tip[1])
    curve = Curve([start, *handles, tip], [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])
    style = (0, (3, 2)) if dashed else "-"
    axes.add_patch(PathPatch(curve, facecolor="none", edgecolor=colour, linewidth=width, linestyle=style))
    corners = [end, (tip[0], tip[1] - 0.04), (tip[0], tip[1] + 0.04)]
    axes.add_patch(Polygon(corners, facecolor=colour, linewidth=0))


def _draw_box(axes: Axes, box: _Box, lesson: str, chosen: bool, most: int) -> None:
    room, x, y = box.room, box.x + _PAD, box.y
    opened = lesson in room.lessons
    axes.add_patch(
        FancyBboxPatch(
            (box.x, box.y), box.wide, box.high, boxstyle="round,pad=0,rounding_size=0.07", facecolor="white",
            edgecolor=INK, linewidth=2.6 if opened else 0.9,
        )
    )  # fmt: skip
    y += _PAD + 0.09
    if chosen:
        wide = _wide_of(room.name, _NAME, "bold") + 0.12
        axes.add_patch(
            FancyBboxPatch(
                (x - 0.06, y - 0.12), wide, 0.24, boxstyle="round,pad=0,rounding_size=0.05", facecolor=INK, linewidth=0
            )
        )
    colour = "white" if chosen else INK
    axes.text(x, y, room.name, fontsize=_NAME, fontweight="bold", va="center", color=colour)
    files = len(room.files)
    size = f"{room.lines:,} lines" if files == 1 else f"{files} files, {room.lines:,} lines"
    axes.text(box.right - _PAD, y, size, fontsize=_SMALL, color=FAINT, ha="right", va="center")
    y += _TITLE - 0.02
    for line in box.sentence:
        axes.text(x, y, line, fontsize=_TEXT, va="center")
        y += _LINE
    y += 0.05
    _draw_bar(axes, room, x, y, most)
    pills = _wide_of_pills(room.lessons, lesson)
    at = box.right - _PAD - pills
    for name in _runs(room.lessons, lesson):
        at = _pill(axes, at, y, name, dark=name == lesson.lstrip("0")) + 0.04
    y += _FOOT
    for line in box.labs:
        axes.text(x, y, line, fontsize=_SMALL, color=FAINT, va="center")
        y += _LINE


def _draw_bar(axes: Axes, room: Room, x: float, y: float, most: int) -> None:
    """A piece for each file, the longest first, as long as its code."""
    for file in room.files:
        wide = file.lines / most * _LONGEST_BAR
        axes.add_patch(
            Rectangle(
                (x, y - 0.055), wide, 0.11, facecolor=_COLOURS.get(room.name, "#f5f6f8"), edgecolor=INK, linewidth=0.7
            )
        )
        x += wide


def _runs(lessons: Sequence[str], lesson: str) -> list[str]:
    """Lessons as "2" or, three and more in a row, "7-12"; the current one stands alone."""
    runs: list[list[int]] = []
    for number in (int(each) for each in lessons):
        alone = bool(lesson) and int(lesson) in (number, number - 1)
        if runs and not alone and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [
        name for run in runs for name in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(number) for number in run])
    ]


def _pill(axes: Axes, x: float, y: float, text: str, dark: bool = False) -> float:
    """A rounded mark with a text in it; returns where it ends."""
    wide, high = _pill_wide(text), 0.165
    axes.add_patch(
        FancyBboxPatch(
            (x, y - high / 2), wide, high, boxstyle=f"round,pad=0,rounding_size={high / 2}",
            facecolor=INK if dark else "white", edgecolor=INK, linewidth=0.8,
        )
    )  # fmt: skip
    axes.text(
        x + wide / 2, y + 0.004, text, fontsize=_SMALL, ha="center", va="center", color="white" if dark else INK,
        fontweight="bold" if dark else "normal",
    )  # fmt: skip
    return x + wide


def _pill_wide(text: str) -> float:
    return max(0.2, _wide_of(text, _SMALL) + 0.12)


def _wide_of_pills(lessons: Sequence[str], lesson: str) -> float:
    return sum(_pill_wide(name) + 0.04 for name in _runs(lessons, lesson)) - 0.04 if lessons else 0


@cache
def _wide_of(text: str, size: float, weight: str = "normal") -> float:
    """How wide a text is, in inches."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    points, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(points) / 72


def _wrap(text: str, wide: float, size: float) -> list[str]:
    """The text in lines that are not wider than `wide`."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if _wide_of(longer, size) <= wide or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _name_labs(labs: Sequence[str], wide: float) -> list[str]:
    """The labs in at most two lines; how many more there are, where they do not fit."""
    for named in range(len(labs), 0, -1):
        more = f" and {len(labs) - named} more" if named < len(labs) else ""
        lines = _wrap(f"{'labs' if len(labs) > 1 else 'lab'} {', '.join(labs[:named])}{more}", wide, _SMALL)
        if len(lines) <= 2:
            return lines
    return [f"{len(labs)} labs"] if labs else []


def _as_said(sentence: str) -> str:
    return sentence.replace("`", "").replace("->", "→")
