"""The chapters' exercises: each accepts its solution, rejects what is wrong, and says
what it is.
"""

import copy
import importlib
import pkgutil
import re

import numpy as np
import pytest
from answers import arrays_and_tape, backward
from answers import nth_farthest as tried
from answers.learning_memory_and_task import in_plain_floats

from tinyrmc.autograd.engine import Tensor
from tinyrmc.course import exercises
from tinyrmc.course.exercises import (
    arrays,
    going_fast,
    looking_inside,
    nth_farthest,
    puzzles,
    release,
    tape,
    through_time,
)
from tinyrmc.course.exercises.exercise import Exercise, exercise

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
WIDTH = 88  # columns of a cell that does not scroll


def nothing(*_): ...


def unwritten(*_):
    raise NotImplementedError


@pytest.fixture
def printed(capsys):
    """Calls a function and gives the lines that it prints, none of them too long."""

    def call(function, *arguments):
        capsys.readouterr()
        function(*arguments)
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if len(line) > WIDTH] == []
        return lines

    return call


def plain(value):
    return value.data if isinstance(value, Tensor) else value


def one_more(value):
    """A result with one more key, entry, character or axis."""
    if isinstance(value, dict):
        return {**value, "one more": 0}
    if isinstance(value, (tuple, list)):
        return [*value, 0]
    return value + "!" if isinstance(value, str) else np.stack([plain(value)] * 2)


