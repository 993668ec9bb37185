"""Pictures for chapters: a matrix as a grid of cells, a recorded expression as a graph.

    with Tape() as tape:
        loss = ...
    course.draw_tape(loss, {"W": W})     before the walk back, which empties the tape

Boxes are operations, from the first on top to the loss at the bottom. Rounded boxes in
colour are what a gradient is asked for: parameters, and what `tape.watch` was given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..autograd.engine import Tensor

Key = tuple[str, int]  # ("entry", its number), ("leaf", an id), ("bend", any)
SWEEPS = 24  # back and forth, after which places hardly change
HIGH = 0.55  # inches from row to row
LETTER, AROUND, BEND = 0.072, 0.4, 0.3  # inches across: a letter, a box's rim, a line


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


# --- A tape ---------------------------------------------------------------------------


@dataclass
class Graph:
    """Boxes in rows, and the lines between them."""

    labels: dict[Key, str] = field(default_factory=dict)
    rows: dict[Key, int] = field(default_factory=dict)
    lines: list[tuple[Key, ...]] = field(default_factory=list)
    """each from an input to an operation, with a bend in every row between them"""

    def width(self, key: Key) -> float:
        """The width in inches of a box, or of a line that passes."""
        return BEND if key[0] == "bend" else AROUND + LETTER * len(self.labels[key])


def draw_tape(loss: Tensor, names: Mapping[str, Tensor] | None = None) -> Any:
    """Draw the operations that `loss` was made with. Returns the picture's axes.

    loss: any Tensor that a tape has recorded and not yet walked back.
    names: of parameters and watched inputs, to stand in their boxes.
    ValueError if there is nothing to draw. Up to about forty operations it reads well.
    """
    graph = tape_graph(loss, names or {})
    last = max(graph.labels, key=lambda key: (key[0] == "entry", key[1]))
    return _draw(graph, _places(graph), last)


def tape_graph(loss: Tensor, names: Mapping[str, Tensor]) -> Graph:
    """The graph of the entries that lead to `loss`, and of their inputs."""
    entries: list = getattr(loss.tape, "entries", [])
    made = {place[0]: number for number, e in enumerate(entries) for place in e[3]}
    if loss.id not in made:
        raise ValueError(
            "draw_tape takes what a tape has recorded, before backward or gradient: "
            "the walk back empties the tape"
        )
    needed, todo = set(), [made[loss.id]]
    while todo:
        needed.add(number := todo.pop())
        before = [made.get(place[0]) for place in entries[number][2] if place]
        todo += [each for each in before if each is not None and each not in needed]

    called = {tensor.id: name for name, tensor in names.items()}
    graph, uses = Graph(), []
    for number in sorted(needed):
        operation, _, places, *_ = entries[number]
        key = ("entry", number)
        graph.labels[key], graph.rows[key] = operation.name, 1
        for id, shape, _ in filter(None, places):
            source = ("entry", made[id]) if id in made else ("leaf", id)
            uses.append((source, key))
            if id in made:
                graph.rows[key] = max(graph.rows[key], 1 + graph.rows[source])
            else:
                name = called.get(id, "parameter" if id < 0 else "input")
                graph.labels[source] = f"{name} {tuple(shape)}" if shape else name
    for source, key in uses:
        if source[0] == "leaf":  # in the row above its first use
            above = graph.rows[key] - 1
            graph.rows[source] = min(above, graph.rows.get(source, above))
    for source, key in uses:  # a line has a place of its own in every row it passes
        passed = []
        for row in range(graph.rows[source] + 1, graph.rows[key]):
            passed.append(("bend", len(graph.rows)))
            graph.rows[passed[-1]] = row
        graph.lines.append((source, *passed, key))
    return graph


def _places(graph: Graph) -> dict[Key, float]:
    """How far to the right each box and bend stands, in inches.

    Rows are put in the order of their neighbours' middles, up and down in turn, and
    then each moves as near to its neighbours as the others in its row let it.
    """
    above: dict[Key, list[Key]] = {key: [] for key in graph.rows}
    below: dict[Key, list[Key]] = {key: [] for key in graph.rows}
    for line in graph.lines:
        for first, second in pairwise(line):
            below[first].append(second)
            above[second].append(first)
    layers: list[list[Key]] = [[] for _ in range(1 + max(graph.rows.values()))]
    for key, row in graph.rows.items():
        layers[row].append(key)
    x = {key: float(k) for layer in layers for k, key in enumerate(layer)}
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        neighbours = above if down else below
        for layer in layers if down else layers[::-1]:
            wanted = {}
            for key in layer:  # the middle of its neighbours; a leaf counts only where
                near = neighbours[key]  # there is nothing else, so that chains stand
                near = [each for each in near if each[0] != "leaf"] or near  # upright
                wanted[key] = sum(x[k] for k in near) / len(near) if near else x[key]
            layer.sort(key=wanted.__getitem__)
            x.update(_apart(layer, wanted, graph.width))
    least = min(x[key] - graph.width(key) / 2 for key in x)
    return {key: value - least for key, value in x.items()}


def _apart(
    layer: list[Key], wanted: dict[Key, float], width: Callable[[Key], float]
) -> dict[Key, float]:
    """Places as near to those `wanted` as can be with room for each: groups that would
    overlap stand side by side around their common middle, in which leaves weigh little.
    """
    groups: list[tuple[list[Key], float]] = []  # and the left end of each
    for key in layer:
        members, left = [key], wanted[key] - width(key) / 2
        while groups and groups[-1][1] + sum(map(width, groups[-1][0])) > left:
            members = groups.pop()[0] + members
            weights = [0.05 if each[0] == "leaf" else 1.0 for each in members]
            trio = zip(weights, members, _offsets(members, width), strict=True)
            left = sum(w * (wanted[each] - offset) for w, each, offset in trio)
            left /= sum(weights)
        groups.append((members, left))
    return {
        key: left + offset
        for members, left in groups
        for key, offset in zip(members, _offsets(members, width), strict=True)
    }


def _offsets(keys: list[Key], width: Callable[[Key], float]) -> list[float]:
    """The distance from the left end of a group to the middle of each."""
    ends = accumulate(map(width, keys))
    return [end - width(key) / 2 for end, key in zip(ends, keys, strict=True)]


def _draw(graph: Graph, x: dict[Key, float], last: Key) -> Any:
    import matplotlib.pyplot as plt

    bottom = max(graph.rows.values())
    right = max(x[key] + graph.width(key) / 2 for key in x)
    size = right, HIGH * (bottom + 1)
    _, panel = plt.subplots(figsize=size, layout="constrained")
    times, drawn = Counter(graph.lines), Counter[tuple[Key, ...]]()
    for line in graph.lines:
        aside = 0.4 * (drawn[line] - (times[line] - 1) / 2)  # one use beside the other
        drawn[line] += 1
        _line(panel, [(x[key], graph.rows[key]) for key in line], aside)
    for key, label in graph.labels.items():
        colour = {"leaf": "C1" if key[1] < 0 else "C2", "entry": "0.45"}[key[0]]
        panel.text(
            x[key],
            graph.rows[key],
            label,
            ha="center",
            va="center",
            fontsize=9,
            bbox={
                "boxstyle": "round,pad=0.3" if key[0] == "leaf" else "square,pad=0.3",
                "facecolor": "white",
                "edgecolor": "C0" if key == last else colour,
                "linewidth": 1.8 if key == last else 1.0,
            },
        )
    panel.set(xlim=(0, right), ylim=(bottom + 0.5, -0.5))
    panel.axis("off")
    return panel


def _line(panel: Any, points: list[tuple[float, float]], aside: float) -> None:
    """A curve through the points, upright where it leaves a row and where it comes."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    places, codes = [points[0]], [Path.MOVETO]
    for (x0, y0), (x1, y1) in pairwise(points):
        half = (y0 + y1) / 2
        places += [(x0 + aside, half), (x1 + aside, half), (x1, y1)]
        codes += [Path.CURVE4] * 3
    places[-1] = (places[-1][0], places[-1][1] - 0.22)  # the arrow ends at the box
    panel.add_patch(
        FancyArrowPatch(
            path=Path(places, codes),
            arrowstyle="-|>",
            mutation_scale=9,
            color="0.6",
            linewidth=0.9,
            zorder=0,
        )
    )
