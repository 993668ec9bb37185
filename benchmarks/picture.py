"""The results of cpu.py as a picture: a training step in several libraries, and ours
beside the time that its matrix products alone would take.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import matplotlib.style
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator
from report import milliseconds, whole_percent

from tinyrmc.results.figures.style import COLOURS, DPI, GREY, STYLE

OURS, OTHERS, FLOOR = COLOURS[0], "#B8B8B8", COLOURS[1]
SWEPT = {
    "batch": "batch size, examples",
    "slots": "memory slots N",
    "width": "width of a slot, units",
    "steps": "time steps T",
}

SHORT = {"batch": "batch", "slots": "N =", "width": "width", "steps": "T ="}
THOUSANDS = FuncFormatter(lambda value, _: f"{value:,g}")


WIDTH, SWEEPS = 12, 3.2  # inches
ACROSS = 2  # panels of bars in a line: more would leave no room for the names
PANEL, BAR = 0.9, 0.3  # inches: of a panel without its bars, and for each of them


def draw(found: dict, path: Path) -> None:
    """Draw the rows and the sweeps of `found`, those it has, into the PNG file `path`.

    OSError where that cannot be written.
    """
    rows, sweeps = found["rows"], {}
    for name in SWEPT:
        if points := [row for row in found["sweeps"] if row["sweep"] == name]:
            sweeps[name] = points
    lines = [rows[k : k + ACROSS] for k in range(0, len(rows), ACROSS)]
    bars = [max(1 + len(row["peers"]) for row in line) for line in lines]
    of_lines = [PANEL + BAR * count for count in bars]
    heights = [0.3 + sum(of_lines)] * bool(rows) + [SWEEPS] * bool(sweeps)
    if not heights:
        return
    with matplotlib.style.context(STYLE, after_reset=True):
        figure = Figure(figsize=(WIDTH, sum(heights) + 0.6), layout="constrained")
        parts = figure.subfigures(
            len(heights), 1, height_ratios=heights, squeeze=False
        )[:, 0]
        if rows:
            _draw_libraries(parts[0], lines, of_lines)
        if sweeps:
            _draw_sweeps(parts[-1], sweeps)
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
    times = {"tinyrmc": row["ours_seconds"], **row["peers"]}
    cores = {"tinyrmc": row["cores"]["ours"], **row["cores"]}
    names = sorted(times, key=lambda name: times[name])
    bars = panel.barh(
        [f"{name} ({cores[name]})" for name in names],
        [1000 * times[name] for name in names],
        color=[OURS if name == "tinyrmc" else OTHERS for name in names],
    )
    labels = [milliseconds(times[name]) for name in names]
    panel.bar_label(bars, labels, padding=3, fontsize=9)
    longest = 1000 * times[names[-1]]
    panel.set(xlabel="ms", xlim=(0, 1.25 * longest), ylim=(len(names) - 0.4, -0.6))
    panel.set_title(f"{row['work']}: {row['size']}", fontsize=9, loc="left")
    panel.tick_params(axis="y", length=0)
    panel.locator_params(axis="x", nbins=4)
    panel.xaxis.set_major_formatter(THOUSANDS)


def _draw_sweeps(part, sweeps):
    part.suptitle(
        "One training step of tinyrmc, one size changed at a time, and its share of "
        "the speed of SGEMM",
        fontsize=11,
    )
    panels = part.subplots(1, len(sweeps), sharey=True, squeeze=False)[0]
    for panel, (name, rows) in zip(panels, sweeps.items(), strict=True):
        _draw_sweep(panel, name, rows)
    panels[0].set_ylabel("ms")
    lines = panels[0].get_legend_handles_labels()
    part.legend(*lines, loc="outside lower center", ncols=2)


def _draw_sweep(panel, name, rows):
    """Time over one size, and the floor below it."""
    x = [row[name] for row in rows]
    ours = [1000 * row["ours_seconds"] for row in rows]
    floor = [1000 * row["flops"] / row["sgemm"] for row in rows]
    panel.plot(x, ours, color=OURS, marker="o", markersize=4, label="tinyrmc")
    below = "floor: its matrix products at the speed of SGEMM"
    panel.plot(x, floor, color=FLOOR, dashes=(5, 2), label=below)
    small = {"fontsize": 8, "color": GREY, "textcoords": "offset points"}
    for at, value, row in zip(x, ours, rows, strict=True):
        share = whole_percent(row["sgemm_fraction"])
        panel.annotate(share, (at, value), (3, 5), ha="right", **small)
    panel.set(xscale="log", yscale="log", xlabel=SWEPT[name], xticks=x)
    panel.margins(x=0.2, y=0.12)
    panel.xaxis.set_minor_locator(NullLocator())
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(THOUSANDS)
    panel.tick_params(axis="x", labelsize=8)
    panel.grid(axis="y", color="#E6E6E6", linewidth=0.6)
    panel.set_axisbelow(True)
    held = [
        f"{SHORT[key]} {value}"
        for key, value in rows[0].items()
        if key in SWEPT and key != name
    ]
    panel.set_title(", ".join(held), fontsize=9, color=GREY)
