"""Draws the pictures of nth farthest from what is committed: `python
benchmarks/window.py`.

    results/nth_farthest_quick.png      the curves of `quick`, two cores
    results/nth_farthest_models.png     the same, all six cores
    results/nth_farthest_fair.png       the curves of `fair`, five cores
    results/nth_farthest_ladder.png     the curves of `ladder`
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
METRIC = "test_accuracy"
NAMES = {  # core -> its line's name
    "rmc": "Relational Memory Core",
    "lstm": "LSTM",
    "entnet": "Recurrent Entity Network",
    "entnet_bank": "bank of LSTMs",
    "rmc_paper": "the paper's equations",
    "dnc": "Differentiable Neural Computer",
}
FAIR = tuple(core for core in NAMES if core != "rmc_paper")
# name -> the summary, the preset, its cores, how the title begins
FOUR, EIGHT = "Four vectors arrive.", "Eight vectors arrive."
PICTURES: dict[str, tuple[str, str, tuple[str, ...], str]] = {
    "nth_farthest_quick": ("results", "quick", ("rmc", "lstm"), FOUR),
    "nth_farthest_models": ("results", "quick", (*NAMES,), FOUR),
    "nth_farthest_fair": ("nth_farthest_fair", "fair", FAIR, FOUR),
    "nth_farthest_ladder": ("results", "ladder", ("rmc", "lstm"), EIGHT),
}
QUESTION = "{} Which one is the nth farthest from vector m?"


def curves(name: str, folder: Path = RESULTS) -> Path:
    """Held-out accuracy against steps, with the floors, from a committed summary; the
    path of the PNG file, which it writes into `folder`.
    """
    table, preset, cores, arrive = PICTURES[name]
    summary = json.loads((RESULTS / f"{table}.json").read_text(encoding="utf-8"))
    found = {
        group["config"]["model"]["core"]: group
        for group in summary["groups"]
        if (group["task"], group["preset"]) == ("nth_farthest", preset)
    }
    groups = {
        NAMES[core]: [
            [{"step": step, METRIC: value} for step, _, _, value in run["curve"]]
            for run in found[core]["runs"]
        ]
        for core in cores
    }
    references = {METRIC: found["rmc"]["references"][METRIC]}
    out, title = folder / f"{name}.png", QUESTION.format(arrive)
    return figures.learning_curve(groups, references, [METRIC], out, title, cores=cores)


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
    print(*map(curves, PICTURES), attention(), sep="\n")
