"""The text that is shipped with the course: Tang poems, plays, and one declaration in five languages.

Each corpus is a folder of JSONL files with rows {"text": ...}; its licence lies beside it, and its SOURCES.md says
where every row comes from. `python -m minimind.data.rebuild` makes the files again from their sources.
"""

import json
from pathlib import Path

CORPORA = ("tang5", "plays", "udhr")


def corpus_path(name: str) -> Path:
    """Return the folder of a shipped corpus.

    Raises:
        ValueError: There is no shipped corpus of this name.
    """
    if name not in CORPORA:
        raise ValueError(f"There is no shipped corpus {name!r}; the shipped ones are {', '.join(CORPORA)}.")
    return Path(__file__).parent / name


def corpus_files(name: str) -> list[Path]:
    """Return the JSONL files of a shipped corpus, in the order in which they are read."""
    return sorted(corpus_path(name).glob("*.jsonl"))


def corpus_texts(name: str) -> list[str]:
    """Return the text of every row of a shipped corpus."""
    return [
        json.loads(line)["text"]
        for file in corpus_files(name)
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
