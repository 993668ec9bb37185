"""Mistakes in a task that would go unnoticed, told in the words of its author."""

from __future__ import annotations

import dataclasses
import textwrap
import typing
from collections.abc import Mapping
from typing import Any

from ..autograd.engine import Tensor
from ..config import check_values, wanted
from ..errors import nearest
from .discovery import TaskError

OWN_NAMES = {"loss", "step", "samples", "seconds"}  # of the loop, in a line of metrics


def check_class(kind: Any) -> None:
    """TaskError unless a class of tasks has sets of held-out examples named by words,
    and presets whose configurations can be flags: each setting has a type, one that a
    flag can have, and a value of that type.
    """
    name = kind.__name__
    if not (isinstance(kind.splits, tuple) and all(map(str.isalnum, kind.splits))):
        raise TaskError(
            f"{name}.splits must be a tuple of words of letters, as in "
            f'("validation", "test"), not {kind.splits!r}'
        )
    configs = [config for _, config in kind.presets.values()]
    for config in configs:
        owner = type(config)
        name = owner.__name__
        for each, value in vars(owner).items():
            known = each.startswith("_") or each in owner.__dataclass_fields__
            if not (known or callable(value) or hasattr(value, "__get__")):
                raise TaskError(
                    f"{name}.{each} has no type, so it is not a flag; write {each}: "
                    f"{type(value).__name__} = {value!r}, or {each}: typing.ClassVar = "
                    f"{value!r} if it is not a setting"
                )
        try:
            check_values(config, name)
            hints = typing.get_type_hints(owner)
            for field in dataclasses.fields(config):
                name = f"{owner.__name__}.{field.name}"
                value = getattr(config, field.name)
                if dataclasses.is_dataclass(value):
                    configs.append(value)
                else:
                    wanted(hints[field.name])
        except (ValueError, NameError, TypeError) as error:
            raise TaskError(f"{name}: {error}") from None


def check_given(task: Any, method: str, value: Any, kind: type) -> Any:
    """The result of a method; TaskError unless it is of this kind."""
    if not isinstance(value, kind):
        raise TaskError(
            f"{type(task).__name__}.{method}() must return a {kind.__name__}, not a "
            f"{type(value).__name__}"
        )
    return value


def check_result(task: Any, result: Any, examples: int | None = None) -> tuple:
    """The result of a task's `loss`: (sum, count, metrics, carry).

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
        single = isinstance(pair, tuple | list) and len(pair) == 2
        for value in pair if single else ():
            array = (
                not isinstance(value, Tensor) and getattr(value, "shape", None) == ()
            )
            single &= array or isinstance(value, int | float)
        if not single:
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
    if carry is None or examples is None:
        return result
    if not task.carries:
        raise TaskError(f"{loss} gives a carry; say carries = True, or give None")
    for key, x in check_given(task, "loss", carry, dict).items():
        if isinstance(x, Tensor) or getattr(x, "shape", ())[:1] != (examples,):
            shape = list(getattr(x, "shape", ()))
            raise TaskError(
                f"the carry {key!r} of {loss} is a {type(x).__name__} {shape}; it must "
                f"be an array with a row for each of the {examples} examples, of a "
                "Tensor its .data"
            )
    return result


def _told(value: Any) -> str:
    """A value as part of one line, which a large array would break."""
    return textwrap.shorten(repr(value), 200, placeholder=" ...")


def check_headline(task: Any, given: Mapping[str, float]) -> None:
    """TaskError unless evaluation gives the metric that says how well a run does."""
    if (name := task.watched) not in given:
        raise TaskError(
            f"{type(task).__name__}.headline asks for {name!r}, which evaluation does "
            f"not give; it gives {', '.join(given)}{nearest(name, given)}"
        )
