"""Answers written character by character."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .style import COLOURS, DPI, GREY, MARK, Look, in_percent, picture

PITCH = 10  # pixels from one character to the next
LINE = 26  # from one row to the next
HEADS = ("input", "right answer", "network's answer")

Row = tuple[str, str, str]  # question, right answer, the network's answer


@picture
def answers(
    rows: Mapping[str, Sequence[Row]],
    by_place: Mapping[str, np.ndarray],
    title: str = "",
) -> Figure:
    """Questions with the right answer and a network's, its mistakes marked.

    Args:
        rows: {heading: [(question, right answer, the network's answer)]}, the two
            answers being of equal length.
        by_place: {label: accuracies (T,)} at each place of the answers, drawn as bars
            beside them; NaN where there is no such place.
    """
    every = [HEADS, *(row for group in rows.values() for row in group)]
    sizes = [3 + max(map(len, column)) for column in zip(*every, strict=True)]
    starts = 30 + PITCH * np.cumsum([0, *sizes])  # of the columns, and of the bars
    width = starts[-1] + 620
    height = max(450.0, 130 + LINE * (len(every) + 2 * len(rows)))
    figure = Figure(figsize=(width / DPI, height / DPI))

    def write(x: float, y: float, words: str, **look: Any) -> None:
        usual: Look = {"fontsize": 8, "family": "monospace", "va": "center"}
        figure.text(x / width, 1 - y / height, words, **{**usual, **look})

    write(starts[0], 25, title, family="sans-serif", fontsize=9)
    for x, head in zip(starts, HEADS, strict=False):
        write(x, 75, head, fontweight="bold")
    y = 115
    for heading, group in rows.items():
        write(starts[0], y, heading, color=GREY, family="sans-serif")
        for question, right, answer in group:
            y += LINE
            for x, words in zip(starts, (question, right, answer), strict=False):
                write(x, y, words)
            for k, (character, wanted) in enumerate(zip(answer, right, strict=True)):
                if character != wanted:
                    box = {"facecolor": MARK, "pad": 0, "linewidth": 0}
                    at = starts[2] + PITCH * k
                    write(at, y, character, color="white", bbox=box)
        y += 2 * LINE
    bars = (starts[-1] + 70) / width, 75 / height, 520 / width, 1 - 190 / height
    panel = figure.add_axes(bars)
    share = 0.8 / len(by_place)
    for k, (label, values) in enumerate(by_place.items()):
        places = np.arange(len(values)) + 1
        x = places + (k - (len(by_place) - 1) / 2) * share
        panel.bar(x, values, share, color=(COLOURS[0], "#BBBBBB")[k % 2], label=label)
    panel.set_xticks(places)
    panel.set_title("accuracy at each place of the answer", fontsize=9)
    panel.set_ylim(0, 1.02)
    panel.yaxis.set_major_formatter(in_percent())
    panel.tick_params(labelsize=8)
    below: Look = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.09)}
    panel.legend(fontsize=8, ncols=len(by_place), **below)
    return figure
