"""The machinery of every exercise: cases that are made of others, kinds and memory of
results, limits to work, diagnoses, and what is remembered of the solved ones.
"""

import importlib
import inspect
import itertools
import json
import re
import sys
import time
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from test_exercises import ALL, given, made

from tinyrmc import Tape, course
from tinyrmc import primitives as p
from tinyrmc.course import limits, record
from tinyrmc.course.cases import LARGE
from tinyrmc.course.compare import Wrong
from tinyrmc.course.exercises import (
    acting,
    arrays,
    attention,
    breaking,
    checking,
    first,
    gates,
    language,
    learning,
    looking_inside,
    memory,
    normalisation,
    nth_farthest,
    one_hop,
    ppo,
    programs,
    rare_words,
    release,
    tape,
    worlds,
)
from tinyrmc.course.exercises.derived import by_complex_step
from tinyrmc.course.exercises.exercise import exercise, normal
from tinyrmc.course.exercises.experiments import borne_out
from tinyrmc.course.exercises.used import used
from tinyrmc.course.exercises.whole import _check_draw, _check_picture
from tinyrmc.course.overview import exercises
from tinyrmc.course.panels import new_panel


def squares(x):
    return x * x


def some(*shape):
    return lambda rng: [(np.ones(2),), (rng.normal(size=shape),)]


# --- Cases ----------------------------------------------------------------------------


def test_cases_of_two_leading_axes_are_six_of_the_first_that_is_drawn():
    ex = made(squares, some(4), leading="x")
    case = ex.cases()[-1]
    assert case.about == "with two leading axes"
    assert case.arguments["x"].shape == (2, 3, 4)
    assert len(np.unique(case.arguments["x"])) == 24


def test_a_solution_treats_each_example_of_stacked_cases_for_itself():
    for ex in (attention.attention, attention.softmax, checking.softmax_vjp):
        (case,) = (each for each in ex.cases() if "leading" in each.about)
        whole = ex(*case.copies())
        for place in np.ndindex(2, 3):
            alone = ex(*(each[place] for each in case.copies()))
            np.testing.assert_allclose(whole[place], alone, rtol=1e-12)


def test_arguments_of_any_size_come_very_large():
    ex = made(squares, some(4), anysize="x")
    *_, case = ex.cases()
    assert case.about == "with large numbers"
    assert abs(case.arguments["x"]).max() > LARGE / 10


def test_a_case_is_there_to_be_tried():
    (x,) = attention.softmax.case(1)
    assert x.shape == (5,)
    x[:] = 0
    assert attention.softmax.case(1)[0].any()  # another copy
    with pytest.raises(ValueError, match=r"no case 99: there are 1 to \d+"):
        attention.softmax.case(99)


def test_a_small_case_is_shown_whole_and_says_how_to_get_it():
    text = tape.unbroadcast.judge(lambda g, shape: g.max()).text
    assert "\nTry it: unbroadcast(*ex.unbroadcast.case(1)); right is" in text
    text = made(squares, (np.array([1.5, -2.0]),)).judge(lambda x: x + 1).text
    assert "x [1.5, -2]" in text
    assert "\n  yours: [2.5, -1]\n  right: [2.25, 4]\n" in text


# --- What a result must be like -------------------------------------------------------


def test_numbers_are_of_the_right_kind_or_whole_for_real_ones():
    truths, real = np.array([True, False]), np.array([1.0, 0.0])
    for right, found, said in [
        (truths, real, "expected truth values"),
        (truths, np.array([1, 0]), "expected truth values"),
        (np.array([3, 1]), np.array([3.0, 1.0]), "expected whole numbers"),
        (real, real + 0j, "expected real numbers"),
    ]:
        assert said in given(right, found).text
    for found in (np.array([1, 0]), truths, [1, 0]):
        assert given(real, found).state == "right"


def test_a_stacked_array_will_do_for_a_pair_but_where_the_form_counts():
    def pair():
        return np.ones(3), np.zeros(3)

    assert made(pair, ()).judge(lambda: np.stack(pair())).state == "right"
    kept = made(pair, (), form=True)
    assert kept.judge(pair).state == "right"
    assert kept.judge(lambda: np.stack(pair())).state == "wrong"
    assert "a tuple, not a list" in kept.judge(lambda: list(pair())).text


def test_where_each_entry_counts_a_small_number_is_not_zero():
    ex = made(lambda: np.array([1.0, 0.0]), (), precise=True)
    assert ex.judge(lambda: np.array([1.0, 1e-13])).state == "wrong"
    assert "do you clip something" in ex.judge(lambda: np.array([1.0, 1e-13])).text
    loose = made(lambda: np.array([1.0, 0.0]), ())
    assert loose.judge(lambda: np.array([1.0, 1e-13])).state == "right"


def test_a_small_number_beside_a_large_one_may_have_the_rounding_of_both():
    ex = made(lambda: np.array([1e12, 0.5]), ())
    assert ex.judge(lambda: np.array([1e12, 0.5 + 1e-4])).state == "right"
    assert ex.judge(lambda: np.array([1e12, 1.0])).state == "wrong"
    assert made(lambda: 0.5, ()).judge(lambda: 0.5 + 1e-4).state == "wrong"


