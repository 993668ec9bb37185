"""The results of cpu.py as a picture: a training step in several libraries."""

from __future__ import annotations

import itertools
from pathlib import Path

import matplotlib.style
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from report import FAST, milliseconds, times_of

from tinyrmc.results.figures.style import COLOURS, DPI, STYLE

OURS, OTHERS = COLOURS[0], "#B8B8B8"
THOUSANDS = FuncFormatter(lambda value, _: f"{value:,g}")


WIDTH = 12  # inches
ACROSS = 2  # panels of bars in a line: more would leave no room for the names
PANEL, BAR = 0.9, 0.3  # inches: of a panel without its bars, and for each of them


def draw(found: dict, path: Path) -> None:
    """Draw the rows of `found`, if it has any, into the PNG file `path`.

    OSError where that cannot be written.
    """
    rows = found["rows"]
    if not rows:
        return
    lines = [rows[k : k + ACROSS] for k in range(0, len(rows), ACROSS)]
    bars = [max(len(times_of(row)) for row in line) for line in lines]
    heights = [PANEL + BAR * count for count in bars]
    with matplotlib.style.context(STYLE, after_reset=True):
        size = (WIDTH, sum(heights) + 0.9)
        figure = Figure(figsize=size, layout="constrained")
        _draw_libraries(figure, lines, heights)
        numpy = f"NumPy {found['versions']['numpy']} with {found['blas']}"
        machine = f"{found['processor']}, {found['cores']} cores, {numpy}"
        figure.supxlabel(machine, fontsize=8)
        figure.savefig(path, format="png", dpi=DPI, metadata={"Software": None})


def _draw_libraries(part, lines, heights):
    part.suptitle(
        "One training step, each library at its best number of cores (in brackets); "
        "shorter is faster",
        fontsize=11,
    )
    shape, ratios = (len(lines), len(lines[0])), {"height_ratios": heights}
    panels = part.subplots(*shape, squeeze=False, gridspec_kw=ratios)
    rows = [row for line in lines for row in line]
    for panel, row in itertools.zip_longest(panels.flat, rows):
        if row is None:
            panel.remove()
        else:
            _draw_bars(panel, row)


def _draw_bars(panel, row):
    """The libraries at one size, the fastest on top."""
    times, cores = times_of(row), row["cores"]
    names = sorted(times, key=lambda name: times[name])
    bars = panel.barh(
        [f"{name.replace('ours', 'tinyrmc')} ({cores[name]})" for name in names],
        [1000 * times[name] for name in names],
        color=[OURS if name in ("ours", FAST) else OTHERS for name in names],
    )
    labels = [milliseconds(times[name]) for name in names]
    panel.bar_label(bars, labels, padding=3, fontsize=9)
    longest = 1000 * times[names[-1]]
    panel.set(xlabel="ms", xlim=(0, 1.25 * longest), ylim=(len(names) - 0.4, -0.6))
    panel.set_title(f"{row['work']}: {row['size']}", fontsize=9, loc="left")
    panel.tick_params(axis="y", length=0)
    panel.locator_params(axis="x", nbins=4)
    panel.xaxis.set_major_formatter(THOUSANDS)
