"""Learning curves of runs: means and ranges over seeds, against steps, samples or
hours.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from .style import COLOURS, GREY, PLATE, colours, save, style, wrap

DOTTED = (0, (1, 1.2))
AXES = {
    "steps": "step",
    "samples": "samples",
    "hours": "seconds",
}  # what a curve may be drawn against: the field of a line of metrics


def _spread(
    wanted: Sequence[float], gap: float, low: float, high: float
) -> list[float]:
    """Positions in [low, high], in the order given and near to what is wanted, at least
    `gap` apart where there is room for that.
    """
    placed, floor, ceiling = list(wanted), low, high
    for k in range(len(placed)):
        placed[k] = max(placed[k], floor)
        floor = placed[k] + gap
    for k in reversed(range(len(placed))):
        placed[k] = min(placed[k], ceiling)
        ceiling = placed[k] - gap
    return placed


class Curve(NamedTuple):
    """Some runs at each of S points: arrays (S,)."""

    points: np.ndarray
    mean: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    runs: np.ndarray  # how many


def measured(
    lines: Sequence[dict], metric: str, axis: str = "steps"
) -> tuple[np.ndarray, np.ndarray]:
    """The points (S,) on `axis`, a name in AXES, at which a run has a value of
    `metric`, and these values (S,).

    A run is its lines of metrics.jsonl.
    """
    values = {
        line[AXES[axis]]: line[metric] for line in lines if line.get(metric) is not None
    }
    points = sorted(values)
    return np.array(points, float), np.array([values[point] for point in points], float)


def mean_and_range(
    runs: Sequence[Sequence[dict]], metric: str, axis: str = "steps"
) -> Curve:
    """What some runs have of `metric` at every point at which any of them was measured.

    A run is a straight line from one of its measurements to the next, and counts from
    its first to its last. So one that was stopped early counts up to there; and against
    hours (which come in seconds), where no two are ever measured at the same point, all
    count at once.
    """
    curves = [measured(lines, metric, axis) for lines in runs]
    points = np.unique(np.concatenate([x for x, _ in curves]))
    values = np.full((len(curves), len(points)), np.nan)
    for row, (x, y) in zip(values, curves, strict=True):
        row[:] = (
            np.interp(points, x, y, left=np.nan, right=np.nan) if len(x) else np.nan
        )
    present = np.count_nonzero(~np.isnan(values), axis=0)
    return Curve(
        points,
        np.nanmean(values, axis=0),
        np.nanmin(values, axis=0),
        np.nanmax(values, axis=0),
        present,
    )


def rung_starts(lines: Sequence[dict], axis: str = "steps") -> list[tuple[float, str]]:
    """(point on `axis`, rung) at which a run began each rung of its curriculum.

    The `rung` of a line is the one climbed up to that line's step.
    """
    starts, current, since = [], None, 0
    for line in lines:
        if "rung" in line:
            if line["rung"] != current:
                current = line["rung"]
                starts.append((since, current))
            since = line[AXES[axis]]
    return starts


def learning_curve(
    groups: Mapping[str, Sequence[Sequence[dict]]],
    references: Mapping[str, Mapping[str, float]],
    metrics: Sequence[str],
    path,
    title: str = "",
    axes: Sequence[str] = ("steps",),
    cores: Sequence[str | None] | None = None,
    training: Sequence[dict] = (),
) -> Path:
    """Draw metrics against optimizer steps, or others of AXES, into the PNG file
    `path`; returns it.

    Each metric has a panel, on each of `axes`, and each group a line: the mean over its
    runs, in a band from the lowest to the highest (see `mean_and_range`), dotted where
    only some of them count. If there is but one run in all, the rungs of its curriculum
    are marked at the bottom.

    Args:
        groups: {label: runs}, a run being its lines of metrics.jsonl. Lines without a
            metric, or with null, do not count for it. references: {metric: {label:
            value}}: floors and published numbers, drawn as dashed lines. metrics: names
            such as "test_accuracy". What is called accuracy is a fraction, shown in
            percent. cores: the core of each group, for its colour; None where there is
            none. training: lines of metrics.jsonl with values on training batches,
            which are drawn thinly. They should be batches of the task itself: on easier
            ones a network would seem to be above the references.

    Raises ValueError where the runs of a group have no value of a metric, OSError where
    the file cannot be written.
    """
    with style():
        return save(
            _draw_learning_curve(
                groups, references, metrics, title, axes, cores, training
            ),
            path,
        )


def _draw_learning_curve(
    groups, references, metrics, title="", axes=("steps",), cores=None, training=()
) -> Figure:
    shown = list(itertools.product(metrics, axes))
    wide = 5.2 if len(shown) < 3 else 4.2
    figure = Figure(
        figsize=(0.6 + wide * len(shown), 4.2 + 0.2 * len(groups)), layout="constrained"
    )
    panels = figure.subplots(1, len(shown), sharex=len(axes) == 1, squeeze=False)[0]
    single = len(groups) == 1 and len(next(iter(groups.values()))) == 1
    several, whole = any(len(runs) > 1 for runs in groups.values()), True
    for panel, (metric, axis) in zip(panels, shown, strict=True):
        for (label, runs), colour in zip(
            groups.items(), colours(cores or [None] * len(groups)), strict=True
        ):
            whole &= draw_group(
                panel, label, runs, metric, colour, axis, count_seeds=several
            )
        _draw_training(panel, training, metric, axis)
        draw_references(panel, references.get(metric, {}))
        label_axes(panel, metric, axis)
    handles, labels = panels[0].get_legend_handles_labels()
    labels = [wrap(label, 12 * wide) for label in labels]
    says = what_lines_are(axes, whole) if several else None
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=len(shown),
        title=says,
        title_fontsize=9,
        fontsize=9,
    )
    if title:
        figure.suptitle(title)
    # settles the layout: the labels below are spaced by the panels' final size
    figure.draw_without_rendering()
    for panel, (metric, axis) in zip(panels, shown, strict=True):
        if axis == axes[0]:
            label_references(panel, references.get(metric, {}), metric)
        if single:
            _mark_rungs(panel, rung_starts(next(iter(groups.values()))[0], axis))
    return figure


def what_lines_are(axes, whole):
    """What lines and bands of several runs are."""
    between = ", interpolated between measurements" if "hours" in axes else ""
    fewer = "" if whole else "; dotted where not all of them count"
    return (
        f"mean of the seeds{between}, in a band from the lowest to the highest{fewer}"
    )


def draw_group(panel, label, runs, metric, colour, axis, count_seeds=False):
    """Returns whether all runs count everywhere."""
    curve = mean_and_range(runs, metric, axis)
    if not len(curve.points):
        raise ValueError(f"the runs of {label!r} have no value of {metric}")
    all_count = curve.runs == len(runs)
    if count_seeds:
        label += (
            f": {len(runs)} "
            f"seed{'s' if len(runs) > 1 else ''}{_where_fewer(curve.runs[~all_count])}"
        )
    if len(runs) > 1:
        panel.fill_between(
            curve.points,
            curve.lowest,
            curve.highest,
            color=colour,
            alpha=0.2,
            linewidth=0,
        )
    if not all_count.all():
        panel.plot(
            curve.points, curve.mean, color=colour, linewidth=1.8, linestyle=DOTTED
        )
    solid = np.where(all_count, curve.mean, np.nan)
    panel.plot(
        curve.points,
        solid,
        color=colour,
        linewidth=1.8,
        label=label,
        marker="o" if len(curve.points) == 1 else None,
    )
    return bool(all_count.all())


def _draw_training(panel, lines, metric, axis):
    points, values = measured(lines, metric.removeprefix("test_"), axis)
    if len(points) and metric.startswith("test_"):
        panel.plot(
            points,
            values,
            color=COLOURS[0],
            linewidth=0.8,
            alpha=0.35,
            label="on training batches of the task itself",
        )


def _where_fewer(counts):
    """What to add to a label for numbers of runs that are not all."""
    if not len(counts):
        return ""
    return f", dotted: {counts.min()}" + (
        f" to {counts.max()}" if counts.max() > counts.min() else ""
    )


def draw_references(panel, references):
    for value in references.values():
        panel.axhline(value, color=GREY, linewidth=0.9, dashes=(5, 3), zorder=1)


def _is_fraction(metric):
    return "accuracy" in metric


def in_words(metric):
    words = metric.removeprefix("test_").replace("_", " ")
    return f"held-out {words}" if metric.startswith("test_") else words


def label_axes(panel, metric, axis="steps"):
    panel.set_title(in_words(metric), fontsize=11)
    panel.set_xlim(left=0)
    panel.margins(x=0)
    panel.locator_params(axis="x", nbins=6)
    unit, name = 1, axis
    if axis == "hours":  # the points are seconds
        unit, name = (
            (3600, "hours of training")
            if panel.get_xlim()[1] > 2 * 3600
            else (60, "minutes of training")
        )
        panel.xaxis.set_major_locator(_Multiples(unit))
    panel.set_xlabel(name)
    panel.xaxis.set_major_formatter(
        FuncFormatter(lambda point, _: f"{point / unit:,.10g}")
    )
    label_values(panel, metric)


def label_values(panel, metric):
    """The axis of a metric's values."""
    panel.grid(axis="y", color="#E6E6E6", linewidth=0.6)
    panel.set_axisbelow(True)
    if _is_fraction(metric):
        panel.set_ylim(0, 1.02)  # a curve at 100 % does not hide in the frame
        panel.set_yticks(np.arange(0, 1.01, 0.2))
        panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))


