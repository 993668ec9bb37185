"""Pictures: which numbers are drawn and where, how runs are grouped into lines, and
what the plot command says when it cannot draw.
"""

import dataclasses
import itertools
import os
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

import tinyrmc
from tinyrmc.cli import plot
from tinyrmc.cli.commands import run_main
from tinyrmc.errors import RunError
from tinyrmc.results import plotting as run_curves
from tinyrmc.results import figures
from tinyrmc.results.figures import curves, glances, slots, style
from tinyrmc.runs.run import Run
from tinyrmc.training.discovery import load_task
from tinyrmc.training.trainer import Trainer

TEST = "test_accuracy"
FLOORS = {TEST: {"only the self query": 0.5, "ranking by own norm": 0.59}}


def lines_of(values, metric=TEST, every=100, **more):
    """metrics.jsonl of a run that measured `values` at every, 2 every, ..."""
    return [
        {"step": every * (k + 1), metric: value, **more}
        for k, value in enumerate(values)
    ]


def drawn(panel):
    """{label: (x, y)} of the lines that the legend names."""
    return {
        line.get_label(): line.get_data()
        for line in panel.get_legend_handles_labels()[0]
    }


# --- Learning curves ------------------------------------------------------------------


def test_a_group_is_its_mean_and_range_dotted_where_some_have_ended():
    runs = [
        lines_of([0.1, 0.5, 0.9]),
        lines_of([0.3, 0.7]),
        [*lines_of([0.2, 0.6]), {"step": 250, TEST: 0.7}, {"step": 300, "loss": 1.0}],
    ]
    figure = curves._draw_learning_curve(
        {"rmc": runs, "lstm": [lines_of([0.4])]}, {}, [TEST]
    )
    (panel,) = figure.axes
    lines = drawn(panel)
    x, y = lines["rmc: 3 seeds, dotted: 1 to 2"]
    np.testing.assert_array_equal(x, [100, 200, 250, 300])
    np.testing.assert_allclose(y, [0.2, 0.6, np.nan, np.nan])
    (dotted,) = (
        line
        for line in panel.lines
        if line.get_linestyle() != "-" and line.get_color() == style.COLOURS[0]
    )
    np.testing.assert_array_equal(dotted.get_xdata(), x)
    half_way = (0.5 + 0.9) / 2
    np.testing.assert_allclose(
        dotted.get_ydata(), [0.2, 0.6, (half_way + 0.7) / 2, 0.9]
    )
    np.testing.assert_allclose(lines["lstm: 1 seed"][1], [0.4])
    (band,) = panel.collections
    corners = {(round(x), round(y, 6)) for x, y in band.get_paths()[0].vertices}
    assert corners == {
        (100, 0.1),
        (100, 0.3),
        (200, 0.5),
        (200, 0.7),
        (250, 0.7),
        (300, 0.9),
    }
    says = (
        "mean of the seeds, in a band from the lowest to the highest; dotted where "
        "not all of them count"
    )
    assert " ".join(figure.get_supxlabel().split()) == says


def test_lines_are_named_beside_the_panel_where_they_end():
    """In their colours, apart from each other, and moved no more than that takes."""
    ends = {"a core": 0.9, "one with a longer name than fits": 0.5, "a third": 0.49}
    groups = {name: [lines_of([0.1, end])] for name, end in ends.items()}
    figure = curves._draw_learning_curve(groups, {}, [TEST])
    (panel,) = figure.axes
    assert not figure.legends
    texts = {" ".join(text.get_text().split()): text for text in panel.texts}
    assert list(texts) == list(ends)
    lines = panel.get_legend_handles_labels()[0]
    for text, line in zip(texts.values(), lines, strict=True):
        assert text.get_color() == line.get_color()
    low, high = panel.get_ylim()
    for name, text in texts.items():
        x, y = text.get_position()
        assert x > 1 and abs(low + y * (high - low) - ends[name]) < 0.1
    heights = [text.get_position()[1] for text in texts.values()]
    assert heights == sorted(heights, reverse=True)
    assert_words_are_apart_and_inside(figure)


