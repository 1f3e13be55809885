"""A stream shows whole characters only, each as soon as it is whole, and in the end all that `decode` shows."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from minimind.serve.generate import answer_chats
from minimind.serve.stream import StreamDecoder, stream_answer, token_bytes
from minimind.tokenizer import decode, encode_text, load_tokenizer
from tests import tiny

TOKENIZERS = {name: load_tokenizer(name) for name in ("world-800", "minimind-6400")}
WORLD = TOKENIZERS["world-800"]
FAMILY = "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL}"

names = st.sampled_from(sorted(TOKENIZERS))
byte_ids = {byte: encoded for encoded in range(9, 265) for byte in token_bytes(WORLD, encoded)}
texts = st.lists(
    st.one_of(
        st.text(max_size=5),
        st.sampled_from(["é", "e\u0301", "\ufffd", "\ufffd\ufffd", "小猫", "🦊", FAMILY, "\u200b", "\x00", "\ufeff"]),
        st.sampled_from(["<|im_end|>", " ", "\n", "Anna"]),
    ),
    max_size=8,
).map("".join)


def stream(tokenizer, ids) -> list[str]:
    decoder = StreamDecoder(tokenizer)
    return [*(decoder.put(token_id) for token_id in ids), decoder.end()]


def of_bytes(data: bytes) -> list[int]:
    return [byte_ids[byte] for byte in data]


@settings(max_examples=300)
@given(names, st.data())
def test_the_pieces_of_any_ids_join_to_what_decode_gives(name, data):
    tokenizer = TOKENIZERS[name]
    any_id = st.one_of(st.integers(0, len(tokenizer) + 3), st.integers(0, 264))
    ids = data.draw(st.lists(any_id, max_size=30))
    assert "".join(stream(tokenizer, ids)) == decode(tokenizer, ids)


@settings(max_examples=300)
@given(names, texts)
@example("world-800", "\ufffd")
@example("world-800", "a\ufffd\ufffdb")
def test_a_text_comes_out_as_it_went_in_and_no_piece_holds_half_of_a_character(name, text):
    tokenizer = TOKENIZERS[name]
    pieces = stream(tokenizer, encode_text(tokenizer, text))
    assert "".join(pieces) == text
    assert pieces[-1] == "", "nothing was left to come"
    assert "".join(pieces).count("\ufffd") == text.count("\ufffd")


@settings(max_examples=200)
@given(
    st.lists(
        st.one_of(st.integers(0, 255), st.sampled_from(b"\xed\xa0\x80\xe0\x9f\xf0\xf4\x90\xc2\xc0\xffa")), max_size=12
    )
)
@example([*b"\xed\xa0"])
@example([*b"\xe0\x80a"])
@example([*b"\xf0\x9f\xa6"])
def test_what_can_still_change_is_held_back_and_nothing_else(data):
    """After each byte: shown is what every continuation of the bytes begins with, as long as that can be."""
    decoder, shown = StreamDecoder(WORLD), ""
    for count, byte in enumerate(data, start=1):
        shown += decoder.put(byte_ids[byte])
        futures = [
            (bytes(data[:count]) + more).decode("utf-8", errors="replace")
            for more in (b"", b"a", *(bytes([first, *rest]) for first in (0x80, 0x90, 0xA0, 0xBF) for rest in TAILS))
        ]
        common = futures[0]
        while not all(future.startswith(common) for future in futures):
            common = common[:-1]
        assert shown == common
    assert shown + decoder.end() == bytes(data).decode("utf-8", errors="replace")


TAILS = ((), (0x80,), (0x80, 0x80))


def test_an_emoji_over_four_tokens_appears_with_its_last():
    assert stream(WORLD, of_bytes("a🦊b".encode())) == ["a", "", "", "", "🦊", "b", ""]


def test_a_cut_character_is_shown_as_a_replacement_at_the_end():
    assert stream(WORLD, of_bytes("🦊".encode()[:2])) == ["", "", "\ufffd"]


def test_bytes_that_cannot_become_a_character_are_shown_at_once():
    assert stream(WORLD, of_bytes(b"\xff\xf0\x9fa")) == ["\ufffd", "", "", "\ufffda", ""]
    assert stream(WORLD, of_bytes(b"\xed\xa0")) == ["", "\ufffd\ufffd", ""]


def test_after_its_end_a_decoder_is_as_new():
    decoder = StreamDecoder(WORLD)
    decoder.put(byte_ids[0xF0])
    decoder.end()
    assert decoder.put(byte_ids[ord("a")]) == "a"


def test_an_id_beyond_the_vocabulary_shows_nothing_and_a_negative_one_is_refused():
    assert stream(WORLD, [len(WORLD) + 5]) == ["", ""]
    with pytest.raises(ValueError, match="id -1 is negative"):
        StreamDecoder(WORLD).put(-1)


def test_every_token_of_the_shipped_tokenizers_is_its_bytes():
    for tokenizer in TOKENIZERS.values():
        for token_id in range(len(tokenizer)):
            assert token_bytes(tokenizer, token_id).decode(errors="replace") == decode(tokenizer, [token_id])


def test_a_tokenizer_of_words_is_refused():
    words = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")))
    with pytest.raises(ValueError, match="needs a byte-level one"):
        StreamDecoder(words)


@pytest.fixture(scope="module")
def model():
    return tiny.lively(tiny.model(vocab_size=len(WORLD), max_position_embeddings=128))


MESSAGES = [{"role": "user", "content": "What is 6 + 3?"}]


@pytest.mark.parametrize(("temperature", "seed"), [(0.0, 0), (1.0, 0), (1.0, 1), (0.5, 2)])
def test_a_streamed_answer_is_the_answer(temperature, seed, model):
    pieces = list(stream_answer(model, WORLD, MESSAGES, max_new_tokens=40, temperature=temperature, seed=seed))
    whole = answer_chats(model, WORLD, [MESSAGES], max_new_tokens=40, temperature=temperature, seed=seed)
    assert "".join(pieces) == whole[0]
    assert len(pieces) > 1 and all(pieces)


def test_the_end_of_the_turn_ends_the_answer_and_is_not_shown(model, monkeypatch):
    ids = [*encode_text(WORLD, "6 + 3 = 9."), WORLD.eos_token_id, *encode_text(WORLD, " And")]
    monkeypatch.setattr("minimind.serve.sampling.torch.where", lambda *_: torch.tensor([ids.pop(0)]))
    assert "".join(stream_answer(model, WORLD, MESSAGES)) == "6 + 3 = 9."
    assert len(ids) == len(encode_text(WORLD, " And"))


def test_an_answer_cut_within_a_character_ends_in_a_replacement(model, monkeypatch):
    ids = of_bytes("9🦊".encode()[:3])
    monkeypatch.setattr("minimind.serve.sampling.torch.where", lambda *_: torch.tensor([ids.pop(0)]))
    assert list(stream_answer(model, WORLD, MESSAGES, max_new_tokens=3)) == ["9", "\ufffd"]


def test_top_k_and_top_p_reach_the_sampling(model):
    greedy = "".join(stream_answer(model, WORLD, MESSAGES, max_new_tokens=20))
    shared = dict(max_new_tokens=20, temperature=1.0)
    assert "".join(stream_answer(model, WORLD, MESSAGES, **shared)) != greedy
    assert "".join(stream_answer(model, WORLD, MESSAGES, **shared, top_k=1)) == greedy
    assert "".join(stream_answer(model, WORLD, MESSAGES, **shared, top_p=1e-9)) == greedy


@pytest.mark.parametrize("training", [True, False])
def test_the_program_around_is_left_as_it_was(training, model):
    model.train(training)
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    list(stream_answer(model, WORLD, MESSAGES, max_new_tokens=3, temperature=1.0))
    assert torch.equal(torch.rand(3), expected)
    assert model.training == training


@pytest.mark.parametrize(
    ("messages", "options", "sentence"),
    [
        ([], {}, "at least one message"),
        (MESSAGES, {"temperature": -1.0}, "temperature=-1.0"),
        (MESSAGES, {"max_new_tokens": 128}, "exceed the model's 128 positions"),
    ],
)
def test_bad_input_is_refused_before_the_first_piece(messages, options, sentence, model):
    with pytest.raises(ValueError, match=sentence):
        stream_answer(model, WORLD, messages, **options)
