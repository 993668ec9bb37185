"""What the author of a task may get wrong, said in the author's words."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import math
import re
import textwrap
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..autograd.engine import Tensor
from ..config import check_values, is_place, reader_of
from ..errors import is_integer, is_number, nearest
from ..nn import Module
from .discovery import TaskError
from .streams import Stream
from .train_config import LARGEST

TRAIN_FIELD = (
    "train: training.TrainConfig = field(default_factory=training.TrainConfig)"
)


_MUST = "__isabstractmethod__"  # what abc.abstractmethod leaves on a function

OWN_NAMES = {"loss", "step", "samples", "seconds"}  # of the loop, in a line of metrics

# the arguments with which the loop calls a task's methods
CALLED_WITH = {
    "build": ("seed",),
    "stream": ("model", "seed"),
    "draw": ("rng", "count"),
    "loss": ("model", "batch", "carry"),
    "examples": ("split",),
}


# and those of a task with several sets of held-out examples
TOLD_WHICH = {
    "held_out": ("split",),
    "evaluate": ("model", "worker", "workers", "xp", "split"),
}


def check_methods(kind: Any) -> None:
    """TaskError unless a task has the methods that it must give, and all can be called
    as the loop calls them.
    """
    given = {name: getattr(kind, name) for name in dir(kind)}
    missing = [name for name, x in given.items() if getattr(x, _MUST, False)]
    if missing:
        raise TaskError(
            f"{kind.__name__} lacks {', '.join(missing)}, which every such task gives; "
            f"{missing[0]} is described in {_base_of(kind, missing[0])}"
        )
    several = len(kind.splits) > 1
    for name, names in {**CALLED_WITH, **(TOLD_WHICH if several else {})}.items():
        try:
            inspect.signature(getattr(kind, name)).bind(None, *names)
        except TypeError:
            takes = ", ".join(["self", *names])
            raise TaskError(f"{kind.__name__}.{name} must take ({takes})") from None


def _base_of(kind: Any, name: str) -> str:
    """The module of the class that says what a method is."""
    return next(each.__module__ for each in kind.__mro__ if name in vars(each))


def check_splits(kind: Any) -> None:
    """TaskError unless a task's sets of held-out examples are named by words.

    A metric is named after its set, with an underscore between.
    """
    splits = kind.splits
    words = isinstance(splits, tuple) and all(
        isinstance(word, str) and word.isalnum() for word in splits
    )
    if not (words and splits and len(set(splits)) == len(splits)):
        raise TaskError(
            f"{kind.__name__}.splits must be a tuple of different words of letters, as "
            f'in ("validation", "test"), not {splits!r}'
        )


def check_presets(kind: Any) -> None:
    """TaskError unless a task's presets are {name: (description, config)}.

    A config must be a dataclass with a field `train`.
    """
    if not isinstance(kind.presets, Mapping):
        raise TaskError(
            f"{kind.__name__}.presets must be {{name: (description, config)}}, not "
            f"{kind.presets!r}"
        )
    for name, preset in kind.presets.items():
        _check_preset(name, preset)


def _check_preset(name: str, preset: Any) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w-]*", name):
        raise TaskError(
            f"presets: {name!r} cannot be a preset's name, which is a word of letters, "
            "digits, _ and -"
        )
    pair = isinstance(preset, (tuple, list)) and len(preset) == 2
    kind = type(preset[1]) if pair else None
    if not dataclasses.is_dataclass(kind):
        got = f"a {type(preset).__name__}"
        if pair:
            got = f"({', '.join(type(part).__name__ for part in preset)})"
        raise TaskError(
            f"presets must be {{name: (description, config)}}, the config an "
            f"instance of a dataclass; {name!r} is {got}"
        )
    if "train" not in kind.__dataclass_fields__:
        raise TaskError(
            f"{kind.__name__}, the config of the preset {name!r}, has no field "
            f"train; declare it: {TRAIN_FIELD}"
        )
    _check_fields(preset[1])


def _check_fields(config: Any) -> None:
    """TaskError if something in the class looks like a field but has no type, or a
    field cannot be a flag, or its value is not of its type.
    """
    kind = type(config)
    for name, value in vars(kind).items():
        if _looks_like_a_field(kind, name, value):
            raise TaskError(
                f"{kind.__name__}.{name} has no type, so it is not a flag; write "
                f"{name}: {type(value).__name__} = {value!r}, or {name}: "
                f"typing.ClassVar = {value!r} if it is not a setting"
            )
    try:
        check_values(config, kind.__name__)
        hints = typing.get_type_hints(kind)
    except (ValueError, NameError) as error:
        raise TaskError(f"{kind.__name__}: {error}") from None
    for field in dataclasses.fields(config):
        if dataclasses.is_dataclass(value := getattr(config, field.name)):
            _check_fields(value)
        else:
            _check_flag(f"{kind.__name__}.{field.name}", hints[field.name], field)


def _check_flag(name: str, hint: Any, field: Any) -> None:
    """TaskError unless a field can be a flag."""
    try:
        reader_of(hint)
    except TypeError as error:
        raise TaskError(f"{name}: {error}") from None
    if not is_place(field) and Path in (hint, *typing.get_args(hint)):
        raise TaskError(
            f"{name} is a path, which says where something lies and not what is "
            f"computed; write {field.name}: Path | None = field(default=None, "
            "metadata=PLACE), with PLACE from tinyrmc.config"
        )


def _looks_like_a_field(kind: Any, name: str, value: Any) -> bool:
    declared = name in kind.__dataclass_fields__
    method = callable(value) or hasattr(value, "__get__")
    return not (name.startswith("_") or declared or method)


def check_result(task: Any, result: Any, examples: int | None = None) -> tuple:
    """What a task's `loss` has returned: (sum, count, metrics, carry).

    TaskError if it is something else, or carries on another number of examples.
    """
    loss = f"{type(task).__name__}.loss()"
    if not isinstance(result, tuple) or len(result) != 4:
        raise TaskError(
            f"{loss} must return (sum, count, metrics, carry), not {_told(result)}"
        )
    total, count, metrics, carry = result
    if not isinstance(total, Tensor) or total.shape != ():
        shape = list(getattr(total, "shape", ()))
        raise TaskError(
            f"{loss} must give the sum of its losses as a Tensor with one number, not "
            f"a {type(total).__name__} {shape}; see primitives.sum"
        )
    if not _is_one(count) or (is_number(count) and not 0 <= count < math.inf):
        raise TaskError(
            f"{loss} must give the count of its losses, not {_told(count)}; it is how "
            "many numbers the sum is of, such as losses.size"
        )
    if not isinstance(metrics, dict) or not all(map(_is_pair, metrics.values())):
        raise TaskError(
            f"{loss} must give metrics as {{name: (sum, count)}}, not "
            f"{_told(metrics)}; sum and count are single numbers, a Tensor's its .data"
        )
    if taken := OWN_NAMES & {*metrics}:
        raise TaskError(
            f"{loss} calls a metric {min(taken)!r}, a name that every line of metrics "
            "has already; call it something else"
        )
    if carry is not None and examples is not None:
        _check_carry(task, carry, examples)
    return result


def _is_pair(value: Any) -> bool:
    pair = isinstance(value, (tuple, list)) and len(value) == 2
    return pair and all(map(_is_one, value))


def _is_one(value: Any) -> bool:
    """Whether a value is a single number, here or on the GPU; NaN is one too."""
    if isinstance(value, Tensor):
        return False
    return isinstance(value, (int, float)) or getattr(value, "shape", None) == ()


def _told(value: Any) -> str:
    """A value as part of one line, which a large array would break."""
    return textwrap.shorten(repr(value), 200, placeholder=" ...")


def check_count(task: Any, count: Any) -> Any:
    """The count of a whole batch's losses; TaskError unless it is positive and finite.

    A piece may have 0, where all of it is masked. A count on the GPU goes unchecked,
    since nothing in a step may wait: divided by 0, the step is skipped.
    """
    known = isinstance(count, (int, float, np.number))
    if known and not 0 < count < math.inf:
        raise TaskError(
            f"{type(task).__name__}.loss() must give, beside the sum of its losses, "
            f"how many it is the sum of: at least 1 in a whole batch, not {count}"
        )
    return count


def check_rate(task: Any, step: int) -> float:
    """The learning rate of a step; TaskError unless it is not negative, and finite as
    float32.
    """
    rate = task.learning_rate(step)
    if rate is None or not 0 <= rate <= LARGEST:
        raise TaskError(
            f"{type(task).__name__}.learning_rate({step}) must give a finite number "
            f"that is not negative, not {rate}"
        )
    return rate


def check_model(task: Any, model: Any) -> Any:
    """What a task's `build` has returned; TaskError unless it is a Module."""
    if not isinstance(model, Module):
        raise TaskError(
            f"{type(task).__name__}.build() must return a network, which is an "
            f"nn.Module, not a {type(model).__name__}"
        )
    return model


