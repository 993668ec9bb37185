"""The results of the benchmarks as tables for a document."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tinyrmc
from tinyrmc.cli.commands import Parser
from tinyrmc.training.machine import environment

FAST = "ours, compiled"  # with the extra `fast`


def load() -> float | None:
    """The load average of the last minute; None where the system has none."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def versions(modules: Iterable[str]) -> dict[str, str]:
    """The versions of those that are installed."""
    found = {}
    for module in dict.fromkeys(modules):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[module] = importlib.metadata.version(module)
    return found


def command(
    name: str,
    about: str,
    works: Sequence[str],
    rounds: int,
    measure: Callable[[int, Sequence[str]], list[dict]],
    words: Sequence[str] | None,
) -> int:
    """Run `python benchmarks/NAME.py` with --works (all of them, unless told), --rounds
    and --out: measure(rounds, works) and show it. The exit code.
    """
    parser = Parser(f"python benchmarks/{name}.py", about)
    only = f"only these: {', '.join(works)}"
    parser.add_argument(
        "--works", help=only, default=works, choices=works, nargs="+", metavar="NAME"
    )
    turns = f"rounds in which candidates take turns (default: {rounds})"
    parser.add_argument(
        "--rounds", help=turns, default=rounds, type=at_least_one, metavar="N"
    )
    also = "also write the results there"
    parser.add_argument("--out", help=also, type=json_file, metavar="FILE.json")
    options = parser.parse_args(words)
    here = environment(tinyrmc.__version__)
    kept = "date", "git_commit", "processor", "cores", "numpy", "blas"
    found: dict[str, Any] = {"benchmark": name} | {key: here[key] for key in kept}
    found |= {"load_before": load(), "versions": versions(["torch"])}
    found[name] = measure(options.rounds, options.works)
    publish(found, options.out)
    return 0


def json_file(word: str) -> Path:
    """A file that results can be written to, for argparse."""
    path = Path(word)
    if path.suffix != ".json" or not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(
            f"{word} must be a .json file in a folder that exists and can be written to"
        )
    return path


def at_least_one(word: str) -> int:
    """A number of rounds or steps, for argparse."""
    if (number := int(word)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {word}")
    return number


def milliseconds(seconds: float) -> str:
    """Three digits, no exponent."""
    value = 1000 * seconds
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")


def whole_percent(fraction: float | None) -> str:
    """These figures are exact to no more than that. '' for None: it was not counted."""
    return "" if fraction is None else f"{100 * fraction:.0f} %"


def cells(row: dict) -> list[str]:
    """A row's name, size and times, for people who wait."""
    shown = [
        f"{name} {milliseconds(seconds)} ms ({row['cores'][name]})"
        for name, seconds in times_of(row).items()
    ]
    return [f"{row['work']}: {row['size']}", *shown]


def times_of(row: dict) -> dict[str, float]:
    """Seconds by name: ours, with the extra `fast` too if that was there, and peers."""
    fast = row.get("compiled_seconds")
    return {
        "ours": row["ours_seconds"],
        **({FAST: fast} if fast else {}),
        **row["peers"],
    }


def markdown(found: dict) -> str:
    """The results as Markdown tables with an empty line between: one for each part that
    was measured, then `tables`, what a script that is gone had made of its part.
    """
    tables = [of(found[part]) for part, of in PARTS.items() if found.get(part)]
    lines_of = (
        [head, ["---"] * len(head), *rows]
        for head, *rows in tables + found.get("tables", [])
    )
    return "\n".join(
        "".join(f"| {' | '.join(line)} |\n" for line in lines) for lines in lines_of
    )


def publish(found: dict[str, Any], out: Path | None) -> None:
    """Print the tables of what was found; write it to the JSON file `out`, if any."""
    text = json.dumps(found, indent=1)
    print(markdown(json.loads(text)), end="")  # as from the file
    if out is not None:
        out.write_text(text + "\n", encoding="utf-8")


# --- A table for each part: its head, then its rows -----------------------------------


def _libraries(rows):
    names = list(dict.fromkeys(name for row in rows for name in times_of(row)))
    ours = ["tinyrmc / fastest other", "tinyrmc, of SGEMM"]
    heads = [name.replace("ours", "tinyrmc") for name in names]
    table = [["one training step, ms (cores)", *heads, *ours]]
    for row in rows:
        times = times_of(row)
        ratios = row["ratio_to_fastest"], row.get("compiled_to_fastest")
        ratio = ", compiled ".join(f"{each:.2f}" for each in ratios if each)
        shown = [
            f"{milliseconds(times[name])} ({row['cores'][name]})"
            if times.get(name)
            else ""
            for name in names
        ]
        share = whole_percent(row["sgemm_fraction"])
        table.append([f"{row['work']}: {row['size']}", *shown, ratio, share])
    return table


def _engine(costs):
    growth, steps = costs["growth_mib"], costs["growth_steps"]
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
        [
            f"growth of resident memory over {steps:,} steps",
            "not known here" if growth is None else f"{growth:.1f} MiB",
        ],
    ]


