"""Exercises whose answer draws: picture(panel, ...) on a panel of matplotlib.

What is compared is what stands in the picture: for each curve, points or bars the
places and the heights, in the order of the places. The axes must have names, and where
there are several curves, each must have a label.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..compare import Wrong
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
    named_axes(panel)
    if len(found) > 1 and len({*dict(found)} - {""}) < len(found):
        raise Wrong("each of several curves has a label: panel.plot(..., label=...)")
    return dict(found) if len(found) > 1 else found[0][1]


def named_axes(panel: Any) -> None:
    """Wrong where an axis has no name."""
    for axis, name in ((panel.get_xlabel(), "xlabel"), (panel.get_ylabel(), "ylabel")):
        if not axis.strip():
            raise Wrong(f'an axis has no name: panel.set({name}="...")')


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
