"""Learning curves of runs: means and ranges over seeds, against steps, samples or
hours.

A run is its lines of metrics.jsonl.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from ...errors import counted, in_words
from ..text import is_share, number
from .style import COLOURS, GREY, PALE, Look, in_percent, looks, picture, wrap

# What a curve may be drawn against, and the field of a line of metrics that holds it;
# anything else is a field of that name.
AXES = {"steps": "step", "samples": "samples", "hours": "seconds"}
ROUND = MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10])  # numbers on an axis
NARROW = "\N{NO-BREAK SPACE}%"

Run = Sequence[dict[str, Any]]
Runs = Mapping[str, Sequence[Run]]  # label of a line -> its runs
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
    its first to its last.
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


# --- The picture ----------------------------------------------------------------------


@picture
def learning_curve(
    groups: Runs,
    references: Mapping[str, References],
    metrics: Sequence[str],
    title: str = "",
    axes: Sequence[str] = ("steps",),
    cores: Sequence[str | None] | None = None,
    training: Run = (),
) -> Figure:
    """Metrics against optimizer steps, or others of AXES.

    Each metric has a panel, on each of `axes`, and each group a line: the mean over its
    runs, in a band from the lowest to the highest, dotted where only some of them
    count.

    Args:
        groups: {label: runs}. Lines without a metric, or with null, do not count.
        references: {metric: {label: value}}: floors and published numbers, dashed.
        metrics: names such as "test_accuracy", which `text` knows how to show.
        cores: the core of each group, for its colour; None where there is none.
        training: lines with values on training batches of the task itself, drawn
            thinly.

    Raises ValueError where the runs of a group have no value of a metric.
    """
    shown = [*itertools.product(metrics, axes)]
    width = 0.6 + (7.1 if len(shown) < 3 else 6.1) * len(shown)
    size = width, 4.2 + 0.2 * len(groups)
    figure = Figure(figsize=size, layout="constrained")
    one_axis = len(axes) == 1
    (panels,) = figure.subplots(1, len(shown), sharex=one_axis, squeeze=False)
    several = any(len(runs) > 1 for runs in groups.values())
    whole = True
    each = looks(cores or [None] * len(groups))
    for panel, (metric, axis) in zip(panels, shown, strict=True):
        for (label, runs), look in zip(groups.items(), each, strict=True):
            whole &= draw_group(panel, label, runs, metric, look, axis, several)
        x, y = measured(training, metric.partition("_")[2], axis)
        if len(x):
            says = "on training batches of the task itself"
            panel.plot(x, y, color=COLOURS[0], linewidth=0.8, alpha=0.35, label=says)
        names = []
        for label, value in references.get(metric, {}).items():
            panel.axhline(value, color=GREY, linewidth=0.9, dashes=(5, 3), zorder=1)
            names.append((value, f"{label} {number(metric, value)}"))
        label_axes(panel, metric, axis)
        name_beside(panel, names if axis == axes[0] else [])
    says = ""
    if several:
        between = ", interpolated between measurements" if "hours" in axes else ""
        says = f"mean of the seeds{between}, in a band from the lowest to the highest"
        says += "" if whole else "; dotted where not all of them count"
    draw_legend(figure, panels[0], len(shown), 12 * width / len(shown), says)
    if title:
        figure.suptitle(wrap(title, 10 * width))
    return figure


def draw_legend(
    figure: Figure, panel: Axes, ncols: int, characters: float, title: str = ""
) -> None:
    """A legend of a panel's lines below a figure: `ncols` columns of `characters`."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(
        handles,
        [wrap(label, characters) for label in labels],
        loc="outside lower center",
        ncols=ncols,
        title=title or None,
        title_fontsize=9,
        fontsize=9,
    )


# --- Lines ----------------------------------------------------------------------------


