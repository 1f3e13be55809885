"""Token ids -> batches, in an order that is a pure function of (seed, epoch, index).

A source keeps no position. Whoever trains remembers (epoch, index), and asking for that batch again,
tomorrow, on another machine or on twice as many ranks, gives the same batch: this is the whole of "resume
the data".

``DocumentBatches`` puts one document in each row and pads; ``PackedBatches`` lays the documents end to end
and pads only the last row of an epoch. Every document is written as BOS + text + EOS.

Shapes: B rows, T positions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch

from minimind.data.batch import IGNORE_INDEX, Batch
from minimind.data.documents import Documents, IntArray, order, split_documents

__all__ = ["BatchSource", "DocumentBatches", "PackedBatches", "iterate", "order", "split_documents"]

# Independent random streams of one (seed, epoch); ``split_documents`` has one of its own.
_DOCUMENTS, _BATCHES = 0, 1


class BatchSource(Protocol):
    """What the training loop needs to know about its data."""

    def batches_per_epoch(self) -> int:
        """How many batches make one epoch."""
        ...

    def batch(self, epoch: int, index: int) -> Batch:
        """The global batch ``index`` of ``epoch``; any, in any order, always the same."""
        ...

    def fingerprint(self) -> str:
        """sha256 over tokens and settings: equal fingerprints mean equal data in an equal order."""
        ...


@dataclass(frozen=True)
class EpochStatistics:
    """What one epoch is made of; exact counts.

    Attributes:
        batches: number of batches.
        rows: rows of all batches together.
        last_batch_rows: rows of the last batch, which may be smaller than the others.
        real_tokens: positions that hold a token of a document, BOS and EOS included.
        padded_positions: positions that hold padding.
        supervised_tokens: tokens that the model is asked to predict.
        cut_documents: documents that lost their end because they are longer than a row.
        cut_tokens: how many tokens those documents lost.
    """

    batches: int
    rows: int
    last_batch_rows: int
    real_tokens: int
    padded_positions: int
    supervised_tokens: int
    cut_documents: int
    cut_tokens: int

    def waste(self) -> float:
        """The share of positions that hold padding, 0 to 1."""
        return self.padded_positions / (self.real_tokens + self.padded_positions)


@dataclass(frozen=True, eq=False)
class _Source:
    """What both sources share.

    Attributes:
        documents: the tokenised texts.
        batch_size: rows of a global batch.
        max_seq_len: tokens of a row, BOS and EOS included.
        seed: decides the order, 0 to 2**32 - 1.
        bos: id of the token before each text.
        eos: id of the token after each text.
        pad: id on padded positions.
    """

    documents: Documents
    _: KW_ONLY
    batch_size: int
    max_seq_len: int
    seed: int
    bos: int
    eos: int
    pad: int
    _plans: dict[int, IntArray] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.documents) == 0:
            raise ValueError("There are no documents to make batches of: give at least one.")
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}: a batch needs at least 1 row.")
        if self.max_seq_len < 2:
            raise ValueError(
                f"max_seq_len is {self.max_seq_len}: a row needs at least 2 tokens, to read and to predict."
            )
        for name, token in (("bos", self.bos), ("eos", self.eos), ("pad", self.pad)):
            if token < 0:
                raise ValueError(f"{name} is {token}: give the id of a token, 0 or more.")
        order(self.seed, 0, 0)  # refuses an unusable seed here rather than at the first batch

    @cached_property
    def lengths(self) -> IntArray:
        """(documents,) int64, tokens of each document, BOS and EOS included."""
        return self.documents.lengths + 2

    def batches_per_epoch(self) -> int:
        """How many batches make one epoch."""
        raise NotImplementedError

    def _make_plan(self, epoch: int) -> IntArray:
        """The order of one epoch."""
        raise NotImplementedError

    def _plan(self, epoch: int) -> IntArray:
        """The order of one epoch, kept until another epoch is asked for: it costs a sort of all documents."""
        plan = self._plans.get(epoch)
        if plan is None:
            plan = self._make_plan(epoch)
            self._plans.clear()
            self._plans[epoch] = plan
        return plan

    def settings(self) -> dict[str, Any]:
        """Everything but the tokens that decides which batch comes when."""
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.init}
        del values["documents"]
        return {"kind": type(self).__name__, **values}

    def fingerprint(self) -> str:
        """sha256 over tokens and settings: equal fingerprints mean equal data in an equal order."""
        content = {**self.settings(), "documents": self.documents.fingerprint()}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def _check(self, epoch: int, index: int) -> None:
        """Refuse a batch that does not exist."""
        count = self.batches_per_epoch()
        if not 0 <= index < count:
            raise ValueError(f"There is no batch {index}: an epoch has {count} batches, 0 to {count - 1}.")
        if epoch < 0:
            raise ValueError(f"There is no epoch {epoch}: epochs are counted from 0.")

    def _framed(self, document: IntArray, offset: IntArray) -> IntArray:
        """Tokens of BOS + text + EOS, read at any places at once.

        Args:
            document: document indices, any shape.
            offset: places inside the framed documents, same shape, 0 (BOS) to length - 1 (EOS).

        Returns:
            The token ids, same shape. An offset past the end of a document gives an arbitrary id.
        """
        tokens = self.documents.tokens
        place = self.documents.offsets[document] + offset - 1
        ids = tokens.take(place, mode="clip").astype(np.int64)
        ids[offset == 0] = self.bos
        ids[offset == self.lengths[document] - 1] = self.eos
        return ids


def grouped_by_length(row_lengths: IntArray, batch_size: int, window_batches: int, seed: int, epoch: int) -> IntArray:
    """The order of an epoch's rows, in which rows of similar length share a batch.

    Args:
        row_lengths: (rows,) tokens of each.
        batch_size: rows of a batch.
        window_batches: how many batches' rows are sorted together; 1 groups nothing.
        seed: decides the order.
        epoch: counted from 0.

    Returns:
        (rows,) int64, each row once; those that fill no batch come last.
    """
    rows = order(seed, epoch, len(row_lengths), _DOCUMENTS)
    full_batches = len(rows) // batch_size
    grouped, rest = np.split(rows, [full_batches * batch_size])
    window = np.arange(len(grouped)) // (window_batches * batch_size)
    # lexsort's last key counts most: window by window, short rows first. It is stable.
    grouped = grouped[np.lexsort((row_lengths[grouped], window))]
    window = np.arange(full_batches) // window_batches
    shuffled = np.lexsort((order(seed, epoch, full_batches, _BATCHES), window))
    return np.concatenate([grouped.reshape(full_batches, batch_size)[shuffled].ravel(), rest])


@dataclass(frozen=True, eq=False)
class DocumentBatches(_Source):
    """One document per row: BOS + text + EOS, cut to ``max_seq_len``, padded to the longest row of the batch.

    A cut document loses its end, EOS included: teaching that a text ends where the row does would be a lie.

    Documents of similar length share a batch, which saves most of the padding: the epoch's permutation is
    cut into windows of ``window_batches`` batches (1 means no grouping), each window is sorted by length
    and divided into batches, and the batches of a window are shuffled. The documents that do not fill a
    batch come last, as the epoch's one smaller batch.

    Raises:
        ValueError: when a setting is out of its range, or there are no documents.
    """

    window_batches: int = field(default=32, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window_batches < 1:
            raise ValueError(f"window_batches is {self.window_batches}: a window holds at least 1 batch.")

    @cached_property
    def row_lengths(self) -> IntArray:
        """(documents,) int64, tokens of each document that fit in a row."""
        return np.minimum(self.lengths, self.max_seq_len)

    def batches_per_epoch(self) -> int:
        """How many batches make one epoch."""
        return -(-len(self.documents) // self.batch_size)

    def batch(self, epoch: int, index: int) -> Batch:
        """The global batch ``index`` of ``epoch``.

        Returns:
            A batch of (rows, longest row) tensors; labels are -100 on padding.

        Raises:
            ValueError: when there is no such batch.
        """
        self._check(epoch, index)
        rows = self._plan(epoch)[index * self.batch_size : (index + 1) * self.batch_size]
        lengths = self.row_lengths[rows]
        offset = np.broadcast_to(np.arange(lengths.max()), (len(rows), lengths.max()))
        real = offset < lengths[:, None]
        ids = self._framed(np.broadcast_to(rows[:, None], offset.shape), offset)
        return Batch(
            input_ids=torch.from_numpy(np.where(real, ids, self.pad)),
            labels=torch.from_numpy(np.where(real, ids, IGNORE_INDEX)),
            attention_mask=None if real.all() else torch.from_numpy(real.astype(np.int64)),
            document_ids=None,
            position_ids=None,
            sample_ids=tuple(rows.tolist()),
        )

    def statistics(self, epoch: int) -> EpochStatistics:
        """Count one epoch; only the padding differs between epochs."""
        lengths = self.row_lengths[self._plan(epoch)]
        starts = np.arange(0, len(lengths), self.batch_size)
        rows = np.diff(np.append(starts, len(lengths)))
        widths = np.maximum.reduceat(lengths, starts)
        real = int(lengths.sum())
        return EpochStatistics(
            batches=len(starts),
            rows=len(lengths),
            last_batch_rows=int(rows[-1]),
            real_tokens=real,
            padded_positions=int((rows * widths).sum()) - real,
            supervised_tokens=real - len(lengths),
            cut_documents=int((self.lengths > self.max_seq_len).sum()),
            cut_tokens=int((self.lengths - self.row_lengths).sum()),
        )

    def _make_plan(self, epoch: int) -> IntArray:
        """(documents,) int64: the documents in the order of the rows."""
        return grouped_by_length(self.row_lengths, self.batch_size, self.window_batches, self.seed, epoch)


@dataclass(frozen=True, eq=False)
class PackedBatches(_Source):
    """Rows without padding: the epoch's documents laid end to end, row k = tokens [k * T, (k + 1) * T).

    Nothing is cut off. A document that crosses the border of a row goes on in the next row as a new piece:
    its positions restart at 0, and the label of its first token is -100, as it is for the first token of a
    document, so that no token is predicted from another document or from a row that attention cannot see.

    Raises:
        ValueError: when a setting is out of its range, or there are no documents.
    """

    @cached_property
    def epoch_tokens(self) -> int:
        """Tokens of one epoch, BOS and EOS included."""
        return int(self.lengths.sum())

    def rows_per_epoch(self) -> int:
        """How many rows hold one epoch."""
        return -(-self.epoch_tokens // self.max_seq_len)

    def batches_per_epoch(self) -> int:
        """How many batches make one epoch."""
        return -(-self.rows_per_epoch() // self.batch_size)

    def batch(self, epoch: int, index: int) -> Batch:
        """The global batch ``index`` of ``epoch``.

        Returns:
            A batch of (rows, max_seq_len) tensors with ``document_ids`` and ``position_ids``;
            ``attention_mask`` is None unless the batch holds the epoch's last, padded row.

        Raises:
            ValueError: when there is no such batch.
        """
        self._check(epoch, index)
        T = self.max_seq_len
        first_row = index * self.batch_size
        rows = min(self.batch_size, self.rows_per_epoch() - first_row)
        begin = first_row * T
        end = min(begin + rows * T, self.epoch_tokens)
        documents, ends = self._plan(epoch)

        # Which documents lie in [begin, end), and where each starts and stops inside it.
        first = int(np.searchsorted(ends, begin, side="right"))
        last = int(np.searchsorted(ends, end, side="left"))
        documents, ends = documents[first : last + 1], ends[first : last + 1]
        starts = ends - self.lengths[documents]
        counts = np.minimum(ends, end) - np.maximum(starts, begin)

        place = np.arange(begin, end)  # in tokens from the start of the epoch
        document = np.repeat(documents, counts)
        start = np.repeat(starts, counts)
        ids = self._framed(document, place - start)
        # A piece starts where its document starts, or where its row does.
        position = place - np.maximum(start, place - place % T)
        labels = np.where(position == 0, IGNORE_INDEX, ids)

        padding = rows * T - len(place)

        def table(values: IntArray, fill: int) -> torch.Tensor:
            filled = np.concatenate([values, np.full(padding, fill)]) if padding else values
            return torch.from_numpy(filled.reshape(rows, T))

        position_ids = table(position, 0)
        if padding:
            position_ids[-1, T - padding :] = torch.arange(padding)
        return Batch(
            input_ids=table(ids, self.pad),
            labels=table(labels, IGNORE_INDEX),
            attention_mask=table(np.ones_like(ids), 0) if padding else None,
            document_ids=table(document, -1),
            position_ids=position_ids,
            sample_ids=tuple(documents.tolist()),
        )

    def statistics(self, epoch: int) -> EpochStatistics:
        """Count one epoch; how many documents cross a border of rows differs between epochs."""
        _, ends = self._plan(epoch)
        rows = self.rows_per_epoch()
        borders = np.arange(1, rows) * self.max_seq_len
        # A border inside a document cuts it in two: one more piece, one token less to predict.
        crossed = len(borders) - int(np.isin(borders, ends, assume_unique=True).sum())
        batches = self.batches_per_epoch()
        return EpochStatistics(
            batches=batches,
            rows=rows,
            last_batch_rows=rows - (batches - 1) * self.batch_size,
            real_tokens=self.epoch_tokens,
            padded_positions=rows * self.max_seq_len - self.epoch_tokens,
            supervised_tokens=self.epoch_tokens - len(self.documents) - crossed,
            cut_documents=0,
            cut_tokens=0,
        )

    def _make_plan(self, epoch: int) -> IntArray:
        """(2, documents) int64: the documents in the order of reading, and where each ends in the epoch."""
        documents = order(self.seed, epoch, len(self.documents), _DOCUMENTS)
        return np.stack([documents, np.cumsum(self.lengths[documents])])


def iterate(source: BatchSource, start_epoch: int = 0, start_index: int = 0) -> Iterator[tuple[int, int, Batch]]:
    """All batches from a place on, epoch after epoch, without end.

    Args:
        source: where the batches come from.
        start_epoch: the epoch to start in, counted from 0.
        start_index: the first batch wanted; the number of batches per epoch means "the next epoch's first".

    Returns:
        An endless iterator over (epoch, index, batch).

    Raises:
        ValueError: when there is no such place.
    """
    count = source.batches_per_epoch()
    if start_epoch < 0 or not 0 <= start_index <= count:
        raise ValueError(
            f"Cannot start at epoch {start_epoch}, batch {start_index}: epochs are counted from 0 and each "
            f"has {count} batches."
        )

    def walk() -> Iterator[tuple[int, int, Batch]]:
        epoch, index = start_epoch, start_index
        while True:
            if index == count:
                epoch, index = epoch + 1, 0
            yield epoch, index, source.batch(epoch, index)
            index += 1

    return walk()
