"""Which of the differences between the paper's equations and the released code does nth
farthest need?

    python benchmarks/between.py [--out FILE.json]

`PaperRelationalMemory` does not leave the first rung of the ladder, `RelationalMemory`
climbs it; the table at the top of `tinyrmc/cores/relational.py` says where they differ.
This trains the released form, and the same with one row at a time as in the paper; then
the paper's form, and the same with one row at a time as released. Each has one seed,
the preset `quick` and one core of the CPU. The table says which rung it has reached, 0
being three numbers on a line, and its accuracy on held-out examples of the task itself.
"""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import report

from tinyrmc import PaperRelationalMemory, equations, nn
from tinyrmc import primitives as p
from tinyrmc.backend import blas_threads
from tinyrmc.cli.commands import run_main
from tinyrmc.training.discovery import load_task
from tinyrmc.training.trainer import Trainer
from tinyrmc.training.workers import available_cores

nth_farthest = load_task("nth_farthest")
# of the table; who asks makes no difference here
ROWS = ("first memory", "q, k, v", "residual, norm", "gates see", "output", "candidate")


class Between(PaperRelationalMemory):
    """The paper's core, but for the rows of the table that `released` names; with all
    of them it is `RelationalMemory`.
    """

    def __init__(self, *sizes, released=(), seed=0, dtype=np.float32):
        if unknown := sorted({*released} - {*ROWS}):
            raise ValueError(
                f"released: {', '.join(unknown)} is no row of the table; "
                f"there are {', '.join(ROWS)}"
            )
        first = "identity" if "first memory" in released else "random"
        normed = {"qkv_norm": "q, k, v" in released}
        super().__init__(*sizes, initial_memory=first, seed=seed, dtype=dtype, **normed)
        self.released = frozenset(released)
        if "residual, norm" in released:
            self.attention_norm = nn.LayerNorm(self.mem_size, dtype)

    def __call__(self, inputs, state, trace=None):
        """One step: inputs (B, input_size), state (m, h) -> output (B, N F), next (m,
        h).
        """
        (m, h), own = state, self.equation_parameters()
        x = self.input_projection(inputs)  # (B, F)
        attended = self._attend(m, x)  # (B, N, F)
        if "residual, norm" in self.released:
            attended = self.attention_norm(attended, m)
        candidate = equations.g_psi(p, attended, own["mlp"], own["gain"], own["offset"])
        if "candidate" in self.released:
            candidate = p.tanh(candidate)
        seen = p.tanh(m) if "gates see" in self.released else h

        def gate(name):  # (B, N, F)
            weights = (own[f"{kind}_{name}"] for kind in ("W", "U", "b"))
            return equations.gate(p, x, seen, *weights)

        m = equations.update_memory(
            p, gate("f"), gate("i"), m, candidate, self.forget_bias
        )
        h = m if "output" in self.released else equations.output(p, gate("o"), m)
        return p.reshape(h, (h.shape[0], -1)), (m, h)


class Task(nth_farthest.Task):  # type: ignore[name-defined]
    """Nth farthest with the core `Between`; with no row as released it is the run of
    `--model.core rmc_paper`.
    """

    released = ()

    def build(self, seed):
        """The task's network with another core, whose weights come from the same
        stream as those of the core it replaces.
        """
        network, c = super().build(seed), self.config.model
        sizes = (network.core.input_size, c.mem_slots, c.head_size, c.num_heads)
        rng = np.random.default_rng(seed)
        network.core = Between(*sizes, c.forget_bias, released=self.released, seed=rng)
        return network


def combinations() -> dict[str, tuple[str, ...]]:
    """{name: rows as released}: all of them, all but one, none, only one."""
    found: dict[str, tuple[str, ...]] = {"all as released": ROWS}
    for row in ROWS:
        others = tuple(each for each in ROWS if each != row)
        found[f"as released but for: {row}"] = others
    found["all as in the paper"] = ()
    for row in ROWS:
        found[f"as in the paper but for: {row}"] = (row,)
    return found


def train(released, steps, seed) -> dict:
    """Train the core with these rows as released; says which rung it has reached, and
    its held-out accuracy.
    """
    preset = nth_farthest.Task.presets["quick"][1]
    task = Task(replace(preset, model=replace(preset.model, core="rmc_paper")))
    task.released = released
    begun = time.perf_counter()
    with blas_threads(1):
        trainer = Trainer(task, seed=seed)
        while trainer.step < steps:
            trainer.advance()
            if trainer.step % task.config.train.log_every == 0:
                trainer.read()  # and the ladder is climbed
        found = trainer.evaluate()
    seconds = time.perf_counter() - begun
    return {
        "released": list(released),
        "rung": task.rung,
        "test_accuracy": found["test_accuracy"],
        "seconds": round(seconds, 1),
    }


def main(words=None) -> int:
    """The command line; returns the exit code."""
    parser = report.parser("between", (__doc__ or "").partition("\n\n")[0])
    steps, says = report.at_least_one, "of each core (default: %(default)s)"
    parser.add_argument("--steps", type=steps, default=3000, metavar="N", help=says)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    rows = combinations()
    train_rows = partial(train, steps=options.steps, seed=options.seed)
    with ProcessPoolExecutor(available_cores()) as pool:
        results = list(pool.map(train_rows, rows.values()))
    result = {
        **report.heading("between"),
        "steps": options.steps,
        "seed": options.seed,
        "between": [
            {"name": name, **each} for name, each in zip(rows, results, strict=True)
        ],
    }
    report.publish(result, options.out)
    return 0


if __name__ == "__main__":
    run_main(main)
