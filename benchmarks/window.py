"""Draws two pictures for readers who are new here, from what is committed: `python
benchmarks/window.py`.

    results/nth_farthest_quick.png      the curves of `quick`, from the summary of its
                                        runs
    results/nth_farthest_attention.png  where the network of the course looks while it
                                        reads one example
"""

from __future__ import annotations

import json
from pathlib import Path

from tinyrmc import course, figures
from tinyrmc.results import probes
from tinyrmc.training.checkpoints import open_checkpoint, restore_model

RESULTS = Path(__file__).resolve().parent / "results"
TITLE = "Four vectors arrive. Which one is the nth farthest from vector m?"
NAMES = {"rmc": "Relational Memory Core", "lstm": "LSTM"}  # core -> its line's name
METRIC = "test_accuracy"


def curves(out: Path = RESULTS / "nth_farthest_quick.png") -> Path:
    """Held-out accuracy against steps, both cores, with the floors; returns `out`."""
    summary = json.loads((RESULTS / "nth_farthest_quick.json").read_text())
    groups, references = {}, {}
    for group in summary["groups"]:
        name = NAMES[group["config"]["model"]["core"]]
        groups[name] = [
            [{"step": step, METRIC: value} for step, _, _, value in run["curve"]]
            for run in group["runs"]
        ]
        references[METRIC] = group["references"][METRIC]
    return figures.learning_curve(
        groups, references, [METRIC], out, TITLE, cores=[*NAMES]
    )


def attention(out: Path = RESULTS / "nth_farthest_attention.png") -> Path:
    """The attention in an example whose reference is in the middle; returns `out`."""
    task, arrays, state = open_checkpoint(course.assets() / "nth_farthest_4x4.npz")
    model = restore_model(task, arrays, state)
    shown = probes.held_out(task, 256)
    example = shown.take(probes.cases(shown)[[1]])
    question, steps = example.describe(0)
    seen = probes.traces(model, example.inputs)
    return figures.glance(
        seen.attention[0],
        int(example.marked[0]),
        [f"vector {step['label']}" for step in steps],
        f"{question} It answers {seen.logits[0].argmax()}.",
        out,
        example.mark,
    )


if __name__ == "__main__":
    print(curves(), attention(), sep="\n")
