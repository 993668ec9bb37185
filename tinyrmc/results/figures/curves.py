"""Learning curves of runs: means and ranges over seeds, against steps, samples or
hours.

A run is its lines of metrics.jsonl.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from ...text import in_words, is_share, number
from .style import (
    COLOURS,
    GREY,
    PLATE,
    colours,
    in_percent,
    rows_of_grid,
    save,
    style,
    wrap,
)

DOTTED = (0, (1, 1.2))

# What a curve may be drawn against, and the field of a line of metrics that holds it;
# anything else is a field of that name.
AXES = {"steps": "step", "samples": "samples", "hours": "seconds"}

Run = Sequence[dict[str, Any]]
References = Mapping[str, float]  # label -> value

# --- What is drawn --------------------------------------------------------------------


class Curve(NamedTuple):
    """Some runs at each of S points: arrays (S,)."""

    points: np.ndarray
    mean: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    runs: np.ndarray  # how many


def measured(
    run: Run, metric: str, axis: str = "steps"
) -> tuple[np.ndarray, np.ndarray]:
    """The points (S,) on `axis` (see AXES) at which a run has a value of `metric`, and
    these values (S,).
    """
    field = AXES.get(axis, axis)
    values = {line[field]: line[metric] for line in run if line.get(metric) is not None}
    points = sorted(values)
    return np.array(points, float), np.array([values[point] for point in points], float)


def mean_and_range(runs: Sequence[Run], metric: str, axis: str = "steps") -> Curve:
    """The values of `metric` in some runs, at every point where any was measured.

    A run is a straight line from one of its measurements to the next, and counts from
    its first to its last. So one that was stopped early counts up to there; and against
    hours (which come in seconds), where no two are ever measured at the same point, all
    count at once.
    """
    curves = [measured(run, metric, axis) for run in runs]
    points = np.unique(np.concatenate([x for x, _ in curves]))
    values = np.full((len(curves), len(points)), np.nan)
    for row, (x, y) in zip(values, curves, strict=True):
        if len(x):
            row[:] = np.interp(points, x, y, left=np.nan, right=np.nan)
    return Curve(
        points,
        np.nanmean(values, axis=0),
        np.nanmin(values, axis=0),
        np.nanmax(values, axis=0),
        np.count_nonzero(~np.isnan(values), axis=0),
    )


def rung_starts(run: Run, axis: str = "steps") -> list[tuple[float, str]]:
    """(point on `axis`, rung) at which a run began each rung of its curriculum.

    The `rung` of a line is the one climbed up to that line's step.
    """
    starts: list[tuple[float, str]] = []
    current, since = None, 0
    for line in run:
        if "rung" in line:
            if line["rung"] != current:
                current = line["rung"]
                starts.append((since, current))
            since = line[AXES.get(axis, axis)]
    return starts


# --- The picture ----------------------------------------------------------------------


def learning_curve(
    groups: Mapping[str, Sequence[Run]],
    references: Mapping[str, References],
    metrics: Sequence[str],
    path: str | Path,
    title: str = "",
    axes: Sequence[str] = ("steps",),
    cores: Sequence[str | None] | None = None,
    training: Run = (),
) -> Path:
    """Draw metrics against optimizer steps, or others of AXES, into the PNG file
    `path`; returns it.

    Each metric has a panel, on each of `axes`, and each group a line: the mean over its
    runs, in a band from the lowest to the highest (see `mean_and_range`), dotted where
    only some of them count. If there is but one run in all, the rungs of its curriculum
    are marked at the bottom.

    Args:
        groups: {label: runs}. Lines without a metric, or with null, do not count.
        references: {metric: {label: value}}: floors and published numbers, drawn as
            dashed lines.
        metrics: names such as "test_accuracy". What is called accuracy is a fraction,
            shown in percent; what is called perplexity has a logarithmic axis.
        cores: the core of each group, for its colour; None where there is none.
        training: lines with values on training batches, which are drawn thinly. They
            should be batches of the task itself: on easier ones a network would seem to
            be above the references.

    Raises ValueError where the runs of a group have no value of a metric, OSError where
    the file cannot be written.
    """
    with style():
        figure = _draw_learning_curve(
            groups, references, metrics, title, axes, cores, training
        )
        return save(figure, path)


def _draw_learning_curve(
    groups: Mapping[str, Sequence[Run]],
    references: Mapping[str, References],
    metrics: Sequence[str],
    title: str = "",
    axes: Sequence[str] = ("steps",),
    cores: Sequence[str | None] | None = None,
    training: Run = (),
) -> Figure:
    shown = [*itertools.product(metrics, axes)]
    wide = 5.2 if len(shown) < 3 else 4.2
    # Lines are named beside the panel, unless they end inside it on some axis.
    names_beside = len(axes) == 1 and 1 < len(groups) < 7
    size = 0.6 + wide * len(shown), 4.2 + 0.2 * len(groups)
    if names_beside:
        size = size[0] + 1.7 * len(shown), 4.4
    figure = Figure(figsize=size, layout="constrained")
    (panels,) = rows_of_grid(figure, 1, len(shown), sharex=len(axes) == 1)
    several, whole = any(len(runs) > 1 for runs in groups.values()), True
    palette = colours(cores or [None] * len(groups))
    for panel, (metric, axis) in zip(panels, shown, strict=True):
        for (label, runs), colour in zip(groups.items(), palette, strict=True):
            whole &= draw_group(panel, label, runs, metric, colour, axis, several)
        _draw_training(panel, training, metric, axis)
        draw_references(panel, references.get(metric, {}))
        label_axes(panel, metric, axis)
    says = what_lines_are(axes, whole) if several else None
    names = [_name_lines(panel) if names_beside else [] for panel in panels]
    if names_beside:
        figure.supxlabel(wrap(says or "", 11 * size[0]), fontsize=9)
    else:
        draw_legend(figure, panels[0], len(shown), 12 * wide, says)
    if title:
        figure.suptitle(wrap(title, 10 * size[0]))
    # Settles the layout: the labels below are spaced by the panels' final size.
    figure.draw_without_rendering()
    for panel, texts in zip(panels, names, strict=True):
        _move_apart(panel, texts)
    _label_panels(panels, shown, groups, references)
    return figure


def _label_panels(
    panels: Sequence[Axes],
    shown: Sequence[tuple[str, str]],
    groups: Mapping[str, Sequence[Run]],
    references: Mapping[str, References],
) -> None:
    """The references' names, on the first axis, and the rungs of a single run."""
    single = [run for runs in groups.values() for run in runs]
    for panel, (metric, axis) in zip(panels, shown, strict=True):
        if axis == shown[0][1]:
            label_references(panel, references.get(metric, {}), metric)
        if len(groups) == len(single) == 1:
            _mark_rungs(panel, rung_starts(single[0], axis))


