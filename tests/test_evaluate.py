"""Measuring counts every token once and leaves the model as it was."""

import pytest
import torch

from minimind import world
from minimind.evaluate import WorldScore, mean_loss, score_world, score_world_texts, world_prompts
from minimind.objectives.next_token import NextToken
from minimind.tokenizer import load_tokenizer
from minimind.world import STORY_OPENINGS
from tests import tiny


class Uneven(tiny.Source):
    """A long batch and a short one, so that a mean of means would be another number."""

    def batch(self, epoch, index):
        return tiny.batch([(9, 9, 9, 8), (2,)][index], seed=index)


@pytest.mark.parametrize("training", [True, False])
def test_validation_is_the_mean_over_all_tokens_without_dropout(training):
    model = tiny.lively(tiny.model(dropout=0.5))
    model.train(training)
    source = Uneven(batches=2)
    loss = mean_loss(model, source, NextToken(), torch.device("cpu"))
    assert model.training == training
    assert all(p.grad is None for p in model.parameters())
    assert torch.is_grad_enabled()

    model.eval()
    total, count = 0.0, 0
    for index in range(2):
        batch = source.batch(0, index)
        logits = model(batch.input_ids, attention_mask=batch.attention_mask).logits.detach().double()
        for row, place in (batch.labels[:, 1:] != -100).nonzero().tolist():
            total -= float(logits[row, place].log_softmax(-1)[batch.labels[row, place + 1]])
            count += 1
    assert loss == pytest.approx(total / count, rel=1e-6)


def test_the_texts_of_the_world_are_valid_and_others_are_not():
    good = world.pretrain_documents(20, 1)
    score = score_world_texts(good)
    assert score.texts == score.consistent_texts == 20
    assert score.valid_sentences == score.sentences > 20
    assert score.valid_share == 1.0

    bad = score_world_texts(["Colourless ideas sleep. The sky is blue.", "", "no sentence"])
    assert (bad.texts, bad.valid_sentences, bad.consistent_texts) == (3, 1, 0)
    assert bad.sentences == 4  # a text without a sentence counts as one that is invalid


def test_a_score_reads_as_a_sentence():
    assert str(WorldScore(4, 20, 15, 2)) == "15 of 20 sentences valid (75.0%), 2 of 4 texts consistent"
    assert WorldScore(0, 0, 0, 0).valid_share == 0.0


def test_prompts_take_both_languages_in_turn():
    prompts = world_prompts(100)
    assert len(prompts) == 100
    assert prompts[0] in STORY_OPENINGS["en"]
    assert prompts[1] in STORY_OPENINGS["zh"]
    assert set(prompts) == {*STORY_OPENINGS["en"], *STORY_OPENINGS["zh"]}


def test_an_untrained_model_writes_nothing_valid():
    tokenizer = load_tokenizer("world-800")
    model = tiny.model(vocab_size=len(tokenizer), max_position_embeddings=256)
    score = score_world(model, tokenizer, world_prompts(3))
    assert score.texts == 3
    assert score.consistent_texts == 0
    assert score == score_world(model, tokenizer, world_prompts(3))
