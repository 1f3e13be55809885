"""The shipped weights know the small world."""

import torch
from transformers import AutoModelForCausalLM

from labs.shipped import WORLD_CHAT, world_chat
from minimind.evaluate import exact_match, world_questions


def test_the_shipped_weights_answer_the_questions_of_the_small_world():
    model, tokenizer = world_chat()
    assert sum(p.numel() for p in model.parameters()) == 162_240
    assert all(p.dtype == torch.float32 for p in model.parameters())
    score = exact_match(model, tokenizer, world_questions(16, seed=5))
    assert score.share >= 0.95, str(score)


def test_they_are_a_plain_qwen3_folder():
    model, _ = world_chat()
    other = AutoModelForCausalLM.from_pretrained(WORLD_CHAT, dtype=torch.float32, local_files_only=True)
    ids = torch.randint(9, 800, (2, 20))
    with torch.no_grad():
        assert (model(ids).logits - other(ids).logits).abs().max() < 1e-5
