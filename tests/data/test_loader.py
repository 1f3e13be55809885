import time
from itertools import islice, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minimind.data.batch import Batch
from minimind.data.documents import Documents
from minimind.data.loader import BatchSource, DocumentBatches, PackedBatches, iterate

BOS, EOS, PAD = 1, 2, 0
KINDS = [DocumentBatches, PackedBatches]


def documents_of(lengths: list[int]) -> Documents:
    """Documents whose tokens are all different, so that one token says which document and where."""
    ones = np.ones(len(lengths), dtype=np.int64)
    return Documents(
        tokens=np.arange(10, 10 + sum(lengths), dtype=np.int32),
        offsets=np.cumsum([0, *lengths], dtype=np.int64),
        characters=ones,
        utf8_bytes=ones,
    )


def source_of(kind: type, lengths: list[int], **changes: int):
    values = {"batch_size": 4, "max_seq_len": 8, "seed": 7, "bos": BOS, "eos": EOS, "pad": PAD, **changes}
    return kind(documents_of(lengths), **values)


def epoch_of(source: BatchSource, epoch: int = 0) -> list[Batch]:
    return [source.batch(epoch, index) for index in range(source.batches_per_epoch())]


def framed(source, sample: int) -> list[int]:
    return [BOS, *source.documents[sample].tolist(), EOS]


def assert_equal(one: Batch, other: Batch) -> None:
    assert one.sample_ids == other.sample_ids
    for name in ("input_ids", "labels", "attention_mask", "document_ids", "position_ids"):
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None and right is None) or torch.equal(left, right)


lengths_lists = st.lists(st.integers(1, 30), min_size=1, max_size=40)
shapes = {
    "lengths": lengths_lists,
    "batch_size": st.integers(1, 7),
    "max_seq_len": st.integers(2, 20),
    "seed": st.integers(0, 2**32 - 1),
    "epoch": st.integers(0, 9),
}


@given(**shapes, window_batches=st.integers(1, 4))
@settings(deadline=None)
def test_document_rows_hold_every_document_once_cut_and_padded(
    lengths: list[int], batch_size: int, max_seq_len: int, seed: int, epoch: int, window_batches: int
) -> None:
    source = source_of(
        DocumentBatches,
        lengths,
        batch_size=batch_size,
        max_seq_len=max_seq_len,
        seed=seed,
        window_batches=window_batches,
    )
    batches = epoch_of(source, epoch)
    assert sorted(sample for batch in batches for sample in batch.sample_ids) == list(range(len(lengths)))
    assert all(len(batch.sample_ids) == batch_size for batch in batches[:-1])
    for batch in batches:
        assert batch.document_ids is None
        assert batch.position_ids is None
        rows = [framed(source, sample)[:max_seq_len] for sample in batch.sample_ids]
        width = max(map(len, rows))
        assert batch.input_ids.tolist() == [row + [PAD] * (width - len(row)) for row in rows]
        assert batch.labels.tolist() == [row + [-100] * (width - len(row)) for row in rows]
        mask = [[1] * len(row) + [0] * (width - len(row)) for row in rows]
        if all(map(all, mask)):
            assert batch.attention_mask is None
        else:
            assert batch.attention_mask is not None
            assert batch.attention_mask.tolist() == mask


@given(**shapes)
@settings(deadline=None)
def test_packed_rows_put_together_again_are_the_documents_end_to_end(
    lengths: list[int], batch_size: int, max_seq_len: int, seed: int, epoch: int
) -> None:
    source = source_of(PackedBatches, lengths, batch_size=batch_size, max_seq_len=max_seq_len, seed=seed)
    batches = epoch_of(source, epoch)
    ids = torch.cat([batch.input_ids for batch in batches]).flatten().tolist()
    owners = torch.cat([batch.document_ids for batch in batches]).flatten().tolist()
    seen = list(dict.fromkeys(sample for batch in batches for sample in batch.sample_ids))
    assert sorted(seen) == list(range(len(lengths)))
    stream = [(token, sample) for sample in seen for token in framed(source, sample)]
    padding = len(ids) - len(stream)
    assert 0 <= padding < max_seq_len
    assert list(zip(ids, owners, strict=True)) == stream + [(PAD, -1)] * padding
    assert all(batch.input_ids.shape == (batch_size, max_seq_len) for batch in batches[:-1])
    assert all(batch.attention_mask is None for batch in batches[:-1])
    assert (batches[-1].attention_mask is None) == (padding == 0)


