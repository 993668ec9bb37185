"""Which of the differences between the printed and the released Relational Memory Core
hold nth farthest back at 8 x 16? A task, and a script that gathers its runs:

    python -m tinyrmc.train benchmarks/plateau.py ladder --paper candidate ...
    python benchmarks/plateau.py RUN [RUN ...] --out results/plateau.json

The table at the top of `tinyrmc/cores/relational.py` says where the two forms differ.
All cores here have the release's norm on queries, keys and values, without which
neither form learns; `--paper` names the other rows to take from the paper.
"""

import argparse
import json
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np

from tinyrmc import cores, equations, nn
from tinyrmc import primitives as p
from tinyrmc.fused import attention, linear, rmc_gates
from tinyrmc.training.discovery import load_task

nth_farthest = load_task("nth_farthest")
# of the table; "mlp" is the ReLU after g_psi's last layer, which only `ladder` has
ROWS = ("memory", "residual", "gates", "candidate", "mlp")


class Form(cores.RelationalMemory):
    """The released core of one block, but for the rows that `paper` names. With all of
    them it is `PaperRelationalMemory` with `qkv_norm`.
    """

    def __init__(self, *sizes, paper=(), seed, **others):
        if unknown := sorted({*paper} - {*ROWS}):
            known = ", ".join(ROWS)
            raise ValueError(f"paper: {', '.join(unknown)} is none of {known}")
        rng, self.paper = nn.generator(seed), frozenset(paper)
        super().__init__(*sizes, seed=rng, activate_final="mlp" not in paper, **others)
        if "gates" in paper:  # and so it has a hidden state, equations 6 and 8
            self.out_inputs = nn.Linear(self.mem_size, self.mem_size, seed=rng)
            self.out_hidden = nn.Linear(self.mem_size, self.mem_size, seed=rng)
        if "memory" in paper:
            first = rng.standard_normal((self.mem_slots, self.mem_size))
            self.first = nn.Constant(first.astype(self.dtype), True)

    def initial_state(self, batch_size):
        memory = super().initial_state(batch_size)
        return (memory, self.zeros(*memory.shape)) if "gates" in self.paper else memory

    def _step(self, rows, from_input, state, trace, mask=None):
        (block,), paper, F = self.blocks, self.paper, self.mem_size
        memory, hidden = state if "gates" in paper else (state, None)
        qkv = block["qkv_norm"](block["qkv"](equations.append_rows(p, memory, rows)))
        sizes = {"num_heads": self.num_heads, "key_size": self.key_size}
        seen = None if trace is None else {}
        z = attention(qkv, None, **sizes, num_queries=self.mem_slots, trace=seen)
        if "residual" not in paper:
            z = block["attention_norm"](z, memory)
        refined = z
        for layer in self.mlp:
            refined = layer(refined)
        candidate = block["mlp_norm"](refined, z)
        by = p.tanh(memory) if hidden is None else hidden
        from_memory = linear(by, self.gate_memory.weight)
        if "candidate" in paper:
            gates = from_input + from_memory  # (B, N, 2F): input, forget
            memory = equations.update_memory(
                p, gates[..., F:], gates[..., :F], memory, candidate, self.forget_bias
            )
        else:
            biases = {"input_bias": 0.0, "forget_bias": self.forget_bias}
            memory = rmc_gates(
                from_input, from_memory, candidate, memory, **biases, trace=seen
            )
        if trace is not None:
            trace.append(seen)
        if hidden is None:
            return p.reshape(memory, (memory.shape[0], -1)), memory
        opened = self.out_inputs(rows) + linear(hidden, self.out_hidden.weight)
        hidden = equations.output(p, opened, memory)
        return p.reshape(hidden, (hidden.shape[0], -1)), (memory, hidden)


@dataclass(frozen=True)
class Config(nth_farthest.Config):
    """That of nth farthest, and the rows."""

    paper: tuple[str, ...] = field(default=(), metadata={"help": "rows of the paper"})


class Task(nth_farthest.Task):
    """Nth farthest with such a core, its weights from the stream of the core that it
    replaces.
    """

    presets = {
        "ladder": (
            "8 x 16, with rows as in the paper",
            Config(
                **{
                    each.name: getattr(nth_farthest.LADDER, each.name)
                    for each in fields(nth_farthest.Config)
                }
            ),
        )
    }
    grids = {}
    published = {}

    def build(self, seed):
        network, c = super().build(seed), self.config.model
        sizes = network.core.input_size, c.mem_slots, c.head_size, c.num_heads
        own = {"forget_bias": c.forget_bias, "paper": self.config.paper}
        network.core = Form(*sizes, **own, seed=np.random.default_rng(seed))
        return network


SHOWN = 2000, 4000, 5000, 6000, 7500, 10_000, 14_000  # steps


def read(run: Path) -> dict:
    """Of a run: rows as in the paper, seed, the steps of its schedule, the step at
    which it met the task itself, held-out accuracy by step.
    """
    config = json.loads((run / "config.json").read_text())
    lines = [json.loads(x) for x in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        "paper": config["config"].get("paper", []),
        "seed": config["seed"],
        "steps": config["config"]["train"]["steps"],
        "met": next((x["step"] for x in lines if x["stage"] == "8x16"), None),
        "curve": {x["step"]: x["test_accuracy"] for x in lines if "test_accuracy" in x},
    }


def name(paper) -> str:
    """A form in words: what it has from the paper, or what from the release."""
    released = [row for row in ROWS if row not in paper]
    if len(paper) <= len(released):
        return "as released" + " but for: " * bool(paper) + ", ".join(paper)
    return "as in the paper" + " but for: " * bool(released) + ", ".join(released)


def main(words=None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="gathers runs of this task")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.json")
    options = parser.parse_args(words)
    found = [read(run) for run in options.runs]
    head = ["with the norm; rows of the table", "seed", "steps", "meets 8 x 16 at"]
    rows = [[*head, *(f"at {step:,}" for step in SHOWN)]]
    for run in found:
        met = f"{run['met']:,}" if run["met"] else "later"
        curve = [run["curve"].get(step) for step in SHOWN]
        shares = ["" if share is None else f"{100 * share:.1f} %" for share in curve]
        steps = f"{run['steps']:,}"
        rows.append([name(run["paper"]), str(run["seed"]), steps, met, *shares])
    kept = "date", "git_commit", "processor", "cores", "numpy", "blas"
    environment = json.loads((options.runs[0] / "environment.json").read_text())
    summary = {"benchmark": "plateau", **{k: environment.get(k) for k in kept}}
    summary |= {"plateau": found, "tables": [rows]}
    options.out.write_text(json.dumps(summary) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
