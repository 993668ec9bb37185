"""Pictures of text: tables, and answers written character by character."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter

from .style import COLOURS, DPI, GREY, MARK, save, style


def tables(shown: Sequence[Sequence[Sequence[str]]], path, note: str = "") -> Path:
    """Draw tables below each other, their heads first, into the PNG file `path`, with a
    note at the end; returns it.

    Long cells are wrapped. A column of numbers stands to the right, others to the left.
    """
    with style():
        return save(_draw_tables(shown, note), path)


def _draw_tables(shown, note="") -> Figure:
    """All sizes here are in pixels."""
    figure, pad, between = Figure(figsize=(1, 1), dpi=DPI), 12, 40

    def words(text, width, **style):
        wrapped = textwrap.fill(
            text.replace("`", "").replace(" %", "\u00a0%"),
            width,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return figure.text(0, 0, wrapped, va="top", fontsize=8, **style)

    placed, rules, top, width = (
        [],
        [],
        pad,
        0,
    )  # (text, its left and its top), (a line's end and height, whether below a head)
    for rows in shown:
        longest = [
            max(16, *(min(60, len(cell)) for cell in column[1:]))
            for column in zip(*rows, strict=True)
        ]  # a head is no wider
        weights = ["bold", *["normal"] * len(rows[1:])]
        cells = [
            [
                words(cell, size, fontweight=weight)
                for cell, size in zip(row, longest, strict=True)
            ]
            for row, weight in zip(rows, weights, strict=True)
        ]
        boxes = np.array(
            [[cell.get_window_extent().size for cell in row] for row in cells]
        )
        widths, heights = (
            boxes[..., 0].max(axis=0) + 2 * pad,
            boxes[..., 1].max(axis=1) + pad,
        )
        rights, bottoms = pad + np.cumsum(widths), top + np.cumsum(heights)
        numeric = [
            all(re.fullmatch(r"[\d.,:]+( %)?|", cell) for cell in column[1:])
            for column in zip(*rows, strict=True)
        ]
        for row, sizes, below, height in zip(
            cells, boxes[..., 0], bottoms, heights, strict=True
        ):
            lefts = np.where(numeric, rights - pad - sizes, rights - widths + pad)
            placed += [
                (cell, left, below - height + pad / 2)
                for cell, left in zip(row, lefts, strict=True)
            ]
        rules += [(rights[-1], below, k == 0) for k, below in enumerate(bottoms)]
        top, width = bottoms[-1] + between, max(width, rights[-1] + pad)
    below = words(note, max(40, int(width / 10.5)), color=GREY)
    height = top + (below.get_window_extent().height + pad if note else pad - between)
    figure.set_size_inches(width / DPI, height / DPI)
    for text, left, high in [*placed, (below, 2 * pad, top - between / 2)]:
        text.set_position((left / width, 1 - high / height))
    for end, y, below_head in rules:
        line = {
            "color": GREY if below_head else "#DDDDDD",
            "linewidth": 1.0 if below_head else 0.6,
        }
        figure.add_artist(
            Line2D([pad / width, end / width], [1 - y / height] * 2, **line)
        )
    return figure


def answers(
    rows: Mapping[str, Sequence[tuple[str, str, str]]],
    by_place: Mapping[str, np.ndarray],
    path,
    title: str = "",
) -> Path:
    """Draw questions with the right answer and a network's, its mistakes marked, into
    the PNG file `path`; returns it.

    Args:
        rows: {heading: [(question, right answer, the network's answer)]}, the two
            answers being of equal length. by_place: {label: accuracies (T,)} at each
            place of the answers, drawn as bars beside; NaN where there is no such
            place.
    """
    with style():
        return save(_draw_answers(rows, by_place, title), path)


def _draw_answers(rows, by_place, title="") -> Figure:
    """All sizes here are in pixels; each character stands in a cell of its own."""
    pitch, line, left, between, top = 13, 30, 30, 50, 115
    everything = [row for group in rows.values() for row in group]
    heads = ("input", "right answer", "network's answer")
    columns = [
        max(len(head), *(len(row[k]) for row in everything))
        for k, head in enumerate(heads)
    ]
    starts = left + np.cumsum(
        [0, *(pitch * size + between for size in columns)]
    )  # of the three columns, and of the bars
    width, height = (
        starts[-1] + 620,
        max(450, top + line * (len(everything) + 2 * len(rows))),
    )
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)

    def write(x, y, text, **style):
        figure.text(
            x / width, 1 - y / height, text, va="center", **{"fontsize": 9, **style}
        )

    def spell(x, y, text, right):
        for k, (character, wanted) in enumerate(zip(text, right, strict=True)):
            wrong = character != wanted
            if wrong:
                cell = (x + pitch * k) / width, 1 - (y + 12) / height
                figure.add_artist(
                    Rectangle(cell, pitch / width, 24 / height, color=MARK, linewidth=0)
                )
            colour = "white" if wrong else "black"
            write(
                x + pitch * (k + 0.5),
                y,
                character,
                ha="center",
                family="monospace",
                color=colour,
            )

    write(left, 25, title)
    for x, head in zip(starts, heads, strict=False):
        write(x, 75, head, fontweight="bold")
    y = top
    for heading, group in rows.items():
        write(left, y, heading, fontsize=8, color=GREY)
        for row in group:
            y += line
            for x, text, right in zip(
                starts, row, (row[0], row[1], row[1]), strict=False
            ):
                spell(x, y, text, right)
        y += 2 * line

    panel = figure.add_axes(
        ((starts[-1] + 70) / width, 75 / height, 520 / width, 1 - 190 / height)
    )
    share = 0.8 / len(by_place)
    for number, (label, values) in enumerate(by_place.items()):
        x = np.arange(len(values)) + 1 + (number - (len(by_place) - 1) / 2) * share
        panel.bar(
            x, values, share, color=(COLOURS[0], "#BBBBBB")[number % 2], label=label
        )
    panel.set_xticks(np.arange(len(values)) + 1)
    panel.set_title("accuracy at each place of the answer", fontsize=9)
    panel.set_ylim(0, 1.02)
    panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    panel.tick_params(labelsize=8)
    panel.legend(
        fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=len(by_place)
    )
    return figure
