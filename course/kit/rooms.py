"""The rooms of `minimind` as the package itself tells them: nothing here is a list kept by hand.

From the source, without importing it: each room's docstring, its files and their lengths, and which rooms it imports.
From the lessons and the labs: what they import of the package, and whose source a lesson shows. The order of the rooms
is the chain in the package's own docstring (`config -> tokenizer -> ...`); the imports place what it does not name.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import labs
import minimind
from course.kit.lessons import LESSONS, lesson_title

Place = Literal["beside", "road", "door"]


@dataclass(frozen=True)
class File:
    """One module of a room.

    Attributes:
        path: from the folder that holds the package, such as "minimind/train/step.py".
        lines: how many it has.
        says: the first sentence of its docstring.
    """

    path: str
    lines: int
    says: str


@dataclass(frozen=True)
class Room:
    """One stage of the package: a module, or a folder of modules.

    Attributes:
        name: without the package's.
        place: beside the road (it imports no other room), on the road of the data, or a door (nothing on the road uses
            it).
        says: the first paragraph of its docstring.
        files: the longest first.
        imports: the rooms that it imports.
        lessons: numbers of the lessons that import from it or show its source.
        labs: names of the labs that import from it.
    """

    name: str
    place: Place
    says: str
    files: tuple[File, ...]
    imports: tuple[str, ...]
    lessons: tuple[str, ...]
    labs: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What the room is for, in one sentence."""
        return first_sentence(self.says)

    @property
    def lines(self) -> int:
        """Of all its files."""
        return sum(file.lines for file in self.files)


@dataclass(frozen=True)
class Titled:
    """A lesson or a lab: its name and the question that it answers."""

    name: str
    title: str
    question: str


@dataclass(frozen=True)
class CourseMap:
    """All rooms in the order of the journey of the data, and what opens them.

    Attributes:
        rooms: those beside the road first, then the road, then the doors.
        lessons: by number.
        labs: by name.
    """

    rooms: tuple[Room, ...]
    lessons: dict[str, Titled]
    labs: dict[str, Titled]

    def room(self, name: str) -> Room:
        """The room of this name."""
        return next(room for room in self.rooms if room.name == name)

    def at(self, place: Place) -> list[Room]:
        """The rooms at a place, in order."""
        return [room for room in self.rooms if room.place == place]

    def used_by(self, name: str) -> list[str]:
        """The rooms that import this one."""
        return [room.name for room in self.rooms if name in room.imports]


def read_map(
    package: Path = Path(minimind.__file__).parent,
    lessons: Path = LESSONS,
    lab_folder: Path = Path(labs.__file__).parent,
) -> CourseMap:
    """Reads the package, the lessons and the labs.

    Args:
        package: folder of `minimind`.
        lessons: folder of the lesson sources.
        lab_folder: folder of the labs.

    Raises:
        ValueError: the package's docstring has no chain, or names a room that is none; or a room has no docstring.
    """
    modules = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(package.rglob("*.py"))}
    head = modules[package / "__init__.py"]
    files: dict[str, list[Path]] = {}
    for path in modules:
        name = path.relative_to(package).parts[0].removesuffix(".py")
        if not name.startswith("__"):  # what the package says of itself is no room
            files.setdefault(name, []).append(path)
    aliases = _aliases(head)
    imports = {
        name: {found for path in paths for found in _rooms_in(modules[path], aliases)} & (files.keys() - {name})
        for name, paths in files.items()
    }
    opened = {path.name[:2]: _opened_by_lesson(path, aliases) for path in sorted(lessons.glob("[0-9][0-9]-*.md"))}
    lab_trees = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(lab_folder.glob("*.py"))}
    questions = {name: question for name, tree in lab_trees.items() if (question := _question(tree))}
    opened_by_lab = {name: set(_rooms_in(lab_trees[name], aliases)) for name in questions}

    rooms = []
    for name, place in _placed(_chain(head, files.keys()), imports):
        documented = package / name / "__init__.py"
        says = ast.get_docstring(modules[documented if documented in modules else package / f"{name}.py"])
        if not says:
            raise ValueError(f"minimind/{name} has no docstring; say in its first sentence what the room is for.")
        rooms.append(
            Room(
                name,
                place,
                _one_line(says.split("\n\n")[0]),
                tuple(sorted((_file(path, modules[path], package) for path in files[name]), key=lambda f: -f.lines)),
                tuple(sorted(imports[name])),
                tuple(number for number, found in opened.items() if name in found),
                tuple(lab for lab, found in opened_by_lab.items() if name in found),
            )
        )
    return CourseMap(
        tuple(rooms),
        {number: Titled(number, lesson_title(number, lessons), _lesson_question(lessons, number)) for number in opened},
        {name: Titled(name, name, question) for name, question in questions.items()},
    )


