"""The judges of pictures that a learner draws.

A learner's function draws into a `panel`, Matplotlib's Axes, that the check hands in.
Nobody looks at its colours. What counts is that it shows the numbers that were found,
that its axes are named, and that one can tell its lines apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .compare import Wrong


@dataclass(frozen=True)
class Drawn:
    """A line, some dots or some bars of a picture."""

    x: np.ndarray
    y: np.ndarray
    label: str
    joined: bool
    """whether lines lead from point to point"""

    def shows(self, x: Any, y: Any) -> bool:
        """Whether these points are in it, in any order."""
        x, y = (np.ravel(np.asarray(each, float)) for each in (x, y))
        if self.x.shape != x.shape:
            return False
        mine, theirs = np.lexsort((self.y, self.x)), np.lexsort((y, x))
        return np.allclose(self.x[mine], x[theirs]) and np.allclose(
            self.y[mine], y[theirs]
        )


def new_panel() -> Any:
    """An empty picture, which nothing displays."""
    from matplotlib.figure import Figure

    return Figure().add_subplot()


def drawn(panel: Any) -> list[Drawn]:
    """The curves, points and bars of a picture; lines across it are `levels`."""
    from matplotlib.collections import PathCollection
    from matplotlib.container import BarContainer

    found = []
    for line in panel.get_lines():
        if line.get_transform() == panel.transData:
            x, y = (np.asarray(each, float) for each in line.get_data(orig=False))
            joined = str(line.get_linestyle()) not in ("None", "", " ")
            found.append(Drawn(x, y, _label(line), joined))
    for dots in panel.collections:
        if isinstance(dots, PathCollection):
            x, y = np.ma.getdata(dots.get_offsets()).T
            found.append(Drawn(x, y, _label(dots), False))
    for bars in panel.containers:
        if isinstance(bars, BarContainer):
            x, y = np.transpose(
                [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in bars]
            )
            found.append(Drawn(x, y, _label(bars), False))
    return found


def levels(panel: Any) -> list[float]:
    """The heights of the horizontal lines in a picture, however they are drawn."""
    from matplotlib.collections import LineCollection

    lines = [np.ravel(line.get_ydata()).astype(float) for line in panel.get_lines()]
    for each in panel.collections:
        if isinstance(each, LineCollection):
            lines += [segment[:, 1] for segment in each.get_segments()]
    return [y[0] for y in lines if len(y) > 1 and np.ptp(y) == 0]


def check_names(panel: Any) -> None:
    """`Wrong` where a picture's axes have no names, or two lines the same or none."""
    for axis, name in (("x", panel.get_xlabel()), ("y", panel.get_ylabel())):
        if not name.strip():
            raise Wrong(f"the {axis} axis has no name: panel.set({axis}label=...)")
    labels = [each.label for each in drawn(panel) if each.joined]
    if len(labels) > 1 and (not all(labels) or len({*labels}) < len(labels)):
        raise Wrong("each line needs a `label` of its own, or nobody can tell them")


def check_order(panel: Any) -> None:
    """`Wrong` where a line runs to and fro."""
    for each in drawn(panel):
        steps = np.diff(each.x)
        if each.joined and (steps < 0).any() and (steps > 0).any():
            raise Wrong(
                f"the line {each.label!r} runs to and fro: its points are joined in "
                "the order that they have in the list; sort them by x first"
            )


def find(panel: Any, x: Any, y: Any, what: str) -> Drawn:
    """The curve or the dots that show these points. `Wrong` where nothing does."""
    for each in drawn(panel):
        if each.shows(x, y):
            return each
        if each.shows(y, x):
            raise Wrong(f"{what}: x and y have changed places in the picture")
    raise Wrong(f"the picture does not show {what}")


def _label(artist: Any) -> str:
    label = str(artist.get_label())
    return "" if label.startswith("_") else label
