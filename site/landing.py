"""The website's own network: the live figure of the first page, four points to move and
a trained core that answers questions about them in the page itself, and the page that
looks inside.

The network is `points/four_points.npz`, which these two commands made:

    python -m tinyrmc.train nth_farthest plane --seed 0 --workers 1
    python -m tinyrmc evaluate runs/nth_farthest-plane-1 \\
        --export site/points/four_points.npz
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tinyrmc.results import attending, pages, probes
from tinyrmc.training.networks import open_checkpoint, restore_model

HERE = Path(__file__).resolve().parent / "points"
NETWORK = HERE / "four_points.npz"
QUESTIONS = 10_000
SEQUENCES = 1000  # that the tables of the page inside are about
PLACES = ((-0.75, 0.7), (0.35, -0.2), (0.0, -0.8), (0.45, 0.65))  # at first


def figure(network: Path = NETWORK) -> str:
    """The figure as HTML, which holds the network and loads nothing from elsewhere."""
    return pages.filled(HERE / "points.html", data(network))


def data(network: Path = NETWORK) -> dict[str, Any]:
    """The figure's numbers and words."""
    task, arrays, state = open_checkpoint(network)
    model: Any = restore_model(task, arrays, state)
    asked = probes.held_out(task, QUESTIONS)
    answers = model(asked.inputs).data.argmax(-1)
    return {
        "network": pages.network(model),
        "places": PLACES,
        "parameters": sum(each.data.size for each in model.parameters()),
        "questions": len(answers),
        "accuracy": float(np.mean(answers == asked.targets)),
    }


def inside(network: Path = NETWORK) -> str:
    """The page of `python -m tinyrmc plot attention` for this network."""
    task, arrays, state = open_checkpoint(network)
    model = restore_model(task, arrays, state)
    found = probes.analyse(model, probes.held_out(task, SEQUENCES))
    shown = probes.held_out(task, attending.SHOWN)
    chosen = shown.take(attending.to_show(model, shown))
    tables = attending.tables(found, task.references())
    seen = probes.traces(model, chosen.inputs)
    return attending.page("four points of a plane", chosen, seen, tables, model)
