"""What all pictures share: colours, sizes, and how they are saved.

Only the modules of this package import matplotlib.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib.style
from matplotlib.figure import Figure

DPI = 150
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
CORES = dict(
    zip(
        ("rmc", "lstm", "dnc", "entnet", "entnet_bank", "rmc_paper"),
        COLOURS,
        strict=False,
    )
)  # the colour of each, everywhere
MARK = "#C00000"  # the red of the marked time step
GREY = "#555555"
PLATE = {
    "facecolor": "white",
    "alpha": 0.75,
    "linewidth": 0,
    "pad": 0.5,
}  # behind a label, so that lines do not cross it out
STYLE = {
    "font.size": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "legend.frameon": False,
    "text.parse_math": False,  # a $ or _ in a name is just that
}


def style():
    """matplotlib's own defaults and `STYLE`, until the end of a `with` block."""
    return matplotlib.style.context(STYLE, after_reset=True)


def colours(cores: Sequence[str | None]) -> list[str]:
    """A colour for each of some lines, which may be a core's: the first of a core has
    the core's own, others have what is left.
    """
    own = {core: CORES.get(core, COLOURS[0]) for core in cores}
    left = itertools.cycle(
        [colour for colour in reversed(COLOURS) if colour not in own.values()]
        or COLOURS
    )
    return [own.pop(core) if core in own else next(left) for core in cores]


def save(figure: Figure, path) -> Path:
    """Write a figure as a PNG file, always the same bytes; returns its path."""
    path = Path(path)
    figure.savefig(
        path, format="png", dpi=DPI, metadata={"Software": None}
    )  # matplotlib's version would change the bytes
    return path


def wrap(text: str, characters: float) -> str:
    """The text with no line longer than that."""
    return "\n".join(textwrap.fill(line, int(characters)) for line in text.splitlines())
