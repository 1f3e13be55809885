import textwrap

import pytest
import torch

from course.kit import Exercise, Verdict, WrongAnswer
from course.kit.answers import ANSWERS
from course.kit.exercise_cards import ExerciseCard, exercise
from course.kit.exercises import find_exercises, judge, prove


def check_mean(function):
    result = function([1.0, 2.0, 6.0])
    if result == 9.0:
        return Verdict.wrong("that is the sum: divide by how many there are.")
    if abs(result - 3.0) > 1e-9:
        return Verdict.wrong(f"the mean of 1, 2 and 6 is 3, yours is {result:g}.")
    return Verdict.correct("The loss is such a mean.")


def mean(values):
    return sum(values) / len(values)


def crash(values):
    return values / len(values)


MEAN = Exercise(
    key="07-mean",
    title="The mean",
    task="Write `mean(values)`.",
    check=check_mean,
    reference=mean,
    wrong_answers=(WrongAnswer("the sum", sum, "divide"), WrongAnswer("a crash", crash, "TypeError")),
    hints=("Add them up.", "Divide by `len(values)`."),
)


def with_changes(**changes):
    return Exercise(**{**MEAN.__dict__, **changes})


def test_a_right_answer_is_correct_and_says_why_it_matters():
    verdict = judge(MEAN, mean)
    assert verdict and verdict.message == "The loss is such a mean."


def test_a_wrong_answer_gets_the_sentence_of_the_check():
    assert judge(MEAN, sum) == Verdict.wrong("that is the sum: divide by how many there are.")


def test_stubs_are_not_done_yet():
    def raises(values):
        raise NotImplementedError("your turn")

    def empty(values): ...

    assert judge(MEAN, raises).status == "not done yet"
    assert judge(MEAN, empty).status == "not done yet"
    assert "a `return` is missing" in judge(MEAN, empty).message


def test_a_stub_is_seen_through_a_check_that_catches_everything():
    def check(function):
        try:
            function([1.0])
        except Exception:
            return Verdict.wrong("it crashed")
        return Verdict.correct("fine")

    def raises(values):
        raise NotImplementedError

    assert judge(with_changes(check=check), raises).status == "not done yet"
    assert judge(with_changes(check=check), lambda values: None).status == "not done yet"


def test_a_function_that_works_in_place_may_return_none():
    def check(function):
        values = [2, 1]
        function(values)
        return Verdict.correct("sorted") if values == [1, 2] else Verdict.wrong("unsorted")

    in_place = with_changes(check=check, returns_value=False)
    assert judge(in_place, list.sort)
    assert judge(in_place, lambda values: None).status == "wrong"


def test_an_exception_is_its_type_message_and_the_own_line_and_no_library_frame():
    def average(values):
        tensor = torch.tensor(values)
        return tensor @ torch.zeros(2)

    verdict = judge(MEAN, average)
    assert verdict.status == "wrong"
    assert verdict.message.startswith("`RuntimeError: ")
    assert "return tensor @ torch.zeros(2)" in verdict.message
    assert "Traceback" not in verdict.message and ".py" not in verdict.message


def test_a_wrong_number_of_parameters_is_said():
    message = judge(MEAN, lambda: 3.0).message
    assert "did not fit the parameters" in message and "TypeError" in message


def test_a_returned_thing_that_the_check_cannot_use_is_said_without_a_line_of_the_check():
    message = judge(MEAN, lambda values: "three").message
    assert message.startswith("The check could not use what your function returned: `TypeError")


def test_a_result_in_place_of_the_function_is_said():
    assert "write its name without parentheses" in judge(MEAN, 3.0).message


def test_a_class_can_be_the_answer():
    def check(cls):
        value = cls().forward(2.0)
        return Verdict.correct("ok") if value == 4.0 else Verdict.wrong("not doubled")

    class Double:
        def forward(self, x):
            return x * 2

    class Stub:
        def forward(self, x):
            raise NotImplementedError

    class Broken:
        def forward(self, x):
            return x + "2"

    doubled = with_changes(check=check)
    assert judge(doubled, Double)
    assert judge(doubled, Stub).status == "not done yet"
    assert 'return x + "2"' in judge(doubled, Broken).message


def test_a_check_without_a_verdict_is_an_error_of_the_author():
    with pytest.raises(TypeError, match="exercise '07-mean' returned None; it must return a Verdict"):
        judge(with_changes(check=lambda function: function([1.0]) and None), mean)


def test_a_sound_exercise_is_proven():
    assert prove(MEAN) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"reference": sum}, "the reference is wrong"),
        ({"check": lambda function: Verdict.correct("ok")}, "a stub that raises"),
        ({"wrong_answers": ()}, "no wrong answers"),
        ({"wrong_answers": (WrongAnswer("none", mean, "sum"),)}, "the wrong answer 'none' is correct"),
        ({"wrong_answers": (WrongAnswer("the sum", sum, "shift"),)}, "is rejected without 'shift'"),
    ],
)
def test_proving_names_what_is_unsound(changes, problem):
    assert any(problem in line for line in prove(with_changes(**changes)))


