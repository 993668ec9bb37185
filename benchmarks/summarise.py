"""Gather finished runs into one small JSON file: python benchmarks/summarise.py RUN [RUN ...] --out benchmarks/results/NAME.json

What is kept of each run is what a document may quote: its command, seed, machine and time, the last line of its metrics and its curve on
the held-out examples. The same runs always give the same bytes.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

from tinyrmc.commands import Parser, run_main
from tinyrmc.plot import group_runs
from tinyrmc.runs import Run
from tinyrmc.training import task_from_dict


def summary(runs: list[Run]) -> dict:
    """Runs of one task, grouped by configuration with the seeds beside each other."""
    groups = []
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
                        **{key: run.environment[key] for key in ("command", "date", "processor", "cores", "python", "numpy", "blas")},
                        **{key: of_run[-1][key] for key in ("step", "samples", "seconds", *tested)},
                        "curve": [[line["step"], round(line[curve_of], 4)] for line in of_run if curve_of in line],
                    }
                    for run, of_run in zip(members, lines, strict=True)
                ],
                "curve_of": curve_of,
            }
        )
    return {"task": runs[0].config["task"], "preset": runs[0].config["preset"], "groups": groups}


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="python benchmarks/summarise.py", description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="finished run directories of one task")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the JSON file to write, replaced if it exists")
    options = parser.parse_args(argv)
    found = summary([Run.open(path) for path in options.runs])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    for group in found["groups"]:
        print(f"{group['label']}: " + ", ".join(f"{name} {value:.4f}" for name, value in group["mean"].items()))
    return 0


if __name__ == "__main__":
    run_main(main)
