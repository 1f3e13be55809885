"""The picture of the course map for the README: `python -m course.build.course_map` draws it anew.

What was drawn is written into the picture itself, so that a test can say whether the package still is what it shows.
"""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from course.kit.map_figure import draw_map
from course.kit.rooms import CourseMap, read_map

PICTURE = Path(__file__).parents[1] / "map.png"
REMEDY = "draw it anew with `python -m course.build.course_map`"
SIZE_TOLERANCE = 0.1
"""A bar may be so much too short or too long: else every edit of the package would ask for a new picture."""

_DATA, _DPI, _COLOURS = "Description", 150, 128


def draw(path: Path = PICTURE, course_map: CourseMap | None = None) -> None:
    """Draws the map and writes it, with its data inside."""
    shown = read_map() if course_map is None else course_map
    drawn = io.BytesIO()
    draw_map(shown).savefig(drawn, format="png", dpi=_DPI, facecolor="white")
    inside = PngInfo()
    inside.add_text(_DATA, json.dumps(map_data(shown)))
    # A few greys and colours are enough, and take a third of the space.
    with Image.open(drawn) as picture:
        picture.convert("RGB").quantize(_COLOURS).save(path, format="png", optimize=True, pnginfo=inside)


def map_data(course_map: CourseMap) -> dict[str, Any]:
    """What the picture shows, by room, in its order."""
    rooms = {}
    for room in course_map.rooms:
        files = {file.path: file.lines for file in room.files}
        shown = {"place": room.place, "sentence": room.sentence, "imports": room.imports}
        rooms[room.name] = shown | {"lessons": room.lessons, "labs": room.labs, "files": files}
    data: dict[str, Any] = json.loads(json.dumps(rooms))  # as it reads back
    return data


def stored_data(path: Path = PICTURE) -> dict[str, Any]:
    """The data inside a picture.

    Raises:
        ValueError: there is no picture, or it was not drawn by this module.
    """
    if not path.is_file():
        raise ValueError(f"{path.name} is missing; {REMEDY}.")
    with Image.open(path) as picture:
        text = picture.info.get(_DATA)
    if text is None:
        raise ValueError(f"{path.name} holds no data of a map; {REMEDY}.")
    data: dict[str, Any] = json.loads(text)
    return data


def picture_defects(path: Path = PICTURE, course_map: CourseMap | None = None) -> list[str]:
    """One sentence for everything in which the picture is no longer the package's; none when it is."""
    try:
        stored = stored_data(path)
    except ValueError as error:
        return [str(error)]
    now = map_data(read_map() if course_map is None else course_map)
    return [f"{path.name}: {defect}; {REMEDY}." for defect in _differences(stored, now)]


def _differences(stored: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    if list(stored) != list(now):
        yield f"it shows the rooms {', '.join(stored)}, and the package has {', '.join(now)}"
    for name in (name for name in now if name in stored):
        for field in ("place", "sentence", "imports", "lessons", "labs"):
            if stored[name][field] != now[name][field]:
                yield f"{field} of {name} was {stored[name][field]!r} and is {now[name][field]!r}"
        old, new = stored[name]["files"], now[name]["files"]
        if set(old) != set(new):
            yield f"{name} had the files {', '.join(sorted(old))} and has {', '.join(sorted(new))}"
        elif abs(sum(old.values()) - sum(new.values())) > SIZE_TOLERANCE * sum(new.values()):
            yield f"{name} had {sum(old.values()):,} lines and has {sum(new.values()):,}"


def main() -> int:
    """Draws the picture; returns the exit status."""
    try:
        draw()
    except (ValueError, OSError) as error:
        print(f"course map: {error}", file=sys.stderr)
        return 1
    print(f"course/{PICTURE.name} shows the package as it is now")
    return 0


if __name__ == "__main__":
    sys.exit(main())
