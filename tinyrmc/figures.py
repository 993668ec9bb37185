"""Pictures: learning curves, tables, what a memory's slots attend to and what comes of it, and answers character by character.

This is the only module that imports matplotlib, and nothing imports it before there is something to draw. It uses figures as objects, never
pyplot, whose current figure and backend would belong to the caller's notebook as much as to us; matplotlib's own defaults are put in place
while we draw, so the same numbers give the same bytes whatever a reader's matplotlibrc says.

Colours are Okabe and Ito's, which colour-blind eyes tell apart too.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

__all__ = [
    "AXES", "accuracies", "answers", "attention", "curve_grid", "gates", "learning_curve", "mean_and_range", "rung_starts", "shared_points",
    "shares", "table",
]  # fmt: skip

DPI = 150
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARK = "#C00000"  # the red of the marked time step
GREY = "#555555"
PLATE = {"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.5}  # behind a label, so that lines do not cross it out
AXES = {"steps": "step", "samples": "samples", "hours": "seconds"}  # what a curve may be drawn against: the field of a line of metrics
STYLE = {
    "font.size": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "legend.frameon": False,
    "text.parse_math": False,  # a $ or _ in a name is just that
}
FOOTNOTE = "Rows: the slots that ask; columns: the slots and, right of the line, the input they listen to."
CAVEAT = "Attention shows where a slot looks, not what decided the answer."


def _style():
    return matplotlib.style.context(STYLE, after_reset=True)


def _save(figure: Figure, path) -> Path:
    path = Path(path)
    figure.savefig(path, format="png", dpi=DPI, metadata={"Software": None})  # matplotlib's version would change the bytes
    return path


def _spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions in [low, high], in the order given and near to what is wanted, at least `gap` apart where there is room for that."""
    placed, floor, ceiling = list(wanted), low, high
    for k in range(len(placed)):
        placed[k] = max(placed[k], floor)
        floor = placed[k] + gap
    for k in reversed(range(len(placed))):
        placed[k] = min(placed[k], ceiling)
        ceiling = placed[k] - gap
    return placed


# --- Learning curves ----------------------------------------------------------------------------------------------------------------------


def shared_points(runs: Sequence[Sequence[dict]], metric: str, axis: str = "steps") -> tuple[np.ndarray, np.ndarray]:
    """The points (S,) on `axis`, a name in AXES, at which all runs have a value of `metric`, and these values (R, S).

    A run is its lines of metrics.jsonl.
    """
    place = AXES[axis]
    curves = [{line[place]: line[metric] for line in lines if line.get(metric) is not None} for lines in runs]
    points = sorted(set.intersection(*map(set, curves)))
    values = np.array([[curve[point] for point in points] for curve in curves], float)
    return np.array(points), values.reshape(len(curves), len(points))


def mean_and_range(runs: Sequence[Sequence[dict]], metric: str, axis: str = "steps") -> tuple[np.ndarray, ...]:
    """Points (S,) on `axis`, and the runs' mean (S,), lowest (S,) and highest (S,) value of `metric` at each.

    Against steps or samples these are the points at which all were measured. No two runs are ever measured after the same time: against
    hours (which come in seconds) each run is interpolated linearly between its own measurements, from the first that all have behind them
    to the end of the shortest. The mean of such lines bends at their own points alone, so these are the points.
    """
    if axis != "hours" or len(runs) == 1:
        points, values = shared_points(runs, metric, axis)
    else:
        curves = [shared_points([lines], metric, axis) for lines in runs]
        points = np.unique(np.concatenate([x for x, _ in curves]))
        for x, _ in curves:
            points = points[(x[0] <= points) & (points <= x[-1])] if len(x) else points[:0]
        values = np.stack([np.interp(points, x, y[0]) if len(points) else points for x, y in curves])
    return points, values.mean(axis=0), values.min(axis=0), values.max(axis=0)


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
    axis: str = "steps",
) -> Path:
    """Draw metrics against optimizer steps, or another of AXES, into the PNG file `path`; returns it.

    Each metric has a panel, each group a line: the mean over its runs, in a band from the lowest to the highest (see `mean_and_range`).
    If there is but one run in all, its value on the training batches is drawn thinly too, and its rungs are marked at the bottom.

    Args:
        groups: {label: runs}, a run being its lines of metrics.jsonl. Lines without a metric, or with null, do not count for it.
        references: {metric: {label: value}}: floors and published numbers, drawn as dashed lines.
        metrics: names such as "test_accuracy". What is called accuracy is a fraction, shown in percent.

    Raises ValueError where the runs of a group have no point in common, OSError where the file cannot be written.
    """
    with _style():
        return _save(_draw_learning_curve(groups, references, metrics, title, axis), path)