def test_attention_at_a_glance_names_its_axes_and_gives_its_numbers():
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(4), size=(2, 3, 3))  # T, H, N; N + 1
    weights[1, 2] = [0, 0, 0, 1]  # one head listens to the input alone
    figure = glances._draw(weights, 1, ["vector 0", "vector 2"], "a title", "reference")
    assert len(figure.axes) == 4  # the mean and that head, at two steps
    shown = [[int(text.get_text()) for text in panel.texts] for panel in figure.axes]
    mean = weights.mean(axis=1)
    head = weights[:, 2]
    for numbers, expected in zip(shown, [*mean, *head], strict=True):
        np.testing.assert_array_equal(numbers, np.rint(100 * expected).ravel())
    assert figure.axes[2].get_ylabel() == "head 3 alone\nslot that asks"
    assert figure.axes[1].get_title() == "step 2: vector 2 arrives\nthe reference"
    assert f"{100 * mean[1, :, -1].mean():.0f} % of their" in figure.get_supxlabel()
    assert_words_are_apart_and_inside(figure)


def test_null_and_missing_values_are_skipped_and_a_repeated_step_counts_once():
    lines = [
        {"step": 1, TEST: None},
        {"step": 2, TEST: 0.5},
        {"step": 3},
        {"step": 2, TEST: 0.7},
    ]
    steps, values = curves.measured(lines, TEST)
    assert steps.tolist() == [2] and values.tolist() == [0.7]


def test_runs_without_a_value_are_an_error():
    with pytest.raises(
        ValueError, match="the runs of 'rmc' have no value of test_accuracy"
    ):
        curves._draw_learning_curve(
            {"rmc": [lines_of([None]), lines_of([0.1], "loss")]}, {}, [TEST]
        )


def test_only_a_single_run_shows_its_rungs():
    lines = [
        {"step": 100, "accuracy": 0.6, "rung": "3x2"},
        {"step": 200, "accuracy": 0.8, "rung": "3x2", TEST: 0.3},
        {"step": 300, "accuracy": 0.7, "rung": "3x4"},
        {"step": 400, "accuracy": 0.5, "rung": "4x4", TEST: 0.4},
        {"step": 410, TEST: 0.45},  # the line of a run that was out of time
    ]
    assert figures.rung_starts(lines) == [(0, "3x2"), (200, "3x4"), (300, "4x4")]
    (panel,) = curves._draw_learning_curve({"rmc": [lines]}, {}, [TEST]).axes
    assert set(drawn(panel)) == {"rmc"}
    assert [text.get_text() for text in panel.texts] == ["3x2", "3x4", "4x4"]
    ticks = [
        line.get_xdata()[0]
        for line in panel.lines
        if list(line.get_ydata()) == [0, 0.02, 0.05]
    ]
    assert ticks == [0, 200, 300]

    (panel,) = curves._draw_learning_curve(
        {"rmc": [lines], "lstm": [lines]}, {}, [TEST]
    ).axes
    assert set(drawn(panel)) == {"rmc", "lstm"}
    assert [text.get_text() for text in panel.texts] == ["rmc", "lstm"]


def test_training_batches_are_drawn_where_they_are_given():
    lines = [
        {"step": 100, "accuracy": 0.6},
        {"step": 200, "accuracy": 0.8, TEST: 0.3},
        {"step": 210, TEST: 0.45},
    ]
    (panel,) = curves._draw_learning_curve(
        {"rmc": [lines]}, {}, [TEST], training=lines[1:]
    ).axes
    x, y = drawn(panel)["on training batches of the task itself"]
    assert (x.tolist(), y.tolist()) == ([200], [0.8])


