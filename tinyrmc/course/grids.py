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
DASHED = 'stroke-width="2.5" stroke-dasharray="4 3"'
COLOURS = "#0072B2", "#D55E00"  # of numbers from 0 on, and below


class Grids:
    """The arguments of a case and what is `asked for`, with names, side by side.

    Beside them `yours`, if it can be drawn: cells that are `wrong`, that is, not what
    is asked for, have a dashed frame there.
    """

    def __init__(self, case: int, arrays: dict[str, Any], yours: Any):
        self.case, self.wrong = case, np.ones((1, 1), bool)
        self.grids = [(name, as_grid(name, each)) for name, each in arrays.items()]
        try:
            mine, right = as_grid("yours", yours), self.grids[-1][1]
        except (TypeError, ValueError):
            return
        self.grids.append(("yours", mine))
        self.wrong = np.ones(mine.shape, bool)
        alike = np.shape(yours) == np.shape(arrays["asked for"])
        if alike and (right.dtype != bool or mine.dtype == bool):
            self.wrong = ~np.isclose(mine * 1.0, right * 1.0, rtol=1e-9, atol=1e-9)

    def _repr_html_(self) -> str:
        left, pieces = 0.0, []
        for name, grid in self.grids:
            drawn, width = self._one(name, grid, left)
            pieces += drawn
            left += width + GAP
        height = TOP + CELL * max(len(grid) for _, grid in self.grids) + 2
        says = html.escape(repr(self).replace("\n", "; "), quote=True)
        return (
            f"case {self.case}<br>"
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{says}" '
            f'width="{left:.0f}" height="{height}" font-size="12" '
            f'style="color: inherit; max-width: 100%">{"".join(pieces)}</svg>'
        )

    def _one(self, name: str, grid: np.ndarray, left: float) -> tuple[list[str], float]:
        """A grid's cells and its width."""
        largest = max(float(np.nanmax(abs(grid), initial=0.0)), 1e-30)
        wrong = self.wrong if name == "yours" else np.zeros(grid.shape, bool)
        pieces = [f'<text x="{left}" y="15" fill="currentColor">{name}</text>']
        for (row, column), number in np.ndenumerate(grid):
            x, y = left + CELL * column, TOP + CELL * row
            strength = 0.65 * min(abs(float(np.nan_to_num(number))) / largest, 1.0)
            frame = DASHED * int(wrong[row, column])
            pieces.append(
                f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{CELL - 2}" '
                f'fill="{COLOURS[int(number < 0)]}" fill-opacity="{strength:.2f}" '
                f'stroke="currentColor" stroke-opacity="0.6" {frame}/>'
            )
            if grid.dtype != bool:
                pieces.append(
                    f'<text x="{x + CELL / 2}" y="{y + CELL / 2 + 4}" '
                    f'text-anchor="middle" fill="currentColor">{number:.2g}</text>'
                )
        return pieces, max(CELL * grid.shape[1], 8 * len(name))

    def __repr__(self) -> str:
        text = f"case {self.case}"
        for name, grid in self.grids:
            head = f"{name}: "
            text += f"\n{head}"
            text += np.array2string(grid, precision=3, separator=", ", prefix=head)
        return text


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