def _draw_learning_curve(groups, references, metrics, title="", axis="steps") -> Figure:
    figure = Figure(figsize=(0.6 + 5.2 * len(metrics), 4.2 + 0.2 * len(groups)), layout="constrained")
    panels = figure.subplots(1, len(metrics), sharex=True, squeeze=False)[0]
    single = len(groups) == 1 and len(next(iter(groups.values()))) == 1
    for panel, metric in zip(panels, metrics, strict=True):
        for number, (label, runs) in enumerate(groups.items()):
            _draw_group(panel, label, runs, metric, COLOURS[number % len(COLOURS)], axis, single)
        _draw_references(panel, references.get(metric, {}))
        _label_axes(panel, metric, axis)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(metrics))
    if title:
        figure.suptitle(title)
    figure.draw_without_rendering()  # settles the layout: the labels below are spaced by the panels' final size
    for panel, metric in zip(panels, metrics, strict=True):
        _label_references(panel, references.get(metric, {}), metric)
        if single:
            _mark_rungs(panel, rung_starts(next(iter(groups.values()))[0], axis))
    return figure


def _draw_group(panel, label, runs, metric, colour, axis, with_training=False, count_seeds=True):
    points, mean, low, high = mean_and_range(runs, metric, axis)
    if not len(points):
        raise ValueError(f"the runs of {label!r} have no step in common at which {metric} was measured")
    if len(runs) > 1:
        between = ", interpolated" if axis == "hours" else ""
        label += f": mean and range of {len(runs)} seeds{between}" if count_seeds else ""
        panel.fill_between(points, low, high, color=colour, alpha=0.2, linewidth=0)
    panel.plot(points, mean, color=colour, linewidth=1.8, label=label, marker="o" if len(points) == 1 else None)
    if with_training and metric.startswith("test_"):
        training_points, training = shared_points(runs, metric.removeprefix("test_"), axis)
        of_rung = ", current rung" if rung_starts(runs[0]) else ""  # easier than what the held-out examples ask
        if len(training_points):
            panel.plot(training_points, training[0], color=colour, linewidth=0.8, alpha=0.35, label=f"on its training batches{of_rung}")


def _draw_references(panel, references):
    for value in references.values():
        panel.axhline(value, color=GREY, linewidth=0.9, dashes=(5, 3), zorder=1)


def _is_fraction(metric):
    return "accuracy" in metric


def _words(metric):
    words = metric.removeprefix("test_").replace("_", " ")
    return f"held-out {words}" if metric.startswith("test_") else words


def _label_axes(panel, metric, axis="steps"):
    panel.set_title(_words(metric), fontsize=11)
    panel.set_xlim(left=0)
    panel.margins(x=0)
    panel.locator_params(axis="x", nbins=6)
    unit, name = 1, axis
    if axis == "hours":  # the points are seconds
        unit, name = (3600, "hours of training") if panel.get_xlim()[1] > 2 * 3600 else (60, "minutes of training")
        panel.xaxis.set_major_locator(_Multiples(unit))
    panel.set_xlabel(name)
    panel.xaxis.set_major_formatter(FuncFormatter(lambda point, _: f"{point / unit:,.10g}"))
    panel.grid(axis="y", color="#E6E6E6", linewidth=0.6)
    panel.set_axisbelow(True)
    if _is_fraction(metric):
        panel.set_ylim(0, 1.02)  # a curve at 100 % does not hide in the frame
        panel.set_yticks(np.arange(0, 1.01, 0.2))
        panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))


