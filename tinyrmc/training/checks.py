"""Mistakes in a task that would go unnoticed, told in the words of its author."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import math
import textwrap
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..autograd.engine import Tensor
from ..config import check_values, is_place, reader_of
from ..errors import nearest
from .discovery import TaskError

OWN_NAMES = {"loss", "step", "samples", "seconds"}  # of the loop, in a line of metrics

# the arguments with which the loop calls a task's methods
CALLED_WITH = {
    "build": ("seed",),
    "stream": ("model", "seed"),
    "draw": ("rng", "count"),
    "loss": ("model", "batch", "carry"),
}
# and those of a task with several sets of held-out examples
TOLD_WHICH = {
    "held_out": ("split",),
    "evaluate": ("model", "worker", "workers", "xp", "split"),
}


def check_class(kind: Any) -> None:
    """TaskError unless a class of tasks has sets of held-out examples named by words,
    presets whose configurations can be flags, and methods that the loop can call.
    """
    splits = kind.splits
    words = isinstance(splits, tuple) and all(map(str.isalnum, splits))
    if not (words and splits):
        raise TaskError(
            f"{kind.__name__}.splits must be a tuple of words of letters, as in "
            f'("validation", "test"), not {splits!r}'
        )
    for name, names in (CALLED_WITH | (TOLD_WHICH if len(splits) > 1 else {})).items():
        try:
            inspect.signature(getattr(kind, name)).bind(None, *names)
        except TypeError:
            takes = ", ".join(["self", *names])
            raise TaskError(f"{kind.__name__}.{name} must take ({takes})") from None
    for name, preset in kind.presets.items():
        pair = isinstance(preset, tuple | list) and len(preset) == 2
        if not pair or not hasattr(type(preset[1]), "__dataclass_fields__"):
            raise TaskError(
                "presets must be {name: (description, config)}, the config an instance "
                f"of a dataclass; {name!r} is {_told(preset)}"
            )
        if not hasattr(preset[1], "train"):
            raise TaskError(
                f"{type(preset[1]).__name__}, the config of the preset {name!r}, has "
                "no field train; declare it: train: training.TrainConfig = "
                "field(default_factory=training.TrainConfig)"
            )
        _check_fields(preset[1])


def _check_fields(config: Any) -> None:
    """TaskError if something in the class looks like a field but has no type, or a
    field cannot be a flag, or its value is not of its type.
    """
    kind = type(config)
    for name, value in vars(kind).items():
        method = callable(value) or hasattr(value, "__get__")
        known = name.startswith("_") or name in kind.__dataclass_fields__
        if not (known or method):
            raise TaskError(
                f"{kind.__name__}.{name} has no type, so it is not a flag; write "
                f"{name}: {type(value).__name__} = {value!r}, or {name}: "
                f"typing.ClassVar = {value!r} if it is not a setting"
            )
    name = kind.__name__
    try:
        check_values(config, kind.__name__)
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(config):
            if dataclasses.is_dataclass(value := getattr(config, field.name)):
                _check_fields(value)
                continue
            name, hint = f"{kind.__name__}.{field.name}", hints[field.name]
            reader_of(hint)
            if not is_place(field) and Path in (hint, *typing.get_args(hint)):
                raise TypeError(
                    "it is a path, which says where something lies and not what is "
                    f"computed; write {field.name}: Path | None = field(default=None, "
                    "metadata=PLACE), with PLACE from tinyrmc.config"
                )
    except TaskError:
        raise
    except (ValueError, NameError, TypeError) as error:
        raise TaskError(f"{name}: {error}") from None


def check_given(task: Any, method: str, value: Any, kind: type) -> Any:
    """What a method has returned; TaskError unless it is of this kind."""
    if not isinstance(value, kind):
        raise TaskError(
            f"{type(task).__name__}.{method}() must return a {kind.__name__}, not a "
            f"{type(value).__name__}"
        )
    return value


def check_result(task: Any, result: Any, examples: int | None = None) -> tuple:
    """What a task's `loss` has returned: (sum, count, metrics, carry).

    TaskError if it is something else, or carries on another number of examples.
    """
    loss = f"{type(task).__name__}.loss()"
    whole = isinstance(result, tuple) and len(result) == 4
    if not (whole and isinstance(result[2], dict)):
        raise TaskError(
            f"{loss} must return (sum, count, {{metric: (sum, count)}}, carry), not "
            f"{_told(result)}"
        )
    total, count, metrics, carry = result
    if not isinstance(total, Tensor) or total.shape != ():
        shape = list(getattr(total, "shape", ()))
        raise TaskError(
            f"{loss} must give the sum of its losses as a Tensor with one number, not "
            f"a {type(total).__name__} {shape}; see primitives.sum"
        )
    if not _is_one(count) or (
        isinstance(count, int | float) and not 0 <= count < math.inf
    ):
        raise TaskError(
            f"{loss} must give the count of its losses, not {_told(count)}; it is how "
            "many numbers the sum is of, such as losses.size"
        )
    for name, pair in metrics.items():
        if name in OWN_NAMES:
            raise TaskError(
                f"{loss} calls a metric {name!r}, a name that every line of metrics "
                "has already; call it something else"
            )
        if not (isinstance(pair, tuple | list) and [*map(_is_one, pair)] == [True] * 2):
            raise TaskError(
                f"{loss} must give metrics as {{name: (sum, count)}}, not {name!r}: "
                f"{_told(pair)}; sum and count are single numbers, a Tensor's its .data"
            )
    if carry is not None and examples is not None:
        check_given(task, "loss", carry, dict)
        _check_carry(task, carry, examples)
    return result


def _is_one(value: Any) -> bool:
    """Whether a value is a single number, here or on the GPU; NaN is one too."""
    plain = not isinstance(value, Tensor)
    return isinstance(value, int | float) or (
        plain and getattr(value, "shape", 0) == ()
    )


def _told(value: Any) -> str:
    """A value as part of one line, which a large array would break."""
    return textwrap.shorten(repr(value), 200, placeholder=" ...")


def _check_carry(task: Any, carry: Any, examples: int) -> None:
    name = type(task).__name__
    if not task.carries:
        raise TaskError(
            f"{name}.loss() gives a carry, but {name} does not say carries = True; "
            "say so, or give None"
        )
    for key, x in carry.items():
        if isinstance(x, Tensor) or getattr(x, "shape", ())[:1] != (examples,):
            shape = list(getattr(x, "shape", ()))
            raise TaskError(
                f"the carry {key!r} of {name}.loss() is a {type(x).__name__} {shape}; "
                f"it must be an array with a row for each of the {examples} examples, "
                "of a Tensor its .data"
            )


def check_metrics(task: Any, given: Mapping[str, float], references: Any = ()) -> None:
    """TaskError unless evaluation gives the metric that says how well a run does, and
    those that a task has references for.
    """
    if task.watched not in given:
        split = f"{task.splits[0]}_"
        names = [name.removeprefix(split) for name in given]
        raise TaskError(
            f"{type(task).__name__}.headline is {task.headline!r}, which evaluation "
            f"does not give; set it to one of these: {', '.join(names)}"
        )
    for name in references:
        if name not in given:
            raise TaskError(
                f"{type(task).__name__}.references() names {name!r}, which evaluation "
                f"does not give; it gives {', '.join(given)}{nearest(name, given)}"
            )


@contextlib.contextmanager
def telling(examples: int) -> Iterator[None]:
    """Adds to an exception that its shapes are those of a single example.

    Its reader might expect those of a batch.
    """
    try:
        yield
    except Exception as error:
        if examples == 1 and not isinstance(error, TaskError):
            error.add_note("(checked with one example drawn by the task)")
        raise
