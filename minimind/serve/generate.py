"""Continues prompts and answers questions with a model; the sampling itself is transformers' `generate`."""

from collections.abc import Sequence

import torch
from transformers import PreTrainedTokenizerFast

from minimind.chat import Message, encode_chat
from minimind.model.transformer import MiniMindForCausalLM
from minimind.serve.sampling import require_sampling
from minimind.tokenizer import decode, encode_text


def continue_prompts(
    model: MiniMindForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[str],
    max_new_tokens: int = 100,
    temperature: float = 0.7,
    seed: int = 0,
) -> list[str]:
    """Each prompt with what the model writes after it, up to its end token or `max_new_tokens`.

    Prompts become BOS + text, as documents do in pretraining, and are padded on the left so that every row's last
    token is real. The random state of the caller is left as it was, and so is the model's training mode.

    Args:
        model: on any device.
        tokenizer: the one it was trained with.
        prompts: texts; an empty one starts a document from nothing.
        max_new_tokens: at most so many tokens each.
        temperature: 0 takes the likeliest token every time; 1 samples from the model's own distribution.
        seed: of the sampling.

    Raises:
        ValueError: no room for a new token, a negative temperature, or a prompt beyond the model's length.
    """
    for prompt in prompts:
        if not prompt.isprintable() and any(0xD800 <= ord(character) <= 0xDFFF for character in prompt):
            raise ValueError(f"the prompt {prompt!r} is not valid Unicode; give it as UTF-8.")
    rows = [[tokenizer.bos_token_id, *encode_text(tokenizer, prompt)] for prompt in prompts]
    written = generate_ids(model, tokenizer, rows, max_new_tokens, temperature, seed)
    return [prompt + decode(tokenizer, ids) for prompt, ids in zip(prompts, written, strict=True)]


def answer_chats(
    model: MiniMindForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    conversations: Sequence[Sequence[Message]],
    max_new_tokens: int = 100,
    temperature: float = 0.0,
    seed: int = 0,
) -> list[str]:
    """What the assistant says next in each conversation, up to the end of its turn or `max_new_tokens`.

    Args:
        model: on any device.
        tokenizer: the one it was trained with.
        conversations: the turns so far of each.
        max_new_tokens: at most so many tokens each.
        temperature: 0 takes the likeliest token every time; 1 samples from the model's own distribution.
        seed: of the sampling.

    Raises:
        ValueError: see `continue_prompts`; or a conversation that is none.
    """
    rows = [encode_chat(tokenizer, messages, answer_follows=True).input_ids for messages in conversations]
    written = generate_ids(model, tokenizer, rows, max_new_tokens, temperature, seed)
    return [decode(tokenizer, ids) for ids in written]


def generate_ids(
    model: MiniMindForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    rows: Sequence[Sequence[int]],
    max_new_tokens: int,
    temperature: float,
    seed: int,
) -> list[list[int]]:
    """The ids that the model adds to each row, up to its end token, which is left out.

    Rows are padded on the left so that every row's last token is real. The random state of the caller is left as it
    was, and so is the model's training mode.

    Raises:
        ValueError: no room for a new token, a negative temperature, or a row beyond the model's length.
    """
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens={max_new_tokens} leaves nothing to generate; ask for at least 1.")
    require_sampling(temperature, top_k=0, top_p=1.0)
    if not rows:
        return []
    longest = max(len(row) for row in rows)
    limit = model.config.max_position_embeddings
    if longest + max_new_tokens > limit:
        raise ValueError(
            f"a prompt of {longest} tokens and {max_new_tokens} new ones exceed the model's {limit} positions; "
            "shorten one of them."
        )
    pad = tokenizer.pad_token_id
    input_ids = torch.tensor([[pad] * (longest - len(row)) + list(row) for row in rows], device=model.device)
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=model.device)
    sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0} if temperature else {}

    was_training = model.training
    model.eval()
    try:
        devices = [model.device] if model.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            torch.manual_seed(seed)
            output = model.generate(
                input_ids,
                attention_mask=mask,
                max_new_tokens=max_new_tokens,
                pad_token_id=pad,
                eos_token_id=tokenizer.eos_token_id,
                **(sampling or {"do_sample": False}),
            )
    finally:
        model.train(was_training)
    return [_until_end(ids, tokenizer) for ids in output[:, longest:].tolist()]


def _until_end(ids: list[int], tokenizer: PreTrainedTokenizerFast) -> list[int]:
    return ids[: ids.index(tokenizer.eos_token_id)] if tokenizer.eos_token_id in ids else ids