def test_a_result_has_memory_of_its_own():
    turned = made(lambda x: x[::-1].copy(), (np.arange(3.0),))
    assert "a view of the argument x" in turned.judge(lambda x: x[::-1]).text
    allowed = made(lambda x: x[::-1].copy(), (np.arange(3.0),), views=True)
    assert allowed.judge(lambda x: x[::-1]).state == "right"
    rows = made(lambda: np.ones((2, 3)), ())
    assert "read-only" in rows.judge(lambda: np.broadcast_to(1.0, (2, 3))).text
    same = made(lambda x: np.tile(x, (2, 1)), (np.arange(3.0),), views=True)
    assert "read-only" in same.judge(lambda x: np.broadcast_to(x, (2, 3))).text


# --- What an answer must not do -------------------------------------------------------


def paths(depth):
    return paths(depth - 1) + paths(depth - 1) if depth else 1


def paths_on_a_stack(depth):
    found, stack = 0, [depth]
    while stack:
        d = stack.pop()
        stack += [d - 1, d - 1] if d else []
        found += d == 0
    return found


def test_a_walk_along_every_path_is_stopped():
    ex = made(lambda depth: 2**depth, (60,), lines=100)
    for walk in (paths, paths_on_a_stack):
        assert "it has run 100 lines" in ex.judge(walk).text
    assert sys.gettrace() is None
    assert ex.judge(lambda depth: 2**depth).state == "right"


def endless(x):
    try:
        while x.ndim < 5:
            np.sum(x, axis=0)
    except Exception:
        return x
    return x * x


def endless_elsewhere(x):
    return endless(x) if x.size > 2 else x


def test_a_loop_without_an_end_is_stopped_and_its_line_is_named(monkeypatch):
    monkeypatch.setattr(limits, "SECONDS", 0.3)
    text = made(squares, (np.ones(2),), (np.ones(3),)).judge(endless).text
    assert re.match(
        r"it has not come to an end after 0.3 seconds\nin line [34] of endless: "
        r"(while x.ndim < 5:|np.sum\(x, axis=0\))\nin case 1: ",
        text,
    )
    # another case is what goes wrong first
    text = made(squares, (2 * np.ones(2),), (np.ones(3),)).judge(endless_elsewhere).text
    assert text.startswith("the result is 2 at [0], expected 4")
    assert sys.gettrace() is None


def test_a_loop_on_one_line_is_stopped_too(monkeypatch):
    monkeypatch.setattr(limits, "SECONDS", 0.2)

    def spins(x):
        while True: pass  # noqa: E701  # fmt: skip

    def draws(x):
        return [each for each in iter(int, 1)]

    def comes_to_an_end(x):
        for _ in range(3): x = x + 0  # noqa: E701  # fmt: skip
        return x * x

    ex = made(squares, some(4))
    for answer, line in ((spins, "while True: pass"), (draws, "return [each")):
        assert re.search(
            rf"\nin line \d of .*: {re.escape(line)}", ex.judge(answer).text
        )
    assert ex.judge(comes_to_an_end).state == "right"


def test_the_solution_is_no_attempt(capsys):
    for own in (arrays.centred, arrays.centred.function):
        arrays.centred.check(own)
        assert "not attempted: ex.centred is the solution" in capsys.readouterr().out


def test_of_an_exception_no_likeness_is_told():
    ex = made(
        squares, lambda rng: [normal(rng, (3, 1)), normal(rng, 4), normal(rng, 5)]
    )
    assert ex.judge(lambda x: 2.5 * x * x).text.endswith("2.5 times the right one")
    text = ex.judge(lambda x: 2.5 * x * x if x.ndim == 1 else x[0, 7]).text
    assert "IndexError" in text and "times" not in text


def test_an_answer_that_is_small_is_not_called_cut_down_when_it_is_zero():
    ex = made(lambda x: x / (1 + abs(x).sum()), some(4))
    assert ex.judge(lambda x: 0 * x).text.endswith("your result is 0 everywhere")


def test_on_the_tape_a_loop_without_an_end_is_stopped_too(monkeypatch):
    def on_the_tape(xp, f, i, m, candidate, forget_bias):
        while xp is not np:
            pass
        return memory.update_memory.function(np, f, i, m, candidate, forget_bias)

    monkeypatch.setattr(limits, "SECONDS", 0.5)
    text = memory.update_memory.judge(on_the_tape).text
    assert "on NumPy, but it has not come to an end after 0.5 seconds\nin line" in text
    assert " of on_the_tape: " in text


def test_an_exception_names_the_line_of_the_learner_that_it_comes_from():
    def helper(x):
        return np.linalg.solve(x, np.ones(7))

    def answer(x):
        x = x + 1
        return helper(x)

    ex = made(squares, (np.ones((3, 3)),))
    said = "\nin line 2 of helper: return np.linalg.solve(x, np.ones(7))\nin case 1"
    assert said in ex.judge(answer).text
    assert "\nin your lambda: " in ex.judge(lambda x: x[9]).text


def test_a_right_answer_that_is_slow_is_told_its_cost(capsys, monkeypatch):
    monkeypatch.setenv("TINYRMC_PROGRESS", "")
    module = importlib.import_module("tinyrmc.course.exercises.exercise")
    monkeypatch.setattr(module, "FELT", 0.0)  # however fast this machine is

    def one_by_one(x, gain, offset):
        y = np.empty_like(x)
        for k in np.ndindex(x.shape[:-1]):
            for j in range(x.shape[-1]):
                away = x[k][j] - x[k].mean()
                y[k][j] = away / np.sqrt(x[k].var() + 1e-5) * gain[j] + offset[j]
        return y

    normalisation.layer_norm.check(one_by_one)
    assert "But it is slow: " in capsys.readouterr().out
    assert normalisation.layer_norm.yours(one_by_one) is normalisation.layer_norm
    assert "right but slow" in capsys.readouterr().out