class _Multiples(MaxNLocator):
    """Ticks at round numbers of a unit."""

    def __init__(self, unit):
        super().__init__(nbins=6)
        self.unit = unit

    def tick_values(self, low, high):
        return super().tick_values(low / self.unit, high / self.unit) * self.unit


def _label_references(panel, references, metric):
    """Each reference's name and value at the right edge, on the emptier side of its line; labels that would touch are moved apart."""
    low, high = panel.get_ylim()
    line_height = 8 * 1.35 / (panel.get_window_extent().height * 72 / panel.figure.dpi) * (high - low)  # of 8 points
    curves = [line.get_data() for line in panel.get_legend_handles_labels()[0]]
    near = np.concatenate([[], *(y[x > 0.6 * max(x)] for x, y in curves)])  # what is drawn where the labels will stand

    def place(value):
        above, below = value + 0.6 * line_height, value - 0.6 * line_height
        hits = [np.count_nonzero(abs(near - y) < 0.6 * line_height) for y in (above, below)]
        return above if hits[0] <= hits[1] else below

    references = sorted(references.items(), key=lambda pair: pair[1])
    wanted = [place(value) for _, value in references]
    places = _spread(wanted, line_height, low + 0.5 * line_height, high - 0.5 * line_height)
    for (label, value), y in zip(references, places, strict=True):
        number = f"{100 * value:.0f} %" if _is_fraction(metric) else f"{value:.3g}"
        text = panel.text(
            0.995, y, f"{label} {number}", transform=panel.get_yaxis_transform(), ha="right", va="center", fontsize=8, color=GREY,
            bbox=PLATE, zorder=3,
        )  # fmt: skip
        text.set_in_layout(False)


def _mark_rungs(panel, starts):
    """A tick at the bottom where each rung began, its name above; early rungs pass quickly, so names are moved apart and led to."""
    left, right = panel.get_xlim()
    line_height = 7 * 1.35 / (panel.get_window_extent().width * 72 / panel.figure.dpi) * (right - left)  # of 7 points, standing
    places = _spread([step for step, _ in starts], line_height, left + 0.6 * line_height, right - 0.6 * line_height)
    for (step, rung), x in zip(starts, places, strict=True):
        across = panel.get_xaxis_transform()
        panel.plot([step, step, x], [0, 0.02, 0.05], transform=across, color=GREY, linewidth=0.7, scalex=False, scaley=False)
        text = panel.text(x, 0.06, rung, transform=across, ha="center", va="bottom", rotation=90, fontsize=7, color=GREY, bbox=PLATE)
        text.set_in_layout(False)


def curve_grid(
    panels: Mapping[str, Mapping[str, Mapping[str, Sequence[Sequence[dict]]]]],
    references: Mapping[str, float],
    metric: str,
    path,
    title: str = "",
    axis: str = "steps",
) -> Path:
    """Draw the learning curves of many configurations, a panel for some of them, into the PNG file `path`; returns it.

    Args:
        panels: {row: {column: {line: runs}}}, every row with the same columns and every panel with the same lines. Runs are as in
            `learning_curve`; where there are none, the panel says so.
        references: {label: value}, drawn in each panel and named in the first.
    """
    with _style():
        return _save(_draw_curve_grid(panels, references, metric, title, axis), path)


