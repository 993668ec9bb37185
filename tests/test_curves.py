"""Curves against steps, samples and hours, grids of curves, and tables as pictures."""

import itertools
import typing

import numpy as np
import pytest
from test_figures import FLOORS, TEST, assert_words_are_apart_and_inside, drawn

from tinyrmc.cores.config import MapCore
from tinyrmc.results import figures
from tinyrmc.results.figures import Reached, curves, grids, style, text


def run_of(values, seconds, every=100, batch=32, **more):
    """metrics.jsonl of a run that was evaluated at these times."""
    return [
        {
            "step": every * (k + 1),
            "samples": batch * every * (k + 1),
            "seconds": second,
            TEST: value,
            **more,
        }
        for k, (value, second) in enumerate(zip(values, seconds, strict=True))
    ]


SLOW, FAST = (
    run_of([0.2, 0.4, 0.8], [100, 300, 400]),
    run_of([0.1, 0.5, 0.5, 0.9], [50, 150, 250, 350]),
)


@pytest.mark.parametrize("axis, place", [("steps", "step"), ("samples", "samples")])
def test_at_each_step_those_count_that_came_so_far(axis, place):
    curve = figures.mean_and_range([SLOW, FAST], TEST, axis)
    assert curve.points.tolist() == [line[place] for line in FAST]
    assert curve.runs.tolist() == [2, 2, 2, 1]
    np.testing.assert_allclose(
        curve[1:4],
        [[0.15, 0.45, 0.65, 0.9], [0.1, 0.4, 0.5, 0.9], [0.2, 0.5, 0.8, 0.9]],
    )


def test_against_time_each_run_is_a_line_between_its_own_measurements():
    points, mean, low, high, counts = figures.mean_and_range(
        [SLOW, FAST], TEST, "hours"
    )
    assert points.tolist() == [
        50,
        100,
        150,
        250,
        300,
        350,
        400,
    ]
    assert counts.tolist() == [1, 2, 2, 2, 2, 2, 1]
    # by hand, where both count
    slow = np.array([0.2, 0.25, 0.35, 0.4, 0.6])
    fast = np.array([0.3, 0.5, 0.5, 0.7, 0.9])
    both = slice(1, 6)
    np.testing.assert_allclose(
        [mean[both], low[both], high[both]],
        [(slow + fast) / 2, np.minimum(slow, fast), np.maximum(slow, fast)],
    )
    assert [mean[0], mean[-1]] == [0.1, 0.8]
    between = np.linspace(100, 350, 77)  # and no bend is missing
    lines = [
        np.interp(
            between, [line["seconds"] for line in run], [line[TEST] for line in run]
        )
        for run in (SLOW, FAST)
    ]
    np.testing.assert_allclose(np.interp(between, points, mean), np.mean(lines, axis=0))


def test_a_single_run_is_shown_where_it_was_measured():
    points, mean, *_ = figures.mean_and_range([FAST], TEST, "hours")
    assert points.tolist() == [50, 150, 250, 350]
    assert mean.tolist() == [
        0.1,
        0.5,
        0.5,
        0.9,
    ]


@pytest.mark.parametrize("other", [[], run_of([None], [60])])
def test_a_run_without_values_does_not_count(other):
    points, mean, *_, counts = figures.mean_and_range([SLOW, other], TEST, "hours")
    assert points.tolist() == [100, 300, 400]
    assert mean.tolist() == [0.2, 0.4, 0.8]
    assert counts.tolist() == [1, 1, 1]
    assert figures.mean_and_range([other, other], TEST).points.size == 0


def test_the_legend_says_how_many_seeds_and_what_is_interpolated():
    for axis, between in (
        ("steps", ""),
        ("hours", ", interpolated between measurements"),
    ):
        figure = curves._draw_learning_curve(
            {"rmc": [SLOW, FAST]}, FLOORS, [TEST], axes=[axis]
        )
        assert list(drawn(figure.axes[0])) == ["rmc: 2 seeds, dotted: 1"]
        says = f"mean of the seeds{between}, in a band from the lowest to the highest"
        assert (
            figure.legends[0].get_title().get_text()
            == f"{says}; dotted where not all of them count"
        )
    figure = curves._draw_learning_curve(
        {"rmc": [SLOW, SLOW]}, FLOORS, [TEST], axes=["hours"]
    )
    assert list(drawn(figure.axes[0])) == ["rmc: 2 seeds"]
    assert figure.legends[0].get_title().get_text() == says


@pytest.mark.parametrize(
    "longest, label, ticks",
    [(600, "minutes of training", "2"), (9000, "hours of training", "0.5")],
)
def test_time_is_told_in_round_numbers(longest, label, ticks):
    (panel,) = curves._draw_learning_curve(
        {"rmc": [run_of([0.1, 0.2], [60, longest])]}, {}, [TEST], axes=["hours"]
    ).axes
    shown = [text.get_text() for text in panel.get_xticklabels()]
    assert panel.get_xlabel() == label and shown[:2] == ["0", ticks]
    unit = 60 if "minutes" in label else 3600
    assert [tick / unit for tick in panel.get_xticks()] == pytest.approx(
        [float(text) for text in shown]
    )


