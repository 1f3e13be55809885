"""Fine-tuning runs, tiny: the pretrained weights are the start, and only answers are learned."""

import json
import random
from pathlib import Path

import pytest
import torch

from minimind.config import RunConfig, preset
from minimind.data.sources import QUESTION_SEED
from minimind.evaluate import HELD_OUT, ExactMatch, exact_match, world_questions
from minimind.model.hub import load_weights
from minimind.tokenizer import load_tokenizer
from minimind.train.pretrain import pretrain
from minimind.train.sft import SftResult, sft
from minimind.world import question
from tests import tiny


def go(run: RunConfig, **changes) -> tuple[SftResult, list[str]]:
    said: list[str] = []
    tiny.shuffle_randomness()
    return sft(run.replace(**changes), say=said.append, show_bar=False), said


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunConfig:
    """A fine-tuning run whose pretrained weights are there."""
    base = tiny.run(tmp_path_factory.mktemp("sft")).replace(save_weight="base", samples=0)
    pretrain(base, say=lambda line: None, show_bar=False)
    return base.replace(
        from_weight="base",
        save_weight="tuned",
        world_documents=200,
        validation_documents=10,
        max_seq_len=160,
        samples=2,
    )


@pytest.fixture(scope="module")
def whole(run) -> tuple[SftResult, list[str]]:
    return go(run)


def test_a_run_starts_from_the_pretrained_weights_and_leaves_its_own(run, whole):
    result, said = whole
    assert result.weights == Path(run.save_dir) / "tuned"
    before, after = load_weights(Path(run.save_dir) / "base"), load_weights(result.weights)
    distance = max(
        (p - q).detach().abs().max().item() for p, q in zip(before.parameters(), after.parameters(), strict=True)
    )
    assert 0 < distance < 0.5
    assert result.before is not None and result.after is not None
    assert sum(result.before.asked.values()) == 96
    text = "\n".join(said)
    assert "answers before training" in text and "of 96 answers exact" in text


def test_without_pretrained_weights_the_run_says_what_to_do(run, tmp_path):
    with pytest.raises(ValueError, match="none called so"):
        go(run, save_dir=str(tmp_path))


def test_other_sizes_than_those_of_the_weights_are_refused(run):
    with pytest.raises(ValueError, match="num_hidden_layers"):
        go(run, num_hidden_layers=5)


def test_an_interrupted_run_continues_to_the_same_weights(run, whole):
    settings = {"save_weight": "again", "samples": 0}
    go(run, **settings)
    full = (Path(run.save_dir) / "again" / "model.safetensors").read_bytes()
    go(run, from_resume=3, **settings)
    assert (Path(run.save_dir) / "again" / "model.safetensors").read_bytes() == full
    assert (Path(run.save_dir) / "tuned" / "model.safetensors").read_bytes() == full  # and measuring changes nothing


def test_a_file_of_conversations_trains_and_shows_answers(run, tmp_path):
    path = tmp_path / "chat.jsonl"
    turns = [{"role": "user", "content": "What is 1 + 1?"}, {"role": "assistant", "content": "1 + 1 = 2."}]
    path.write_text("\n".join(json.dumps({"conversations": turns}) for _ in range(8)))
    result, said = go(run, data_path=str(path), validation_documents=0, save_weight="mine")
    assert result.before is None and result.after is None
    assert any("What is 1 + 1?" in line for line in said)


def test_a_model_learns_the_answers_that_it_is_given(tmp_path):
    """The loss on two answers goes to nothing, and the exact match to all: the labels stand where they must."""
    path = tmp_path / "chat.jsonl"
    asked = world_questions(1, seed=0)
    rows = [
        {"conversations": [{"role": "user", "content": q.user}, {"role": "assistant", "content": q.assistant}]}
        for q in asked
    ]
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    run = preset("lesson", "sft").replace(
        data_path=str(path),
        from_weight="none",
        validation_documents=0,
        batch_size=3,
        max_steps=60,
        samples=0,
        save_dir=str(tmp_path / "out"),
        checkpoint_dir=str(tmp_path / "checkpoints"),
    )
    result, _ = go(run)
    assert result.last is not None and result.last.loss < 0.1
    score = exact_match(load_weights(result.weights), load_tokenizer("world-800"), asked)
    assert score.share == 1.0, score.answers


def test_exact_means_equal_and_is_counted_by_kind():
    score = ExactMatch(("a", "b"), {"fact": 1, "sum": 0}, {"fact": 1, "sum": 1})
    assert score.share == 0.5
    assert str(score) == "1 of 2 answers exact (50.0%): fact 1 of 1, sum 0 of 1"


def test_questions_to_measure_with_are_balanced_reproducible_and_not_the_training_ones():
    asked = world_questions(8, seed=0, held_out=True)
    assert asked == world_questions(8, seed=0, held_out=True)
    assert asked != world_questions(8, seed=1, held_out=True)
    kinds = [each.kind.split("-")[0] for each in asked]
    assert {kind: kinds.count(kind) for kind in kinds} == {"fact": 8, "sum": 8, "story": 8, HELD_OUT: 8}


def test_the_stage_has_its_own_defaults():
    run = preset("lesson", "sft")
    assert (run.from_weight, run.save_weight) == ("pretrain", "sft")
    with pytest.raises(ValueError, match="'rl'"):
        preset("lesson", "rl")
    with pytest.raises(ValueError, match="lab"):
        preset("lab", "sft")


def test_measuring_leaves_the_random_state_alone():
    model, tokenizer = tiny.model(vocab_size=800, max_position_embeddings=512), load_tokenizer("world-800")
    state = torch.get_rng_state()
    exact_match(model, tokenizer, world_questions(1, seed=0))
    assert torch.equal(torch.get_rng_state(), state)


def test_no_seed_measures_with_the_random_numbers_of_the_training_questions():
    rng = random.Random(QUESTION_SEED)
    drawn_in_training = [question(rng, kinds=(kind,)) for _ in range(8) for kind in ("fact", "sum", "story")]
    assert world_questions(8, seed=QUESTION_SEED) != drawn_in_training
