"""The results of cpu.py and between.py as the tables that a document shows."""

from __future__ import annotations


def milliseconds(seconds: float) -> str:
    """Three digits, no exponent."""
    value = 1000 * seconds
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")


def whole_percent(fraction: float | None) -> str:
    """None of these figures is better than that.

    Nothing for None, which was not counted.
    """
    return "" if fraction is None else f"{100 * fraction:.0f} %"


def cells(row: dict) -> list[str]:
    """A row's name, size and times, for people who wait."""
    times = {"ours": row["ours_seconds"], **row["peers"]}
    shown = [
        f"{name} {milliseconds(seconds)} ms ({row['cores'][name]})"
        for name, seconds in times.items()
    ]
    return [f"{row.get('work') or row['sweep']}: {row['size']}", *shown]


def markdown(found: dict) -> str:
    """The results as Markdown tables with an empty line between: one for each part that
    was measured.
    """
    tables = [of(found[part]) for part, of in PARTS.items() if found.get(part)]
    ruled = [[table[0], ["---"] * len(table[0]), *table[1:]] for table in tables]
    return "\n".join(
        "".join(f"| {' | '.join(row)} |\n" for row in table) for table in ruled
    )


def _libraries(rows):
    names = list(dict.fromkeys(name for row in rows for name in row["peers"]))

    def time(row, name, seconds):
        return f"{milliseconds(seconds)} ({row['cores'][name]})" if seconds else ""

    table = [
        [
            "one training step, ms (cores)",
            "tinyrmc",
            *names,
            "tinyrmc / fastest other",
            "tinyrmc, of SGEMM",
        ]
    ]
    for row in rows:
        others = [time(row, name, row["peers"].get(name)) for name in names]
        ratio = f"{row['ratio_to_fastest']:.2f}" if row["peers"] else ""
        ours = time(row, "ours", row["ours_seconds"])
        table.append(
            [
                f"{row['work']}: {row['size']}",
                ours,
                *others,
                ratio,
                whole_percent(row["sgemm_fraction"]),
            ]
        )
    return table


def _sweeps(rows):
    table = [
        [
            "one training step, one size changed at a time",
            "tinyrmc, ms",
            "its products at SGEMM's speed, ms",
            "tinyrmc, of SGEMM",
        ]
    ]
    for row in rows:
        floor = milliseconds(row["flops"] / row["sgemm"])
        table.append(
            [
                f"{row['sweep']}: {row['size']}",
                milliseconds(row["ours_seconds"]),
                floor,
                whole_percent(row["sgemm_fraction"]),
            ]
        )
    return table


def _sharing(rows):
    times = {
        (row["kind"], row["workers"]): milliseconds(row["seconds"]) for row in rows
    }
    kinds, counts = (list(dict.fromkeys(found)) for found in zip(*times, strict=True))
    table = [["one training step of `small` by so many workers, ms", *kinds]]
    return table + [
        [str(count), *(times.get((kind, count), "") for kind in kinds)]
        for count in counts
    ]


def _engine(costs):
    growth = (
        "not known here"
        if costs["growth_mib"] is None
        else f"{costs['growth_mib']:.1f} MiB"
    )
    return [
        ["the engine", "measured"],
        [
            "recording and differentiating an operation, beyond NumPy's own time",
            f"{costs['overhead_microseconds']:.1f} µs",
        ],
        [
            "peak memory of backward / of forward, 100 time steps",
            f"{costs['backward_to_forward_peak']:.2f}",
        ],
        [f"growth of resident memory over {costs['growth_steps']:,} steps", growth],
    ]


def _ranks(rows):
    table = [
        [
            "MPI ranks, one core and equal work each",
            "one training step, ms",
            "efficiency",
        ]
    ]
    return table + [
        [
            str(row["ranks"]),
            milliseconds(row["seconds_per_step"]),
            whole_percent(row["efficiency"]),
        ]
        for row in rows
    ]


def _between(rows):
    table = [["rows of the table in `memory.py`", "rung", "held-out accuracy"]]
    return table + [
        [row["name"], str(row["rung"]), f"{100 * row['test_accuracy']:.1f} %"]
        for row in rows
    ]


PARTS = {
    "between": _between,
    "rows": _libraries,
    "sweeps": _sweeps,
    "sharing": _sharing,
    "engine": _engine,
    "ranks": _ranks,
}