@given(**shapes)
@settings(deadline=None)
def test_no_packed_token_is_predicted_across_a_border(
    lengths: list[int], batch_size: int, max_seq_len: int, seed: int, epoch: int
) -> None:
    source = source_of(PackedBatches, lengths, batch_size=batch_size, max_seq_len=max_seq_len, seed=seed)
    for batch in epoch_of(source, epoch):
        assert batch.document_ids is not None
        assert batch.position_ids is not None
        present = []
        for ids, labels, owners, positions in zip(
            batch.input_ids.tolist(),
            batch.labels.tolist(),
            batch.document_ids.tolist(),
            batch.position_ids.tolist(),
            strict=True,
        ):
            position = 0
            for column, owner in enumerate(owners):
                starts = column == 0 or owners[column - 1] != owner
                position = 0 if starts else position + 1
                assert positions[column] == position
                assert labels[column] == (-100 if starts or owner < 0 else ids[column])
            present += [owner for owner in owners if owner >= 0]
        assert batch.sample_ids == tuple(dict.fromkeys(present))
        if batch.attention_mask is not None:
            assert torch.equal(batch.attention_mask, (batch.document_ids >= 0).long())


@pytest.mark.parametrize("kind", KINDS)
@given(**shapes)
@settings(deadline=None)
def test_the_statistics_of_an_epoch_are_exact(
    kind: type, lengths: list[int], batch_size: int, max_seq_len: int, seed: int, epoch: int
) -> None:
    source = source_of(kind, lengths, batch_size=batch_size, max_seq_len=max_seq_len, seed=seed)
    batches = epoch_of(source, epoch)
    counted = source.statistics(epoch)
    masks = [
        torch.ones_like(batch.input_ids) if batch.attention_mask is None else batch.attention_mask for batch in batches
    ]
    assert counted.batches == len(batches)
    assert counted.rows == sum(len(mask) for mask in masks)
    assert counted.last_batch_rows == len(masks[-1])
    assert counted.real_tokens == sum(int(mask.sum()) for mask in masks)
    assert counted.padded_positions == sum(int((mask == 0).sum()) for mask in masks)
    # What an objective trains on: the label one place further on.
    assert counted.supervised_tokens == sum(int((batch.labels[:, 1:] != -100).sum()) for batch in batches)
    assert counted.real_tokens + counted.cut_tokens == sum(lengths) + 2 * len(lengths)
    cut = [length for length in lengths if length + 2 > max_seq_len]
    assert counted.cut_documents == (len(cut) if kind is DocumentBatches else 0)
    positions = counted.real_tokens + counted.padded_positions
    assert counted.waste() == pytest.approx(counted.padded_positions / positions)