def _language(rows):
    names = list(dict.fromkeys(x["name"] for row in rows for x in row["candidates"]))
    head = ["a training step of a language model, words a second (cores)", *names]
    head += ["tinyrmc's speed / PyTorch's", "share of the step in products"]
    table = [[*head, "products of few rows, of many, SGEMM: GFLOP/s"]]
    for row in rows:
        speeds = {(x["name"], x["cores"]): x for x in row["candidates"]}
        products = row["products"]
        for cores, ratio in row["ratios"].items():
            found = [speeds.get((name, int(cores))) for name in names]
            shown = [f"{x['tokens_per_second']:,.0f}" if x else "" for x in found]
            shown.append("" if ratio is None else f"{ratio:.2f}")
            of_one_core = ["", ""]
            if cores == "1":
                rates = (products[x] / 1e9 for x in ("few_rows", "many_rows", "sgemm"))
                of_one_core = [
                    whole_percent(products["share_of_step"]),
                    ", ".join(f"{rate:.0f}" for rate in rates),
                ]
            table.append([f"{row['work']} ({cores})", *shown, *of_one_core])
    return table


def _after(rows):
    ways = dict.fromkeys((x["steps"], x["every"]) for x in rows[0]["lengths"])
    heads = [
        f"T = {steps:,}" + (f", every {every}th kept" if every else "")
        for steps, every in ways
    ]
    head = ["a training step: ms (PyTorch's), and MiB", "parameters"]
    head += [*heads, "growth of time"]
    table = [head]
    for row in rows:
        shown = []
        for x in row["lengths"]:
            theirs, size = x.get("torch_seconds"), x["bytes"] / 2**20
            beside = f" ({milliseconds(theirs)})" if theirs else ""
            size = f"{size:.3g}" if size < 100 else f"{size:,.0f}"
            shown.append(f"{milliseconds(x['seconds'])}{beside}, {size}")
        kept = [x for x in row["lengths"] if not x["every"]]
        first, last = kept[0], kept[-1]
        growth = last["seconds"] / first["seconds"]
        longer = last["steps"] / first["steps"]
        shown.append(f"{growth:.0f} times for {longer:.0f} times the steps")
        table.append([row["size"], f"{row['parameters']:,}", *shown])
    return table


def _why(rows):
    head = ["run", "solved", "wrong box (goal known)", "out of steps (goal known)"]
    head += ["a right step, goal in sight (by chance)", "out of sight (by chance)"]
    table = [head]
    for row in rows:
        ends, steps = row["ends"], row["steps"]
        told = [[ends["solved"]["share"]]]
        told += [[*ends[x].values()] for x in ("wrong box", "out of steps")]
        told += [[*x.values()] for x in steps.values()]
        texts = [[f"{100 * x:.1f} %" for x in each] for each in told]
        shown = [f"{one} ({''.join(more)})" if more else one for one, *more in texts]
        table.append([row["run"], *shown])
    return table


def _curves(found):
    steps = 1200, 2400, 4400
    shown = [
        [f"{100 * curve[str(x)]:.1f} %" if str(x) in curve else "" for x in steps]
        for curve in found.values()
    ]
    head = ["solved after so many updates", *(f"{x:,}" for x in steps)]
    return [head, *([name, *row] for name, row in zip(found, shown, strict=True))]


def _players(rows):
    told = [name for name, x in rows[0].items() if isinstance(x, list)]
    head = ["a script that knows the ghosts", "and the food", "looks ahead"]
    table = [[*head, "games", *told]]
    for row in rows:
        ahead = f"{row['ahead']} steps" if row["ahead"] else "no", f"{row['games']:,}"
        shown = [f"{value:.1f} ± {error:.1f}" for value, error in map(row.get, told)]
        table.append([row["ghosts"], row["food"], *ahead, *shown])
    return table


def _release(found):
    """How far the authors' release and ours are apart."""
    cores, script, examples = (found[k] for k in ("cores", "script", "examples"))
    output = cores["largest difference of an output"]
    loss = abs(script["their loss"] - script["our loss"])
    apart = f"{loss:.1e}" if loss else "equal"
    slope = "largest relative difference of a gradient"
    number, same = cores["configurations"], examples["identical"]
    return [
        ["what is compared", "largest difference"],
        [f"{number} configurations of the core, float64: outputs", f"{output:.1e}"],
        ["the same: gradients, relative", f"{cores[slope]:.1e}"],
        ["network and loss of the script, float32: the loss", apart],
        ["the same: gradients, relative", f"{script[slope]:.1e}"],
        [
            f"{examples['examples']:,} examples of nth farthest from equal draws",
            f"{same:,} are identical",
        ],
    ]


PARTS = {
    "release": _release,
    "rows": _libraries,
    "engine": _engine,
    "language": _language,
    "after": _after,
    "why": _why,
    "curves": _curves,
    "players": _players,
}