def test_each_metric_has_a_panel_with_its_own_references():
    both = [
        {"step": 1, TEST: 0.4, "test_loss": 2.0},
        {"step": 2, TEST: 0.6, "test_loss": 1.0},
    ]
    figure = curves._draw_learning_curve(
        {"rmc": [both]},
        FLOORS | {"test_loss": {"uniform": 1.386294}},
        [TEST, "test_loss"],
        "a title",
    )
    accuracy, loss = figure.axes
    assert (accuracy.get_title(), loss.get_title()) == (
        "held-out accuracy",
        "held-out loss",
    )
    assert {text.get_text() for text in accuracy.texts} == {
        "only the self query 50.0 %",
        "ranking by own norm 59.0 %",
    }
    assert [text.get_text() for text in loss.texts] == ["uniform 1.3863"]
    dashed = {
        line.get_ydata()[0]
        for line in accuracy.lines
        if len(line.get_xdata()) == 2 and line.get_label().startswith("_")
    }
    assert dashed == {0.5, 0.59}
    assert accuracy.get_ylim() == (0, 1.02)
    assert accuracy.yaxis.get_major_formatter()(0.2) == "20 %"
    np.testing.assert_allclose(loss.lines[0].get_ydata(), [2.0, 1.0])


def test_labels_of_references_keep_their_order_and_never_touch():
    references = {
        TEST: {"a": 0.9, "b": 0.89, "c": 0.91, "d": 0.999, "e": 0.0, "f": 0.3}
    }
    figure = curves._draw_learning_curve(
        {"rmc": [lines_of([0.2, 0.905, 0.9])]}, references, [TEST]
    )
    (panel,) = figure.axes
    texts = sorted(panel.texts, key=lambda text: references[TEST][text.get_text()[0]])
    boxes = [text.get_window_extent() for text in texts]
    assert all(lower.y1 <= upper.y0 + 1 for lower, upper in itertools.pairwise(boxes))
    assert panel.get_window_extent().y0 <= boxes[0].y0
    assert boxes[-1].y1 <= panel.get_window_extent().y1


def test_a_reference_is_labelled_on_the_side_where_the_curve_is_not():
    for end, side in ((0.52, -1), (0.48, 1)):
        # the second half is dotted
        runs = [lines_of([0.2, end, end, end]), lines_of([0.2, end])]
        (panel,) = curves._draw_learning_curve(
            {"lstm": runs}, {TEST: {"floor": 0.5}}, [TEST]
        ).axes
        assert np.sign(panel.texts[0].get_position()[1] - 0.5) == side
        (panel,) = curves._draw_learning_curve(
            {"lstm": [lines_of([0.2, end, end, end])]}, {TEST: {"floor": 0.5}}, [TEST]
        ).axes
        assert np.sign(panel.texts[0].get_position()[1] - 0.5) == side


@given(st.lists(st.floats(0, 10), max_size=12), st.floats(0.01, 0.8))
def test_spread_keeps_order_distance_and_bounds(wanted, gap):
    wanted = sorted(wanted)
    placed = curves._spread(wanted, gap, 0, 10)
    assert all(b - a >= gap - 1e-9 for a, b in itertools.pairwise(placed))
    assert all(-1e-9 <= x <= 10 + 1e-9 for x in placed)
    if all(b - a >= gap for a, b in itertools.pairwise(wanted)):
        np.testing.assert_allclose(placed, wanted, atol=1e-9)


def test_what_is_spread_goes_both_ways_from_where_it_is_wanted():
    np.testing.assert_allclose(curves._spread([4, 4, 4, 9], 1, 0, 10), [3, 4, 5, 9])


# --- Attention ------------------------------------------------------------------------


def attention_weights(E, T, H, N):
    weights = np.random.default_rng(0).random((E, T, H, N, N + 1))
    return weights / weights.sum(axis=-1, keepdims=True)


QUESTION = (
    "Which vector is number 2 of 8 in distance from vector 5, farthest "
    "first?\nAnswer 3, right (labels in order: 0 2 3 1 7 6 5 4)"
)


