"""Shared by all pictures: colours, sizes, and how they are saved."""

from __future__ import annotations

import functools
import io
import itertools
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import matplotlib.style
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from ...backend.files import replace
from ...cores.registry import cores as registered

Look = dict[str, Any]  # settings of lines and words, as matplotlib calls them
DPI = 150
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#8C8C8C", "#7F4F24", "#000000", "#882255", "#44AA99"),
    "#999933",
)
STROKES = "solid", "dashed", "dashdot"  # dotted means that not all runs count
MARK = "#C00000"  # the red of the marked time step
GREY = "#555555"
PALE: Look = {"color": "#E6E6E6", "linewidth": 0.6}  # lines of a grid

STYLE = {
    "font.size": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "legend.frameon": False,
    "text.parse_math": False,  # a $ or _ in a name is just that
    "pdf.fonttype": 42,  # TrueType, as journals ask for
    "svg.hashsalt": "tinyrmc",  # which names things, in the place of a random number
}
# kinds of files -> what matplotlib would write into them, which changes from run to run
FORMATS: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    ".svg": {"Date": None, "Creator": None},
}
FONT = "DejaVu Sans"  # matplotlib's own, which comes with it
# fonts with letters that it lacks, on Linux, Windows and macOS
OTHERS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC"),
    *("WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback"),
    *("Microsoft YaHei", "SimHei", "Yu Gothic", "MS Gothic", "Malgun Gothic"),
    *("PingFang SC", "PingFang HK", "Hiragino Sans", "Apple SD Gothic Neo"),
    *("Noto Sans CJK KR", "NanumGothic", "Noto Sans Thai", "Leelawadee UI", "Thonburi"),
    *("Noto Sans Devanagari", "Nirmala UI", "Noto Sans Bengali", "Noto Sans Tamil"),
    *("Arial Unicode MS", "Noto Sans Symbols2", "Segoe UI Symbol", "Segoe UI Emoji"),
)
Drawn = ParamSpec("Drawn")


def style() -> AbstractContextManager[None]:
    """matplotlib's own defaults and `STYLE`, until the end of a `with` block. Letters
    that `FONT` lacks, such as Chinese ones, come from other fonts of this machine.
    """
    here = {font.name for font in font_manager.fontManager.ttflist}
    families = [FONT, *filter(here.__contains__, OTHERS)]
    return matplotlib.style.context(STYLE | {"font.family": families}, after_reset=True)


def picture(
    draw: Callable[Drawn, Figure],
) -> Callable[Concatenate[str | Path, Drawn], Path]:
    """A function that draws a figure becomes one that takes a path first, of a PNG, PDF
    or SVG file, writes the figure there, always the same bytes, and returns the path.

    OSError where the file cannot be written. You are told of letters that no font has.
    """

    @functools.wraps(draw)
    def to_file(path: str | Path, *args: Drawn.args, **named: Drawn.kwargs) -> Path:
        with style(), warnings.catch_warnings(record=True) as heard:
            warnings.filterwarnings("always", "Glyph .* missing")
            figure = draw(*args, **named)
            kind, drawn = Path(path).suffix.lower(), io.BytesIO()
            kind = kind if kind in FORMATS else ".png"
            figure.savefig(drawn, format=kind[1:], dpi=DPI, metadata=FORMATS[kind])
        replace(Path(path), drawn.getvalue())
        letters = set()
        for each in heard:
            if lacks := re.match(r"Glyph (\d+) .* missing", str(each.message)):
                letters.add(chr(int(lacks[1])))
            else:
                warnings.warn_explicit(
                    each.message, each.category, each.filename, each.lineno
                )
        if letters:
            _tell_of("".join(sorted(letters)[:8]))
        return Path(path)

    return to_file


@functools.cache
def _tell_of(letters: str) -> None:
    print(
        f"note: no font here has {letters}, which pictures show as boxes; install one, "
        f"such as {OTHERS[0]}",
        file=sys.stderr,
    )


def looks(cores: Sequence[str | None]) -> list[Look]:
    """A look for each line, and no look twice: the first line of a core has the core's
    own colour, if it was registered with one, the others have what is left: first other
    colours, then other strokes.
    """
    colours = {name: entry.colour for name, entry in registered().items()}
    own: dict[str | None, str] = {}
    for core in cores:
        colour = colours.get(core or "") if core else COLOURS[0]
        if colour is not None and colour not in own.values():
            own.setdefault(core, colour)
    every = itertools.product(STROKES, reversed(COLOURS))
    taken = [("solid", colour) for colour in own.values()]
    left = itertools.cycle(look for look in every if look not in taken)
    given = [("solid", own.pop(c)) if c in own else next(left) for c in cores]
    return [{"color": colour, "linestyle": stroke} for stroke, colour in given]


def in_percent() -> PercentFormatter:
    """The numbers of an axis of fractions: 20 %."""
    return PercentFormatter(1, decimals=0, symbol=" %")


def wrap(text: str, characters: float) -> str:
    """The text with no line longer than `characters`, broken between words."""
    return "\n".join(
        textwrap.fill(line, int(characters), break_on_hyphens=False)
        for line in text.splitlines()
    )
