"""Pictures: which numbers are drawn and where, how runs are grouped into lines, and
what the plot command says when it cannot draw.
"""

import dataclasses
import itertools
import types
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from tinyruns import SURROUNDINGS, output, python

from tinyrmc.cli import plot
from tinyrmc.errors import RunError
from tinyrmc.results import figures, plotting
from tinyrmc.results.figures import learning_curves, style
from tinyrmc.training.discovery import load_task
from tinyrmc.training.run import Run
from tinyrmc.training.trainer import Trainer

TEST = "test_accuracy"
FLOORS = {TEST: {"only the self query": 0.5, "ranking by own norm": 0.59}}
SAYS = "mean of the seeds, in a band from the lowest to the highest"
DOTTED = f"{SAYS}; dotted where not all of them count"


def figure_of(picture, *args, **named):
    """The figure that one of the pictures would write to its file."""
    with style.style():
        return picture.__wrapped__(*args, **named)


def curve_of(*args, **named):
    """A learning curve of test accuracy."""
    groups, references = [*args, {}][:2]
    return figure_of(figures.learning_curve, groups, references, [TEST], **named)


def lines_of(values, metric=TEST, every=100, seconds=None, **more):
    """metrics.jsonl of a run that measured `values` at every, 2 every, ..."""
    steps = [every * (k + 1) for k in range(len(values))]
    return [
        {"step": step, "samples": 32 * step, metric: value, "seconds": second, **more}
        for step, value, second in zip(steps, values, seconds or steps, strict=True)
    ]


SLOW = lines_of([0.2, 0.4, 0.8], seconds=[100, 300, 400])
FAST = lines_of([0.1, 0.5, 0.5, 0.9], seconds=[50, 150, 250, 350])


def drawn(panel):
    """{label: (x, y)} of the lines that the legend names."""
    handles, labels = panel.get_legend_handles_labels()
    return {label: line.get_data() for line, label in zip(handles, labels, strict=True)}


def flat(words):
    return " ".join(words.split())


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
        # an annotation's own extent has its arrow too
        (word.get_text(), matplotlib.text.Text.get_window_extent(word))
        for word in words
        if word.get_text() and word.get_visible()
    ]
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        assert not a.shrunk(0.98, 0.98).overlaps(b), f"{one!r} overlaps {other!r}"
    for word, box in boxes:
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, word
        assert box.y0 >= 0 and box.y1 <= figure.bbox.y1, word


# --- Means and ranges -----------------------------------------------------------------


def test_at_each_step_those_count_that_came_so_far():
    for axis, place in ("steps", "step"), ("samples", "samples"):
        curve = learning_curves.mean_and_range([SLOW, FAST], TEST, axis)
        assert curve.points.tolist() == [line[place] for line in FAST]
        assert curve.runs.tolist() == [2, 2, 2, 1]
        expected = [[0.15, 0.45, 0.65, 0.9], [0.1, 0.4, 0.5, 0.9], [0.2, 0.5, 0.8, 0.9]]
        np.testing.assert_allclose(curve[1:4], expected)


def test_against_time_each_run_is_a_line_between_its_own_measurements():
    curve = learning_curves.mean_and_range([SLOW, FAST], TEST, "hours")
    points, mean, low, high, counts = curve
    assert points.tolist() == [50, 100, 150, 250, 300, 350, 400]
    assert counts.tolist() == [1, 2, 2, 2, 2, 2, 1]
    # by hand, where both count
    slow = np.array([0.2, 0.25, 0.35, 0.4, 0.6])
    fast = np.array([0.3, 0.5, 0.5, 0.7, 0.9])
    expected = [(slow + fast) / 2, np.minimum(slow, fast), np.maximum(slow, fast)]
    np.testing.assert_allclose([x[1:6] for x in (mean, low, high)], expected)
    assert [mean[0], mean[-1]] == [0.1, 0.8]
    single = learning_curves.mean_and_range([FAST], TEST, "hours")
    assert single.points.tolist() == [50, 150, 250, 350]
    assert single.mean.tolist() == [0.1, 0.5, 0.5, 0.9]


