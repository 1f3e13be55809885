"""Logits -> the next token, and that again and again until a reply is whole.

Three filters on the logits (temperature, top-k, top-p), a choice among what they leave, and the loop around them with
the model's own cache. All of it gives what transformers' `generate` gives, id for id.

Shapes are written into names; the letters are
    B batch, T positions read in this step, S positions seen so far (cache included), V vocabulary.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import Cache, DynamicCache

from minimind.model.transformer import MiniMindForCausalLM

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.01, 100.0

Choose = Callable[[Tensor, float, int, float, torch.Generator | None], Tensor]
"""(logits (B, V), temperature, top_k, top_p, generator) -> the chosen ids (B,)."""


def divide_by_temperature(logits_BV: Tensor, temperature: float) -> Tensor:
    """Below 1 the differences between logits grow, and the likely becomes likelier; above 1 they shrink.

    Raises:
        ValueError: the temperature is not from 0.01 to 100.
    """
    if not LOWEST_TEMPERATURE <= temperature <= HIGHEST_TEMPERATURE:
        raise ValueError(f"temperature={temperature} must be from {LOWEST_TEMPERATURE} to {HIGHEST_TEMPERATURE:g}.")
    return logits_BV / temperature


def keep_top_k(logits_BV: Tensor, top_k: int) -> Tensor:
    """Only the `top_k` largest logits of each row stay; the others become -inf. 0 keeps all.

    What equals the last one that stays, stays too.

    Raises:
        ValueError: top_k is negative or no whole number.
    """
    _require_top_k(top_k)
    if top_k == 0:
        return logits_BV
    kept = min(top_k, logits_BV.shape[-1])
    smallest_kept_B1 = logits_BV.topk(kept).values[:, -1:]
    return logits_BV.masked_fill(logits_BV < smallest_kept_B1, -torch.inf)


def keep_top_p(logits_BV: Tensor, top_p: float) -> Tensor:
    """Only the likeliest tokens that together reach the probability `top_p` stay; 1 keeps all.

    Also called nucleus sampling (arXiv 1904.09751). The token that crosses the border stays, so one always does.

    Raises:
        ValueError: top_p is not above 0 and at most 1.
    """
    _require_top_p(top_p)
    if top_p == 1.0:
        return logits_BV
    # From the least likely one upwards: what, with all that is less likely, stays within 1 - top_p is let go.
    ascending_BV, order_BV = logits_BV.sort(dim=-1)
    let_go_BV = ascending_BV.softmax(dim=-1).cumsum(dim=-1) <= 1 - top_p
    let_go_BV[:, -1] = False
    return logits_BV.masked_fill(torch.zeros_like(let_go_BV).scatter(-1, order_BV, let_go_BV), -torch.inf)


def next_token_probabilities(logits_BV: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """The distribution (B, V) that a token is drawn from; at temperature 0 all of it lies on the likeliest token.

    Raises:
        ValueError: see `require_sampling`.
    """
    require_sampling(temperature, top_k, top_p)
    if temperature == 0:
        return torch.zeros_like(logits_BV).scatter(-1, logits_BV.argmax(dim=-1, keepdim=True), 1.0)
    logits_BV = divide_by_temperature(logits_BV, temperature)
    logits_BV = keep_top_k(logits_BV, top_k)
    logits_BV = keep_top_p(logits_BV, top_p)
    return logits_BV.softmax(dim=-1)


def sample(
    logits_BV: Tensor,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Chooses one token a row: the likeliest at temperature 0, or else one drawn from what the filters leave.

    Args:
        logits_BV: of the last position of each row.
        temperature: 0, or from 0.01 to 100.
        top_k: keep so many; 0 keeps all.
        top_p: keep the likeliest that together reach this probability; 1 keeps all.
        generator: of the random numbers; torch's own when None.

    Returns:
        (B,) ids.

    Raises:
        ValueError: see `require_sampling`.
    """
    probabilities_BV = next_token_probabilities(logits_BV, temperature, top_k, top_p)
    if temperature == 0:
        return probabilities_BV.argmax(dim=-1)
    return torch.multinomial(probabilities_BV, num_samples=1, generator=generator)[:, 0]


@dataclass(frozen=True)
class DecodingStep:
    """One turn of the loop.

    Attributes:
        read_BT: the ids that the model read: at first the whole prompt, then the one token chosen before.
        logits_BTV: what it answered, for the last position or for all that it read.
        next_B: the chosen ids; the padding id in a row that had ended before.
        ended_B: whether a row has ended, with this token or before it.
        cache: keys and values of all that was read so far. The next step adds to it.
    """

    read_BT: Tensor
    logits_BTV: Tensor
    next_B: Tensor
    ended_B: Tensor
    cache: Cache


