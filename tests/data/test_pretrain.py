from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerFast

from minimind.data.documents import Documents
from minimind.data.jsonl import DataError
from minimind.data.pretrain import PretrainDataset

BOS, EOS, PAD = 1, 2, 0


def documents_of(*lengths: int) -> Documents:
    ones = np.ones(len(lengths), dtype=np.int64)
    return Documents(
        np.arange(10, 10 + sum(lengths), dtype=np.int32), np.cumsum([0, *lengths], dtype=np.int64), ones, ones
    )


def dataset_of(*lengths: int, max_seq_len: int = 6, pad: int = PAD) -> PretrainDataset:
    return PretrainDataset(documents_of(*lengths), max_seq_len, bos=BOS, eos=EOS, pad=pad)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=control,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(["the cat sat on the mat"] * 10, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=control[0], bos_token=control[1], eos_token=control[2]
    )


def test_a_sample_is_bos_text_eos_and_padding_without_labels() -> None:
    sample = dataset_of(2)[0]
    assert sample["input_ids"].tolist() == [BOS, 10, 11, EOS, PAD, PAD]
    assert sample["labels"].tolist() == [BOS, 10, 11, EOS, -100, -100]
    assert sample["attention_mask"].tolist() == [1, 1, 1, 1, 0, 0]
    assert {tensor.dtype for tensor in sample.values()} == {torch.int64}


@pytest.mark.parametrize(
    ("length", "input_ids", "cut"),
    [
        pytest.param(3, [BOS, 10, 11, 12, EOS, PAD], 0, id="one under the limit"),
        pytest.param(4, [BOS, 10, 11, 12, 13, EOS], 0, id="at the limit"),
        pytest.param(5, [BOS, 10, 11, 12, 13, 14], 1, id="one over: the end is lost, no false EOS"),
    ],
)
def test_a_document_around_the_limit(length: int, input_ids: list[int], cut: int) -> None:
    dataset = dataset_of(length)
    assert dataset[0]["input_ids"].tolist() == input_ids
    assert dataset.cut_documents == cut


def test_cut_documents_are_counted() -> None:
    assert dataset_of(1, 4, 5, 50, 3).cut_documents == 2


def test_labels_are_right_where_pad_equals_eos() -> None:
    sample = dataset_of(2, pad=EOS)[0]
    assert sample["input_ids"].tolist() == [BOS, 10, 11, EOS, EOS, EOS]
    assert sample["labels"].tolist() == [BOS, 10, 11, EOS, -100, -100]


def test_a_torch_data_loader_takes_it() -> None:
    batch = next(iter(DataLoader(dataset_of(2, 7, 1), batch_size=3)))
    assert {name: tuple(tensor.shape) for name, tensor in batch.items()} == {
        "input_ids": (3, 6),
        "labels": (3, 6),
        "attention_mask": (3, 6),
    }


@pytest.mark.parametrize("max_seq_len", [1, 0, -3])
def test_a_sample_too_short_to_predict_anything_is_refused(max_seq_len: int) -> None:
    with pytest.raises(ValueError, match=f"max_seq_len is {max_seq_len}: a sample needs at least 2 tokens"):
        dataset_of(1, max_seq_len=max_seq_len)


def test_a_file_becomes_samples_that_decode_to_its_texts(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"text": "the cat"}\n{"text": "床前明月光"}\n')
    dataset = PretrainDataset.from_file(path, tokenizer, max_seq_len=32)
    assert [tokenizer.decode(sample["input_ids"], skip_special_tokens=True) for sample in dataset] == [
        "the cat",
        "床前明月光",
    ]
    assert dataset[0]["input_ids"][0] == tokenizer.bos_token_id
    assert (dataset[0]["input_ids"] == tokenizer.eos_token_id).sum() == 1
    assert dataset[0]["input_ids"][-1] == tokenizer.pad_token_id


def test_the_users_own_text_file_and_field_are_read(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    (tmp_path / "mine.txt").write_text("one\n\ntwo\n")
    assert len(PretrainDataset.from_file(tmp_path / "mine.txt", tokenizer, 8)) == 2
    (tmp_path / "mine.jsonl").write_text('{"content": "a"}\n{"content": null}\n')
    dataset = PretrainDataset.from_file(tmp_path / "mine.jsonl", tokenizer, 8, field="content", lenient=True)
    assert len(dataset) == 1
    with pytest.raises(DataError, match="line 2"):
        PretrainDataset.from_file(tmp_path / "mine.jsonl", tokenizer, 8, field="content")


def test_a_tokenizer_without_a_needed_token_is_refused(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    (tmp_path / "mine.txt").write_text("one")
    bare = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, bos_token="<|im_start|>")
    with pytest.raises(ValueError, match="names no eos token: set tokenizer.eos_token first"):
        PretrainDataset.from_file(tmp_path / "mine.txt", bare, 8)
