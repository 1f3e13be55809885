"""Shapes, counts and the many ways to compute the same logits."""

import math

import pytest
import torch
from transformers import Trainer, TrainingArguments

from minimind.config import MiniMindConfig
from minimind.model.transformer import MiniMindForCausalLM, RMSNorm
from tests import tiny

CLOSE = {"rtol": 0, "atol": 1e-5}


@pytest.fixture(params=["built", "loaded"])
def model(request, tmp_path) -> MiniMindForCausalLM:
    """The same weights, as built and as they come back from a folder."""
    model = tiny.lively(tiny.model()).eval()
    if request.param == "loaded":
        model.save_pretrained(tmp_path)
        model = MiniMindForCausalLM.from_pretrained(tmp_path)
    return model


# --- how many, and how they begin -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hidden_size", "layers", "count"),
    [
        (768, 8, 63_912_192),
        (64, 2, 532_832),
        (128, 4, 1_705_216),
        (256, 4, 4_983_296),
        (512, 8, 30_025_216),
        (768, 16, 122_908_416),
    ],
)
def test_the_number_of_parameters_is_exact(hidden_size, layers, count):
    with torch.device("meta"):
        model = MiniMindForCausalLM(MiniMindConfig(hidden_size=hidden_size, num_hidden_layers=layers))
    assert sum(p.numel() for p in model.parameters()) == count
    if count == 63_912_192:
        assert count - model.model.embed_tokens.weight.numel() == 58_996_992


def test_an_untied_head_is_a_second_matrix():
    tied, untied = tiny.model(), tiny.model(tie_word_embeddings=False)
    assert tied.lm_head.weight is tied.model.embed_tokens.weight
    more = sum(p.numel() for p in untied.parameters()) - sum(p.numel() for p in tied.parameters())
    assert more == tiny.VOCAB * 32


@pytest.mark.parametrize("std", [0.02, 0.1])
def test_matrices_begin_at_the_stated_spread_and_norms_at_one(std):
    model = tiny.model(hidden_size=64, initializer_range=std, tie_word_embeddings=False)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            assert parameter.std().item() == pytest.approx(std, rel=0.08), name
            assert abs(parameter.mean().item()) < 0.1 * std, name
        else:
            assert torch.equal(parameter, torch.ones_like(parameter)), name


def test_before_training_every_token_is_about_equally_likely():
    torch.manual_seed(0)
    model = MiniMindForCausalLM(MiniMindConfig(hidden_size=64, num_hidden_layers=2))
    tokens = tiny.ids(4, 32, vocab=6400)
    assert model(tokens, labels=tokens).loss.item() == pytest.approx(math.log(6400), abs=0.1)


def test_a_gradient_reaches_every_parameter():
    model = tiny.model(tie_word_embeddings=False)
    tokens = tiny.ids(2, 12)
    model(tokens, labels=tokens).loss.backward()
    unreached = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert not unreached


# --- causality --------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
def test_no_token_changes_what_was_said_before_it(backend):
    model = tiny.lively(tiny.model(attn_implementation=backend)).eval()
    tokens = tiny.ids(2, 12)
    logits = model(tokens).logits
    for place in (1, 5, 11):
        changed = tokens.clone()
        changed[:, place] = (changed[:, place] + 1) % tiny.VOCAB
        after = model(changed).logits
        assert torch.equal(after[:, :place], logits[:, :place])
        assert not torch.allclose(after[:, place:], logits[:, place:], **CLOSE)


def test_the_order_of_the_tokens_before_matters():
    model = tiny.lively(tiny.model(num_hidden_layers=1)).eval()
    tokens = tiny.ids(1, 6)
    swapped = tokens[:, [1, 0, 2, 3, 4, 5]]
    assert not torch.allclose(model(tokens).logits[:, -1], model(swapped).logits[:, -1], **CLOSE)


def test_attention_knows_distances_and_not_places():
    model = tiny.lively(tiny.model()).eval()
    tokens, places = tiny.ids(1, 8), torch.arange(8)[None]
    shifted = model(tokens, position_ids=places + 20).logits
    torch.testing.assert_close(shifted, model(tokens, position_ids=places).logits, rtol=0, atol=5e-5)


