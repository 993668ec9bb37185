"""The findings of a task about a trained network beyond the means of its metrics.

A task's `analyses` gives them by name; `python -m tinyrmc evaluate` prints them, and
`python -m tinyrmc plot analyses` draws them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Value = str | int | float | None


@dataclass(frozen=True)
class Table:
    """A metric taken apart, in rows: perplexity by how rare a word is.

    metric: what the fractions are, which says how to show them: "test_perplexity".
    columns: the heads. The first says what a row is about.
    rows: a cell for each column: words, whole numbers, values of `metric`; None where
        there is nothing.
    brief: instead of many rows, the table to print and draw; `--json` keeps the rows.

    ValueError for a row of another length.
    """

    metric: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    brief: Table | None = None

    def __post_init__(self):
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{len(self.columns)} columns have a row {row!r}")


class Curve(Table):
    """A Table of numbers, to be drawn: its other columns over the first one.

    A column whose name begins with "paper" is a published curve, drawn dashed.
    """


class HeatMap(Table):
    """A Table of numbers, to be drawn as shades: a column over the first one is a row
    of the picture, whose largest number is white.
    """
