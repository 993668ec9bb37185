"""A level of BoxWorld as the paper's figure 9 shows it: the board, what the player sees
of it, and the tree of its keys and locks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...environments.box_levels import COLOUR, GEM, Box
from ...environments.box_world import BoxWorld
from .style import GREY, MARK, Look, picture

_WIDTH, _DROP = 2.6, 1.5  # from box to box along a branch, and down to the next one


@picture
def draw_level(world: BoxWorld, number: int) -> Figure:
    """One level of a world, as it begins."""
    state = world.start_levels(np.array([number]))
    boxes = world.levels.boxes(number)
    depth = 1 + max(row for _, row in tree(boxes))
    heights = [5.2, 0.8 + 0.45 * depth]
    figure = Figure(figsize=(10, sum(heights) - 0.8), layout="constrained")
    panels = figure.subplot_mosaic(
        [["board", "view"], ["tree", "tree"]],
        height_ratios=heights,
        width_ratios=[1.4, 1],
    )
    board, view = panels["board"], panels["view"]
    board.imshow(world.rgb(state, whole=True)[0])
    board.set_title(f"the board, {world.grid} x {world.grid}")
    row, column = world.observe(state)["position"][0].astype(int)
    size, reach = world.viewport, world.viewport // 2
    corner = column - reach - 0.5, row - reach - 0.5
    red: Look = {"fill": False, "color": MARK, "linewidth": 2, "clip_on": False}
    board.add_patch(Rectangle(corner, size, size, **red))
    view.imshow(world.rgb(state)[0][1:])  # without the row for the key
    view.set_title("what the player sees")
    view.spines[:].set(visible=True, color=MARK, linewidth=2)
    for panel in (board, view):
        panel.set(xticks=[], yticks=[])
    _draw_tree(panels["tree"], boxes, world.constants["palette"] / 255)
    # as the level begins: the second line is about the key held, and there is none
    figure.supxlabel(world.legend.splitlines()[0], fontsize=9, color=GREY)
    return figure


def tree(boxes: Sequence[Box]) -> list[tuple[int, int]]:
    """(steps from the loose key, row) of each item; row 0 is the solution.

    A distractor has a row of its own below. What branches off last comes first, so that
    no line to a branch crosses another one.
    """
    steps: list[int] = []
    for box in boxes:
        steps.append(steps[box.after] + 1 if box.after >= 0 else 0)
    roots = [k for k, box in enumerate(boxes) if box.trap and not boxes[box.after].trap]
    roots.sort(key=lambda k: -steps[k])
    rows: list[int] = []
    for k, box in enumerate(boxes):
        own = 1 + roots.index(k) if k in roots else 0
        rows.append(own or (rows[box.after] if box.trap else 0))
    return list(zip(steps, rows, strict=True))


def _draw_tree(axes: Axes, boxes: Sequence[Box], palette: np.ndarray) -> None:
    """Each item as two squares, its lock and what is inside, and a line from every key
    to the locks it opens. The x axis points to the left, so that what is inside lies
    left of its lock, as on the board.
    """
    places = tree(boxes)
    for box, (x, y) in zip(boxes, places, strict=True):
        left, top = _WIDTH * x, _DROP * y
        if box.lock:
            lock = Rectangle((left, top), 1, 1, color=palette[COLOUR + box.lock])
            axes.add_patch(lock)
            axes.plot(left + 0.5, top + 0.5, "o", color="black", markersize=3)
        key = palette[COLOUR + box.content] if box.content else palette[GEM]
        edge = key if box.content else GREY
        axes.add_patch(Rectangle((left + 1, top), 1, 1, facecolor=key, edgecolor=edge))
        if box.after >= 0:
            before, above = places[box.after]
            start = _WIDTH * before + 2, _DROP * above + 0.5
            if y != above:  # down first, then along
                start = start[0] - 0.5, start[1] + 0.5
            line = [start, (start[0], top + 0.5), (left, top + 0.5)]
            axes.plot(*zip(*line, strict=True), color=GREY, zorder=0)
    last, lowest = (max(place) for place in zip(*places, strict=True))
    ends = (_WIDTH * last + 2.1, 0.9), (_DROP * lowest + 1.1, -0.1)
    axes.set(xlim=ends[0], ylim=ends[1], aspect="equal")
    axes.set_axis_off()
    axes.set_title(
        "from right to left: keys, and the locks (dotted) they open; the solution "
        "above, distractors below"
    )
