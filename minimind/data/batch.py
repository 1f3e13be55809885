"""What one update is made of: the tensors of a batch and the documents they came from.

A batch is *global*: it holds the rows of all ranks and all micro-batches of one update. ``split`` divides
it, so that every rank and every micro-batch sees its own rows and no row is seen twice.

Shapes: B rows, T positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

IGNORE_INDEX = -100
"""The label that the loss leaves out; torch's cross entropy and transformers use the same number."""


@dataclass(frozen=True, eq=False)
class Batch:
    """The rows of one update.

    Attributes:
        input_ids: (B, T) int64, the token ids.
        labels: (B, T) int64, the token ids again, ``-100`` where nothing is trained. They are *not*
            shifted: the objective compares the logits at position t with the label at t + 1.
        attention_mask: (B, T) int64, 1 on real tokens and 0 on padding; None when nothing is padded.
        document_ids: (B, T) int64, for packed rows: which document a token belongs to, by its index in the
            data, -1 on padding. None when every row is a document of its own.
        position_ids: (B, T) int64, for packed rows: the position of a token inside its piece of a document.
            None when positions simply count along the row.
        sample_ids: indices of the documents in this batch, in row order, each once.
    """

    input_ids: Tensor
    labels: Tensor
    attention_mask: Tensor | None
    document_ids: Tensor | None
    position_ids: Tensor | None
    sample_ids: tuple[int, ...]

    def __post_init__(self) -> None:
        shape = self.input_ids.shape
        if len(shape) != 2:
            raise ValueError(f"input_ids must have the shape (rows, positions), not {tuple(shape)}.")
        for name in ("labels", "attention_mask", "document_ids", "position_ids"):
            tensor = getattr(self, name)
            if tensor is not None and tensor.shape != shape:
                raise ValueError(
                    f"{name} has the shape {tuple(tensor.shape)} and input_ids {tuple(shape)}: "
                    "give every tensor of a batch the same shape."
                )

    def to(self, device: torch.device | str) -> Batch:
        """The same batch with its tensors on ``device``."""

        def move(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.to(device)

        return Batch(
            input_ids=self.input_ids.to(device),
            labels=self.labels.to(device),
            attention_mask=move(self.attention_mask),
            document_ids=move(self.document_ids),
            position_ids=move(self.position_ids),
            sample_ids=self.sample_ids,
        )

    def split(self, n: int) -> list[Batch]:
        """Divide the rows into ``n`` equal groups, in order: one per rank, or one per micro-batch.

        Args:
            n: number of groups; it must divide the number of rows (see ``pad_rows``).

        Returns:
            ``n`` batches of B / n rows. A packed document that crosses from one group into the next is
            named in the ``sample_ids`` of both.

        Raises:
            ValueError: when the rows cannot be divided into ``n`` equal groups.
        """
        rows = self.input_ids.shape[0]
        if n < 1 or rows % n:
            raise ValueError(
                f"A batch of {rows} rows cannot be split into {n} equal groups: choose a batch size that is "
                "a multiple of ranks x accumulation steps, or fill the batch up with pad_rows first."
            )
        size = rows // n
        return [self._rows(start, start + size) for start in range(0, rows, size)]

    def pad_rows(self, multiple: int) -> Batch:
        """Fill the batch up with rows that train nothing, until its rows are a multiple of ``multiple``.

        The last batch of an epoch is smaller than the others, and no document may be left out because it
        does not fill a row on every rank. The rows that are added repeat the last row with every label
        -100, so that they weigh nothing in the loss; they belong to no sample.

        Args:
            multiple: ranks x accumulation steps.

        Returns:
            The batch itself when its rows already divide, else a larger one with an ``attention_mask``.

        Raises:
            ValueError: when ``multiple`` is less than 1.
        """
        if multiple < 1:
            raise ValueError(f"pad_rows needs a multiple of at least 1, not {multiple}.")
        rows, width = self.input_ids.shape
        missing = -rows % multiple
        if missing == 0:
            return self

        def repeat_last_row(tensor: Tensor) -> Tensor:
            return torch.cat([tensor, tensor[-1:].expand(missing, -1)])

        labels = repeat_last_row(self.labels)
        labels[rows:] = IGNORE_INDEX
        mask = torch.ones_like(self.input_ids) if self.attention_mask is None else self.attention_mask
        mask = repeat_last_row(mask)
        mask[rows:] = 0
        document_ids = None
        if self.document_ids is None:
            # Attention over a row without one visible token is 0 / 0; one visible token keeps it finite.
            mask[rows:, 0] = 1
        else:
            document_ids = repeat_last_row(self.document_ids)
            document_ids[rows:] = -1
        position_ids = None
        if self.position_ids is not None:
            position_ids = repeat_last_row(self.position_ids)
            position_ids[rows:] = torch.arange(width, device=position_ids.device)
        return Batch(
            input_ids=repeat_last_row(self.input_ids),
            labels=labels,
            attention_mask=mask,
            document_ids=document_ids,
            position_ids=position_ids,
            sample_ids=self.sample_ids,
        )

    def _rows(self, start: int, stop: int) -> Batch:
        """The rows [start, stop) as a batch of their own."""

        def cut(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor[start:stop]

        document_ids = cut(self.document_ids)
        if document_ids is None:
            sample_ids = self.sample_ids[start:stop]
        else:
            # Packed rows hold any number of documents: read which ones from the rows themselves.
            present = dict.fromkeys(document_ids.flatten().tolist())
            sample_ids = tuple(sample for sample in present if sample >= 0)
        return Batch(
            input_ids=self.input_ids[start:stop],
            labels=self.labels[start:stop],
            attention_mask=cut(self.attention_mask),
            document_ids=document_ids,
            position_ids=cut(self.position_ids),
            sample_ids=sample_ids,
        )
