"""Weights as a folder that a later stage, or any library that knows Qwen3, can load.

This is one of the two kinds of files. The other, resume state, holds what an interrupted run needs to go on
(`minimind.train.checkpoint`); a folder of weights holds what it takes to use the model, and nothing else.
"""

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging

from minimind.config import MiniMindConfig
from minimind.model.transformer import MiniMindForCausalLM

SIZE_FIELDS = (
    "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
    "head_dim tie_word_embeddings rope_theta"
).split()
"""Fields that decide which weights a model has and what they compute."""


def save_weights(model: nn.Module, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Path:
    """Writes weights, config and tokenizer as a plain Qwen3 folder; an older folder is replaced as a whole.

    Raises:
        ValueError: `folder` exists and is not a folder of weights, so replacing it would lose something else.
    """
    assert isinstance(model, MiniMindForCausalLM)
    folder = Path(folder)
    if folder.exists() and not (folder / "config.json").is_file():
        raise ValueError(
            f"{folder} exists and holds no config.json, so it is not a folder of weights and is not replaced; "
            "choose another --save_dir or --save_weight."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    with _no_library_bars():
        model.save_pretrained(fresh)
    tokenizer.save_pretrained(fresh)
    if folder.exists():
        old = folder.with_name(f".{folder.name}-old-{secrets.token_hex(4)}")
        os.rename(folder, old)
        os.rename(fresh, folder)
        shutil.rmtree(old)
    else:
        os.rename(fresh, folder)
    return folder


def load_weights(
    folder: Path, expected: MiniMindConfig | None = None, tokenizer: PreTrainedTokenizerFast | None = None
) -> MiniMindForCausalLM:
    """Loads a folder of weights in fp32, every tensor of it or none.

    Args:
        folder: what `save_weights` wrote, or any folder of a dense Qwen3.
        expected: when given, the sizes the model must have.
        tokenizer: when given, the vocabulary the weights must have been trained with.

    Raises:
        ValueError: no such folder, missing or surplus tensors, other sizes or another tokenizer than expected; the
            message names both sides.
    """
    folder = Path(folder)
    _require_weights(folder)
    try:
        config = MiniMindConfig.from_pretrained(folder)
    except ValueError as error:
        raise ValueError(f"{folder / 'config.json'}: {error}") from error
    if expected is not None:
        _require_same_sizes(folder, config, expected)
    if tokenizer is not None:
        _require_same_tokenizer(folder, tokenizer)
    with _no_library_bars():
        loaded: Any = MiniMindForCausalLM.from_pretrained(
            folder, config=config, dtype=torch.float32, output_loading_info=True
        )
    model, report = loaded
    assert isinstance(model, MiniMindForCausalLM)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        names = sorted(str(name) for name in report[kind])
        if names:
            raise ValueError(
                f"{folder}: {kind.replace('_keys', '')} weights: {', '.join(names[:3])}"
                f"{f' and {len(names) - 3} more' if len(names) > 3 else ''}. The file and its config.json do not "
                "belong together; save the folder again."
            )
    return model


def find_weights(name: str, save_dir: str) -> Path:
    """The folder that `--from_weight NAME` means: a path if there is one, else a name in `save_dir`.

    Raises:
        ValueError: neither is there; the message lists what is in `save_dir`.
    """
    for folder in (Path(name), Path(save_dir) / name):
        if (folder / "config.json").is_file():
            return folder
    there = sorted(p.parent.name for p in Path(save_dir).glob("*/config.json"))
    raise ValueError(
        f"there are no weights at {name!r} and none called so in {save_dir!r}"
        + (f"; there is {', '.join(there)}." if there else ", which holds none yet; train some first.")
    )


@contextmanager
def _no_library_bars() -> Iterator[None]:
    """Keeps the library's progress bars off a user's screen for as long as a file takes."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _require_weights(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder} is not a folder of weights: it has no config.json.")
    if not any(folder.glob("*.safetensors")):
        raise ValueError(f"{folder} has no .safetensors file; other formats of weights are not loaded.")


def _require_same_sizes(folder: Path, found: MiniMindConfig, expected: MiniMindConfig) -> None:
    differing = [
        f"{name}: {getattr(found, name)} in the folder, {getattr(expected, name)} in this run"
        for name in SIZE_FIELDS
        if getattr(found, name) != getattr(expected, name)
    ]
    if differing:
        raise ValueError(f"{folder} holds another model ({'; '.join(differing)}). Make them equal.")


def _require_same_tokenizer(folder: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    saved = folder / "tokenizer.json"
    if not saved.is_file():
        raise ValueError(f"{folder} has no tokenizer.json, so nobody can say what its ids mean; add the one it used.")
    theirs = json.loads(saved.read_text(encoding="utf-8"))["model"]["vocab"]
    ours = tokenizer.get_vocab()
    differing = sum(ours.get(token) != index for token, index in theirs.items())
    if differing:
        raise ValueError(
            f"{folder} was trained with another tokenizer: {differing} of its {len(theirs)} entries have another id "
            "or none in this run's. Use --tokenizer with that folder."
        )
