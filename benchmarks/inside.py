"""Why does nth farthest need a norm on queries, keys and values? We look inside the two
forms of the memory, each with and without it, while they learn.

    python benchmarks/inside.py [--seeds 0,1,2] [--steps 3000] [--out FILE.json]

Thirty times during training, a copy in float64 reads 256 fresh examples of the rung
that is being learnt, and we measure:

    score_size      how far apart the scores of attention are: their standard deviation
                    over what a slot may listen to. Softmax sees nothing else of them.
    entropy         of attention, as a fraction of the most there can be: 1 where a slot
                    listens to everything alike, 0 where it listens to one thing alone.
    early_gradient  the size of the loss's gradient to the first step's input, divided
                    by that to the last step's.

The first two are means over examples, steps, heads and slots, the third is of sizes
averaged over examples. Rungs open by steps (the preset `fair`, with fewer of them), so
all see the same examples.

Then we take the norm apart. Is it that scores begin further apart? Two forms without
the norm begin with larger queries and keys, so that theirs do, too. Is it what becomes
of queries and keys, or of values? In two networks, the norm reaches only one or the
other.

The networks train one after the other. FILE.json is written after each, and FILE.png
beside it at the end. Started again with the same --out, it goes on with those that are
missing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import report
from tinyrmc.results.figures.curves import label_log

from tinyrmc import Tape, fused, nn
from tinyrmc import primitives as p
from tinyrmc.backend import blas_threads
from tinyrmc.cores import PaperRelationalMemory
from tinyrmc.errors import RunError, UsageError
from tinyrmc.results.figures.style import COLOURS, GREY, in_percent, save, style, wrap
from tinyrmc.training.discovery import load_task
from tinyrmc.training.task import HELD_OUT_SEED
from tinyrmc.training.trainer import Trainer

nth_farthest = load_task("nth_farthest")
HERE = Path(__file__).resolve().parent
OUT = HERE / "results" / "inside.json"
EXAMPLES = 256
# the settings of a form: --model.core, --model.qkv-norm
FORMS = {
    "paper": ("rmc_paper", "none"),
    "paper, with the norm": ("rmc_paper", "layer"),
    "released": ("rmc", "layer"),
    "released, without the norm": ("rmc", "none"),
}

# --- The norm taken apart -------------------------------------------------------------


def are_values(core: Any) -> np.ndarray:
    """Which of the units (H * (2K + V),) of queries, keys and values are values. Each
    head has its own three side by side.
    """
    K, H = core.key_size, core.num_heads
    return np.tile(np.arange(2 * K + core.mem_size // H) >= 2 * K, H)


def louder(core: Any, factor: float) -> None:
    """Make the queries and keys of a fresh core larger by a factor."""
    if isinstance(core, PaperRelationalMemory):
        for weight in core.W_q, core.W_k:
            weight.data *= factor
    else:
        core.blocks[0]["qkv"].weight.data[:, ~are_values(core)] *= factor


class PartOfNorm(nn.Module):
    """The norm of a core's queries, keys and values, which leaves some of them alone.
    Its mean and variance are of all.
    """

    def __init__(self, core: Any, values: bool):
        self.norm = core.qkv_norm
        self.reached = are_values(core) == values  # (H * (2K + V),)

    def __call__(self, x):
        return p.where(self.reached, self.norm(x), x)


def reach(core: Any, values: bool) -> None:
    """Let a core's norm reach only its values, or only its queries and keys."""
    core.qkv_norm = PartOfNorm(core, values)


# name -> the form that it begins as, and what is done to its core. The factors bring
# the first measurement of the scores to what it is with the norm.
CHANGED: dict[str, tuple[str, Callable[[Any], None]]] = {
    "paper, larger queries and keys": ("paper", partial(louder, factor=1.3)),
    "released, without the norm, larger queries and keys": (
        "released, without the norm",
        partial(louder, factor=3.4),
    ),
    "paper, the norm on queries and keys": (
        "paper, with the norm",
        partial(reach, values=False),
    ),
    "paper, the norm on values": (
        "paper, with the norm",
        partial(reach, values=True),
    ),
}