def first_sentence(text: str) -> str:
    """The text up to the first full stop or question mark that ends a word; a point inside a number is none."""
    match = re.match(r".+?[.?!](?=\s|$)", _one_line(text))
    return match[0] if match else _one_line(text)


def _chain(head: ast.Module, rooms: Iterable[str]) -> list[str]:
    """The rooms in the order that the package's docstring gives them, in its line with arrows."""
    line = next((line for line in (ast.get_docstring(head) or "").splitlines() if " -> " in line), "")
    chain = re.findall(r"[a-z_]\w*", line.partition(",")[0].rstrip("."))
    if not chain or (unknown := [name for name in chain if name not in rooms]):
        wrong = f"names {unknown[0]!r}, which is no room" if chain else "has no line such as 'data -> model'"
        raise ValueError(f"The docstring of minimind {wrong}; write there the order in which the data travels.")
    return chain


def _placed(chain: list[str], imports: dict[str, set[str]]) -> Iterator[tuple[str, Place]]:
    """Every room with its place, in the order of the map.

    A room that imports no other stands beside the road. On the road are those of the chain and what they use; such a
    room follows on the last one of the road that it imports. The rest are doors: only they themselves use each other.
    """
    beside = [name for name in imports if not imports[name]]
    doors = {name for name in imports if name not in chain and name not in beside}
    while led := {name for name in doors if any(name in imports[user] for user in imports.keys() - doors)}:
        doors -= led
    road = [name for name in chain if name not in beside]
    for name in sorted(imports.keys() - doors - {*beside, *road}):
        behind = max((road.index(used) + 1 for used in imports[name] if used in road), default=0)
        road.insert(behind, name)
    order = {name: place for place, name in enumerate(chain)}
    for name in sorted(beside, key=lambda name: (order.get(name, len(order)), name)):
        yield name, "beside"
    for name in road:
        yield name, "road"
    for name in sorted(doors, key=lambda name: (len(imports[name] & doors), name)):  # what a door uses comes first
        yield name, "door"


def _aliases(head: ast.Module) -> dict[str, str]:
    """Names that `from minimind import NAME` gives, and the modules they come from."""
    found = (node for node in ast.walk(head) if isinstance(node, ast.ImportFrom) and node.module)
    return {alias.name: node.module or "" for node in found for alias in node.names}


def _rooms_in(tree: ast.Module, aliases: dict[str, str]) -> Iterator[str]:
    """The first name behind `minimind.` in everything that is imported, or whose source is shown."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "minimind":
            names = [aliases.get(alias.name, f"minimind.{alias.name}") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "source" and node.args:
            symbol = node.args[0]
            names = [symbol.value] if isinstance(symbol, ast.Constant) and isinstance(symbol.value, str) else []
        yield from (name.split(".")[1] for name in names if name.startswith("minimind."))


def _opened_by_lesson(path: Path, aliases: dict[str, str]) -> set[str]:
    opened: set[str] = set()
    for cell in re.findall(r"^```\{code-cell\}.*\n((?s:.*?))^```$", path.read_text(encoding="utf-8"), re.MULTILINE):
        header, _, code = cell.rpartition("\n---\n") if cell.startswith("---") else ("", "", cell)
        lines = [line for line in code.splitlines() if not re.match(r":[\w-]+:|\s*[%!]", line)]
        try:
            opened |= set(_rooms_in(ast.parse("\n".join(lines)), aliases))
        except SyntaxError:
            continue  # a lesson may show a slip on purpose; the check of the notebooks names any other
    return opened


def _lesson_question(lessons: Path, number: str) -> str:
    """The first line in bold after the title."""
    text = next(iter(sorted(lessons.glob(f"{number}-*.md")))).read_text(encoding="utf-8")
    match = re.search(r"^# .*\n\s*\*\*(.+?)\*\*\s*$", text, re.MULTILINE)
    return match[1] if match else ""


def _question(tree: ast.Module) -> str:
    """The question of a lab, "" of a module that is none; `labs.lab.is_lab` asks the same of a loaded one."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["QUESTION"]:
            return str(ast.literal_eval(node.value))
    return ""


def _file(path: Path, tree: ast.Module, package: Path) -> File:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    says = first_sentence(ast.get_docstring(tree) or "")
    return File(path.relative_to(package.parent).as_posix(), lines, says)


def _one_line(text: str) -> str:
    return " ".join(text.split())
