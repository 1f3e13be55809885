import hashlib
import time

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from minimind.data.documents import Documents, order, split_documents

TEXTS = ["the cat sat on the mat", "床前明月光\n疑是地上霜", "a", "the end 🎉 of\u2028it"]
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    """A real byte-level BPE, trained here, with control tokens and a marker that is no special token."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=CONTROL, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(TEXTS * 5, trainer)
    backend.add_tokens([AddedToken("<think>", normalized=False)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=CONTROL[0], bos_token=CONTROL[1], eos_token=CONTROL[2]
    )


def numbered(*documents: list[int]) -> Documents:
    lengths = [len(document) for document in documents]
    return Documents(
        tokens=np.asarray(sum(documents, []), dtype=np.int32),
        offsets=np.cumsum([0, *lengths], dtype=np.int64),
        characters=np.asarray(lengths, dtype=np.int64) * 2,
        utf8_bytes=np.asarray(lengths, dtype=np.int64) * 3,
    )


def test_each_document_decodes_to_its_text_and_holds_no_special_token(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    documents = Documents.from_texts(iter(TEXTS), tokenizer)
    assert len(documents) == 4
    assert [tokenizer.decode(document) for document in documents] == TEXTS
    assert not np.isin(documents.tokens, tokenizer.all_special_ids).any()
    assert documents.characters.tolist() == [len(text) for text in TEXTS]
    assert documents.utf8_bytes.tolist() == [len(text.encode()) for text in TEXTS]
    assert documents.total_tokens == documents.lengths.sum() == len(documents.tokens)


def test_a_control_string_in_a_text_gives_no_control_id(tokenizer: PreTrainedTokenizerFast) -> None:
    texts = ["say <|im_end|> twice <|im_end|>", "plain", "<think> aloud", "<|im_start|>", "plain too"]
    documents = Documents.from_texts(texts, tokenizer)
    control = [*tokenizer.all_special_ids, tokenizer.convert_tokens_to_ids("<think>")]
    assert not np.isin(documents.tokens, control).any()
    assert [tokenizer.decode(document) for document in documents] == texts
    # The trap is real: an ordinary call does give the control id.
    assert tokenizer.eos_token_id in tokenizer(texts[0], add_special_tokens=False).input_ids


def test_padding_and_cutting_left_switched_on_in_the_tokenizer_change_nothing(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    before = Documents.from_texts(TEXTS, tokenizer)
    tokenizer(TEXTS, padding="max_length", truncation=True, max_length=8)
    assert Documents.from_texts(TEXTS, tokenizer).fingerprint() == before.fingerprint()


def test_a_text_without_tokens_is_refused(tokenizer: PreTrainedTokenizerFast) -> None:
    with pytest.raises(ValueError, match=r"Document 1 has no tokens.*leave empty texts out"):
        Documents.from_texts(["a", "", "b"], tokenizer)


def test_one_document_is_found_by_its_index() -> None:
    documents = numbered([1, 2], [3], [4, 5, 6])
    assert documents[0].tolist() == [1, 2]
    assert documents[-1].tolist() == [4, 5, 6]
    assert documents.lengths.tolist() == [2, 1, 3]
    for outside in (3, -4):
        with pytest.raises(IndexError, match=f"no document {outside}: there are 3"):
            documents[outside]


def test_the_summary_says_how_much_there_is() -> None:
    assert numbered([1, 2], [3] * 1000).summary() == (
        "2 documents, 2,004 characters, 1,002 tokens (2.00 characters per token), BOS and EOS not counted."
    )


def test_the_fingerprint_changes_with_a_token_a_border_or_the_order() -> None:
    fingerprint = numbered([1, 2], [3]).fingerprint()
    assert numbered([1, 2], [3]).fingerprint() == fingerprint
    for other in (numbered([1, 2], [4]), numbered([1], [2, 3]), numbered([3], [1, 2]), numbered([1, 2, 3])):
        assert other.fingerprint() != fingerprint


def test_the_fingerprint_is_the_same_on_every_platform() -> None:
    layout = (3).to_bytes(8, "little") + b"".join(n.to_bytes(8, "little") for n in (0, 2, 3))
    layout += (3).to_bytes(8, "little") + b"".join(n.to_bytes(4, "little") for n in (1, 2, 3))
    assert numbered([1, 2], [3]).fingerprint() == hashlib.sha256(layout).hexdigest()


def test_selected_documents_stay_whole_and_in_the_order_given() -> None:
    chosen = numbered([1, 2], [3], [4, 5, 6]).select([2, 0])
    assert [document.tolist() for document in chosen] == [[4, 5, 6], [1, 2]]
    assert chosen.characters.tolist() == [6, 4]
    assert len(numbered([1]).select([])) == 0


@pytest.mark.parametrize("offsets", [[0, 1], [1, 3], [0, 2, 2, 3]])
def test_offsets_that_do_not_fit_the_tokens_are_refused(offsets: list[int]) -> None:
    ones = np.ones(len(offsets) - 1, dtype=np.int64)
    with pytest.raises(ValueError, match="offsets must run from 0|has no tokens"):
        Documents(np.arange(3, dtype=np.int32), np.asarray(offsets), ones, ones)
    with pytest.raises(ValueError, match="one number for each document"):
        Documents(np.arange(3, dtype=np.int32), np.asarray([0, 3]), ones[:0], ones[:1])


@pytest.mark.parametrize("n", [0, 1, 2, 7, 1000])
def test_an_order_is_a_permutation(n: int) -> None:
    assert sorted(order(3, 4, n).tolist()) == list(range(n))


def test_an_order_never_changes() -> None:
    # Written down once: a resumed run must meet the order that it was started with, whatever numpy is installed.
    assert order(42, 3, 12).tolist() == [11, 0, 8, 6, 5, 1, 3, 7, 10, 4, 2, 9]


def test_another_seed_epoch_or_stream_gives_another_order() -> None:
    orders = [
        order(seed, epoch, 64, stream).tobytes() for seed in (0, 1, 5) for epoch in (0, 1, 5) for stream in (0, 1, 2)
    ]
    assert len(set(orders)) == 27


@pytest.mark.parametrize("value", [-1, 2**32])
def test_a_seed_or_epoch_out_of_range_is_refused_by_name(value: int) -> None:
    with pytest.raises(ValueError, match=f"seed is {value}: choose a whole number from 0 to 4294967295"):
        order(value, 0, 3)
    with pytest.raises(ValueError, match=f"epoch is {value}"):
        order(0, value, 3)
    with pytest.raises(ValueError, match="n must be 0 or more"):
        order(0, 0, -1)


def test_held_out_documents_and_the_others_are_together_all_documents() -> None:
    documents = numbered(*([number, number + 1] for number in range(100)))
    train, validation = split_documents(documents, 10, seed=1)
    assert (len(train), len(validation)) == (90, 10)
    ids = [document[0] for part in (train, validation) for document in part]
    assert sorted(ids) == list(range(100))
    assert ids[:90] == sorted(ids[:90])
    assert split_documents(documents, 10, seed=1)[1].fingerprint() == validation.fingerprint()
    assert split_documents(documents, 10, seed=2)[1].fingerprint() != validation.fingerprint()


def test_a_held_out_document_is_nowhere_in_the_training_part() -> None:
    documents = numbered(*([number // 2] for number in range(40)), [100], [101], [102])
    train, validation = split_documents(documents, 3, seed=0)
    assert sorted(validation.tokens.tolist()) == [100, 101, 102]
    assert len(train) == 40
    with pytest.raises(ValueError, match=r"is 4, but only 3 of 43 documents occur once.*hold out fewer"):
        split_documents(documents, 4, seed=0)


def test_a_split_that_leaves_nothing_to_train_on_is_refused() -> None:
    documents = numbered([1], [2])
    assert [len(part) for part in split_documents(documents, 0, seed=0)] == [2, 0]
    for count in (-1, 2, 3):
        with pytest.raises(ValueError, match=f"validation_documents is {count} of 2 documents"):
            split_documents(documents, count, seed=0)


def test_twenty_thousand_short_texts_take_seconds(tokenizer: PreTrainedTokenizerFast) -> None:
    texts = [TEXTS[number % 4] + str(number) for number in range(20_000)]
    begin_s = time.perf_counter()
    assert len(Documents.from_texts(texts, tokenizer)) == 20_000
    assert time.perf_counter() - begin_s < 20