def test_what_has_no_value_does_not_count():
    for other in [], lines_of([None]):
        points, mean, *_, counts = learning_curves.mean_and_range(
            [SLOW, other], TEST, "hours"
        )
        assert points.tolist() == [100, 300, 400]
        assert mean.tolist() == [0.2, 0.4, 0.8] and counts.tolist() == [1, 1, 1]
        assert learning_curves.mean_and_range([other, other], TEST).points.size == 0
    lines = [{"step": 1, TEST: None}, {"step": 2, TEST: 0.5}, {"step": 3}]
    steps, values = learning_curves.measured([*lines, {"step": 2, TEST: 0.7}], TEST)
    assert steps.tolist() == [2] and values.tolist() == [0.7]  # a step counts once
    with pytest.raises(ValueError, match=f"the runs of 'rmc' have no value of {TEST}"):
        curve_of({"rmc": [lines_of([None]), lines_of([0.1], "loss")]})


# --- Learning curves ------------------------------------------------------------------


def test_a_group_is_its_mean_and_range_dotted_where_some_have_ended():
    runs = [
        lines_of([0.1, 0.5, 0.9]),
        lines_of([0.3, 0.7]),
        [*lines_of([0.2, 0.6]), {"step": 250, TEST: 0.7}, {"step": 300, "loss": 1.0}],
    ]
    figure = curve_of({"rmc": runs, "lstm": [lines_of([0.4])]})
    (panel,) = figure.axes
    lines = drawn(panel)
    x, y = lines["rmc: 3 seeds, dotted: 1 to 2"]
    np.testing.assert_array_equal(x, [100, 200, 250, 300])
    np.testing.assert_allclose(y, [0.2, 0.6, np.nan, np.nan])
    blue = [line for line in panel.lines if line.get_color() == style.COLOURS[0]]
    (dotted,) = (line for line in blue if line.get_linestyle() != "-")
    np.testing.assert_array_equal(dotted.get_xdata(), x)
    half_way = (0.5 + 0.9) / 2
    expected = [0.2, 0.6, (half_way + 0.7) / 2, 0.9]
    np.testing.assert_allclose(dotted.get_ydata(), expected)
    np.testing.assert_allclose(lines["lstm: 1 seed"][1], [0.4])
    (band,) = panel.collections
    corners = {(round(x), round(y, 6)) for x, y in band.get_paths()[0].vertices}
    at = {100: (0.1, 0.3), 200: (0.5, 0.7), 250: (0.7,), 300: (0.9,)}
    assert corners == {(x, y) for x, ys in at.items() for y in ys}
    assert flat(figure.legends[0].get_title().get_text()) == DOTTED


def test_each_metric_has_a_panel_with_its_own_references():
    both = [
        {"step": 1, TEST: 0.4, "test_loss": 2.0},
        {"step": 2, TEST: 0.6, "test_loss": 1.0},
    ]
    known = FLOORS | {"test_loss": {"uniform": 1.386294}}
    metrics = [TEST, "test_loss"]
    figure = figure_of(figures.learning_curve, {"rmc": [both]}, known, metrics, "title")
    accuracy, loss = figure.axes
    assert accuracy.get_title() == "held-out accuracy"
    assert loss.get_title() == "held-out loss"
    named = [text.get_text().replace("\u00a0", " ") for text in accuracy.texts]
    assert named == ["only the self query 50.0 %", "ranking by own norm 59.0 %"]
    assert [text.get_text() for text in loss.texts] == ["uniform 1.3863"]
    lines = [line for line in accuracy.lines if line.get_label().startswith("_")]
    assert {line.get_ydata()[0] for line in lines} == {0.5, 0.59}
    assert accuracy.get_ylim() == (0, 1.02)
    assert accuracy.yaxis.get_major_formatter()(0.2) == "20 %"
    np.testing.assert_allclose(loss.lines[0].get_ydata(), [2.0, 1.0])


