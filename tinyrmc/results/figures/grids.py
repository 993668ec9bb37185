"""A picture of a sweep: what was reached in the end, over the values of a field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ...text import in_words
from .learning_curves import (
    References,
    draw_references,
    label_values,
    name_beside,
)
from .style import COLOURS, colours, picture, rows_of_grid, wrap


class Reached(NamedTuple):
    """The results of the runs of a combination, and whether those are all its runs and
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
    """The results of many configurations, in panels side by side.

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
    palette = colours(cores) if cores else list(COLOURS) * lines
    # A little beside each other, so that ranges do not hide others.
    shifts = 0.1 * (np.arange(lines) - (lines - 1) / 2)
    for panel, (name, of_panel) in zip(grid, panels.items(), strict=True):
        for (label, reached), shift, colour in zip(
            of_panel.items(), shifts, palette, strict=False
        ):
            x = np.arange(len(reached)) + shift
            means = [
                float(np.mean(each.values)) if each else np.nan
                for each in reached.values()
            ]
            panel.plot(x, means, color=colour, linewidth=1.6, label=label)
            for place, mean, each in zip(x, means, reached.values(), strict=True):
                if each:
                    runs = [place] * len(each.values), sorted(each.values)
                    panel.plot(*runs, "_-", color=colour, linewidth=1.1, markersize=6)
                    inside = colour if each.whole else "white"
                    panel.plot(place, mean, "o", color=colour, markerfacecolor=inside)
        values = [*next(iter(of_panel.values()))]
        names = draw_references(panel, references, metric)
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
    says = [wrap(line, 52 * len(panels)) for line in says if line]
    figure.suptitle("\n".join(says), fontsize=10)
    figure.supylabel(in_words(metric), fontsize=10)
    name_beside(grid[-1], names)
    return figure
