"""The lab that plays the whole game: its numbers, its statements, its figure, its command line."""

import io
import os
import re
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from matplotlib.text import Text

from course.exercises.lesson01_which_stage import STAGES, what_happened, which_stage
from labs import trace_whole_game as lab
from labs.lab import load_reference
from labs.whole_game_figure import BARS, draw_sums
from minimind.data.sources import load_conversations, load_texts, sft_data
from minimind.objectives.next_token import NextToken
from minimind.trace import Record


@pytest.fixture(scope="module", autouse=True)
def little_is_measured():
    """Measuring takes most of the time of a game of a few updates."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("STORIES", 2), ("QUESTIONS_PER_KIND", 6), ("HELD_OUT_DOCUMENTS", 16)):
            patch.setattr(lab, name, value)
        yield


@pytest.fixture(scope="module")
def game() -> lab.Game:
    """A game too short to learn anything."""
    return lab.Game(pretrain_steps=4, sft_steps=3)


@pytest.fixture(scope="module")
def moments(game) -> list[lab.Moment]:
    return [game.untrained(), game.pretrain(), game.fine_tune()]


@pytest.fixture(scope="module")
def record(game, moments) -> Record:
    return game.record(*moments)


@pytest.fixture(scope="module")
def reference() -> Record:
    return load_reference("trace_whole_game")


@pytest.mark.slow
def test_the_default_run_equals_its_reference_from_any_folder(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        [sys.executable, str(Path(lab.__file__).resolve()), "--check"],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert not result.stderr, "no warning either"
    assert "equal to the reference record trace_whole_game.json" in result.stdout
    assert not list(tmp_path.iterdir())


def test_the_reference_says_what_the_lesson_says(reference):
    statements = {name: value for name, value in reference.values.items() if isinstance(value, bool)}
    assert statements == {
        "pretraining_halves_the_document_loss": True,
        "pretrained_writes_valid_sentences": True,
        "pretrained_answers": False,
        "fine_tuned_answers_most_facts": True,
        "fine_tuned_answers_some_sums_and_stories": True,
        "fine_tuned_does_most_sums_never_trained": False,
        "fine_tuning_doubles_the_document_loss": True,
    }
    assert reference.bands == lab.BANDS
    assert reference.values["parameters"] == 162_240
    assert reference.values["sft_supervised_share"] < 0.3 < 0.9 < reference.values["pretrain_supervised_share"]


def test_the_table_of_the_exercise_is_what_the_recorded_run_gave(reference):
    happened = what_happened(reference.values)
    for measure in lab.MEASURES:
        assert tuple(happened[measure, stage][0] for stage in STAGES) == which_stage(measure), measure


def test_a_run_that_learned_nothing_is_told_from_the_reference(record, reference):
    differing = {difference.field for difference in record.compare(reference)}
    assert {
        "arguments.sft_steps",
        "values.document_loss_pretrained",
        "values.fine_tuned_answers_most_facts",
    } <= differing
    assert not any("time_s" in field or "continued" in field for field in differing)


def test_one_number_beyond_its_band_is_named(reference):
    changed = Record.from_dict(reference.to_dict())
    changed.values["document_loss_pretrained"] *= 1.3
    changed.values["exact_sums_never_trained_fine_tuned"] = 0.2
    assert [difference.field for difference in changed.compare(reference)] == ["values.document_loss_pretrained"]


def test_the_untrained_model_is_as_surprised_as_by_a_fair_die(record):
    for loss in ("document_loss", "answer_loss"):
        assert record.values[f"{loss}_untrained"] == pytest.approx(np.log(800), abs=0.1)
    for measure in list(lab.MEASURES)[2:]:
        assert record.values[f"{measure}_untrained"] == 0


def test_each_stage_begins_where_the_one_before_it_ended(moments):
    assert [moment.name for moment in moments] == list(lab.MOMENTS)
    assert moments[0].training is None
    for before, after in pairwise(moments):
        batch, objective = after.training.batch, NextToken()
        with torch.no_grad():
            loss = objective.loss(before.model, batch) / objective.weight(batch)
        assert after.training.losses[0] == pytest.approx(float(loss), rel=1e-4), after.name
        assert _distance(before.model, after.model) > 0


def _distance(one: torch.nn.Module, other: torch.nn.Module) -> float:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return float(sum(float((a - b).detach().square().sum()) for a, b in pairs) ** 0.5)


def test_the_counts_are_those_of_the_data(game, moments, record):
    _, pretrained, tuned = moments
    for stage, moment, source in (
        ("pretrain", pretrained, game.documents.train),
        ("sft", tuned, sft_data(game.sft_run, game.tokenizer).train),
    ):
        batches = [source.batch(0, index) for index in range(record.values[f"{stage}_steps"])]
        counts = [int((batch.labels[:, 1:] != -100).sum()) for batch in batches]
        assert moment.training.supervised_tokens == counts
        assert record.values[f"{stage}_tokens"] == sum(counts)
        assert record.shapes[f"{stage}.input_ids"] == list(batches[0].input_ids.shape)
        assert len(moment.training.losses) == len(counts)


def test_the_sums_never_trained_stand_in_nothing_that_is_trained_on(game):
    held_out = {question.assistant[:-1] for question in game.questions if question.kind == lab.evaluate.HELD_OUT}
    trained = load_texts(game.pretrain_run)[0] + [
        message["content"] for messages in load_conversations(game.sft_run)[0] for message in messages
    ]
    assert len(held_out) > 5 and not [sum_ for sum_ in held_out for text in trained if sum_ in text]
    assert all(re.fullmatch(r"(\d) [+-] \1 = \d+", sum_) for sum_ in held_out), (
        "a digit with itself, as the lesson says"
    )


def test_a_stage_can_be_played_again_and_another_way(game, moments):
    again = game.fine_tune()
    assert _distance(again.model, moments[2].model) == 0, "the same stage from the same weights"
    seen = []

    def other_data(run, tokenizer):
        seen.append(run.max_steps)
        return sft_data(run, tokenizer)

    shorter = game.fine_tune(steps=2, make_data=other_data)
    assert set(seen) == {2} and len(shorter.training.losses) == 2
    assert shorter.training.code[1].endswith("other_data")


def test_fine_tuning_before_pretraining_is_refused_in_a_sentence():
    with pytest.raises(
        ValueError, match=r"there are no pretrained weights to fine-tune yet; call pretrain\(\) first\."
    ):
        lab.Game(1, 1).fine_tune()


def test_it_writes_nothing_outside_a_temporary_folder_that_it_removes(tmp_path, monkeypatch):
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    lab.run(pretrain_steps=1, sft_steps=1)
    assert not list(work.rglob("*")) and not list(temporary.rglob("*"))


def test_the_threads_of_the_caller_are_left_as_they_were():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        lab.run(pretrain_steps=1, sft_steps=1)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_the_table_prints_each_measure_at_the_three_moments(record):
    table = record.table().splitlines()
    assert any(line.split() == ["untrained", "pretrained", "fine-tuned"] for line in table)
    for words in lab.MEASURES.values():
        assert sum(line.startswith(words) for line in table) == 1
    assert "pretrain.input_ids.shape = (16, " in record.table()
    assert "sft_code = minimind.train.sft.sft, minimind.data.sources.sft_data" in record.table()


def test_the_figure_shows_what_the_record_says(reference):
    figure = lab.draw(reference)
    shown = [text.get_text() for text in figure.findobj(Text)]
    for words in ("untrained", "pretrained", "fine-tuned", "pretraining", "fine-tuning"):
        assert words in shown
    for name in BARS:
        for moment in lab.MOMENTS:
            assert lab.as_words(name, reference.values[f"{name}_{moment}"]) in shown
    assert any("300 updates on" in text for text in shown) and any("600 updates on" in text for text in shown)
    assert _pixels(figure).std() > 0.05


def test_the_figure_draws_whatever_a_model_writes(record):
    strange = Record.from_dict(record.to_dict())
    for name in strange.environment:
        if name.endswith(("continued", "answered")):
            strange.environment[name] = "雪是白色的。\ufffd $x$ \\n \n" * 40
    assert _pixels(lab.draw(strange)).std() > 0.05


def test_the_picture_of_the_sums_counts_right():
    right = np.ones((10, 10), dtype=bool)
    right[np.diag_indices(10)] = False
    right[2, 2], right[0, 1] = True, False
    shown = [text.get_text() for text in draw_sums(right).findobj(Text)]
    assert shown.count("✓") == 90 and shown.count("✗") == 10
    assert any("90 of 100 right" in text and "1 of 10" in text for text in shown)


def _pixels(figure) -> np.ndarray:
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=50)
    return imread(io.BytesIO(png.getvalue()))


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--pretrain_steps", "0"], "pretrain_steps=0 trains nothing; give at least 1."),
        (["--sft_steps", "-1"], "sft_steps=-1 trains nothing; give at least 1."),
        (["--device", "abacus"], "device='abacus'"),
        (["--seed", "-1"], "seed=-1 must be at least 0."),
    ],
)
def test_a_wrong_argument_is_one_sentence_that_names_it(argv, sentence, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["trace_whole_game.py", *argv])
    assert lab.main() == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"trace_whole_game: {sentence}")
    assert shown.err.count("\n") == 1 and not shown.out


def test_the_command_line_writes_record_and_figure(tmp_path, monkeypatch, capsys):
    paths = tmp_path / "record.json", tmp_path / "game.png"
    options = ["--pretrain_steps", "1", "--sft_steps", "1", "--json", str(paths[0]), "--plot", str(paths[1])]
    monkeypatch.setattr(sys, "argv", ["trace_whole_game.py", *options])
    assert lab.main() == 0
    assert all(Path(path).stat().st_size > 1000 for path in paths)
    assert "sums never trained, answered exactly" in capsys.readouterr().out
