"""Pictures of text: tables, and answers written character by character."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from ...text import Rows, is_number
from .style import COLOURS, DPI, GREY, MARK, in_percent, save, style

# --- Tables ---------------------------------------------------------------------------

PAD = 12  # pixels around the words of a cell
BETWEEN = 40  # pixels between tables


def tables(shown: Sequence[Rows], path: str | Path, note: str = "") -> Path:
    """Draw tables below each other, their heads first, into the PNG file `path`, with a
    note at the end; returns it.

    Long cells are wrapped. A column of numbers stands to the right, others to the left.
    """
    with style():
        return save(_draw_tables(shown, note), path)


class _Placed(NamedTuple):
    """Words, and where they are to stand: pixels from the left and from the top."""

    text: Text
    left: float
    top: float


class _Rule(NamedTuple):
    """A line below a row, from the left margin to `right`, at `height` from the top."""

    right: float
    height: float
    below_head: bool


def _draw_tables(shown: Sequence[Rows], note: str = "") -> Figure:
    """All sizes here are in pixels. The words are measured first, for they decide how
    large the picture is, and placed when that is known.
    """
    figure = Figure(figsize=(1, 1), dpi=DPI)
    words: list[_Placed] = []
    rules: list[_Rule] = []
    top: float = PAD
    width: float = 0
    for rows in shown:
        of_table, lines = _laid_out(figure, rows, top)
        words += of_table
        rules += lines
        right, bottom, _ = lines[-1]
        top, width = bottom + BETWEEN, max(width, right + PAD)
    below = _write(figure, note, max(40, int(width / 10.5)), color=GREY)
    of_note = below.get_window_extent().height + PAD
    width = max(width, below.get_window_extent().width + 4 * PAD)
    height = top + of_note if note else top - BETWEEN + PAD
    figure.set_size_inches(width / DPI, height / DPI)
    for text, left, down in [*words, _Placed(below, 2 * PAD, top - BETWEEN / 2)]:
        text.set_position((left / width, 1 - down / height))
    for right, down, below_head in rules:
        figure.add_artist(
            Line2D(
                [PAD / width, right / width],
                [1 - down / height] * 2,
                color=GREY if below_head else "#DDDDDD",
                linewidth=1.0 if below_head else 0.6,
            )
        )
    return figure


def _write(
    figure: Figure,
    words: str,
    width: int,
    color: str = "black",
    fontweight: str = "normal",
) -> Text:
    """Add words, wrapped at `width` characters; their place is still to be set."""
    words = words.replace("`", "").replace(" %", "\N{NO-BREAK SPACE}%")
    wrapped = textwrap.fill(
        words, width, break_long_words=False, break_on_hyphens=False
    )
    return figure.text(
        0, 0, wrapped, va="top", fontsize=8, color=color, fontweight=fontweight
    )


def _laid_out(
    figure: Figure, rows: Rows, top: float
) -> tuple[list[_Placed], list[_Rule]]:
    """The cells of one table that begins at `top`, and the rules below its rows."""
    columns = [*zip(*rows, strict=True)]
    # A head is no wider than what is below it.
    longest = [
        max(16, *(min(60, len(cell)) for cell in cells)) for _, *cells in columns
    ]
    numeric = [all(is_number(cell) for cell in cells if cell) for _, *cells in columns]
    texts = [
        [
            _write(figure, cell, size, fontweight="normal" if number else "bold")
            for cell, size in zip(row, longest, strict=True)
        ]
        for number, row in enumerate(rows)
    ]
    sizes = np.array([[text.get_window_extent().size for text in row] for row in texts])
    widths = sizes[..., 0].max(axis=0) + 2 * PAD
    heights = sizes[..., 1].max(axis=1) + PAD
    rights, bottoms = PAD + np.cumsum(widths), top + np.cumsum(heights)

    words = []
    for row, of_row, bottom, height in zip(
        texts, sizes[..., 0], bottoms, heights, strict=True
    ):
        lefts = np.where(numeric, rights - PAD - of_row, rights - widths + PAD)
        for text, left in zip(row, lefts, strict=True):
            words.append(_Placed(text, left, bottom - height + PAD / 2))
    rules = [_Rule(rights[-1], bottom, k == 0) for k, bottom in enumerate(bottoms)]
    return words, rules


# --- Answers --------------------------------------------------------------------------

PITCH = 13  # pixels from one character to the next
LINE = 30  # from one row to the next
LEFT = 30  # of the first column
FIRST = 115  # of the first row
HEADS = ("input", "right answer", "network's answer")

Row = tuple[str, str, str]  # question, right answer, the network's answer


def answers(
    rows: Mapping[str, Sequence[Row]],
    by_place: Mapping[str, np.ndarray],
    path: str | Path,
    title: str = "",
) -> Path:
    """Draw questions with the right answer and a network's, its mistakes marked, into
    the PNG file `path`; returns it.

    Args:
        rows: {heading: [(question, right answer, the network's answer)]}, the two
            answers being of equal length.
        by_place: {label: accuracies (T,)} at each place of the answers, drawn as bars
            beside them; NaN where there is no such place.
    """
    with style():
        return save(_draw_answers(rows, by_place, title), path)


class _Sheet:
    """A figure on which one writes at places in pixels, from the upper left corner;
    each character in a cell of its own.
    """

    def __init__(self, width: float, height: float):
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)

    def write(
        self, x: float, y: float, text: str, fontsize: float = 9, **look: Any
    ) -> None:
        """Words, their middle at the height y."""
        at = x / self.width, 1 - y / self.height
        self.figure.text(*at, text, va="center", fontsize=fontsize, **look)

    def spell(self, x: float, y: float, text: str, right: str) -> None:
        """Characters; those that differ from `right` are marked."""
        for k, (character, wanted) in enumerate(zip(text, right, strict=True)):
            left, wrong = x + PITCH * k, character != wanted
            if wrong:
                corner = left / self.width, 1 - (y + 12) / self.height
                size = PITCH / self.width, 24 / self.height
                cell = Rectangle(corner, *size, color=MARK, linewidth=0)
                self.figure.add_artist(cell)
            self.write(
                left + PITCH / 2,
                y,
                character,
                ha="center",
                family="monospace",
                color="white" if wrong else "black",
            )


def _draw_answers(
    rows: Mapping[str, Sequence[Row]],
    by_place: Mapping[str, np.ndarray],
    title: str = "",
) -> Figure:
    everything = [row for group in rows.values() for row in group]
    sizes = [
        max(len(head), *(len(row[k]) for row in everything))
        for k, head in enumerate(HEADS)
    ]
    # of the three columns, and of the bars
    *starts, bars = LEFT + np.cumsum([0, *(PITCH * size + 50 for size in sizes)])
    lines = len(everything) + 2 * len(rows)
    sheet = _Sheet(bars + 620, max(450, FIRST + LINE * lines))
    sheet.write(LEFT, 25, title)
    for x, head in zip(starts, HEADS, strict=True):
        sheet.write(x, 75, head, fontweight="bold")
    y = FIRST
    for heading, group in rows.items():
        sheet.write(LEFT, y, heading, fontsize=8, color=GREY)
        for question, right, answer in group:
            y += LINE
            for x, text, wanted in zip(
                starts,
                (question, right, answer),
                (question, right, right),
                strict=True,
            ):
                sheet.spell(x, y, text, wanted)
        y += 2 * LINE
    _draw_bars(sheet, bars, by_place)
    return sheet.figure


def _draw_bars(sheet: _Sheet, left: float, by_place: Mapping[str, np.ndarray]) -> None:
    """The accuracy at each place of the answers."""
    panel = sheet.figure.add_axes(
        (
            (left + 70) / sheet.width,
            75 / sheet.height,
            520 / sheet.width,
            1 - 190 / sheet.height,
        )
    )
    share = 0.8 / len(by_place)
    middle = (len(by_place) - 1) / 2
    for k, (label, values) in enumerate(by_place.items()):
        places = np.arange(len(values)) + 1
        colour = (COLOURS[0], "#BBBBBB")[k % 2]
        x = places + (k - middle) * share
        panel.bar(x, values, share, color=colour, label=label)
    panel.set_xticks(places)
    panel.set_title("accuracy at each place of the answer", fontsize=9)
    panel.set_ylim(0, 1.02)
    panel.yaxis.set_major_formatter(in_percent())
    panel.tick_params(labelsize=8)
    panel.legend(
        fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=len(by_place)
    )
