"""The chapters' exercises: each accepts its solution and rejects what is wrong, and
says what it is.
"""

import importlib
import pkgutil
import re

import numpy as np
import pytest

from tinyrmc.course import exercises
from tinyrmc.course.exercises.exercise import Exercise, exercise
from tinyrmc.engine import Tensor

MODULES = [
    name
    for _, name, _ in pkgutil.iter_modules(exercises.__path__)
    if name != "exercise"
]
ALL = {
    f"{module}.{name}": value
    for module in MODULES
    for name, value in vars(
        importlib.import_module(f"tinyrmc.course.exercises.{module}")
    ).items()
    if isinstance(value, Exercise)
}


def nothing(*_): ...


def unwritten(*_):
    raise NotImplementedError


@pytest.fixture(params=ALL.values(), ids=ALL.keys())
def ex(request):
    return request.param


def test_the_solution_is_right(ex):
    assert ex.judge(ex.__wrapped__).state == "right"


@pytest.mark.parametrize("answer", [nothing, unwritten])
def test_an_empty_answer_is_not_attempted(ex, answer):
    assert ex.judge(answer).state == "not attempted"


def plain(value):
    return value.data if isinstance(value, Tensor) else value


def test_another_shape_is_wrong(ex):
    def one_more(value):
        if isinstance(value, dict):
            return {**value, "one more": 0}
        if isinstance(value, (tuple, list)):
            return [*value, 0]
        return value + "!" if isinstance(value, str) else np.stack([plain(value)] * 2)

    assert ex.judge(lambda *arguments: one_more(ex(*arguments))).state == "wrong"


def test_numbers_that_are_none_are_wrong(ex):
    def spoilt(value):
        if isinstance(value, dict):
            return {key: spoilt(inner) for key, inner in value.items()}
        if isinstance(value, (tuple, list)):
            return [spoilt(inner) for inner in value]
        return (
            value + "!" if isinstance(value, str) else np.asarray(plain(value)) * np.nan
        )

    assert ex.judge(lambda *arguments: spoilt(ex(*arguments))).state == "wrong"


def test_there_are_hints_cases_and_mistakes(ex):
    assert (
        ex.__doc__
        and len(ex.hints) >= 1
        and len(ex.cases()) >= 3
        and len(ex.mistakes) >= 2
    )


@pytest.mark.parametrize(
    ("name", "what"),
    [(name, what) for name, each in ALL.items() for what in each.mistakes],
)
def test_a_mistake_is_rejected_and_named(name, what):
    verdict = ALL[name].judge(ALL[name].mistakes[what])
    assert verdict.state == "wrong" and verdict.text.endswith(f"when {what}")


def test_the_cases_are_always_the_same(ex):
    assert repr(ex.cases()) == repr(ex.cases())


def test_the_solution_is_printed_without_what_makes_it_an_exercise(ex, capsys):
    ex.solution()
    text = capsys.readouterr().out
    assert (
        f"\ndef {ex.__name__}(" in f"\n{text}"
        and "@exercise" not in text
        and "mistakes" not in text
    )
    for name in re.findall(r"\b_[a-z]\w+", text):
        assert f"\ndef {name}(" in f"\n{text}"  # what it calls, a learner has not seen


# --- What is said about an answer -----------------------------------------------------


@exercise(
    cases=lambda rng: [(rng.normal(size=(2, 3)), 2.0), (rng.normal(size=4), 0.0)],
    hints=["first", "second"],
    mistakes={"it is added": lambda x, factor: x + factor},
)
def times(x, factor):
    """x times factor."""
    return x * factor


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x, factor: x, "the result is "),
        (lambda x, factor: x, "in case 1: x of shape (2, 3), entries up to "),
        (lambda x, factor: x, "; 6 of 6 entries differ"),
        (
            lambda x, factor: x.T,
            "the result has the shape (3, 2), expected (2, 3), in case 1",
        ),
        (
            lambda x, factor: x * np.nan,
            "the result is NaN, not a number, at [0, 0], expected ",
        ),
        (lambda x, factor: "a", "the result is a str, expected of shape (2, 3)"),
        (lambda x, factor: x[7], "it raises IndexError: index 7 is out of bounds"),
        (lambda x, factor: x.__imul__(factor), "it changes its argument x"),
        (lambda x, factor: x + factor, "That is what comes out when it is added"),
        (
            np.ones(3),
            "check takes the function itself, not an ndarray: check(times), without "
            "its arguments",
        ),
    ],
)
def test_what_is_said_of_a_wrong_answer(answer, said):
    verdict = times.judge(answer)
    assert verdict.state == "wrong" and said in verdict.text


@pytest.mark.parametrize(
    ("case", "shown"),
    [
        (((4,), [1, (2, [3])], ()), "in case 1: a (4,), b [1, (2, [3])], c ()"),
        (
            ([*range(100)], np.zeros(4), np.zeros((5, 1))),
            ", 30, 31, ..., b [0. 0. 0. 0.], c of shape (5, 1), entries up to 0",
        ),
    ],
)
def test_a_case_is_shown_as_python_writes_it(case, shown):
    def echo(a, b, c):
        return 1

    assert (
        shown
        in exercise(cases=lambda rng: [case], hints=[], mistakes={})(echo)
        .judge(lambda *_: 2)
        .text
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.reverse(),
        lambda x: x.pop(),
        lambda x: x.clear(),
        lambda x: x.append(4),
    ],
)
def test_an_answer_that_changes_a_list_is_told_so(change):
    length = exercise(cases=lambda rng: [([1, 2, 3],)], hints=[], mistakes={})(len)
    assert (
        "it changes its argument obj"
        in length.judge(lambda x: len([*x]) + bool(change(x))).text
    )


