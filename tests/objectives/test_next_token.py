"""The language loss against a loop that anybody can check."""

import dataclasses

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.modeling_outputs import CausalLMOutputWithPast

from minimind.objectives.next_token import NextToken, next_token_loss_sum
from tests import tiny

OBJECTIVE = NextToken()


def by_hand(logits: torch.Tensor, labels: torch.Tensor) -> tuple[float, int]:
    """Loss sum and weight, one position at a time, in double precision."""
    logits = logits.detach()
    total, count = 0.0, 0
    for row in range(labels.shape[0]):
        for place in range(labels.shape[1] - 1):
            target = int(labels[row, place + 1])
            if target != -100:
                scores = logits[row, place].double()
                total -= float(scores[target] - scores.logsumexp(0))
                count += 1
    return total, count


def scattered_labels(batch) -> torch.Tensor:
    """Some labels in the middle of rows, and a whole row, not trained."""
    labels = batch.labels.clone()
    labels[0, 2:5], labels[1] = -100, -100
    return labels


def test_loss_and_weight_equal_a_loop_over_positions():
    model = tiny.lively(tiny.model()).eval()
    batch = tiny.batch()
    batch = dataclasses.replace(batch, labels=scattered_labels(batch))
    logits = model(batch.input_ids, attention_mask=batch.attention_mask).logits
    total, count = by_hand(logits, batch.labels)
    assert OBJECTIVE.loss(model, batch).item() == pytest.approx(total, rel=1e-6)
    assert OBJECTIVE.weight(batch).item() == count == 5 + 8 + 3


def test_what_is_not_trained_changes_neither_loss_nor_gradient():
    logits = torch.randn(4, 9, tiny.VOCAB, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = scattered_labels(tiny.batch())
    next_token_loss_sum(logits, labels).backward()
    for row in range(4):
        for place in range(9):
            answered = place < 8 and labels[row, place + 1] != -100
            assert bool(logits.grad[row, place].any()) == bool(answered)


def test_the_first_label_never_counts():
    model = tiny.model().eval()
    batch = tiny.batch()
    labels = batch.labels.clone()
    labels[:, 0] = torch.tensor([-100, 5, 60, -100])
    other = dataclasses.replace(batch, labels=labels)
    assert torch.equal(OBJECTIVE.loss(model, batch), OBJECTIVE.loss(model, other))
    assert torch.equal(OBJECTIVE.weight(batch), OBJECTIVE.weight(other))


def test_a_batch_without_anything_to_learn_weighs_nothing_and_pulls_nowhere():
    model = tiny.model()
    batch = tiny.batch()
    batch = dataclasses.replace(batch, labels=torch.full_like(batch.labels, -100))
    loss = OBJECTIVE.loss(model, batch)
    loss.backward()
    assert (loss.item(), OBJECTIVE.weight(batch).item()) == (0.0, 0)
    assert all(not p.grad.any() for p in model.parameters())


def test_the_loss_is_computed_in_fp32():
    logits = 4 * torch.randn(2, 5, tiny.VOCAB, generator=torch.Generator().manual_seed(0))
    half = logits.to(torch.bfloat16)
    labels = tiny.ids(2, 5)
    loss = next_token_loss_sum(half, labels)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, next_token_loss_sum(half.float(), labels))


@pytest.mark.parametrize("padding", [0, 3])
def test_a_packed_row_is_the_sum_of_its_documents(padding):
    model = tiny.lively(tiny.model()).eval()
    batch = tiny.packed([(4, 7, 1), (6, 6)], padding=padding)
    alone = 0.0
    for document in batch.sample_ids:
        tokens = batch.input_ids[batch.document_ids == document][None]
        alone += by_hand(model(tokens).logits, tokens)[0]
    assert OBJECTIVE.loss(model, batch).item() == pytest.approx(alone, rel=1e-5)
    assert OBJECTIVE.weight(batch).item() == 3 + 6 + 0 + 5 + 5


@pytest.mark.parametrize("batch", [tiny.batch(), tiny.batch((6, 6)), tiny.packed([(4, 5)], padding=2)])
def test_the_model_is_given_what_the_batch_holds_and_nothing_else(batch):
    given = {}

    class Spy(torch.nn.Module):
        def forward(self, **inputs):
            given.update(inputs)
            return CausalLMOutputWithPast(logits=torch.zeros(*batch.input_ids.shape, tiny.VOCAB))

    OBJECTIVE.loss(Spy(), batch)
    names = {"input_ids", "attention_mask"} | (
        {"document_ids", "position_ids"} if batch.document_ids is not None else set()
    )
    assert given.keys() == names
    assert all(given[name] is getattr(batch, name) for name in names)


def test_it_trains_a_model_of_another_library():
    config = Qwen3Config(
        vocab_size=tiny.VOCAB,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    theirs = Qwen3ForCausalLM(config).eval()
    batch = tiny.batch()
    mean = theirs(batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels).loss
    expected = mean.item() * OBJECTIVE.weight(batch).item()
    assert OBJECTIVE.loss(theirs, batch).item() == pytest.approx(expected, rel=1e-6)
