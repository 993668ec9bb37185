"""Draws pictures from what is committed.

`python benchmarks/pictures.py` writes

    results/nth_farthest_longer.png     the curves of `longer`, two cores
    results/nth_farthest_models.png     the same, all six cores
    results/nth_farthest_fair.png       the curves of `fair`, five cores
    results/nth_farthest_ladder.png     the curves of `ladder`
    results/box_world_full.png          the curves of BoxWorld's `full`, four cores
    results/mini_pacman.png             the curves of MiniPacman's `quick`, three cores
    results/program_evaluation_addition.png  the curves of `addition`, five cores
    results/nth_farthest_attention.png  where the network of the course looks while it
                                        reads three examples
"""

from __future__ import annotations

import json
from pathlib import Path

from tinyrmc import course
from tinyrmc.results import attending, figures
from tinyrmc.training.networks import open_checkpoint, restore_model

RESULTS = Path(__file__).resolve().parent / "results"
NAMES = {  # core -> its line's name
    "rmc": "Relational Memory Core",
    "lstm": "LSTM",
    "entnet": "Recurrent Entity Network",
    "entnet_bank": "bank of LSTMs",
    "rmc_paper": "the paper's equations",
    "dnc": "Differentiable Neural Computer",
    "conv_lstm": "ConvLSTM",
    "feedforward": "no memory",
}
ALL = ("rmc", "lstm", "entnet", "entnet_bank", "rmc_paper", "dnc")
FAIR = tuple(core for core in ALL if core != "rmc_paper")
AGENTS = ("rmc", "lstm", "conv_lstm", "feedforward")
PACMEN = ("rmc", "lstm", "feedforward")
FOUR, EIGHT = (
    f"{count} vectors arrive. Which one is the nth farthest from vector m?"
    for count in ("Four", "Eight")
)
LOCKS = "BoxWorld, one to five locks, through a window"
MAZE = "MiniPacman, through a window"
# name -> the summary, the task, the preset, its cores, the title
PICTURES: dict[str, tuple[str, str, str, tuple[str, ...], str]] = {
    "nth_farthest_longer": ("results", "nth_farthest", "longer", ("rmc", "lstm"), FOUR),
    "nth_farthest_models": ("results", "nth_farthest", "longer", ALL, FOUR),
    "nth_farthest_fair": ("nth_farthest_fair", "nth_farthest", "fair", FAIR, FOUR),
    "nth_farthest_ladder": ("results", "nth_farthest", "ladder", ALL[:2], EIGHT),
    "box_world_full": ("box_world_full", "box_world", "full", AGENTS, LOCKS),
    "mini_pacman": ("mini_pacman", "mini_pacman", "quick", PACMEN, MAZE),
    "program_evaluation_addition": (
        *("program_evaluation_addition", "program_evaluation", "addition"),
        ("rmc", "lstm", "dnc", "entnet_bank", "entnet"),
        "Two numbers of three digits to add, the answer one character at a time",
    ),
}


def curves(name: str, folder: Path = RESULTS) -> Path:
    """Draw cores as they learnt, against steps, with the floors, from a committed
    summary; the path of the PNG file, which it writes into `folder`.
    """
    table, task, preset, cores, title = PICTURES[name]
    summary = json.loads((RESULTS / f"{table}.json").read_text(encoding="utf-8"))
    found = {
        group["config"]["model"]["core"]: group
        for group in summary["groups"]
        if (group["task"], group["preset"]) == (task, preset)
    }
    metric = found["rmc"]["curve_of"]
    axis = "world_steps" if "agent" in found["rmc"]["config"] else "steps"
    groups = {_named(core, found[core]): _lines(found[core], axis) for core in cores}
    of_cores = [found[core]["references"][metric] for core in cores]
    references = {metric: {k: v for known in of_cores for k, v in known.items()}}
    out = folder / f"{name}.png"
    return figures.learning_curve(
        out, groups, references, [metric], title, [axis], cores
    )


def _named(core: str, group: dict) -> str:
    """The name of a core's line, which says if it never met the task itself."""
    stayed = all(run.get("ended_on") for run in group["runs"])
    return f"{NAMES[core]}{', easier tasks only' if stayed else ''}"


def _lines(group: dict, axis: str) -> list[list[dict]]:
    """A group's curves as lines of metrics.jsonl."""
    metric, config, each = group["curve_of"], group["config"], 1
    if axis == "world_steps":
        each = config["train"]["batch_size"] * config["agent"]["unroll"]
    name = "step" if axis == "steps" else axis
    return [
        [{name: step * each, metric: value} for step, _, _, value in run["curve"]]
        for run in group["runs"]
    ]


def attention(folder: Path = RESULTS) -> Path:
    """The attention in three examples whose reference comes first, in the middle and
    last; the path of the PNG file.
    """
    task, arrays, state = open_checkpoint(course.assets() / "nth_farthest_4x4.npz")
    model = restore_model(task, arrays, state)
    (path,) = attending.draw_cases(task, model, folder)
    return path.rename(folder / "nth_farthest_attention.png")


if __name__ == "__main__":
    print(*map(curves, PICTURES), attention(), sep="\n")
