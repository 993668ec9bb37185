"""Pictures of a sweep: what was reached in the end, over the values of a field, and the
curves on the way there, some combinations in each panel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .curves import (
    References,
    Run,
    draw_group,
    draw_references,
    in_words,
    label_axes,
    label_references,
    label_values,
    mean_and_range,
    what_lines_are,
)
from .style import COLOURS, GREY, PLATE, colours, rows_of_grid, save, style, wrap

# --- What was reached in the end ------------------------------------------------------


class Reached(NamedTuple):
    """What the runs of a combination reached, and whether those are all its runs and
    took all their steps.
    """

    values: Sequence[float]
    whole: bool


Lines = Mapping[str, Mapping[str, Reached | None]]  # label -> value of the field -> it


def value_grid(
    panels: Mapping[str, Lines],
    references: References,
    metric: str,
    field: str,
    path: str | Path,
    title: str = "",
    cores: Sequence[str] | None = None,
) -> Path:
    """Draw what many configurations reached into the PNG file `path`; returns it.

    Panels stand side by side.

    Args:
        panels: {panel: {line: {value of `field`: Reached, or None where there is
            none}}}, every panel with as many lines, every line with the same values. A
            line joins the means, which are hollow unless `whole`; beside it stand the
            runs, from the lowest to the highest.
        references: {label: value}, drawn in each panel and named in the first.
        cores: the core of each line, for its colour.
    """
    with style():
        figure = _draw_value_grid(panels, references, metric, field, title, cores)
        return save(figure, path)


def _draw_value_grid(
    panels: Mapping[str, Lines],
    references: References,
    metric: str,
    field: str,
    title: str = "",
    cores: Sequence[str] | None = None,
) -> Figure:
    lines = len(next(iter(panels.values())))
    size = 1 + 4.4 * len(panels), 4.6 + 0.2 * lines
    figure = Figure(figsize=size, layout="constrained")
    (grid,) = rows_of_grid(figure, 1, len(panels), sharey=True)
    palette = _palette(cores, lines)
    # A little beside each other, so that ranges do not hide others.
    shifts = 0.1 * (np.arange(lines) - (lines - 1) / 2)
    for panel, (name, of_panel) in zip(grid, panels.items(), strict=True):
        for (label, reached), shift, colour in zip(
            of_panel.items(), shifts, palette, strict=True
        ):
            _draw_reached(panel, label, [*reached.values()], shift, colour)
        values = [*next(iter(of_panel.values()))]
        draw_references(panel, references)
        label_values(panel, metric)
        panel.set_xticks(range(len(values)), values)
        panel.set(xlim=(-0.5, len(values) - 0.5), xlabel=field)
        panel.set_title(name, fontsize=10)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), fontsize=9)
    says = [title, *_what_points_are(panels.values())]
    _entitle(figure, says, metric, characters=52 * len(panels))
    figure.draw_without_rendering()
    label_references(grid[0], references, metric)
    return figure


def _palette(cores: Sequence[str] | None, lines: int) -> list[str]:
    """A colour for each line, which may be a core's."""
    if cores:
        return colours(cores)
    return [COLOURS[k % len(COLOURS)] for k in range(lines)]


def _draw_reached(
    panel: Axes, label: str, cells: Sequence[Reached | None], shift: float, colour: str
) -> None:
    """One line, moved to the side by `shift`."""
    x = np.arange(len(cells)) + shift
    means = np.array([np.mean(cell.values) if cell else np.nan for cell in cells])
    panel.plot(x, means, color=colour, linewidth=1.6, label=label)
    for place, mean, cell in zip(x, means, cells, strict=True):
        if cell:
            _draw_runs(panel, place, cell.values, colour)
            panel.plot(
                place,
                mean,
                marker="o",
                markersize=6,
                markeredgecolor=colour,
                markerfacecolor=colour if cell.whole else "white",
            )


def _draw_runs(panel: Axes, place: float, values: Sequence[float], colour: str) -> None:
    """A dash for each run, on a line from the lowest to the highest."""
    ends = [min(values), max(values)]
    panel.plot([place] * 2, ends, color=colour, linewidth=1.1)
    panel.plot(
        [place] * len(values),
        values,
        color=colour,
        linestyle="",
        marker="_",
        markersize=6,
    )


