"""Pictures of a sweep: what was reached in the end over the values of a field, and the
curves on the way, a panel for some combinations.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from .curves import (
    draw_group,
    draw_references,
    in_words,
    label_axes,
    label_references,
    label_values,
    mean_and_range,
    what_lines_are,
)
from .style import COLOURS, GREY, PLATE, colours, save, style, wrap


class Reached(NamedTuple):
    """What the runs of a combination reached, and whether those are all its runs and
    took all their steps.
    """

    values: Sequence[float]
    whole: bool


def value_grid(
    panels: Mapping[str, Mapping[str, Mapping[str, Reached | None]]],
    references: Mapping[str, float],
    metric: str,
    field: str,
    path,
    title: str = "",
    cores: Sequence[str] | None = None,
) -> Path:
    """Draw what many configurations reached into the PNG file `path`; returns it.

    Panels stand side by side.

    Args:
        panels: {panel: {line: {value of `field`: Reached, or None where there is
            none}}}, every panel with as many lines, every line with the same values. A
            line joins the means; beside it stand the runs, from the lowest to the
            highest; hollow is a mean that is not `whole`.
        references: {label: value}, drawn in each panel and named in the first.
        cores: the core of each line, for its colour.
    """
    with style():
        return save(
            _draw_value_grid(panels, references, metric, field, title, cores), path
        )


def _draw_value_grid(panels, references, metric, field, title="", cores=None) -> Figure:
    lines = len(next(iter(panels.values())))
    figure = Figure(
        figsize=(1 + 4.4 * len(panels), 4.6 + 0.2 * lines), layout="constrained"
    )
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    shifts = 0.1 * (np.arange(lines) - (lines - 1) / 2)
    palette = (
        colours(cores) if cores else [COLOURS[k % len(COLOURS)] for k in range(lines)]
    )
    for panel, (name, of_panel) in zip(grid, panels.items(), strict=True):
        for (label, reached), shift, colour in zip(
            of_panel.items(), shifts, palette, strict=True
        ):
            _draw_reached(panel, label, list(reached.values()), shift, colour)
        values = list(reached)
        draw_references(panel, references)
        label_values(panel, metric)
        panel.set_xticks(range(len(values)), values)
        panel.set(xlim=(-0.5, len(values) - 0.5), xlabel=field)
        panel.set_title(name, fontsize=10)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), fontsize=9)
    cells = [
        cell
        for of_panel in panels.values()
        for line in of_panel.values()
        for cell in line.values()
        if cell
    ]
    says = [
        title,
        "mean of the seeds, from the lowest to the highest"
        if any(len(cell.values) > 1 for cell in cells)
        else "",
    ]
    says += [
        "hollow: some runs are missing or were cut short"
        if not all(cell.whole for cell in cells)
        else ""
    ]
    figure.suptitle(
        "\n".join(wrap(line, 52 * len(panels)) for line in says if line), fontsize=10
    )
    figure.supylabel(in_words(metric), fontsize=10)
    figure.draw_without_rendering()
    label_references(grid[0], references, metric)
    return figure


def _draw_reached(panel, label, cells, shift, colour):
    """One line; its points are a little beside those of the others, so that ranges do
    not hide each other.
    """
    x = np.arange(len(cells)) + shift
    means = np.array([np.mean(cell.values) if cell else np.nan for cell in cells])
    panel.plot(x, means, color=colour, linewidth=1.6, label=label)
    for place, mean, cell in zip(x, means, cells, strict=True):
        if cell:
            panel.plot(
                [place] * 2,
                [min(cell.values), max(cell.values)],
                color=colour,
                linewidth=1.1,
            )
            panel.plot(
                [place] * len(cell.values),
                cell.values,
                color=colour,
                linestyle="",
                marker="_",
                markersize=6,
            )
            panel.plot(
                place,
                mean,
                marker="o",
                markersize=6,
                markeredgecolor=colour,
                markerfacecolor=colour if cell.whole else "white",
            )


def curve_grid(
    panels: Mapping[str, Mapping[str, Mapping[str, Sequence[Sequence[dict]]]]],
    references: Mapping[str, float],
    metric: str,
    path,
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
        return save(
            _draw_curve_grid(panels, references, metric, title, axis, cores), path
        )


def _draw_curve_grid(
    panels, references, metric, title="", axis="steps", cores=None
) -> Figure:
    columns = list(next(iter(panels.values())))
    figure = Figure(
        figsize=(1.2 + 3.4 * len(columns), 1.4 + 2.9 * len(panels)),
        layout="constrained",
    )
    grid = figure.subplots(
        len(panels), len(columns), sharex=True, sharey=True, squeeze=False
    )
    filled = [
        (panel, ", ".join(filter(None, [column, row])), lines)
        for across, (row, of_row) in zip(grid, panels.items(), strict=True)
        for panel, (column, lines) in zip(across, of_row.items(), strict=True)
    ]
    handles, several, whole = (
        {},
        any(len(runs) > 1 for *_, lines in filled for runs in lines.values()),
        True,
    )
    for panel, _, lines in filled:
        missing = []
        for (label, runs), colour in zip(
            lines.items(),
            colours(cores) if cores else itertools.cycle(COLOURS),
            strict=False,
        ):
            if runs and len(mean_and_range(runs, metric, axis).points):
                whole &= draw_group(panel, label, runs, metric, colour, axis)
                handles.setdefault(label, panel.get_legend_handles_labels()[0][-1])
            else:
                missing.append(f"{label}: {'no value' if runs else 'not run'}")
        draw_references(panel, references)
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
    for panel, name, _ in filled:  # when all is drawn, for the panels share their axes
        label_axes(panel, metric, axis)
        panel.set_title(name, fontsize=10)
        panel.label_outer()
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(4, max(1, len(handles))),
    )
    says = what_lines_are([axis], whole) if several else ""
    figure.suptitle(
        "\n".join(wrap(line, 40 * len(columns)) for line in (title, says) if line),
        fontsize=10,
    )
    figure.supylabel(in_words(metric), fontsize=10)
    figure.draw_without_rendering()
    label_references(grid[0, 0], references, metric)
    return figure