def test_a_panel_for_each_axis():
    figure = curves._draw_learning_curve(
        {"rmc": [SLOW, SLOW], "lstm": [FAST]},
        FLOORS,
        [TEST],
        axes=("steps", "samples", "hours"),
    )
    for panel, axis, label in zip(
        figure.axes,
        figures.AXES,
        ("steps", "samples", "minutes of training"),
        strict=True,
    ):
        assert panel.get_xlabel() == label
        for runs, (x, y) in zip(([SLOW], [FAST]), drawn(panel).values(), strict=True):
            expected = figures.mean_and_range(runs, TEST, axis)
            assert x.tolist() == expected.points.tolist()
            assert y.tolist() == expected.mean.tolist()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "rmc: 2 seeds",
        "lstm: 1 seed",
    ]
    assert_words_are_apart_and_inside(figure)


def test_a_core_has_the_same_colour_whatever_is_beside_it():
    cores = *typing.get_args(MapCore), "memn2n"
    of = dict(zip(cores, style.colours(cores), strict=True))
    assert len(set(of.values())) == len(cores)
    for beside in itertools.permutations(cores, 2):
        assert style.colours(beside) == [of[core] for core in beside]
    first, second, third = style.colours(["lstm", "lstm", "rmc"])
    assert (first, third) == (of["lstm"], of["rmc"]) and second not in of.values()
    many = style.colours([None] * 20)
    assert many[0] == of["rmc"] and len(set(many)) == len(style.COLOURS)
    (panel,) = curves._draw_learning_curve(
        {"a": [SLOW], "b": [FAST]}, {}, [TEST], cores=["dnc", "rmc"]
    ).axes
    wanted = [of["dnc"], of["rmc"]]
    assert [line.get_color() for line in panel.get_lines()[:2]] == wanted
    ends = [line.get_ydata()[0] for line in panel.get_lines()[2:]]
    heights = [panel.get_lines()[k].get_ydata()[-1] / 1.02 for k in (0, 1)]
    assert ends == pytest.approx(
        sorted(heights)
    )  # a line leads from each curve to its name


def test_rungs_begin_where_the_axis_says():
    lines = [
        {**line, "rung": rung}
        for line, rung in zip(FAST, ["3x1", "3x1", "3x2", "4x4"], strict=True)
    ]
    assert figures.rung_starts(lines) == [(0, "3x1"), (200, "3x2"), (300, "4x4")]
    assert figures.rung_starts(lines, "hours") == [
        (0, "3x1"),
        (150, "3x2"),
        (250, "4x4"),
    ]
    assert figures.rung_starts(lines, "samples") == [
        (0, "3x1"),
        (6400, "3x2"),
        (9600, "4x4"),
    ]


# --- Grids of curves and tables -------------------------------------------------------


def test_each_configuration_is_in_its_panel_and_what_is_missing_is_named():
    # FAST goes on when SLOW has ended
    lines = {"heads 1": [SLOW, FAST], "heads 8": [FAST]}
    unit = {"slots 1": lines, "slots 8": lines | {"heads 8": []}}
    memory = {"slots 1": lines | {"heads 1": []}, "slots 8": lines}
    panels = {"unit": unit, "memory": memory}
    figure = grids._draw_curve_grid(panels, FLOORS[TEST], TEST, "a title")
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == [
        "slots 1, unit",
        "slots 8, unit",
        "slots 1, memory",
        "slots 8, memory",
    ]
    for panel, of_panel in zip(
        figure.axes,
        [each for row in panels.values() for each in row.values()],
        strict=True,
    ):
        shown = drawn(panel)
        assert list(shown) == [label for label, runs in of_panel.items() if runs]
        for label, (_, values) in shown.items():
            curve = figures.mean_and_range(of_panel[label], TEST)
            np.testing.assert_allclose(
                values, np.where(curve.runs == len(of_panel[label]), curve.mean, np.nan)
            )
        named = [
            text.get_text()
            for text in panel.texts
            if text.get_visible() and "not run" in text.get_text()
        ]
        assert named == [
            f"{label}: not run" for label, runs in of_panel.items() if not runs
        ]
    _, last = figure.axes[0].get_xlim()
    assert last >= FAST[-1]["step"] > SLOW[-1]["step"]
    assert all(panel.get_xlim() == (0, last) for panel in figure.axes)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["heads 1", "heads 8"]
    says = " ".join(figure.get_suptitle().split())
    assert (
        says == "a title mean of the seeds, in a band from the lowest to the highest; "
        "dotted where not all of them count"
    )
    pairs = {(line.get_label(), line.get_color()) for line in drawn_lines(figure)}
    assert len(pairs) == len({colour for _, colour in pairs}) == 2