# --- the same logits, computed otherwise ------------------------------------------------------------


@pytest.mark.parametrize("chunks", [[1] * 12, [5, 7], [3, 1, 4, 1, 3]])
def test_with_a_cache_the_logits_are_those_without_one(model, chunks):
    tokens = tiny.ids(2, 12)
    expected = model(tokens).logits
    cache, found = None, []
    for part in tokens.split(chunks, dim=1):
        output = model(part, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        found.append(output.logits)
    assert cache.get_seq_length() == 12
    torch.testing.assert_close(torch.cat(found, dim=1), expected, **CLOSE)


def test_the_cache_goes_by_both_of_its_names():
    model = tiny.lively(tiny.model()).eval()
    tokens = tiny.ids(1, 6)
    for name in ("cache", "past_key_values"):
        cache = model(tokens[:, :5], use_cache=True).past_key_values
        torch.testing.assert_close(model(tokens[:, 5:], **{name: cache}).logits[:, 0], model(tokens).logits[:, 5])


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_batch_gives_each_row_what_it_gets_alone(model, side):
    lengths = (5, 9, 7)
    rows = [tiny.ids(1, length, seed=length) for length in lengths]
    tokens, mask = torch.zeros(3, 9, dtype=torch.long), torch.zeros(3, 9, dtype=torch.long)
    places = [slice(9 - n, 9) if side == "left" else slice(0, n) for n in lengths]
    for index, row in enumerate(rows):
        tokens[index, places[index]], mask[index, places[index]] = row[0], 1
    output = model(tokens, attention_mask=mask, use_cache=True)
    assert output.logits.isfinite().all()
    for index, row in enumerate(rows):
        torch.testing.assert_close(output.logits[index, places[index]], model(row).logits[0], **CLOSE)
    if side == "right":
        return
    # One more token for every row, from the cache.
    following = tiny.ids(3, 1, seed=3)
    longer = torch.cat([mask, torch.ones(3, 1, dtype=torch.long)], dim=1)
    found = model(following, attention_mask=longer, past_key_values=output.past_key_values).logits
    for index, row in enumerate(rows):
        alone = model(torch.cat([row, following[index : index + 1]], dim=1)).logits
        torch.testing.assert_close(found[index], alone[0, -1:], **CLOSE)


@pytest.mark.parametrize("padding", [0, 3])
def test_a_packed_document_gets_what_it_gets_alone(model, padding):
    batch = tiny.packed([(4, 7, 1), (6, 6)], padding=padding)
    found = model(
        batch.input_ids,
        attention_mask=batch.attention_mask,
        document_ids=batch.document_ids,
        position_ids=batch.position_ids,
    ).logits
    assert found.isfinite().all()
    for document in batch.sample_ids:
        here = batch.document_ids == document
        alone = model(batch.input_ids[here][None]).logits[0]
        torch.testing.assert_close(found[here], alone, **CLOSE)


def inputs_of(kind: str) -> dict:
    if kind == "packed":
        batch = tiny.packed([(4, 5), (6, 3)], padding=2)
    else:
        batch = tiny.batch((9, 6, 9, 4) if kind == "padded" else (9, 9))
    names = ("input_ids", "attention_mask", "document_ids", "position_ids")
    return {name: getattr(batch, name) for name in names}


@pytest.mark.parametrize("kind", ["plain", "padded", "packed"])
def test_both_attention_backends_give_the_same_logits_and_gradients(kind):
    results = []
    for backend in ("eager", "sdpa"):
        model = tiny.lively(tiny.model(attn_implementation=backend))
        assert model.config._attn_implementation == backend
        logits = model(**inputs_of(kind)).logits
        logits.square().mean().backward()
        results.append([logits.detach(), *(p.grad for p in model.parameters())])
    for eager, sdpa in zip(*results, strict=True):
        torch.testing.assert_close(eager, sdpa, rtol=1e-4, atol=1e-5)


def test_both_attention_backends_continue_from_a_cache_alike():
    tokens, found = tiny.ids(2, 9), []
    for backend in ("eager", "sdpa"):
        model = tiny.lively(tiny.model(attn_implementation=backend)).eval()
        cache = model(tokens[:, :4], use_cache=True).past_key_values
        found.append(model(tokens[:, 4:], past_key_values=cache).logits)
    torch.testing.assert_close(found[0], found[1], **CLOSE)


def test_a_mask_of_pairs_does_what_the_mask_of_tokens_does():
    model = tiny.lively(tiny.model()).eval()
    batch = tiny.batch()
    pairs = torch.ones(9, 9, dtype=torch.bool).tril() & batch.attention_mask[:, None, None].bool()
    pairs |= torch.eye(9, dtype=torch.bool)
    expected = model(batch.input_ids, attention_mask=batch.attention_mask).logits
    real = batch.attention_mask.bool()
    for mask in (pairs, torch.zeros(pairs.shape).masked_fill(~pairs, torch.finfo(torch.float32).min)):
        found = model(batch.input_ids, attention_mask=mask).logits
        torch.testing.assert_close(found[real], expected[real], **CLOSE)


def test_embeddings_in_place_of_ids_and_fewer_logits():
    model = tiny.lively(tiny.model()).eval()
    tokens = tiny.ids(2, 7)
    logits = model(tokens).logits
    torch.testing.assert_close(model(inputs_embeds=model.model.embed_tokens(tokens)).logits, logits)
    torch.testing.assert_close(model(tokens, logits_to_keep=2).logits, logits[:, -2:])
    torch.testing.assert_close(model(tokens, logits_to_keep=torch.tensor([1, 4])).logits, logits[:, [1, 4]])


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
def test_dropout_acts_in_training_and_not_in_use(backend):
    model = tiny.model(dropout=0.5, attn_implementation=backend)
    tokens = tiny.ids(1, 8)
    assert not torch.equal(model(tokens).logits, model(tokens).logits)
    model.eval()
    assert torch.equal(model(tokens).logits, model(tokens).logits)


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
def test_dropout_reaches_the_attention_weights(backend):
    model = tiny.model(dropout=0.5, attn_implementation=backend)
    for layer in model.model.layers:
        layer.dropout.p = 0.0
    tokens = tiny.ids(1, 8)
    assert not torch.equal(model(tokens).logits, model(tokens).logits)


# --- what is refused --------------------------------------------------------------------------------


def test_inputs_that_contradict_each_other_are_refused():
    model = tiny.model().eval()
    tokens = tiny.ids(2, 5)
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds"):
        model()
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds"):
        model(tokens, inputs_embeds=model.model.embed_tokens(tokens))
    with pytest.raises(ValueError, match=r"\(2, 4\).*\(2, 5\)"):
        model(tokens, attention_mask=torch.ones(2, 4))
    cache = model(tokens, use_cache=True).past_key_values
    with pytest.raises(ValueError, match=r"\(2, 1\).*\(2, 6\)"):
        model(tokens[:, :1], attention_mask=torch.ones(2, 1), past_key_values=cache)
    with pytest.raises(ValueError, match="document_ids"):
        model(tokens[:, :1], document_ids=torch.zeros(2, 1), past_key_values=cache)


# --- other people's tools ---------------------------------------------------------------------------


def test_the_trainer_of_transformers_can_train_it(tmp_path):
    model = tiny.model()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    rows = [{"input_ids": row, "labels": row} for row in tiny.ids(8, 10)]
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=2,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=rows)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 2
    assert losses[0] == pytest.approx(math.log(tiny.VOCAB), abs=0.3)
    assert all(not torch.equal(p, before[name]) for name, p in model.named_parameters())


# --- norms ------------------------------------------------------------------------------------------


def test_a_norm_measures_in_fp32_whatever_it_is_given():
    row = torch.full((1, 8), 300.0, dtype=torch.float16)  # the squares are beyond what fp16 can hold
    assert torch.equal(RMSNorm(8, eps=1e-6).to(torch.float16)(row), torch.ones_like(row))
