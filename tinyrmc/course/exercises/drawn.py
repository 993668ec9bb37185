<<<<<<< HEAD
"""Exercises whose answer draws: picture(panel, ...) on a panel of matplotlib.

What is compared is what stands in the picture: for each curve, points or bars the
places and the heights, in the order of the places. The axes must have names, and where
there are several curves, each must have a label.
=======
"""The judges of pictures that a learner draws.

A learner's function draws into a `panel`, Matplotlib's Axes, that the check hands in.
Nobody looks at its colours. What counts is that it shows the numbers that were found,
that its axes are named, and that one can tell its lines apart.
>>>>>>> 24b2d16c (Chapters 3, 10 and 12: a learner's own tape, a method at a time, trains the learner's own core; the walk through a step is the learner's; experiments built whole)
"""

from __future__ import annotations

<<<<<<< HEAD
import inspect
from collections.abc import Callable
=======
from dataclasses import dataclass
>>>>>>> 24b2d16c (Chapters 3, 10 and 12: a learner's own tape, a method at a time, trains the learner's own core; the walk through a step is the learner's; experiments built whole)
from typing import Any

import numpy as np

from ..compare import Wrong
<<<<<<< HEAD
from .used import Used, used

Function = Callable[..., Any]


def drawn(**words: Any) -> Callable[[Function], Used]:
    """As `exercise`, for a solution picture(panel, ...). It returns nothing."""

    def enter(function: Function) -> Used:
        def run(answer: Function, *case: Any) -> Any:
            return picture_of(answer, *case)

        first, *others = inspect.signature(function).parameters.values()
        signature = inspect.Signature([first.replace(name="answer"), *others])
        vars(run)["__signature__"] = signature
        return used(run, **words)(function)

    return enter


def picture_of(answer: Function, *case: Any) -> Any:
    """What an answer draws: (places, heights), or a dict of them by the labels."""
    from matplotlib.figure import Figure

    panel = Figure().subplots()
    answer(panel, *case)
    found = curves(panel)
    if not found:
        raise Wrong("there is nothing in the picture: panel.plot(places, heights)")
    for axis, name in ((panel.get_xlabel(), "xlabel"), (panel.get_ylabel(), "ylabel")):
        if not axis.strip():
            raise Wrong(f'an axis has no name: panel.set({name}="...")')
    if len(found) > 1 and len({*dict(found)} - {""}) < len(found):
        raise Wrong("each of several curves has a label: panel.plot(..., label=...)")
    return dict(found) if len(found) > 1 else found[0][1]


def curves(panel: Any) -> list[tuple[str, tuple[np.ndarray, np.ndarray]]]:
    """(label, (places, heights)) of each curve, cloud of points, or group of bars."""
    found = [
        (line.get_label(), line.get_xydata())
        for line in panel.lines
        if line.get_transform() == panel.transData  # not a line across, as a mark
    ]
    found += [(each.get_label(), each.get_offsets()) for each in panel.collections]
    for bars in panel.containers:
        tops = [
            (bar.get_x() + bar.get_width() / 2, bar.get_height())
            for bar in getattr(bars, "patches", ())
        ]
        found += [(bars.get_label(), tops)] if tops else []
    named = []
    for label, points in found:
        x, y = np.asarray(points, float).reshape(-1, 2).T
        order = np.argsort(x, kind="stable")
        named.append(("" if label.startswith("_") else label, (x[order], y[order])))
    return named
=======


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
    """What is in a picture; horizontal and vertical lines are `levels`."""
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
        if each.joined and len(each.x) > 2 and (np.diff(each.x) < 0).any():
            raise Wrong(
                f"the line {each.label!r} runs to and fro: its points are joined in "
                "the order that they have in the list; sort them by x first"
            )


def find(panel: Any, x: Any, y: Any, what: str) -> Drawn:
    """What shows these points. `Wrong` where nothing does."""
    for each in drawn(panel):
        if each.shows(x, y):
            return each
        if each.shows(y, x):
            raise Wrong(f"{what}: x and y have changed places in the picture")
    raise Wrong(f"the picture does not show {what}")


def _label(artist: Any) -> str:
    label = str(artist.get_label())
    return "" if label.startswith("_") else label
>>>>>>> 24b2d16c (Chapters 3, 10 and 12: a learner's own tape, a method at a time, trains the learner's own core; the walk through a step is the learner's; experiments built whole)
