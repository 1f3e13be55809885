"""Texts -> token ids, once: all documents in one flat array, with the places where each begins.

No special token is stored. BOS and EOS belong to the way in which a batch is made, and are added there.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerFast

from minimind.tokenizer import encode_text

IntArray = npt.NDArray[np.int64]

# The random stream of ``order`` that decides what is held out; the loader uses others.
_HELD_OUT = 2


@dataclass(frozen=True, eq=False)
class Documents:
    """Tokenised documents.

    Attributes:
        tokens: (total tokens,) int32, the documents end to end.
        offsets: (documents + 1,) int64; document i is ``tokens[offsets[i] : offsets[i + 1]]``.
        characters: (documents,) int64, the length of each text in characters.
        utf8_bytes: (documents,) int64, the length of each text in bytes, for bits per byte.
    """

    tokens: npt.NDArray[np.int32]
    offsets: IntArray
    characters: IntArray
    utf8_bytes: IntArray

    def __post_init__(self) -> None:
        if len(self.offsets) < 1 or self.offsets[0] != 0 or self.offsets[-1] != len(self.tokens):
            raise ValueError(f"offsets must run from 0 to the number of tokens, {len(self.tokens)}.")
        if not len(self.characters) == len(self.utf8_bytes) == len(self.offsets) - 1:
            raise ValueError("characters and utf8_bytes need one number for each document.")
        empty = np.flatnonzero(self.lengths < 1)
        if len(empty):
            raise ValueError(
                f"Document {empty[0]} has no tokens, so nothing can be learned from it: leave empty texts out."
            )

    @classmethod
    def from_texts(cls, texts: Iterable[str], tokenizer: PreTrainedTokenizerFast) -> Documents:
        """Tokenise texts as plain text: a control string such as ``<|im_end|>`` gives no control id.

        Args:
            texts: the documents, in order; read once, so a generator will do.
            tokenizer: the tokenizer to use; nothing is added before or after a text.

        Raises:
            ValueError: when a text gives no tokens.
        """
        tokens: list[npt.NDArray[np.int32]] = []
        lengths: list[int] = []
        characters: list[int] = []
        utf8_bytes: list[int] = []
        for text in texts:
            ids = encode_text(tokenizer, text)
            # An array takes 4 bytes a token, a list of Python numbers nine times as much.
            tokens.append(np.asarray(ids, dtype=np.int32))
            lengths.append(len(ids))
            characters.append(len(text))
            utf8_bytes.append(len(text.encode()))
        return cls(
            tokens=np.concatenate(tokens) if tokens else np.empty(0, dtype=np.int32),
            offsets=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
            characters=np.asarray(characters, dtype=np.int64),
            utf8_bytes=np.asarray(utf8_bytes, dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> npt.NDArray[np.int32]:
        """The token ids of one document, (length,) int32; a view, not a copy."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"There is no document {index}: there are {len(self)}.")
        index %= len(self)
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[npt.NDArray[np.int32]]:
        return (self[index] for index in range(len(self)))

    @cached_property
    def lengths(self) -> IntArray:
        """(documents,) int64, the tokens of each document."""
        return np.diff(self.offsets)

    @property
    def total_tokens(self) -> int:
        """Tokens of all documents together, without BOS and EOS."""
        return len(self.tokens)

    def fingerprint(self) -> str:
        """sha256 over the tokens and the borders between documents; the same on every platform."""
        return self._sha256

    @cached_property
    def _sha256(self) -> str:
        digest = hashlib.sha256()
        for array, layout in ((self.offsets, "<i8"), (self.tokens, "<i4")):
            digest.update(len(array).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(array, dtype=layout).data)
        return digest.hexdigest()

    def select(self, indices: Sequence[int] | IntArray) -> Documents:
        """Some of the documents, in the order given, as documents of their own."""
        chosen = np.asarray(indices, dtype=np.int64)
        return Documents(
            tokens=np.concatenate([self[index] for index in chosen]) if len(chosen) else np.empty(0, dtype=np.int32),
            offsets=np.concatenate([[0], np.cumsum(self.lengths[chosen])]).astype(np.int64),
            characters=self.characters[chosen],
            utf8_bytes=self.utf8_bytes[chosen],
        )

    def summary(self) -> str:
        """One sentence: how many documents, characters and tokens."""
        characters = int(self.characters.sum())
        ratio = f" ({characters / self.total_tokens:.2f} characters per token)" if self.total_tokens else ""
        return (
            f"{len(self):,} documents, {characters:,} characters, {self.total_tokens:,} tokens"
            f"{ratio}, BOS and EOS not counted."
        )