def test_each_matrix_stands_at_its_head_and_time_step():
    E, T, H, N = 2, 3, 4, 5
    weights = attention_weights(E, T, H, N)
    figure = slots._draw_attention(weights, [2, 0], ["one", "two"])
    for example, block in enumerate(figure.axes[:E]):
        (mesh,) = (c for c in block.collections if c.get_array() is not None)
        assert mesh.get_clim() == (0, 1)
        cells = np.ma.filled(mesh.get_array(), np.nan).reshape(H + 1, N + 1, T, N + 2)
        for t in range(T):
            for h in range(H):
                np.testing.assert_array_equal(
                    cells[h, :N, t, : N + 1], weights[example, t, h]
                )
            np.testing.assert_allclose(
                cells[H, :N, t, : N + 1], sum(weights[example, t]) / H
            )
        assert np.isnan(cells[:, N]).all() and np.isnan(cells[..., N + 1]).all()
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "head 1",
        "head 2",
        "head 3",
        "head 4",
        "mean",
    ]


def test_the_marked_step_is_framed_and_named_in_red():
    figure = slots._draw_attention(
        attention_weights(2, 4, 2, 3), [3, 1], ["one", "two"], mark="query"
    )
    for block, marked in zip(figure.axes, (3, 1), strict=False):
        labels = block.get_xticklabels()
        assert [label.get_text() for label in labels] == [
            f"query\nt={t + 1}" if t == marked else f"t={t + 1}" for t in range(4)
        ]
        red = [to_hex(label.get_color()).upper() == style.MARK for label in labels]
        assert red == [t == marked for t in range(4)]
        (frame,) = (
            p
            for p in block.patches
            if isinstance(p, Rectangle)
            and to_hex(p.get_edgecolor()).upper() == style.MARK
        )
        inside = [
            frame.get_x() < tick < frame.get_x() + frame.get_width()
            for tick in block.get_xticks()
        ]
        assert inside == [t == marked for t in range(4)]


def test_columns_of_the_slots_that_took_it_in_have_a_red_edge_from_then_on():
    E, T, H, N = 2, 3, 2, 4
    held = np.array([[True, False, True, False], [False] * 4])
    figure = slots._draw_attention(
        attention_weights(E, T, H, N), [1, 0], ["one", "two"], held=held
    )
    for block, of_example, steps in zip(figure.axes, held, (2, 3), strict=False):
        red = [
            c
            for c in block.collections
            if c.get_array() is None and to_hex(c.get_colors()[0]).upper() == style.MARK
        ]
        edges = (
            np.concatenate(
                [np.array(c.get_segments()) for c in red if len(c.get_segments())]
            )
            if of_example.any()
            else []
        )
        assert len(edges) == of_example.sum() * steps * (H + 1)
        for (x, y), (end, y_end) in edges:
            column, of_step = (
                (x - block.get_xticks()[0]) / (end - x) + (N + 1) / 2,
                block.get_xticks(),
            )
            step = np.argmin(abs(of_step - (x + end) / 2))
            column = round((x - of_step[step]) / (end - x) + (N + 1) / 2)
            assert y == y_end and step >= 1 and of_example[column]


def assert_words_are_apart_and_inside(figure):
    with style.style():
        figure.draw_without_rendering()
    words = [
        *figure.texts,
        *(text for legend in figure.legends for text in legend.get_texts()),
    ]
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            for tick in axis._update_ticks():  # those that are drawn
                words += [tick.label1, tick.label2]
        words += [axes.xaxis.label, axes.yaxis.label, axes.title, axes._left_title]
        words += axes.texts
    boxes = [
        (word.get_text(), word.get_window_extent())
        for word in words
        if word.get_text() and word.get_visible()
    ]
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        assert not a.overlaps(b), f"{one!r} overlaps {other!r}"
    for word, box in boxes:
        assert (
            box.x0 >= 0
            and box.y0 >= 0
            and box.x1 <= figure.bbox.x1
            and box.y1 <= figure.bbox.y1
        ), word


@pytest.mark.parametrize(
    "shape",
    [
        (3, 4, 4, 4),
        (3, 8, 8, 8),
        (1, 4, 1, 1),
        (4, 8, 2, 16),
        (1, 8, 8, 1),
        (2, 4, 8, 16),
    ],
)
def test_no_words_overlap_or_leave_the_picture(shape):
    E, T, _, N = shape
    with style.style():
        held = np.ones((E, N), bool)
        figure = slots._draw_attention(
            attention_weights(*shape),
            [0, T - 1, 0, T - 1][:E],
            [QUESTION] * E,
            held=held,
        )
    assert_words_are_apart_and_inside(figure)
    assert figure.bbox.width < 3000 and figure.bbox.height < 1250


