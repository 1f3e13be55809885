"""Text to ids and back: train a byte-level BPE tokenizer, load one, encode plain text safely.

In go texts or a folder, out comes a transformers `PreTrainedTokenizerFast`. Every tokenizer of the course has the
same nine control tokens in front (`CONTROL_TOKENS`), then the 256 bytes, then what it learned. Digits stand alone,
and no space is added in front of a text.
"""

import json
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from minimind.data.corpora import corpus_texts
from minimind.world import pretrain_documents, question

PAD_TOKEN, BOS_TOKEN, EOS_TOKEN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CONTROL_TOKENS = (
    PAD_TOKEN,
    BOS_TOKEN,
    EOS_TOKEN,
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- bos_token + message['role'] + '\n' + message['content'] + eos_token + '\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- bos_token + 'assistant\n' }}{%- endif %}"
)
"""How other libraries write the turns that `minimind.chat` encodes; saved beside every tokenizer."""
SMALLEST_VOCAB_SIZE = len(CONTROL_TOKENS) + 256

SHIPPED_VOCAB_SIZES = {"minimind-6400": 6400, "world-800": 800}
_SHIPPED_FOLDER = Path(__file__).parent / "tokenizers"


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer. The same texts in the same order give the same tokenizer.

    Args:
        texts: What to learn from.
        vocab_size: Number of ids, the nine control tokens and the 256 bytes included.

    Returns:
        The tokenizer; `save_pretrained(folder)` writes it.

    Raises:
        ValueError: `vocab_size` is below 265, or the texts hold too few different pieces to fill it.
    """
    if vocab_size < SMALLEST_VOCAB_SIZE:
        raise ValueError(
            f"vocab_size is {vocab_size}, but the {len(CONTROL_TOKENS)} control tokens and the 256 bytes need "
            f"{SMALLEST_VOCAB_SIZE}; give a larger one."
        )
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=list(CONTROL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    reached = backend.get_vocab_size()
    if reached < vocab_size:
        raise ValueError(
            f"vocab_size is {vocab_size}, but the texts fill only {reached} ids; "
            f"give more text or a vocab_size of at most {reached}."
        )
    # Only the first three are "special": decoding may leave those out, but what a model says between the markers
    # of a tool call or a thought is part of its answer, and so are the markers.
    return PreTrainedTokenizerFast(
        tokenizer_object=_with_plain_markers(backend),
        pad_token=PAD_TOKEN,
        bos_token=BOS_TOKEN,
        eos_token=EOS_TOKEN,
        model_max_length=32768,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def load_tokenizer(name_or_folder: str | os.PathLike[str]) -> PreTrainedTokenizerFast:
    """Load a shipped tokenizer by name ("minimind-6400", "world-800") or any tokenizer from its folder.

    Raises:
        ValueError: It is neither a shipped name nor a folder with a tokenizer, or the folder's files are broken.
    """
    folder = Path(name_or_folder)
    if str(name_or_folder) in SHIPPED_VOCAB_SIZES:
        folder = _SHIPPED_FOLDER / str(name_or_folder)
    elif not (folder / "tokenizer.json").is_file():
        raise ValueError(
            f"There is no tokenizer {str(name_or_folder)!r}: give {' or '.join(SHIPPED_VOCAB_SIZES)}, or a folder "
            "that contains tokenizer.json."
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the library raises bare Exception for a broken tokenizer.json
        raise ValueError(
            f"The tokenizer in {folder} cannot be read ({error}); save it again or copy it anew."
        ) from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ValueError(f"The tokenizer in {folder} is a {type(tokenizer).__name__}; a fast tokenizer is needed.")
    missing = [role for role in ("pad", "bos", "eos") if getattr(tokenizer, f"{role}_token_id") is None]
    if missing:
        raise ValueError(f"The tokenizer in {folder} names no {' and no '.join(missing)} token; add it there.")
    return tokenizer


def encode_text(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    """Encode plain text: what a person typed never becomes a control id.

    `tokenizer(text)` turns a "<|im_end|>" inside a text into the id that ends a turn, so that a text could end the
    user's turn and begin the assistant's. Here it is six characters like any others.

    Returns:
        The ids, without BOS and EOS; `decode` gives back exactly `text`.
    """
    ids: list[int] = _plain_backend(tokenizer).encode(text, add_special_tokens=False).ids
    return ids


def decode(tokenizer: PreTrainedTokenizerFast, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
    """Return the text of `ids`, control tokens included unless `skip_special_tokens`."""
    text: Any = tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=False)
    return str(text)


def shipped_training_texts(name: str) -> Iterator[str]:
    """Yield the texts that a shipped tokenizer was trained on.

    "world-800" is trained on the small world, documents and questions; "minimind-6400" on the same, and on the
    shipped poems and plays. The declaration (udhr) is left out, so that it can measure both.

    Raises:
        ValueError: There is no shipped tokenizer of this name.
    """
    if name not in SHIPPED_VOCAB_SIZES:
        raise ValueError(
            f"There is no shipped tokenizer {name!r}; the shipped ones are {' and '.join(SHIPPED_VOCAB_SIZES)}."
        )
    return _training_texts(name)


def _training_texts(name: str) -> Iterator[str]:
    if name == "minimind-6400":
        yield from corpus_texts("tang5")
        yield from corpus_texts("plays")
    yield from pretrain_documents(10_000, seed=0)
    rng = random.Random(1)
    for _ in range(3_000):
        asked = question(rng)
        yield asked.user
        yield asked.assistant


def _with_plain_markers(backend: Tokenizer) -> Tokenizer:
    """Declare the markers of tool calls and thoughts as tokens that are not special (ids stay the same)."""
    description = json.loads(backend.to_str())
    for token in description["added_tokens"]:
        token["special"] = token["content"] in (PAD_TOKEN, BOS_TOKEN, EOS_TOKEN)
    return Tokenizer.from_str(json.dumps(description))


# The same tokenizer without its added tokens, made once for each tokenizer object.
_plain_backends: WeakKeyDictionary[PreTrainedTokenizerFast, Tokenizer] = WeakKeyDictionary()


def _plain_backend(tokenizer: PreTrainedTokenizerFast) -> Tokenizer:
    backend = _plain_backends.get(tokenizer)
    if backend is None:
        description = json.loads(tokenizer.backend_tokenizer.to_str())
        description.update(added_tokens=[], post_processor=None, truncation=None, padding=None)
        backend = _plain_backends[tokenizer] = Tokenizer.from_str(json.dumps(description))
    return backend
