"""Matrices as grids of cells, to be drawn side by side in one panel."""

from __future__ import annotations

from typing import Any

import numpy as np


def draw_matrix(
    panel: Any,
    x: float,
    y: float,
    matrix: np.ndarray,
    name: str = "",
    shares: bool = False,
) -> tuple[float, float, float, float]:
    """Draw a matrix with cells of size 1 around (x, y), and its name above.

    Green is above 0 and purple below; `shares`, from 0 to 1, are grey with their
    percents. y counts downwards: set the panel's limits so, and its aspect "equal".
    Returns where the matrix ends, (left, right, top, bottom).
    """
    rows, columns = matrix.shape
    left, top = x - columns / 2, y - rows / 2
    most = 1.4 if shares else abs(matrix).max()
    panel.pcolormesh(
        left + np.arange(columns + 1),
        top + np.arange(rows + 1),
        matrix,
        cmap="Greys" if shares else "PRGn",
        vmin=0 if shares else -most,
        vmax=most,
        edgecolors="0.5",
        linewidth=0.6,
    )
    if shares:
        for (i, j), share in np.ndenumerate(matrix):
            place = left + j + 0.5, top + i + 0.5
            look = {"ha": "center", "va": "center", "fontsize": 7}
            panel.text(*place, f"{100 * share:.0f}", **look)
    panel.text(x, top - 0.35, name, ha="center", va="bottom")
    return left, left + columns, top, top + rows
