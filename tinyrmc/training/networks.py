"""Networks and files: `tinyrmc.load`, `tinyrmc.save`, and weights to begin with.

A run's network is what its task builds, with the arrays of a checkpoint (run.py). A
module's file holds its class by name and its settings (nn/settings.py), beside the
arrays.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .. import cores, nn
from ..autograd.engine import Parameter, Tensor
from ..backend.stored import matching
from ..config import stored_path
from ..errors import RunError, UsageError, unknown
from ..nn import Constant, Module
from ..nn.layers import made_as, tie, ties, walk
from ..nn.settings import classes_in, described, rebuilt, settings_of
from .discovery import core_files, load_cores_of, load_task_of, stored, task_of
from .machine import code_changes
from .run import (
    Run,
    fitting,
    load_arrays,
    load_checkpoint,
    relocated,
    require_arrays,
    require_run,
    save_arrays,
    take_back,
    task_from_dict,
    under,
)
from .task import Task

# --- The network of a run -------------------------------------------------------------


def open_checkpoint(path, data_dir: Path | None = None) -> tuple[Task, dict, dict]:
    """(task, arrays, state) of a run, its directory, a checkpoint or a weights file; or
    of a shipped network by its name.

    data_dir: where its data are now, if they have moved.

    RunError says what is wrong with it. Notes on stderr tell of code that has changed.
    """
    arrays, state = read_network(path, data_dir)
    require_run(state, path)
    task = task_from_dict(state["run"])
    for each in () if isinstance(path, Run) else changes(path, state["run"]):
        print(f"note: {each}", file=sys.stderr)
    return task, arrays, state


def changes(path: str | Path, run_config: dict) -> list[str]:
    """The `code_changes` of the run that a path names or lies in."""
    run = None
    with contextlib.suppress(RunError):
        run = Run.open(path if os.path.isdir(path) else Path(path).parent)
    return code_changes(run_config, run)


def read_network(path: Any, data_dir: Path | None = None) -> tuple[dict, dict]:
    """(arrays, state) of all that has a network."""
    if isinstance(path, Run) or os.path.isdir(Path(path)):
        run = path if isinstance(path, Run) else Run.open(path)
        if "grid" in run.config:
            raise RunError(f"{path} is a sweep; give one of its runs")
        arrays, state = load_checkpoint(run)
    else:
        if not os.path.exists(path):
            path = shipped().get(str(path), path)
        try:
            arrays, state = load_arrays(Path(path))
        except RunError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise RunError(f"{error}, or a name: {', '.join(shipped())}") from error
            raise
        whole = isinstance(state, dict) and "module" in state
        if whole and (says := unknown(state, MODULE)):
            raise RunError(f"{path} {says}")
        if not whole:
            require_run(state, path)
        require_arrays(arrays, path)
        if whole:
            return arrays, state
    state["run"] = relocated(state["run"], data_dir)
    return arrays, state


def shipped() -> dict[str, Path]:
    """The trained networks that come with the package, by name."""
    package = Path(__file__).resolve().parents[1]
    return {path.stem: path for path in sorted(package.glob("*/assets/*.npz"))}


def restore_model(task: Task, arrays: dict, state: dict) -> Module:
    """The trained network itself."""
    model = task.build(np.random.SeedSequence(state["run"]["seed"]).spawn(2)[0])
    with fitting():
        if "task" in state:
            take_back(task, state["task"])
        load_network(model, arrays)
    return model


def export_weights(path, arrays: dict, state: dict) -> None:
    """Write a file of the parameters and the configuration alone.

    It holds the trained network, and not what resuming would need, nor where its data
    lay on this machine.
    """
    network = "parameters/", "constants/"
    kept = {name: x for name, x in arrays.items() if name.startswith(network)}
    told = {name: state[name] for name in ("run", "step", "task") if name in state}
    if "places" in told["run"]:
        nowhere = dict.fromkeys(told["run"]["places"])
        told["run"] = {**told["run"], "places": nowhere}
    save_arrays(path, kept, told)


def drawn_constants(model: Module) -> dict[str, Constant]:
    """Random arrays of a network that are not parameters, such as a first memory."""
    return {name: x for name, x in model.constants().items() if x.drawn}


def load_network(model: Module, arrays: dict[str, np.ndarray]) -> None:
    """Take the parameters of a checkpoint, and what was drawn with them; older ones
    have that of their seed, as `model` has it. ValueError for what does not fit, and
    for parameters that are no finite floating-point numbers.
    """
    found = under("parameters/", arrays)
    for name, x in found.items():
        if x.dtype.kind != "f":
            raise ValueError(f"the parameter {name} is of type {x.dtype}")
        if not np.isfinite(x).all():
            raise ValueError(f"the parameter {name} is not finite, so it tells nothing")
    model.load_parameters(found)
    if found := under("constants/", arrays):
        set_constants(drawn_constants(model), found)


def set_constants(constants: dict[str, Constant], found: dict[str, np.ndarray]) -> None:
    own = {name: np.float64(constant.value) for name, constant in constants.items()}
    for name, value in matching("constant", found, own).items():
        constants[name].set(value.astype(found[name].dtype))


# --- A module by itself ---------------------------------------------------------------

MODULE = "module", "parts", "ties", "tasks", "cores", "core_files"


def load_model(
    path: str | Path,
    data_dir: Path | None = None,
    classes: Iterable[type] = (),
    tell: Callable[[str], Any] | None = None,
) -> Module:
    """A run's network, or the module that `save_module` wrote: see `tinyrmc.load`.

    tell: is told of code that has changed; None: a UserWarning is.
    """
    arrays, state = read_network(path, data_dir)
    if "module" not in state:
        task = task_from_dict(state["run"])
        if says := "; ".join(changes(path, state["run"])):
            tell(says) if tell else warnings.warn(says, stacklevel=3)
        cores.registry.yielding.clear()  # it stays, and may be saved: so do its cores
        return restore_model(task, arrays, state)
    modules = [*load_cores_of(state), *map(load_task_of, state.get("tasks", ()))]
    cores.registry.yielding.clear()
    for name in state.get("cores", ()):
        if name not in cores.registry.cores():
            raise RunError(
                f"{path}: its core `{name}` is not registered: import its file first"
            )
    known = _ours() | _classes_of(modules)
    known |= {kind.__name__: kind for kind in classes}
    with fitting("cannot be loaded", where=path):
        module = rebuilt(state["module"], known)
        _replace(module, state.get("parts", {}), known)
        _share(module, state.get("ties", ()))
        found = under("parameters/", arrays)
        for name, own in module.named_parameters():
            dtype = nn.check_dtype(name, found.get(name, own).dtype)
            own.bind(own.data.astype(dtype), own.grad.astype(dtype))
        module.load_parameters(found)
        set_constants(module.constants(), under("constants/", arrays))
    return module


def save_module(module: Module, path: str | Path) -> None:
    """Write a module: see `tinyrmc.save`. RunError for a setting that a file cannot
    hold, and for what `load` would not make again.
    """
    arrays = {f"parameters/{name}": x for name, x in module.arrays().items()}
    constants = module.constants().items()
    arrays |= {f"constants/{name}": constant.value for name, constant in constants}
    told = described(module)
    ours = _ours()
    classes = {kind.__name__: kind for kind in classes_in(module)}
    for name, kind in classes.items():
        if ours.get(name, kind) is not kind:
            raise RunError(f"{path}: the name {name} is tinyrmc's own; rename yours")
    again = rebuilt(told, ours | classes)
    parts = _replaced(module, again)
    for place in parts:
        found = functools.reduce(_part, place.split("."), module)
        classes |= {kind.__name__: kind for kind in classes_in(found)}
    _replace(again, parts, ours | classes)
    shared = ties(module)
    with fitting("cannot be written", where=path):
        _share(again, shared)
    here, there = _held(module), _held(again)
    for name in here | there:
        if not _alike(here.get(name), there.get(name)):
            raise RunError(
                f"{path}: made again from its settings, this {type(module).__name__} "
                f"differs in {name}, so that would be lost. Give it to __init__, or "
                "put a whole module in its place; what was drawn there can be "
                "nn.Constant(array, True)"
            )
    meta: dict[str, Any] = {"module": told, "parts": parts, "ties": shared}
    tasks = {word for kind in classes.values() if (word := task_of(kind))}
    own = _cores_in(module) & cores.registry.added()
    meta |= {"tasks": [stored(word) for word in sorted(tasks)], "cores": sorted(own)}
    meta |= {"core_files": core_files(own, classes.values())}
    save_arrays(path, arrays, {key: x for key, x in meta.items() if x})


def _inside(owner: Any) -> dict[str, Any]:
    """The parts of a module, a list or a dict, by name."""
    if isinstance(owner, list):
        return {str(k): part for k, part in enumerate(owner)}
    held = owner if isinstance(owner, dict) else vars(owner)
    return {k: part for k, part in held.items() if isinstance(k, str) and "." not in k}


def _part(owner: Any, name: str) -> Any:
    """The part of this name of a module, a list or a dict."""
    return (
        _inside(owner)[name]
        if isinstance(owner, (list, dict))
        else getattr(owner, name)
    )


def _replaced(
    module: Any, again: Any, place: str = "", owners: tuple[int, ...] = ()
) -> dict[str, Any]:
    """The modules inside that were put in the place of others since it was made, by
    their places, as `described` tells them. `again` is the module as it was made.
    """
    found: dict[str, Any] = {}
    owners = *owners, id(module)  # to which a part may refer back
    for name, part in _inside(module).items():
        other = _inside(again).get(name)
        if other is None and isinstance(again, (list, dict)):
            continue  # an addition, which no setting told of
        if isinstance(part, (list, dict)) and type(other) is type(part):
            if id(part) not in owners:
                found |= _replaced(part, other, f"{place}{name}.", owners)
            continue
        if not isinstance(part, Module) or id(part) in owners:
            continue
        with contextlib.suppress(RunError):
            told = described(part)
            if not isinstance(other, Module) or told != described(other):
                found[place + name] = told
                continue
        if isinstance(other, Module):
            found |= _replaced(part, other, f"{place}{name}.", owners)
    return found


def _replace(module: Module, parts: dict[str, Any], classes: dict[str, type]) -> None:
    """Put modules, as `described` tells them, into their places."""
    for place, told in parts.items():
        *path, name = place.split(".")
        owner = functools.reduce(_part, path, module)
        if isinstance(owner, list):
            owner[int(name)] = rebuilt(told, classes)
        elif isinstance(owner, dict):
            owner[name] = rebuilt(told, classes)
        else:
            setattr(owner, name, rebuilt(told, classes))


def _classes_of(modules: Iterable[ModuleType]) -> dict[str, type]:
    """The classes of the tasks and cores that a module's file names, by their names."""
    every = [vars(module) for module in modules]
    return {k: x for own in every for k, x in own.items() if isinstance(x, type)}