def check_stream(task: Any, stream: Any) -> Stream:
    """What a task's `stream` has returned; TaskError unless it is a Stream."""
    if not isinstance(stream, Stream):
        raise TaskError(
            f"{type(task).__name__}.stream() must return a Stream, such as Samples or "
            f"Epochs, not a {type(stream).__name__}"
        )
    return stream


def check_state(task: Any) -> None:
    """TaskError unless a task's state can go to workers and into checkpoints."""
    state = task.state()
    try:
        json.dumps(state)
    except (TypeError, ValueError) as error:
        raise TaskError(
            f"{type(task).__name__}.state() must give what JSON can hold ({error}); "
            "write x.tolist() for an array, list(x) for a set"
        ) from None


def check_examples(task: Any, split: str) -> int:
    """How many examples a held-out set has; TaskError unless it has some."""
    count = task.examples(split)
    if not is_integer(count) or count < 1:
        raise TaskError(
            f"{type(task).__name__} must have at least 1 held-out example, and a whole "
            f"number of them, not {count!r}; set test_examples, or override examples"
        )
    return count


def _check_carry(task: Any, carry: Any, examples: int) -> None:
    name = type(task).__name__
    if not task.carries:
        raise TaskError(
            f"{name}.loss() gives a carry, but {name} does not say carries = True; "
            "say so, or give None"
        )
    if not isinstance(carry, dict):
        raise TaskError(
            f"{name}.loss() must give the carry as {{name: array}} or None, not a "
            f"{type(carry).__name__}"
        )
    for key, x in carry.items():
        if isinstance(x, Tensor):
            raise TaskError(
                f"the carry {key!r} of {name}.loss() is a Tensor, which would hold on "
                "to this step's tape; give its .data"
            )
        shape = getattr(x, "shape", ())
        if not shape or shape[0] != examples:
            raise TaskError(
                f"the carry {key!r} of {name}.loss() has the shape {list(shape)}; it "
                f"must have a row for each of the {examples} examples"
            )


def check_headline(task: Any, given: Mapping[str, float]) -> None:
    """TaskError unless evaluation gives the metric that says how well a run does."""
    if task.watched not in given:
        kind, split = type(task).__name__, f"{task.splits[0]}_"
        names = [name.removeprefix(split) for name in given]
        raise TaskError(
            f"{kind}.headline is {task.headline!r}, which evaluation does not give; "
            f"set it to one of these: {', '.join(names)}"
        )


def check_references(task: Any, given: Mapping[str, float]) -> None:
    """TaskError if a task has references for a metric that evaluation does not give, or
    they are no numbers.
    """
    found = task.references()
    if not isinstance(found, Mapping) or not all(
        isinstance(each, Mapping) and all(map(is_number, each.values()))
        for each in found.values()
    ):
        kind = type(task).__name__
        raise TaskError(
            f"{kind}.references() must give {{metric: {{label: number}}}}, not "
            f"{found!r}"
        )
    for name in found:
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
