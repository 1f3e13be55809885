"""Conversations -> batches in which only the assistant's words are trained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

from minimind.chat import Message, encode_chat
from minimind.data.batch import IGNORE_INDEX, Batch
from minimind.data.documents import IntArray
from minimind.data.loader import EpochStatistics, grouped_by_length


@dataclass(frozen=True, eq=False)
class Conversations:
    """Tokenised conversations, end to end in flat arrays.

    Attributes:
        tokens: (total tokens,) int32.
        supervised: (total tokens,) bool, whether the assistant has to say the token.
        offsets: (conversations + 1,) int64; conversation i is ``tokens[offsets[i] : offsets[i + 1]]``.
        full_lengths: (conversations,) int64, the tokens of each before it was cut to a row.
        dropped: how many were left out, since nothing that the assistant says is left of them.
    """

    tokens: npt.NDArray[np.int32]
    supervised: npt.NDArray[np.bool_]
    offsets: IntArray
    full_lengths: IntArray
    dropped: int = 0

    @classmethod
    def from_messages(
        cls, conversations: Iterable[Sequence[Message]], tokenizer: PreTrainedTokenizerFast, max_seq_len: int
    ) -> Conversations:
        """Encodes conversations and cuts each to ``max_seq_len`` tokens.

        Raises:
            ValueError: a conversation that is none, or not one of them has anything to train on.
        """
        ids: list[list[int]] = []
        masks: list[list[bool]] = []
        full_lengths: list[int] = []
        dropped = 0
        for number, messages in enumerate(conversations, start=1):
            try:
                chat = encode_chat(tokenizer, messages)
            except ValueError as error:
                raise ValueError(f"conversation {number}: {error}") from error
            # The first token of a row is never predicted, so it does not count as something to train on.
            if not any(chat.supervised[1:max_seq_len]):
                dropped += 1
                continue
            full_lengths.append(len(chat.input_ids))
            ids.append(chat.input_ids[:max_seq_len])
            masks.append(chat.supervised[:max_seq_len])
        if not ids:
            raise ValueError(
                f"none of {dropped} conversations has a word of the assistant within max_seq_len={max_seq_len} tokens, "
                "so there is nothing to train on; give answers, or a larger max_seq_len."
            )
        return cls(
            tokens=np.concatenate([np.asarray(row, dtype=np.int32) for row in ids]),
            supervised=np.concatenate([np.asarray(row, dtype=np.bool_) for row in masks]),
            offsets=np.concatenate([[0], np.cumsum([len(row) for row in ids], dtype=np.int64)]).astype(np.int64),
            full_lengths=np.asarray(full_lengths, dtype=np.int64),
            dropped=dropped,
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """The ids of one conversation, and which of them are supervised; views, not copies."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"There is no conversation {index}: there are {len(self)}.")
        index %= len(self)
        here = slice(self.offsets[index], self.offsets[index + 1])
        return self.tokens[here], self.supervised[here]

    @cached_property
    def lengths(self) -> IntArray:
        """(conversations,) int64, the tokens of each."""
        return np.diff(self.offsets)

    @cached_property
    def contents(self) -> list[bytes]:
        """Of each conversation; equal conversations have equal contents."""
        return [tokens.tobytes() + mask.tobytes() for tokens, mask in (self[i] for i in range(len(self)))]

    def select(self, indices: Sequence[int] | IntArray) -> Conversations:
        """Some of the conversations, in the order given, as conversations of their own."""
        chosen = [self[int(index)] for index in indices]
        return Conversations(
            tokens=np.concatenate([tokens for tokens, _ in chosen]) if chosen else np.empty(0, dtype=np.int32),
            supervised=np.concatenate([mask for _, mask in chosen]) if chosen else np.empty(0, dtype=np.bool_),
            offsets=np.concatenate([[0], np.cumsum([len(tokens) for tokens, _ in chosen])]).astype(np.int64),
            full_lengths=self.full_lengths[np.asarray(indices, dtype=np.int64)],
        )

    @cached_property
    def sha256(self) -> str:
        """Hash of tokens, masks and borders; the same on every platform."""
        digest = hashlib.sha256()
        for array, layout in ((self.offsets, "<i8"), (self.tokens, "<i4"), (self.supervised, "|b1")):
            digest.update(len(array).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(array, dtype=layout).data)
        return digest.hexdigest()