def draw_legend(
    figure: Figure, panel: Axes, ncols: int, characters: float, title: str | None
) -> None:
    """A legend of a panel's lines below a figure: `ncols` columns of `characters`."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(
        handles,
        [wrap(label, characters) for label in labels],
        loc="outside lower center",
        ncols=ncols,
        title=title,
        title_fontsize=9,
        fontsize=9,
    )


def what_lines_are(axes: Sequence[str], whole: bool) -> str:
    """What lines and bands of several runs are."""
    between = ", interpolated between measurements" if "hours" in axes else ""
    fewer = "" if whole else "; dotted where not all of them count"
    return (
        f"mean of the seeds{between}, in a band from the lowest to the highest{fewer}"
    )


# --- Lines ----------------------------------------------------------------------------


def draw_group(
    panel: Axes,
    label: str,
    runs: Sequence[Run],
    metric: str,
    colour: str,
    axis: str,
    count_seeds: bool = False,
) -> bool:
    """The mean and the range of some runs; returns whether all count everywhere."""
    points, mean, lowest, highest, counts = mean_and_range(runs, metric, axis)
    if not len(points):
        raise ValueError(f"the runs of {label!r} have no value of {metric}")
    all_count = counts == len(runs)
    if count_seeds:
        seeds = f"{len(runs)} seed{'s' if len(runs) > 1 else ''}"
        label += f": {seeds}{_where_fewer(counts[~all_count])}"
    line: dict[str, Any] = {"color": colour, "linewidth": 1.8}
    if len(runs) > 1:
        panel.fill_between(
            points, lowest, highest, color=colour, alpha=0.2, linewidth=0
        )
    if not all_count.all():
        panel.plot(points, mean, linestyle=DOTTED, **line)
    solid = np.where(all_count, mean, np.nan)
    marker = "o" if len(points) == 1 else None
    panel.plot(points, solid, label=label, marker=marker, **line)
    return bool(all_count.all())


def _where_fewer(counts: np.ndarray) -> str:
    """What to add to a label, given how many runs count where not all do."""
    if not len(counts):
        return ""
    ends = dict.fromkeys((counts.min(), counts.max()))
    return f", dotted: {' to '.join(map(str, ends))}"


def _draw_training(panel: Axes, run: Run, metric: str, axis: str) -> None:
    points, values = measured(run, metric.partition("_")[2], axis)
    if len(points):
        label = "on training batches of the task itself"
        panel.plot(
            points, values, color=COLOURS[0], linewidth=0.8, alpha=0.35, label=label
        )


def draw_references(panel: Axes, references: References) -> None:
    """A dashed line for each value."""
    for value in references.values():
        panel.axhline(value, color=GREY, linewidth=0.9, dashes=(5, 3), zorder=1)


# --- Axes -----------------------------------------------------------------------------


def label_axes(panel: Axes, metric: str, axis: str = "steps") -> None:
    """The title of a panel, and what its axes say."""
    panel.set_title(in_words(metric), fontsize=11)
    panel.set_xlim(left=0)
    panel.margins(x=0)
    panel.locator_params(axis="x", nbins=6)
    unit, name = 1, axis.replace("_", " ")
    if panel.get_xlim()[1] >= 5e6:
        unit, name = 10**6, f"millions of {name}"
    if axis == "hours":  # the points are seconds
        unit, name = 60, "minutes of training"
        if panel.get_xlim()[1] > 2 * 3600:
            unit, name = 3600, "hours of training"
    if unit > 1:
        panel.xaxis.set_major_locator(_Multiples(unit))
    panel.set_xlabel(name)
    in_units = FuncFormatter(lambda point, _: f"{point / unit:,.10g}")
    panel.xaxis.set_major_formatter(in_units)
    label_values(panel, metric)


def label_values(panel: Axes, metric: str) -> None:
    """The axis of a metric's values."""
    panel.grid(axis="y", color="#E6E6E6", linewidth=0.6)
    panel.set_axisbelow(True)
    if is_share(metric):
        panel.set_ylim(0, 1.02)  # a curve at 100 % does not hide in the frame
        panel.set_yticks(np.arange(0, 1.01, 0.2))
        panel.yaxis.set_major_formatter(in_percent())
    elif "perplexity" in metric:
        panel.set_yscale("log")
        label_log(panel.yaxis)


