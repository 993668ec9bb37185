"""Which of the differences between the paper's equations and the released code does nth
farthest need? between.py [--out FILE.json]

`PaperRelationalMemory` does not leave the first rung of the ladder, `RelationalMemory`
climbs it; the table at the top of `tinyrmc/memory.py` says where they differ. Trained
here are the released form, and the same but for one row, which is as in the paper; the
paper's form, and the same but for one row, which is as released. One seed, the preset
`quick`, each on one core. What is told is the rung that a core has reached, 0 being
three numbers on a line, and its accuracy on held-out examples of the task itself.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import report

import tinyrmc
from tinyrmc import PaperRelationalMemory, equations, nn
from tinyrmc import primitives as p
from tinyrmc.backend import blas_threads
from tinyrmc.engine import Parameter
from tinyrmc.runs.machine import environment
from tinyrmc.training.discovery import load_task
from tinyrmc.training.trainer import Trainer
from tinyrmc.training.workers import available_cores

nth_farthest = load_task("nth_farthest")
ROWS = (
    "first memory",
    "q, k, v",
    "residual, norm",
    "gates see",
    "output",
    "candidate",
)  # of the table; who asks makes no difference here


class Between(PaperRelationalMemory):
    """The paper's core, but for the rows of the table that are named in `released`;
    with all of them it is `RelationalMemory`.
    """

    def __init__(self, *sizes, released=(), seed=0, dtype=np.float32):
        first = "identity" if "first memory" in released else "random"
        super().__init__(*sizes, initial_memory=first, seed=seed, dtype=dtype)
        self.released = frozenset(released)
        if unknown := self.released - {*ROWS}:
            raise ValueError(
                f"released: {', '.join(sorted(unknown))} is no row of the table; "
                f"there are {', '.join(ROWS)}"
            )
        if "q, k, v" in released:
            width = self.num_heads * (2 * self.key_size + self.head_size)
            self.qkv_bias, self.qkv_norm = (
                Parameter(np.zeros(width, dtype)),
                nn.LayerNorm(width, dtype),
            )
        if "residual, norm" in released:
            self.attention_norm = nn.LayerNorm(self.mem_size, dtype)

    def __call__(self, inputs, state, trace=None):
        """One step: inputs (B, input_size), state (m, h) -> output (B, N F), next (m,
        h).
        """
        (m, h), own = state, self.equation_parameters()
        x = self.input_projection(inputs)  # (B, F)
        attended = self._attend(m, x)
        if "residual, norm" in self.released:
            attended = self.attention_norm(attended, m)
        candidate = equations.g_psi(p, attended, own["mlp"], own["gain"], own["offset"])
        if "candidate" in self.released:
            candidate = p.tanh(candidate)
        seen = p.tanh(m) if "gates see" in self.released else h
        f, i, o = (
            equations.gate(
                p, x, seen, own[f"W_{gate}"], own[f"U_{gate}"], own[f"b_{gate}"]
            )
            for gate in "fio"
        )
        m = equations.update_memory(p, f, i, m, candidate, self.forget_bias)
        h = m if "output" in self.released else equations.output(p, o, m)
        return p.reshape(h, (h.shape[0], -1)), (m, h)

    def _attend(self, m, x):
        """Equation 2, with the released bias and norm of queries, keys and values where
        they are asked for: (B, N, F).
        """
        if "q, k, v" not in self.released:
            return equations.multi_head_attention(p, m, x, self.W_q, self.W_k, self.W_v)
        rows, heads = equations.append_rows(p, m, x), range(self.num_heads)
        projected = [
            rows @ weight[head]
            for weight in (self.W_q, self.W_k, self.W_v)
            for head in heads
        ]
        normed = self.qkv_norm(
            p.concatenate(projected, axis=-1) + self.qkv_bias
        )  # over all heads
        starts = np.cumsum([0] + [each.shape[-1] for each in projected])
        parts = [normed[..., start:end] for start, end in itertools.pairwise(starts)]
        q, k, v = (
            parts[kind * len(heads) : (kind + 1) * len(heads)] for kind in range(3)
        )
        return p.concatenate(
            [
                equations.attention(p, q[head][:, : self.mem_slots], k[head], v[head])
                for head in heads
            ],
            axis=-1,
        )


class Task(nth_farthest.Task):
    """Nth farthest with such a core; with no row as released, the run of `--model.core
    rmc_paper`.
    """

    released = ()

    def build(self, seed):
        """The task's network with another core, drawn from the stream of the one in
        whose place it comes.
        """
        network, c = super().build(seed), self.config.model
        sizes = (
            network.core.input_size,
            c.mem_slots,
            c.head_size,
            c.num_heads,
            c.forget_bias,
        )
        network.core = Between(
            *sizes, released=self.released, seed=np.random.default_rng(seed)
        )
        return network


def combinations() -> dict[str, tuple[str, ...]]:
    """{name: rows as released}: all of them, all but one, none, only one."""
    less = {
        f"as released but for: {row}": tuple(each for each in ROWS if each != row)
        for row in ROWS
    }
    return {
        "all as released": ROWS,
        **less,
        "all as in the paper": (),
        **{f"as in the paper but for: {row}": (row,) for row in ROWS},
    }


def train(released, steps, seed) -> dict:
    """Train the core with these rows as released for so many steps; the rung it is on
    then, and its held-out accuracy.
    """
    preset = nth_farthest.Task.presets["quick"][1]
    task = Task(replace(preset, model=replace(preset.model, core="rmc_paper")))
    task.released, begun = released, time.perf_counter()
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--steps", type=int, default=3000, help="of each core (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, metavar="FILE.json", help="also write the results there"
    )
    options = parser.parse_args(words)
    with ProcessPoolExecutor(available_cores()) as pool:
        results = pool.map(
            partial(train, steps=options.steps, seed=options.seed),
            combinations().values(),
        )
        found = [
            {"name": name, **result}
            for name, result in zip(combinations(), results, strict=True)
        ]
    here = environment(tinyrmc.__version__)
    result = {
        "benchmark": "between",
        **{
            name: here[name]
            for name in ("date", "git_commit", "processor", "cores", "numpy", "blas")
        },
    }
    result |= {"steps": options.steps, "seed": options.seed, "between": found}
    print(report.markdown(result), end="")
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