def test_an_answer_that_calls_the_solution_is_refused():
    verdict = normalisation.layer_norm.judge(lambda *c: normalisation.layer_norm(*c))
    assert "it calls ex.layer_norm, which is the solution" in verdict.text


def test_a_number_moved_and_moved_back_is_not_the_same():
    def central(x):
        x += 1e-6
        x -= 1e-6
        return x.sum()

    def total(x):
        return x.sum()

    verdict = made(total, (np.arange(1, 9) / 7,)).judge(central)
    assert "if only by rounding: x + h - h is not quite x." in verdict.text


def test_of_two_mistakes_the_first_is_told():
    def times(x, y):
        return x * y

    cases = [(np.arange(3.0) + k, np.arange(3.0) - 2 * k) for k in range(1, 5)]
    mistakes = {"you add": lambda x, y: x + y, "you subtract": lambda x, y: x - y}
    both = made(times, *cases, mistakes=mistakes)
    verdict = both.judge(lambda x, y: x + y if y[0] == -2 else x**3)
    assert verdict.text.endswith("In case 1 that is what you get when you add")


def test_too_much_memory_is_refused():
    def all_at_once(n):
        return float(np.arange(n, dtype=float).sum())

    ex = made(lambda n: n * (n - 1) / 2, (100_000,), memory=100_000)
    assert "it holds 0.8 MB at one time, 0.1 MB are" in ex.judge(all_at_once).text
    assert not tracemalloc.is_tracing()
    assert ex.judge(lambda n: sum(range(n)) * 1.0).state == "right"


def test_a_branch_without_return_is_wrong_and_an_empty_function_not_attempted():
    def half(x):
        if x.sum() > 0:
            return x * x

    def none(x):
        x = x * x

    def documented(x):
        """Nothing yet."""

    ex = made(squares, (np.ones(2),), (-np.ones(2),))
    assert "missing in one of its branches" in ex.judge(half).text
    assert "it returns nothing: is a `return` missing?" in ex.judge(none).text
    assert ex.judge(documented).state == "not attempted"
    assert ex.judge(lambda x: ...).state == "not attempted"
    assert ex.judge(lambda x: 0.0).state == "wrong"  # a constant is an answer
    ran = breaking.diagnose.judge(lambda network, rng: "none", explain=False)
    assert ran.state == "wrong" and "the result is 'none'" in ran.text


def test_another_number_of_arguments_is_told_so():
    text = made(squares, (np.ones(2),)).judge(lambda x, y: x).text
    assert text.startswith("it takes the arguments (x, y); it should take (x)")


# --- Diagnoses ------------------------------------------------------------------------


FORESEEN_BY_NOBODY = [
    (lambda M, W: (M[:, None] @ W).swapaxes(-1, -2), "transposed"),
    (lambda M, W: np.moveaxis(M[:, None] @ W, 0, 2), "with its axes in the order"),
    (lambda M, W: np.roll(M[:, None] @ W, 1, axis=-1), "shifted by one place"),
    (lambda M, W: 3 * (M[:, None] @ W), "is 3 times the right one"),
    (lambda M, W: -(M[:, None] @ W), "the right one, negated"),
    (lambda M, W: M[:, None] @ W + 0.5, "is off by 0.5, everywhere"),
    (lambda M, W: M[:, None] @ W / M.shape[-1], "times 1 / M.shape[-1]"),
    (lambda M, W: M[:, None] @ W / W.shape[-1] ** 0.5, "1 / the root of"),
    (lambda M, W: abs(M[:, None]) @ W, "you take M without its sign"),
    (lambda M, W: M[:, None] @ (W * 0 + W[:1]), "W with the first entry of its first"),
    (lambda M, W: M[:, None].astype(np.float32) @ W, "but to 7 digits only"),
    (lambda M, W: np.exp(M[:, None] @ W), "right one, with an exponential taken"),
    (lambda M, W: np.maximum(M[:, None] @ W, 0), "cut off below 0 (a ReLU)"),
]


def test_mistakes_that_nobody_foresaw_are_told_by_what_they_look_like():
    ex = made(arrays.project.function, arrays.project.make_cases)
    for answer, said in FORESEEN_BY_NOBODY:
        text = ex.judge(answer).text
        assert "\nIt looks as if " in text and said in text


def test_numbers_that_are_written_in_are_named():
    for ex, put, said in [
        (learning.sgd, {"momentum": 0.9}, "0.9 is written in for momentum"),
        (learning.sgd, {"rate": 0.01}, "0.01 is written in for rate"),
        (
            learning.adam_step,
            {"beta1": 0.9, "beta2": 0.999},
            "0.9 and 0.999 are written in for beta1 and beta2",
        ),
        (
            normalisation.layer_norm_gradient,
            {"epsilon": 1e-5},
            "1e-05 is written in for epsilon",
        ),
        (
            gates.weights_of_the_past,
            {"forget_bias": 1.0},
            "you leave forget_bias out, as if it were 1",
        ),
    ]:
        names = [*inspect.signature(ex.function).parameters]

        def answer(*case, ex=ex, names=names, put=put):
            return ex.function(*(dict(zip(names, case, strict=True)) | put).values())

        text = ex.judge(answer).text
        assert text.endswith(f"It looks as if {said}"), text


