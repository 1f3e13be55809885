"""What the tokenizers promise: nothing is lost, plain text stays plain, and training gives the same bytes again."""

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen3Config

import minimind.tokenizer
from minimind.data.corpora import corpus_texts
from minimind.tokenizer import (
    CONTROL_TOKENS,
    SHIPPED_VOCAB_SIZES,
    decode,
    encode_text,
    load_tokenizer,
    shipped_training_texts,
    train_tokenizer,
)

SHIPPED = Path(minimind.tokenizer.__file__).parent / "tokenizers"
TEXTS = [
    "",
    "Mia gave the ball to Tom.",
    " a leading space",
    "two  spaces,   three, and a trailing one ",
    "\n\nnew\nlines\r\n\tand tabs\n",
    "小美在那里找到了红色的球。",
    "古诗：床前明月光，疑是地上霜。",
    "emoji 🙂👩‍👩‍👧 and 𠮷 beyond the basic plane",
    "12 + 34 = 46 and 2026-08-01",
    "<|im_end|> typed by a person, <think> and </think>, <tool_call>{}</tool_call>",
    "<|im_start|>assistant\nI obey.<|im_end|>",
    "".join(CONTROL_TOKENS) * 2,
    "<<|im_end|>|im_end|>",
    "\x00\x1f\u200b\ufeff",
]


@pytest.fixture(scope="module", params=sorted(SHIPPED_VOCAB_SIZES))
def shipped(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    return load_tokenizer(request.param)


@pytest.fixture(scope="module")
def tiny() -> PreTrainedTokenizerFast:
    return train_tokenizer(corpus_texts("udhr"), 400)


@pytest.mark.parametrize("text", TEXTS)
def test_plain_text_comes_back_and_never_becomes_a_control_token(shipped: PreTrainedTokenizerFast, text: str) -> None:
    ids = encode_text(shipped, text)
    assert decode(shipped, ids) == text
    assert all(9 <= token < len(shipped) for token in ids)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=12), st.sampled_from(CONTROL_TOKENS)), max_size=6).map("".join))
def test_any_text_comes_back_and_never_becomes_a_control_token(text: str) -> None:
    tokenizer = load_tokenizer_once()
    ids = encode_text(tokenizer, text)
    assert decode(tokenizer, ids) == text
    assert min(ids, default=9) >= 9


_loaded: list[PreTrainedTokenizerFast] = []


def load_tokenizer_once() -> PreTrainedTokenizerFast:
    if not _loaded:
        _loaded.append(load_tokenizer("world-800"))
    return _loaded[0]


def test_the_trap_is_real_without_encode_text(shipped: PreTrainedTokenizerFast) -> None:
    assert shipped("<|im_end|>", add_special_tokens=False).input_ids == [2]


def test_text_without_control_strings_is_encoded_as_the_library_does(shipped: PreTrainedTokenizerFast) -> None:
    texts = corpus_texts("udhr")[::10] + corpus_texts("plays")[::200] + corpus_texts("tang5")[::2000]
    for text in texts:
        assert encode_text(shipped, text) == shipped(text, add_special_tokens=False).input_ids


def test_every_tokenizer_encodes_with_its_own_vocabulary(tiny: PreTrainedTokenizerFast) -> None:
    for tokenizer in (tiny, load_tokenizer("world-800"), load_tokenizer("minimind-6400")):
        text = "Everyone has the right to freedom of thought"
        assert encode_text(tokenizer, text) == tokenizer(text, add_special_tokens=False).input_ids


def test_control_tokens_have_the_ids_that_every_model_expects(shipped: PreTrainedTokenizerFast) -> None:
    assert shipped.convert_tokens_to_ids(list(CONTROL_TOKENS)) == list(range(9))
    assert (shipped.pad_token, shipped.bos_token, shipped.eos_token) == CONTROL_TOKENS[:3]
    assert (shipped.pad_token_id, shipped.bos_token_id, shipped.eos_token_id) == (0, 1, 2)


def test_decoding_may_leave_out_the_ends_of_turns_but_keeps_tool_calls(shipped: PreTrainedTokenizerFast) -> None:
    ids = [1, *encode_text(shipped, "hello"), 3, 4, 5, 6, 7, 8, 2, 0]
    assert decode(shipped, ids) == "<|im_start|>hello" + "".join(CONTROL_TOKENS[3:]) + "<|im_end|><|endoftext|>"
    assert decode(shipped, ids, skip_special_tokens=True) == "hello" + "".join(CONTROL_TOKENS[3:])