class _Multiples(MaxNLocator):
    """Ticks at round numbers of a unit."""

    def __init__(self, unit):
        super().__init__(nbins=6, steps=[1, 2, 2.5, 5, 10])
        self.unit = unit

    def tick_values(self, low, high):
        return super().tick_values(low / self.unit, high / self.unit) * self.unit


def label_references(panel, references, metric):
    """Each reference's name and value at the right edge, on the emptier side of its
    line; labels that would touch are moved apart.
    """
    low, high = panel.get_ylim()
    line_height = (
        8
        * 1.35
        / (panel.get_window_extent().height * 72 / panel.figure.dpi)
        * (high - low)
    )  # of 8 points
    curves = [
        line.get_data()
        for line in panel.lines
        if line.get_transform() == panel.transData
    ]
    near = np.concatenate(
        [[], *(y[x > 0.6 * max(x)] for x, y in curves)]
    )  # what is drawn where the labels will stand

    def place(value):
        above, below = value + 0.6 * line_height, value - 0.6 * line_height
        hits = [
            np.count_nonzero(abs(near - y) < 0.6 * line_height) for y in (above, below)
        ]
        return above if hits[0] <= hits[1] else below

    references = sorted(references.items(), key=lambda pair: pair[1])
    wanted = [place(value) for _, value in references]
    places = _spread(
        wanted, line_height, low + 0.5 * line_height, high - 0.5 * line_height
    )
    for (label, value), y in zip(references, places, strict=True):
        number = f"{100 * value:.0f} %" if _is_fraction(metric) else f"{value:.3g}"
        text = panel.text(
            0.995,
            y,
            f"{label} {number}",
            transform=panel.get_yaxis_transform(),
            ha="right",
            va="center",
            fontsize=8,
            color=GREY,
            bbox=PLATE,
            zorder=3,
        )
        text.set_in_layout(False)


def _mark_rungs(panel, starts):
    """A tick at the bottom where each rung began, its name above; early rungs pass
    quickly, so names are moved apart and led to.
    """
    left, right = panel.get_xlim()
    line_height = (
        7
        * 1.35
        / (panel.get_window_extent().width * 72 / panel.figure.dpi)
        * (right - left)
    )  # of 7 points, standing
    places = _spread(
        [step for step, _ in starts],
        line_height,
        left + 0.6 * line_height,
        right - 0.6 * line_height,
    )
    for (step, rung), x in zip(starts, places, strict=True):
        across = panel.get_xaxis_transform()
        panel.plot(
            [step, step, x],
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
