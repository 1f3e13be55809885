import pytest
import torch

from minimind.data.batch import Batch


def document_batch(rows: int = 4, masked: bool = True) -> Batch:
    input_ids = torch.arange(rows * 3).reshape(rows, 3)
    mask = torch.ones_like(input_ids)
    mask[0, 2] = 0
    labels = input_ids.clone()
    labels[0, 2] = -100
    return Batch(input_ids, labels, mask if masked else None, None, None, tuple(range(10, 10 + rows)))


def packed_batch() -> Batch:
    """Four rows; document 7 crosses from row 1 into row 2, and the last row is padded."""
    document_ids = torch.tensor([[5, 5, 2], [2, 7, 7], [7, 7, 1], [1, -1, -1]])
    position_ids = torch.tensor([[0, 1, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1]])
    input_ids = torch.arange(12).reshape(4, 3)
    labels = torch.where((position_ids == 0) | (document_ids < 0), -100, input_ids)
    return Batch(input_ids, labels, (document_ids >= 0).long(), document_ids, position_ids, (5, 2, 7, 1))


def test_split_gives_every_row_once_in_order() -> None:
    batch = document_batch()
    parts = batch.split(2)
    assert torch.equal(torch.cat([part.input_ids for part in parts]), batch.input_ids)
    assert torch.equal(torch.cat([part.labels for part in parts]), batch.labels)
    assert [part.sample_ids for part in parts] == [(10, 11), (12, 13)]


def test_split_of_packed_rows_names_the_documents_of_each_part() -> None:
    first, second = packed_batch().split(2)
    assert first.sample_ids == (5, 2, 7)
    assert second.sample_ids == (7, 1)
    assert first.position_ids is not None
    assert torch.equal(first.position_ids, torch.tensor([[0, 1, 0], [0, 0, 1]]))


@pytest.mark.parametrize("n", [0, -1, 3, 5])
def test_split_refuses_unequal_groups_in_a_sentence(n: int) -> None:
    with pytest.raises(ValueError, match=rf"4 rows cannot be split into {n} equal groups.*pad_rows"):
        document_batch().split(n)


def test_to_moves_every_tensor_and_keeps_the_samples() -> None:
    moved = packed_batch().to("meta")
    for tensor in (
        moved.input_ids,
        moved.labels,
        moved.attention_mask,
        moved.document_ids,
        moved.position_ids,
    ):
        assert tensor is not None
        assert tensor.device.type == "meta"
    assert moved.sample_ids == (5, 2, 7, 1)
    assert document_batch(masked=False).to("meta").attention_mask is None


@pytest.mark.parametrize("masked", [True, False])
def test_pad_rows_adds_rows_that_train_nothing_and_belong_to_no_sample(masked: bool) -> None:
    batch = document_batch(rows=3, masked=masked)
    parts = batch.pad_rows(2).split(2)
    assert [part.input_ids.shape for part in parts] == [(2, 3), (2, 3)]
    assert [part.sample_ids for part in parts] == [(10, 11), (12,)]
    assert torch.equal(torch.cat([part.labels for part in parts])[:3], batch.labels)
    assert (parts[1].labels[1] == -100).all()
    # One visible token: attention over an empty row is not a number.
    assert parts[1].attention_mask is not None
    assert parts[1].attention_mask[1].tolist() == [1, 0, 0]


def test_pad_rows_of_packed_rows_adds_padding_only() -> None:
    batch = packed_batch()
    padded = batch.pad_rows(3)
    assert padded.document_ids is not None
    assert padded.position_ids is not None
    assert padded.input_ids.shape == (6, 3)
    assert (padded.labels[4:] == -100).all()
    assert (padded.document_ids[4:] == -1).all()
    assert padded.position_ids[4:].tolist() == [[0, 1, 2], [0, 1, 2]]
    assert [part.sample_ids for part in padded.split(3)] == [(5, 2, 7), (7, 1), ()]


def test_pad_rows_leaves_a_batch_that_divides_alone() -> None:
    batch = document_batch()
    assert batch.pad_rows(2) is batch
    with pytest.raises(ValueError, match="at least 1"):
        batch.pad_rows(0)


def test_tensors_of_different_shapes_are_refused_by_name() -> None:
    ids = torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(ValueError, match=r"labels has the shape \(2, 4\) and input_ids \(2, 3\)"):
        Batch(ids, torch.zeros(2, 4, dtype=torch.long), None, None, None, (0, 1))
    with pytest.raises(ValueError, match=r"\(rows, positions\), not \(3,\)"):
        Batch(ids[0], ids[0], None, None, None, (0,))
