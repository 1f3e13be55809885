"""Sampling by hand: the filters, the choice and the loop give what transformers gives."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import DynamicCache, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from minimind.serve.sampling import (
    decoding_steps,
    divide_by_temperature,
    generate_by_hand,
    keep_top_k,
    keep_top_p,
    next_token_probabilities,
    sample,
)
from tests import tiny

SETTINGS = [(1.0, 0, 1.0), (0.7, 0, 1.0), (1.5, 5, 1.0), (1.0, 0, 0.8), (0.8, 20, 0.9), (2.0, 3, 0.5), (0.01, 0, 1e-9)]
PAD = 0


@pytest.fixture(scope="module")
def model():
    return tiny.lively(tiny.model()).eval()


@pytest.fixture(scope="module")
def padded() -> tuple[torch.Tensor, torch.Tensor]:
    """Three prompts of 9, 4 and 1 tokens, padded on the left."""
    mask = (torch.arange(9) >= 9 - torch.tensor([9, 4, 1])[:, None]).long()
    return tiny.ids(3, 9) * mask, mask


def from_library(model, input_ids, mask, new: int, sampling=None, seed: int = 0, stop_ids=()) -> torch.Tensor:
    options = {"do_sample": False}
    if sampling is not None:
        temperature, top_k, top_p = sampling
        options = {"do_sample": True, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    torch.manual_seed(seed)
    return model.generate(
        input_ids,
        attention_mask=mask,
        max_new_tokens=new,
        pad_token_id=PAD,
        eos_token_id=list(stop_ids) or None,
        **options,
    )


# Few different values, so that ties are common; and the -inf that another filter left.
rows = st.lists(
    st.one_of(
        st.floats(-30, 30, width=32), st.sampled_from([0.0, 1.0, 1.5, -2.0]), st.sampled_from([-float("inf"), 3.0])
    ),
    min_size=1,
    max_size=40,
).filter(lambda row: max(row) > -float("inf"))
logits = rows.map(lambda row: torch.tensor([row, row[::-1]]))


@given(logits, st.one_of(st.floats(0.01, 100), st.sampled_from([0.01, 1.0, 100.0])))
def test_temperature_is_the_library_s(logits_BV, temperature):
    assert torch.equal(
        divide_by_temperature(logits_BV, temperature), TemperatureLogitsWarper(temperature)(None, logits_BV)
    )


@given(logits, st.one_of(st.integers(1, 60), st.just(10**9)))
def test_top_k_is_the_library_s_ties_and_more_than_there_are_included(logits_BV, top_k):
    assert torch.equal(keep_top_k(logits_BV, top_k), TopKLogitsWarper(top_k)(None, logits_BV))


@settings(max_examples=300)
@given(logits, st.one_of(st.floats(0, 1, exclude_min=True), st.sampled_from([1e-9, 0.25, 0.5, 0.999999, 1.0])))
def test_top_p_is_the_library_s_ties_and_edges_included(logits_BV, top_p):
    ours = keep_top_p(logits_BV, top_p)
    if top_p < 1:  # at 1 the library leaves its filter out
        assert torch.equal(ours, TopPLogitsWarper(top_p)(None, logits_BV))
    else:
        assert torch.equal(ours, logits_BV)
    assert bool((ours > -torch.inf).any(dim=-1).all()), "one token always stays"


@given(logits, st.floats(0.01, 0.99))
def test_top_p_keeps_the_fewest_that_reach_it(logits_BV, top_p):
    for before, after in zip(logits_BV.double(), keep_top_p(logits_BV.double(), top_p), strict=True):
        probabilities = before.softmax(-1)
        kept = probabilities[after > -torch.inf]
        assert kept.sum() >= top_p - 1e-9
        assert kept.sum() - kept.min() <= top_p + 1e-9


def test_the_filters_leave_what_they_are_given_alone():
    logits_BV = torch.randn(2, 9)
    before = logits_BV.clone()
    sample(logits_BV, temperature=0.5, top_k=3, top_p=0.5)
    assert torch.equal(logits_BV, before)


def test_top_k_counts_before_top_p_and_temperature_before_both():
    logits_BV = torch.tensor([[0.10, 0.40, 0.04, 0.25, 0.06, 0.15]]).log()
    # In the last two another order leaves other tokens.
    for temperature, top_k, top_p in [*SETTINGS, (1.0, 3, 0.75), (2.0, 0, 0.75)]:
        scores = TemperatureLogitsWarper(temperature)(None, logits_BV)
        scores = TopKLogitsWarper(top_k)(None, scores) if top_k else scores
        scores = TopPLogitsWarper(top_p)(None, scores) if top_p < 1 else scores
        assert torch.equal(next_token_probabilities(logits_BV, temperature, top_k, top_p), scores.softmax(-1))


def test_temperature_0_and_top_k_1_choose_alike():
    logits_BV = torch.randn(50, 30, generator=torch.Generator().manual_seed(0))
    assert torch.equal(sample(logits_BV, temperature=0), logits_BV.argmax(-1))
    assert torch.equal(sample(logits_BV, top_k=1), logits_BV.argmax(-1))
    assert torch.equal(next_token_probabilities(logits_BV, 0, 0, 1.0).argmax(-1), logits_BV.argmax(-1))


def test_the_likeliest_token_takes_no_random_number():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    sample(torch.randn(4, 9, generator=torch.Generator().manual_seed(1)), temperature=0)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("stop_ids", [(), (11, 30, 60)])
def test_greedy_ids_are_those_of_generate(model, padded, stop_ids):
    ours = generate_by_hand(model, *padded, max_new_tokens=20, stop_ids=stop_ids, pad_id=PAD)
    assert torch.equal(ours, from_library(model, *padded, 20, stop_ids=stop_ids))


@pytest.mark.parametrize("sampling", SETTINGS)
@pytest.mark.parametrize("seed", [0, 1])
def test_sampled_ids_are_those_of_generate_at_the_same_seed(model, padded, sampling, seed):
    stop_ids = tuple(range(9, 15))  # often met, so that rows end one after another
    temperature, top_k, top_p = sampling
    theirs = from_library(model, *padded, 24, sampling, seed, stop_ids)
    shared = dict(max_new_tokens=24, temperature=temperature, top_k=top_k, top_p=top_p, stop_ids=stop_ids, pad_id=PAD)
    torch.manual_seed(seed)
    assert torch.equal(generate_by_hand(model, *padded, **shared), theirs)
    own = torch.Generator().manual_seed(seed)
    torch.manual_seed(99)  # a generator of one's own needs no global seed
    assert torch.equal(generate_by_hand(model, *padded, generator=own, **shared), theirs)


def test_a_padded_row_goes_on_as_it_does_alone(model, padded):
    input_ids, mask = padded
    together = generate_by_hand(model, input_ids, mask, max_new_tokens=12)
    for row, length in enumerate(mask.sum(1).tolist()):
        alone = generate_by_hand(model, input_ids[row : row + 1, -length:], max_new_tokens=12)
        assert torch.equal(together[row, -12:], alone[0, -12:])


def test_each_step_reads_one_token_and_its_logits_are_those_without_a_cache(model):
    prompt = tiny.ids(1, 7)
    ids, lengths = prompt, []
    for number, step in enumerate(decoding_steps(model, prompt, max_new_tokens=6, logits_to_keep=0)):
        assert step.read_BT.shape == ((1, 7) if number == 0 else (1, 1))
        assert step.logits_BTV.shape == (*step.read_BT.shape, tiny.VOCAB)
        whole = model(ids).logits[:, -1]
        torch.testing.assert_close(step.logits_BTV[:, -1], whole)
        assert torch.equal(step.next_B, whole.argmax(-1)), "the last position chooses, whatever else was kept"
        assert isinstance(step.cache, DynamicCache)
        lengths.append(step.cache.get_seq_length())
        ids = torch.cat([ids, step.next_B[:, None]], dim=1)
    assert lengths == [7, 8, 9, 10, 11, 12]


def test_it_ends_when_every_row_has_ended_and_fills_the_others(model):
    prompts = tiny.ids(3, 5)
    asked = []

    def choose(logits_BV, *_):
        asked.append(len(logits_BV))
        return [torch.tensor([20, 11, 20]), torch.tensor([20, 20, 12]), torch.tensor([11, 20, 20])][len(asked) - 1]

    found = generate_by_hand(model, prompts, max_new_tokens=9, stop_ids=[11, 12], pad_id=PAD, choose=choose)
    assert found[:, 5:].tolist() == [[20, 20, 11], [11, PAD, PAD], [20, 12, PAD]]


def test_the_model_s_mode_and_gradients_stay_as_they_were(model):
    model.train()
    steps = decoding_steps(model, tiny.ids(1, 5), max_new_tokens=3)
    step = next(steps)
    assert model.training, "between two steps too"
    assert torch.is_grad_enabled() and not step.logits_BTV.requires_grad
    list(steps)
    assert model.training and torch.is_grad_enabled()
    model.eval()


def test_dropout_is_off(padded):
    model = tiny.lively(tiny.model(dropout=0.5)).train()
    ours = generate_by_hand(model, *padded, max_new_tokens=8)
    assert torch.equal(ours, from_library(model.eval(), *padded, 8))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"temperature": -1.0}, "temperature=-1.0 must be 0"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"temperature": 1e-6}, "temperature=1e-06 must be 0 .* or from 0.01 to 100"),
        ({"temperature": float("inf")}, "temperature=inf"),
        ({"top_k": -1}, "top_k=-1 must be a whole number"),
        ({"top_k": 2.0}, "top_k=2.0"),
        ({"top_p": 0.0}, "top_p=0.0 must be above 0"),
        ({"top_p": 1.5}, "top_p=1.5"),
        ({"top_p": float("nan")}, "top_p=nan"),
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
        ({"max_new_tokens": 61}, "a prompt of 4 tokens and 61 new ones exceed the model's 64 positions"),
        ({"attention_mask": torch.ones(1, 4)}, r"attention_mask has shape \(1, 4\), and input_ids \(2, 4\)"),
        ({"attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])}, "row 1 ends in padding"),
    ],
)
def test_what_cannot_be_is_refused_at_once(settings, sentence, model):
    with pytest.raises(ValueError, match=sentence):
        decoding_steps(model, tiny.ids(2, 4), **{"max_new_tokens": 9, **settings})


@pytest.mark.parametrize("shape", [(4,), (0, 4), (2, 0)])
def test_a_prompt_that_is_none_is_refused(shape, model):
    with pytest.raises(ValueError, match="input_ids has shape"):
        generate_by_hand(model, torch.zeros(shape, dtype=torch.long))


@pytest.mark.parametrize(
    ("filter_it", "value", "sentence"),
    [
        (divide_by_temperature, 0.0, "temperature=0.0 must be from 0.01 to 100"),
        (keep_top_k, -3, "top_k=-3"),
        (keep_top_p, 0.0, "top_p=0.0"),
    ],
)
def test_a_filter_alone_refuses_too(filter_it, value, sentence):
    with pytest.raises(ValueError, match=sentence):
        filter_it(torch.randn(1, 5), value)
