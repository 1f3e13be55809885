"""Tiny models, batches and runs that many tests share: each takes milliseconds."""

import random
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from minimind.config import MiniMindConfig, RunConfig
from minimind.data.batch import IGNORE_INDEX, Batch
from minimind.model.transformer import MiniMindForCausalLM

VOCAB = 97


def config(**changes) -> MiniMindConfig:
    values = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        **changes,
    }
    return MiniMindConfig(**values)


def model(seed: int = 0, **changes) -> MiniMindForCausalLM:
    """A model in training mode, with initial weights."""
    torch.manual_seed(seed)
    return MiniMindForCausalLM(config(**changes)).train()


def lively(model: nn.Module, seed: int = 0) -> nn.Module:
    """The model with weights of a trained size: at the initial ones attention is flat and every norm is 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise / parameter.shape[-1] ** 0.5 if parameter.dim() == 2 else 1 + 0.3 * noise)
    return model


def ids(*shape: int, seed: int = 0, vocab: int = VOCAB) -> Tensor:
    """Random tokens, none of them a control token."""
    return torch.randint(9, vocab, shape, generator=torch.Generator().manual_seed(seed))


def batch(lengths: Sequence[int] = (9, 6, 9, 4), seed: int = 0, width: int = 0) -> Batch:
    """A document in each row, padded on the right to the longest, or to `width`."""
    width = max(width, *lengths)
    input_ids = ids(len(lengths), width, seed=seed)
    real = torch.arange(width) < torch.tensor(lengths)[:, None]
    input_ids = torch.where(real, input_ids, 0)
    return Batch(
        input_ids=input_ids,
        labels=torch.where(real, input_ids, IGNORE_INDEX),
        attention_mask=None if real.all() else real.long(),
        document_ids=None,
        position_ids=None,
        sample_ids=tuple(100 * seed + row for row in range(len(lengths))),
    )


def packed(rows: Sequence[Sequence[int]], seed: int = 0, padding: int = 0) -> Batch:
    """Rows of documents of these lengths end to end, each row followed by `padding` empty places."""
    width = sum(rows[0]) + padding
    documents, positions, number = [], [], 0
    for lengths in rows:
        row_documents, row_positions = [], []
        for length in lengths:
            row_documents += [number] * length
            row_positions += range(length)
            number += 1
        documents.append(row_documents + [-1] * padding)
        positions.append([*row_positions, *range(padding)])
    document_ids, position_ids = torch.tensor(documents), torch.tensor(positions)
    real = document_ids >= 0
    input_ids = torch.where(real, ids(len(rows), width, seed=seed), 0)
    return Batch(
        input_ids=input_ids,
        labels=torch.where(real & (position_ids > 0), input_ids, IGNORE_INDEX),
        attention_mask=real.long() if padding else None,
        document_ids=document_ids,
        position_ids=position_ids,
        sample_ids=tuple(range(number)),
    )


class Source:
    """Batches made by `batch`: number `index` of `epoch` is the same whenever it is asked for."""

    def __init__(self, batches: int = 4, lengths: Sequence[int] = (9, 6, 9, 4)):
        self.batches, self.lengths = batches, lengths
        self.asked: list[tuple[int, int]] = []

    def batches_per_epoch(self) -> int:
        return self.batches

    def batch(self, epoch: int, index: int) -> Batch:
        self.asked.append((epoch, index))
        return batch(self.lengths, seed=1 + epoch * self.batches + index)

    def fingerprint(self) -> str:
        return f"{self.batches} batches of {list(self.lengths)}"


def run(folder: Path, **changes) -> RunConfig:
    """Six updates of a 1-layer model on a little of the small world, with files under `folder`."""
    values = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "intermediate_size": 24,
        "world_documents": 60,
        "validation_documents": 8,
        "max_seq_len": 40,
        "max_steps": 6,
        "batch_size": 3,
        "accumulation_steps": 2,
        "dropout": 0.1,
        "optimizer": "adamw",
        "warmup_steps": 1,
        "threads": 1,
        "save_dir": str(folder / "out"),
        "checkpoint_dir": str(folder / "checkpoints"),
        "save_weight": "tiny",
        "save_interval": 3,
        "log_interval": 1,
        "eval_interval": 3,
        "samples": 0,
        **changes,
    }
    return RunConfig(**values)


def options(run: RunConfig) -> list[str]:
    """A run as options of `minimind pretrain`."""
    return [f"--{name}={getattr(run, name)}" for name in run.__dataclass_fields__]


def shuffle_randomness() -> None:
    """Leaves every random generator somewhere else, as another program would."""
    torch.manual_seed(random.SystemRandom().randrange(2**31))
    random.seed()