def test_a_panel_for_each_axis():
    groups = {"rmc": [SLOW, SLOW], "lstm": [FAST]}
    figure = curve_of(groups, FLOORS, axes=("steps", "samples", "hours"))
    labels = "steps", "samples", "minutes of training"
    for panel, axis, label in zip(
        figure.axes, learning_curves.AXES, labels, strict=True
    ):
        assert panel.get_xlabel() == label
        for runs, (x, y) in zip(([SLOW], [FAST]), drawn(panel).values(), strict=True):
            expected = learning_curves.mean_and_range(runs, TEST, axis)
            assert x.tolist() == expected.points.tolist()
            assert y.tolist() == expected.mean.tolist()
    (legend,) = figure.legends
    named = [text.get_text() for text in legend.get_texts()]
    assert named == ["rmc: 2 seeds", "lstm: 1 seed"]
    assert_words_are_apart_and_inside(figure)


# --- Attention ------------------------------------------------------------------------


def attention_weights(E, T, H, N):
    weights = np.random.default_rng(0).random((E, T, H, N, N + 1))
    return weights / weights.sum(axis=-1, keepdims=True)


def is_red(colour):
    return to_hex(colour).upper() == style.MARK


def test_each_matrix_stands_at_its_head_and_time_step():
    """The marked step is framed and named in red; from then on the columns of the slots
    that took it in have a red edge.
    """
    E, T, H, N = 2, 3, 4, 5
    weights, marked = attention_weights(E, T, H, N), [2, 0]
    held = np.array([[True, False, True, False, True], [False] * 5])
    about = marked, ["one", "two"], "query", held
    figure = figure_of(figures.attention, weights, *about)
    mean = weights.mean(axis=2, keepdims=True)
    for example, block in enumerate(figure.axes[:E]):
        (image,) = block.get_images()
        assert image.get_clim() == (0, 1)
        cells = np.full((H + 1, N + 1, T, N + 2), np.nan)
        cells[:, :N, :, : N + 1] = np.concatenate([weights, mean], axis=2)[
            example
        ].transpose(1, 2, 0, 3)
        wanted = cells.reshape((H + 1) * (N + 1), -1)[:-1, :-1]
        shown = np.ma.filled(image.get_array(), np.nan)
        np.testing.assert_allclose(shown, wanted, rtol=1e-6)
        labels, at = block.get_xticklabels(), marked[example]
        steps = [f"t={t + 1}" for t in range(T)]
        steps[at] = f"query\n{steps[at]}"
        assert [label.get_text() for label in labels] == steps
        assert [is_red(label.get_color()) for label in labels] == [
            t == at for t in range(T)
        ]
        frames = [p for p in block.patches if isinstance(p, Rectangle)]
        (frame,) = (p for p in frames if is_red(p.get_edgecolor()))
        middle = frame.get_x() + frame.get_width() / 2
        assert middle == pytest.approx(block.get_xticks()[at])
        edges = {
            (*line.get_xdata(), line.get_ydata()[0])
            for line in block.lines
            if is_red(line.get_color())
        }
        assert edges == {
            (t * (N + 2) + n - 0.5, t * (N + 2) + n + 0.5, h * (N + 1) - 0.5)
            for t in range(at, T)
            for n in np.flatnonzero(held[example])
            for h in range(H + 1)
        }
    heads = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert heads == ["head 1", "head 2", "head 3", "head 4", "mean"]


# --- What comes of it -----------------------------------------------------------------


def test_accuracies_stand_at_their_names_beside_intact_and_floors():
    intact = {"accuracy": 0.9, "accuracy_without_self": 0.8}
    row = {
        "before": {"accuracy": 0.4, "accuracy_without_self": 0.3},
        "after": {"accuracy": 0.6, "accuracy_without_self": None},
    }
    slots = [f"slot {k + 1}" for k in range(8)]
    tests = {
        "when these are wiped": dict.fromkeys([*slots, "the slots that took it"], row),
        "when no slot attends to": {"everything but itself": row},
    }
    floors = {**FLOORS, "test_accuracy_without_self": {"only the self query": 1 / 3}}
    figure = figure_of(figures.accuracies, tests, intact, floors)
    panels = np.reshape(figure.axes, (2, 2))
    for (i, metric), (j, (test, table)) in itertools.product(
        enumerate(intact), enumerate(tests.items())
    ):
        lines = [line.get_xdata() for line in panels[i, j].get_lines()]
        assert lines[0][0] == intact[metric]
        assert lines[1][0] == [0.5, 1 / 3][i]
        for how, x in zip(("before", "after"), lines[-2:], strict=True):
            expected = np.array([row[how][metric]] * len(table), float)
            np.testing.assert_allclose(x, expected)
        names = [label.get_text() for label in panels[i, j].get_yticklabels()]
        assert names == list(table)
        assert panels[i, j].get_title() == f"{metric.replace('_', ' ')} {test}"
    (legend,) = figure.legends
    named = {text.get_text() for text in legend.get_texts()}
    assert named == {"nothing done", *floors[TEST], "before", "after"}
    assert_words_are_apart_and_inside(figure)


