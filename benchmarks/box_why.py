"""Why does an agent fail levels of BoxWorld, and what does its memory tell?

    python benchmarks/box_why.py RUN ... [--out FILE.json]

An agent plays the validation levels, and a script that forgets nothing
(`environments/box_player.py`) looks on. It knows all that the agent has seen, so it can
say whether that was enough to know where to go next: to a key, or to the box on the way
to the gem. Three questions, for each run:

ends      how levels end: solved, by opening a wrong box, or out of steps; and in how
          many of these it was known, at the end, where to go next
steps     how often the agent takes a first step of the shortest way, where it knows
          enough: with the goal in its window, and out of it; beside a step by chance
memory    in how many moments a linear classifier (ridge regression, learnt from three
          quarters of the levels, asked about the rest) reads the look of the gem's lock
          from all that the core keeps, when both were seen and are out of sight now;
          beside the most frequent answer, an untrained network that sees the same, the
          trained core's input, and the trained core while they are in sight
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import report

from tinyrmc import __version__
from tinyrmc.backend import blas_threads
from tinyrmc.cli.commands import Parser, run_main
from tinyrmc.cores.core import state_arrays, state_of
from tinyrmc.environments import box_player
from tinyrmc.environments.box_levels import GEM
from tinyrmc.environments.box_world import things
from tinyrmc.training.machine import environment
from tinyrmc.training.networks import open_checkpoint, restore_model
from tinyrmc.training.run import under

ENDS = "solved", "wrong box", "out of steps"


def moments(task: Any, model: Any, other: Any) -> dict[str, np.ndarray]:
    """An agent's moments in the validation levels, each until its level ends.

    other: a network that reads along. Arrays with one row a moment: its "level"; "end",
    the place in ENDS where it ends with this moment, else -1; whether the way is
    "known", and the goal "near"; whether the step taken was "right", and a step's
    "chance" to be; the "lock" of the gem, -1 where that was not seen, and whether gem
    or lock is "in sight"; "input" and "memory" of the model, and "other", the other's
    memory.
    """
    count, world, found = task.test_examples, task.held_out_world, []
    first, rows = task.first_level("validation"), np.arange(task.test_examples)
    playing, state, carry = np.ones(count, bool), other.initial_state(count), None
    chunk = 0
    while playing.any():
        noise = task.held_out_noise(chunk, first, first + count)
        carry = carry or task.begin_held_out(model, noise, first, first + count)
        chunk += 1
        for t in range(1, noise.shape[1]):
            levels = {name: x.copy() for name, x in under("levels/", carry).items()}
            known, steps = world.known(levels), box_player.first_steps(world, levels)
            thing, lock = things(known)
            goals = box_player.wanted(world, known, levels["held"])
            boxed = thing & (known == GEM) & (lock > 0)
            seen = lock[rows, boxed.argmax(1)].astype(int)
            window = levels["place"][:, None] + world.constants["window"].reshape(-1)
            both = boxed | np.roll(boxed, 1, axis=1)  # its lock is right of the gem
            in_sight = both[rows[:, None], window].any(1)
            before, state_before = carry, state
            played, carry = task.act(model, world, carry, noise[:, t : t + 1])
            now = {k: x[:, :1] for k, x in played.items() if x.shape[1:2] == (2,)}
            is_first = now["is_first"]
            x = model.encode(*task.planes(now))
            own = state_of(before, model.initial_state(count))
            _, memory = model.core.unroll(x, own, is_first=is_first)
            theirs = other.encode(*task.planes(now))
            _, state = other.core.unroll(theirs, state_before, is_first=is_first)
            state = state_of(state_arrays(state), other.initial_state(count))
            reward, ended = played["gained"][:, 0], played["ended"][:, 0]
            end = np.where(reward == 10, 0, np.where(reward < 0, 1, 2))
            moment = {
                "level": rows,
                "end": np.where(ended, end, -1),
                "known": goals.any(1),
                "near": goals[rows[:, None], window].any(1),
                "right": steps[rows, played["taken"][:, 0]],
                "chance": steps.mean(1),
                "lock": np.where(boxed.any(1), seen, -1),
                "in sight": in_sight,
                "input": x.data[:, 0],
                "memory": flat(memory),
                "other": flat(state),
            }
            found.append({name: array[playing] for name, array in moment.items()})
            playing &= ~ended
    return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


def flat(state: Any) -> np.ndarray:
    """All numbers that a core keeps, (B, any)."""
    arrays = state_arrays(state).values()
    return np.concatenate([np.reshape(x, (len(x), -1)) for x in arrays], axis=1)


def told(features: np.ndarray, answers: np.ndarray, learns: np.ndarray) -> float:
    """The share of answers that ridge regression on the others' gets right."""
    x = np.hstack([features, np.ones((len(features), 1))]).astype(np.float64)
    y, a = np.eye(answers.max() + 1)[answers[learns]], x[learns]
    weights = np.linalg.solve(a.T @ a + 10 * np.eye(a.shape[1]), a.T @ y)
    return float(((x[~learns] @ weights).argmax(1) == answers[~learns]).mean())


def measure(path: Path) -> dict[str, Any]:
    """The answers for one run."""
    task, arrays, state = open_checkpoint(path)
    model = restore_model(task, arrays, state)
    m = moments(task, model, task.build(np.random.SeedSequence(1)))
    last = {name: x[m["end"] >= 0] for name, x in m.items()}
    ends = {}
    for k, name in enumerate(ENDS):
        own = last["end"] == k
        ends[name] = {"share": own.mean(), "known": last["known"][own].mean()}
    steps = {}
    for name, near in (("goal in sight", True), ("goal out of sight", False)):
        own = m["known"] & (m["near"] == near)
        steps[name] = {
            "right": m["right"][own].mean(),
            "chance": m["chance"][own].mean(),
        }
    learns = m["level"] % 4 > 0
    near = (m["lock"] >= 0) & m["in sight"]
    in_sight = told(m["memory"][near], m["lock"][near], learns[near])
    asked = (m["lock"] >= 0) & ~m["in sight"]
    answers, learns = m["lock"][asked], learns[asked]
    frequent = np.bincount(answers[learns]).argmax()
    memory = {"most frequent": (answers[~learns] == frequent).mean()}
    for name, key in (("memory", "memory"), ("untrained", "other"), ("input", "input")):
        memory[name] = told(m[key][asked], answers, learns)
    memory["in sight"] = in_sight
    found = {"ends": ends, "steps": steps, "memory": memory}
    return {"run": path.name, "step": state["step"], **found}


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    about = "Why does an agent fail levels of BoxWorld, and what does its memory tell?"
    parser = Parser("python benchmarks/box_why.py", about)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    also = "also write the results there"
    parser.add_argument("--out", help=also, type=report.json_file, metavar="FILE.json")
    options = parser.parse_args(argv)
    with blas_threads(1):
        found = {"benchmark": "box_why", "why": [measure(x) for x in options.runs]}
    report.publish(found | {"environment": environment(__version__)}, options.out)
    return 0


if __name__ == "__main__":
    run_main(main)
