"""What the slots of a memory attend to, their gates, and what becomes of the answers
when parts of the memory are taken away.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .style import COLOURS, DPI, GREY, MARK, in_percent, rows_of_grid, save, style, wrap

FOOTNOTE = (
    "Rows: the slots that ask; columns: the slots and, right of the line, the input "
    "they listen to."
)
CAVEAT = "Attention shows where a slot looks, not what decided the answer."

# --- Attention ------------------------------------------------------------------------


def attention(
    weights: np.ndarray,
    marked_steps: Sequence[int] | np.ndarray,
    titles: Sequence[str],
    path: str | Path,
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
            each row sums to 1.
        marked_steps: (E,) the time step, from 0, that is framed in red in each example
            and called `mark`.
        titles: (E,) what each example is about, in words; long lines are wrapped.
        held: (E, N) bool: the slots that took in the marked step. From that step on
            their columns have a red edge.
    """
    with style():
        figure = _draw_attention(np.asarray(weights), marked_steps, titles, mark, held)
        return save(figure, path)


class _Matrices(NamedTuple):
    """The matrices of one example, in whole pixels."""

    cell: int  # side of a cell
    gap: int  # between matrices
    width: int  # of all matrices
    height: int

    @classmethod
    def fitted(cls, T: int, H: int, N: int, columns: int) -> _Matrices:
        """T x H matrices of N x columns cells."""
        # From a time step to the next: room for its label, and about three inches for
        # an example.
        pitch = max(72, 480 / T)
        gap = round(0.12 * pitch)
        cell = max(3, round(min((pitch - gap) / columns, (840 / H - gap) / N)))
        width = T * (columns * cell + gap) - gap
        return cls(cell, gap, width, H * (N * cell + gap) - gap)


def _draw_attention(
    weights: np.ndarray,
    marked_steps: Sequence[int] | np.ndarray,
    titles: Sequence[str],
    mark: str = "reference",
    held: np.ndarray | None = None,
) -> Figure:
    """All sizes here are in pixels, so that the cells of a matrix are equal whole
    numbers of them.
    """
    weights, names = _with_mean(weights)
    examples, T, H, N, columns = weights.shape
    matrices = _Matrices.fitted(T, H, N, columns)
    left, between = 90, 50
    room = max(matrices.width, 360)  # a title needs some, however narrow the matrices
    end = left + examples * (room + between) - between  # of the last example
    total_width = end + 130

    # A character of 9 points is 10.5 pixels wide at most, on average.
    titles = [wrap(title, room / 10.5) for title in titles]
    footnote = wrap(_footnote(mark, held), (total_width - 30) / 9.5)
    top = 75 + 25 * max(title.count("\n") + 1 for title in titles)
    bottom = 45 + 20 * (footnote.count("\n") + 1)
    total_height = top + max(matrices.height, 120) + bottom  # room for the colour bar

    figure = Figure(figsize=(total_width / DPI, total_height / DPI), dpi=DPI)
    for k, title in enumerate(titles):
        x = left + k * (room + between)
        figure.text(x / total_width, 1 - 15 / total_height, title, fontsize=9, va="top")
        block = _axes(figure, x, top, matrices.width, matrices.height)
        slots = None if held is None else held[k]
        mesh = _draw_block(block, weights[k], matrices, marked_steps[k], mark, slots)
        side = N * matrices.cell
        middles = np.arange(H) * (side + matrices.gap) + side / 2
        block.set_yticks(middles, names if k == 0 else [])
    bar = _axes(figure, end + 30, top, 18, np.clip(matrices.height, 120, 300))
    _draw_bar(bar, mesh)
    x, y = 15 / total_width, 15 / total_height
    figure.text(x, y, footnote, fontsize=8, color=GREY, va="bottom")
    return figure


def _draw_bar(bar: Axes, mesh: Any) -> None:
    """What the colours of a mesh mean."""
    figure = bar.figure
    figure.colorbar(mesh, cax=bar, ticks=[0, 0.5, 1]).set_label("attention", fontsize=8)
    bar.tick_params(labelsize=8)