# --- Files ----------------------------------------------------------------------------


def draw_all(folder):
    both = {"rmc": [SLOW, FAST], "lstm": [lines_of([0.2, 0.4])]}
    weights = attention_weights(2, 4, 2, 3)
    marked = [0, 1], ["one $", "two_"]
    hits = {"reset": {"accuracy": 0.5}, "swapped": {"accuracy": 0.6}}
    wiped = {"wiped": {"slot 1": hits}}
    return [
        figures.learning_curve(folder / "curve.png", both, FLOORS, [TEST], "$x_1"),
        figures.attention(folder / "attention.png", weights, *marked),
        figures.accuracies(folder / "a.png", wiped, {"accuracy": 0.9}, FLOORS),
    ]


def test_equal_numbers_give_equal_bytes_whatever_the_readers_settings(tmp_path):
    first = [path.read_bytes() for path in draw_all(tmp_path)]
    for data in first:
        assert data.startswith(b"\x89PNG") and b"matplotlib" not in data
    bad = {"font.size": 20, "axes.facecolor": "yellow", "savefig.bbox": "tight"}
    with matplotlib.rc_context({**bad, "figure.dpi": 37}):
        before = dict(matplotlib.rcParams)
        again = [path.read_bytes() for path in draw_all(tmp_path)]
        assert dict(matplotlib.rcParams) == before
    assert again == first


def test_pyplot_is_never_imported_and_matplotlib_only_to_draw():
    script = """
import os, sys, numpy, tinyrmc.cli.plot, tinyrmc.results.attending
print("matplotlib" in sys.modules)
from tinyrmc.results import figures
figures.attention(os.devnull, numpy.ones((1, 4, 1, 1, 2)), [0], ["title"])
figures.learning_curve(os.devnull, {"a": [[{"step": 1, "b": 1}]]}, {}, ["b"])
print("matplotlib.pyplot" in sys.modules)
"""
    assert output("-c", script) == "False\nFalse\n"


def test_the_first_cell_of_a_chapter_brings_no_training():
    """In a browser each module takes time."""
    script = """
import sys
from tinyrmc import course, equations, fused
from tinyrmc.course.exercises import attention as ex
course.setup()
print(*[name for name in sys.modules if name.startswith("tinyrmc.training")])
"""
    assert output("-c", script) == "\n"


# --- The plot command -----------------------------------------------------------------

nth_farthest = load_task("nth_farthest")
WORDS = "quick --model.head-size 2 --model.num-heads 2 --train.batch-size 8"


def small(**model):
    """A configuration of nth_farthest whose networks are tiny, as WORDS make it."""
    usual, replace = nth_farthest.QUICK, dataclasses.replace
    model = replace(usual.model, head_size=2, num_heads=2, **model)
    return replace(usual, model=model, train=replace(usual.train, batch_size=8))


@pytest.fixture
def make_run(tmp_path):
    def make(config=None, seed=0, values=(0.25, 0.5), task="nth_farthest"):
        config = dataclasses.asdict(config or small())
        described = {"task": task, "preset": "quick", "seed": seed, "config": config}
        run = Run.create(tmp_path / "runs", "r", described, {})
        for line in lines_of(values, test_accuracy_without_self=0.2):
            seconds, samples = line["step"] / 10, 8 * line["step"]
            run.log(line | {"samples": samples, "seconds": seconds})
        return run

    return make


