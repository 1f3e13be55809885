"""Ids -> text while they come: an answer is shown piece by piece, and never half a character.

A token of a byte-level tokenizer is a run of bytes, and a character outside of ASCII has two to four of them, which
may be spread over tokens. `StreamDecoder` holds bytes back while they may still become a character.
"""

import re
from collections.abc import Iterator, Sequence

import torch
from tokenizers import decoders
from transformers import PreTrainedTokenizerFast

from minimind.chat import Message, encode_chat
from minimind.model.transformer import MiniMindForCausalLM
from minimind.serve.sampling import DecodingStep, decoding_steps

# The beginning of a character at the end of the bytes: a first byte, and such following ones as UTF-8 allows after it.
_UNFINISHED = re.compile(
    rb"""(?: [\xc2-\xf4]
           | \xe0 [\xa0-\xbf]  |  [\xe1-\xec\xee\xef] [\x80-\xbf]  |  \xed [\x80-\x9f]
           | (?: \xf0 [\x90-\xbf]  |  [\xf1-\xf3] [\x80-\xbf]  |  \xf4 [\x80-\x8f]) [\x80-\xbf]?
         ) \Z""",
    re.VERBOSE,
)


class StreamDecoder:
    """Turns ids into text one at a time; the pieces joined are what `minimind.tokenizer.decode` gives for all ids.

    "Whole characters" are Unicode code points: an emoji of several (a family, a flag) may come in several pieces, each
    of them whole. Bytes that can no longer become a character are shown as U+FFFD, as soon as that is certain.

    Args:
        tokenizer: a byte-level one, as all of the course are.

    Raises:
        ValueError: the tokenizer's tokens are no runs of bytes.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        decoder = tokenizer.backend_tokenizer.decoder
        if not isinstance(decoder, decoders.ByteLevel):
            raise ValueError(
                f"this tokenizer decodes with {type(decoder).__name__}, and streaming needs a byte-level one; decode "
                "the whole answer at its end instead."
            )
        self._tokenizer = tokenizer
        self._held_back = b""

    def put(self, token_id: int) -> str:
        """Takes the next id; returns the characters that are whole now, often none or several.

        Raises:
            ValueError: the id is negative.
        """
        if token_id < 0:
            raise ValueError(f"id {token_id} is negative; ids count from 0.")
        arrived = self._held_back + token_bytes(self._tokenizer, token_id)
        unfinished = _UNFINISHED.search(arrived)
        whole = arrived[: unfinished.start()] if unfinished else arrived
        self._held_back = arrived[len(whole) :]
        return whole.decode("utf-8", errors="replace")

    def end(self) -> str:
        """Says that no id follows; returns what was held back, which will never be whole: U+FFFD, or nothing."""
        rest, self._held_back = self._held_back, b""
        return rest.decode("utf-8", errors="replace")


def token_bytes(tokenizer: PreTrainedTokenizerFast, token_id: int) -> bytes:
    """The bytes that a token of a byte-level tokenizer stands for; none for an id beyond the vocabulary."""
    token = tokenizer.backend_tokenizer.id_to_token(token_id)
    if token is None:
        return b""
    if all(character in _BYTE_OF for character in token):
        return bytes(_BYTE_OF[character] for character in token)
    return token.encode()  # an added token, which is written as it reads


def stream_answer(
    model: MiniMindForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    messages: Sequence[Message],
    max_new_tokens: int = 100,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
) -> Iterator[str]:
    """What the assistant says next in a conversation, piece by piece, up to the end of its turn or `max_new_tokens`.

    The pieces joined are the answer that `minimind.serve.generate.answer_chats` gives at the same seed. The random
    state of the caller is left as it was, and so is the model's training mode.

    Args:
        model: on any device.
        tokenizer: the one it was trained with.
        messages: the turns so far.
        max_new_tokens: at most so many tokens.
        temperature: 0 takes the likeliest token every time; 1 samples from the model's own distribution.
        top_k: keep the so many likeliest; 0 keeps all.
        top_p: keep the likeliest that together reach this probability; 1 keeps all.
        seed: of the sampling.

    Raises:
        ValueError: a conversation that is none, or settings that cannot be; raised at once, not at the first piece.
    """
    decoder = StreamDecoder(tokenizer)
    ids = encode_chat(tokenizer, messages, answer_follows=True).input_ids
    steps = decoding_steps(
        model,
        torch.tensor([ids], device=model.device),
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        stop_ids=[tokenizer.eos_token_id],
        pad_id=tokenizer.pad_token_id,
        generator=torch.Generator(model.device).manual_seed(seed),
    )
    return _pieces(steps, decoder)


def _pieces(steps: Iterator[DecodingStep], decoder: StreamDecoder) -> Iterator[str]:
    for step in steps:
        if not bool(step.ended_B[0]) and (piece := decoder.put(int(step.next_B[0]))):
            yield piece
    if rest := decoder.end():
        yield rest


def _characters_of_bytes() -> dict[str, int]:
    """How a byte-level tokenizer writes bytes: those that print as themselves, the others as U+0100 and on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}


_BYTE_OF = _characters_of_bytes()