# --- What comes of it -----------------------------------------------------------------


def gate_values(E, T, N, G):
    random = np.random.default_rng(0)
    return {
        "input gate": random.random((E, T, N, G)),
        "forget gate": random.random((E, T, N, G)),
    }


def test_each_gate_is_its_mean_over_time_and_its_slot_named():
    values = gate_values(2, 4, 3, 10)
    held = np.array([[True, False, False], [False, False, True]])
    figure = slots._draw_gates(values, [1, 3], ["one", "two"], held=held)
    panels = np.reshape(figure.axes, (3, 2))
    for slot, example in np.ndindex(3, 2):
        panel = panels[slot, example]
        lines = {line.get_label(): line for line in panel.get_lines()}
        lines = {label.partition(":")[0]: line for label, line in lines.items()}
        assert list(lines) == ["reference", "input gate", "forget gate"]
        assert lines["reference"].get_xdata()[0] == [2, 4][example]
        assert lines["reference"].get_color() == style.MARK
        for (name, gate), band in zip(values.items(), panel.collections, strict=True):
            np.testing.assert_allclose(
                lines[name].get_ydata(), gate[example, :, slot].mean(-1)
            )
            np.testing.assert_array_equal(lines[name].get_xdata(), [1, 2, 3, 4])
            corners = band.get_paths()[0].vertices[:, 1]
            assert corners.max() == pytest.approx(
                np.quantile(gate[example, :, slot], 0.9, axis=-1).max()
            )
        (name,) = panel.texts
        assert name.get_text() == f"slot {slot + 1}"
        assert (name.get_color() == style.MARK) == held[example, slot]
    assert [panel.get_title(loc="left") for panel in panels[0]] == ["one", "two"]


