"""``PretrainDataset``: one padded training sample for each document, as a torch Dataset.

This is the data of pretraining in its plainest form, for reading and for small experiments. Full runs use the
sources of ``minimind.data.loader``, which make the same rows with far less padding.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

from minimind.data.batch import IGNORE_INDEX
from minimind.data.documents import Documents
from minimind.data.jsonl import read_texts


class PretrainDataset(Dataset[dict[str, Tensor]]):
    """BOS + text + EOS, cut to ``max_seq_len`` and padded to ``max_seq_len``.

    A document that is too long loses its end, EOS included, so that the model is never told that a text ends
    where it was cut. Padding is known by its place, not by its id: labels are right even where pad equals
    eos.
    """

    def __init__(self, documents: Documents, max_seq_len: int, bos: int, eos: int, pad: int) -> None:
        """Describe the samples; each is made when it is asked for.

        Args:
            documents: the tokenised texts.
            max_seq_len: tokens of every sample, BOS, EOS and padding included; at least 2.
            bos: id of the token before each text.
            eos: id of the token after each text.
            pad: id that fills up a sample.

        Raises:
            ValueError: when ``max_seq_len`` is less than 2.
        """
        if max_seq_len < 2:
            raise ValueError(f"max_seq_len is {max_seq_len}: a sample needs at least 2 tokens, to read and to predict.")
        self.documents = documents
        self.max_seq_len = max_seq_len
        self.bos = bos
        self.eos = eos
        self.pad = pad
        self.cut_documents = int((documents.lengths + 2 > max_seq_len).sum())
        """How many documents are longer than a sample and lose their end."""

    @classmethod
    def from_file(
        cls,
        path: Path | str,
        tokenizer: PreTrainedTokenizerFast,
        max_seq_len: int,
        field: str = "text",
        lenient: bool = False,
    ) -> PretrainDataset:
        """Read a .jsonl or .txt file and tokenise it.

        Args:
            path: the file.
            tokenizer: its ids for BOS, EOS and padding are used, so it must name all three.
            max_seq_len: tokens of every sample.
            field: the field of a row that holds the text (.jsonl only).
            lenient: drop unusable rows instead of refusing the file.

        Raises:
            DataError: when the file cannot be used.
            ValueError: when the tokenizer names no BOS, EOS or padding token, or ``max_seq_len`` is less
                than 2.
        """
        ids: dict[str, int] = {}
        for name in ("bos", "eos", "pad"):
            token_id = getattr(tokenizer, f"{name}_token_id")
            if token_id is None:
                raise ValueError(f"The tokenizer names no {name} token: set tokenizer.{name}_token first.")
            ids[name] = token_id
        texts = read_texts(path, field=field, lenient=lenient).rows
        return cls(Documents.from_texts(texts, tokenizer), max_seq_len, **ids)

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        """One sample.

        Returns:
            ``input_ids``, ``labels`` and ``attention_mask``, each (max_seq_len,) int64. Labels are not
            shifted and are -100 on padding.
        """
        ids = [self.bos, *self.documents[index].tolist(), self.eos][: self.max_seq_len]
        padding = self.max_seq_len - len(ids)
        return {
            "input_ids": torch.tensor(ids + [self.pad] * padding),
            "labels": torch.tensor(ids + [IGNORE_INDEX] * padding),
            "attention_mask": torch.tensor([1] * len(ids) + [0] * padding),
        }
