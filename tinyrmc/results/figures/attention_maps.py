"""The attention of a memory's slots, and what becomes of the answers when parts of the
memory are taken away.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .style import COLOURS, GREY, MARK, PALE, Look, in_percent, picture, wrap

FOOTNOTE = (
    "Rows: the slots that ask; columns: the slots and, right of the line, the input "
    "they listen to."
)
CAVEAT = "Attention shows where a slot looks, not what decided the answer."

Values = Mapping[str, float | None]
Test = Mapping[str, Mapping[str, Values]]  # what was done -> how -> metric -> accuracy

# --- Attention ------------------------------------------------------------------------


@picture
def attention(
    weights: np.ndarray,
    marked_steps: Sequence[int] | np.ndarray,
    titles: Sequence[str],
    mark: str = "reference",
    held: np.ndarray | None = None,
) -> Figure:
    """Attention weights in the layout of the paper's figure 3.

    Examples stand side by side. In each, a row is a head (the last one the mean, where
    there are several), a column a time step, and each small matrix shows how much every
    slot listens to every slot and, right of the line, to the input.

    Args:
        weights: (E, T, H, N, N + 1); each row sums to 1.
        marked_steps: (E,) the time step, from 0, that is framed in red in each example
            and called `mark`.
        titles: (E,) what each example is about, in words.
        held: (E, N) bool: the slots that took in the marked step, whose columns have a
            red edge from then on.
    """
    weights = np.asarray(weights)
    names = [f"head {h + 1}" for h in range(weights.shape[2])]
    if len(names) > 1:
        names.append("mean")
        mean = weights.mean(axis=2, keepdims=True)
        weights = np.concatenate([weights, mean], axis=2)
    examples, T, H, N, columns = weights.shape
    # inches of a cell; a strip as wide as a cell lies between matrices
    cell = min(0.2, max(0.03, min(3.6 / (T * (columns + 1)), 6 / (H * (N + 1)))))
    wide = max(2.6, T * (columns + 1) * cell)
    size = 1.9 + examples * (wide + 0.3), 1.9 + H * (N + 1) * cell
    figure = Figure(figsize=size, layout="compressed")
    (panels,) = figure.subplots(1, examples, squeeze=False)
    for k, panel in enumerate(panels):
        slots = () if held is None else np.flatnonzero(held[k])
        image = _draw_maps(panel, weights[k], int(marked_steps[k]), mark, slots)
        # above the steps; the layout leaves no room for a title there
        panel.xaxis.set_label_position("top")
        panel.set_xlabel(wrap(titles[k], 15 * wide), fontsize=8, loc="left")
        middles = np.arange(H) * (N + 1) + (N - 1) / 2
        panel.set_yticks(middles, names if k == 0 else [""] * H, fontsize=8)
    bar = figure.colorbar(image, ax=panels, ticks=[0, 0.5, 1], shrink=0.5, aspect=15)
    bar.set_label("attention", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    edges = "" if held is None else f"Red edges: the slots that took in the {mark}. "
    says = wrap(f"{FOOTNOTE} {edges}{CAVEAT}", 13 * size[0])
    figure.supxlabel(says, fontsize=8, color=GREY)
    return figure


def _draw_maps(
    panel: Axes,
    weights: np.ndarray,
    marked: int,
    mark: str,
    held: Sequence[int] | np.ndarray,
) -> Any:
    """All matrices of one example, weights (T, H, N, columns), as one image."""
    T, H, N, columns = weights.shape
    # The last row and column of each matrix are the strip after it.
    values = np.full((H, N + 1, T, columns + 1), np.nan)
    values[:, :N, :, :columns] = weights.transpose(1, 2, 0, 3)
    values = values.reshape(H * (N + 1), -1)[:-1, :-1]
    image = panel.imshow(values, "Blues", vmin=0, vmax=1, interpolation="nearest")
    lefts, tops = np.arange(T) * (columns + 1) - 0.5, np.arange(H) * (N + 1) - 0.5
    frame: Look = {"fill": False, "clip_on": False}
    for left, top in itertools.product(lefts, tops):
        grey: Look = {"edgecolor": GREY, "linewidth": 0.5}
        panel.add_patch(Rectangle((left, top), columns, N, **frame, **grey))
        input_at = [left + N] * 2
        panel.plot(input_at, [top, top + N], color="black", linewidth=0.9)
    red: Look = {"color": MARK, "linewidth": 2, "clip_on": False}
    for left, top, slot in itertools.product(lefts[marked:], tops, held):
        panel.plot([left + slot, left + slot + 1], [top] * 2, **red)
    corner = lefts[marked] - 0.5, tops[0] - 0.5
    whole = Rectangle(corner, columns + 1, H * (N + 1), edgecolor=MARK, **frame)
    panel.add_patch(whole).set_linewidth(1.6)
    labels = [f"t={t + 1}" for t in range(T)]
    labels[marked] = f"{mark}\n{labels[marked]}"
    panel.set_xticks(lefts + columns / 2, labels, fontsize=8)
    panel.xaxis.tick_top()
    panel.tick_params(length=0, pad=5)
    panel.get_xticklabels()[marked].set(color=MARK, fontweight="bold")
    panel.set(xlim=(-1, values.shape[1]), ylim=(values.shape[0], -1))
    panel.spines[:].set_visible(False)
    return image


# --- What comes of it -----------------------------------------------------------------


@picture
def accuracies(
    tests: Mapping[str, Test],
    intact: Values,
    references: Mapping[str, Mapping[str, float]],
) -> Figure:
    """The accuracies of causal tests.

    Args:
        tests: {test: {what was done: {how: {metric: accuracy}}}}: a column of panels
            for each test, a row of them for each metric; points for what was done, in
            two ways, below each other.
        intact: {metric: accuracy} when nothing was done, a line.
        references: {held-out set + "_" + metric: {label: value}}: floors, dashed lines.
    """
    most = max(map(len, tests.values()))
    size = 1 + 5 * len(tests), 1.2 + len(intact) * (0.6 + 0.28 * most)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(intact), len(tests), sharex=True, squeeze=False)
    hows = [how for table in tests.values() for how in next(iter(table.values()))]
    looks = dict(zip(hows, zip(COLOURS, "osD^v<", strict=False), strict=False))
    handles: Look = {}
    known = {name.partition("_")[2]: values for name, values in references.items()}
    for metric, across in zip(intact, panels, strict=True):
        for (test, table), panel in zip(tests.items(), across, strict=True):
            level = intact[metric]
            label = "nothing done"
            if level is not None:
                handles[label] = panel.axvline(level, color="black", linewidth=1.2)
            dashes = itertools.cycle([(5, 3), (1, 1.5), (5, 2, 1, 2)])
            for floor, value in known.get(metric, {}).items():
                look: Look = {"color": GREY, "linewidth": 1.1, "dashes": next(dashes)}
                handles[floor] = panel.axvline(value, zorder=1, **look)
            places = np.arange(len(table))
            both = next(iter(table.values()))
            for how, shift in zip(both, (-0.12, 0.12), strict=True):
                x = np.array([done[how][metric] for done in table.values()], float)
                colour, marker = looks[how]
                (handles[how],) = panel.plot(x, places + shift, marker, color=colour)
            panel.set_yticks(places, [*table], fontsize=8)
            panel.set(xlim=(0, 1.02), ylim=(len(table) - 0.5, -0.5))
            panel.set(xticks=np.arange(0, 1.01, 0.2))
            panel.grid(**PALE)
            panel.set_axisbelow(True)
            panel.xaxis.set_major_formatter(in_percent())
            panel.set_title(f"{metric.replace('_', ' ')} {test}", fontsize=10)
    ncols = min(4, len(handles))
    below: Look = {"loc": "outside lower center", "ncols": ncols, "fontsize": 8}
    figure.legend(handles.values(), handles, **below)
    return figure