def _draw_curve_grid(panels, references, metric, title="", axis="steps") -> Figure:
    columns = list(next(iter(panels.values())))
    figure = Figure(figsize=(1.2 + 3.4 * len(columns), 1.4 + 2.9 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), len(columns), sharex=True, sharey=True, squeeze=False)
    filled = [
        (panel, ", ".join(filter(None, [column, row])), lines)
        for across, (row, of_row) in zip(grid, panels.items(), strict=True)
        for panel, (column, lines) in zip(across, of_row.items(), strict=True)
    ]
    handles = {}
    for panel, _, lines in filled:
        missing = []
        for number, (label, runs) in enumerate(lines.items()):
            if runs and len(mean_and_range(runs, metric, axis)[0]):
                _draw_group(panel, label, runs, metric, COLOURS[number % len(COLOURS)], axis, count_seeds=False)
                handles.setdefault(label, panel.get_legend_handles_labels()[0][-1])
            else:
                missing.append(f"{label}: {'no point in common' if runs else 'not run'}")
        _draw_references(panel, references)
        words = panel.text(0.02, 0.98, "\n".join(missing), transform=panel.transAxes, va="top", fontsize=7, color=GREY, bbox=PLATE)
        words.set_visible(bool(missing))
    for panel, name, _ in filled:  # when all is drawn, for the panels share their axes
        _label_axes(panel, metric, axis)
        panel.set_title(name, fontsize=10)
        panel.label_outer()
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(4, max(1, len(handles))))
    several = any(len(runs) > 1 for of_row in panels.values() for lines in of_row.values() for runs in lines.values())
    band = f"mean and range of the seeds{', interpolated' if axis == 'hours' else ''}" if several else ""
    figure.suptitle("\n".join(filter(None, [_wrap(title, 40 * len(columns)), band])), fontsize=10)
    figure.supylabel(_words(metric), fontsize=10)
    figure.draw_without_rendering()
    _label_references(grid[0, 0], references, metric)
    return figure


# --- Tables -------------------------------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Sequence[str]], path, note: str = "") -> Path:
    """Draw a table, its head first, into the PNG file `path`, with a note below; returns it. Long cells are wrapped."""
    with _style():
        return _save(_draw_table(rows, note), path)


def _draw_table(rows, note="") -> Figure:
    """All sizes here are in pixels. A column of numbers stands to the right, others to the left."""
    figure, pad = Figure(figsize=(1, 1), dpi=DPI), 12

    def words(text, width, **style):
        text = text.replace("`", "").replace(" %", "\u00a0%")
        wrapped = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
        return figure.text(0, 0, wrapped, va="top", fontsize=8, **style)

    cells = [[words(cell, 34, fontweight="bold" if k == 0 else "normal") for cell in row] for k, row in enumerate(rows)]
    boxes = np.array([[(box.width, box.height) for box in (cell.get_window_extent() for cell in row)] for row in cells])
    widths, heights = boxes[..., 0].max(axis=0) + 2 * pad, boxes[..., 1].max(axis=1) + pad
    rights, bottoms = pad + np.cumsum(widths), pad + np.cumsum(heights)
    below = words(note, max(40, int(rights[-1] / 10.5)), color=GREY)
    width, height = rights[-1] + pad, bottoms[-1] + (below.get_window_extent().height + 2 * pad if note else pad)
    figure.set_size_inches(width / DPI, height / DPI)
    below.set_position((2 * pad / width, 1 - (bottoms[-1] + pad) / height))
    for column, (right, of_column) in enumerate(zip(rights, widths, strict=True)):
        numeric = all(re.fullmatch(r"[\d.,:]+( %)?|not run|", row[column]) for row in rows[1:])
        x = right - pad if numeric else right - of_column + pad
        for row, bottom, of_row in zip(cells, bottoms, heights, strict=True):
            row[column].set_position((x / width, 1 - (bottom - of_row + pad / 2) / height))
            row[column].set_horizontalalignment("right" if numeric else "left")
    for k, bottom in enumerate(bottoms):
        y = 1 - bottom / height
        line = {"color": GREY if k == 0 else "#DDDDDD", "linewidth": 1.0 if k == 0 else 0.6}
        figure.add_artist(Line2D([pad / width, 1 - pad / width], [y, y], **line))
    return figure


# --- Attention ----------------------------------------------------------------------------------------------------------------------------


