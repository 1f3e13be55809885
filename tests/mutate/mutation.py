"""A mistake as data: a piece of one file, what takes its place, and the test that should notice."""

from dataclasses import dataclass
from pathlib import Path


class DoesNotApply(ValueError):
    """The text that a mutation replaces is no longer in its file, or is there more than once."""


@dataclass(frozen=True)
class Mutation:
    """One mistake in the package.

    Attributes:
        name: the mistake, as a sentence without a full stop.
        file: path from the root of the repository.
        old: text that stands in the file exactly once.
        new: what takes its place.
        caught_by: tests that should notice, as pytest takes them; the narrower, the sooner it is over.
        lab: a lab whose reference record should notice, where that is asked for instead of a test.
    """

    name: str
    file: str
    old: str
    new: str
    caught_by: tuple[str, ...] = ()
    lab: str = ""

    def mutate(self, text: str) -> str:
        """The file's text with the mistake in it.

        Raises:
            DoesNotApply: `old` does not stand in it exactly once; the message names the mutation and the file.
        """
        times = text.count(self.old)
        if times != 1:
            raise DoesNotApply(
                f"{self.name!r} does not apply: {self.file} contains {self.old!r} {times} times instead of once. "
                "Say in tests/mutate what stands there now."
            )
        return text.replace(self.old, self.new)

    def mutated(self, root: Path) -> str:
        """The text of the mutation's file under `root`, with the mistake in it.

        Raises:
            DoesNotApply: there is no such file, or see `mutate`.
        """
        path = root / self.file
        if not path.is_file():
            raise DoesNotApply(f"{self.name!r} does not apply: there is no {self.file}.")
        return self.mutate(path.read_text(encoding="utf-8"))
