"""Mistakes in a task that would go unnoticed, or be told in words of ours, in the words
of its author: one line each, from one table.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..autograd.engine import Tensor
from ..backend import namespace
from ..config import check_values, hints_of, values_of, wanted
from ..errors import counted, is_integer, is_number, nearest
from ..nn import Module
from .discovery import TaskError
from .streams import BLOCK, Batch, Samples, Stream

# of the loop, in a line of metrics
OWN_NAMES = (
    "loss step stage samples seconds learning_rate gradient_norm skipped_updates"
).split()
# what a task may have besides, and what it is given
MORE = {"pictures": "self model folder", "analyses": "self model"}

SAYS = {
    "splits": "{name}.splits must be a tuple of words of letters, as in "
    '("validation", "test"), not {found!r}',
    "presets": "{name}.presets must be named by words, not by {found!r}",
    "state alone": "{name} must have both state and load_state, or neither: in "
    "workers, and where a run goes on, one takes back what the other gave",
    "no flag": "{field} has no type, so it is not a flag; write {word}: {kind} = "
    "{found!r}, or {word}: typing.ClassVar = {found!r} if it is not a setting",
    "value": "{field}: {found}",
    "arguments": "{name}.{method}, in line {line}, must take ({wanted}), and takes "
    "{found}",
    "draw": "{name} needs a method draw, data, or stream and held_out",
    "data": "{name}.data({part!r}) must give arrays of as many rows as there are "
    "examples, not {found}",
    "examples": "{name}.test_examples must be at least 1, not {found!r}",
    "references": "{name}.references() must give {{metric: {{label: number}}}}, not "
    "{metric!r}: {found}",
    "state": "{name}.state() must give what JSON holds: {found}",
    "metric": "{name}.{method}() calls a metric {found!r}, a name that the training "
    "loop has for its own; call it something else",
    "kind": "{name}.{method}() must return a {wanted}, not a {found}",
    "loss": "{name}.loss() must return (sum, count, {{metric: (sum, count)}}, carry), "
    "not {found}",
    "sum": "{name}.loss() must give the sum of its losses as a Tensor with one "
    "number, not {found}; see primitives.sum",
    "pair": "{name}.loss() must give metrics as {{name: (sum, count)}}, not "
    "{metric!r}: {found}; sum and count are single numbers, a Tensor's its .data",
    "count": "{name}.loss() must give the count of its losses, not {found}",
    "carries": "{name}.loss() gives a carry; say carries = True, or give None",
    "carry": "the carry {key!r} of {name}.loss() is a {found}; it must be an array "
    "with a row for each of the {examples} examples, of a Tensor its .data",
    "mean": "{name}.loss() gives {which} as a mean beside a count: {one}, and of the "
    "same examples twice {two}; give sums (primitives.sum), or the count 1 beside a "
    "mean",
    "detached": "{name}.loss() gives a sum that depends on no parameter; was "
    "something detached, as .data is?",
    "headline": "{name}.headline asks for {wanted!r}, which evaluation does not give; "
    "it gives {found}{near}",
}


def mistake(task: Any, what: str, **told: Any) -> TaskError:
    """The error that tells of one of these mistakes. `task`: a task, or its class."""
    kind = task if isinstance(task, type) else type(task)
    return TaskError(SAYS[what].format(name=kind.__name__, **told))


def _told(value: Any) -> str:
    """A value as part of one line, which a large array would break."""
    return textwrap.shorten(repr(value), 200, placeholder=" ...")


# --- In its class ---------------------------------------------------------------------


def check_class(kind: Any, base: Any) -> None:
    """TaskError unless a class of tasks has sets of held-out examples named by words,
    methods that take what those of the `base`, `Task`, take, and presets whose
    configurations can be flags: each setting has a type, one that a flag can have, and
    a value of that type.
    """
    named = isinstance(kind.splits, tuple) and len(kind.splits) > 0
    if not (named and all(map(str.isalnum, kind.splits))):
        raise mistake(kind, "splits", found=kind.splits)
    if wrong := [x for x in kind.presets if not re.fullmatch(r"'\w[\w.-]*'", repr(x))]:
        raise mistake(kind, "presets", found=wrong[0])
    if (kind.state is base.state) != (kind.load_state is base.load_state):
        raise mistake(kind, "state alone")
    _check_methods(kind, base)
    configs = [config for _, config in kind.presets.values()]
    for config in configs:
        owner = type(config)
        field = owner.__name__
        for word, x in vars(owner).items():
            known = word.startswith("_") or word in owner.__dataclass_fields__
            if not (known or callable(x) or hasattr(x, "__get__")):
                of = {"kind": type(x).__name__, "found": x}
                raise mistake(kind, "no flag", field=f"{field}.{word}", word=word, **of)
        try:
            check_values(config, field)
            hints = hints_of(owner)
            for word, x in values_of(config).items():
                field = f"{owner.__name__}.{word}"
                if dataclasses.is_dataclass(x):
                    configs.append(x)
                else:
                    wanted(hints[word])
        except (ValueError, NameError, TypeError) as error:
            raise mistake(kind, "value", field=field, found=error) from None


def _check_methods(kind: Any, base: Any) -> None:
    given = {
        name: " ".join(inspect.signature(method).parameters)
        for name, method in inspect.getmembers(base, inspect.isfunction)
    }
    for name, words in (given | MORE).items():
        method = inspect.getattr_static(kind, name, None)
        asked = words.split()
        if name in ("held_out", "evaluate") and len(kind.splits) == 1:
            asked.pop()  # they are not told which
        try:
            if inspect.isfunction(method):
                inspect.signature(method).bind(*asked)
        except TypeError:
            at = {"method": name, "line": method.__code__.co_firstlineno}
            takes = {"wanted": ", ".join(asked), "found": inspect.signature(method)}
            raise mistake(kind, "arguments", **at, **takes) from None


# --- In what it gives -----------------------------------------------------------------


def check_own(task: Any, step: int) -> None:
    """TaskError for what a task tells of itself in a form that would fail later on."""
    for split in task.splits:
        if not is_integer(count := task.examples(split)) or count < 1:
            raise mistake(task, "examples", found=count)
    told = check_given(task, "references", task.references(), dict)
    for metric, marks in told.items():
        if not (isinstance(marks, dict) and all(map(is_number, marks.values()))):
            raise mistake(task, "references", metric=metric, found=_told(marks))
    placed = check_given(task, "place", task.place(step), dict)
    _check_names(task, "place", {*placed} - {"stage"})
    state = check_given(task, "state", task.state(), dict)
    try:
        text = json.dumps(state)
    except (TypeError, ValueError) as error:
        raise mistake(task, "state", found=error) from None
    task.load_state(json.loads(text))


def _check_names(task: Any, method: str, names: Iterable[str]) -> None:
    """TaskError for metrics that are called as what the loop itself writes."""
    own = tuple(f"{each}_" for each in (*task.splits, "best_batch"))
    for name in names:
        if name in OWN_NAMES or name.startswith(own):
            raise mistake(task, "metric", method=method, found=name)


def check_given(task: Any, method: str, value: Any, kind: type) -> Any:
    """The result of a method; TaskError unless it is of this kind, or gives a list's
    items as a tuple or one by one.
    """
    several = kind is list and isinstance(value, tuple | Iterator)
    if not (isinstance(value, kind) or several):
        kinds = {"wanted": kind.__name__, "found": type(value).__name__}
        raise mistake(task, "kind", method=method, **kinds)
    return value


def check_result(task: Any, result: Any, examples: int | None = None) -> tuple:
    """The result of a task's `loss`: (sum, count, metrics, carry).

    TaskError if it is something else, or carries on another number of examples.
    """
    whole = isinstance(result, tuple) and len(result) == 4
    if not (whole and isinstance(result[2], dict)):
        raise mistake(task, "loss", found=_told(result))
    total, count, metrics, carry = result
    if not isinstance(total, Tensor) or total.shape != ():
        raise mistake(task, "sum", found=_told(total))
    for name, pair in {"loss": (total.data, count), **metrics}.items():
        single = isinstance(pair, tuple | list) and len(pair) == 2
        for value in pair if single else ():
            bare = getattr(value, "shape", None) == () and not isinstance(value, Tensor)
            single &= bare or isinstance(value, int | float)
        if not single:
            raise mistake(task, "pair", metric=name, found=_told(pair))
    _check_names(task, "loss", metrics)
    if isinstance(count, int | float) and not count >= 0:
        raise mistake(task, "count", found=count)
    if carry is None or examples is None:
        return result
    if not task.carries:
        raise mistake(task, "carries")
    for key, x in check_given(task, "loss", carry, dict).items():
        if isinstance(x, Tensor) or getattr(x, "shape", ())[:1] != (examples,):
            found = f"{type(x).__name__} {[*getattr(x, 'shape', ())]}"
            raise mistake(task, "carry", key=key, found=found, examples=examples)
    return result


def check_sums(task: Any, model: Module, batch: Batch) -> list[str]:
    """TaskError for a `loss` that gives a mean beside a count: of a batch twice over
    the count is twice as large, and a sum should be, too. A note, if that of two
    examples is not the sum of theirs.
    """
    xp = namespace(next(iter(batch.values())))
    twice = {name: xp.concatenate([x, x]) for name, x in batch.items()}
    alone = ({name: x[k : k + 1] for name, x in batch.items()} for k in range(2))
    found = []
    for each in batch, twice, *alone:
        given, carry = task.prepare(model, each, None)
        total, count, metrics, _ = check_result(task, task.loss(model, given, carry))
        pairs = {"loss": (total.data, count), **metrics}
        found.append({k: (float(x), float(n)) for k, (x, n) in pairs.items()})
    for name, (total, count) in found[0].items():
        both, twofold = found[1].get(name, (0.0, 0.0))
        if twofold == 2 * count != 0 and abs(both - total) < 1e-4 * abs(total):
            says = "the loss" if name == "loss" else f"the metric {name!r}"
            seen = {"one": f"{total:.6g} with {count:.6g}"}
            seen["two"] = f"{both:.6g} with {twofold:.6g}"
            raise mistake(task, "mean", which=says, **seen)
    (both, count), _, *halves = (pairs["loss"] for pairs in found)
    one, other = (total for total, _ in halves)
    off = abs(both - one - other) > 1e-3 * (abs(one) + abs(other))
    if not off or count != sum(n for _, n in halves):
        return []
    says = f"the loss of two examples together is {both:.6g}, and of each alone "
    says += f"{one:.6g} and {other:.6g}: something mixes the examples of a batch, such "
    return [f"{says}as a softmax over its axis 0; what is measured depends on that"]


def check_headline(task: Any, given: Mapping[str, float]) -> None:
    """TaskError unless evaluation gives the metric that says how well a run does."""
    if (name := task.watched) not in given:
        found = {"found": ", ".join(given), "near": nearest(name, given)}
        raise mistake(task, "headline", wanted=name, **found)


# --- What may be meant so -------------------------------------------------------------


def drawn_twice(stream: Stream) -> list[str]:
    """A note, if a stream gives other examples for the same step the second time, or
    `draw` gives the same for the next step.
    """
    one, other = stream.batch(0, 0, 2), stream.batch(0, 0, 2)
    differ = [k for k in one if not np.array_equal(one[k], other[k], _numbers(one[k]))]
    if differ:
        says = f"the first batch, drawn twice, differs in {', '.join(differ)}: no run "
        says += "can be repeated or resumed exactly; take all random numbers from the "
        return [f"{says}`rng` that `draw` is given, none from np.random"]
    if not isinstance(stream, Samples):
        return []
    one, other = stream.batch(0, 0, BLOCK), stream.batch(1, 0, BLOCK)
    same = [
        name
        for name, x in one.items()
        if np.array_equal(x, other[name], _numbers(x)) and np.any(x != x[:1])
    ]
    says = f"{', '.join(same)} of the first batch comes again in the next, row by row: "
    says += "all batches are the same, and what they hold is learnt by heart; take all "
    says += "random numbers from the `rng` that `draw` is given, not from one of its "
    return [f"{says}own, such as default_rng(0)"] if same else []


def known_before(task: Any, stream: Stream) -> list[str]:
    """Notes on sets of held-out examples, a tenth of which or more is in the training
    part of `data`; or else, of which the first ones are all in the first two batches.
    """
    parts, notes = task._parts, []
    size = task.config.train.batch_size
    most = BLOCK if isinstance(stream, Samples) else min(size, 2 * BLOCK)
    first = [stream.batch(step, 0, most) for step in (0, 1)]
    where = "in the training part" if parts else "in the first two training batches"
    train = {*_rows(parts["train"])} if parts else {x for b in first for x in _rows(b)}
    for split in task.splits:
        held = task.held_out(*task.naming(split))
        count = task.examples(split)
        rows = _rows(held.batch(0, 0, count if parts else min(count, BLOCK)))
        seen = sum(row in train for row in rows)
        if seen >= len(rows) / (10 if parts else 1):
            says = f"of {len(rows):,} examples of {split} {seen:,} are {where}, too: "
            notes.append(f"{says}there it measures what may be learnt by heart")
    return notes


def _rows(batch: Batch) -> list[int]:
    """A hash of each example."""
    arrays = (np.asarray(batch[name]) for name in sorted(batch))
    return [hash(tuple(x.tobytes() for x in row)) for row in zip(*arrays, strict=True)]


def not_finite(batch: Batch, of: str) -> list[str]:
    """The arrays of a batch that are not finite, in words."""
    found = []
    for name, x in batch.items():
        if _numbers(x) and not (fine := np.isfinite(x)).all():
            bad = np.flatnonzero(~fine.reshape(len(fine), -1).all(axis=1))
            rows = f"{counted(len(bad), 'row')}, first in row {bad[0]:,}"
            found.append(f"{name!r} of {of} holds NaN or infinity in {rows}")
    return found


def _numbers(x: Any) -> bool:
    """Whether an array may hold NaN, which differs from itself."""
    return np.asarray(x).dtype.kind in "fc"


def unreached(model: Module, tape: Any, loss: int) -> list[str]:
    """A note on the parameters on which a loss, with this id on the tape, does not
    depend, though others do.
    """
    reached = {loss}
    for _, _, inputs, outputs, _, _ in reversed(tape.entries):
        if any(place[0] in reached for place in outputs):
            reached |= {place[0] for place in inputs if place}
    cut = [name for name, x in model.named_parameters() if x.id not in reached]
    if not cut:
        return []
    names = ", ".join(cut[:4]) + f" and {len(cut) - 4} more" * (len(cut) > 4)
    several = "parameters get" if len(cut) > 1 else "parameter gets"
    says = f"{len(cut)} {several} no gradient from the loss, and will not learn: "
    return [f"{says}{names}; was something detached, as .data is?"]