def decoding_steps(
    model: MiniMindForCausalLM,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    *,
    max_new_tokens: int = 100,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    stop_ids: Sequence[int] = (),
    pad_id: int = 0,
    generator: torch.Generator | None = None,
    choose: Choose = sample,
    logits_to_keep: int = 1,
) -> Iterator[DecodingStep]:
    """Reads a prompt, then writes one token a step, until every row has ended or `max_new_tokens` are written.

    Args:
        model: on any device; its training mode and gradients stay as they are.
        input_ids: (B, T) prompts, shorter ones padded on the left.
        attention_mask: (B, T), 0 for padding; None when nothing is padded.
        max_new_tokens: at most so many steps.
        temperature: see `sample`, as for `top_k`, `top_p` and `generator`.
        top_k: keep so many.
        top_p: keep this much probability.
        stop_ids: a row ends with the first of these.
        pad_id: fills a row that has ended, while others go on.
        generator: of the random numbers.
        choose: makes ids from logits in place of `sample`.
        logits_to_keep: of how many last positions a step keeps the logits; 0 keeps those of all that it read.

    Raises:
        ValueError: settings or a prompt that cannot be; the sentence names the field. It is raised at once, not at
            the first step.
    """
    require_sampling(temperature, top_k, top_p)
    mask_BT = _require_prompt(model, input_ids, attention_mask, max_new_tokens)
    stops = torch.tensor(list(stop_ids), dtype=torch.long, device=input_ids.device)

    def choose_from(logits_BV: Tensor) -> Tensor:
        return choose(logits_BV, temperature, top_k, top_p, generator)

    return _decode(model, input_ids, mask_BT, max_new_tokens, choose_from, stops, pad_id, logits_to_keep)


@torch.no_grad()
def _decode(
    model: MiniMindForCausalLM,
    input_ids: Tensor,
    mask_BT: Tensor,
    max_new_tokens: int,
    choose_from: Callable[[Tensor], Tensor],
    stops: Tensor,
    pad_id: int,
    logits_to_keep: int,
) -> Iterator[DecodingStep]:
    """The loop: read, choose, append."""
    cache = DynamicCache(config=model.config)
    read_BT, seen_BS = input_ids, mask_BT
    ended_B = torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)
    for _ in range(max_new_tokens):
        with _evaluating(model):
            output = model(read_BT, attention_mask=seen_BS, cache=cache, use_cache=True, logits_to_keep=logits_to_keep)
        next_B = choose_from(output.logits[:, -1].float())  # what follows is asked of the last position alone
        next_B = torch.where(ended_B, pad_id, next_B)
        ended_B = ended_B | torch.isin(next_B, stops)
        yield DecodingStep(read_BT, output.logits, next_B, ended_B, cache)
        if bool(ended_B.all()):
            return
        # The cache holds all that was read, so that only the new token has to be.
        read_BT = next_B[:, None]
        seen_BS = torch.cat((seen_BS, torch.ones_like(read_BT)), dim=1)


@contextmanager
def _evaluating(model: MiniMindForCausalLM) -> Iterator[None]:
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def generate_by_hand(
    model: MiniMindForCausalLM,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    *,
    max_new_tokens: int = 100,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    stop_ids: Sequence[int] = (),
    pad_id: int = 0,
    generator: torch.Generator | None = None,
    choose: Choose = sample,
) -> Tensor:
    """The prompts with what the model writes after them, (B, T + new); transformers' `generate`, written out.

    See `decoding_steps` for the arguments.

    Raises:
        ValueError: settings or a prompt that cannot be; the sentence names the field.
    """
    ids = [input_ids]
    for step in decoding_steps(
        model,
        input_ids,
        attention_mask,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        stop_ids=stop_ids,
        pad_id=pad_id,
        generator=generator,
        choose=choose,
    ):
        ids.append(step.next_B[:, None])
    return torch.cat(ids, dim=1)


def require_sampling(temperature: float, top_k: int, top_p: float) -> None:
    """Makes sure that a token can be chosen with these settings.

    Raises:
        ValueError: one of them cannot be; the sentence names it, the value and the range.
    """
    if temperature != 0 and not LOWEST_TEMPERATURE <= temperature <= HIGHEST_TEMPERATURE:
        raise ValueError(
            f"temperature={temperature} must be 0 (always the likeliest token), or from {LOWEST_TEMPERATURE} to "
            f"{HIGHEST_TEMPERATURE:g}."
        )
    _require_top_k(top_k)
    _require_top_p(top_p)


def _require_top_k(top_k: int) -> None:
    if not isinstance(top_k, int) or isinstance(top_k, bool) or top_k < 0:
        raise ValueError(f"top_k={top_k!r} must be a whole number: how many tokens to keep, or 0 for all.")


def _require_top_p(top_p: float) -> None:
    if math.isnan(top_p) or not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p} must be above 0 and at most 1; 1 keeps all tokens.")


def _require_prompt(
    model: MiniMindForCausalLM, input_ids: Tensor, attention_mask: Tensor | None, max_new_tokens: int
) -> Tensor:
    """The mask of a prompt that can be continued by so many tokens."""
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens={max_new_tokens} leaves nothing to generate; ask for at least 1.")
    if input_ids.dim() != 2 or 0 in input_ids.shape:
        raise ValueError(f"input_ids has shape {tuple(input_ids.shape)}; give (rows, positions), at least one of each.")
    limit = model.config.max_position_embeddings
    if input_ids.shape[1] + max_new_tokens > limit:
        raise ValueError(
            f"a prompt of {input_ids.shape[1]} tokens and {max_new_tokens} new ones exceed the model's {limit} "
            "positions; shorten one of them."
        )
    if attention_mask is None:
        return torch.ones_like(input_ids)
    if attention_mask.shape != input_ids.shape:
        raise ValueError(
            f"attention_mask has shape {tuple(attention_mask.shape)}, and input_ids {tuple(input_ids.shape)}; give one "
            "entry for each id."
        )
    if not bool(attention_mask[:, -1].all()):
        row = int((attention_mask[:, -1] == 0).nonzero()[0])
        raise ValueError(f"row {row} ends in padding, and the reply would follow on that; pad prompts on the left.")
    return attention_mask.to(input_ids.dtype)
