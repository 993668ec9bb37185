"""Mistakes in a task that would go unnoticed, told in the words of its author."""

from __future__ import annotations

import dataclasses
import textwrap
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..autograd.engine import Tensor
from ..config import check_values, is_place, reader_of
from ..errors import nearest
from .discovery import TaskError

OWN_NAMES = {"loss", "step", "samples", "seconds"}  # of the loop, in a line of metrics


def check_class(kind: Any) -> None:
    """TaskError unless a class of tasks has sets of held-out examples named by words,
    and presets whose configurations can be flags.
    """
    words = isinstance(kind.splits, tuple) and all(map(str.isalnum, kind.splits))
    if not (words and kind.splits):
        raise TaskError(
            f"{kind.__name__}.splits must be a tuple of words of letters, as in "
            f'("validation", "test"), not {kind.splits!r}'
        )
    for _, config in kind.presets.values():
        _check_fields(config)


def _check_fields(config: Any) -> None:
    """TaskError if something in the class looks like a field but has no type, or a
    field cannot be a flag, or its value is not of its type.
    """
    kind = type(config)
    name = kind.__name__
    for each, value in vars(kind).items():
        known = each.startswith("_") or each in kind.__dataclass_fields__
        if not (known or callable(value) or hasattr(value, "__get__")):
            raise TaskError(
                f"{name}.{each} has no type, so it is not a flag; write {each}: "
                f"{type(value).__name__} = {value!r}, or {each}: typing.ClassVar = "
                f"{value!r} if it is not a setting"
            )
    try:
        check_values(config, name)
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(config):
            if dataclasses.is_dataclass(value := getattr(config, field.name)):
                _check_fields(value)
                continue
            name, hint = f"{kind.__name__}.{field.name}", hints[field.name]
            reader_of(hint)
            if not is_place(field) and Path in (hint, *typing.get_args(hint)):
                raise ValueError(
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
        raise TaskError(
            f"{loss} must give the sum of its losses as a Tensor with one number, not "
            f"{_told(total)}; see primitives.sum"
        )
    for name, pair in {"loss": (total.data, count), **metrics}.items():
        if not (isinstance(pair, tuple | list) and [*map(_is_one, pair)] == [True] * 2):
            raise TaskError(
                f"{loss} must give metrics as {{name: (sum, count)}}, not {name!r}: "
                f"{_told(pair)}; sum and count are single numbers, a Tensor's its .data"
            )
    if taken := OWN_NAMES & metrics.keys():
        raise TaskError(
            f"{loss} calls a metric {min(taken)!r}, a name that every line of metrics "
            "has already; call it something else"
        )
    if isinstance(count, int | float) and not count >= 0:
        raise TaskError(f"{loss} must give the count of its losses, not {count}")
    if carry is not None and examples is not None:
        _check_carry(task, check_given(task, "loss", carry, dict), examples)
    return result


def _is_one(value: Any) -> bool:
    """Whether a value is a single number, here or on the GPU; NaN is one too."""
    if isinstance(value, int | float):
        return True
    return not isinstance(value, Tensor) and getattr(value, "shape", None) == ()


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


def check_metrics(
    task: Any, given: Mapping[str, float], references: Iterable[str] = ()
) -> None:
    """TaskError unless evaluation gives the metric that says how well a run does, and
    those that a task has references for.
    """
    for name in task.watched, *references:
        if name not in given:
            where = "headline" if name == task.watched else "references()"
            raise TaskError(
                f"{type(task).__name__}.{where} asks for {name!r}, which evaluation "
                f"does not give; it gives {', '.join(given)}{nearest(name, given)}"
            )
