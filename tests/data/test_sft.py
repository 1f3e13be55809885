"""Conversations -> batches in which only the assistant's words are trained."""

import json

import numpy as np
import pytest

from minimind.chat import encode_chat
from minimind.config import preset
from minimind.data.batch import IGNORE_INDEX
from minimind.data.jsonl import DataError, read_conversations
from minimind.data.sft import ConversationBatches, Conversations, SFTDataset
from minimind.data.sources import load_conversations, sft_data
from minimind.tokenizer import load_tokenizer


def pair(user: str, assistant: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]


PAIRS = [pair(f"What is {a} + {b}?", "well, " * a + f"{a} + {b} = {a + b}.") for a in range(5) for b in range(5)]


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer("world-800")


def source(tokenizer, **changes) -> ConversationBatches:
    settings = {"batch_size": 4, "seed": 3, "pad": 0} | changes
    return ConversationBatches(Conversations.from_messages(PAIRS, tokenizer, 160), **settings)


def test_a_sample_holds_the_conversation_and_labels_on_the_answer_alone(tokenizer):
    chat = encode_chat(tokenizer, PAIRS[7])
    sample = SFTDataset(PAIRS, tokenizer, max_seq_len=80)[7]
    n = len(chat.input_ids)
    assert sample["input_ids"].tolist() == chat.input_ids + [0] * (80 - n)
    assert sample["attention_mask"].tolist() == [1] * n + [0] * (80 - n)
    expected = [i if learned else IGNORE_INDEX for i, learned in zip(chat.input_ids, chat.supervised, strict=True)]
    assert sample["labels"].tolist() == expected + [IGNORE_INDEX] * (80 - n)


def test_padding_is_known_by_its_place_even_where_pad_equals_eos(tokenizer):
    batches = source(tokenizer, pad=tokenizer.eos_token_id)
    for index in range(batches.batches_per_epoch()):
        batch = batches.batch(0, index)
        ends = (batch.labels == tokenizer.eos_token_id).sum(1)
        assert ends.tolist() == [1] * len(batch.sample_ids)


def test_a_batch_holds_the_samples_that_it_names(tokenizer):
    batches = source(tokenizer)
    dataset = SFTDataset(PAIRS, tokenizer, max_seq_len=160)
    seen = []
    for index in range(batches.batches_per_epoch()):
        batch = batches.batch(0, index)
        width = batch.input_ids.shape[1]
        for row, sample_id in enumerate(batch.sample_ids):
            sample = dataset[sample_id]
            assert batch.input_ids[row].tolist() == sample["input_ids"][:width].tolist()
            assert batch.labels[row].tolist() == sample["labels"][:width].tolist()
            assert (sample["input_ids"][width:] == 0).all()
            if batch.attention_mask is not None:
                assert batch.attention_mask[row].tolist() == sample["attention_mask"][:width].tolist()
        seen += batch.sample_ids
    assert sorted(seen) == list(range(len(PAIRS)))


def test_a_batch_is_a_function_of_seed_epoch_and_index(tokenizer):
    here = source(tokenizer)
    assert here.batch(1, 2).sample_ids == source(tokenizer).batch(1, 2).sample_ids
    assert here.batch(1, 2).sample_ids != here.batch(0, 2).sample_ids
    assert here.batch(1, 2).sample_ids != source(tokenizer, seed=4).batch(1, 2).sample_ids


def test_the_statistics_are_those_of_the_batches(tokenizer):
    batches = source(tokenizer)
    counted = batches.statistics(0)
    rows = [batches.batch(0, i) for i in range(counted.batches)]
    assert counted.rows == sum(len(b.sample_ids) for b in rows) == 25
    assert counted.last_batch_rows == 1
    assert counted.supervised_tokens == sum(int((b.labels[:, 1:] != IGNORE_INDEX).sum()) for b in rows)
    positions = sum(b.input_ids.numel() for b in rows)
    assert counted.real_tokens + counted.padded_positions == positions
    assert counted.cut_documents == counted.cut_tokens == 0