@pytest.fixture
def asked(monkeypatch):
    """The arguments of each learning curve that is asked for; none is drawn."""
    seen = []
    names = "out groups references metrics title axes cores training".split()

    def take(*words):
        seen.append(types.SimpleNamespace(**dict(zip(names, words, strict=True))))
        return words[0]

    monkeypatch.setattr(figures, "learning_curve", take)
    return seen


def test_what_the_command_draws(make_run, tmp_path, asked, capsys, monkeypatch):
    runs = [make_run(), make_run(seed=1, values=[0.3]), make_run(small(core="lstm"))]
    words = [*(str(run.path) for run in runs), "--out", str(tmp_path / "all.png")]
    assert plot.main(words) == 0
    (found,) = asked
    assert capsys.readouterr().out == f"{found.out}\n"
    assert found.out == tmp_path / "all.png"
    first, second, other = (run.metrics() for run in runs)
    assert found.groups == {"rmc": [first, second], "lstm": [other]}
    assert found.references == nth_farthest.Task(small()).references()
    assert found.metrics == [TEST, "test_accuracy_without_self"]
    assert found.title == f"nth_farthest {WORDS}".replace(" --", ", --")
    assert found.axes == ["steps"] and found.cores == ["rmc", "lstm"]
    assert found.training == []  # of a single run alone
    assert plot.main(words[:2]) == 0  # where nobody says where: beside them
    assert asked.pop().out == tmp_path / "runs" / "learning_curve.png"
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path)
        assert plot.main(words[:2]) == 0
        assert asked.pop().out == Path("runs", "learning_curve.png")
    plotting.draw_curves(runs[:1], found.out)
    plotting.draw_curves(runs[:2], found.out)
    titles = [each.title for each in asked[1:]]
    assert titles == [f"nth_farthest {WORDS}, seed 0", f"nth_farthest {WORDS}"]


def test_a_single_run_gets_its_tasks_pictures_beside_the_curve(
    pictures, make_run, tmp_path, capsys
):
    run = make_run()
    drawn = [run.path / "learning_curve.png", run.path / "attention.png"]
    assert plotting.draw_run(run) == drawn[:1]  # no checkpoint yet
    trainer = Trainer(nth_farthest.Task(small()), seed=0, workers=1, processes=False)
    run.save(trainer.arrays(), {**trainer.state(), "lines": 2, "run": run.config})
    assert plot.main([str(run.path)]) == 0
    assert capsys.readouterr().out.splitlines() == [*map(str, drawn)]
    assert drawn[1].read_bytes().startswith(b"\x89PNG")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert plot.main([str(run.path), "--out", str(elsewhere / "curve.png")]) == 0
    # nothing else is written, or overwritten, there
    assert [path.name for path in elsewhere.iterdir()] == ["curve.png"]


def test_what_cannot_be_drawn_is_left_out_and_said(make_run, tmp_path, asked, capsys):
    run, fresh = make_run(values=[0.2]), make_run(seed=1, values=[])
    longer = make_run(values=[0.2, 0.3])
    assert plot.main([str(run.path.parent), "--out", str(tmp_path / "a.png")]) == 0
    assert asked[0].groups == {WORDS: [longer.metrics()]}
    same = f"{run.path} has the configuration and seed of {longer.path}"
    resume = "python -m tinyrmc.train --resume"
    assert {*capsys.readouterr().err.splitlines()} == {
        f"left out: {fresh.path} has not been evaluated yet: {resume} {fresh.path}",
        f"left out: {same}",
    }
    with pytest.raises(RunError, match=r"there is no evaluated run in (\S+) \(\1 has"):
        plot.main([str(fresh.path)])


def test_errors_name_the_run_and_the_remedy(make_run, tmp_path):
    run, other = make_run(), make_run(task="other")
    elsewhere = {**run.config, "task_file": "/another/place/nth_farthest.py"}
    moved = dataclasses.replace(run, config=elsewhere)
    nothing = make_run(seed=2, values=[None])
    for runs, out, says in (
        ([run, other], "a.png", "different tasks; plot them one by one"),
        ([run, moved], "a.png", "different tasks; plot them one by one"),
        ([run], run.path / "metrics.jsonl", "name that ends in .png, .pdf or .svg"),
        (
            [run],
            run.path / "config.json/a.png",
            "give python -m tinyrmc plot a writable place",
        ),
        ([nothing], "a.png", f"runs of '{WORDS}' have no value of {TEST}; leave them"),
    ):
        with pytest.raises(RunError) as caught:
            plotting.draw_curves(runs, Path(out))
        assert says in str(caught.value) and "\n" not in str(caught.value)


