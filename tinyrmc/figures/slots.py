"""What the slots of a memory attend to, their gates, and what becomes of the answers
when some of it is taken away.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter

from .style import COLOURS, DPI, GREY, MARK, save, style, wrap

FOOTNOTE = (
    "Rows: the slots that ask; columns: the slots and, right of the line, the input "
    "they listen to."
)
CAVEAT = "Attention shows where a slot looks, not what decided the answer."


def attention(
    weights: np.ndarray,
    marked_steps: Sequence[int],
    titles: Sequence[str],
    path,
    mark: str = "reference",
    held: np.ndarray | None = None,
) -> Path:
    """Draw attention weights in the layout of the paper's figure 3 into the PNG file
    `path`; returns it.

    Examples stand side by side. In each, a row is a head (the last one the mean, where
    there are several heads), a column a time step, and each small matrix shows how much
    every slot listens to every slot and, right of the line, to the input.

    Args:
        weights: (E, T, H, N, N + 1) for E examples, T time steps, H heads, N slots;
            each row sums to 1. marked_steps: (E,) the time step, from 0, that is framed
            in red in each example and called `mark`. titles: (E,) what each example is
            about, in words; long lines are wrapped. held: (E, N) bool: the slots that
            took in the marked step. From that step on their columns have a red edge.
    """
    with style():
        return save(
            _draw_attention(np.asarray(weights), marked_steps, titles, mark, held), path
        )


def _draw_attention(
    weights, marked_steps, titles, mark="reference", held=None
) -> Figure:
    """All sizes here are in pixels, so that the cells of a matrix are equal whole
    numbers of them.
    """
    examples, T, H, N, columns = weights.shape
    names = [f"head {h + 1}" for h in range(H)]
    if H > 1:
        weights, names = (
            np.concatenate([weights, weights.mean(axis=2, keepdims=True)], axis=2),
            [*names, "mean"],
        )
    pitch = max(
        72,
        480 / T,
        # from one time step to the next: enough for its label, and blocks of about three
        # inches
    )
    gap = round(0.12 * pitch)
    cell = max(3, round(min((pitch - gap) / columns, (840 / len(names) - gap) / N)))
    width, height = (
        T * (columns * cell + gap) - gap,
        len(names) * (N * cell + gap) - gap,
    )
    room = max(width, 360)  # a title needs some, however narrow the matrices

    left, right, between = 90, 130, 50
    titles = [
        wrap(title, room / 10.5) for title in titles
    ]  # a character of 9 points is 10.5 pixels wide at most, on average
    top = 75 + 25 * max(title.count("\n") + 1 for title in titles)
    total_width = left + examples * (room + between) - between + right
    edges = "" if held is None else f"Red edges: the slots that took in the {mark}. "
    footnote = wrap(f"{FOOTNOTE} {edges}{CAVEAT}", (total_width - 30) / 9.5)
    bottom = 45 + 20 * (footnote.count("\n") + 1)
    total_height = (
        top + max(height, 120) + bottom
    )  # the colour bar needs some height, too

    def axes(x, y, w, h):
        return figure.add_axes(
            (
                x / total_width,
                1 - (y + h) / total_height,
                w / total_width,
                h / total_height,
            )
        )

    figure = Figure(figsize=(total_width / DPI, total_height / DPI), dpi=DPI)
    for number, title in enumerate(titles):
        x = left + number * (room + between)
        figure.text(x / total_width, 1 - 15 / total_height, title, fontsize=9, va="top")
        block = axes(x, top, width, height)
        mesh = _draw_block(
            block,
            weights[number],
            cell,
            gap,
            marked_steps[number],
            mark,
            None if held is None else held[number],
        )
        block.set_yticks(
            [row * (N * cell + gap) + N * cell / 2 for row in range(len(names))],
            names if number == 0 else [],
        )
    bar = axes(
        left + examples * (room + between) - between + 30,
        top,
        18,
        np.clip(height, 120, 300),
    )
    figure.colorbar(mesh, cax=bar, ticks=[0, 0.5, 1]).set_label("attention", fontsize=8)
    bar.tick_params(labelsize=8)
    figure.text(
        15 / total_width,
        15 / total_height,
        footnote,
        fontsize=8,
        color=GREY,
        va="bottom",
    )
    return figure


def _draw_block(block, weights, cell, gap, marked_step, mark, held=None):
    """One example, weights (T, H, N, columns): all its matrices in one mesh, with empty
    strips `gap` wide between them.
    """
    T, H, N, columns = weights.shape
    values = np.full(
        (H, N + 1, T, columns + 1), np.nan
    )  # the last row and column of each matrix are the strip after it
    values[:, :N, :, :columns] = weights.transpose(1, 2, 0, 3)
    x = np.concatenate([[0], np.cumsum(([cell] * columns + [gap]) * T)])
    y = np.concatenate([[0], np.cumsum(([cell] * N + [gap]) * H)])
    mesh = block.pcolormesh(
        x, y, values.reshape(H * (N + 1), -1), cmap="Blues", vmin=0, vmax=1
    )
    lefts, tops = x[:: columns + 1][:T], y[:: N + 1][:H]
    for across in lefts:
        for down in tops:
            block.add_patch(
                Rectangle(
                    (across, down),
                    columns * cell,
                    N * cell,
                    fill=False,
                    edgecolor=GREY,
                    linewidth=0.5,
                    clip_on=False,
                )
            )
        block.vlines(
            np.full(H, across + N * cell),
            tops,
            tops + N * cell,
            color="black",
            linewidth=0.9,
        )
    if held is not None:
        starts = (lefts[marked_step:, None] + cell * np.flatnonzero(held)).ravel()
        for down in tops:
            block.hlines(
                np.full(len(starts), down),
                starts,
                starts + cell,
                color=MARK,
                linewidth=2,
                clip_on=False,
            )
    margin = gap / 2
    frame = (lefts[marked_step] - margin, -margin), columns * cell + gap, y[-1]
    block.add_patch(
        Rectangle(*frame, fill=False, edgecolor=MARK, linewidth=1.6, clip_on=False)
    )

    labels = [
        f"{mark}\nt={t + 1}" if t == marked_step else f"t={t + 1}" for t in range(T)
    ]
    block.set_xticks(lefts + columns * cell / 2, labels)
    block.tick_params(
        length=0,
        labelsize=8,
        top=True,
        labeltop=True,
        bottom=False,
        labelbottom=False,
        pad=5,
    )
    block.get_xticklabels()[marked_step].set(color=MARK, fontweight="bold")
    block.set(xlim=(0, x[-1] - gap), ylim=(y[-1] - gap, 0))
    block.spines[:].set_visible(False)
    return mesh


def gates(
    values: Mapping[str, np.ndarray],
    marked_steps: Sequence[int],
    titles: Sequence[str],
    path,
    mark: str = "reference",
    held=None,
) -> Path:
    """Draw gates over time into the PNG file `path`; returns it.

    Examples stand side by side, slots below each other.

    Args:
        values: {name: (E, T, N, G)}: G gates, in [0, 1], of each slot. Drawn are their
            mean and the band from the 10th to the 90th percentile.
        marked_steps, titles, mark, held: as for `attention`; the names of the slots in
            `held` are red.
    """
    with style():
        return save(_draw_gates(values, marked_steps, titles, mark, held), path)


def _draw_gates(values, marked_steps, titles, mark="reference", held=None) -> Figure:
    examples, T, slots, units = next(iter(values.values())).shape
    figure = Figure(
        figsize=(0.8 + 3.2 * examples, 2.4 + 0.8 * slots), layout="constrained"
    )
    panels = figure.subplots(slots, examples, sharex=True, sharey=True, squeeze=False)
    steps = np.arange(1, T + 1)
    for example, slot in np.ndindex(examples, slots):
        panel = panels[slot, example]
        panel.axvline(
            marked_steps[example] + 1, color=MARK, linewidth=1.2, alpha=0.7, label=mark
        )
        for (name, gate), colour, marker in zip(
            values.items(), COLOURS, "os^", strict=False
        ):
            of_slot = gate[example, :, slot]  # (T, G)
            if units > 1:
                panel.fill_between(
                    steps,
                    *np.quantile(of_slot, (0.1, 0.9), axis=1),
                    color=colour,
                    alpha=0.15,
                    linewidth=0,
                )
            label = (
                f"{name}: mean of the units, 10th to 90th percentile"
                if units > 1
                else name
            )
            panel.plot(
                steps,
                of_slot.mean(axis=1),
                color=colour,
                marker=marker,
                markersize=4,
                linewidth=1.4,
                label=label,
            )
        took = held is not None and held[example][slot]
        panel.text(
            1.01,
            0.5,
            f"slot {slot + 1}",
            transform=panel.transAxes,
            rotation=270,
            va="center",
            fontsize=8,
            color=MARK if took else GREY,
            fontweight="bold" if took else "normal",
        )
        panel.grid(axis="y", color="#E6E6E6", linewidth=0.6)
    panels[0, 0].set(
        ylim=(-0.02, 1.02), yticks=(0, 0.5, 1), xticks=steps, xlim=(0.7, T + 0.3)
    )
    for panel, title in zip(panels[0], titles, strict=True):
        panel.set_title(wrap(title, 42), fontsize=8.5, loc="left")
    for panel in panels[-1]:
        panel.set_xlabel("time step", fontsize=9)
    figure.supylabel("shut (0) to open (1)", fontsize=9)
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=len(values) + 1,
        fontsize=9,
    )
    return figure


def shares(
    places: Mapping[str, Mapping[str, Mapping[str, float | None]]], mark: str, path
) -> Path:
    """Draw how much attention goes where into the PNG file `path`; returns it.

    places: {place: {"uniform", heads, "mean": {period: fraction, or None where there
        was nothing to measure}}}: a panel for each place.
    """
    with style():
        return save(_draw_shares(places, mark), path)


def _draw_shares(places, mark) -> Figure:
    figure = Figure(figsize=(1 + 3 * len(places), 3.8), layout="constrained")
    panels = figure.subplots(1, len(places), sharey=True, squeeze=False)[0]
    for panel, (place, lines) in zip(panels, places.items(), strict=True):
        heads = [name for name in lines if name not in ("uniform", "mean")]
        for name, values in lines.items():
            y = np.array(
                list(values.values()), float
            )  # None becomes nan, which is not drawn
            if name in heads:
                label = f"each of {len(heads)} heads" if name == heads[0] else None
                panel.plot(
                    y,
                    color=COLOURS[0],
                    linewidth=0.8,
                    alpha=0.5,
                    marker="o",
                    markersize=2.5,
                    label=label,
                )
            elif name == "mean":
                panel.plot(y, color=COLOURS[0], linewidth=2.4, marker="o", label="mean")
            else:
                panel.plot(
                    y,
                    color=GREY,
                    linewidth=1.2,
                    dashes=(5, 3),
                    label="attention to everything alike",
                )
        panel.set_title(f"to {place}", fontsize=10)
        panel.set_xticks(range(len(values)), list(values))
        panel.get_xticklabels()[1].set_color(MARK)
        panel.set_xlabel(f"the {mark}")
        panel.grid(axis="y", color="#E6E6E6", linewidth=0.6)
        panel.margins(x=0.15)
    panels[0].set(ylim=(0, 1), ylabel="attention")
    panels[0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=3,
        fontsize=9,
    )
    return figure


def accuracies(
    tests: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float | None]]]],
    intact: Mapping[str, float | None],
    references: Mapping[str, Mapping[str, float]],
    path,
) -> Path:
    """Draw the accuracies of causal tests into the PNG file `path`; returns it.

    Args:
        tests: {test: {what was done: {how: {metric: accuracy}}}}: a column of panels
            for each test, a row of them for each metric. intact: {metric: accuracy}
            when nothing was done, a line. references: {"test_" + metric: {label:
            value}}: floors, dashed lines.
    """
    with style():
        return save(_draw_accuracies(tests, intact, references), path)


def _draw_accuracies(tests, intact, references) -> Figure:
    most = max(map(len, tests.values()))
    figure = Figure(
        figsize=(1 + 5 * len(tests), 1.2 + len(intact) * (0.6 + 0.28 * most)),
        layout="constrained",
    )
    panels = figure.subplots(len(intact), len(tests), sharex=True, squeeze=False)
    hows = [
        how for table in tests.values() for how in next(iter(table.values()))
    ]  # two of each test
    styles = dict(zip(hows, zip(COLOURS, "osD^v<", strict=False), strict=False))
    handles = {}
    for (row, metric), (column, (test, table)) in itertools.product(
        enumerate(intact), enumerate(tests.items())
    ):
        panel, places = panels[row, column], np.arange(len(table))
        if intact[metric] is not None:
            handles["nothing done"] = panel.axvline(
                intact[metric], color="black", linewidth=1.2, label="nothing done"
            )
        for (label, value), dashes in zip(
            references.get(f"test_{metric}", {}).items(),
            itertools.cycle([(5, 3), (1, 1.5), (5, 2, 1, 2)]),
        ):
            handles[label] = panel.axvline(
                value, color=GREY, linewidth=1.1, dashes=dashes, zorder=1, label=label
            )
        for how, shift in zip(next(iter(table.values())), (-0.12, 0.12), strict=True):
            x = np.array([done[how][metric] for done in table.values()], float)
            colour, marker = styles[how]
            (handles[how],) = panel.plot(
                x, places + shift, linestyle="", marker=marker, color=colour, label=how
            )
        panel.set_yticks(places, list(table), fontsize=8)
        panel.set(
            xlim=(0, 1.02),
            ylim=(len(table) - 0.5, -0.5),
            xticks=np.arange(0, 1.01, 0.2),
        )
        panel.grid(color="#E6E6E6", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.xaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        panel.set_title(f"{metric.replace('_', ' ')} {test}", fontsize=10)
    figure.legend(
        handles.values(),
        handles,
        loc="outside lower center",
        ncols=min(4, len(handles)),
        fontsize=8,
    )
    return figure