def test_a_likeness_must_hold_in_every_case():
    def sometimes(M, W):
        return (M[:, None] @ W) * (2 if len(M) == 2 else 3)

    assert "times the right one" not in arrays.project.judge(sometimes).text
    endless, finite = np.array([np.inf, 3, np.inf, 2]), np.array([9.0, 3, 9, 2])
    assert "It looks as if" not in given(endless, finite).text


def test_an_answer_for_one_example_alone_is_told_where_it_goes_wrong():
    def flat(M):
        return M - M.mean(axis=-1, keepdims=True) if M.ndim < 4 else M

    text = arrays.centred.judge(flat).text
    assert "\nIt is right except with two leading axes. It looks as if" in text


def test_an_answer_for_a_single_memory_is_told_where_it_goes_wrong():
    ex = made(arrays.centred.function, arrays.centred.make_cases)
    for answer in (
        lambda M: M - M.mean(axis=-1)[:, None],
        lambda M: np.array([slot - slot.mean() for slot in M]),
    ):
        text = ex.judge(answer).text
        assert "\nIt goes wrong where there are leading axes, and is right" in text
        assert text.endswith("Do you count axes from the end (-1 is the last)?")


def test_nothing_is_said_of_factors_and_addends_that_do_not_exist():
    def identity(n):
        return np.eye(n)

    def numbers(n):
        return np.arange(n)

    for right, wrong in [
        (identity, lambda n: np.eye(n, k=1)),  # a 1 in the place of a 0 is no factor
        (numbers, lambda n: np.where(np.arange(n) == 1, np.nan, np.arange(n))),
        (numbers, lambda n: np.full(n, np.nan)),
    ]:
        text = made(right, (3,), (4,)).judge(wrong).text
        assert text.splitlines()[-1].startswith("Try it: ")


def test_a_single_row_shows_nothing_that_all_columns_have_in_common():
    def answer(x):
        return x * x if len(x) > 1 else x * x - np.arange(3.0)

    x = np.arange(1.0, 7).reshape(2, 3)
    text = made(squares, (x,), (x + 1,), (x[:1],)).judge(answer).text
    assert "each column" not in text


def test_a_mistake_that_has_a_name_comes_first():
    def answer(x):
        if x.ndim > 1:
            raise ValueError("one row only")  # not what is wrong in the first case
        return -x - x

    named = {"you subtract": lambda x: -2 * x}
    ex = made(lambda x: x + x, some(3), leading="x", mistakes=named)
    assert ex.judge(answer).text.endswith("you get when you subtract")


def test_of_right_numbers_of_another_kind_no_more_is_said():
    for ex, kind in [
        (one_hop.newest_first, float),
        (nth_farthest.answer, float),
        (looking_inside.cut_among_slots, int),
        (language.sample, float),
    ]:
        text = ex.judge(
            lambda *case, ex=ex, kind=kind: np.asarray(ex.function(*case)).astype(kind)
        ).text
        assert text.startswith("the result holds ")
        assert text.splitlines()[-1].startswith("Try it: ")


def test_a_part_of_another_kind_does_not_hide_the_part_that_is_wrong():
    def solution(x):
        return np.argsort(x), x * x

    def answer(x):
        return np.argsort(x).astype(float), -x * x

    text = made(solution, (np.arange(1.0, 4.0),), (np.ones(2),)).judge(answer).text
    assert "\nIt looks as if part [1] of your result is the right one, negated" in text


def test_parts_of_what_a_program_makes_of_an_answer_have_names():
    def larger(*case):
        return 1.5 * ppo.clipped_loss.function(*case)

    def level(log_pi, *others):  # nothing of it is on the tape
        return 0 * p.mean(log_pi) + ppo.clipped_loss.function(log_pi.data, *others)

    text = ppo.clipped_loss.judge(larger).text
    assert text.startswith("your loss is 0.20625, expected 0.1375\n")
    assert text.endswith("\nIt looks as if your loss is 1.5 times the right one")
    assert ppo.clipped_loss.judge(level).text.startswith("its gradient is 0 at [0], ")


def test_a_second_axis_is_told_before_the_shape_of_what_has_one():
    text = language.perplexity.judge(lambda p: np.exp(-np.log(p).mean(axis=-1))).text
    assert "\nIt goes wrong where an array has more than one axis, and is right" in text


def test_nothing_is_said_where_nothing_is_alike():
    noise = np.random.default_rng(5)
    text = gates.sigmoid.judge(lambda x: noise.normal(size=x.shape)).text
    assert text.splitlines()[-1].startswith("Try it: ")


# --- What is remembered ---------------------------------------------------------------


def right(labels, size):
    return np.eye(size)[labels]


@pytest.fixture
def place(monkeypatch, tmp_path):
    monkeypatch.setenv("TINYRMC_PROGRESS", str(tmp_path / "new"))
    return tmp_path / "new" / "progress.json"


