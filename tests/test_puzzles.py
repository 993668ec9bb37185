"""A puzzle's rules: one line, no loop, and none but the words it names."""

import functools

import numpy as np
import pytest

from tinyrmc.course.exercises import arrays
from tinyrmc.course.exercises import puzzles as ex
from tinyrmc.course.oneline import one_line

ALLOWED = "a puzzle allows T, arange, np, shape, where and operators"


def comprehension(n):
    return np.where([k >= 0 for k in np.arange(n)], 1.0, 0.0)


def loop(n):
    for _ in np.arange(1):
        n = n + 0
    return 0.0 * np.arange(n) + 1


def two_lines(n):
    places = np.arange(n)
    return 0.0 * places + 1


def forbidden_function(n):
    return np.ones(n)


def forbidden_method(n):
    return (0 * np.arange(n)).clip(1)


def forbidden_builtin(n):
    return 0.0 * np.arange(int(n)) + 1


def helper(n):
    return forbidden_function(n)


def branch(n):
    return 0.0 * np.arange(n) + (1 if n else 0)


def by_a_list(n):
    return (0.0 * np.arange(n + 1) + 1)[[*np.arange(n)]]


def by_an_array(n):
    return (0.0 * np.arange(n) + 1)[np.arange(n)]


def a_list(n):
    return [1.0] * n


def a_tuple(n):
    return (1.0,) * n


def by_a_tuple(n):
    return (0.0 * np.arange(n) + 1)[(*np.arange(n),),]


def a_default(n, made=np.ones):
    return made(n)


arange = np.ones


def another_arange(n):
    return arange(n)


def decorated(function):
    return functools.wraps(function)(lambda n: np.ones(n))


@decorated
def behind_a_decorator(n):
    return 0.0 * np.arange(n)


def ones(n):
    return np.ones(n)


def step_with_a_name(n):
    return 0.0 * (places := np.arange(n)) + 1 + 0 * places


def test_right_numbers_found_in_another_way_are_refused_and_it_says_why():
    for answer, says in [
        (comprehension, "it has `[k >= 0 for k in np.arange(n)]`: no list, tuple, com"),
        (loop, "it takes more than one line"),
        (two_lines, "it takes more than one line"),
        (forbidden_function, f"it uses ones; {ALLOWED}"),
        (forbidden_method, "it uses clip;"),
        (forbidden_builtin, "it uses int;"),
        (helper, f"it uses forbidden_function; {ALLOWED}; copy the line of"),
        (branch, "it has `1 if n else 0`"),
        (by_a_list, "it has `*np.arange(n)`"),
        (by_an_array, "it looks up entries, in [np.arange(n)]"),
        (a_list, "it has `[1.0]`"),
        (a_tuple, "it has `(1.0,)`"),
        (by_a_tuple, "it has `(*np.arange(n),)`"),
        (a_default, "its line alone is wrong: it takes the arguments (n, made)"),
        (another_arange, "its line alone is wrong: the result is 0 at [0]"),
        (behind_a_decorator, "its line alone is wrong: the result is 0 at [0]"),
        (step_with_a_name, "it uses places;"),
        (eval("lambda n: 0.0 * np.arange(n) + 1"), "its text cannot be read"),
    ]:
        verdict = ex.ones.judge(answer)
        assert verdict.state == "wrong"
        assert verdict.text.startswith(f"its numbers are right, but {says}")
    assert "copy the line" not in ex.ones.judge(ones).text  # it is that line


def test_wrong_numbers_come_first():
    verdict = ex.ones.judge(lambda n: np.zeros(n))
    assert verdict.text.startswith("the result is 0 at [0], expected 1")


def test_an_axis_counted_from_the_front_is_told_and_nothing_forbidden_recommended():
    for puzzle, answer in [
        (ex.cumulative_sum, lambda x: np.tri(x.shape[0]) @ x),
        (ex.changes, lambda x: (np.eye(len(x)) - np.eye(len(x), k=-1)) @ x),
        (ex.shuffle, lambda M, order: (order[:, None] == np.arange(len(M))) * 1.0 @ M),
        (ex.unshuffle, lambda M, order: 1.0 * (np.c_[: len(M)] == order) @ M),
    ]:
        text = puzzle.judge(answer).text
        assert "Do you count axes from the end" in text and "swapaxes" not in text
    assert ".swapaxes(-1, -2) turns" in arrays.project.judge(lambda M, W: W @ M).text


def test_a_lambda_and_a_text_about_the_function_are_taken():
    answer = lambda n: 0.0 * np.arange(n) + 1  # noqa: E731
    assert ex.ones.judge(answer).state == "right"

    def told(n):
        """n ones."""
        return 0.0 * np.arange(n)[:] + 1

    assert ex.ones.judge(told).state == "right"


def test_what_a_puzzle_allows_beside_is_allowed_there_alone():
    one_line(ex.gated.function, ex.gated.words)
    with pytest.raises(Exception, match=r"it uses (exp|tanh);"):
        one_line(ex.gated.function, ex.ones.words)


def test_there_are_fifteen():
    assert len(ex.FIFTEEN) == 15


def test_your_result_is_drawn_beside_the_one_asked_for(capsys):
    drawn = ex.identity.check(lambda n: np.tri(n))
    assert "asked for: [[1., 0., 0.]," in repr(drawn)
    svg = drawn._repr_html_()
    assert svg.count("<rect") == 1 + 9 + 9 and svg.count("stroke-dasharray") == 3
    assert "currentColor" in svg and "#fff" not in svg  # on dark pages, too
    assert "stroke-dasharray" not in ex.ones.check(lambda n: [1] * n)._repr_html_()
    other_shape = ex.total.check(lambda x: x)._repr_html_()
    assert other_shape.count("stroke-dasharray") == 5
    for nothing in (lambda n: 1 / 0, lambda n: "<b>", lambda n: np.ones(99)):
        assert "yours" not in repr(ex.ones.check(nothing))
    assert ex.ones.check(lambda n: ...) is None
    for puzzle, answer, shown in [  # the case that the verdict names, or none
        (ex.total, lambda x: x @ (x / x), "case 4\n"),
        (ex.one_hot, lambda labels, C: labels == np.arange(C), "case 1\n"),
        (ex.cumulative_sum, lambda x: np.cumsum(x, axis=0), "None"),  # four axes
        (ex.causal_mask, lambda T: np.tri(T), "case 1\n"),
        (ex.ones, lambda n: np.ones(n)[None], "case 1\n"),
        (ex.ones, lambda n: np.float32(np.ones(n)) + 1e-6, "case 1\n"),
    ]:
        drawn = puzzle.check(answer)
        assert repr(drawn).startswith(shown)
        if "yours" in repr(drawn):
            assert "stroke-dasharray" in drawn._repr_html_()
    assert "#D55E00" in ex.total.check(lambda x: x @ x)._repr_html_()  # below 0
    for puzzle in ex.FIFTEEN:
        assert "asked for" in repr(puzzle.picture(puzzle.function))
