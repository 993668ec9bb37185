"""Pictures of a sweep: what was reached in the end, over the values of a field, and the
curves on the way there, some combinations in each panel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ...text import in_words
from .learning_curves import (
    References,
    Runs,
    draw_group,
    draw_references,
    label_axes,
    label_values,
    mean_and_range,
    name_beside,
    reference_names,
    what_lines_are,
)
from .style import COLOURS, GREY, colours, picture, rows_of_grid, wrap


class Reached(NamedTuple):
    """What the runs of a combination reached, and whether those are all its runs and
    took all their steps.
    """

    values: Sequence[float]
    whole: bool


Lines = Mapping[str, Mapping[str, Reached | None]]  # label -> value of the field -> it


@picture
def value_grid(
    panels: Mapping[str, Lines],
    references: References,
    metric: str,
    field: str,
    title: str = "",
    cores: Sequence[str] | None = None,
) -> Figure:
    """What many configurations reached, in panels side by side.

    Args:
        panels: {panel: {line: {value of `field`: Reached, or None where there is
            none}}}, every panel with as many lines, every line with the same values. A
            line joins the means, which are hollow unless `whole`; beside it stand the
            runs, from the lowest to the highest.
        references: {label: value}, drawn in each panel and named beside the last.
        cores: the core of each line, for its colour.
    """
    lines = len(next(iter(panels.values())))
    size = 2.7 + 4.4 * len(panels), 4.6 + 0.2 * lines
    figure = Figure(figsize=size, layout="constrained")
    (grid,) = rows_of_grid(figure, 1, len(panels), sharey=True)
    palette = _palette(cores, lines)
    # A little beside each other, so that ranges do not hide others.
    shifts = 0.1 * (np.arange(lines) - (lines - 1) / 2)
    for panel, (name, of_panel) in zip(grid, panels.items(), strict=True):
        for (label, reached), shift, colour in zip(
            of_panel.items(), shifts, palette, strict=True
        ):
            x = np.arange(len(reached)) + shift
            means = [
                np.mean(each.values) if each else np.nan for each in reached.values()
            ]
            panel.plot(x, means, color=colour, linewidth=1.6, label=label)
            for place, mean, each in zip(x, means, reached.values(), strict=True):
                if each:
                    runs = [place] * len(each.values), sorted(each.values)
                    panel.plot(*runs, "_-", color=colour, linewidth=1.1, markersize=6)
                    inside = colour if each.whole else "white"
                    panel.plot(place, mean, "o", color=colour, markerfacecolor=inside)
        values = [*next(iter(of_panel.values()))]
        draw_references(panel, references)
        label_values(panel, metric)
        panel.set_xticks(range(len(values)), values)
        panel.set(xlim=(-0.5, len(values) - 0.5), xlabel=field)
        panel.set_title(name, fontsize=10)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), fontsize=9)
    cells = [
        each
        for of_panel in panels.values()
        for line in of_panel.values()
        for each in line.values()
        if each
    ]
    says = [title]
    if any(len(each.values) > 1 for each in cells):
        says.append("mean of the seeds, from the lowest to the highest")
    if not all(each.whole for each in cells):
        says.append("hollow: some runs are missing or were cut short")
    _entitle(figure, says, metric, characters=52 * len(panels))
    name_beside(grid[-1], reference_names(references, metric))
    return figure


@picture
def curve_grid(
    panels: Mapping[str, Mapping[str, Runs]],
    references: References,
    metric: str,
    title: str = "",
    axis: str = "steps",
    cores: Sequence[str] | None = None,
) -> Figure:
    """The learning curves of many configurations, a panel for some of them.

    Args:
        panels: {row: {column: {line: runs}}}, every row with the same columns and every
            panel with the same lines. Runs are as in `learning_curve`; where there are
            none, the panel says so.
        references: {label: value}, drawn in each panel and named beside the first row.
        cores: the core of each line, for its colour.
    """
    columns = len(next(iter(panels.values())))
    size = 2.9 + 3.4 * columns, 1.4 + 2.9 * len(panels)
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
        missing = []
        palette = _palette(cores, len(lines))
        for (label, runs), colour in zip(lines.items(), palette, strict=True):
            if runs and len(mean_and_range(runs, metric, axis).points):
                whole &= draw_group(panel, label, runs, metric, colour, axis)
                handles.setdefault(label, panel.get_legend_handles_labels()[0][-1])
            else:
                missing.append(f"{label}: {'no value' if runs else 'not run'}")
        draw_references(panel, references)
        if missing:
            place = {"xycoords": "axes fraction", "va": "top"}
            words = "\n".join(missing)
            panel.annotate(words, (0.02, 0.98), fontsize=7, color=GREY, **place)
    for panel, name, _ in filled:  # once all is drawn: the panels share their axes
        label_axes(panel, metric, axis)
        panel.set_title(name, fontsize=10)
        panel.label_outer()
    columns_of_legend = min(4, max(1, len(handles)))
    figure.legend(
        handles.values(), handles, loc="outside lower center", ncols=columns_of_legend
    )
    several = any(len(runs) > 1 for *_, lines in filled for runs in lines.values())
    says = [title, what_lines_are([axis], whole) if several else ""]
    _entitle(figure, says, metric, characters=40 * columns)
    part = 0.75 / len(panels)
    name_beside(grid[0][-1], reference_names(references, metric), part)
    return figure


def _palette(cores: Sequence[str] | None, lines: int) -> list[str]:
    """A colour for each line, which may be a core's."""
    if cores:
        return colours(cores)
    return [COLOURS[k % len(COLOURS)] for k in range(lines)]


def _entitle(
    figure: Figure, says: Sequence[str], metric: str, characters: float
) -> None:
    """The title in lines, and the metric at the side."""
    lines = [wrap(line, characters) for line in says if line]
    figure.suptitle("\n".join(lines), fontsize=10)
    figure.supylabel(in_words(metric), fontsize=10)