@pytest.mark.parametrize("shape", [(3, 8, 5, 2), (1, 4, 1, 1)])
def test_no_words_of_the_gates_overlap(shape):
    E, T, _, _ = shape
    assert_words_are_apart_and_inside(
        slots._draw_gates(gate_values(*shape), [0, T // 2, T - 1][:E], [QUESTION] * E)
    )


def looks(heads):
    random, periods = np.random.default_rng(0), ("before", "at", "after")
    names = ["uniform", *(f"head {h + 1}" for h in range(heads)), "mean"]
    places = "the input", "the slots that took in the reference", "all other slots"
    return {
        place: {
            name: dict(zip(periods, random.random(3), strict=True)) for name in names
        }
        for place in places
    }


def test_attention_before_at_and_after_stands_in_its_place():
    places = looks(2)
    places["the input"]["head 1"]["before"] = None
    panels = slots._draw_shares(places, "query").axes
    for panel, (place, lines) in zip(panels, places.items(), strict=True):
        assert panel.get_title() == f"to {place}"
        for line, values in zip(panel.get_lines(), lines.values(), strict=True):
            np.testing.assert_allclose(
                line.get_ydata(), np.array(list(values.values()), float)
            )
        assert [label.get_text() for label in panel.get_xticklabels()] == [
            "before",
            "at",
            "after",
        ]
        assert panel.get_xlabel() == "the query"
    assert_words_are_apart_and_inside(slots._draw_shares(looks(8), "reference"))


def test_accuracies_stand_at_their_names_beside_intact_and_floors():
    intact = {"accuracy": 0.9, "accuracy_without_self": 0.8}
    row = {
        "before": {"accuracy": 0.4, "accuracy_without_self": 0.3},
        "after": {"accuracy": 0.6, "accuracy_without_self": None},
    }
    wiped = {f"slot {k + 1}": row for k in range(8)} | {
        "the slots that took in the reference": row
    }
    tests = {
        "when these are wiped": wiped,
        "when no slot attends to": {"everything but itself": row},
    }
    figure = slots._draw_accuracies(
        tests,
        intact,
        {**FLOORS, "test_accuracy_without_self": {"only the self query": 1 / 3}},
    )
    panels = np.reshape(figure.axes, (2, 2))
    for (i, metric), (j, (test, table)) in itertools.product(
        enumerate(intact), enumerate(tests.items())
    ):
        lines = {line.get_label(): line for line in panels[i, j].get_lines()}
        assert lines["nothing done"].get_xdata()[0] == intact[metric]
        for how in "before", "after":
            np.testing.assert_allclose(
                lines[how].get_xdata(), np.array([row[how][metric]] * len(table), float)
            )
        assert [label.get_text() for label in panels[i, j].get_yticklabels()] == list(
            table
        )
        assert panels[i, j].get_title() == f"{metric.replace('_', ' ')} {test}"
        assert lines["only the self query"].get_xdata()[0] == [0.5, 1 / 3][i]
    assert_words_are_apart_and_inside(figure)


# --- Files ----------------------------------------------------------------------------


def draw_both(folder):
    groups = {"rmc": [lines_of([0.1, 0.7])], "lstm": [lines_of([0.2, 0.4])]}
    curve = figures.learning_curve(groups, FLOORS, [TEST], folder / "curve.png", "$x_1")
    attention = figures.attention(
        attention_weights(2, 4, 2, 3),
        [0, 1],
        ["one $", "two_"],
        folder / "attention.png",
    )
    gates = figures.gates(
        gate_values(2, 4, 3, 5), [0, 1], ["one $", "two_"], folder / "gates.png"
    )
    shares = figures.shares(looks(2), "reference", folder / "shares.png")
    row = {
        "wiped": {"slot 1": {"reset": {"accuracy": 0.5}, "swapped": {"accuracy": 0.6}}}
    }
    return (
        curve,
        attention,
        gates,
        shares,
        figures.accuracies(row, {"accuracy": 0.9}, FLOORS, folder / "accuracies.png"),
    )


def test_equal_numbers_give_equal_bytes_whatever_the_readers_settings(tmp_path):
    first = [path.read_bytes() for path in draw_both(tmp_path)]
    assert all(
        data.startswith(b"\x89PNG") and b"matplotlib" not in data for data in first
    )
    with matplotlib.rc_context(
        {
            "font.size": 20,
            "axes.facecolor": "yellow",
            "savefig.bbox": "tight",
            "figure.dpi": 37,
        }
    ):
        before = dict(matplotlib.rcParams)
        again = [path.read_bytes() for path in draw_both(tmp_path)]
        assert dict(matplotlib.rcParams) == before
    assert again == first


def python(script):
    surroundings = os.environ | {"PYTHONPATH": str(Path(tinyrmc.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, "-c", script],
        env=surroundings,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def test_pyplot_is_never_imported_and_matplotlib_only_to_draw():
    assert (
        python(
            "import sys, tinyrmc.cli.plot, tinyrmc.results.attending; "
            "print('matplotlib' in sys.modules)"
        )
        == "False\n"
    )
    script = """
import os, sys, numpy
from tinyrmc.results import figures
figures.attention(numpy.ones((1, 4, 1, 1, 2)), [0], ["title"], os.devnull)
figures.learning_curve({"a": [[{"step": 1, "b": 1}]]}, {}, ["b"], os.devnull)
print("matplotlib.pyplot" in sys.modules)
"""
    assert python(script) == "False\n"


# --- The plot command -----------------------------------------------------------------

nth_farthest = load_task("nth_farthest")


def small(**model):
    """A configuration of nth_farthest whose networks are tiny."""
    config = dataclasses.replace(
        nth_farthest.QUICK,
        model=dataclasses.replace(
            nth_farthest.QUICK.model, head_size=2, num_heads=2, **model
        ),
    )
    return dataclasses.replace(
        config, train=dataclasses.replace(config.train, batch_size=8)
    )


@pytest.fixture
def make_run(tmp_path):
    def make(
        config=None, seed=0, values=(0.25, 0.5), preset="quick", task="nth_farthest"
    ):
        config = dataclasses.asdict(config or small())
        run = Run.create(
            tmp_path / "runs",
            "r",
            {"task": task, "preset": preset, "seed": seed, "config": config},
            {},
        )
        for line in lines_of(values, test_accuracy_without_self=0.2):
            run.log(line | {"samples": 8 * line["step"], "seconds": line["step"] / 10})
        return run

    return make


def words():
    """What `small` is called."""
    return "quick --model.head-size 2 --model.num-heads 2 --train.batch-size 8"


def test_what_the_command_draws(make_run, tmp_path, monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(
        figures, "learning_curve", lambda *words: seen.append(words) or words[3]
    )
    runs = [
        make_run(seed=0),
        make_run(seed=1, values=[0.3]),
        make_run(small(core="lstm")),
    ]
    assert (
        plot.main(
            [*(str(run.path) for run in runs), "--out", str(tmp_path / "all.png")]
        )
        == 0
    )
    ((groups, references, metrics, out, title, axes, cores, training),) = seen
    assert training == []  # of a single run alone
    assert axes == ("steps",) and cores == ["rmc", "lstm"]
    assert capsys.readouterr().out == f"{out}\n"
    assert out == tmp_path / "all.png"
    assert title == f"nth_farthest {words()}".replace(" --", ", --")
    assert groups == {
        "rmc": [runs[0].metrics(), runs[1].metrics()],
        "lstm": [runs[2].metrics()],
    }
    assert metrics == [TEST, "test_accuracy_without_self"]
    assert references == nth_farthest.Task(small()).references()


def test_against_several_axes_only_the_headline_is_drawn(
    make_run, tmp_path, monkeypatch, capsys
):
    seen = []
    monkeypatch.setattr(
        figures,
        "learning_curve",
        lambda *words: seen.append((words[2], words[5])) or words[3],
    )
    run = str(make_run().path)
    for words in (["--against", "steps,samples,hours"], ["--against", "hours"]):
        assert plot.main([run, *words, "--out", str(tmp_path / "a.png")]) == 0
    assert seen == [
        ([TEST], ("steps", "samples", "hours")),
        ([TEST, "test_accuracy_without_self"], ("hours",)),
    ]
    capsys.readouterr()
    for words in ("step", "steps,steps", "steps,", ""):
        with pytest.raises(SystemExit) as caught:
            run_main(lambda words=words: plot.main([run, "--against", words]))
        says = (
            "error: --against takes steps, samples, hours, or several with commas "
            f"between, not {words!r}\n"
        )
        assert caught.value.code == 2 and capsys.readouterr().err.startswith(says)


def test_different_references_are_named_after_their_groups(
    make_run, tmp_path, monkeypatch
):
    seen = []
    monkeypatch.setattr(figures, "learning_curve", lambda *words: seen.append(words))
    large = dataclasses.replace(
        small(), data=dataclasses.replace(small().data, objects=8, dimensions=16)
    )
    run_curves.draw_curves(
        [make_run(), make_run(small(core="lstm")), make_run(large)], tmp_path / "a.png"
    )
    name = "rmc, --data.objects 8, --data.dimensions 16"
    quick, large = (
        nth_farthest.Task(config).references()[TEST] for config in (small(), large)
    )
    floors = {
        label: {
            f"rmc and 1 more: {label}": quick[label],
            f"{name}: {label}": large[label],
        }
        for label in quick
    }
    assert seen[0][1][TEST] == {
        **floors["only the self query"],
        **floors["ranking by own norm"],
        f"{name}: paper (RMC)": 0.91,
    }


def test_what_configurations_have_in_common_is_in_the_title(
    make_run, tmp_path, monkeypatch
):
    titles = []
    monkeypatch.setattr(
        figures, "learning_curve", lambda *words: titles.append(words[4])
    )
    for runs in (
        [make_run()],
        [make_run(), make_run(seed=1)],
        [make_run(), make_run(small(core="lstm"))],
    ):
        run_curves.draw_curves(runs, tmp_path / "a.png")
    assert titles == [
        f"nth_farthest {words()}, seed 0",
        f"nth_farthest {words()}",
        f"nth_farthest {words()}".replace(" --", ", --"),
    ]


def test_training_batches_of_easier_rungs_are_not_drawn(
    make_run, tmp_path, monkeypatch
):
    """On three vectors a network may be right more often than the floors of four: it
    has solved nothing yet.
    """
    seen = []
    monkeypatch.setattr(figures, "learning_curve", lambda *words: seen.append(words[7]))
    run = make_run(values=[])
    lines = [
        {**line, "accuracy": 0.9, "rung": rung}
        for line, rung in zip(
            lines_of([0.3, 0.4, 0.5]), ["3x1", "3x4", "4x4"], strict=True
        )
    ]
    for line in lines:
        run.log(line)
    run_curves.draw_curves([run], tmp_path / "a.png")
    assert seen == [lines[2:]]


def test_a_single_run_gets_its_tasks_pictures_beside_the_curve(
    make_run, tmp_path, capsys
):
    run = make_run()
    curve = run.path / "learning_curve.png"
    assert run_curves.draw_run(run) == [curve]  # no checkpoint yet

    trainer = Trainer(nth_farthest.Task(small()), seed=0, workers=1, processes=False)
    run.save(trainer.arrays(), {**trainer.state(), "lines": 2, "run": run.config})
    assert plot.main([str(run.path)]) == 0
    assert capsys.readouterr().out.split("\n") == [
        str(run.path / "learning_curve.png"),
        str(run.path / "attention.png"),
        "",
    ]
    assert (run.path / "attention.png").read_bytes().startswith(b"\x89PNG")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert plot.main([str(run.path), "--out", str(elsewhere / "curve.png")]) == 0
    # nothing else is written, or overwritten, there
    assert [path.name for path in elsewhere.iterdir()] == ["curve.png"]


def test_what_cannot_be_drawn_is_left_out_and_said(
    make_run, tmp_path, monkeypatch, capsys
):
    seen = []
    monkeypatch.setattr(
        figures, "learning_curve", lambda *words: seen.append(words) or words[3]
    )
    run, fresh, longer = (
        make_run(values=[0.2]),
        make_run(seed=1, values=[]),
        make_run(values=[0.2, 0.3]),
    )
    assert plot.main([str(run.path.parent), "--out", str(tmp_path / "a.png")]) == 0
    assert seen[0][0] == {words(): [longer.metrics()]}
    assert capsys.readouterr().err.splitlines() == [
        f"left out: {fresh.path} has not been evaluated yet",
        f"left out: {run.path} has the configuration and seed of {longer.path}",
    ]
    with pytest.raises(
        RunError,
        match=r"there is no evaluated run in (\S+) \(\1 has not been evaluated yet\); "
        r"train one, or give",
    ):
        plot.main([str(fresh.path)])


def error_of(runs, out="a.png"):
    with pytest.raises(RunError) as caught:
        run_curves.draw_curves(runs, Path(out))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_errors_name_the_run_and_the_remedy(make_run, tmp_path):
    run = make_run()
    assert "different tasks; plot them one by one" in error_of(
        [run, make_run(task="other")]
    )
    elsewhere = {**run.config, "task_file": "/another/place/nth_farthest.py"}
    assert "different tasks; plot them one by one" in error_of(
        [run, dataclasses.replace(run, config=elsewhere)]
    )
    assert "give --out a name that ends in .png" in error_of(
        [run], run.path / "metrics.jsonl"
    )
    assert (
        "No such file or directory; give python -m tinyrmc plot a writable place "
        "with --out" in error_of([run], tmp_path / "no/a.png")
    )
    nothing = make_run(seed=2, values=[None])
    assert (
        error_of([nothing])
        == f"the runs of '{words()}' have no value of test_accuracy; leave them out"
    )


@pytest.mark.parametrize(
    "words, says",
    [
        ([], "RUN"),
        (["--nonsense", "x"], "--nonsense"),
        (["nowhere"], "nowhere"),
        (["x", "--out"], "--out"),
    ],
)
def test_bad_words_get_one_line_and_exit_code_2(words, says, monkeypatch, capsys):
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: plot.main(words))
    out, err = capsys.readouterr()
    assert caught.value.code == 2 and not out
    assert err.startswith("error: ") and err.count("\n") == 1 and says in err
