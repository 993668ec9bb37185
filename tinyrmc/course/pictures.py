"""Pictures for chapters: a matrix as a grid of cells, a recorded expression as a graph.

    with Tape() as tape:
        loss = ...
    course.draw_tape(loss, {"W": W})     before the walk back, which empties the tape

Boxes are operations, from the first on top to the loss at the bottom. Rounded boxes in
colour are what a gradient is asked for: parameters, and what `tape.watch` was given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..autograd.engine import Tensor

Key = tuple[str, int]  # ("entry", its number) or ("leaf", an id)
HIGH, LETTER, AROUND = 0.55, 0.072, 0.4  # inches: a row, a letter, a box's rim


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
    lines: list[tuple[Key, Key]] = field(default_factory=list)
    """each from an input to an operation further down"""


def draw_tape(loss: Tensor, names: Mapping[str, Tensor] | None = None) -> Any:
    """Draw the operations that `loss` was made with. Returns the picture's axes.

    loss: any Tensor that a tape has recorded and not yet walked back.
    names: of parameters and watched inputs, to stand in their boxes.
    ValueError if there is nothing to draw. Up to about forty operations it reads well.
    """
    import matplotlib.pyplot as plt
    from matplotlib.patches import FancyArrowPatch

    graph = tape_graph(loss, names or {})
    x, bottom = _places(graph), max(graph.rows.values())
    last = max(graph.labels, key=lambda key: (key[0] == "entry", key[1]))
    right = max(x[key] + _width(graph.labels[key]) / 2 for key in x)
    size = right, HIGH * (bottom + 1)
    _, panel = plt.subplots(figsize=size, layout="constrained")
    arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": "0.6", "zorder": 0}
    arrow |= {"shrinkA": 9, "shrinkB": 9, "mutation_scale": 9}
    times, drawn = Counter(graph.lines), Counter[tuple[Key, Key]]()
    for line in graph.lines:
        start, end = ((x[key], graph.rows[key]) for key in line)
        bend = 0.2 if end[1] > start[1] + 1 else 0.0  # past the boxes between
        bend += 0.5 * (drawn[line] - (times[line] - 1) / 2)  # one beside the other
        drawn[line] += 1
        bent = f"arc3,rad={bend}"
        panel.add_patch(FancyArrowPatch(start, end, connectionstyle=bent, **arrow))
    for key, label in graph.labels.items():
        leaf, colour = key[0] == "leaf", "C2" if key[1] > 0 else "C1"
        box: dict[str, Any] = {
            "boxstyle": "round,pad=0.3" if leaf else "square,pad=0.3",
            "facecolor": "white",
            "edgecolor": "C0" if key == last else colour if leaf else "0.45",
            "linewidth": 1.8 if key == last else 1.0,
        }
        look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 9}
        panel.text(x[key], graph.rows[key], label, bbox=box, **look)
    panel.set(xlim=(0, right), ylim=(bottom + 0.5, -0.5))
    panel.axis("off")
    return panel


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
    graph = Graph()
    for number in sorted(needed):
        operation, _, places, *_ = entries[number]
        key = ("entry", number)
        graph.labels[key], graph.rows[key] = operation.name, 1
        for id, shape, _ in filter(None, places):
            source = ("entry", made[id]) if id in made else ("leaf", id)
            graph.lines.append((source, key))
            if id in made:
                graph.rows[key] = max(graph.rows[key], 1 + graph.rows[source])
            else:
                name = called.get(id, "parameter" if id < 0 else "input")
                graph.labels[source] = f"{name} {tuple(shape)}" if shape else name
    for source, key in graph.lines:
        if source[0] == "leaf":  # in the row above its first use
            above = graph.rows[key] - 1
            graph.rows[source] = min(above, graph.rows.get(source, above))
    return graph


def _width(label: str) -> float:
    return AROUND + LETTER * len(label)


def _places(graph: Graph) -> dict[Key, float]:
    """How far to the right each box stands, in inches: below the operations that it
    takes from, so that chains stand upright, or beside the box before it.
    """
    x: dict[Key, float] = {}
    for row in range(1 + max(graph.rows.values())):
        wanted = {}
        for key in (key for key in graph.labels if graph.rows[key] == row):
            above = [source for source, to in graph.lines if to == key]
            above = [each for each in above if each[0] == "entry"] or above
            wanted[key] = (
                sum(x[each] for each in above) / len(above) if above else np.inf
            )
        left = 0.0
        for key in sorted(wanted, key=wanted.__getitem__):
            half = _width(graph.labels[key]) / 2
            x[key] = (
                left + half if wanted[key] == np.inf else max(wanted[key], left + half)
            )
            left = x[key] + half
    return x