@pytest.mark.parametrize("junk", [None, np.zeros(2), 7, ()])
def test_an_answer_that_puts_something_else_into_a_list_is_told_so(junk):
    length = exercise(cases=lambda rng: [([(1, 2), 3.0, "a"],)], hints=[], mistakes={})(
        len
    )
    for place in range(3):
        assert (
            "it changes its argument obj"
            in length.judge(
                lambda x, place=place: (len(x), x.__setitem__(place, junk))[0]
            ).text
        )


class Refusing:
    """An object that answers no question, as another library's arrays do where their
    values are not to be read.
    """

    def __array__(self, *_, **__):
        raise RuntimeError("not now")

    def __ne__(self, other):
        raise RuntimeError("not now")


@pytest.mark.parametrize(
    "odd",
    [
        Refusing(),
        np.array(["a", "b"]),
        Tensor(np.ones(2)),
        np.ma.masked,
        [[1], [1, 2]],
        (k for k in "ab"),
        {1},
    ],
)
@pytest.mark.parametrize("expected", ["ab", np.ones(3)])
def test_a_result_that_is_neither_number_nor_text_is_wrong(odd, expected):
    verdict = exercise(cases=lambda rng: [()], hints=[], mistakes={})(
        lambda: expected
    ).judge(lambda: odd)
    assert verdict.state == "wrong" and verdict.text.startswith("the result ")


def test_an_answer_is_tried_once_more_for_all_mistakes_together_and_prints_no_more(
    capsys,
):
    calls = []

    def answer(x):
        calls.append(x)
        print("called")
        return 0.0

    mistakes = {f"it is {k}": lambda x, k=k: k - x for k in range(9)}
    twice = exercise(cases=lambda rng: [(1.0,), (2.0,)], hints=[], mistakes=mistakes)(
        lambda x: 2 * x
    )
    assert twice.judge(answer).state == "wrong"
    assert calls == [1.0, 1.0, 2.0]
    assert capsys.readouterr().out == "called\n"


def test_an_answer_that_always_raises_is_no_mistake_that_raises_something_else():
    pointed = {"a point is put behind": lambda x: int(x + ".")}
    whole = exercise(cases=lambda rng: [("1",), ("2",)], hints=[], mistakes=pointed)(
        lambda x: 1
    )
    assert "That is" not in whole.judge(lambda _: int("none")).text
    assert whole.judge(lambda x: int(f"{x}.")).text.endswith(
        "when a point is put behind"
    )
    sometimes = exercise(
        cases=lambda rng: [("1",), ("x",)],
        hints=[],
        mistakes={"10 is added": lambda x: int(x) + 10},
    )(lambda x: 1)
    assert sometimes.judge(lambda x: 10 + int(x + " ")).text.endswith(
        "when 10 is added"
    )  # in other words, but with the same numbers


def test_an_error_without_words_is_told_by_its_name():
    def refuse(x, factor):
        raise AssertionError

    assert times.judge(refuse).text.startswith("it raises AssertionError, in case 1")


def test_an_exercise_is_called_like_its_solution():
    assert times(2, factor=3) == times(2, 3) == 6


def test_only_an_answer_that_is_the_mistake_in_every_case_is_told_so():
    assert (
        "That is"
        not in times.judge(lambda x, factor: x + factor if factor else x + 1).text
    )


def test_a_tensor_counts_as_its_numbers():
    assert times.judge(lambda x, factor: Tensor(x * factor)).state == "right"


def test_hints_come_one_after_the_other(capsys):
    again = exercise(cases=lambda rng: [], hints=["first", "second"], mistakes={})(
        times.__wrapped__
    )
    for said in (
        "hint 1 of 2: first",
        "hint 2 of 2: second",
        "No more hints; ex.times.solution() shows the solution.",
    ):
        again.hint()
        assert capsys.readouterr().out.strip() == said


@pytest.mark.parametrize(
    ("found", "expected", "said"),
    [
        ((1.0, 2.0), (1.0, 3.0), "the result[1] is 2, expected 3"),
        ((1.0,), (1.0, 3.0), "the result should be 2 things, not 1"),
        ({"a": 1.0}, {"b": 1.0}, "the result should have the keys b, not ['a']"),
        (
            {"b": np.zeros(2)},
            {"b": np.ones(2)},
            "the result['b'] is 0 at [0], expected 1; 2 of 2 entries differ",
        ),
        ("ab", "ba", "the result is 'ab', expected 'ba'"),
        (True, False, "the result is True, expected False"),
        (0.0, True, "the result is 0, expected 1"),
        (
            1 + 1e-6,
            1.0,
            "the result is 1.000001, expected 1",
        ),  # as many digits as it takes
        (1 / 3 + 2e-9j, 1 / 3, "the result is 0.333333+2e-09j, expected 0.333333"),
        (
            np.float32([1 / 3, 1]),
            np.array([1 / 3, 1]),
            "at [0], expected 0.333333333; 1 of 2 entries differ; float32 holds too "
            "few digits",
        ),
        (1.0, -np.inf, "the result is 1, expected -inf"),
    ],
)
def test_results_of_every_kind_are_compared(found, expected, said):
    same = exercise(cases=lambda rng: [()], hints=[], mistakes={})(lambda: expected)
    assert said in same.judge(lambda: found).text
    assert same.judge(lambda: expected).state == "right"
