"""A level of BoxWorld as the paper's figure 9 shows it: the board, what the player sees
of it, and the tree of its keys and locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...environments.box_levels import COLOUR, GEM, Box
from ...environments.box_world import BoxWorld
from .style import GREY, MARK, save, style

_WIDTH, _DROP = 2.6, 1.5  # from box to box along a branch, and down to the next one


def draw_level(world: BoxWorld, number: int, path: str | Path) -> Path:
    """Draw one level of a world, as it begins, into the PNG file `path`; returns it."""
    state = world.start_levels(np.array([number]))
    boxes = world.levels.boxes(number)
    places = tree(boxes)
    depth = 1 + max(row for _, row in places)
    with style():
        figure = Figure(figsize=(10, 5.2 + 0.45 * depth), layout="constrained")
        heights = [5.2, 0.8 + 0.45 * depth]
        grid = figure.add_gridspec(2, 2, height_ratios=heights, width_ratios=[1.4, 1])
        _draw_board(figure.add_subplot(grid[0, 0]), world, state)
        _draw_view(figure.add_subplot(grid[0, 1]), world, state)
        below, palette = figure.add_subplot(grid[1, :]), world.constants["palette"]
        _draw_tree(below, boxes, places, palette / 255)
        # as the level begins: the second line is about the key held, and there is none
        legend = world.legend.splitlines()[0]
        figure.supxlabel(legend, fontsize=9, color=GREY)
        return save(figure, path)


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


def _draw_board(axes: Axes, world: BoxWorld, state) -> None:
    axes.imshow(world.rgb(state, whole=True)[0])
    row, column = world.observe(state)["position"][0].astype(int)
    size, reach = world.viewport, world.viewport // 2
    corner = column - reach - 0.5, row - reach - 0.5
    frame = Rectangle(corner, size, size, fill=False, color=MARK, linewidth=2)
    frame.set_clip_on(False)
    axes.add_patch(frame)
    _finish(axes, f"the board, {world.grid} x {world.grid}")


def _draw_view(axes: Axes, world: BoxWorld, state) -> None:
    axes.imshow(world.rgb(state)[0][1:])  # without the row for the key
    for spine in axes.spines.values():
        spine.set(visible=True, color=MARK, linewidth=2)
    _finish(axes, "what the player sees")


def _finish(axes: Axes, title: str) -> None:
    axes.set_title(title)
    axes.set(xticks=[], yticks=[])


def _draw_tree(axes: Axes, boxes, places, palette) -> None:
    """Each item as two squares, its lock and what is inside, and a line from every key
    to the locks it opens. The x axis points to the left, so that what is inside lies
    left of its lock, as on the board.
    """
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
    last = _WIDTH * max(x for x, _ in places) + 2
    axes.set(
        xlim=(last + 0.1, 0.9), ylim=(_DROP * max(y for _, y in places) + 1.1, -0.1)
    )
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(
        "from right to left: keys, and the locks (dotted) they open; the solution "
        "above, distractors below"
    )
