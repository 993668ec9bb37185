"""The sentences that the hops of a memory network look at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import GREY, MARK, Look, picture, rows_of_grid, wrap

# (title, sentences, weights (sentences, hops), which sentences are supporting facts)
Looked = tuple[str, Sequence[str], np.ndarray, Sequence[bool]]


@picture
def hops(columns: Sequence[Sequence[Looked]], note: str, shares: bool) -> Figure:
    """Stories, with a column for each hop. Supporting facts are red and have a dot.

    Args:
        columns: stories that stand below each other.
        note: a line below them.
        shares: whether the weights are shares, from 0 to 1, or any numbers.
    """
    rows = max(map(len, columns))
    tallest = [
        max(len(column[row][1]) for column in columns if row < len(column))
        for row in range(rows)
    ]
    count = max(looked[2].shape[1] for column in columns for looked in column)
    width = (3.4 + 0.5 * count) * len(columns)
    size = width, sum(0.75 + 0.2 * each for each in tallest) + 0.4
    figure = Figure(figsize=size, layout="constrained")
    heights = [each + 2 for each in tallest]
    panels = rows_of_grid(figure, rows, len(columns), height_ratios=heights)
    for number, column in enumerate(columns):
        for row, tall in enumerate(tallest):
            if row < len(column):
                _draw_story(panels[row][number], column[row], tall, shares)
            else:
                panels[row][number].set_axis_off()
    figure.supxlabel(wrap(note, 14 * width), fontsize=8, color=GREY)
    return figure


def _draw_story(panel: Axes, looked: Looked, rows: int, shares: bool) -> None:
    title, sentences, weights, facts = looked
    most = 1.0 if shares else float(np.abs(weights).max())
    least, colours = (0.0, "Blues") if shares else (-most, "PuOr")
    panel.pcolormesh(weights, cmap=colours, vmin=least, vmax=most, ec="#E6E6E6", lw=0.5)
    for (row, hop), weight in np.ndenumerate(weights):
        words = f"{100 * weight:.0f}" if shares else f"{weight:.2f}"
        colour = "white" if abs(weight) > 0.6 * most else "black"
        look: Look = {"fontsize": 7.5, "ha": "center", "va": "center"}
        panel.text(hop + 0.5, row + 0.55, words, color=colour, **look)
    pairs = zip(sentences, facts, strict=True)
    labels = [f"● {said}" if fact else said for said, fact in pairs]
    panel.set_yticks(np.arange(len(sentences)) + 0.5, labels, fontsize=8)
    for label, fact in zip(panel.get_yticklabels(), facts, strict=True):
        label.set(color=MARK if fact else "black")
    heads = [f"hop {k + 1}" for k in range(weights.shape[1])]
    panel.set_xticks(np.arange(len(heads)) + 0.5, heads, fontsize=8)
    panel.xaxis.tick_top()
    panel.tick_params(length=0)
    panel.set(ylim=(rows, 0))  # as tall as its neighbours
    panel.spines[:].set_visible(False)
    # above the story; the layout leaves room for its width, which a title would not get
    panel.annotate(
        title, (0, 1), (-3.5, 3.5), "axes fraction", "offset points", fontsize=8.5,
        ha="right", va="bottom",
    )  # fmt: skip