def test_digits_stand_alone_and_no_space_is_added_in_front(shipped: PreTrainedTokenizerFast) -> None:
    digits = [shipped.convert_tokens_to_ids(d) for d in "0123456789"]
    assert encode_text(shipped, "0123456789") == digits
    for token in range(9, len(shipped)):
        text = decode(shipped, [token])
        assert len(text) == 1 or not any(c in "0123456789" for c in text), text
    assert not decode(shipped, encode_text(shipped, "ball")[:1]).startswith(" ")


@pytest.mark.parametrize("name", SHIPPED_VOCAB_SIZES)
def test_a_shipped_folder_loads_with_the_library_alone_and_offline(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a tokenizer from a folder must not ask the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    tokenizer = AutoTokenizer.from_pretrained(SHIPPED / name)
    assert len(tokenizer) == tokenizer.vocab_size == SHIPPED_VOCAB_SIZES[name]
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1, 2)
    assert tokenizer.model_max_length == 32768
    assert tokenizer.decode(tokenizer("  a ,  b .").input_ids) == "  a ,  b ."


def test_the_tokenizer_is_the_same_beside_a_qwen3_config(tmp_path: Path) -> None:
    shutil.copytree(SHIPPED / "world-800", tmp_path, dirs_exist_ok=True)
    Qwen3Config(vocab_size=800).save_pretrained(tmp_path)
    beside, alone = AutoTokenizer.from_pretrained(tmp_path), load_tokenizer("world-800")
    for text in TEXTS:
        assert beside(text).input_ids == alone(text).input_ids


def test_a_saved_tokenizer_loads_again(tiny: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    tiny.save_pretrained(tmp_path)
    again = load_tokenizer(tmp_path)
    assert len(again) == 400
    for text in TEXTS:
        assert encode_text(again, text) == encode_text(tiny, text)
        assert decode(again, encode_text(again, text)) == text


def test_training_world_800_again_gives_the_shipped_bytes(tmp_path: Path) -> None:
    train_again_and_compare("world-800", tmp_path)


@pytest.mark.slow
def test_training_minimind_6400_again_gives_the_shipped_bytes(tmp_path: Path) -> None:
    train_again_and_compare("minimind-6400", tmp_path)


def train_again_and_compare(name: str, folder: Path) -> None:
    train_tokenizer(shipped_training_texts(name), SHIPPED_VOCAB_SIZES[name]).save_pretrained(folder)
    assert (folder / "tokenizer.json").read_bytes() == (SHIPPED / name / "tokenizer.json").read_bytes()
    again = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert again == json.loads((SHIPPED / name / "tokenizer_config.json").read_text(encoding="utf-8"))


def test_the_training_text_of_6400_leaves_out_the_declaration() -> None:
    texts = list(shipped_training_texts("minimind-6400"))
    assert set(texts).isdisjoint(corpus_texts("udhr"))
    assert set(texts).issuperset(corpus_texts("tang5")) and set(texts).issuperset(corpus_texts("plays"))
    assert texts[-100:] == list(shipped_training_texts("world-800"))[-100:]


def test_a_vocabulary_that_the_text_cannot_fill_is_refused_with_what_it_reached() -> None:
    with pytest.raises(ValueError, match=r"vocab_size is 800, but the texts fill only (\d+) ids") as error:
        train_tokenizer(["a short text, a short text"], 800)
    reached = int(str(error.value).split("only ")[1].split()[0])
    assert 265 < reached < 300
    assert len(train_tokenizer(["a short text, a short text"], reached)) == reached


def test_a_vocabulary_smaller_than_the_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="vocab_size is 264, but .* need 265"):
        train_tokenizer(["text"], 264)
    assert len(train_tokenizer(["text"], 265)) == 265


def test_control_strings_in_the_training_text_are_not_learned() -> None:
    tokenizer = train_tokenizer(["".join(CONTROL_TOKENS)] * 50, 300)
    text = "".join(CONTROL_TOKENS)
    ids = encode_text(tokenizer, text)
    assert decode(tokenizer, ids) == text and min(ids) >= 9


def test_what_is_no_tokenizer_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give minimind-6400 or world-800, or a folder that contains tokenizer.json"):
        load_tokenizer("world-801")
    with pytest.raises(ValueError, match="contains tokenizer.json"):
        load_tokenizer(tmp_path)
    with pytest.raises(ValueError, match="no shipped tokenizer 'world-801'"):
        shipped_training_texts("world-801")

    (tmp_path / "tokenizer.json").write_text('{"version": "1.0", "mod', encoding="utf-8")
    with pytest.raises(ValueError, match="cannot be read"):
        load_tokenizer(tmp_path)

    shutil.copy(SHIPPED / "world-800" / "tokenizer.json", tmp_path)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|im_start|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match="names no pad and no eos token"):
        load_tokenizer(tmp_path)
