"""The lab that follows a sentence to its reply: its numbers, its mistakes on purpose, its command line."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from matplotlib.image import imread

from labs import trace_inference as lab
from labs.lab import check, load_reference
from labs.shipped import world_chat
from minimind.serve.generate import answer_chats
from minimind.trace import Record


@pytest.fixture(scope="module")
def record() -> Record:
    """The lab with its default arguments."""
    return lab.run()


def test_the_default_run_equals_its_reference(record):
    assert check(record) == []


def test_no_two_candidates_of_the_reference_are_so_close_that_another_chip_could_swap_them():
    for step in lab.reply_steps(load_reference("trace_inference")):
        found = [candidate["probability"] for candidate in step["candidates"]]
        assert all(lower < 0.999 * higher for higher, lower in itertools.pairwise(found)), step["step"]


def test_the_reply_is_the_one_of_generate(record):
    messages = [{"role": "user", "content": "What is 6 + 3?"}]
    assert record.values["reply"] == answer_chats(*world_chat(), [messages])[0] == "6 + 3 = 9."
    assert record.values["ended_by"] == "the stop token, <|im_end|>"
    drawn = lab.run(question="How many legs does a horse have?", temperature=2.0, seed=5)
    messages = [{"role": "user", "content": "How many legs does a horse have?"}]
    assert drawn.values["reply"] == answer_chats(*world_chat(), [messages], 24, temperature=2.0, seed=5)[0]
    assert drawn.values["reply"] != lab.run(question="How many legs does a horse have?").values["reply"]


def test_the_steps_are_those_of_a_model_without_a_cache(record):
    model, _ = world_chat()
    ids = list(record.values["input_ids"])
    for number, step in enumerate(lab.reply_steps(record), start=1):
        with torch.no_grad():
            probabilities = model(torch.tensor([ids])).logits[0, -1].softmax(-1)
        assert step["step"] == number
        assert step["read"] == (len(ids) if number == 1 else 1)
        assert step["logits_shape"] == [1, step["read"], 800]
        assert step["cache_length"] == len(ids)
        assert step["cache_bytes"] == len(ids) * 2 * 2 * 2 * 32 * 4  # keys, values; layers; heads; width; bytes
        assert [c["id"] for c in step["candidates"]] == probabilities.topk(5).indices.tolist()
        for candidate in step["candidates"]:
            assert candidate["probability"] == pytest.approx(float(probabilities[candidate["id"]]), rel=1e-3)
        assert step["id"] == step["candidates"][0]["id"]
        ids.append(step["id"])
    assert record.shapes["logits (step 1)"] == [1, 23, 800]
    assert record.shapes["logits (each later step)"] == [1, 1, 800]
    assert record.shapes["keys of a layer (last step)"] == [1, 2, 31, 32]
    assert record.values["reply_ids"] == ids[23:]


def test_the_prompt_is_written_down_as_text_ids_and_mask(record):
    values = record.values
    assert values["template"] == "<|im_start|>user\nWhat is 6 + 3?<|im_end|>\n<|im_start|>assistant\n"
    assert "".join(values["tokens"]) == values["template"]
    assert values["attention_mask"] == [1] * len(values["input_ids"]) == [1] * 23


def test_chances_are_probabilities_after_the_filters():
    step = lab.reply_steps(lab.run(question="How many legs does a horse have?", temperature=2.0, top_k=3))[1]
    chances = [candidate["chance"] for candidate in step["candidates"]]
    assert chances[3:] == [0.0, 0.0] and sum(chances) == pytest.approx(1)
    scaled = torch.tensor([c["probability"] for c in step["candidates"][:3]]).sqrt()
    torch.testing.assert_close(torch.tensor(chances[:3]), scaled / scaled.sum())


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("no_head", "<|im_start|>user\nWhat is 6 + 3?<|im_end|>\n"),
        ("other_role", "<|im_start|>user\nWhat is 6 + 3?<|im_end|>\n<|im_start|>bot\n"),
        ("none", "<|im_start|>What is 6 + 3?"),
    ],
)
def test_a_wrong_template_is_the_one_it_says_and_spoils_the_reply(template, text):
    record = lab.run(template=template)
    assert record.values["template"] == text
    assert record.values["reply"] != "6 + 3 = 9."


def test_without_its_stop_token_a_reply_goes_on():
    record = lab.run(stop="pad", max_new_tokens=30)
    assert record.values["reply"].startswith("6 + 3 = 9.<|im_end|>")
    assert record.values["ended_by"] == "max_new_tokens" and len(lab.reply_steps(record)) == 30


def test_a_choice_of_ones_own_is_the_one_that_runs():
    seen = []

    def choose(logits, temperature, top_k, top_p, generator):
        seen.append((tuple(logits.shape), temperature, top_k, top_p))
        return torch.full((1,), 300)

    record = lab.run(max_new_tokens=3, temperature=0.5, top_k=7, top_p=0.5, choose=choose)
    assert seen == [((1, 800), 0.5, 7, 0.5)] * 3
    assert record.values["reply_ids"] == [300] * 3


def test_the_table_is_read_from_the_sentence_to_the_reply(record):
    lines = record.table().splitlines()
    assert lines[2:5] == ["    <|im_start|>user", "    What is 6 + 3?<|im_end|>", "    <|im_start|>assistant"]
    assert "input_ids.shape = (1, 23)" in lines and "logits (each later step).shape = (1, 1, 800)" in lines
    assert any(line.split()[:3] == ["7", "1", "9"] for line in lines)
    assert lines[-2:] == ["reply: 6 + 3 = 9.", "ended by: the stop token, <|im_end|>"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"question": "母鸡吃什么？"},
        {"max_new_tokens": 1},
        {"stop": "pad", "max_new_tokens": 30},
        {"question": "x" * 200, "temperature": 3.0},
    ],
)
def test_every_kind_of_run_can_be_drawn(options, tmp_path):
    lab.draw(lab.run(**options)).savefig(tmp_path / "reply.png", dpi=50)
    assert imread(tmp_path / "reply.png").std() > 0.05


def test_it_runs_as_a_script_from_any_folder_and_writes_what_it_is_asked_for(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    script = [sys.executable, str(Path(lab.__file__).resolve())]
    result = subprocess.run(
        [*script, "--check", "--json", "out/record.json", "--plot", "out/reply.png"],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert not result.stderr, "no warning either"
    assert "reply: 6 + 3 = 9.\n" in result.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["record.json", "reply.png"]
    assert Record.load(tmp_path / "out" / "record.json").values["reply"] == "6 + 3 = 9."


def test_check_fails_on_another_question_and_names_it(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["trace_inference.py", "--question", "What is 6 + 2?", "--check"])
    assert lab.main() == 1
    assert "arguments.question: 'What is 6 + 2?' here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--temperature", "-1"], "temperature=-1.0 must be 0"),
        (["--top_k", "-1"], "top_k=-1 must be a whole number"),
        (["--top_p", "0"], "top_p=0.0 must be above 0"),
        (["--max_new_tokens", "0"], "max_new_tokens=0 leaves nothing to generate"),
        (["--device", "abacus"], "device='abacus'"),
    ],
)
def test_a_wrong_argument_is_one_sentence_that_names_it(argv, sentence, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["trace_inference.py", *argv])
    assert lab.main() == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"trace_inference: {sentence}")
    assert shown.err.count("\n") == 1 and not shown.out


@pytest.mark.parametrize("threads", [1, 2])
def test_the_number_of_threads_is_left_as_it_was(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        lab.run(max_new_tokens=1)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
