import pytest

from course.kit import exercise_cards
from course.kit.answers import ANSWERS, UNATTENDED, WORK
from minimind.trace.record import ParameterRecord, Record, StepRecord

# The kit is tested outside of IPython, where `show` prints the static twin: what a reader without a kernel sees.


@pytest.fixture(autouse=True)
def fresh_answers(monkeypatch):
    monkeypatch.delenv(WORK, raising=False)
    monkeypatch.setattr(exercise_cards, "_cards", {})
    ANSWERS.clear()
    yield
    ANSWERS.clear()


@pytest.fixture
def work(tmp_path, monkeypatch, attended):
    """A student's folder, in which answers are saved."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setenv(WORK, str(folder))
    return folder


@pytest.fixture
def restart_kernel():
    """Forgets all that a kernel holds; what comes back afterwards comes from the file."""

    def restart():
        ANSWERS.clear()
        exercise_cards._cards.clear()

    return restart


@pytest.fixture
def attended(monkeypatch):
    monkeypatch.delenv(UNATTENDED, raising=False)


@pytest.fixture
def unattended(monkeypatch):
    monkeypatch.setenv(UNATTENDED, "1")


@pytest.fixture
def record():
    names = ["model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", "model.norm.weight"]
    steps = []
    for step in range(1, 4):
        parameters = {
            name: ParameterRecord([4, 4], 0.5 / (i + 1), 2e-3 / (i + step), 1e-3 / (i + step), 0.01)
            for i, name in enumerate(names)
        }
        steps.append(StepRecord(step, 9.0 - step / 3, 5e-4 / step, 2.5, 1.0, 94, [4.5, 4.5], [1, 2], parameters, 0.1))
    return Record(lab="fake", shapes={"input_ids": [2, 48], "logits": [2, 48, 6400]}, steps=steps)
