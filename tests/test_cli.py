"""The command line: fields are options, mistakes are one sentence, and a status says how it went."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import minimind.tokenizer
from labs.shipped import WORLD_CHAT
from minimind.cli import main
from minimind.config import PRESETS, RunConfig
from minimind.train import pretrain as pretrain_module
from minimind.train.resume import settings_of
from tests import tiny

SHIPPED = Path(minimind.tokenizer.__file__).parent / "tokenizers"


@pytest.fixture
def given(monkeypatch) -> list[RunConfig]:
    """The runs that the command would have made."""
    runs: list[RunConfig] = []
    monkeypatch.setattr(pretrain_module, "pretrain", lambda run, **settings: runs.append(run))
    return runs


def status(*arguments: str) -> int:
    """The exit status of `minimind ...`."""
    try:
        return main(arguments)
    except SystemExit as exit:
        assert isinstance(exit.code, int)
        return exit.code


def test_without_options_it_is_the_lesson(given):
    assert status("pretrain") == 0
    assert given == [PRESETS["lesson"]]


def test_every_field_is_an_option_with_its_own_name(given, tmp_path):
    run = tiny.run(tmp_path, learning_rate=1.5e-4, packing=1, tokenizer="minimind-6400")
    assert status("pretrain", *tiny.options(run)) == 0
    assert given == [run]


def test_options_count_more_than_the_file_and_the_file_more_than_the_preset(given, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("hidden_size = 96\nbatch_size = 5\n")
    assert status("pretrain", "--batch_size", "7", "--preset", "lab", "--config", str(path)) == 0
    assert given == [PRESETS["lab"].replace(hidden_size=96, batch_size=7)]
    # An option counts although it repeats a default.
    assert status("pretrain", "--preset", "lab", "--hidden_size", "64", "--config", str(path)) == 0
    assert given[1].hidden_size == 64
    assert given[1].batch_size == 5


def test_a_run_written_as_toml_is_the_same_run(given, tmp_path):
    run = tiny.run(tmp_path)
    (tmp_path / "run.toml").write_text(run.to_toml())
    assert status("pretrain", "--preset", "lab", "--config", str(tmp_path / "run.toml")) == 0
    assert given == [run]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pretrain", "--hiden_size", "64"], "hiden_size"),
        (["pretrain", "--hidden_size", "many"], "hidden_size"),
        (["pretrain", "--hidden_size", "0"], "hidden_size=0 must be at least 1"),
        (["pretrain", "--learning_rate", "-1"], "learning_rate=-1"),
        (["pretrain", "--optimizer", "sgd"], "optimizer"),
        (["pretrain", "--preset", "leson"], "preset"),
        (["pretrain", "--config", "absent.toml"], "absent.toml"),
        (["pretrain", "--data_path", "absent.jsonl"], "absent.jsonl"),
        (["pretrain", "--tokenizer", "absent"], "absent"),
        (["pretrain", "--device", "tpu"], "tpu"),
        (["generate", "--from_weight", "absent"], "absent"),
        (["generate", "--promt", "x"], "promt"),
        (["generate", "--samples", "0"], "samples=0"),
        (["tokenizer", "train"], "save_dir"),
        (["tokenizer", "train", "--save_dir", "new", "--recipe", "file"], "data_path"),
        (["tokenizer", "train", "--save_dir", "new", "--vocab_size", "900"], "vocab_size"),
        (["tokenizer", "train", "--save_dir", "."], "not empty"),
        (["pretend"], "pretend"),
        (["sft", "--from_weight", "nothing"], "none called so"),
        (["sft", "--packing", "1"], "packing=1"),
        (["chat", "--from_weight", "nothing"], "none called so"),
        (["chat", "--history", "2"], "history"),
        (["check", "--stage", "dpo"], "dpo"),
    ],
)
def test_a_mistake_is_answered_in_a_few_words_and_a_status(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert status(*arguments) in (1, 2)
    captured = capsys.readouterr()
    assert words in captured.err
    assert "Traceback" not in captured.err + captured.out
    # One sentence; the parser's own come with a line of usage and one that names the help.
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1 or (lines[0].startswith("usage:") and len(lines) <= 4)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_asked_to_resume_with_nothing_there_the_status_is_one(tmp_path, capsys):
    assert status("pretrain", *tiny.options(tiny.run(tmp_path, from_resume=1))) == 1
    assert "holds no checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_interruption_has_its_own_status(given, monkeypatch, capsys):
    def interrupt(run, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(pretrain_module, "pretrain", interrupt)
    assert status("pretrain") == 130
    assert "interrupted" in capsys.readouterr().err


def test_what_was_pretrained_can_be_continued_from_the_command_line(tmp_path, capsys):
    run = tiny.run(tmp_path, max_steps=2)
    assert status("pretrain", "--preset", "lab", *tiny.options(run)) == 0
    assert "weights" in capsys.readouterr().out
    saved = json.loads((tmp_path / "checkpoints/tiny/step-00000002/trainer.json").read_text())
    assert saved["run"] == settings_of(run)

    command = ["generate", "--from_weight", "tiny", "--save_dir", run.save_dir, "--prompt", "One day,"]
    assert status(*command, "--max_new_tokens", "5", "--samples", "2") == 0
    printed = capsys.readouterr().out
    assert printed.count("One day,") == 2
    assert status(*command, "--max_new_tokens", "5", "--samples", "2") == 0
    assert capsys.readouterr().out == printed
    assert status(*command, "--temperature", "-1") == 1
    assert "temperature=-1" in capsys.readouterr().err


def test_the_help_names_every_field_with_its_default(capsys):
    assert status("pretrain", "--help") == 0
    text = capsys.readouterr().out
    for name in RunConfig.__dataclass_fields__:
        assert f"--{name} " in text
    assert "rows of one micro-batch" in text


def test_the_module_is_the_command():
    command = [sys.executable, "-m", "minimind", "pretrain", "--hiden_size", "64"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "hiden_size" in done.stderr


def test_a_tokenizer_is_learnt_from_a_file(tmp_path, capsys):
    path = tmp_path / "mine.txt"
    path.write_text("the cat sat on the mat\n\n" * 40)
    folder = tmp_path / "new"
    arguments = ["--recipe", "file", "--data_path", str(path), "--vocab_size", "270", "--save_dir", str(folder)]
    assert status("tokenizer", "train", *arguments) == 0
    assert (folder / "tokenizer.json").is_file()
    assert str(folder) in capsys.readouterr().out


def test_the_shipped_tokenizer_is_made_again_byte_for_byte(tmp_path):
    assert status("tokenizer", "train", "--recipe", "world-800", "--save_dir", str(tmp_path / "new")) == 0
    for path in sorted((SHIPPED / "world-800").iterdir()):
        assert (tmp_path / "new" / path.name).read_bytes() == path.read_bytes(), path.name


def test_what_was_fine_tuned_answers_from_the_command_line(tmp_path, capsys, monkeypatch):
    run = tiny.run(tmp_path, max_steps=2, samples=0)
    assert status("pretrain", "--preset", "lab", *tiny.options(run)) == 0
    tuned = run.replace(from_weight="tiny", save_weight="tuned", max_seq_len=160, world_documents=50)
    assert status("sft", *tiny.options(tuned)) == 0
    capsys.readouterr()
    ask = ["chat", "--from_weight", "tuned", "--save_dir", run.save_dir, "--max_new_tokens", "6"]
    assert status(*ask, "--prompt", "What is 2 + 3?") == 0
    said = capsys.readouterr().out
    assert len(said.strip()) > 0
    # The same question typed, and a second one after it; an empty line ends the conversation.
    monkeypatch.setattr("sys.stdin", io.StringIO("What is 2 + 3?\nWhat is 2 + 3?\n\nnever asked\n"))
    assert status(*ask) == 0
    assert capsys.readouterr().out == said * 2
    assert status(*ask, "--prompt", "x", "--top_p", "0") == 1
    assert "top_p=0" in capsys.readouterr().err


def test_the_shipped_weights_answer_right(capsys):
    assert status("chat", "--from_weight", str(WORLD_CHAT), "--prompt", "What is 2 + 3?") == 0
    assert capsys.readouterr().out == "2 + 3 = 5.\n"


def test_check_says_what_is_missing_and_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert status("check", "--stage", "sft") == 1
    printed = capsys.readouterr().out
    assert "NOT ready for: minimind sft" in printed and "-> minimind pretrain" in printed
    assert status("check") == 0
    assert "\nready for: minimind pretrain" in capsys.readouterr().out


def test_an_interruption_while_the_libraries_load_is_no_traceback():
    hurried = (
        "import sys, minimind.__main__ as m\n"
        "class Loader:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'minimind.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Loader()); sys.exit(m.main())"
    )
    ended = subprocess.run([sys.executable, "-c", hurried], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "minimind: interrupted.\n")