def _what_points_are(panels: Iterable[Lines]) -> list[str]:
    """What the points of some panels are."""
    cells = [
        cell
        for of_panel in panels
        for line in of_panel.values()
        for cell in line.values()
        if cell
    ]
    says = []
    if any(len(cell.values) > 1 for cell in cells):
        says.append("mean of the seeds, from the lowest to the highest")
    if not all(cell.whole for cell in cells):
        says.append("hollow: some runs are missing or were cut short")
    return says


def _entitle(
    figure: Figure, says: Sequence[str], metric: str, characters: float
) -> None:
    """The title in lines, and the metric at the side."""
    lines = [wrap(line, characters) for line in says if line]
    figure.suptitle("\n".join(lines), fontsize=10)
    figure.supylabel(in_words(metric), fontsize=10)


# --- The curves -----------------------------------------------------------------------

Runs = Mapping[str, Sequence[Run]]  # line -> runs


def curve_grid(
    panels: Mapping[str, Mapping[str, Runs]],
    references: References,
    metric: str,
    path: str | Path,
    title: str = "",
    axis: str = "steps",
    cores: Sequence[str] | None = None,
) -> Path:
    """Draw the learning curves of many configurations, a panel for some of them, into
    the PNG file `path`; returns it.

    Args:
        panels: {row: {column: {line: runs}}}, every row with the same columns and every
            panel with the same lines. Runs are as in `learning_curve`; where there are
            none, the panel says so.
        references: {label: value}, drawn in each panel and named in the first.
        cores: the core of each line, for its colour.
    """
    with style():
        figure = _draw_curve_grid(panels, references, metric, title, axis, cores)
        return save(figure, path)


def _draw_curve_grid(
    panels: Mapping[str, Mapping[str, Runs]],
    references: References,
    metric: str,
    title: str = "",
    axis: str = "steps",
    cores: Sequence[str] | None = None,
) -> Figure:
    columns = len(next(iter(panels.values())))
    size = 1.2 + 3.4 * columns, 1.4 + 2.9 * len(panels)
    figure = Figure(figsize=size, layout="constrained")
    grid = rows_of_grid(figure, len(panels), columns, sharex=True, sharey=True)
    filled = [
        (panel, ", ".join(filter(None, [column, row])), lines)
        for across, (row, of_row) in zip(grid, panels.items(), strict=True)
        for panel, (column, lines) in zip(across, of_row.items(), strict=True)
    ]
    handles: dict[str, Any] = {}
    whole = True
    for panel, _, lines in filled:
        palette = _palette(cores, len(lines))
        whole &= _draw_panel(panel, lines, metric, axis, palette, handles)
        draw_references(panel, references)
    for panel, name, _ in filled:  # once all is drawn: the panels share their axes
        label_axes(panel, metric, axis)
        panel.set_title(name, fontsize=10)
        panel.label_outer()
    figure.legend(
        [*handles.values()],
        [*handles],
        loc="outside lower center",
        ncols=min(4, max(1, len(handles))),
    )
    several = any(len(runs) > 1 for *_, lines in filled for runs in lines.values())
    says = [title, what_lines_are([axis], whole) if several else ""]
    _entitle(figure, says, metric, characters=40 * columns)
    figure.draw_without_rendering()
    label_references(grid[0][0], references, metric)
    return figure


def _draw_panel(
    panel: Axes,
    lines: Runs,
    metric: str,
    axis: str,
    palette: Sequence[str],
    handles: dict[str, Any],
) -> bool:
    """The curves of one panel, and which are missing; their handles are added to
    `handles`. Returns whether all runs count everywhere.
    """
    whole, missing = True, []
    for (label, runs), colour in zip(lines.items(), palette, strict=True):
        if runs and len(mean_and_range(runs, metric, axis).points):
            whole &= draw_group(panel, label, runs, metric, colour, axis)
            handles.setdefault(label, panel.get_legend_handles_labels()[0][-1])
        else:
            missing.append(f"{label}: {'no value' if runs else 'not run'}")
    words = panel.text(
        0.02,
        0.98,
        "\n".join(missing),
        transform=panel.transAxes,
        va="top",
        fontsize=7,
        color=GREY,
        bbox=PLATE,
    )
    words.set_visible(bool(missing))
    return whole