def attention(
    weights: np.ndarray, marked_steps: Sequence[int], titles: Sequence[str], path, mark: str = "reference", held: np.ndarray | None = None
) -> Path:
    """Draw attention weights in the layout of the paper's figure 3 into the PNG file `path`; returns it.

    Examples stand side by side. In each, a row is a head (the last one the mean, where there are several heads), a column a time step, and
    each small matrix shows how much every slot listens to every slot and, right of the line, to the input.

    Args:
        weights: (E, T, H, N, N + 1) for E examples, T time steps, H heads, N slots; each row sums to 1.
        marked_steps: (E,) the time step, from 0, that is framed in red in each example and called `mark`.
        titles: (E,) what each example is about, in words; long lines are wrapped.
        held: (E, N) bool: the slots that took in the marked step. From that step on their columns have a red edge.
    """
    with _style():
        return _save(_draw_attention(np.asarray(weights), marked_steps, titles, mark, held), path)


def _draw_attention(weights, marked_steps, titles, mark="reference", held=None) -> Figure:
    """All sizes here are in pixels, so that the cells of a matrix are equal whole numbers of them."""
    examples, T, H, N, columns = weights.shape
    names = [f"head {h + 1}" for h in range(H)]
    if H > 1:
        weights, names = np.concatenate([weights, weights.mean(axis=2, keepdims=True)], axis=2), [*names, "mean"]
    pitch = max(72, 480 / T)  # from one time step to the next: enough for its label, and blocks of about three inches
    gap = round(0.12 * pitch)
    cell = max(3, round(min((pitch - gap) / columns, (840 / len(names) - gap) / N)))
    width, height = T * (columns * cell + gap) - gap, len(names) * (N * cell + gap) - gap
    room = max(width, 360)  # a title needs some, however narrow the matrices

    left, right, between = 90, 130, 50
    titles = [_wrap(title, room / 10.5) for title in titles]  # a character of 9 points is 10.5 pixels wide at most, on average
    top = 75 + 25 * max(title.count("\n") + 1 for title in titles)
    total_width = left + examples * (room + between) - between + right
    edges = "" if held is None else f"Red edges: the slots that took in the {mark}. "
    footnote = _wrap(f"{FOOTNOTE} {edges}{CAVEAT}", (total_width - 30) / 9.5)
    bottom = 45 + 20 * (footnote.count("\n") + 1)
    total_height = top + max(height, 120) + bottom  # the colour bar needs some height, too

    def axes(x, y, w, h):
        return figure.add_axes((x / total_width, 1 - (y + h) / total_height, w / total_width, h / total_height))

    figure = Figure(figsize=(total_width / DPI, total_height / DPI), dpi=DPI)
    for number, title in enumerate(titles):
        x = left + number * (room + between)
        figure.text(x / total_width, 1 - 15 / total_height, title, fontsize=9, va="top")
        block = axes(x, top, width, height)
        mesh = _draw_block(block, weights[number], cell, gap, marked_steps[number], mark, None if held is None else held[number])
        block.set_yticks([row * (N * cell + gap) + N * cell / 2 for row in range(len(names))], names if number == 0 else [])
    bar = axes(left + examples * (room + between) - between + 30, top, 18, np.clip(height, 120, 300))
    figure.colorbar(mesh, cax=bar, ticks=[0, 0.5, 1]).set_label("attention", fontsize=8)
    bar.tick_params(labelsize=8)
    figure.text(15 / total_width, 15 / total_height, footnote, fontsize=8, color=GREY, va="bottom")
    return figure


def _wrap(text, characters):
    return "\n".join(textwrap.fill(line, int(characters)) for line in text.splitlines())


