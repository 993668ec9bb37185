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

from .. import panels
from ..compare import Wrong
from ..panels import check_names, new_panel
from .exercise import Function
from .used import Used, used

PARTS = "the row of places, along the axis below,", "the row of heights"


def drawn(**words: Any) -> Callable[[Function], Used]:
    """As `exercise`, for a solution picture(panel, ...). It returns nothing."""

    def enter(function: Function) -> Used:
        def run(answer: Function, *case: Any) -> Any:
            return picture_of(answer, *case)

        first, *others = inspect.signature(function).parameters.values()
        signature = inspect.Signature([first.replace(name="answer"), *others])
        vars(run)["__signature__"] = signature
        return used(run, parts=PARTS, **words)(function)

    return enter


def picture_of(answer: Function, *case: Any) -> Any:
    """(places, heights) of what an answer draws, or a dict of them by the labels."""
    panel = new_panel()
    answer(panel, *case)
    found = panels.drawn(panel)
    if not found:
        raise Wrong("there is nothing in the picture: panel.plot(places, heights)")
    check_names(panel)
    curves = {}
    for each in found:
        order = np.argsort(each.x, kind="stable")
        curves[each.label] = (each.x[order], each.y[order])
    if len(found) > 1 and ("" in curves or len(curves) < len(found)):
        raise Wrong("each of several curves has a label: panel.plot(..., label=...)")
    return curves if len(curves) > 1 else curves[found[0].label]