def test_what_is_solved_is_known_at_the_next_visit(place, capsys):
    arrays.one_hot.check(lambda labels, size: labels)
    arrays.one_hot.check(arrays.one_hot)  # the solution does not count
    arrays.one_hot.yours(arrays.one_hot.function)
    assert not place.exists()
    arrays.one_hot.check(right)
    arrays.split_heads.yours(lambda x, H: np.stack(np.split(x, H, -1), 1))
    assert json.loads(place.read_text()) == ["arrays.one_hot", "arrays.split_heads"]
    capsys.readouterr()
    course.progress()
    said = capsys.readouterr().out
    assert "  1  arrays            2 of  7  ##.....  next: centred\n" in said
    total = sum(map(len, exercises().values()))
    assert f"\n2 of {total} exercises solved.\n" in said
    assert str(place) in said.replace("\n", "")
    course.forget()
    assert not place.exists()
    assert f"Deleted {place}" in capsys.readouterr().out


def test_progress_with_a_chapter_that_is_complete(place, capsys):
    place.parent.mkdir()
    place.write_text(
        json.dumps([f"arrays.{name}" for name in exercises()[1, "arrays"]])
    )
    course.progress()
    assert "  1  arrays            7 of  7  #######\n" in capsys.readouterr().out


def test_every_exercise_stands_in_one_chapter():
    found = exercises()
    assert [number for number, _ in found] == sorted({number for number, _ in found})
    *tasks, picture = found.pop((24, "capstone"))
    assert tasks == ["recall", "distances", "maze", "taken_away"]
    every = [name for names in found.values() for name in names]
    drawn_or_told = sum(name in ("picture", "experiment") for name in every)
    assert drawn_or_told and picture == "picture"
    assert len(every) + 1 == len({*ALL.values()}) + drawn_or_told
    for (_, module), names in found.items():
        for name in names:
            place = f"tinyrmc.course.exercises.{module}"
            assert getattr(importlib.import_module(place), name).name == name


def test_a_broken_record_is_an_empty_one(place):
    place.parent.mkdir()
    for text in ("no json", "3", '{"a": 1}', "[1, 2]"):
        place.write_text(text)
        assert not {each for each in record.read() if "." in each}
        arrays.one_hot.check(right)
        assert "arrays.one_hot" in record.read()


def test_what_cannot_be_kept_is_said_once_and_hurts_nobody(place, capsys, monkeypatch):
    monkeypatch.setattr(record, "_complained", False)
    place.parent.write_text("a file, not a folder")
    arrays.one_hot.check(right)
    arrays.one_hot.check(right)
    said = capsys.readouterr().out
    assert said.count("right: ") == 2
    assert said.count("your progress is not kept") == 1


def test_nothing_is_kept_where_nothing_shall_be(monkeypatch, capsys):
    monkeypatch.setenv("TINYRMC_PROGRESS", "")
    arrays.one_hot.check(right)
    course.progress()
    assert "nothing is kept for your next visit" in capsys.readouterr().out
    assert record.file() is None and record.read() == set()


def test_it_is_kept_where_the_system_keeps_data(monkeypatch, tmp_path):
    monkeypatch.delenv("TINYRMC_PROGRESS", raising=False)
    for platform, variable in (("linux", "XDG_DATA_HOME"), ("win32", "LOCALAPPDATA")):
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setenv(variable, str(tmp_path))
        assert record.file() == tmp_path / "tinyrmc" / "progress.json"