def _draw_block(block, weights, cell, gap, marked_step, mark, held=None):
    """One example, weights (T, H, N, columns): all its matrices in one mesh, with empty strips `gap` wide between them."""
    T, H, N, columns = weights.shape
    values = np.full((H, N + 1, T, columns + 1), np.nan)  # the last row and column of each matrix are the strip after it
    values[:, :N, :, :columns] = weights.transpose(1, 2, 0, 3)
    x = np.concatenate([[0], np.cumsum(([cell] * columns + [gap]) * T)])
    y = np.concatenate([[0], np.cumsum(([cell] * N + [gap]) * H)])
    mesh = block.pcolormesh(x, y, values.reshape(H * (N + 1), -1), cmap="Blues", vmin=0, vmax=1)
    lefts, tops = x[:: columns + 1][:T], y[:: N + 1][:H]
    for across in lefts:
        for down in tops:
            block.add_patch(Rectangle((across, down), columns * cell, N * cell, fill=False, edgecolor=GREY, linewidth=0.5, clip_on=False))
        block.vlines(np.full(H, across + N * cell), tops, tops + N * cell, color="black", linewidth=0.9)
    if held is not None:
        starts = (lefts[marked_step:, None] + cell * np.flatnonzero(held)).ravel()
        for down in tops:
            block.hlines(np.full(len(starts), down), starts, starts + cell, color=MARK, linewidth=2, clip_on=False)
    margin = gap / 2
    frame = (lefts[marked_step] - margin, -margin), columns * cell + gap, y[-1]
    block.add_patch(Rectangle(*frame, fill=False, edgecolor=MARK, linewidth=1.6, clip_on=False))

    labels = [f"{mark}\nt={t + 1}" if t == marked_step else f"t={t + 1}" for t in range(T)]
    block.set_xticks(lefts + columns * cell / 2, labels)
    block.tick_params(length=0, labelsize=8, top=True, labeltop=True, bottom=False, labelbottom=False, pad=5)
    block.get_xticklabels()[marked_step].set(color=MARK, fontweight="bold")
    block.set(xlim=(0, x[-1] - gap), ylim=(y[-1] - gap, 0))
    block.spines[:].set_visible(False)
    return mesh


# --- What comes of it ---------------------------------------------------------------------------------------------------------------------


def gates(
    values: Mapping[str, np.ndarray], marked_steps: Sequence[int], titles: Sequence[str], path, mark: str = "reference", held=None
) -> Path:
    """Draw gates over time into the PNG file `path`; returns it. Examples stand side by side, slots below each other.

    Args:
        values: {name: (E, T, N, G)}: G gates, in [0, 1], of each slot. Drawn are their mean and the band from the 10th to the 90th
            percentile.
        marked_steps, titles, mark, held: as for `attention`; the names of the slots in `held` are red.
    """
    with _style():
        return _save(_draw_gates(values, marked_steps, titles, mark, held), path)


def _draw_gates(values, marked_steps, titles, mark="reference", held=None) -> Figure:
    examples, T, slots, units = next(iter(values.values())).shape
    figure = Figure(figsize=(0.8 + 3.2 * examples, 2.4 + 0.8 * slots), layout="constrained")
    panels = figure.subplots(slots, examples, sharex=True, sharey=True, squeeze=False)
    steps = np.arange(1, T + 1)
    for example, slot in np.ndindex(examples, slots):
        panel = panels[slot, example]
        panel.axvline(marked_steps[example] + 1, color=MARK, linewidth=1.2, alpha=0.7, label=mark)
        for (name, gate), colour, marker in zip(values.items(), COLOURS, "os^", strict=False):
            of_slot = gate[example, :, slot]  # (T, G)
            if units > 1:
                panel.fill_between(steps, *np.quantile(of_slot, (0.1, 0.9), axis=1), color=colour, alpha=0.15, linewidth=0)
            label = f"{name}: mean of the units, 10th to 90th percentile" if units > 1 else name
            panel.plot(steps, of_slot.mean(axis=1), color=colour, marker=marker, markersize=4, linewidth=1.4, label=label)
        took = held is not None and held[example][slot]
        panel.text(
            1.01, 0.5, f"slot {slot + 1}", transform=panel.transAxes, rotation=270, va="center", fontsize=8,
            color=MARK if took else GREY, fontweight="bold" if took else "normal",
        )  # fmt: skip
        panel.grid(axis="y", color="#E6E6E6", linewidth=0.6)
    panels[0, 0].set(ylim=(-0.02, 1.02), yticks=(0, 0.5, 1), xticks=steps, xlim=(0.7, T + 0.3))
    for panel, title in zip(panels[0], titles, strict=True):
        panel.set_title(_wrap(title, 42), fontsize=8.5, loc="left")
    for panel in panels[-1]:
        panel.set_xlabel("time step", fontsize=9)
    figure.supylabel("shut (0) to open (1)", fontsize=9)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(values) + 1, fontsize=9)
    return figure


