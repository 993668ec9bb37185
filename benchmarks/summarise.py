"""Gather finished runs into one small JSON file: python benchmarks/summarise.py RUN [RUN ...] --out benchmarks/results/NAME.json

What is kept of each run is what a document may quote: its command, seed, machine and time, the last line of its metrics and its curve on
the held-out examples (steps, seconds, rung, value). The same runs always give the same bytes. The table that a document shows is printed,
and is `markdown` of the file.
"""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

from tinyrmc.commands import Parser, duration, percent, run_main
from tinyrmc.loading import task_from_dict
from tinyrmc.plot import group_runs
from tinyrmc.runs import Run, RunError


def summary(runs: list[Run]) -> dict:
    """Runs of one task, grouped by configuration with the seeds beside each other. RunError if they do not go together."""
    groups = []
    for run in runs:
        if run.config.get("task") != runs[0].config.get("task"):
            raise RunError(f"{runs[0].path} and {run.path} are runs of different tasks; summarise them one by one")
        if not any(name.startswith("test_") for line in run.metrics()[-1:] for name in line):
            raise RunError(f"{run.path} has not been evaluated at its end yet; let it finish first")
    for label, members in group_runs(runs).items():
        lines = [run.metrics() for run in members]
        task = task_from_dict(members[0].config)
        tested, curve_of = [name for name in lines[0][-1] if name.startswith("test_")], f"test_{task.headline}"
        groups.append(
            {
                "label": label,
                "config": members[0].config["config"],
                "references": task.references(),
                "mean": {name: statistics.fmean(of_run[-1][name] for of_run in lines) for name in tested},
                "runs": [
                    {
                        "seed": run.config["seed"],
                        "command": re.sub(r" --run[ =]\S+", "", run.environment["command"]),  # where it lay is nobody's business
                        **{key: run.environment[key] for key in ("date", "processor", "cores", "python", "numpy", "blas")},
                        **{key: of_run[-1][key] for key in ("step", "samples", "seconds", *tested)},
                        "curve": [
                            [line["step"], line["seconds"], line.get("rung"), round(line[curve_of], 4)]
                            for line in of_run
                            if curve_of in line
                        ],
                    }
                    for run, of_run in zip(members, lines, strict=True)
                ],
                "curve_of": curve_of,
            }
        )
    return {"task": runs[0].config["task"], "preset": runs[0].config["preset"], "groups": groups}


def markdown(found: dict) -> str:
    """A summary as a Markdown table: every seed, the mean, and the floors and published numbers beside them."""
    seeds = [run["seed"] for run in found["groups"][0]["runs"]]
    labels = list(dict.fromkeys(label for group in found["groups"] for values in group["references"].values() for label in values))
    mean = ["mean"] if len(seeds) > 1 else []
    rows = [["", *(f"seed {seed}" for seed in seeds), *mean, *labels]]
    for group in found["groups"]:
        by_seed = {run["seed"]: run for run in group["runs"]}
        for metric, values in group["references"].items():
            cells = [percent(by_seed[seed][metric]) if seed in by_seed else "not run" for seed in seeds]
            known = [percent(values.get(label)) for label in labels]
            rows.append([f"{group['label']}: {metric.replace('_', ' ')}", *cells, *[percent(group["mean"][metric]) for _ in mean], *known])
        times = [duration(by_seed[seed]["seconds"]) if seed in by_seed else "" for seed in seeds]
        rows.append([f"{group['label']}: training time, [h:]mm:ss", *times, *[""] * len(mean + labels)])
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="python benchmarks/summarise.py", description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="finished run directories of one task")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the JSON file to write, replaced if it exists")
    options = parser.parse_args(argv)
    found = summary([Run.open(path) for path in options.runs])
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found) + "\n")
    except OSError as error:
        raise RunError(f"cannot write {options.out}: {error.strerror}; choose another --out") from error
    print(markdown(found), end="")
    return 0


if __name__ == "__main__":
    run_main(main)