def test_the_fingerprint_names_data_mask_and_order(tokenizer):
    prints = {
        source(tokenizer).fingerprint(),
        source(tokenizer, seed=4).fingerprint(),
        source(tokenizer, batch_size=5).fingerprint(),
        ConversationBatches(
            Conversations.from_messages(PAIRS[:-1], tokenizer, 160), batch_size=4, seed=3, pad=0
        ).fingerprint(),
    }
    flipped = Conversations.from_messages(PAIRS, tokenizer, 160)
    flipped.supervised[5] ^= True
    prints.add(ConversationBatches(flipped, batch_size=4, seed=3, pad=0).fingerprint())
    assert len(prints) == 5
    assert source(tokenizer).fingerprint() == source(tokenizer).fingerprint()


def test_a_long_conversation_is_cut_and_one_without_an_answer_left_is_dropped_and_counted(tokenizer):
    lengths = [len(encode_chat(tokenizer, each).input_ids) for each in PAIRS]
    asked = len(encode_chat(tokenizer, PAIRS[0][:1], answer_follows=True).input_ids)
    limit = asked + 5
    some = Conversations.from_messages([*PAIRS, pair("story " * 200, "yes")], tokenizer, limit)
    assert (some.lengths == np.minimum(lengths, limit)).all()
    assert some.dropped == 1
    counted = ConversationBatches(some, batch_size=4, seed=0, pad=0).statistics(0)
    assert counted.cut_documents == sum(length > limit for length in lengths)
    assert counted.cut_tokens == sum(max(0, length - limit) for length in lengths)


def test_at_the_limit_nothing_is_cut_and_one_token_over_it_loses_one(tokenizer):
    length = len(encode_chat(tokenizer, PAIRS[0]).input_ids)
    for limit, lost in ((length + 1, 0), (length, 0), (length - 1, 1)):
        some = Conversations.from_messages(PAIRS[:1], tokenizer, limit)
        assert (some.full_lengths - some.lengths).tolist() == [lost]


def test_data_with_nothing_to_train_on_is_refused(tokenizer):
    with pytest.raises(ValueError, match=r"none of 2 conversations .* max_seq_len=8"):
        Conversations.from_messages(PAIRS[:2], tokenizer, 8)
    with pytest.raises(ValueError, match="conversation 2: message 1: role is 'bot'"):
        Conversations.from_messages([PAIRS[0], [{"role": "bot", "content": "x"}]], tokenizer, 80)


def test_a_file_of_conversations_is_read_strictly(tmp_path):
    path = tmp_path / "chat.jsonl"
    rows = [{"conversations": PAIRS[0]}, {"conversations": PAIRS[1], "source": "kept out"}]
    path.write_text("\ufeff" + "\r\n\r\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    assert read_conversations(path).rows == PAIRS[:2]
    for bad, words in [
        ('{"conversations": []}', "at least one message"),
        ('{"conversations": "hi"}', "must be a list"),
        ('{"conversations": [{"role": "user", "content": 3}]}', "message 1: content is 3"),
        ('{"text": "hi"}', "no field 'conversations'"),
        ('{"conversations": [{"role"', "breaks off"),
    ]:
        path.write_text(json.dumps(rows[0]) + "\n" + bad, encoding="utf-8")
        with pytest.raises(DataError, match=f"line 2: .*{words}"):
            read_conversations(path)
        report = read_conversations(path, lenient=True)
        assert len(report.rows) == 1 and report.dropped.total() == 1
    path.rename(tmp_path / "chat.txt")
    with pytest.raises(DataError, match=r"not named \.jsonl"):
        read_conversations(tmp_path / "chat.txt")


def test_the_questions_of_the_world_do_not_depend_on_the_run_s_seed(tokenizer):
    run = preset("lesson", "sft").replace(world_documents=300, validation_documents=20)
    assert load_conversations(run) == load_conversations(run.replace(seed=1))
    data = sft_data(run, tokenizer)
    assert "300 questions" in data.description and "supervised" in data.description
    assert data.validation is not None and len(data.validation.conversations) == 20
    held_out = set(data.validation.conversations.contents)
    assert not held_out & set(data.train.conversations.contents)


def test_packing_and_missing_files_are_refused(tokenizer):
    run = preset("lesson", "sft")
    with pytest.raises(ValueError, match="packing=1"):
        sft_data(run.replace(packing=1), tokenizer)
    with pytest.raises(ValueError, match=r"data_path='nowhere\.jsonl'"):
        sft_data(run.replace(data_path="nowhere.jsonl"), tokenizer)