def shares(places: Mapping[str, Mapping[str, Mapping[str, float | None]]], mark: str, path) -> Path:
    """Draw how much attention goes where into the PNG file `path`; returns it.

    places: {place: {"uniform", heads, "mean": {period: fraction, or None where there was nothing to measure}}}: a panel for each place.
    """
    with _style():
        return _save(_draw_shares(places, mark), path)


def _draw_shares(places, mark) -> Figure:
    figure = Figure(figsize=(1 + 3 * len(places), 3.8), layout="constrained")
    panels = figure.subplots(1, len(places), sharey=True, squeeze=False)[0]
    for panel, (place, lines) in zip(panels, places.items(), strict=True):
        heads = [name for name in lines if name not in ("uniform", "mean")]
        for name, values in lines.items():
            y = np.array(list(values.values()), float)  # None becomes nan, which is not drawn
            if name in heads:
                label = f"each of {len(heads)} heads" if name == heads[0] else None
                panel.plot(y, color=COLOURS[0], linewidth=0.8, alpha=0.5, marker="o", markersize=2.5, label=label)
            elif name == "mean":
                panel.plot(y, color=COLOURS[0], linewidth=2.4, marker="o", label="mean")
            else:
                panel.plot(y, color=GREY, linewidth=1.2, dashes=(5, 3), label="attention to everything alike")
        panel.set_title(f"to {place}", fontsize=10)
        panel.set_xticks(range(len(values)), list(values))
        panel.get_xticklabels()[1].set_color(MARK)
        panel.set_xlabel(f"the {mark}")
        panel.grid(axis="y", color="#E6E6E6", linewidth=0.6)
        panel.margins(x=0.15)
    panels[0].set(ylim=(0, 1), ylabel="attention")
    panels[0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    return figure


def accuracies(
    tests: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float | None]]]],
    intact: Mapping[str, float | None],
    references: Mapping[str, Mapping[str, float]],
    path,
) -> Path:
    """Draw the accuracies of causal tests into the PNG file `path`; returns it.

    Args:
        tests: {test: {what was done: {how: {metric: accuracy}}}}: a column of panels for each test, a row of them for each metric.
        intact: {metric: accuracy} when nothing was done, a line.
        references: {"test_" + metric: {label: value}}: floors, dashed lines.
    """
    with _style():
        return _save(_draw_accuracies(tests, intact, references), path)