@pytest.mark.parametrize("kind", KINDS)
@given(start=st.integers(0, 11), seed=st.integers(0, 100))
@settings(deadline=None, max_examples=40)
def test_starting_anywhere_gives_the_tail_of_the_uninterrupted_order(kind: type, start: int, seed: int) -> None:
    lengths = [3, 9, 1, 4, 4, 12, 2, 5, 6, 1, 1, 8, 3]
    whole = list(islice(iterate(source_of(kind, lengths, seed=seed)), 14))
    fresh = source_of(kind, lengths, seed=seed)
    epoch, index = divmod(start, fresh.batches_per_epoch())
    for (e, i, batch), (e2, i2, batch2) in zip(whole[start:], iterate(fresh, epoch, index), strict=False):
        assert (e, i) == (e2, i2)
        assert_equal(batch, batch2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_asking_changes_nothing(kind: type) -> None:
    lengths = list(range(1, 40))
    one, other = source_of(kind, lengths), source_of(kind, lengths)
    places = [(epoch, index) for epoch in range(3) for index in range(one.batches_per_epoch())]
    forwards = {place: one.batch(*place) for place in places}
    for place in sorted(places, key=lambda place: (place[1], -place[0])):
        assert_equal(other.batch(*place), forwards[place])


@pytest.mark.parametrize("kind", KINDS)
def test_iterate_goes_on_into_the_next_epoch(kind: type) -> None:
    source = source_of(kind, [3] * 10)
    count = source.batches_per_epoch()
    places = [(epoch, index) for epoch, index, _ in islice(iterate(source, 2, 1), 2 * count)]
    assert places == [*((2, i) for i in range(1, count)), *((3, i) for i in range(count)), (4, 0)]
    # The end of an epoch is the beginning of the next.
    assert next(iterate(source, 2, count))[:2] == (3, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_or_epoch_gives_another_order(kind: type) -> None:
    lengths = list(range(1, 60))

    def samples(seed: int, epoch: int) -> list[int]:
        batches = epoch_of(source_of(kind, lengths, seed=seed), epoch)
        return list(dict.fromkeys(sample for batch in batches for sample in batch.sample_ids))

    orders = [samples(seed, epoch) for seed in (0, 1) for epoch in (0, 1, 2)]
    assert all(left != right for n, left in enumerate(orders) for right in orders[:n])


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_ranks_sees_every_token_once(kind: type, ranks: int) -> None:
    lengths = [3, 9, 1, 4, 4, 12, 2, 5, 6, 1, 1, 8, 3]
    source = source_of(kind, lengths)
    predicted = []
    for batch in epoch_of(source):
        parts = batch.pad_rows(ranks).split(ranks)
        assert len({part.input_ids.shape for part in parts}) == 1
        assert list(dict.fromkeys(sum((part.sample_ids for part in parts), ()))) == list(batch.sample_ids)
        predicted += [label for part in parts for label in part.labels.flatten().tolist() if label >= 10]
    assert len(predicted) == len(set(predicted))
    whole = [label for batch in epoch_of(source) for label in batch.labels.flatten().tolist() if label >= 10]
    assert sorted(predicted) == sorted(whole)


def test_grouping_by_length_saves_padding_and_batches_do_not_come_sorted() -> None:
    lengths = np.random.default_rng(0).integers(1, 200, size=4000).tolist()
    grouped = source_of(DocumentBatches, lengths, batch_size=16, max_seq_len=256)
    alone = source_of(DocumentBatches, lengths, batch_size=16, max_seq_len=256, window_batches=1)
    assert alone.statistics(0).waste() > 0.4
    assert grouped.statistics(0).waste() < 0.05
    widths = [batch.input_ids.shape[1] for batch in epoch_of(grouped)]
    rising = sum(left <= right for left, right in pairwise(widths)) / len(widths)
    assert 0.35 < rising < 0.65


def test_a_document_exactly_at_under_and_over_the_limit() -> None:
    source = source_of(DocumentBatches, [5, 6, 7], batch_size=3)
    rows = dict(zip(source.batch(0, 0).sample_ids, source.batch(0, 0).input_ids.tolist(), strict=True))
    assert rows[0] == [*framed(source, 0), PAD]
    assert rows[1] == framed(source, 1)
    assert rows[2] == framed(source, 2)[:8]
    assert EOS not in rows[2]
    assert source.statistics(0).cut_documents == 1
    assert source.statistics(0).cut_tokens == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_fingerprint_changes_with_data_and_every_setting(kind: type) -> None:
    lengths = [3, 4, 5]
    fingerprint = source_of(kind, lengths).fingerprint()
    assert source_of(kind, lengths).fingerprint() == fingerprint
    others = [
        source_of(kind, lengths, **{name: value}).fingerprint()
        for name, value in {
            "batch_size": 5,
            "max_seq_len": 9,
            "seed": 8,
            "bos": 5,
            "eos": 5,
            "pad": 5,
        }.items()
    ]
    others += [source_of(kind, [3, 5, 4]).fingerprint()]
    others += [source_of(other, lengths).fingerprint() for other in KINDS if other is not kind]
    others += [source_of(DocumentBatches, lengths, window_batches=2).fingerprint()]
    assert len({fingerprint, *others}) == len(others) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_fingerprint_does_not_depend_on_what_was_asked_before(kind: type) -> None:
    source = source_of(kind, [3, 4, 5])
    before = source.fingerprint()
    source.batch(5, 0)
    assert source.fingerprint() == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"batch_size": 0}, "batch_size is 0: a batch needs at least 1 row"),
        ({"max_seq_len": 1}, "max_seq_len is 1: a row needs at least 2 tokens"),
        ({"seed": -1}, "seed is -1: choose a whole number from 0 to 4294967295"),
        ({"pad": -1}, "pad is -1: give the id of a token"),
    ],
)
def test_a_setting_out_of_range_is_refused_in_a_sentence(kind: type, changes: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        source_of(kind, [3, 4], **changes)
    with pytest.raises(ValueError, match="There are no documents"):
        source_of(kind, [])
    with pytest.raises(ValueError, match="window_batches is 0"):
        source_of(DocumentBatches, [3], window_batches=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_that_does_not_exist_is_refused_in_a_sentence(kind: type) -> None:
    source = source_of(kind, [6] * 10)  # ten rows of 8 in either kind
    for index in (-1, 3):
        with pytest.raises(ValueError, match=f"no batch {index}: an epoch has 3 batches, 0 to 2"):
            source.batch(0, index)
    with pytest.raises(ValueError, match="no epoch -1"):
        source.batch(-1, 0)
    for epoch, index in ((-1, 0), (0, -1), (0, 4)):
        # At once, not when the first batch is asked for.
        with pytest.raises(ValueError, match=f"Cannot start at epoch {epoch}, batch {index}"):
            iterate(source, epoch, index)


@pytest.mark.parametrize("length", [10, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_costs_next_to_nothing(kind: type, length: int) -> None:
    source = source_of(kind, [length] * 20_000, batch_size=16, max_seq_len=256)
    source.batch(0, 0)
    times_s = []
    for index in [*range(1, 51)] * 2:
        begin_s = time.perf_counter()
        source.batch(0, index)
        times_s.append(time.perf_counter() - begin_s)
    # The best of a hundred: what the code costs, not what else this machine was doing.
    assert min(times_s) < 1e-3