def _with_mean(weights: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """(weights, the heads' names), with the mean of several heads as one more."""
    H = weights.shape[2]
    names = [f"head {h + 1}" for h in range(H)]
    if H == 1:
        return weights, names
    mean = weights.mean(axis=2, keepdims=True)
    return np.concatenate([weights, mean], axis=2), [*names, "mean"]


def _footnote(mark: str, held: np.ndarray | None) -> str:
    edges = "" if held is None else f"Red edges: the slots that took in the {mark}. "
    return f"{FOOTNOTE} {edges}{CAVEAT}"


def _axes(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """Axes at a place in pixels, from the upper left corner."""
    across, down = figure.get_size_inches() * DPI
    return figure.add_axes(
        (x / across, 1 - (y + height) / down, width / across, height / down)
    )


def _draw_block(
    block: Axes,
    weights: np.ndarray,
    matrices: _Matrices,
    marked_step: int,
    mark: str,
    held: np.ndarray | None = None,
) -> Any:
    """One example, weights (T, H, N, columns): all its matrices in one mesh, which is
    returned, with empty strips between them.
    """
    T, H, N, columns = weights.shape
    cell, gap = matrices.cell, matrices.gap
    # The last row and column of each matrix are the strip after it.
    values = np.full((H, N + 1, T, columns + 1), np.nan)
    values[:, :N, :, :columns] = weights.transpose(1, 2, 0, 3)
    x = np.concatenate([[0], np.cumsum(([cell] * columns + [gap]) * T)])
    y = np.concatenate([[0], np.cumsum(([cell] * N + [gap]) * H)])
    mesh = block.pcolormesh(
        x, y, values.reshape(H * (N + 1), -1), cmap="Blues", vmin=0, vmax=1
    )
    lefts, tops = x[:: columns + 1][:T], y[:: N + 1][:H]  # of the matrices
    size = columns * cell, N * cell
    _draw_frames(block, lefts, tops, size, input_at=N * cell)
    if held is not None:
        _draw_edges(block, lefts[marked_step:], tops, np.flatnonzero(held), cell)

    corner = lefts[marked_step] - gap / 2, -gap / 2
    width, height = size[0] + gap, y[-1]
    block.add_patch(_frame(corner, width, height, MARK, linewidth=1.6))
    _label_steps(block, lefts + columns * cell / 2, marked_step, mark)
    block.set(xlim=(0, x[-1] - gap), ylim=(y[-1] - gap, 0))
    block.spines[:].set_visible(False)
    return mesh


def _frame(
    corner: tuple[float, float],
    width: float,
    height: float,
    colour: str,
    linewidth: float,
) -> Rectangle:
    return Rectangle(
        corner,
        width,
        height,
        fill=False,
        edgecolor=colour,
        linewidth=linewidth,
        clip_on=False,
    )


def _draw_frames(
    block: Axes,
    lefts: np.ndarray,
    tops: np.ndarray,
    size: tuple[int, int],
    input_at: int,
) -> None:
    """A frame around each matrix, and a line between the slots and the input."""
    width, height = size
    for across in lefts:
        for down in tops:
            block.add_patch(_frame((across, down), width, height, GREY, linewidth=0.5))
        x = np.full(len(tops), across + input_at)
        block.vlines(x, tops, tops + height, color="black", linewidth=0.9)


def _draw_edges(
    block: Axes, lefts: np.ndarray, tops: np.ndarray, slots: np.ndarray, cell: int
) -> None:
    """A red edge above the columns of some slots."""
    starts = (lefts[:, None] + cell * slots).ravel()
    for down in tops:
        y = np.full(len(starts), down)
        block.hlines(y, starts, starts + cell, color=MARK, linewidth=2, clip_on=False)


def _label_steps(block: Axes, middles: np.ndarray, marked_step: int, mark: str) -> None:
    """The time steps above the matrices, the marked one in red."""
    labels = [f"t={t + 1}" for t in range(len(middles))]
    labels[marked_step] = f"{mark}\n{labels[marked_step]}"
    block.set_xticks(middles, labels)
    block.tick_params(length=0, labelsize=8, pad=5)
    block.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
    block.get_xticklabels()[marked_step].set(color=MARK, fontweight="bold")


# --- Gates ----------------------------------------------------------------------------


def gates(
    values: Mapping[str, np.ndarray],
    marked_steps: Sequence[int] | np.ndarray,
    titles: Sequence[str],
    path: str | Path,
    mark: str = "reference",
    held: np.ndarray | None = None,
) -> Path:
    """Draw gates over time into the PNG file `path`; returns it.

    Examples stand side by side, slots below each other.

    Args:
        values: {name: (E, T, N, G)}: G gates, in [0, 1], of each slot. Their mean is
            drawn, and the band from the 10th to the 90th percentile.
        marked_steps, titles, mark, held: as for `attention`; the names of the slots in
            `held` are red.
    """
    with style():
        return save(_draw_gates(values, marked_steps, titles, mark, held), path)


def _draw_gates(
    values: Mapping[str, np.ndarray],
    marked_steps: Sequence[int] | np.ndarray,
    titles: Sequence[str],
    mark: str = "reference",
    held: np.ndarray | None = None,
) -> Figure:
    examples, T, slots, _ = next(iter(values.values())).shape
    size = 0.8 + 3.2 * examples, 2.4 + 0.8 * slots
    figure = Figure(figsize=size, layout="constrained")
    panels = rows_of_grid(figure, slots, examples, sharex=True, sharey=True)
    for example, slot in np.ndindex(examples, slots):
        panel, marked = panels[slot][example], int(marked_steps[example])
        panel.axvline(marked + 1, color=MARK, linewidth=1.2, alpha=0.7, label=mark)
        for (name, gate), colour, marker in zip(
            values.items(), COLOURS, "os^", strict=False
        ):
            _draw_gate(panel, name, gate[example, :, slot], colour, marker)
        _name_slot(panel, slot, bool(held is not None and held[example][slot]))
        panel.grid(axis="y", color="#E6E6E6", linewidth=0.6)
    first = panels[0][0]
    first.set(ylim=(-0.02, 1.02), yticks=(0, 0.5, 1))
    first.set(xticks=np.arange(1, T + 1), xlim=(0.7, T + 0.3))
    for panel, title in zip(panels[0], titles, strict=True):
        panel.set_title(wrap(title, 42), fontsize=8.5, loc="left")
    for panel in panels[-1]:
        panel.set_xlabel("time step", fontsize=9)
    figure.supylabel("shut (0) to open (1)", fontsize=9)
    _legend_of(figure, first, ncols=len(values) + 1)
    return figure


def _draw_gate(
    panel: Axes, name: str, gate: np.ndarray, colour: str, marker: str
) -> None:
    """One slot's gates (T, G) over time."""
    T, units = gate.shape
    steps = np.arange(1, T + 1)
    if units > 1:
        name += ": mean of the units, 10th to 90th percentile"
        low, high = np.quantile(gate, (0.1, 0.9), axis=1)
        panel.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
    panel.plot(
        steps,
        gate.mean(axis=1),
        color=colour,
        marker=marker,
        markersize=4,
        linewidth=1.4,
        label=name,
    )


def _name_slot(panel: Axes, slot: int, red: bool) -> None:
    panel.text(
        1.01,
        0.5,
        f"slot {slot + 1}",
        transform=panel.transAxes,
        rotation=270,
        va="center",
        fontsize=8,
        color=MARK if red else GREY,
        fontweight="bold" if red else "normal",
    )


def _legend_of(figure: Figure, panel: Axes, ncols: int) -> None:
    """One legend below all panels, with what one of them shows."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols, fontsize=9)


# --- How much attention goes where ----------------------------------------------------


def shares(
    places: Mapping[str, Mapping[str, Mapping[str, float | None]]],
    mark: str,
    path: str | Path,
) -> Path:
    """Draw how much attention goes where into the PNG file `path`; returns it.

    places: {place: {"uniform", heads, "mean": {period: fraction, or None where there
        was nothing to measure}}}: a panel for each place.
    """
    with style():
        return save(_draw_shares(places, mark), path)


def _draw_shares(
    places: Mapping[str, Mapping[str, Mapping[str, float | None]]], mark: str
) -> Figure:
    figure = Figure(figsize=(1 + 3 * len(places), 3.8), layout="constrained")
    (panels,) = rows_of_grid(figure, 1, len(places), sharey=True)
    for panel, (place, lines) in zip(panels, places.items(), strict=True):
        _draw_lines_of_place(panel, lines)
        names = [*next(iter(lines.values()))]
        panel.set_title(f"to {place}", fontsize=10)
        panel.set_xticks(range(len(names)), names)
        panel.get_xticklabels()[1].set_color(MARK)
        panel.set_xlabel(f"the {mark}")
        panel.grid(axis="y", color="#E6E6E6", linewidth=0.6)
        panel.margins(x=0.15)
    panels[0].set(ylim=(0, 1), ylabel="attention")
    panels[0].yaxis.set_major_formatter(in_percent())
    _legend_of(figure, panels[0], ncols=3)
    return figure


def _draw_lines_of_place(
    panel: Axes, lines: Mapping[str, Mapping[str, float | None]]
) -> None:
    """Thin lines for the heads, a thick one for their mean, a dashed one for attention
    to everything alike.
    """
    heads = [name for name in lines if name not in ("uniform", "mean")]
    for name, values in lines.items():
        y = np.array([*values.values()], float)  # None becomes nan, which is not drawn
        if name == "uniform":
            label = "attention to everything alike"
            panel.plot(y, color=GREY, linewidth=1.2, dashes=(5, 3), label=label)
        elif name == "mean":
            panel.plot(y, color=COLOURS[0], linewidth=2.4, marker="o", label="mean")
        else:
            panel.plot(
                y,
                color=COLOURS[0],
                linewidth=0.8,
                alpha=0.5,
                marker="o",
                markersize=2.5,
                label=f"each of {len(heads)} heads" if name == heads[0] else None,
            )


# --- Accuracies of causal tests -------------------------------------------------------

Test = Mapping[str, Mapping[str, Mapping[str, float | None]]]


def accuracies(
    tests: Mapping[str, Test],
    intact: Mapping[str, float | None],
    references: Mapping[str, Mapping[str, float]],
    path: str | Path,
) -> Path:
    """Draw the accuracies of causal tests into the PNG file `path`; returns it.

    Args:
        tests: {test: {what was done: {how: {metric: accuracy}}}}: a column of panels
            for each test, a row of them for each metric.
        intact: {metric: accuracy} when nothing was done, a line.
        references: {held-out set + "_" + metric: {label: value}}: floors, dashed lines.
    """
    with style():
        return save(_draw_accuracies(tests, intact, references), path)


def _draw_accuracies(
    tests: Mapping[str, Test],
    intact: Mapping[str, float | None],
    references: Mapping[str, Mapping[str, float]],
) -> Figure:
    most = max(map(len, tests.values()))
    size = 1 + 5 * len(tests), 1.2 + len(intact) * (0.6 + 0.28 * most)
    figure = Figure(figsize=size, layout="constrained")
    panels = rows_of_grid(figure, len(intact), len(tests), sharex=True)
    hows = [how for table in tests.values() for how in next(iter(table.values()))]
    looks = zip(COLOURS, "osD^v<", strict=False)
    styles = dict(zip(hows, looks, strict=False))
    handles: dict[str, Any] = {}
    known = {name.partition("_")[2]: values for name, values in references.items()}
    for metric, row in zip(intact, panels, strict=True):
        floors = known.get(metric, {})
        for (test, table), panel in zip(tests.items(), row, strict=True):
            handles |= _draw_levels(panel, intact[metric], floors)
            handles |= _draw_test(panel, table, metric, styles)
            panel.set_title(f"{metric.replace('_', ' ')} {test}", fontsize=10)
    figure.legend(
        [*handles.values()],
        [*handles],
        loc="outside lower center",
        ncols=min(4, len(handles)),
        fontsize=8,
    )
    return figure


def _draw_levels(
    panel: Axes, intact: float | None, floors: Mapping[str, float]
) -> dict[str, Any]:
    """Lines for the intact network and the floors; {label: line}."""
    lines: dict[str, Any] = {}
    if intact is not None:
        label = "nothing done"
        lines[label] = panel.axvline(intact, color="black", linewidth=1.2, label=label)
    dashes = itertools.cycle([(5, 3), (1, 1.5), (5, 2, 1, 2)])
    for label, value in floors.items():
        lines[label] = panel.axvline(
            value, color=GREY, linewidth=1.1, dashes=next(dashes), zorder=1, label=label
        )
    return lines


def _draw_test(
    panel: Axes, table: Test, metric: str, styles: Mapping[str, tuple[str, str]]
) -> dict[str, Any]:
    """Points for what was done, in two ways, below each other; {way: points}."""
    places = np.arange(len(table))
    points: dict[str, Any] = {}
    for how, shift in zip(next(iter(table.values())), (-0.12, 0.12), strict=True):
        x = np.array([done[how][metric] for done in table.values()], float)
        colour, marker = styles[how]
        (points[how],) = panel.plot(
            x, places + shift, linestyle="", marker=marker, color=colour, label=how
        )
    panel.set_yticks(places, [*table], fontsize=8)
    panel.set(xlim=(0, 1.02), ylim=(len(table) - 0.5, -0.5))
    panel.set(xticks=np.arange(0, 1.01, 0.2))
    panel.grid(color="#E6E6E6", linewidth=0.6)
    panel.set_axisbelow(True)
    panel.xaxis.set_major_formatter(in_percent())
    return points