# --- What is measured -----------------------------------------------------------------


def size_and_entropy(weights: np.ndarray) -> tuple[float, float]:
    """Of attention (..., R): the standard deviation over R of the scores it came from,
    and its entropy as a fraction of log R; means over all else.

    Softmax forgets a constant added to a whole row, and so does a standard deviation. A
    weight of 0 had a score at least 700 below the highest, and counts as that.
    """
    scores = np.log(np.maximum(weights, np.finfo(np.float64).tiny))
    entropy = -(weights * scores).sum(-1) / np.log(weights.shape[-1])
    return float(scores.std(-1).mean()), float(entropy.mean())


def measure(model: Any, batch: dict[str, np.ndarray]) -> dict[str, float]:
    """The three measurements of a network on a batch, and how often it is right."""
    trace: list[dict[str, np.ndarray]] = []
    model = model.astype(np.float64)
    with Tape() as tape:
        inputs = tape.watch(batch["inputs"].astype(np.float64))  # (B, T, ...)
        logits = model(inputs, trace)
        loss = p.sum(fused.softmax_cross_entropy(logits, batch["target"]))
    gradient = tape.gradient(loss, inputs)
    sizes = np.sqrt(np.square(gradient).sum(-1)).mean(0)  # (T,)
    size, entropy = size_and_entropy(np.stack([step["attention"] for step in trace]))
    return {
        "score_size": size,
        "entropy": entropy,
        "early_gradient": float(sizes[0] / max(sizes[-1], 1e-300)),
        "accuracy": float((logits.data.argmax(-1) == batch["target"]).mean()),
    }


def task_of(form: str, steps: int):
    """Nth farthest with such a memory, on a ladder of so many steps."""
    core, norm = FORMS[form]
    preset, every = nth_farthest.FAIR, max(1, steps // 30)
    times = {"steps": steps, "log_every": every, "evaluate_every": every}
    return nth_farthest.Task(
        replace(
            preset,
            model=replace(preset.model, core=core, qkv_norm=norm),
            train=replace(preset.train, **times),
        )
    )


def points(trainer: Trainer) -> Iterator[dict[str, Any]]:
    """Train to the end; gives what is measured before, and at each line of metrics."""
    task: Any = trainer.task
    rng = np.random.default_rng(HELD_OUT_SEED)
    while True:
        batch = task.draw(rng, EXAMPLES, task.rung)
        rung = "x".join(map(str, task.rungs[task.rung]))
        found = {name: round(x, 5) for name, x in measure(trainer.model, batch).items()}
        yield {"step": trainer.step, "rung": rung, **found}
        if task.finished(trainer.step):
            return
        stop = trainer.step + task.config.train.log_every
        while trainer.step < min(stop, task.config.train.steps):
            trainer.advance()
        trainer.read()  # and the ladder is climbed


def train(form: str, seed: int, steps: int) -> dict[str, Any]:
    """One of the rows of the summary."""
    begun = time.process_time()
    with blas_threads(1):
        begun_as, change = CHANGED.get(form, (form, None))
        trainer = Trainer(task_of(begun_as, steps), seed=seed)
        if change is not None:
            network: Any = trainer.model
            change(network.core)
        seen = list(points(trainer))
        accuracy = trainer.evaluate()["test_accuracy"]
    return {
        "form": form,
        "seed": seed,
        "test_accuracy": accuracy,
        "processor_seconds": round(time.process_time() - begun, 1),
        "points": seen,
    }


# --- The figure -----------------------------------------------------------------------

PANELS = {
    "score_size": "how far apart scores are",
    "entropy": "entropy of attention (1: all alike)",
    "early_gradient": "gradient to the first step / to the last",
    "accuracy": "accuracy on the rung being learnt",
}


def draw(found: dict[str, Any], path: Path) -> Path:
    """The measurements over steps, a line for each form: the mean of its seeds, in a
    band from the lowest to the highest.
    """
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(13, 4), layout="constrained")
        panels = figure.subplots(1, len(PANELS))
        for panel, (name, title) in zip(panels, PANELS.items(), strict=True):
            _draw_panel(panel, found["inside"], name)
            panel.set_title(wrap(title, 28), fontsize=10)
            panel.set_xlabel("steps")
            panel.locator_params(axis="x", nbins=4)
        for panel in panels[0], panels[2]:
            panel.set_yscale("log")
            label_log(panel.yaxis)
        panels[3].yaxis.set_major_formatter(in_percent())
        lines = panels[0].get_legend_handles_labels()
        figure.legend(*lines, loc="outside lower center", ncols=4)
        figure.suptitle("Inside the memory while it learns nth farthest")
        return save(figure, path)