def test_a_browser_whose_worker_is_blocked_keeps_it_at_home(monkeypatch, tmp_path):
    """Its drive is there, and to look at it is an error."""
    monkeypatch.delenv("TINYRMC_PROGRESS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "emscripten")

    def blocked(path):
        raise OSError(f"{path}")

    for is_dir, place in (
        (blocked, tmp_path / "tinyrmc"),
        (lambda path: False, tmp_path / "tinyrmc"),
        (lambda path: path == Path("/drive"), Path("/drive/.tinyrmc")),
    ):
        monkeypatch.setattr(Path, "is_dir", is_dir)
        assert record.file() == place / "progress.json"


def test_every_derivative_has_the_complex_step_for_a_judge():
    for name, ex in ALL.items():
        asked = re.search(
            r"_vjp$|_gradient$|_backward$|^through_time$|^five_lines$|^Gated$", ex.name
        )
        assert bool(ex.exact) == bool(asked), name


def test_where_a_derivative_is_asked_for_the_complex_step_is_the_judge():
    @exercise(
        cases=lambda rng: [normal(rng, 3, 3), (np.ones(3), np.zeros(3))],
        hints=["The slope of a square."],
        mistakes={},
        exact=by_complex_step(lambda x: x * x, "x"),
    )
    def square_vjp(g, x):
        return g * x  # its author has forgotten the 2

    assert square_vjp.judge(square_vjp.function).state == "wrong"
    verdict = square_vjp.judge(lambda g, x: 2 * g * x)
    assert verdict.text == "2 cases agree with the complex step"


def test_a_report_concludes_what_its_runs_say(place, capsys):
    runs = {"a": [3, 4, 5], "b": [0, 1, 2]}
    fair = {"question": "is a higher?", "runs": runs, "conclusion": "a"}
    fair |= {"rates": [0.1], "not shown": "whether b is slower"}
    overlap = {"runs": {"a": [1, 2, 3], "b": [2, 3, 4]}}
    for report, said in [
        (..., "nothing to check yet"),
        (3, "wrong: a report is a dict"),
        (fair | {"question": " "}, "wrong: what do you want to know?"),
        (fair | {"runs": {"a": [1, 2, 3]}}, "wrong: `runs` is a dict with two"),
        (fair | {"runs": {"a": [1, 2], "b": [0, 0, 0]}}, "wrong: 'a' has 2 runs"),
        (fair | {"runs": runs | {"b": [0, 1, np.nan]}}, "wrong: 'b' has a number"),
        (fair | {"runs": runs | {"b": [...]}}, "wrong: each name in `runs` has a"),
        (fair | {"conclusion": "maybe"}, "wrong: the conclusion is 'a', 'b' or"),
        (fair | {"conclusion": "b"}, "wrong: 'a' is ahead in the mean. Divide"),
        (fair | {"conclusion": "cannot tell"}, "wrong: 'a' is ahead in the mean."),
        (fair | overlap, "wrong: 'b' is ahead in the mean. Divide"),
        (fair | {"runs": {"a": [1, 2, 3], "b": [3, 2, 1]}}, "wrong: both kinds have"),
        (fair | overlap | {"conclusion": "cannot tell"}, "right: the runs bear it out"),
        (fair | {"expected": "b"}, "right: the runs bear it out, at this one rate\n"),
        (fair | {"rates": [0.1, 0.3]}, "right: the runs bear it out\n"),
        (fair | {"rates": 0.1}, "wrong: a report names the `rates`"),
        (fair | {"rates": []}, "wrong: a report names the `rates`"),
        (fair | {"rates": [0]}, "wrong: a report names the `rates`"),
        (fair | {"not shown": "..."}, "wrong: a report also has `not shown`"),
    ]:
        acting.experiment.check(report)
        assert capsys.readouterr().out.startswith(said)
    assert json.loads(place.read_text()) == ["acting.experiment"]


def test_a_picture_can_be_read(place, capsys):
    def panel(curves, labels=("a", "b"), names=("x", "y")):
        _, found = plt.subplots()
        for curve, label in zip(curves, labels, strict=True):
            found.plot(curve, label=label)
        found.axhline(0.5)  # a baseline is no curve
        found.set(xlabel=names[0], ylabel=names[1])
        if labels[0]:
            found.legend()
        return found

    x = np.arange(5.0)
    for drawn, said in [
        (..., "nothing to check yet"),
        (plt, "wrong: hand over the panel you draw into"),
        (panel([x], "a"), "wrong: it has 1 curves of 5 points or more"),
        (panel([x, x[:4]]), "wrong: it has 1 curves of 5 points or more"),
        (panel([x, np.nan * x]), "wrong: a curve has no number"),
        (panel([x, x]), "wrong: two curves are the same"),
        (panel([x, 2 * x], names=("x", "")), "wrong: the y axis has no name"),
        (panel([x, 2 * x], ["", ""]), "wrong: each line needs a `label`"),
        (panel([x, 2 * x]), "right: a reader can follow it (its numbers may still be"),
    ]:
        acting.picture.check(drawn)
        assert capsys.readouterr().out.startswith(said)
    assert json.loads(place.read_text()) == ["acting.picture"]

    fall = 1 / (1 + x)
    for module, curves, said in [
        (acting, [5 * x, 4 * x], "right"),
        (acting, [6 * x, 5 * x], "wrong: of twenty games an arm wins"),
        (acting, [5 * x, x - 1], "wrong: of twenty games an arm wins"),
        (programs, [x / 4, x / 5, x / 6], "right"),
        (programs, [x, 2 * x, 3 * x], "wrong: an accuracy lies between 0 and 1"),
        (programs, [x / 40, x / 50, x / 60], "wrong: no place is learnt"),
        (rare_words, [1 + fall, 2 + fall], "right"),
        (rare_words, [fall, 2 + fall], "wrong: a word has a piece or more"),
        (rare_words, [1 + fall, 1 + x], "wrong: a word has a piece or more"),
    ]:
        module.picture.check(panel(curves, "abc"[: len(curves)]))
        assert capsys.readouterr().out.startswith(said)
    plt.close("all")


def test_a_picture_shows_what_a_measurement_can_give(place, capsys):
    x, h, k = np.arange(0, 51.0, 5), 10.0 ** -np.arange(1, 20), 2.0 ** np.arange(9)
    worse, best, bowl = h + 1e-16 / h, 0 * h + 1e-16, (np.log(k) - 3) ** 2 + 60
    factors, windows = np.array([1, 3, 10, 100, 1000.0]), np.array([1.0, 3, 5, 7])
    ones, ratio, level = 0 * factors + 1, np.linspace(0.1, 2, 20), 0 * k + 0.4
    clip = {A: np.minimum(A * ratio, A * np.clip(ratio, 0.8, 1.2)) for A in (1, -1)}
    left = {f"bias {b}": (x, gates.sigmoid(np.array(float(b))) ** x) for b in (0, 1, 3)}
    errors, thrice = np.array([0.003, 0.03, 0.1, 0.3, 1]), (1, 2, 3)
    felt = {
        f"{n} x {D}": (errors, nth_farthest._share_with_errors(n, D, errors))
        for n, D in ((3, 2), (4, 4), (8, 16))
    }
    for module, said, curves in (
        (first, "right", [(x, x / 60), (x, x / 70)]),
        (first, "wrong: a share of right answers", [(x, x), (x, 2 * x)]),
        (first, "wrong: a curve is level", [(x, x / 60), (k, level)]),
        (arrays, "right", [(k, k), (k, k + 1)]),
        (arrays, "wrong: a distance is never", [(x, x - 1), (x, x + 1)]),
        (arrays, "wrong: the smallest distance is m", [(k, k * (k > 16)), (k, k + 1)]),
        (arrays, "wrong: the smallest distances", {"small": (k, 2 * k), "b": (k, k)}),
        (arrays, "wrong: at one place", [(x, x), (x, 0 * x + 20)]),
        (checking, "right", [(h, worse), (h, h * h + 1e-16 / h), (h, best)]),
        (checking, "wrong: draw steps h", [(k, k), (k, k / 2), (h, best)]),
        (checking, "wrong: an error is", [(h, -h), (h, h), (h, best)]),
        (checking, "wrong: with the smallest h all", [(h, n * worse) for n in thrice]),
        (checking, "wrong: with the smallest h both", [(h, h), (h, h * h), (h, best)]),
        (attention, "right", [(k, level), (k, level + k / 500)]),
        (attention, "wrong: a share lies", [(k, level), (k, k)]),
        (attention, "wrong: draw widths", [(k / 2, level), (k / 2, level + k / 500)]),
        (attention, "wrong: with the widest", [(k, level), (k, level + 0.1)]),
        (normalisation, "right", [(factors, ones), (factors, 1 / factors)]),
        (normalisation, "wrong: a norm of", [(factors, factors), (factors, ones)]),
        (normalisation, "wrong: with the", [(factors, ones), (factors, 0.97 * ones)]),
        (gates, "right", left),
        (gates, "wrong: with a forget bias of 1 ", left | {"bias 1": (x, x / 50)}),
        (gates, "wrong: the name of each curve", left | {"a": (x, x)}),
        (release, "right", [(x, x), (x, 2 * x), (x, 3 * x)]),
        (release, "wrong: a spread", [(x, x), (x, -2 * x), (x, 3 * x)]),
        (release, "wrong: read more", [(k / 16, level * n) for n in thrice]),
        (nth_farthest, "right", felt),
        (nth_farthest, "wrong: at 8 x 16", felt | {"8 x 16": (errors, errors)}),
        (nth_farthest, "wrong: the name of each", felt | {"a": (errors, errors)}),
        (language, "right", [(k, k + 2), (k, bowl)]),
        (language, "wrong: a perplexity", [(k, k / 2), (k, bowl)]),
        (language, "wrong: on the training", [(k, 2 + 100 / k), (k, bowl)]),
        (language, "wrong: on the validation", [(k, k + 2), (k, 2 * k + 2)]),
        (ppo, "right", [(ratio, each) for each in clip.values()]),
        (ppo, "wrong: for A = 1 it shows", [(ratio, -clip[1]), (ratio, clip[-1])]),
        (ppo, "wrong: no curve is what", [(ratio, clip[1]), (ratio, -ratio)]),
        (worlds, "right", [(windows, windows / 7), (windows, windows / 9)]),
        (worlds, "wrong: a share lies", [(windows, windows), (windows, windows / 9)]),
        (worlds, "wrong: a window has", [(x / 5, x / 60), (x / 5, x / 70)]),
        (worlds, "wrong: on the", [(windows, windows / 7), (windows, ones[1:] * 0.3)]),
    ):
        if isinstance(curves, list):
            curves = dict(zip("abc", curves, strict=False))
        panel = new_panel()
        for name, (places, heights) in curves.items():
            panel.plot(places, heights, label=name)
        panel.set(xlabel="x", ylabel="y")
        panel.legend()
        module.picture.check(panel)
        assert capsys.readouterr().out.startswith(said), (module.__name__, said)


def test_every_chapter_asks_for_a_picture():
    draws = set()
    for (number, module), names in exercises().items():
        place = importlib.import_module(f"tinyrmc.course.exercises.{module}")
        for name in names:
            function = getattr(getattr(place, name), "function", lambda: None)
            if name == "picture" or "panel" in inspect.signature(function).parameters:
                draws.add(number)
    assert sorted(draws) == [*range(29)]


def test_a_picture_of_a_hop_s_shares_shows_what_a_hop_gives(place, capsys):
    lengths = np.linspace(0.5, 6, 12)
    right = {N: one_hop.share_of_the_first(N, lengths, seed=7) for N in (3, 10, 30)}
    for change, said in [
        (lambda N, share: (share, f"N = {N}"), "right: a reader can follow it"),
        (lambda N, share: (share, f"{N} memories, d = 20"), "right: a reader can"),
        (lambda N, share: (share[::-1], f"N = {N}"), "wrong: with 3 memories of leng"),
        (lambda N, share: (100 * share, f"N = {N}"), "wrong: with 3 memories of leng"),
        (lambda N, share: (right[3 + 27 * (N < 30)], f"{N}"), "wrong: two curves are"),
        (lambda N, share: (share, "abcd"[N // 10]), "wrong: the name of one curve"),
        (lambda N, share: (share * (lengths < 5), f"{N}"), "wrong: with 3 memories"),
    ]:
        _, panel = plt.subplots()
        for N, share in right.items():
            curve, label = change(N, share)
            panel.plot(lengths, curve, label=label)
        panel.set(xlabel="length", ylabel="share")
        panel.legend()
        one_hop.picture.check(panel)
        assert capsys.readouterr().out.startswith(said)
    plt.close("all")
    assert json.loads(place.read_text()) == ["one_hop.picture"]


def test_more_runs_make_a_conclusion_surer(place, capsys):
    rng, passed = np.random.default_rng(0), {3: 0, 12: 0}
    for count in [3, 12] * 8:  # an effect of one and a half deviations
        runs = {"a": rng.normal(1.5, size=count), "b": rng.normal(size=count)}
        report = {"question": "a?", "runs": runs, "conclusion": "a", "rates": [0.1]}
        acting.experiment.check(report | {"not shown": "whether b is slower"})
        passed[count] += capsys.readouterr().out.startswith("right")
    assert 1 < passed[3] < passed[12] == 8


def test_a_change_that_mends_nothing_is_told_why():
    def influence(step, inputs, memory):
        with Tape() as tape:
            xs = [tape.watch(x) for x in inputs]
            for x in xs:
                last = step(x, memory)
                memory = last.detach()
            loss = p.sum(last)
        gradients = tape.gradient(loss, xs, strict=False)
        return np.array([np.linalg.norm(g) for g in gradients])

    def try_rates(start, slopes, rates, steps):
        found = []
        for rate in rates:
            weights = list(start)
            for _ in range(steps):
                _, gradients = slopes(weights)
                for w, g in zip(weights, gradients, strict=True):
                    w -= rate * g
            found.append(slopes(weights)[0])
        return found

    verdict = breaking.influence.judge(influence)
    assert verdict.state == "wrong" and ".detach( is no mend" in verdict.text
    verdict = learning.try_rates.judge(try_rates)
    assert verdict.state == "wrong" and "list( is no mend" in verdict.text
    for ex in (breaking.influence, learning.try_rates):
        assert ex.judge(ex.broken).state == "not attempted"


def test_a_loop_is_told_where_none_is_allowed():
    def bigram(ids, unigram, k):
        V = len(unigram)
        counts = np.zeros((V, V))
        for a, b in itertools.pairwise(ids):
            counts[a, b] += 1
        return (counts + k * unigram) / (counts.sum(axis=1, keepdims=True) + k)

    def nth_from(points, m, n):
        rows = zip(points, m, n, strict=True)
        away = [((row - row[i]) ** 2).sum(axis=-1).argsort()[j] for row, i, j in rows]
        return np.array(away)

    for asked, answer, says in (
        (language.bigram, bigram, "over the text\nin line 4 of bigram: for"),
        (arrays.nth_from, nth_from, "over the examples\nin line"),
    ):
        text = asked.judge(answer).text
        assert text.startswith(f"its numbers are right, but it loops {says}")


def test_where_right_answers_differ_what_they_come_to_is_compared():
    def run(answer, seed):
        if answer(seed) <= seed:
            raise Wrong(f"{seed} is not exceeded")
        return "it is larger"

    def solution(seed):
        raise AssertionError("not asked for")

    cases = [(seed,) for seed in range(3)]
    larger = used(
        run, cases=lambda rng: cases, hints=[], mistakes={}, found="it is larger"
    )(solution)
    for right in (lambda seed: seed + 1, lambda seed: 2 * seed + 9):
        assert str(larger.judge(right)) == "right: it is larger"
    assert (
        "2 is not exceeded\nin case 3"
        in larger.judge(lambda seed: max(seed, 1.5) + 0.5 * (seed < 2)).text
    )


def test_an_exercise_may_have_more_seconds_or_fewer_than_others():
    def idle(x):
        while True:
            pass

    short = made(lambda x: x, (1.0,), seconds=0.2)
    assert "not come to an end after 0.2 seconds" in short.judge(idle).text

    def asleep(x):
        while True:
            time.sleep(0.05)

    assert "not come to an end after 0.2 seconds" in short.judge(asleep).text


def test_what_other_programs_take_is_not_an_answers_time(monkeypatch):
    def answer(x):
        for _ in range(1000):
            x = x + 0
        return x

    clock = itertools.count(step=0.002)  # some seconds for these lines
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    assert made(lambda x: x, (1.0,), seconds=1.0).judge(answer).state == "right"


def test_the_answer_is_not_among_the_inputs_in_any_form():
    def drawing(column, count):
        def draw(rng, n):
            y = rng.integers(count, size=n)
            return np.c_[rng.normal(size=(n, 2)), column(y)], y

        return draw

    for column, count in (
        (lambda y: y, 3),
        (lambda y: 2 * y - 1, 2),
        (lambda y: 5 - y**2, 3),
        (lambda y: np.eye(3)[y], 3),
    ):
        with pytest.raises(Wrong, match="the answer is among the inputs"):
            _check_draw(drawing(column, count), memory=False)
    _check_draw(drawing(lambda y: y > 0, 3), memory=False)  # not all of it
    _check_draw(drawing(lambda y: 2 * y - 1, 2), memory=True)


def test_a_training_of_ten_steps_is_told_how_many_are_asked_for():
    with pytest.raises(Wrong, match=r"20 steps or more; yours has the shape \(10,\)"):
        _check_picture(None, np.ones(10))


def test_a_claim_is_borne_out_by_nine_pairs_in_ten():
    for measured, claim in (
        ([1, 2, 3, 4, 5], "rises"),
        ([1, 2, 3, 5, 4], "rises"),  # nine pairs of ten
        ([1, 2, 4, 5, 3], "neither"),  # eight
        ([5, 4, 3, 1, 2], "falls"),
        ([5, 4, 2, 1, 3], "neither"),
        ([10, 9.0, 9.5, 9.2, 9.9], "stays"),  # by a tenth of the largest
        ([10, 8.9, 9.5, 9.2, 9.9], "neither"),
        ([-10, -9.5, -9.2, -9.1, -9.0], "stays"),
        ([0, 0, 0, 0, 0], "stays"),
    ):
        assert borne_out(np.array(measured)) == claim, measured