def order(seed: int, epoch: int, n: int, stream: int = 0) -> IntArray:
    """A permutation of 0 .. n-1 that depends on nothing but its arguments.

    It sorts n raw 64-bit draws of PCG64. numpy promises that the raw output of its bit generators and of
    SeedSequence never changes, on any platform; it makes no such promise for ``Generator.permutation``, whose
    algorithm may change with a numpy release and would then reorder the data of a run that is being resumed.

    Args:
        seed: the run's seed, 0 to 2**32 - 1.
        epoch: the epoch, counted from 0.
        n: how many things to order.
        stream: tells apart several independent orders of one epoch.

    Returns:
        (n,) int64, each of 0 .. n-1 once.

    Raises:
        ValueError: when seed or epoch is not in 0 .. 2**32 - 1, or n is negative.
    """
    for name, value in (("seed", seed), ("epoch", epoch)):
        # A larger number would spill into the next word of the SeedSequence: two runs could share an order.
        if not 0 <= value < 2**32:
            raise ValueError(f"{name} is {value}: choose a whole number from 0 to {2**32 - 1}.")
    if n < 0:
        raise ValueError(f"order was asked for {n} things: n must be 0 or more.")
    keys = np.random.PCG64(np.random.SeedSequence([seed, epoch, stream])).random_raw(n)
    # A stable sort keeps the result defined should two keys ever be equal.
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False)


def split_documents(documents: Documents, validation_documents: int, seed: int) -> tuple[Documents, Documents]:
    """Hold out documents for validation, chosen by ``seed`` alone.

    Only documents that occur once are held out. A text that is also in the training part would be
    remembered, not predicted, and the validation loss would flatter the model. Both parts keep the order of
    the data.

    Args:
        documents: all of them.
        validation_documents: how many to hold out; 0 gives an empty second part.
        seed: decides which.

    Returns:
        The documents to train on and those held out; together they are all documents.

    Raises:
        ValueError: when that many cannot be held out, or nothing would be left to train on.
    """
    train, held_out = split_indices(
        [document.tobytes() for document in documents], validation_documents, seed, "documents"
    )
    return documents.select(train), documents.select(held_out)


def split_indices(contents: Sequence[bytes], held_out: int, seed: int, what: str) -> tuple[IntArray, IntArray]:
    """What `split_documents` does, for anything: the indices to train on, and those held out.

    Args:
        contents: of each item; equal bytes mean equal items.
        held_out: how many to hold out, among those that occur once.
        seed: decides which.
        what: the items' name in an error, such as "documents".

    Raises:
        ValueError: see `split_documents`.
    """
    if not 0 <= held_out < len(contents):
        raise ValueError(
            f"validation_documents is {held_out} of {len(contents)} {what}: hold out 0 or more, and leave at least "
            "one to train on. For so few, --validation_documents 0 measures nothing on the side."
        )
    times = Counter(contents)
    shuffled = order(seed, 0, len(contents), stream=_HELD_OUT)
    chosen = [index for index in shuffled if times[contents[index]] == 1]
    if len(chosen) < held_out:
        raise ValueError(
            f"validation_documents is {held_out}, but only {len(chosen)} of {len(contents)} {what} occur once: hold "
            "out fewer, or remove the copies from the data."
        )
    mask = np.zeros(len(contents), dtype=bool)
    mask[chosen[:held_out]] = True
    return np.flatnonzero(~mask), np.flatnonzero(mask)