MODULE = """
from course.kit.exercises import Exercise, Verdict

EXERCISES = (
    Exercise({key!r}, "t", "Do it.", lambda f: Verdict.correct("ok"), len, (), ()),
)
"""


def write_package(tmp_path, monkeypatch, name, **modules):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    for module, text in modules.items():
        (folder / f"{module.replace('n', '')}.py").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_exercises_are_found_in_numbered_modules(tmp_path, monkeypatch):
    package = write_package(
        tmp_path, monkeypatch, "found_ex", n07_a=MODULE.format(key="07-a"), n08_b=MODULE.format(key="08-b"), _x=""
    )
    assert list(find_exercises(package)) == ["07-a", "08-b"]


def test_a_key_used_twice_is_refused_with_both_places(tmp_path, monkeypatch):
    package = write_package(
        tmp_path, monkeypatch, "twice_ex", n07_a=MODULE.format(key="07-a"), n08_b=MODULE.format(key="07-a")
    )
    with pytest.raises(ValueError, match=r"'07-a' is in twice_ex\.07_a and in twice_ex\.08_b"):
        find_exercises(package)


def test_a_module_without_exercises_is_refused(tmp_path, monkeypatch):
    package = write_package(tmp_path, monkeypatch, "empty_ex", n07_a="")
    with pytest.raises(ValueError, match=r"empty_ex\.07_a has no tuple EXERCISES"):
        find_exercises(package)


def test_an_exercise_key_without_its_lesson_is_refused(tmp_path, monkeypatch):
    package = write_package(tmp_path, monkeypatch, "keyless_ex", n07_a=MODULE.format(key="mean"))
    with pytest.raises(ValueError, match="The exercise key 'mean' must start with the two digits of its lesson"):
        find_exercises(package)


def test_an_unknown_key_lists_those_of_the_lesson(monkeypatch):
    monkeypatch.setattr("course.kit.exercise_cards.find_exercises", lambda: {"07-mean": MEAN, "08-x": MEAN})
    with pytest.raises(ValueError, match="There is no exercise '07-men'; there are 07-mean."):
        exercise("07-men")


def test_the_same_card_comes_back_so_that_hints_go_on(monkeypatch, capsys):
    monkeypatch.setattr("course.kit.exercise_cards.find_exercises", lambda: {"07-mean": MEAN})
    monkeypatch.setattr("course.kit.exercise_cards._cards", {})
    for _ in range(3):
        exercise("07-mean").hint()
    assert capsys.readouterr().out.splitlines() == [
        "**Hint 1 of 2.** Add them up.",
        "**Hint 2 of 2.** Divide by `len(values)`.",
        "There are no more hints.",
    ]


def test_a_check_shows_its_verdict_and_records_it(attended, capsys):
    card = ExerciseCard(MEAN)
    assert card.check(mean)
    assert not card.check(sum)
    assert capsys.readouterr().out.splitlines() == [
        "✓ **Correct.** The loss is such a mean.",
        "✗ **Not right yet.** that is the sum: divide by how many there are.",
        "",
        'There is a hint: press *Show a hint* above, or run `exercise("07-mean").hint()`.',
    ]
    assert ANSWERS.get("07-mean") == "wrong"


def test_a_hint_is_offered_after_a_wrong_check_while_one_is_left_and_never_else(attended, capsys):
    card = ExerciseCard(MEAN)
    card.check(sum)
    assert "There is a hint" in capsys.readouterr().out
    card.check(mean)
    card.check(lambda values: None)
    card.hint()
    card.hint()
    card.check(sum)
    assert "There is a hint" not in capsys.readouterr().out
    ExerciseCard(with_changes(hints=())).check(sum)
    assert "There is a hint" not in capsys.readouterr().out


def test_a_hint_taken_in_a_cell_appears_on_the_card_too(attended):
    card = ExerciseCard(MEAN)
    card.show()
    card.hint()
    assert len(card.hints.children) == 1 and not card.button.disabled


def test_the_card_shows_hints_one_by_one(attended, capsys):
    card = ExerciseCard(MEAN)
    card.show()
    assert "Add them up" not in capsys.readouterr().out
    assert "course-exercise" in card.box._dom_classes
    card.button.click()
    assert len(card.hints.children) == 1 and "Add them up" in card.hints.children[0].value
    card.button.click()
    assert "Divide by" in card.hints.children[1].value and card.button.disabled


def test_unattended_the_hints_are_folded_under_the_task(unattended, capsys):
    ExerciseCard(MEAN).show()
    task, _, hints = capsys.readouterr().out.partition("<details>")
    assert "**Exercise: The mean.** Write `mean(values)`." in task
    assert "Hint 2 of 2" in hints and "Add them up" in hints
