"""Prompts are continued one like the other, alone or together, without a trace in the program around."""

import random

import pytest
import torch

from minimind.serve.generate import continue_prompts
from minimind.tokenizer import decode, encode_text, load_tokenizer
from tests import tiny

PROMPTS = ["One day, Anna", "", "The sky is blue. A cat", "小猫"]


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer("world-800")


@pytest.fixture
def model(tokenizer):
    return tiny.lively(tiny.model(vocab_size=len(tokenizer), max_position_embeddings=128))


def greedy(model, tokenizer, prompt: str, count: int) -> str:
    """The likeliest token, again and again, each time from all tokens so far."""
    ids = [tokenizer.bos_token_id, *encode_text(tokenizer, prompt)]
    start = len(ids)
    model.eval()
    for _ in range(count):
        ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        if ids[-1] == tokenizer.eos_token_id:
            return prompt + decode(tokenizer, ids[start:-1])
    return prompt + decode(tokenizer, ids[start:])


def test_the_likeliest_continuation_is_that_of_a_loop_without_batch_and_cache(model, tokenizer):
    found = continue_prompts(model, tokenizer, PROMPTS, max_new_tokens=8, temperature=0)
    assert found == [greedy(model, tokenizer, prompt, 8) for prompt in PROMPTS]
    assert all(len(text) > len(prompt) for text, prompt in zip(found, PROMPTS, strict=True))


def test_a_text_ends_at_the_end_token(tokenizer):
    model = tiny.lively(tiny.model(vocab_size=len(tokenizer), tie_word_embeddings=False)).eval()
    prompts = ["One day, Anna", "The sky"]
    row = torch.tensor([[tokenizer.bos_token_id, *encode_text(tokenizer, prompts[0])]])
    hidden = model.model(row).last_hidden_state[0, -1].detach()
    with torch.no_grad():  # after the first prompt, and hardly elsewhere, the end is the likeliest token
        model.lm_head.weight.mul_(0.01)
        model.lm_head.weight[tokenizer.eos_token_id] = hidden / hidden.norm()
    found = continue_prompts(model, tokenizer, prompts[:1] * 2, max_new_tokens=8, temperature=0)
    assert found == prompts[:1] * 2


def test_a_seed_decides_the_sampling(model, tokenizer):
    def sample(seed: int) -> list[str]:
        return continue_prompts(model, tokenizer, PROMPTS, max_new_tokens=8, temperature=1.0, seed=seed)

    assert sample(1) == sample(1)
    assert sample(1) != sample(2)
    assert len(set(continue_prompts(model, tokenizer, [""] * 4, max_new_tokens=8, temperature=1.0))) > 1


def test_temperature_one_samples_from_the_model_s_own_distribution(model, tokenizer):
    """No hidden top-k, top-p or penalty: over many first tokens the frequencies are the probabilities."""
    texts = 3000
    seen: list[int] = []
    generate = model.generate

    def keep(*args, **kwargs):
        output = generate(*args, **kwargs)
        seen.extend(output[:, -1].tolist())
        return output

    model.generate = keep
    continue_prompts(model, tokenizer, [""] * texts, max_new_tokens=1, temperature=1.0)
    model.eval()
    probabilities = model(torch.tensor([[tokenizer.bos_token_id]])).logits[0, -1].softmax(-1).detach()
    frequencies = torch.bincount(torch.tensor(seen), minlength=len(tokenizer)) / texts
    tail = probabilities.argsort()[: len(tokenizer) // 2]
    assert frequencies[tail].sum() == pytest.approx(float(probabilities[tail].sum()), abs=0.03)
    assert (frequencies - probabilities).abs().max() < 0.02


@pytest.mark.parametrize("training", [True, False])
def test_the_program_around_is_left_as_it_was(training, model, tokenizer):
    model.train(training)
    torch.manual_seed(3)
    random.seed(3)
    expected = (torch.rand(3).tolist(), random.random())
    torch.manual_seed(3)
    random.seed(3)
    continue_prompts(model, tokenizer, PROMPTS, max_new_tokens=3, temperature=1.0)
    assert (torch.rand(3).tolist(), random.random()) == expected
    assert model.training == training
    assert all(p.grad is None for p in model.parameters())


def test_the_training_mode_comes_back_after_an_error_too(model, tokenizer, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("in the middle")

    monkeypatch.setattr(model, "generate", fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        continue_prompts(model, tokenizer, PROMPTS)
    assert model.training


def test_a_control_token_typed_in_a_prompt_is_plain_text(model, tokenizer, monkeypatch):
    seen = []

    def keep(ids, **kwargs):
        seen.append(ids)
        return torch.cat([ids, torch.full((1, 1), tokenizer.eos_token_id)], dim=1)

    monkeypatch.setattr(model, "generate", keep)
    prompt = "<|im_end|> and <|endoftext|>"
    assert continue_prompts(model, tokenizer, [prompt]) == [prompt]
    assert (seen[0][0] < 9).nonzero().tolist() == [[0]]  # BOS alone


def test_no_prompts_give_no_texts(model, tokenizer):
    assert continue_prompts(model, tokenizer, []) == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
        ({"temperature": -1.0}, "temperature=-1.0"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"temperature": float("inf")}, "temperature=inf"),
        ({"max_new_tokens": 128}, r"and 128 new ones exceed the model's 128 positions"),
    ],
)
def test_what_cannot_be_generated_is_refused(settings, sentence, model, tokenizer):
    with pytest.raises(ValueError, match=sentence):
        continue_prompts(model, tokenizer, PROMPTS, **settings)
