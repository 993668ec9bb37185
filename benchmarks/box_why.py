"""Why does an agent fail levels of BoxWorld?

    python benchmarks/box_why.py RUN ... [--out FILE.json]

An agent plays the validation levels, and a script that forgets nothing
(`environments/box_player.py`) looks on. It knows all that the agent has seen, so it can
say whether that was enough to know where to go next: to a key, or to the box on the way
to the gem. Two questions, for each run:

ends      how levels end: solved, by opening a wrong box, or out of steps; and in how
          many of these it was known, at the end, where to go next
steps     how often the agent takes a first step of the shortest way, where it knows
          enough: with the goal in its window, and out of it; beside a step by chance

And how it came to that: the share of validation levels that it solved on its way.

What its memory tells, `box_taught.py` asks it (`--teach.recall 1`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import report

from tinyrmc import __version__
from tinyrmc.backend import blas_threads
from tinyrmc.cli.commands import Parser, run_main
from tinyrmc.environments import box_player
from tinyrmc.training.machine import environment
from tinyrmc.training.networks import open_checkpoint, restore_model
from tinyrmc.training.run import Run, under

ENDS = "solved", "wrong box", "out of steps"


def moments(task: Any, model: Any) -> dict[str, np.ndarray]:
    """An agent's moments in the validation levels, each until its level ends.

    Arrays with one row a moment: its "level"; "end", the place in ENDS where it ends
    with this moment, else -1; whether the way is "known", and the goal "near"; whether
    the step taken was "right", and a step's "chance" to be.
    """
    count, world, found = task.test_examples, task.held_out_world, []
    first, rows = task.first_level("validation"), np.arange(task.test_examples)
    playing, carry, chunk = np.ones(count, bool), None, 0
    while playing.any():
        noise = task.held_out_noise(chunk, first, first + count)
        carry = carry or task.begin_held_out(model, noise, first, first + count)
        chunk += 1
        for t in range(1, noise.shape[1]):
            levels = {name: x.copy() for name, x in under("levels/", carry).items()}
            known, steps = world.known(levels), box_player.first_steps(world, levels)
            goals = box_player.wanted(world, known, levels["held"])
            window = levels["place"][:, None] + world.constants["window"].reshape(-1)
            played, carry = task.act(model, world, carry, noise[:, t : t + 1])
            reward, ended = played["gained"][:, 0], played["ended"][:, 0]
            end = np.where(reward == 10, 0, np.where(reward < 0, 1, 2))
            moment = {
                "level": rows,
                "end": np.where(ended, end, -1),
                "known": goals.any(1),
                "near": goals[rows[:, None], window].any(1),
                "right": steps[rows, played["taken"][:, 0]],
                "chance": steps.mean(1),
            }
            found.append({name: array[playing] for name, array in moment.items()})
            playing &= ~ended
    return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


def measure(path: Path) -> dict[str, Any]:
    """The answers for one run."""
    task, arrays, state = open_checkpoint(path)
    model = restore_model(task, arrays, state)
    m = moments(task, model)
    last = {name: x[m["end"] >= 0] for name, x in m.items()}
    ends = {}
    for k, name in enumerate(ENDS):
        own = last["end"] == k
        ends[name] = {"share": own.mean()}
        if own.any():
            ends[name]["known"] = last["known"][own].mean()
    steps = {}
    for name, near in (("goal in sight", True), ("goal out of sight", False)):
        own = m["known"] & (m["near"] == near)
        steps[name] = {
            "right": m["right"][own].mean(),
            "chance": m["chance"][own].mean(),
        }
    return {"run": path.name, "step": state["step"], "ends": ends, "steps": steps}


def curve(path: Path) -> dict[int, float]:
    """{step: the share of validation levels that a run solved then}."""
    lines, metric = Run.open(path).metrics(), "validation_solved"
    return {line["step"]: line[metric] for line in lines if metric in line}


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    about = "Why does an agent fail levels of BoxWorld?"
    parser = Parser("python benchmarks/box_why.py", about)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    also = "also write the results there"
    parser.add_argument("--out", help=also, type=report.json_file, metavar="FILE.json")
    options = parser.parse_args(argv)
    with blas_threads(1):
        why = [measure(x) for x in options.runs]
    curves = {x.name: curve(x) for x in options.runs}
    found = {"benchmark": "box_why", "why": why, "curves": curves}
    report.publish(found | {"environment": environment(__version__)}, options.out)
    return 0


if __name__ == "__main__":
    run_main(main)