def label_log(axis: Axis) -> None:
    """Ticks of a logarithmic axis as plain numbers."""
    axis.set_major_locator(_RoundNumbers())
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.5g}"))


class _RoundNumbers(MaxNLocator):
    """Round numbers for a logarithmic axis, be it long or short."""

    def __init__(self):
        super().__init__(nbins=6, steps=[1, 2, 2.5, 5, 10])

    def tick_values(self, vmin: float, vmax: float) -> Any:
        if vmax < 5 * vmin:
            return super().tick_values(vmin, vmax)
        ends = np.floor(np.log10([vmin, vmax]))
        decades = 10 ** np.arange(ends[0], ends[1] + 1)
        return np.outer(decades, (1, 2, 5) if vmax < 1000 * vmin else (1,)).ravel()


class _Multiples(MaxNLocator):
    """Ticks at round numbers of a unit."""

    def __init__(self, unit: int):
        super().__init__(nbins=6, steps=[1, 2, 2.5, 5, 10])
        self.unit = unit

    def tick_values(self, vmin: float, vmax: float) -> Any:
        ticks = super().tick_values(vmin / self.unit, vmax / self.unit)
        return np.asarray(ticks) * self.unit


# --- Labels in the panel --------------------------------------------------------------


def _name_lines(panel: Axes) -> list[Text]:
    """The name of each line beside the panel, at the height at which the line ends."""
    texts = []
    lines: Any  # of lines alone, which the types do not tell
    lines, labels = panel.get_legend_handles_labels()
    for line, label in zip(lines, labels, strict=True):
        values = np.asarray(line.get_ydata(), float)
        end = values[np.isfinite(values)][-1:]
        for y in end:  # none, where all seeds count nowhere
            text = panel.text(
                1.035,
                y,
                wrap(label, 22),
                transform=panel.get_yaxis_transform(),
                va="center",
                fontsize=9,
                color=line.get_color(),
            )
            texts.append(text)
    return texts


