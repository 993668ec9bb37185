"""Many faults that runs, files and command lines can meet, and what becomes of them.

    make faults                             minutes on two cores
    make faults ARGS=--quick                a first look
    python benchmarks/faults.py --seed 1 --only kills forged

Every case is tried in a process of its own, beside a small run of one of the tasks, and
ends in one of four ways. It *survived*: what came out is what came out without the
fault, to the last bit (in `streams` and `words`: no file was changed or lost; in
`sweeps`: the command came to its end). It was *refused*: one line, exit code 2, and no
file has changed. It was *silent*: something else came out, or something was lost,
without a word. Or it ended in a *traceback*, in an exit code of no meaning, or not at
all. The last two are our mistakes, and are listed.

The groups of cases are described where they are made: in stopping.py, shortages.py,
spoiling.py and misuse.py.

The seed decides everything but the moments of kills and signals, which depend on the
machine too. One file has no checksum: if a text in environment.json is replaced by
another, it is believed; that is not tried here.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy comes

import forging
import misuse
import report
import shortages
import spoiling
import stopping
import trials
from trials import OUTCOMES, TASKS, Verdict

import tinyrmc
from tinyrmc.runs.machine import environment
from tinyrmc.text import aligned

OUT = Path(__file__).resolve().parent / "results" / "faults.json"
Group = Callable[[random.Random, Path], Verdict]
GROUPS: dict[str, tuple[Group, int]] = {  # and how many cases
    "kills": (stopping.kills, 60),
    "signals": (stopping.signals, 40),
    "starts": (stopping.starts, 20),
    "workers": (stopping.workers, 20),
    "ranks": (stopping.ranks, 15),
    "disks": (shortages.disks, 25),
    "streams": (shortages.streams, 80),
    "damaged": (spoiling.damaged, 220),
    "forged": (spoiling.forged, 380),
    "sweeps": (spoiling.sweeps, 40),
    "texts": (spoiling.texts, 40),
    "words": (misuse.words, 400),
    "calls": (misuse.calls, 60),
}


OF = {"ranks": "nth_farthest", "sweeps": "nth_farthest", "texts": "language_modeling"}


def possible(name: str) -> bool:
    """Whether a group can be tried, on this machine and with these tasks."""
    if name in OF and OF[name] not in TASKS:
        return False
    if name == "disks":
        return shortages.can_mount()
    return name != "ranks" or stopping.MPIEXEC is not None


def attempt(name: str, number: int, seed: int) -> tuple[str, str, str]:
    """One case: (its group, the outcome, what was wrong)."""
    rng = random.Random(f"{name} {number} {seed}")
    with tempfile.TemporaryDirectory(
        prefix="tinyrmc-faults-", ignore_cleanup_errors=True
    ) as folder:
        inside = Path(folder, "here")
        inside.mkdir()
        try:
            outcome, why = GROUPS[name][0](rng, inside)
        except Exception as error:
            outcome, why = "traceback", f"the campaign itself: {error!r}"
    return name, outcome, f"case {number}: {why}"


def campaign(
    names: Sequence[str], share: float, seed: int, jobs: int, minutes: float
) -> tuple[dict[str, dict[str, int]], list[str]]:
    """({group: {outcome: how many}}, what went wrong).

    The seed decides the order of the cases. None begins after `minutes`.
    """
    cases = [
        (name, number, seed)
        for name in names
        for number in range(max(1, round(GROUPS[name][1] * share)))
    ]
    found: dict[str, dict[str, int]] = {
        name: {"tried": 0, **dict.fromkeys(OUTCOMES, 0)} for name in names
    }
    random.Random(seed).shuffle(cases)
    wrong, until = [], time.monotonic() + 60 * minutes
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, fork) as pool:
        while cases and time.monotonic() < until:
            some = [cases.pop() for _ in range(min(8 * jobs, len(cases)))]
            for name, outcome, why in pool.map(attempt, *zip(*some, strict=True)):
                found[name]["tried"] += 1
                found[name][outcome] += 1
                if outcome in ("silent", "traceback"):
                    wrong.append(f"{name}, {outcome}, {why}")
                    print(wrong[-1], file=sys.stderr, flush=True)
    return found, wrong


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The words of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=[*GROUPS])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time")
    parser.add_argument("--share", type=float, default=1.0, help="of the cases")
    parser.add_argument("--minutes", type=float, default=1e9, help="at most")
    usual = "results/faults.json for all cases, else nowhere"
    file = report.json_file
    parser.add_argument("--out", type=file, help=f"the JSON file (default: {usual})")
    options = parser.parse_args(argv)
    if options.quick:
        options.share = 0.1
    whole = options.share == 1 and options.minutes == 1e9
    if whole and (options.only, options.tasks) == ([*GROUPS], [*TASKS]):
        options.out = options.out or OUT
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; exit code 1 if a case was silent or ended in a traceback."""
    options, began = parsed(argv), time.monotonic()
    for task in {*TASKS} - {*options.tasks}:
        del TASKS[task]
    names = [name for name in options.only if possible(name)]
    if left_out := [name for name in options.only if name not in names]:
        print(f"cannot be tried here: {', '.join(left_out)}", file=sys.stderr)
    folder = tempfile.mkdtemp(prefix="tinyrmc-faults-")
    try:
        trials.prepare(Path(folder))
        trials.small_runs()
        if {*names} & {"kills", "signals", "workers"}:
            for task in TASKS:
                trials.reference(task, workers=2)
        if "damaged" in names:
            forging.bomb()
        if "sweeps" in names:
            trials.small_sweep()
        if "ranks" in names:
            stopping.small_run_of_ranks()
        how = options.share, options.seed, options.jobs, options.minutes
        found, wrong = campaign(names, *how)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(aligned(report.PARTS["faults"](found), 88))
    if options.out is not None:
        minutes = round((time.monotonic() - began) / 60, 1)
        kept = {"benchmark": "faults", "seed": options.seed, "minutes": minutes}
        kept |= {"share": options.share, "tasks": [*TASKS]}
        kept |= {"faults": found, "wrong": wrong}
        kept["environment"] = environment(tinyrmc.__version__)
        options.out.write_text(json.dumps(kept, indent=1) + "\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
