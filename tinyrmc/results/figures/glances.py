"""What the slots of a memory attend to, in one look: one example, the mean of the heads
and one head, every axis named.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .slots import CAVEAT
from .style import GREY, MARK, rows_of_grid, save, style, wrap


def glance(
    weights: np.ndarray,
    marked: int,
    arrivals: Sequence[str],
    title: str,
    path: str | Path,
    mark: str = "reference",
) -> Path:
    """Draw the attention in one example into the PNG file `path`; returns it.

    Args:
        weights: (T, H, N, N + 1) for T time steps, H heads, N slots that listen to N
            slots and to the input; each row sums to 1.
        marked: the time step, from 0, called `mark`.
        arrivals: T names of what the input is.
        title: what the example is about.
    """
    with style():
        return save(_draw(np.asarray(weights), marked, arrivals, title, mark), path)


def _draw(
    weights: np.ndarray, marked: int, arrivals: Sequence[str], title: str, mark: str
) -> Figure:
    T, H, _, columns = weights.shape
    to_input = weights[marked, :, :, -1].mean(axis=-1)  # (H,)
    rows = {f"mean of {H} heads": weights.mean(axis=1)}
    if H > 1:
        chosen = int(to_input.argmax())
        rows[f"head {chosen + 1} alone"] = weights[:, chosen]
    figure = Figure(
        figsize=(1.6 + 2.1 * T, 1.8 + 2.2 * len(rows)), layout="constrained"
    )
    panels = rows_of_grid(figure, len(rows), T)
    for k, (name, maps) in enumerate(rows.items()):
        for t, panel in enumerate(panels[k]):
            _draw_map(panel, maps[t], red=t == marked)
        panels[k][0].set_ylabel(f"{name}\nslot that asks", fontsize=9)
    for t, panel in enumerate(panels[0]):
        new = f"\nthe {mark}" if t == marked else "\n"
        says = f"step {t + 1}: {arrivals[t]} arrives{new}"
        panel.set_title(says, fontsize=9, color=MARK if t == marked else "black")
    for panel in panels[-1]:
        panel.set_xlabel("listens to slot, or input", fontsize=9)
    figure.suptitle(title, fontsize=11)
    alike = f"alike, it would be {100 / columns:.0f} %"
    look = (
        f"Look at the last columns, what has just arrived. When the {mark} comes, the "
        f"slots give it {100 * to_input.mean():.0f} % of their attention. If they "
        f"listened to all {columns} {alike}. {CAVEAT}"
    )
    wide = figure.get_size_inches()[0]
    figure.supxlabel(wrap(look, 12 * wide), fontsize=9, color=GREY)
    return figure


def _draw_map(panel: Axes, weights: np.ndarray, red: bool) -> None:
    """One matrix (N, N + 1) with its numbers, in percent."""
    N, columns = weights.shape
    panel.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), weight in np.ndenumerate(weights):
        colour = "white" if weight > 0.55 else "black"
        panel.text(
            column,
            row,
            f"{100 * weight:.0f}",
            ha="center",
            va="center",
            fontsize=8,
            color=colour,
        )
    panel.axvline(N - 0.5, color="black", linewidth=1.2)
    panel.set_yticks(range(N), [str(k + 1) for k in range(N)])
    panel.set_xticks(range(columns), [*(str(k + 1) for k in range(N)), "input"])
    panel.tick_params(length=0, labelsize=8)
    panel.spines[:].set(visible=True, color=MARK if red else GREY)
    panel.spines[:].set_linewidth(2 if red else 0.6)
