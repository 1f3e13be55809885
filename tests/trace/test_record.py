"""A record is written, read and compared; what differs is found, what may differ is not."""

import copy
import json
import math

import pytest

from minimind.trace.record import ParameterRecord, Record, StepRecord, format_value


def record() -> Record:
    parameter = ParameterRecord(shape=[4, 2], grad_norm=0.5, delta_max=1e-3, delta_rms=5e-4, update_ratio=1e-2)
    step = StepRecord(
        step=1,
        loss=8.75,
        learning_rate=5e-4,
        grad_norm_before_clip=2.5,
        grad_norm_after_clip=1.0,
        tokens=90,
        micro_losses=[4.5, 4.25],
        sample_ids=[3, 1],
        parameters={"model.norm.weight": parameter, "lm_head.weight": copy.deepcopy(parameter)},
        time_s=0.25,
        memory_bytes=None,
    )
    return Record(
        lab="step",
        arguments={"seed": 42, "name": "床前"},
        environment={"torch": "2.13.0"},
        shapes={"logits": [2, 48, 6400]},
        dtypes={"logits": "float32"},
        values={"ratio": 0.5, "count": 7, "flag": True, "word": "yes", "zero": 0.0, "list": [1, 2.5, "x"]},
        steps=[step],
    )


def test_a_record_comes_back_from_its_file_equal(tmp_path):
    path = tmp_path / "new" / "record.json"
    record().save(path)
    assert Record.load(path) == record()
    assert "床前" in path.read_text(encoding="utf-8")
    record().save(tmp_path / "again.json")
    assert path.read_bytes() == (tmp_path / "again.json").read_bytes()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_none_is_not_filed(value, tmp_path):
    broken = record()
    broken.steps[0].loss = value
    with pytest.raises(ValueError, match=rf"record\.json: steps\[0\]\.loss is {value}"):
        broken.save(tmp_path / "record.json")
    assert not (tmp_path / "record.json").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("steps"),
        lambda data: data.update(surprise=1),
        lambda data: data["steps"][0].pop("loss"),
        lambda data: data["steps"][0].update(surprise=1),
        lambda data: data["steps"][0]["parameters"]["lm_head.weight"].pop("delta_max"),
    ],
)
def test_a_file_that_is_no_record_is_named(change, tmp_path):
    data = record().to_dict()
    change(data)
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match="odd.json.*not a record"):
        Record.load(path)


@pytest.mark.parametrize("content", [b"{", b"[]", b"3", b"\xff\xfe"])
def test_a_file_that_is_not_json_is_named(content, tmp_path):
    (tmp_path / "odd.json").write_bytes(content)
    with pytest.raises(ValueError, match="odd.json"):
        Record.load(tmp_path / "odd.json")


def test_a_record_equals_itself():
    assert record().compare(record()) == []


def set_loss(r: Record, factor: float) -> None:
    r.steps[0].loss *= factor


CHANGES = {
    "steps[0].loss": lambda r: set_loss(r, 1 + 3e-4),
    "steps[0].micro_losses[1]": lambda r: r.steps[0].micro_losses.__setitem__(1, 4.26),
    "steps[0].micro_losses": lambda r: r.steps[0].micro_losses.append(0.0),
    "steps[0].sample_ids[0]": lambda r: r.steps[0].sample_ids.__setitem__(0, 4),
    "steps[0].tokens": lambda r: setattr(r.steps[0], "tokens", 91),
    "steps[0].parameters.model.norm.weight.delta_max": lambda r: setattr(
        r.steps[0].parameters["model.norm.weight"], "delta_max", 1.01e-3
    ),
    "steps[0].parameters.model.norm.weight.shape[1]": lambda r: (
        r.steps[0].parameters["model.norm.weight"].shape.__setitem__(1, 3)
    ),
    "steps[0].parameters.lm_head.weight": lambda r: r.steps[0].parameters.pop("lm_head.weight"),
    "steps": lambda r: r.steps.pop(),
    "shapes.logits[2]": lambda r: r.shapes["logits"].__setitem__(2, 6401),
    "shapes.logits": lambda r: r.shapes.pop("logits"),
    "dtypes.logits": lambda r: r.dtypes.__setitem__("logits", "bfloat16"),
    "values.new": lambda r: r.values.__setitem__("new", 1),
    "values.count": lambda r: r.values.__setitem__("count", 7.0),
    "values.flag": lambda r: r.values.__setitem__("flag", 1),
    "values.word": lambda r: r.values.__setitem__("word", "no"),
    "values.list[2]": lambda r: r.values["list"].__setitem__(2, "y"),
    "values.zero": lambda r: r.values.__setitem__("zero", 1e-6),
    "arguments.seed": lambda r: r.arguments.__setitem__("seed", 43),
    "lab": lambda r: setattr(r, "lab", "other"),
}


@pytest.mark.parametrize("field", CHANGES)
def test_a_changed_field_is_found_and_named(field):
    changed = record()
    CHANGES[field](changed)
    for differences in (changed.compare(record()), record().compare(changed)):
        assert [difference.field for difference in differences] == [field]
        assert field in str(differences[0])


@pytest.mark.parametrize(
    "change",
    [
        lambda r: setattr(r.steps[0], "time_s", 99.0),
        lambda r: setattr(r.steps[0], "memory_bytes", 10**9),
        lambda r: r.environment.update(torch="9.9", system="Plan 9"),
        lambda r: set_loss(r, 1 + 1e-5),
        lambda r: r.values.__setitem__("zero", 1e-12),
    ],
)
def test_time_memory_machine_and_rounding_are_no_difference(change):
    changed = record()
    change(changed)
    assert changed.compare(record()) == []


def test_a_band_of_the_reference_widens_one_field_alone():
    reference, changed = record(), record()
    reference.bands = {"loss": 0.01}
    set_loss(changed, 1.005)
    changed.steps[0].grad_norm_before_clip *= 1.005
    assert [d.field for d in changed.compare(reference)] == ["steps[0].grad_norm_before_clip"]
    set_loss(changed, 1.01)
    assert "steps[0].loss" in [d.field for d in changed.compare(reference)]


def test_comparing_changes_neither():
    ours, reference = record(), record()
    ours.compare(reference)
    assert ours == reference == record()


def test_the_table_shows_what_moved_most_first():
    shown = record()
    shown.steps[0].parameters["lm_head.weight"].delta_rms = 1.0
    table = shown.table(parameters=1)
    assert "logits.shape = (2, 48, 6400)" in table
    assert "8.7500" in table
    assert "lm_head.weight" in table
    assert "model.norm.weight" not in table
    assert Record(lab="empty", values={"x": 1}).table() == "x = 1"


@pytest.mark.parametrize(
    ("value", "text"),
    [(6400, "6,400"), (0.123456, "0.1235"), (0.0, "0"), (12345.678, "12,345.7"), (True, "True"), ("word", "word")],
)
def test_values_are_shown_for_reading(value, text):
    assert format_value(value) == text
