"""A puzzle as grids of cells: what goes in, what is asked for, and what came out.

In a notebook it is an SVG in the page's own colours, light or dark, without a library;
in a console the same in letters.
"""

from __future__ import annotations

import html
from typing import Any

import numpy as np

CELL, GAP, TOP = 34, 26, 24  # pixels: of a cell, between grids, above them
MOST = 12  # cells along an axis
COLUMNS = ("labels", "lengths", "order")  # one number for each row
COLOURS = {"asked for": "#D55E00", "yours": "#CC79A7"}


class Grids:
    """Arrays with names, side by side. Cells of `yours` that are not what is asked for
    have a dashed frame.
    """

    def __init__(self, arrays: dict[str, Any]):
        self.grids = [(name, as_grid(name, each)) for name, each in arrays.items()]
        self.known = dict(self.grids)

    def _repr_html_(self) -> str:
        left, pieces = 0.0, []
        for name, grid in self.grids:
            drawn, width = self._one(name, grid, left)
            pieces += drawn
            left += width + GAP
        height = TOP + CELL * max(len(grid) for _, grid in self.grids) + 2
        says = html.escape(repr(self).replace("\n", "; "), quote=True)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{says}" '
            f'width="{left:.0f}" height="{height}" font-size="12" '
            f'style="color: inherit; max-width: 100%">{"".join(pieces)}</svg>'
        )

    def _one(self, name: str, grid: np.ndarray, left: float) -> tuple[list[str], float]:
        """A grid's cells and its width."""
        largest = max(float(np.nanmax(abs(grid), initial=0.0)), 1e-30)
        wrong = self._wrong() if name == "yours" else np.zeros(grid.shape, bool)
        pieces = [f'<text x="{left}" y="15" fill="currentColor">{name}</text>']
        for (row, column), number in np.ndenumerate(grid):
            x, y = left + CELL * column, TOP + CELL * row
            strength = 0.65 * min(abs(float(np.nan_to_num(number))) / largest, 1.0)
            frame = (
                'stroke-width="2.5" stroke-dasharray="4 3"'
                if wrong[row, column]
                else ""
            )
            pieces.append(
                f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{CELL - 2}" '
                f'fill="{COLOURS.get(name, "#0072B2")}" fill-opacity="{strength:.2f}" '
                f'stroke="currentColor" stroke-opacity="0.6" {frame}/>'
            )
            if grid.dtype != bool:
                pieces.append(
                    f'<text x="{x + CELL / 2}" y="{y + CELL / 2 + 4}" '
                    f'text-anchor="middle" fill="currentColor">{number:.2g}</text>'
                )
        return pieces, max(CELL * grid.shape[1], 8 * len(name))

    def _wrong(self) -> np.ndarray:
        """Which of your cells are not what is asked for."""
        yours, right = self.known["yours"], self.known["asked for"]
        if yours.shape != right.shape:
            return np.ones(yours.shape, bool)
        return ~np.isclose(yours.astype(float), right.astype(float))

    def __repr__(self) -> str:
        return "\n".join(
            f"{name}: {np.array2string(grid, precision=3, separator=', ')}".replace(
                "\n", "\n" + " " * (len(name) + 2)
            )
            for name, grid in self.grids
        )


def as_grid(name: str, value: Any) -> np.ndarray:
    """Rows and columns; of three axes the first units. ValueError for anything else."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.ndim > 3:
        raise ValueError(f"{name} is no grid of numbers")
    grid = array[:, None] if array.ndim == 1 and name in COLUMNS else array
    grid = np.atleast_2d(grid[..., 0] if grid.ndim == 3 else grid)
    if not 0 < max(grid.shape) <= MOST:
        raise ValueError(f"{name} has too many cells to draw")
    return grid