def _draw_accuracies(tests, intact, references) -> Figure:
    most = max(map(len, tests.values()))
    figure = Figure(figsize=(1 + 5 * len(tests), 1.2 + len(intact) * (0.6 + 0.28 * most)), layout="constrained")
    panels = figure.subplots(len(intact), len(tests), sharex=True, squeeze=False)
    hows = [how for table in tests.values() for how in next(iter(table.values()))]  # two of each test
    styles = dict(zip(hows, zip(COLOURS, "osD^v<", strict=False), strict=False))
    handles = {}
    for (row, metric), (column, (test, table)) in itertools.product(enumerate(intact), enumerate(tests.items())):
        panel, places = panels[row, column], np.arange(len(table))
        if intact[metric] is not None:
            handles["nothing done"] = panel.axvline(intact[metric], color="black", linewidth=1.2, label="nothing done")
        for (label, value), dashes in zip(references.get(f"test_{metric}", {}).items(), itertools.cycle([(5, 3), (1, 1.5), (5, 2, 1, 2)])):
            handles[label] = panel.axvline(value, color=GREY, linewidth=1.1, dashes=dashes, zorder=1, label=label)
        for how, shift in zip(next(iter(table.values())), (-0.12, 0.12), strict=True):
            x = np.array([done[how][metric] for done in table.values()], float)
            colour, marker = styles[how]
            (handles[how],) = panel.plot(x, places + shift, linestyle="", marker=marker, color=colour, label=how)
        panel.set_yticks(places, list(table), fontsize=8)
        panel.set(xlim=(0, 1.02), ylim=(len(table) - 0.5, -0.5), xticks=np.arange(0, 1.01, 0.2))
        panel.grid(color="#E6E6E6", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.xaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        panel.set_title(f"{metric.replace('_', ' ')} {test}", fontsize=10)
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=min(4, len(handles)), fontsize=8)
    return figure


# --- Answers ------------------------------------------------------------------------------------------------------------------------------


def answers(rows: Mapping[str, Sequence[tuple[str, str, str]]], by_place: Mapping[str, np.ndarray], path) -> Path:
    """Draw questions with the right answer and a network's, its mistakes marked, into the PNG file `path`; returns it.

    Args:
        rows: {heading: [(question, right answer, the network's answer)]}, the two answers being of equal length.
        by_place: {label: accuracies (T,)} at each place of the answers, drawn as bars beside; NaN where there is no such place.
    """
    with _style():
        return _save(_draw_answers(rows, by_place), path)


def _draw_answers(rows, by_place) -> Figure:
    """All sizes here are in pixels; each character stands in a cell of its own."""
    pitch, line, left, between, top = 13, 30, 30, 50, 70
    everything = [row for group in rows.values() for row in group]
    heads = ("input", "right answer", "answer")
    columns = [max(len(head), *(len(row[k]) for row in everything)) for k, head in enumerate(heads)]
    starts = left + np.cumsum([0, *(pitch * size + between for size in columns)])  # of the three columns, and of the bars
    width, height = starts[-1] + 620, max(420, top + line * (len(everything) + 2 * len(rows)))
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)

    def write(x, y, text, **style):
        figure.text(x / width, 1 - y / height, text, va="center", **{"fontsize": 9, **style})

    def spell(x, y, text, right):
        for k, (character, wanted) in enumerate(zip(text, right, strict=True)):
            wrong = character != wanted
            if wrong:
                cell = (x + pitch * k) / width, 1 - (y + 12) / height
                figure.add_artist(Rectangle(cell, pitch / width, 24 / height, color=MARK, linewidth=0))
            colour = "white" if wrong else "black"
            write(x + pitch * (k + 0.5), y, character, ha="center", family="monospace", color=colour)

    for x, head in zip(starts, heads, strict=False):
        write(x, 30, head, fontweight="bold")
    y = top
    for heading, group in rows.items():
        write(left, y, heading, fontsize=8, color=GREY)
        for row in group:
            y += line
            for x, text, right in zip(starts, row, (row[0], row[1], row[1]), strict=False):
                spell(x, y, text, right)
        y += 2 * line

    panel = figure.add_axes(((starts[-1] + 70) / width, 75 / height, 520 / width, 1 - 145 / height))
    share = 0.8 / len(by_place)
    for number, (label, values) in enumerate(by_place.items()):
        x = np.arange(len(values)) + 1 + (number - (len(by_place) - 1) / 2) * share
        panel.bar(x, values, share, color=(COLOURS[0], "#BBBBBB")[number % 2], label=label)
    panel.set_xticks(np.arange(len(values)) + 1)
    panel.set_title("accuracy at each place of the answer", fontsize=9)
    panel.set_ylim(0, 1.02)
    panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    panel.tick_params(labelsize=8)
    panel.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=len(by_place))
    return figure
