"""Pictures of what tasks have found out: curves and heat maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from ...errors import in_words
from .learning_curves import draw_legend, label_log, label_values
from .style import GREY, looks, picture, wrap

if TYPE_CHECKING:  # it would bring all of training, which a chapter waits for
    from ...training.telling import Table


@picture
def examined(
    found: Mapping[str, Table],
    title: str = "",
    cores: Sequence[str | None] | None = None,
    common: str = "",
) -> Figure:
    """The same Curve of some networks.

    Args:
        found: {network: Curve}. Each column is a line over the first. A published
            column, which begins with "paper", is drawn once and dashed.
        cores: the core of each network, for its colour.
        common: what the networks have in common, a line below the title.
    """
    figure = Figure(figsize=(6.4, 4 + 0.2 * len(found)), layout="constrained")
    panel = figure.subplots()
    each = looks(cores or [None] * len(found))
    published: dict[str, tuple] = {}
    for (network, curve), look in zip(found.items(), each, strict=True):
        x, *lines = np.array(curve.rows, float).T  # None becomes NaN
        own = [head for head in curve.columns[1:] if not head.startswith("paper")]
        for head, y in zip(curve.columns[1:], lines, strict=True):
            if head not in own:
                published[head] = x, y
                continue
            label = network if len(own) == 1 else f"{network}: {head}"
            panel.plot(x, y, marker="o", linewidth=1.6, ms=4, label=label, **look)
    for head, line in published.items():
        panel.plot(*line, color=GREY, linewidth=1.2, dashes=(5, 3), label=head)
    panel.set(xlabel=curve.columns[0], ylabel=in_words(curve.metric))
    figure.suptitle(title)
    panel.set_title(wrap(common, 80), fontsize=9, color=GREY)
    if 0 < 20 * x.min() < x.max():
        panel.set_xscale("log")
        label_log(panel.xaxis)
    label_values(panel, curve.metric)
    draw_legend(figure, panel, ncols=1, characters=70)
    return figure


@picture
def heat_maps(found: Mapping[str, Table], title: str = "", common: str = "") -> Figure:
    """The same HeatMap of some networks. Each network has a panel, each column a row in
    it, whose largest number is white. `common` is as in `examined`.
    """
    heights = [1 + 0.3 * len(table.columns) for table in found.values()]
    figure = Figure(figsize=(7.2, sum(heights) + 0.6), layout="constrained")
    panels = figure.subplots(len(found), squeeze=False, height_ratios=heights)[:, 0]
    for panel, (network, table) in zip(panels, found.items(), strict=True):
        x, *rows = np.array(table.rows, float).T
        shades = np.stack(rows)
        shades = shades / np.maximum(shades.max(axis=1, keepdims=True), 1e-30)
        half = (x[1] - x[0]) / 2 if len(x) > 1 else 0.5
        across, down = (x[-1] + half, x[0] - half), (len(rows) + 0.5, 0.5)
        image = panel.imshow(
            shades[:, ::-1], "gray", aspect="auto", extent=(*across, *down),
            interpolation="nearest", vmin=0, vmax=1,
        )  # fmt: skip
        panel.set_yticks(range(1, len(rows) + 1), table.columns[1:])
        panel.set(xlabel=table.columns[0])
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.set_title(network, fontsize=10)
    label = f"{in_words(table.metric)}, as a part of the row's largest"
    figure.colorbar(image, ax=[*panels], label=wrap(label, 13 * sum(heights)))
    figure.suptitle("\n".join(filter(None, [title, wrap(common, 80)])), fontsize=10)
    return figure