def spoilt(value):
    """A result with NaN for every number."""
    if isinstance(value, dict):
        return {key: spoilt(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [spoilt(inner) for inner in value]
    return value + "!" if isinstance(value, str) else np.asarray(plain(value)) * np.nan


def spoiling(ex, spoil):
    return lambda *arguments: spoil(ex(*arguments))


# Their experiments train, or threads act in turn: the judge takes half a second to
# seconds for each answer. A change of the course has them tried at once (claims.yml).
DEAR = {
    "acting.update",
    "after_the_rmc.my_experiment",
    "breaking.diagnose",
    "capstone.picture",
    "cuda.cost_of_strides",
    "cuda.layer_norm",
    "going_fast.cost_of_pieces",
    "learning.my_task",
    "memory.my_task",
    "ppo.ppo_update",
    "tape.my_curve",
}
MINUTES = [pytest.mark.slow, pytest.mark.weekly]
in_two_parts = pytest.mark.parametrize(
    "names",
    [
        pytest.param(sorted(ALL.keys() - DEAR), id="of seconds"),
        pytest.param(sorted(DEAR), id="of minutes", marks=MINUTES),
    ],
)


@pytest.mark.slow
@in_two_parts
def test_right_empty_and_spoilt_answers_are_told_apart(names):
    for name, ex in ((name, ALL[name]) for name in names):
        assert ex.judge(ex.function).state == "right", name
        for empty in (nothing, unwritten):
            assert ex.judge(empty).state == "not attempted", name
        for spoil in (one_more, spoilt):
            answer = spoiling(ex, spoil)
            assert ex.judge(answer, explain=False).state == "wrong", name


def test_an_exercise_has_a_text_hints_cases_that_stay_and_mistakes():
    for name, ex in ALL.items():
        assert ex.__doc__ and ex.hints, name
        assert len(ex.cases()) >= 3 and len(ex.mistakes) >= 2, name
        assert repr(ex.cases()) == repr(ex.cases()), name


@in_two_parts
def test_every_mistake_is_rejected_and_named(names):
    unnamed = []
    for name, ex in ((name, ALL[name]) for name in names):
        for what, mistake in ex.mistakes.items():
            verdict = ex.judge(mistake)
            named = verdict.text.endswith(f"\nThat is what you get when {what}")
            if verdict.state != "wrong" or not named:
                unnamed.append((name, what, verdict.text))
    assert unnamed == []


def bars_by_number(panel, room, passes):
    panel.bar(range(9), [going_fast.loads(256, room, passes, 2**k) for k in range(9)])
    panel.set_xticks(range(9), 2 ** np.arange(9))
    panel.set(xlabel="blocks in a piece", ylabel="loads")


def test_a_classic_written_by_somebody_else_is_named_too():
    for ex, answer, said in [
        (
            arrays.centred,
            lambda M: M - M.mean(axis=-1, keepdims=True, dtype=np.float32),
            "digits only: is there float32 in it",
        ),
        (
            arrays.project,
            lambda M, W: np.einsum("bnf,bfk->bnk", M, W),
            "in einsum letter by letter",
        ),
        (
            puzzles.identity,
            lambda n: np.where(np.arange(n) == np.arange(n).T, 1, 0),
            ".T leaves a vector as it is",
        ),
        (
            puzzles.changes,
            lambda x: ((np.eye(len(x)) > 0) - (np.tri(len(x)) > 0)) @ x,
            "write 1.0 * before each",
        ),
        (nth_farthest.rank_by_norm, tried.by_norm, "after the reference your order"),
        (
            nth_farthest.rank_by_norm,
            lambda *case: tried.by_norm(*case, first=-1.0),
            "your order begins with the farthest",
        ),
        (nth_farthest.rank_by_norm, tried.at_place, "you treat m as a time step"),
        (tape.backward, arrays_and_tape.walk_turned, "you turn the tape itself over"),
        (tape.learn, arrays_and_tape.taught_elsewhere, "no gradient reaches them"),
        (
            tape.learn,
            lambda *case: arrays_and_tape.taught(*case, tape=[]),
            "make a new tape in each step",
        ),
        *(
            (
                nth_farthest.normed_attention,
                lambda xp, *case, left=left: tried.by_reshape(*case, **left),
                said,
            )
            for left, said in (
                ({"out": False}, "heads away where it stands"),
                ({"apart": False}, "a reshape alone cuts the heads apart"),
                ({"back": False}, "you reshape the results of the heads"),
                (dict.fromkeys(("out", "apart", "back"), False), "away and back"),
            )
        ),
        (release.settles, in_plain_floats, "nothing can be divided by it"),
        (through_time.through_time, backward.given_to_m, "to the memory's gradient"),
        (through_time.in_windows, backward.windows_from_the_end, "from the end"),
        (
            looking_inside.readable,
            lambda *case: tried.probe(*case, score=tried.column_by_column),
            "the mean of each column's share",
        ),
        (
            looking_inside.readable,
            lambda *case: tried.probe(*case, score=tried.correlated_columns),
            "each column's correlation",
        ),
        (
            going_fast.cost_of_pieces,
            bars_by_number,
            "the row of places, along the axis below, is 0 at [0], expected 1",
        ),
    ]:
        assert said in ex.judge(answer).text.replace("\n", " "), ex.name


def test_the_solution_is_printed_without_what_makes_it_an_exercise(printed):
    for name, ex in ALL.items():
        text = "\n".join(["", *printed(ex.solution)])
        kind = "class " if isinstance(ex.function, type) else "def "
        assert f"\n{kind}{ex.__name__}" in text, name
        assert "@exercise" not in text and "mistakes" not in text, name
        for helper in re.findall(r"\b_[a-z]\w+", text):
            assert f"\ndef {helper}(" in text  # what it calls, a learner has not seen


@pytest.mark.slow
@in_two_parts
def test_nothing_that_an_exercise_prints_scrolls(names, printed):
    for name, ex in ((name, ALL[name]) for name in names):
        for mistake in [*ex.mistakes.values()][: 1 if name in DEAR else 2]:
            printed(ex.check, mistake)
        for _ in ex.hints:
            printed(ex.hint)
        ex.hints_given = 0


# --- What is said about an answer -----------------------------------------------------


def made(solution, *cases, **words):
    """An exercise with these cases; a function of a generator stands for drawn ones."""
    drawn = cases[0] if cases and callable(cases[0]) else lambda rng: list(cases)
    words = {"cases": drawn, "hints": [], "mistakes": {}} | words
    return exercise(**words)(solution)


def given(right, found):
    """The verdict on `found` where `right` is right."""
    return made(lambda: right, ()).judge(lambda: found)


@exercise(
    cases=lambda rng: [(rng.normal(size=(2, 3)), 2.0), (rng.normal(size=4), 0.0)],
    hints=["first", "second"],
    mistakes={"you add it": lambda x, factor: x + factor},
)
def times(x, factor):
    """x times factor."""
    return x * factor


def test_what_is_said_of_a_wrong_answer():
    for answer, said in [
        (lambda x, factor: x, "the result is "),
        (lambda x, factor: x, "\nin case 1: x [["),
        (lambda x, factor: x, "; 6 of 6 entries differ\n  yours: [["),
        (lambda x, factor: x.T, "has the shape (3, 2), expected (2, 3)\nin case 1: "),
        (lambda x, factor: x * np.nan, "is NaN (not a number) at [0, 0], expected "),
        (lambda x, factor: "a", "the result is a str, expected [["),
        (lambda x, factor: x[7], "it raises IndexError: index 7 is out of bounds"),
        (lambda x, factor: 1 / 0, "it raises ZeroDivisionError: division by zero\nin "),
        (lambda x, factor: x.__imul__(factor), "it changes its argument x"),
        (lambda x, factor: x + factor, "\nThat is what you get when you add it"),
        (np.ones(3), "check takes the function itself, not an ndarray: check(times)"),
    ]:
        verdict = times.judge(answer)
        assert verdict.state == "wrong" and said in verdict.text


def test_a_case_is_shown_as_python_writes_it():
    for case, shown in [
        (((4,), [1, (2, [3])], ()), "in case 1: a (4,), b [1, (2, [3])], c ()"),
        (("1", ("+", 2), [""]), "in case 1: a '1', b ('+', 2), c ['']"),
        (
            ([*range(100)], np.zeros(4), np.zeros((5, 3))),
            "9, 40, 41, ...\n  b [0, 0, 0, 0]\n  c of shape (5, 3), entries up to 0",
        ),
    ]:

        def echo(a, b, c):
            return 1

        text = made(echo, case).judge(lambda *_: 2).text
        assert f"{shown}\nTry it: echo(*ex.echo.case(1)); right is ex.echo(" in text


def test_a_verdict_is_printed_in_lines_that_do_not_scroll(printed):
    def solution(names):
        return 1

    def answer(names):
        raise ValueError("too many words to stand in one line " * 5)

    *raised, case, names, more, try_it = printed(
        made(solution, ([f"name-{k}" for k in range(50)],)).check, answer
    )
    assert try_it.startswith("Try it: answer(*ex.solution.case(1))")
    assert raised[0].startswith("wrong: it raises ValueError: too many words")
    assert raised[-1].startswith("in line 2 of answer: raise ValueError(")
    assert all(line.startswith("    ") for line in raised[1:-1])
    assert case == "in case 1:" and names.startswith("  names ['name-0', 'name-1', ")
    assert more.startswith("    'name-") and more.endswith(" ...")


def test_an_answer_that_changes_a_list_is_told_so():
    changes = [list.reverse, list.pop, list.clear, lambda x: x.append(4)]
    for junk in (None, np.zeros(2), 7, ()):
        changes += [lambda x, k=k, junk=junk: x.__setitem__(k, junk) for k in range(3)]
    for change in changes:

        def answer(x, change=change):
            length = len(x)
            change(x)
            return length

        verdict = made(len, ([(1, 2), 3.0, "a"],)).judge(answer)
        assert "it changes its argument obj" in verdict.text


class Refusing:
    """An object that answers no question, as another library's arrays do where their
    values are not to be read.
    """

    def __array__(self, *_, **__):
        raise RuntimeError("not now")

    def __ne__(self, other):
        raise RuntimeError("not now")


def test_a_result_that_is_neither_number_nor_text_is_wrong():
    for odd in [
        Refusing(),
        np.array(["a", "b"]),
        Tensor(np.ones(2)),
        np.ma.masked,
        [[1], [1, 2]],
        (k for k in "ab"),
        {1},
    ]:
        for expected in ["ab", np.ones(3)]:
            verdict = given(expected, odd)
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
    twice = made(lambda x: 2 * x, (1.0,), (2.0,), mistakes=mistakes)
    assert twice.judge(answer).state == "wrong"
    assert calls == [1.0, 1.0, 2.0]
    assert capsys.readouterr().out == "called\n"


def test_an_answer_that_always_raises_is_no_mistake_that_raises_something_else():
    pointed = {"you put a point behind": lambda x: int(x + ".")}
    whole = made(lambda x: 1, ("1",), ("2",), mistakes=pointed)
    last = whole.judge(lambda _: int("none")).text.splitlines()[-1]
    assert last.startswith("Try it")
    assert whole.judge(lambda x: int(f"{x}.")).text.endswith("you put a point behind")


def test_an_answer_that_sometimes_raises_is_the_mistake_with_the_same_numbers():
    added = {"you add 10": lambda x: int(x) + 10}
    sometimes = made(lambda x: 1, ("1",), ("x",), mistakes=added)
    in_other_words = sometimes.judge(lambda x: 10 + int(x + " ")).text
    assert in_other_words.endswith("you add 10")


def test_only_an_answer_that_is_the_mistake_in_every_case_is_told_so():
    def answer(x, factor):
        return x + factor if factor else x + 1

    assert "That is" not in times.judge(answer).text


def test_a_tensor_counts_as_its_numbers_and_an_exercise_as_its_solution():
    assert times(2, factor=3) == times(2, 3) == 6
    assert times.judge(lambda x, factor: Tensor(x * factor)).state == "right"


def test_a_chapter_goes_on_with_the_answer_if_it_is_right_else_the_solution(printed):
    def kept(answer):
        used = []
        lines = printed(lambda: used.append(times.yours(answer)))
        return used[0], lines

    def right(x, factor):
        return factor * x

    goes_on = "the solution is used from here on"
    assert kept(right) == (right, ["times: yours is used from here on"])
    for rows in (list, tuple):
        listed, _ = kept(lambda x, factor, rows=rows: rows(factor * x))
        assert np.array_equal(listed(np.eye(2), 3) > 1, np.eye(2))
    assert kept(nothing) == (times, [f"times is not written yet: {goes_on}"])
    assert kept(lambda x, factor: x) == (times, [f"times is not right yet: {goes_on}"])


def test_hints_come_one_after_the_other(printed):
    again = made(times.function, hints=["first", "second"])
    assert printed(again.hint) == ["hint 1 of 2: first"]
    assert printed(again.hint) == ["hint 2 of 2: second"]
    for _ in range(2):
        assert printed(again.hint) == [
            "No more hints; ex.times.solution() shows the solution."
        ]


def test_results_of_every_kind_are_compared():
    for found, expected, said in [
        ((1.0, 2.0), (1.0, 3.0), "the result[1] is 2, expected 3"),
        ((1.0,), (1.0, 3.0), "the result should be a list of 2, not one of 1"),
        (1.0, (1.0, 3.0), "the result should be a list of 2, not a float"),
        ({"a": 1.0}, {"b": 1.0}, "the result should have the keys b, not ['a']"),
        ([1.0], {"b": 1.0}, "the result should have the keys b, not a list"),
        (
            {"b": np.zeros(2)},
            {"b": np.ones(2)},
            "the result['b'] is 0 at [0], expected 1; 2 of 2 entries differ",
        ),
        ("ab", "ba", "the result is 'ab', expected 'ba'"),
        (True, False, "the result is True, expected False"),
        (0.0, True, "the result is 0, expected 1"),
        # as many digits as it takes
        (1 + 1e-6, 1.0, "the result is 1.000001, expected 1"),
        (1 / 3 + 2e-9j, 1 / 3, "the result is 0.333333+2e-09j, expected 0.333333"),
        (
            np.float32([1 / 3, 1]),
            np.array([1 / 3, 1]),
            "at [0], expected 0.333333333; 1 of 2 entries differ; float32 holds too "
            "few digits",
        ),
        (1.0, -np.inf, "the result is 1, expected -inf"),
        (np.inf, 1.0, "the result is inf, expected 1"),
    ]:
        assert said in given(expected, found).text
        assert given(expected, copy.deepcopy(expected)).state == "right"
    unfinished = np.array([np.nan, np.inf, -np.inf])
    assert given(unfinished, unfinished.copy()).state == "right"