def test_a_paper_takes_the_curves_as_pdf_and_svg(make_run, tmp_path):
    """With letters as letters, and always the same bytes."""
    run = make_run()
    for kind, begins in (".pdf", b"%PDF"), (".svg", b"<?xml"), (".PNG", b"\x89PNG"):
        found = set()
        for name in "one", "two":
            out = tmp_path / (name + kind)
            plot.main([str(run.path), "--out", str(out)])
            found.add(out.read_bytes())
        (data,) = found
        assert data.startswith(begins)
        if kind == ".pdf":
            assert b"/Type0" in data and b"/Type3" not in data


# --- Letters and folders that are not here --------------------------------------------


def font(path, family, letters):
    """A font file with a square for each of these letters."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    names, pen = [f"u{ord(letter):X}" for letter in letters], TTGlyphPen(None)
    pen.moveTo((0, 0))
    for corner in ((0, 900), (400, 900), (400, 0)):
        pen.lineTo(corner)
    pen.closePath()
    glyphs = dict.fromkeys([".notdef", *names], pen.glyph())
    made = FontBuilder(1000, isTTF=True)
    made.setupGlyphOrder([*glyphs])
    made.setupCharacterMap(dict(zip(map(ord, letters), names, strict=True)))
    made.setupGlyf(glyphs)
    made.setupHorizontalMetrics(dict.fromkeys(glyphs, (500, 0)))
    made.setupHorizontalHeader(ascent=900, descent=-100)
    made.setupNameTable({"familyName": family, "styleName": "Regular"})
    made.setupOS2(sTypoAscender=900)
    made.setupPost()
    made.save(path)


def test_letters_that_the_usual_font_lacks(tmp_path, monkeypatch, capsys):
    """Another font of this machine has them; else you get a line, and no warnings."""
    from matplotlib import font_manager

    def picture(said=""):
        groups = {"\u5929\u5730 quick": [SLOW], "other": [FAST]}
        path = figures.learning_curve(tmp_path / "a.png", groups, {}, [TEST])
        err = capsys.readouterr().err
        assert said in err and bool(said) == bool(err)
        return path.read_bytes()

    fonts = font_manager.fontManager
    usual = [each for each in fonts.ttflist if each.name not in style.OTHERS]
    monkeypatch.setattr(fonts, "ttflist", usual)
    style._tell_of.cache_clear()
    boxes = picture("no font here has \u5730\u5929, which pictures show")
    assert picture() == boxes  # told once
    font(tmp_path / "one.ttf", style.OTHERS[1], "\u5929")
    fonts.addfont(tmp_path / "one.ttf")
    half = picture("no font here has \u5730, which")
    font(tmp_path / "two.ttf", style.OTHERS[3], "\u5730\u73a9")
    fonts.addfont(tmp_path / "two.ttf")
    assert len({boxes, half, picture()}) == 3


def test_a_home_that_cannot_be_written_is_told_in_a_line():
    """None of it is matplotlib's; and what else it has to say is heard. In a chapter
    matplotlib is imported by a cell.
    """
    around = {k: x for k, x in SURROUNDINGS.items() if not k.startswith(("XDG", "MPL"))}
    imports = (
        "import tinyrmc.results.figures",
        "from tinyrmc import course; import matplotlib.pyplot",
        "from tinyrmc import course; course.setup(); import tinyrmc.results.figures",
    )
    for line in imports:
        code = (
            f"{line}\nimport logging\nlogging.getLogger('matplotlib').warning('more')\n"
            "logging.getLogger('matplotlib.font_manager').warning('Matplotlib is "
            "building the font cache; this may take a moment.')"
        )
        done = python("-c", code, env=around | {"HOME": "/proc"})
        first, *rest = done.stderr.splitlines()
        assert first.startswith("note: matplotlib cannot keep its list of fonts")
        assert rest == ["more"] and done.returncode == 0