def _cores_in(value: Any) -> set[str]:
    """The cores that the settings of a module, or dataclasses in them, choose."""
    if isinstance(value, cores.CoreConfig):
        return {value.core, *value.settings}
    if hasattr(value, "named_parameters"):
        value = settings_of(value)
    elif dataclasses.is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        value = [*value.values()]
    several = value if isinstance(value, (list, tuple)) else ()
    return {name for each in several for name in _cores_in(each)}


def _share(module: Module, shared: Iterable) -> None:
    """Let what stood in several places of a module stand there again: see `ties`."""
    for place, source in shared:
        if [place, source] not in map(list, ties(module)):
            tie(module, place, source)


def _ours() -> dict[str, type]:
    """The modules and settings of the package by name."""
    both = vars(nn) | vars(cores)
    return {name: kind for name, kind in both.items() if isinstance(kind, type)}


def _alike(one: Any, other: Any) -> bool:
    """Whether they are equal; arrays in one precision or another."""
    if isinstance(one, np.ndarray) and np.shape(one) == np.shape(other):
        return np.allclose(one, other, rtol=1e-5, equal_nan=True)
    return type(one) is type(other) and repr(one) == repr(other)


def _held(module: Module) -> dict[str, Any]:
    """All by which two modules can differ, but for the numbers in their parameters."""
    tensors = dict(walk("", module, set(), Tensor))
    held = {
        k: x.shape if isinstance(x, Parameter) else x.data for k, x in tensors.items()
    }
    return made_as(module) | held | dict(walk("", module, set(), np.ndarray))


