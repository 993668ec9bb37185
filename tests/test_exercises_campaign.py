"""Answers that the exercises' authors did not think of, tried on every check.

Plausible wrong answers, at least four for each of the exercises, most of which
only a later case finds out, and right ones that go about it in another way: other
orders of axes, loops, einsum, lists and stacked arrays for tuples, other kinds of
number, a memo. The folder `answers` has them. No wrong one may pass, and no right one
may be refused. Among them: code for exactly one leading axis or for none, walks along
every path, a sum by many that nobody exchanges, small numbers added and large ones
clipped, differences in the place of derivatives, probes of ones, float32 inside,
numbers for truth values, read-only views, a branch without `return`.
"""

import importlib
import inspect
import pkgutil
import warnings

import answers
import numpy as np
import pytest
from test_exercises import ALL, in_two_parts

from tinyrmc.course.exercises.exercise import Exercise
from tinyrmc.course.exercises.recorded import Recorded

pytestmark = pytest.mark.slow
COLLECTIONS = [
    importlib.import_module(f"answers.{name}")
    for _, name, _ in pkgutil.iter_modules(answers.__path__)
]
WRONG = {ex: tried for each in COLLECTIONS for ex, tried in each.WRONG.items()}
RIGHT = {ex: tried for each in COLLECTIONS for ex, tried in each.RIGHT.items()}
SAID = (
    "That is what you get",
    "It looks as if",
    "It goes wrong",
    "It is right except",
    "In case",
)


def judge(ex, answer, explain=True):
    """The verdict; where an answer would take xp first, the one on NumPy."""
    if isinstance(ex, Recorded):
        return Exercise.judge(ex, lambda xp, *case: answer(*case), explain)
    return ex.judge(answer, explain)


@pytest.fixture(autouse=True)
def no_warnings():
    """Some answers overflow, or drop an imaginary part, as learners' do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_every_exercise_is_tried_on_four_wrong_answers_and_a_right_one():
    for name, ex in ALL.items():
        assert len(WRONG[ex]) >= 4 and len(RIGHT[ex]) >= 1, name


def judged(collection, names, explain):
    """(exercise, number of the answer, verdict) for all of them."""
    for ex in map(ALL.get, names):
        for number, answer in enumerate(collection[ex]):
            yield ex, number, judge(ex, answer, explain)


@in_two_parts
def test_a_wrong_answer_is_refused(names):
    for ex, number, verdict in judged(WRONG, names, explain=False):
        assert verdict.state == "wrong", (ex.chapter, ex.name, number)
        said = f"(*ex.{ex.name}.case(", "its numbers are right, but it loops"
        assert any(words in verdict.text for words in said)


@in_two_parts
def test_a_right_answer_is_taken(names):
    for ex, number, verdict in judged(RIGHT, names, explain=True):
        assert verdict.state == "right", (ex.chapter, ex.name, number, verdict.text)


@pytest.mark.weekly
def test_more_than_half_of_the_wrong_answers_are_told_what_is_wrong():
    texts = [
        judge(ex, answer).text
        for ex, tried in WRONG.items()
        for answer in tried[::5]  # a fifth of them says as much
    ]
    told = sum(
        "its numbers are right" in text or text.splitlines()[-1].startswith(SAID)
        for text in texts
    )
    assert told > 0.55 * len(texts)


@pytest.mark.weekly
def test_every_argument_counts():
    """An answer that takes zeros for an argument, or a number from its first call."""

    def zeros(value):
        if isinstance(value, np.ndarray):
            return np.zeros_like(value)
        if isinstance(value, (tuple, list)):
            return type(value)(map(zeros, value))
        raise TypeError

    def instead(ex, k, change):
        def answer(*arguments):
            found = [*arguments]
            found[k] = change(found[k])
            return ex.function(*found)

        vars(answer)["__signature__"] = inspect.signature(ex.function)
        return answer

    def kept():
        first = []

        def change(value):
            if not isinstance(value, (int, float, np.number)):
                raise TypeError
            first.append(value)
            return first[0]

        return change

    # A size, a loop's start, a seed: another one gives the same.
    idle = {
        ("gates.gate_vjp", "b"),  # of a sum, whose gradient has no b
        ("through_time.g_psi_vjp", "offset"),  # likewise
        *(("invariants.size_of_the_scores", name) for name in "QKV"),  # tell a size
        ("nth_farthest.right_with_errors", "seed"),
        ("programs.constant_answer", "symbols"),
        ("engine_tour.length_vjp", "needs"),  # which inputs want a gradient: x does
    }
    for name, ex in ALL.items():
        if isinstance(ex.function, type):
            continue
        for k, argument in enumerate(inspect.signature(ex.function).parameters):
            for change in (zeros, kept()):
                verdict = ex.judge(instead(ex, k, change), explain=False)
                if (name, argument) not in idle:
                    assert verdict.state == "wrong", (name, argument)