def draw_group(
    panel: Axes,
    label: str,
    runs: Sequence[Run],
    metric: str,
    look: Look,
    axis: str,
    count_seeds: bool = False,
) -> bool:
    """The mean and the range of some runs; returns whether all count everywhere."""
    points, mean, lowest, highest, counts = mean_and_range(runs, metric, axis)
    if not len(points):
        raise ValueError(f"the runs of {label!r} have no value of {metric}")
    fewer = counts < len(runs)
    if count_seeds:
        label += f": {counted(len(runs), 'seed')}"
        if fewer.any():
            ends = dict.fromkeys((counts[fewer].min(), counts[fewer].max()))
            label += f", dotted: {' to '.join(map(str, ends))}"
    line: Look = {**look, "linewidth": 1.8}
    if len(runs) > 1:
        band: Look = {"color": look["color"], "alpha": 0.2, "linewidth": 0}
        panel.fill_between(points, lowest, highest, **band)
    if fewer.any():
        panel.plot(points, mean, **line | {"linestyle": (0, (1, 1.2))})
    solid = np.where(fewer, np.nan, mean)
    marker = "o" if len(points) == 1 else None
    panel.plot(points, solid, label=label, marker=marker, **line)
    return not fewer.any()


# --- Axes -----------------------------------------------------------------------------


def label_axes(panel: Axes, metric: str, axis: str = "steps") -> None:
    """The title of a panel, and what its axes say."""
    panel.set_title(in_words(metric), fontsize=11)
    panel.set_xlim(left=0)
    panel.margins(x=0)
    last = panel.get_xlim()[1]
    unit = 1
    name = axis.replace("_", " ")
    if axis == "hours":  # the points are seconds
        hours = last > 2 * 3600
        unit, name = (3600, "hours") if hours else (60, "minutes")
        name += " of training"
    elif last >= 5e6:
        unit = 10**6
        name = f"millions of {name}"
    ticks = ROUND.tick_values(0, last / unit)
    panel.set_xticks([tick * unit for tick in ticks if tick * unit <= last])
    panel.set_xlabel(name)
    panel.xaxis.set_major_formatter(lambda point, _: f"{point / unit:,.10g}")
    label_values(panel, metric)


def label_values(panel: Axes, metric: str) -> None:
    """The axis of a metric's values."""
    panel.grid(axis="y", **PALE)
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
    low, high = axis.get_data_interval()
    subs = (1, 2, 5) if high < 1000 * low else (1,)
    locator = LogLocator(subs=subs) if high > 5 * low else copy.copy(ROUND)
    axis.set_major_locator(locator)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.5g}"))


# --- Labels ---------------------------------------------------------------------------


def name_beside(panel: Axes, names: Sequence[tuple[float, str]]) -> None:
    """Names of values right of a panel, at their heights, moved apart where they would
    touch.
    """
    names = sorted(names)
    if not names:
        return
    words = [wrap(text.replace(" %", NARROW), 26) for _, text in names]
    size = 8.5 * 1.35 / (72 * 3.2)  # of a line of text, in a panel of some 3.2 inches
    fixed = panel.transScale.transform([(1, value) for value, _ in names])
    ends = panel.transLimits.transform(fixed)[:, 1].tolist()
    places = _apart(ends, [size * (1 + text.count("\n")) for text in words])
    line: Look = {"arrowstyle": "-", "linewidth": 0.7, "shrinkA": 1, "shrinkB": 0}
    look: Look = {"xycoords": "axes fraction", "textcoords": "axes fraction"}
    look |= {"fontsize": 8.5, "va": "center", "annotation_clip": False, "color": GREY}
    look["arrowprops"] = {**line, "color": GREY, "relpos": (0, 0.5)}
    for text, end, y in zip(words, ends, places, strict=True):
        panel.annotate(text, (1, end), (1.04, y), **look)


def _apart(wanted: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """Places near the wanted ones, in their order and between 0 and 1, for labels of
    some sizes that push each other apart.
    """
    places = [*wanted]
    for _ in range(200 if places else 0):
        places[0] = max(places[0], sizes[0] / 2)
        places[-1] = min(places[-1], 1 - sizes[-1] / 2)
        for k in range(1, len(places)):
            overlap = (sizes[k - 1] + sizes[k]) / 2 - (places[k] - places[k - 1])
            places[k - 1] -= max(0, overlap) / 2
            places[k] += max(0, overlap) / 2
    return places