def warm_start(model: Module, path: Path, run_config: dict) -> str:
    """Take the weights of a run, a file or a shipped network, where names and shapes
    agree; says what was taken and what not, and lets a new run's configuration name its
    source. UsageError if nothing was taken.
    """
    path = path.expanduser()
    data_dir = run_config.get("places", {}).get("data_dir")
    told: list[str] = []
    folder = Path(data_dir).expanduser() if data_dir else None
    source = load_model(path, folder, tell=told.append)
    run_config["init"] = stored_path(path) if path.exists() else str(path)
    found = source.arrays()
    own = model.arrays()
    taken = {n: x for n, x in found.items() if n in own and x.shape == own[n].shape}
    if not taken:
        raise UsageError(
            f"--init {path}: no parameter has a name and shape of this network; there "
            f"are {', '.join([*found][:3])} ..., here {', '.join([*own][:3])} ..."
        )
    model.load_parameters(own | taken)
    says = [f"{len(taken)} of {len(own)} parameters from {path}", *told]
    for name in sorted({*own, *found} - taken.keys()):
        here, there = (x[name].shape if name in x else "none" for x in (own, found))
        says.append(f"not taken: {name}, {there} there, {here} here")
    for name, part in model.children():
        other = getattr(source, name, part)
        if isinstance(part, Module) and repr(part) != repr(other):
            says.append(f"other settings: {name} was {other!r}")
    before = drawn_constants(source)
    for name, constant in drawn_constants(model).items():
        there = before[name].value.shape if name in before else "none"
        if there == constant.value.shape:
            constant.set(before[name].value)
            says.append(f"taken too: {name}, which was drawn with them")
        else:
            here = constant.value.shape
            says.append(f"not taken: {name}, {there} there, {here} here")
    return "\n      ".join(says)