def test_what_was_reached_stands_over_its_value_a_line_for_each_configuration():
    one = {"1": Reached([0.5, 0.6, 0.4], True), "8": Reached([0.7, 0.9], False)}
    eight = {"1": None, "8": Reached([0.8], True)}
    panels = {
        "unit gates": {"slots 1": one, "slots 8": eight},
        "gates of slots": {"slots 1": eight, "slots 8": one},
    }
    figure = grids._draw_value_grid(panels, FLOORS[TEST], TEST, "heads", "a title")
    for panel, (name, lines) in zip(figure.axes, panels.items(), strict=True):
        assert panel.get_title() == name and panel.get_xlabel() == "heads"
        assert [label.get_text() for label in panel.get_xticklabels()] == ["1", "8"]
        for (label, (x, y)), colour, reached in zip(
            drawn(panel).items(), style.COLOURS, lines.values(), strict=False
        ):
            assert label in lines and [round(place) for place in x] == [0, 1]
            np.testing.assert_allclose(
                y,
                [np.mean(cell.values) if cell else np.nan for cell in reached.values()],
            )
            own = [line for line in panel.lines if line.get_color() == colour]
            there = [cell for cell in reached.values() if cell]
            ranges = [
                list(line.get_ydata())
                for line in own
                if len(set(line.get_xdata())) == 1 and line.get_linestyle() == "-"
            ]
            assert ranges == [[min(cell.values), max(cell.values)] for cell in there]
            seeds = [list(line.get_ydata()) for line in own if line.get_marker() == "_"]
            assert seeds == [list(cell.values) for cell in there]
            means = [
                line
                for line in panel.lines
                if line.get_marker() == "o" and line.get_markeredgecolor() == colour
            ]
            assert [line.get_markerfacecolor() == "white" for line in means] == [
                not cell.whole for cell in there
            ]
    says = (
        "a title\nmean of the seeds, from the lowest to the highest\nhollow: some "
        "runs are missing or were cut short"
    )
    assert figure.get_suptitle() == says
    assert_words_are_apart_and_inside(figure)
    whole = {"": {"a": {"1": Reached([0.5], True), "8": Reached([0.6], True)}}}
    assert (
        grids._draw_value_grid(whole, {}, TEST, "heads", "a title").get_suptitle()
        == "a title"
    )


def test_lines_of_cores_have_their_colours_in_grids_too():
    of = dict(zip(("lstm", "rmc"), style.colours(["lstm", "rmc"]), strict=True))
    figure = grids._draw_value_grid(
        {"": {core: {"1": Reached([0.5], True)} for core in of}},
        {},
        TEST,
        "heads",
        cores=list(of),
    )
    assert [line.get_color() for line in drawn_lines(figure)] == list(of.values())
    figure = grids._draw_curve_grid(
        {"": {"": {core: [SLOW] for core in of}}}, {}, TEST, cores=list(of)
    )
    assert [line.get_color() for line in drawn_lines(figure)] == list(of.values())


def drawn_lines(figure):
    return [
        line for panel in figure.axes for line in panel.get_legend_handles_labels()[0]
    ]


def test_words_of_tables_do_not_touch_or_leave_the_picture():
    command = (
        "`python -m tinyrmc.train nth_farthest ladder --model.core lstm "
        "--model.hidden-size 2048 --train.steps 1000`"
    )
    rows = [
        ["task", "ours", "command"],
        ["nth_farthest", "94.4 %", command],
        ["x", "", ""],
        ["y", "100.0 %", "short"],
    ]
    figure = text._draw_tables(
        [rows, [["a head that is much longer than what is below", "b"], ["1", "2"]]],
        "A note. " * 40,
    )
    boxes = [
        (text.get_text(), text.get_window_extent())
        for text in figure.texts
        if text.get_text()
    ]
    assert len(boxes) == 15 and not any("`" in words for words, _ in boxes)
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        assert not a.overlaps(b), f"{one!r} overlaps {other!r}"
    assert all(
        box.x0 >= 0
        and box.y0 >= 0
        and box.x1 <= figure.bbox.x1
        and box.y1 <= figure.bbox.y1
        for _, box in boxes
    )
    numbers = [
        text.get_window_extent().x1
        for text in figure.texts
        if text.get_text().endswith("\u00a0%")
    ]
    assert numbers[0] == pytest.approx(numbers[1], abs=1)  # to the right


def test_equal_numbers_give_equal_bytes(tmp_path):
    def draw(name):
        grid = figures.curve_grid(
            {"": {"": {"a": [SLOW, FAST]}}},
            FLOORS[TEST],
            TEST,
            tmp_path / f"{name}1.png",
            "$t_1",
            "hours",
        )
        values = figures.value_grid(
            {"": {"a": {"1": Reached([0.5], True)}}},
            {},
            TEST,
            "$h_1",
            tmp_path / f"{name}3.png",
        )
        tables = figures.tables(
            [[["a", "b"], ["1", "$x_2"]]], tmp_path / f"{name}2.png", "note"
        )
        return grid.read_bytes(), values.read_bytes(), tables.read_bytes()

    assert draw("one") == draw("two") and draw("one")[0].startswith(b"\x89PNG")
