"""Lesson 7, second exercise: count the parameters from the config alone."""

import operator
from collections.abc import Callable
from typing import Any

import torch

from course.kit.exercises import Exercise, Verdict, WrongAnswer
from minimind.config import MiniMindConfig
from minimind.model.transformer import MiniMindForCausalLM

# Chosen so that no two mistakes give the same wrong number: unequal heads, a head_dim that is not D / H, no tied head.
CONFIGS = (
    MiniMindConfig(hidden_size=64, num_hidden_layers=2),
    MiniMindConfig(hidden_size=96, num_hidden_layers=3),
    MiniMindConfig(
        vocab_size=800, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
        intermediate_size=160,
    ),
    MiniMindConfig(hidden_size=64, num_hidden_layers=5, tie_word_embeddings=False),
    MiniMindConfig(),
)  # fmt: skip


def count_parameters(config: MiniMindConfig) -> int:
    """The reference answer: one line for each kind of tensor."""
    return _count(config)


def _count(config: MiniMindConfig, **changes: int) -> int:
    """The formula, with parts that a mistake can change."""
    D, V, L = config.hidden_size, config.vocab_size, config.num_hidden_layers
    H, K, C = config.num_attention_heads, config.num_key_value_heads, changes.get("C", config.head_dim or 0)
    K = changes.get("K", K)
    inner = config.intermediate_size or 0
    attention = 2 * D * changes.get("q_width", H * C) + 2 * D * K * C + changes.get("head_norms", 2) * C
    feed_forward = changes.get("ffn", 3) * D * inner
    block = attention + feed_forward + changes.get("block_norms", 2) * D
    heads = changes.get("heads", 0 if config.tie_word_embeddings else 1)
    return V * D * (1 + heads) + changes.get("L", L) * block + changes.get("final_norm", 1) * D


def _mistakes(config: MiniMindConfig) -> dict[str, int]:
    """Wrong totals that have a name, with what to say about each."""
    D, H, L = config.hidden_size, config.num_attention_heads, config.num_hidden_layers
    return {
        "the output head was counted although it is tied: it is the embedding matrix, one tensor with two names": (
            _count(config, heads=1)
        ),
        "the output head is missing: here it is not tied, so it is a matrix of its own": _count(config, heads=0),
        "keys and values were given as many heads as queries; they have `num_key_value_heads`": _count(config, K=H),
        "the head width was taken as hidden_size / heads; here the config names `head_dim`": _count(config, C=D // H),
        "query and output projections were taken as D x D; they are D x (heads x head_dim)": _count(config, q_width=D),
        "all vectors are missing: each block has four norms, and one stands after the last block": (
            _count(config, head_norms=0, block_norms=0, final_norm=0)
        ),
        "the norms on each head's query and key are missing: two vectors of `head_dim` in each block": (
            _count(config, head_norms=0)
        ),
        "the feed-forward network has three matrices (gate, up, down), not two": _count(config, ffn=2),
        "a block has two norms, one before attention and one before the feed-forward network": (
            _count(config, block_norms=1)
        ),
        "the norms before attention and feed-forward are missing: two vectors of `hidden_size` in each block": (
            _count(config, block_norms=0)
        ),
        "the final norm after the last block is missing": _count(config, final_norm=0),
        "only one block was counted; multiply by `num_hidden_layers`": _count(config, L=1) if L > 1 else -1,
    }


def check_count(count: Callable[[MiniMindConfig], Any]) -> Verdict:
    """Compares with the number of parameters of real models, built on the meta device."""
    for config in CONFIGS:
        with torch.device("meta"):
            model = MiniMindForCausalLM(config)
        right = sum(p.numel() for p in model.parameters())
        yours = count(config)
        if yours is None:
            return Verdict.wrong("The function returns nothing; return the number of parameters.")
        try:
            yours = operator.index(yours)  # also numpy's and torch's whole numbers
        except TypeError:
            return Verdict.wrong(f"Return a whole number (`int`); this returned `{yours!r}`.")
        if yours == right:
            continue
        shown = f"hidden_size {config.hidden_size}, {config.num_hidden_layers} blocks, head_dim {config.head_dim}"
        named = [name for name, total in _mistakes(config).items() if total == yours and total != right]
        reason = (
            f": {named[0]}" if named else f", so {abs(int(yours) - right):,} too {'many' if yours > right else 'few'}"
        )
        return Verdict.wrong(
            f"For {shown}, vocabulary {config.vocab_size} you count {yours:,}, the model has {right:,}{reason}."
        )
    return Verdict.correct(
        f"It equals the real model for {len(CONFIGS)} configs, the full one with {right:,} parameters included. So you "
        "can say what a model costs before you build it."
    )


def _with(**changes: int) -> Callable[[MiniMindConfig], int]:
    return lambda config: _count(config, **changes)


PARAMETER_COUNT = Exercise(
    key="07-parameter-count",
    title="Count the parameters",
    task=(
        "Write `count(config)`: the number of parameters of a dense model, from the config alone, without building "
        "the model. A tied head is the embedding and counts once."
    ),
    check=check_count,
    reference=count_parameters,
    wrong_answers=(
        WrongAnswer("tied head counted", _with(heads=1), "although it is tied"),
        WrongAnswer("untied head forgotten", _with(heads=0), "it is not tied"),
        WrongAnswer("as many key heads as query heads", lambda c: _count(c, K=c.num_attention_heads), "num_key_value"),
        WrongAnswer("head_dim ignored", lambda c: _count(c, C=c.hidden_size // c.num_attention_heads), "`head_dim`"),
        WrongAnswer("query and output D x D", lambda c: _count(c, q_width=c.hidden_size), "were taken as D x D"),
        WrongAnswer("no vectors", _with(head_norms=0, block_norms=0, final_norm=0), "all vectors are missing"),
        WrongAnswer("a float", lambda c: float(_count(c)), "whole number"),
        WrongAnswer("no query and key norms", _with(head_norms=0), "query and key are missing"),
        WrongAnswer("two feed-forward matrices", _with(ffn=2), "three matrices"),
        WrongAnswer("one norm in a block", _with(block_norms=1), "two norms"),
        WrongAnswer("no norms in a block", _with(block_norms=0), "two vectors of `hidden_size`"),
        WrongAnswer("no final norm", _with(final_norm=0), "final norm"),
        WrongAnswer("one block only", _with(L=1), "only one block"),
        WrongAnswer("off by one", lambda c: _count(c) + 1, "too many"),
    ),
    hints=(
        "The cell above lists the tensors of one block. Outside the blocks there are two: the embedding, and a norm "
        "after the last block.",
        "In a block, with D = hidden_size, C = head_dim, H query heads, K key/value heads, I = intermediate_size: "
        "q is D x HC, k and v are D x KC, o is HC x D, and the feed-forward network has three matrices D x I.",
        "What is left are vectors: two of length C (on query and key) and two of length D in each block, and one of "
        "length D after the last block.",
    ),
)

EXERCISES = (PARAMETER_COUNT,)