def _move_apart(panel: Axes, texts: Sequence[Text]) -> None:
    """Names that would touch are moved up and down, and lines lead to them; none leaves
    the panel's height.
    """
    texts = sorted(texts, key=lambda text: text.get_position()[1])
    lines = max((text.get_text().count("\n") + 1 for text in texts), default=1)
    gap = lines * _line_height(panel, points=9, along="height")
    wanted = _heights(panel, np.array([text.get_position()[1] for text in texts]))
    places = _spread(wanted.tolist(), gap, 0.5 * gap, 1 - 0.5 * gap)
    for text, end, y in zip(texts, wanted, places, strict=True):
        text.set_transform(panel.transAxes)
        text.set_y(y)
        panel.plot(
            [1, 1.025],
            [end, y],
            transform=panel.transAxes,
            color=text.get_color(),
            linewidth=0.7,
            clip_on=False,
            scalex=False,
            scaley=False,
        )


def label_references(panel: Axes, references: References, metric: str) -> None:
    """Each reference's name and value at the right edge, on the emptier side of its
    line; labels that would touch are moved apart.
    """
    line_height = _line_height(panel, points=8, along="height")
    near = _heights(panel, _near_the_right_edge(panel))
    in_order = sorted(references.items(), key=lambda pair: pair[1])
    lines = _heights(panel, np.array([value for _, value in in_order], float))
    wanted = [_emptier_side(y, near, 0.6 * line_height) for y in lines]
    half = 0.5 * line_height
    places = _spread(wanted, line_height, half, 1 - half)
    for (label, value), y in zip(in_order, places, strict=True):
        text = panel.text(
            0.995,
            y,
            f"{label} {number(metric, value)}",
            transform=panel.transAxes,
            ha="right",
            va="center",
            fontsize=8,
            color=GREY,
            bbox=PLATE,
            zorder=3,
        )
        text.set_in_layout(False)


def _heights(panel: Axes, values: np.ndarray) -> np.ndarray:
    """How high values (S,) stand in the panel: 0 at the bottom, 1 at the top."""
    pixels = panel.transData.transform(np.stack([np.zeros_like(values), values], 1))
    return panel.transAxes.inverted().transform(pixels)[:, 1]


def _line_height(panel: Axes, points: float, along: str) -> float:
    """The height of a line of text, as a fraction of the panel's height or width."""
    pixels = getattr(panel.get_window_extent(), along)
    return points * 1.35 / (pixels * 72 / panel.figure.dpi)


def _near_the_right_edge(panel: Axes) -> np.ndarray:
    """The values (S,) of all curves where the labels will stand."""
    found = [np.zeros(0)]
    for line in panel.lines:
        if line.get_transform() == panel.transData:
            x, y = map(np.asarray, line.get_data())
            found.append(y[x > 0.6 * max(x)])
    return np.concatenate(found)


def _emptier_side(value: float, near: np.ndarray, away: float) -> float:
    """Above or below a value, where fewer points lie; above if it is all the same."""
    above, below = (
        np.count_nonzero(abs(near - y) < away) for y in (value + away, value - away)
    )
    return value + away if above <= below else value - away


def _spread(
    wanted: Sequence[float], gap: float, low: float, high: float
) -> list[float]:
    """Positions in [low, high], in the order given, at least `gap` apart where there is
    room for that, and as near as can be to what is wanted (least squares).
    """
    blocks: list[list[float]] = []  # (place of the first, size) of those side by side
    for k, place in enumerate(wanted):
        blocks.append([place - k * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, m), (b, n) = blocks[-2:]
            blocks[-2:] = [[(m * a + n * b) / (m + n), m + n]]
    firsts = [place for place, size in blocks for _ in range(int(size))]
    top = high - gap * (len(firsts) - 1)
    return [min(max(first, low), top) + k * gap for k, first in enumerate(firsts)]


def _mark_rungs(panel: Axes, starts: Sequence[tuple[float, str]]) -> None:
    """A tick at the bottom where each rung began, its name above; early rungs pass
    quickly, so names are moved apart, and lines lead to them.
    """
    left, right = panel.get_xlim()
    across = panel.get_xaxis_transform()
    gap = (right - left) * _line_height(panel, points=7, along="width")  # upright
    wanted = [point for point, _ in starts]
    places = _spread(wanted, gap, left + 0.6 * gap, right - 0.6 * gap)
    for (point, rung), x in zip(starts, places, strict=True):
        panel.plot(
            [point, point, x],
            [0, 0.02, 0.05],
            transform=across,
            color=GREY,
            linewidth=0.7,
            scalex=False,
            scaley=False,
        )
        text = panel.text(
            x,
            0.06,
            rung,
            transform=across,
            ha="center",
            va="bottom",
            rotation=90,
            fontsize=7,
            color=GREY,
            bbox=PLATE,
        )
        text.set_in_layout(False)