def _draw_panel(panel, rows, name):
    """One measurement; grey lines where a rung begins."""
    for form, colour in zip(FORMS, COLOURS, strict=False):
        seeds = [row["points"] for row in rows if row["form"] == form]
        if not seeds:
            continue
        steps = [point["step"] for point in seeds[0]]
        values = np.array([[point[name] for point in each] for each in seeds])
        dashes = (4, 2) if FORMS[form][1] == "none" else (1, 0)
        line = {"color": colour, "label": form, "dashes": dashes, "linewidth": 1.6}
        panel.plot(steps, values.mean(0), **line)
        panel.fill_between(
            steps, values.min(0), values.max(0), color=colour, alpha=0.2, linewidth=0
        )
    seen = rows[0]["points"]
    for before, after in itertools.pairwise(seen):
        if before["rung"] != after["rung"]:
            panel.axvline(after["step"], color=GREY, linewidth=0.6, dashes=(2, 3))


# --- The command ----------------------------------------------------------------------


def earlier(out: Path, steps: int, here: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a summary that is there; UserError if it is of another kind, another
    program or another processor.
    """
    if not out.exists():
        return []
    try:
        before = json.loads(out.read_text(encoding="utf-8"))
        kept = before["inside"], before["steps"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"--out {out} is no summary of inside.py; name another"
        raise RunError(reason) from error
    if kept[1] != steps:
        raise UsageError(
            f"--out {out} has {kept[1]} steps of each, not {steps}",
            "ask for as many, or name another file",
        )
    origin = {name: before.get(name) for name in ("git_commit", "processor")}
    uncommitted = str(here["git_commit"]).endswith("-dirty")
    if uncommitted or any(here[name] != value for name, value in origin.items()):
        raise UsageError(
            f"--out {out} has rows of {' on '.join(map(str, origin.values()))}",
            "name another file: new ones would pass for those",
        )
    return kept[0]


def seeds_of(words: str) -> list[int]:
    """[0, 1] of "0,1"."""
    try:
        return [int(word) for word in words.split(",")]
    except ValueError as error:
        raise UsageError(
            f"--seeds {words!r} are no numbers", "write them as in 0,1,2"
        ) from error


def run(seeds: list[int], steps: int, out: Path) -> dict[str, Any]:
    """Train what is missing; the summary, which is written after each."""
    here = report.heading("inside")
    found = {**here, "steps": steps, "inside": earlier(out, steps, here)}
    for seed in seeds:
        for form in [*FORMS, *CHANGED]:
            done = [(row["form"], row["seed"]) for row in found["inside"]]
            if (form, seed) in done:
                continue
            row = train(form, seed, steps)
            found["inside"].append(row)
            out.write_text(json.dumps(found) + "\n", encoding="utf-8")
            print(
                f"{form}, seed {seed}: {100 * row['test_accuracy']:.1f} %", flush=True
            )
    return found


def main(words=None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--seeds", default="0", metavar="N,N", help="(default: %(default)s)")
    steps, file = report.at_least_one, report.json_file
    add("--steps", type=steps, default=3000, help="of each (default: %(default)s)")
    add("--out", type=file, default=OUT, metavar="FILE.json", help="the summary")
    options = parser.parse_args(words)
    found = run(seeds_of(options.seeds), options.steps, options.out)
    print(report.markdown(found), end="")
    print(draw(found, options.out.with_suffix(".png")))
    return 0


if __name__ == "__main__":
    from tinyrmc.cli.commands import run_main

    run_main(main)
