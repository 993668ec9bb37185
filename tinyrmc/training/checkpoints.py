"""What training has left in files, as objects again.

The configuration, the task, the trained network. A run directory, its checkpoint and a
weights file all hold the run's configuration, so each is enough.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from ..config import from_json, require_same
from ..errors import RunError
from ..nn import Module
from ..runs.arrays import load_arrays, save_arrays, under
from ..runs.run import Run
from .discovery import load_task_of
from .task import Task


def task_from_dict(run_config: dict) -> Task:
    """The task that a run's config.json describes."""
    for key in ("task", "preset", "seed", "config"):
        if key not in run_config:
            raise RunError(
                f"the run's configuration has no {key!r}; it is not one of "
                "tinyrmc.train"
            )
    kind = load_task_of(run_config).Task
    default = next(iter(kind.presets.values()))[1]
    return kind(from_json(type(default), run_config["config"]))


def load_checkpoint(run: Run) -> tuple[dict, dict]:
    """(arrays, state) of a run's newest checkpoint; RunError unless it is its own."""
    arrays, state = run.load()
    _require_run(state, run.checkpoint)
    require_same(state["run"], run.config, str(run.checkpoint))
    return arrays, state


def _require_run(state, path):
    if not isinstance(state, dict) or "run" not in state:
        raise RunError(
            f"{path} holds arrays, but not of a training run; give a run directory, "
            "its checkpoint.npz or a weights file"
        )


def open_checkpoint(path) -> tuple[Task, dict, dict]:
    """(task, arrays, state) of a run directory, a checkpoint or a weights file.

    RunError says what is wrong with it.
    """
    path = Path(path)
    if path.is_dir():
        run = Run.open(path)
        if "grid" in run.config:
            raise RunError(f"{path} is a sweep; give one of its runs")
        arrays, state = load_checkpoint(run)
    else:
        arrays, state = load_arrays(path)
        _require_run(state, path)
    return task_from_dict(state["run"]), arrays, state


def restore_model(task: Task, arrays: dict, state: dict) -> Module:
    """The trained network itself."""
    model = task.build(np.random.SeedSequence(state["run"]["seed"]).spawn(2)[0])
    with contextlib.suppress(KeyError):
        task.load_state(state["task"])
    try:
        model.load_parameters(under("parameters/", arrays))
    except ValueError as error:
        raise RunError(
            f"the checkpoint does not fit its own configuration: {error}"
        ) from error
    return model


def load_model(path) -> Module:
    """The trained network of a run directory, a checkpoint or a weights file."""
    return restore_model(*open_checkpoint(path))


def export_weights(path, arrays: dict, state: dict) -> None:
    """Write a file of the parameters and the configuration alone.

    It holds the trained network, and not what resuming would need.
    """
    kept = {name: x for name, x in arrays.items() if name.startswith("parameters/")}
    save_arrays(path, kept, {name: state[name] for name in ("run", "step", "task")})
