"""Weights as a folder that a later stage, or any library that knows Qwen3, can load.

This is one of the two kinds of files. The other, resume state, holds what an interrupted run needs to go on
(`minimind.train.checkpoint`); a folder of weights holds what it takes to use the model, and nothing else.
"""

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from logging import CRITICAL
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging

from minimind.config import MiniMindConfig
from minimind.model.transformer import MiniMindForCausalLM

_WRITTEN = frozenset(
    (
        "config.json generation_config.json model.safetensors model.safetensors.index.json tokenizer.json "
        "tokenizer_config.json special_tokens_map.json chat_template.jinja"
    ).split()
)

SIZE_FIELDS = (
    "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
    "head_dim tie_word_embeddings rope_theta"
).split()
"""Fields that decide which weights a model has and what they compute."""


def save_weights(model: nn.Module, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Path:
    """Writes weights, config and tokenizer as a plain Qwen3 folder; an older folder is replaced as a whole.

    Raises:
        ValueError: see `require_replaceable`.
    """
    assert isinstance(model, MiniMindForCausalLM)
    folder = Path(folder)
    require_replaceable(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    with _quiet_library():
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


def require_replaceable(folder: Path) -> None:
    """Makes sure, before a run begins, that its weights may take the place of what is there.

    Raises:
        ValueError: `folder` is a file, or holds anything that `save_weights` did not write; it would be lost.
    """
    if not folder.exists():
        return
    foreign = (
        sorted(p.name for p in folder.iterdir() if not _is_written_by_us(p.name)) if folder.is_dir() else [folder.name]
    )
    if foreign:
        raise ValueError(
            f"{folder} holds {foreign[0]!r}, which is no part of saved weights and would be lost if they were "
            "replaced; move it away, or choose another --save_dir or --save_weight."
        )


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
    config = _read_config(folder / "config.json")
    if expected is not None:
        _require_same_sizes(folder, config, expected)
    if tokenizer is not None:
        _require_same_tokenizer(folder, tokenizer)
    try:
        with _quiet_library():
            loaded: Any = MiniMindForCausalLM.from_pretrained(
                folder, config=config, dtype=torch.float32, output_loading_info=True
            )
    except (SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"{folder}: the weights cannot be read ({_first_line(error)}); save or copy them again."
        ) from error
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
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise ValueError(f"{folder}: {name} holds numbers that are not finite; the run that saved it diverged.")
    return model


def _is_written_by_us(name: str) -> bool:
    return name in _WRITTEN or re.fullmatch(r"model-\d{5}-of-\d{5}\.safetensors", name) is not None


def _read_config(path: Path) -> MiniMindConfig:
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(saved, dict) or saved.get("model_type") != MiniMindConfig.model_type:
            raise ValueError("it does not say model_type qwen3, so it describes no model of this kind")
        return MiniMindConfig.from_dict(saved)
    except (ValueError, TypeError, OSError) as error:
        raise ValueError(f"{path}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


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
def _quiet_library() -> Iterator[None]:
    """Keeps the library's bars and reports off a user's screen for as long as a file takes; we say what is wrong."""
    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity(CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
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
    try:
        theirs = json.loads(saved.read_text(encoding="utf-8"))["model"]["vocab"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ValueError(f"{saved}: no tokenizer can be read from it ({_first_line(error)}); copy it again.") from error
    ours = tokenizer.get_vocab()
    differing = sum(ours.get(token) != index for token, index in theirs.items())
    if differing:
        raise ValueError(
            f"{folder} was trained with another tokenizer: {differing} of its {len(theirs)} entries have another id "
            "or none in this run's. Use --tokenizer with that folder."
        )
