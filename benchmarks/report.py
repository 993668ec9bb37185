"""The results of the benchmarks as tables for a document."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tinyrmc
from tinyrmc.cli.commands import Parser
from tinyrmc.runs.machine import environment


def heading(benchmark: str, *libraries: str) -> dict[str, Any]:
    """What a file of results begins with: its name, when and where it was measured, and
    the versions of the libraries it is compared with.
    """
    here = environment(tinyrmc.__version__)
    kept = "date", "git_commit", "processor", "cores", "numpy", "blas"
    found = {"benchmark": benchmark, **{name: here[name] for name in kept}}
    found["load_before"] = load()
    if libraries:
        found["versions"] = versions(libraries)
    return found


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


def parser(script: str, about: str) -> Parser:
    """A command line with --out, which is checked before anything is measured."""
    found = Parser(f"python benchmarks/{script}.py", about)
    also = "also write the results there"
    found.add_argument("--out", type=json_file, metavar="FILE.json", help=also)
    return found


def in_turns(script: str, about: str, works: Sequence[str], rounds: int) -> Parser:
    """The same, with --works (all of them, unless told) and --rounds."""
    found = parser(script, about)

    def flag(name, text, **keywords):
        found.add_argument(name, help=text, **keywords)

    only, names = f"only these: {', '.join(works)}", {"nargs": "+", "metavar": "NAME"}
    flag("--works", only, default=works, choices=works, **names)
    turns = f"rounds in which candidates take turns (default: {rounds})"
    flag("--rounds", turns, default=rounds, type=at_least_one, metavar="N")
    return found


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
    tables = []
    for part, table_of in PARTS.items():
        if found.get(part):
            head, *rows = table_of(found[part])
            lines = [head, ["---"] * len(head), *rows]
            tables.append("".join(f"| {' | '.join(line)} |\n" for line in lines))
    return "\n".join(tables)


def publish(found: dict[str, Any], out: Path | None) -> None:
    """Print the tables of what was found; write it to the JSON file `out`, if any."""
    text = json.dumps(found, indent=1)
    print(markdown(json.loads(text)), end="")  # as from the file
    if out is not None:
        out.write_text(text + "\n", encoding="utf-8")


# --- A table for each part: its head, then its rows -----------------------------------


def _libraries(rows):
    names = list(dict.fromkeys(name for row in rows for name in row["peers"]))
    ours = ["tinyrmc / fastest other", "tinyrmc, of SGEMM"]
    table = [["one training step, ms (cores)", "tinyrmc", *names, *ours]]
    for row in rows:
        times = {"ours": row["ours_seconds"], **row["peers"]}
        ratio = f"{row['ratio_to_fastest']:.2f}" if row["peers"] else ""
        shown = [
            f"{milliseconds(times[name])} ({row['cores'][name]})"
            if times.get(name)
            else ""
            for name in ("ours", *names)
        ]
        share = whole_percent(row["sgemm_fraction"])
        table.append([f"{row['work']}: {row['size']}", *shown, ratio, share])
    return table


def _sweeps(rows):
    head = [
        "one training step, one size changed at a time",
        "tinyrmc, ms",
        "its products at SGEMM's speed, ms",
        "tinyrmc, of SGEMM",
    ]
    return [head] + [
        [
            f"{row['sweep']}: {row['size']}",
            milliseconds(row["ours_seconds"]),
            milliseconds(row["flops"] / row["sgemm"]),
            whole_percent(row["sgemm_fraction"]),
        ]
        for row in rows
    ]


def _sharing(rows):
    times = {
        (row["kind"], row["workers"]): milliseconds(row["seconds"]) for row in rows
    }
    kinds = list(dict.fromkeys(kind for kind, _ in times))
    counts = list(dict.fromkeys(count for _, count in times))
    table = [["one training step of `small` by so many workers, ms", *kinds]]
    for count in counts:
        table.append([str(count), *(times.get((kind, count), "") for kind in kinds)])
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


def _ranks(rows):
    head = ["MPI ranks, one core and equal work each"]
    head += ["one training step, ms", "efficiency"]
    return [head] + [
        [
            str(row["ranks"]),
            milliseconds(row["seconds_per_step"]),
            whole_percent(row["efficiency"]),
        ]
        for row in rows
    ]


def _between(rows):
    head = ["rows of the table in `cores/relational.py`", "rung", "held-out accuracy"]
    return [head] + [
        [row["name"], str(row["rung"]), f"{100 * row['test_accuracy']:.1f} %"]
        for row in rows
    ]


def _inside(rows):
    """A row for each form: means of its seeds, before training and after it."""
    names = {
        "score_size": "how far apart scores are",
        "entropy": "entropy of attention",
    }
    names["early_gradient"] = "gradient to the first step / to the last"
    head = [
        "pairs: before training, after",
        "seeds",
        "held-out accuracy",
        *names.values(),
    ]
    table = [head]
    for form in dict.fromkeys(row["form"] for row in rows):
        seeds = [row for row in rows if row["form"] == form]
        accuracy = statistics.fmean(row["test_accuracy"] for row in seeds)
        shown = [form, str(len(seeds)), f"{100 * accuracy:.1f} %"]
        for name in names:
            ends = [
                statistics.fmean(row["points"][at][name] for row in seeds)
                for at in (0, -1)
            ]
            shown.append(", ".join(f"{value:.2f}" for value in ends))
        table.append(shown)
    return table


def _language(rows):
    names = list(dict.fromkeys(x["name"] for row in rows for x in row["candidates"]))
    head = ["a training step of a language model, words a second (cores)", *names]
    head += ["tinyrmc's speed / PyTorch's", "its products, of the step"]
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


def _agents(rows):
    head = ["an agent learns BoxWorld on one core", "", "trained steps a second"]
    head += ["an update, ms", "worlds", "acting", "learning"]
    table = [[*head, "tinyrmc's time / PyTorch's"]]
    for row in rows:
        for x in row["candidates"]:
            parts = (x[part] / x["step"] for part in ("worlds", "acting", "learning"))
            speed, ratio = f"{x['steps_per_second']:,.0f}", row["ratio"]
            ours = x is row["candidates"][0] and ratio is not None
            shown = [speed, milliseconds(x["step"]), *map(whole_percent, parts)]
            shown.append(f"{ratio:.2f}" if ours else "")
            table.append([row["work"], x["name"], *shown])
    return table


def _worlds(rows):
    counts = list(rows[0]["levels"])
    head = ["steps a second of one core, millions"]
    table = [[*head, *(f"{int(count):,} levels" for count in counts)]]
    for row in rows:
        speeds = (f"{row['levels'][count] / 1e6:.2f}" for count in counts)
        table.append([row["world"], *speeds])
    return table


def _levels(rows):
    head = ["levels of BoxWorld that one core makes a second", "thousands"]
    return [head] + [[row["levels"], f"{row['per_second'] / 1e3:.0f}"] for row in rows]


def _stories(rows):
    head = ["120 epochs of bAbI on one core", "seconds"]
    named = [f"{x['tasks']} tasks, restarts: {x['restarts']}" for x in rows]
    speeds = [f"{x['seconds']:.0f}" for x in rows]
    return [head, *map(list, zip(named, speeds, strict=True))]


def _corpora(found):
    tokens = found["first"]["tokens"]  # those held out among them
    head = [f"a text of {tokens:,} tokens, {found['words']:,} words"]
    table = [[*head, "seconds", "tokens a second", "peak memory, GiB"]]
    for name, what in ("first", "becomes integers"), ("later", "is there already"):
        x = found[name]
        rate = f"{x['tokens'] / x['seconds']:,.0f}" if name == "first" else ""
        memory = f"{x['peak_bytes'] / 2**30:.2f}"
        table.append([what, f"{x['seconds']:.2f}", rate, memory])
    return table


def _vocabulary(found):
    size = f"{found['words']:,} words x {found['width']}, {found['rows']:,} tokens"
    head = [f"softmax over {size}", "peak memory / parameters and gradients"]
    table = [[*head, "time / plain products", "seconds"]]
    for kind, x in found["kinds"].items():
        shown = f"{x['memory']:.2f}", f"{x['time']:.2f}", f"{x['seconds']:.1f}"
        table.append([kind, *shown])
    return table


def _paper_size(found):
    head = ["language model of the paper", "steps", "tokens a second"]
    head += ["a step, s", "peak memory, GiB", "an epoch of WikiText-103, hours"]
    return [
        head,
        [
            f"{found['core']}, {found['parameters']:,} parameters",
            str(len(found["seconds"])),
            f"{found['tokens_per_second']:,.0f}",
            f"{found['seconds_per_step']:.1f}",
            f"{found['peak_memory'] / 2**30:.1f}",
            f"{found['hours_per_epoch']:,.0f}",
        ],
    ]


def _faults(groups):
    """A row for each group of faults, and one for all; their counts."""
    names = [*next(iter(groups.values()))]
    total = {name: sum(counts[name] for counts in groups.values()) for name in names}
    rows = {**groups, "all": total}
    shown = [
        [name, *(str(counts[key]) for key in names)] for name, counts in rows.items()
    ]
    return [["faults", *names], *shown]


def _guards(found):
    """What the checks of a step cost."""
    low, high = (f"{100 * (end - 1):.2f}" for end in found["interval"])
    head = ["steps", "with checks, ms", "without, ms", "they cost", "95 % interval"]
    times = f"{found['with_ms']:.2f}", f"{found['without_ms']:.2f}"
    cost = f"{100 * (found['ratio'] - 1):.2f} %"
    return [head, [str(found["steps"]), *times, cost, f"{low} to {high} %"]]


def _falls(branches):
    """From each start at each rate, the worst ten updates of all random numbers."""
    head = [
        "from update",
        "learning rate",
        "lowest share of levels solved in any ten updates",
    ]
    head += ["largest change of the policy, KL", "parameters moved"]
    rows = []
    for start, rate in dict.fromkeys((x["start"], x["rate"]) for x in branches):
        same = [x for x in branches if (x["start"], x["rate"]) == (start, rate)]
        fewest = [f"{100 * min(x['solved']):.0f} %" for x in same]
        change = [f"{max(x['change']):.4f}" for x in same]
        moved = [f"{statistics.mean(x['moved']):.3f}" for x in same]
        usual = "the preset's" if rate == 1 else f"times {rate:g}"
        cells = (", ".join(each) for each in (fewest, change, moved))
        rows.append([f"{start:,}", usual, *cells])
    return [head, *rows]


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
    "faults": _faults,
    "guards": _guards,
    "falls": _falls,
    "release": _release,
    "between": _between,
    "inside": _inside,
    "rows": _libraries,
    "sweeps": _sweeps,
    "sharing": _sharing,
    "engine": _engine,
    "ranks": _ranks,
    "language": _language,
    "agents": _agents,
    "worlds": _worlds,
    "levels": _levels,
    "stories": _stories,
    "corpora": _corpora,
    "vocabulary": _vocabulary,
    "paper_size": _paper_size,
}
