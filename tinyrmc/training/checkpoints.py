"""What training has left in files, as objects again.

The configuration, the task, the trained network. A run directory, its checkpoint and a
weights file all hold the run's configuration, so each is enough.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from ..config import from_json, require_same, stored_path, with_places
from ..errors import RunError, UsageError
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
    config = from_json(type(default), run_config["config"])
    return kind(with_places(config, run_config.get("places", {})))


def relocated(run_config: dict, data_dir: str | Path | None) -> dict:
    """A run's configuration with its data in this folder; None: where they were.

    UsageError if its task has no `data_dir`.
    """
    if data_dir is None:
        return run_config
    if "data_dir" not in run_config.get("places", {}):
        raise UsageError(
            f"--data-dir {data_dir}: {run_config['task']} reads no data; leave it out"
        )
    places = {**run_config["places"], "data_dir": stored_path(data_dir)}
    return {**run_config, "places": places}


def load_checkpoint(run: Run) -> tuple[dict, dict]:
    """(arrays, state) of a run's newest checkpoint; RunError unless it is its own."""
    arrays, state = run.load()
    _require_run(state, run.checkpoint)
    if "places" in run.config:  # they may have changed since
        state["run"] = {**state["run"], "places": run.config["places"]}
    require_same(state["run"], run.config, str(run.checkpoint))
    return arrays, state


def _require_run(state, path):
    if not isinstance(state, dict) or "run" not in state:
        raise RunError(
            f"{path} holds arrays, but not of a training run; give a run directory, "
            "its checkpoint.npz or a weights file"
        )


def open_checkpoint(path, data_dir: Path | None = None) -> tuple[Task, dict, dict]:
    """(task, arrays, state) of a run, its directory, a checkpoint or a weights file.

    data_dir: where its data are by now, if they have moved.

    RunError says what is wrong with it.
    """
    if isinstance(path, Run) or Path(path).is_dir():
        run = path if isinstance(path, Run) else Run.open(path)
        if "grid" in run.config:
            raise RunError(f"{path} is a sweep; give one of its runs")
        arrays, state = load_checkpoint(run)
    else:
        arrays, state = load_arrays(Path(path))
        _require_run(state, path)
    state["run"] = relocated(state["run"], data_dir)
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


def load_model(path, data_dir: Path | None = None) -> Module:
    """The trained network of a run directory, a checkpoint or a weights file."""
    return restore_model(*open_checkpoint(path, data_dir))


def export_weights(path, arrays: dict, state: dict) -> None:
    """Write a file of the parameters and the configuration alone.

    It holds the trained network, and not what resuming would need, nor where its data
    lay on this machine.
    """
    kept = {name: x for name, x in arrays.items() if name.startswith("parameters/")}
    told = {name: state[name] for name in ("run", "step", "task")}
    if "places" in told["run"]:
        nowhere = dict.fromkeys(told["run"]["places"])
        told["run"] = {**told["run"], "places": nowhere}
    save_arrays(path, kept, told)