class SFTDataset(Dataset[dict[str, Tensor]]):
    """One padded sample for each conversation: labels on what the assistant says, -100 elsewhere.

    The plain form, for reading and for small experiments; runs use `ConversationBatches`.

    Args:
        conversations: the list of messages of each.
        tokenizer: one of the course's.
        max_seq_len: tokens of every sample, padding included.

    Raises:
        ValueError: see `Conversations.from_messages`.
    """

    def __init__(
        self, conversations: Iterable[Sequence[Message]], tokenizer: PreTrainedTokenizerFast, max_seq_len: int
    ) -> None:
        self.conversations = Conversations.from_messages(conversations, tokenizer, max_seq_len)
        self.max_seq_len = max_seq_len
        self.pad: int = tokenizer.pad_token_id

    def __len__(self) -> int:
        return len(self.conversations)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        """``input_ids``, ``labels`` and ``attention_mask``, each (max_seq_len,) int64; labels are not shifted."""
        ids, supervised = self.conversations[index]
        padding = self.max_seq_len - len(ids)
        labels = np.where(supervised, ids, IGNORE_INDEX).tolist()
        return {
            "input_ids": torch.tensor(ids.tolist() + [self.pad] * padding),
            "labels": torch.tensor(labels + [IGNORE_INDEX] * padding),
            "attention_mask": torch.tensor([1] * len(ids) + [0] * padding),
        }


@dataclass(frozen=True, eq=False)
class ConversationBatches:
    """One conversation per row, padded to the longest row of its batch; the order is `grouped_by_length`'s.

    Attributes:
        conversations: the tokenised conversations, already cut to a row's length.
        batch_size: rows of a global batch.
        seed: decides the order.
        pad: id on padded positions.

    Raises:
        ValueError: no conversations, or no rows in a batch.
    """

    conversations: Conversations
    _: KW_ONLY
    batch_size: int
    seed: int
    pad: int
    window_batches: int = 32
    _plans: dict[int, IntArray] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.conversations) == 0:
            raise ValueError("There are no conversations to make batches of: give at least one.")
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}: a batch needs at least 1 row.")

    def batches_per_epoch(self) -> int:
        """How many batches make one epoch."""
        return -(-len(self.conversations) // self.batch_size)

    def batch(self, epoch: int, index: int) -> Batch:
        """The global batch ``index`` of ``epoch``: (rows, longest row) tensors.

        Raises:
            ValueError: when there is no such batch.
        """
        count = self.batches_per_epoch()
        if not 0 <= index < count or epoch < 0:
            raise ValueError(
                f"There is no batch {index} of epoch {epoch}: each epoch has the batches 0 to {count - 1}."
            )
        rows = self._plan(epoch)[index * self.batch_size : (index + 1) * self.batch_size]
        lengths = self.conversations.lengths[rows]
        offset = np.broadcast_to(np.arange(lengths.max()), (len(rows), lengths.max()))
        real = offset < lengths[:, None]
        place = self.conversations.offsets[rows][:, None] + offset
        ids = self.conversations.tokens.take(place, mode="clip").astype(np.int64)
        supervised = self.conversations.supervised.take(place, mode="clip")
        return Batch(
            input_ids=torch.from_numpy(np.where(real, ids, self.pad)),
            labels=torch.from_numpy(np.where(real & supervised, ids, IGNORE_INDEX)),
            attention_mask=None if real.all() else torch.from_numpy(real.astype(np.int64)),
            document_ids=None,
            position_ids=None,
            sample_ids=tuple(rows.tolist()),
        )

    def statistics(self, epoch: int) -> EpochStatistics:
        """Count one epoch; only the padding differs between epochs."""
        lengths = self.conversations.lengths[self._plan(epoch)]
        starts = np.arange(0, len(lengths), self.batch_size)
        rows = np.diff(np.append(starts, len(lengths)))
        real = int(lengths.sum())
        lost = self.conversations.full_lengths - self.conversations.lengths
        first = self.conversations.supervised[self.conversations.offsets[:-1]]
        return EpochStatistics(
            batches=len(starts),
            rows=len(lengths),
            last_batch_rows=int(rows[-1]),
            real_tokens=real,
            padded_positions=int((rows * np.maximum.reduceat(lengths, starts)).sum()) - real,
            supervised_tokens=int(self.conversations.supervised.sum() - first.sum()),
            cut_documents=int((lost > 0).sum()),
            cut_tokens=int(lost.sum()),
        )

    def fingerprint(self) -> str:
        """sha256 over tokens and settings: equal fingerprints mean equal data in an equal order."""
        content: dict[str, Any] = {
            "kind": type(self).__name__,
            "batch_size": self.batch_size,
            "seed": self.seed,
            "pad": self.pad,
            "window_batches": self.window_batches,
            "conversations": self.conversations.sha256,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def _plan(self, epoch: int) -> IntArray:
        """The order of one epoch, kept until another epoch is asked for."""
        if epoch not in self._plans:
            plan = grouped_by_length(self.conversations.lengths, self.batch_size, self.window_batches, self.seed, epoch)
            self._plans.clear()
            self._plans[epoch] = plan
        return self._plans[epoch]
