"""Where a trained memory looks, and whether that matters.

Maps of attention mislead: a slot may hear what it knew already, and what it hears must
still pass the gates. So how much attention goes where is set beside what attention to
everything alike would give, and then tested: parts of the memory are taken away,
attention is cut, and the right answers counted again.

All figures rest on these definitions. The marked step of an example is the one at which
the item came that its question is about.

    intake    of a slot: its attention to the input at the marked step (mean over heads,
              in the last block) times its input gate at that step (mean over units; 1
              where there are no gates). What the slot forgets later is not subtracted.
    holders   the slots that took it in: the fewest slots which together have half of the example's intake.
    controls  as many other slots, drawn at random (one fewer, where more than half of the slots are holders).
    reset     a slot's row becomes its first value again, right after the marked step. The network knows that value, it begins with it,
              and may take in again what comes from then on.
    swapped   a slot's row is exchanged, after the last step, for that of the same slot
              in another sequence: of the usual form, but it says nothing about this
              one. (A first value would be something that the readout never sees at the
              end.)
    cut       attention that is forbidden at the steps before, or after, the marked one.
              What remains still sums to 1, and the gates see the input as ever.

The module knows cores, but no task: a task says what it asks in `Task.questions`, and
its network must have a `core` that reads the inputs step by step and a `head` that
answers from the core's last output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .. import primitives as p
from ..backend import namespace, to_device, to_host
from ..cores.relational import PaperRelationalMemory, RelationalMemory
from ..engine import Tensor
from ..errors import RunError
from ..training.task import HELD_OUT_SEED, PIECE, Samples

PLACES = (
    "input",
    "holders",
    "others",
)  # to which attention goes: the last are all slots that are not holders
PERIODS = ("before", "at", "after")  # the marked step


@dataclass(frozen=True)
class Questions:
    """A batch as an analysis sees it, example-first; `Task.questions` makes it of what
    the task drew.

    inputs: (B, T, ...) what the core reads, step by step.
    marked: (B,) the step, from 0, at which the item came that the question is about;
        called `mark` where it is shown.
    targets: (B,) the right answer, as an index of the logits.
    kinds: {metric: (B,) bool}: the accuracies to measure, and which examples count for
        each. `Task.references` has their floors, under "test_" and the metric. Examples
        that count for all of them are shown first.
    describe: row -> (the question in words, what came at each step: T dicts {name:
        text, number or list of numbers} of the same names).
    """

    inputs: np.ndarray
    marked: np.ndarray
    targets: np.ndarray
    kinds: dict[str, np.ndarray]
    describe: Callable[[int], tuple[str, list[dict]]]
    mark: str = "reference"

    def take(self, rows) -> Questions:
        """Some of the examples, by their indices."""
        kinds = {name: counts[rows] for name, counts in self.kinds.items()}
        arrays = self.inputs[rows], self.marked[rows], self.targets[rows]
        return Questions(
            *arrays, kinds, lambda row: self.describe(int(rows[row])), self.mark
        )


@dataclass(frozen=True)
class Traces:
    """What a memory did with a batch, as NumPy arrays.

    logits (B, C); attention (B, T, H, N, N + n) of the last block; gates (B, T, N, F or
    1), or None where there are none.
    """

    logits: np.ndarray
    attention: np.ndarray
    input_gate: np.ndarray | None
    forget_gate: np.ndarray | None


def held_out(task, count: int) -> Questions:
    """The first `count` of the held-out examples, on which every run of the task is
    tested. RunError if the task asks no such questions.
    """
    questions = task.questions(Samples(task.draw, HELD_OUT_SEED).batch(0, 0, count))
    if questions is None:
        raise RunError("the task does not say what its examples ask (Task.questions)")
    return questions


def has_attention(model) -> bool:
    """Whether the network's core is a memory whose slots attend."""
    return isinstance(
        getattr(model, "core", None), (RelationalMemory, PaperRelationalMemory)
    )


# --- Reading a sequence, and interfering ----------------------------------------------


def read(model, inputs, change=None, mask=None, trace=None) -> tuple:
    """The core's state after inputs (B, T, ...), as a tuple of arrays (B, N, F);
    `answer` makes logits of it.

    change(t, state) -> state takes effect after step t; mask(t) forbids attention in
    step t, as `RelationalMemory` describes it.
    """
    state = model.core.initial_state(inputs.shape[0])
    for t in range(inputs.shape[1]):
        _, state = model.core(
            inputs[:, t], state, trace, **({} if mask is None else {"mask": mask(t)})
        )
        if change is not None:
            arrays = change(t, _arrays(state))
            state = arrays if isinstance(state, tuple) else arrays[0]
    return _arrays(state)


def _arrays(state):
    return tuple(
        part.data if isinstance(part, Tensor) else part
        for part in (state if isinstance(state, tuple) else (state,))
    )


def answer(model, state):
    """The logits (B, C) that the network gives from a state of `read`.

    Either core's output is its state's last array, flattened.
    """
    return model.head(p.reshape(state[-1], (state[-1].shape[0], -1))).data


def put(state, slots, values) -> tuple:
    """A state in which the rows of `slots`, (B, N) bool, are those of the state
    `values`.
    """
    return tuple(
        namespace(now).where(slots[..., None], other, now)
        for now, other in zip(state, values, strict=True)
    )


def traces(model, inputs) -> Traces:
    """What the network does with NumPy inputs (B, T, ...), undisturbed.

    Waits for the device.
    """
    steps: list[dict] = []
    state = read(model, to_device(inputs, _namespace(model)), trace=steps)

    def stacked(name):
        return (
            np.stack([to_host(step[name]) for step in steps], axis=1)
            if name in steps[0]
            else None
        )

    return Traces(
        to_host(answer(model, state)),
        stacked("attention"),
        stacked("input_gate"),
        stacked("forget_gate"),
    )


def _namespace(model):
    return namespace(model.parameters()[0].data)


# --- How much attention goes where ----------------------------------------------------


def shares(seen: Traces, marked) -> np.ndarray:
    """Each slot's share of its example's intake, (B, N); rows sum to 1."""
    rows, slots = np.arange(len(marked)), seen.attention.shape[3]
    taken = (
        seen.attention[rows, marked, :, :, slots:].sum(-1, dtype=float).mean(axis=1)
    )  # (B, N)
    if seen.input_gate is not None:
        taken *= seen.input_gate[rows, marked].mean(axis=-1)
    return taken / taken.sum(axis=1, keepdims=True)


def holders(share: np.ndarray) -> np.ndarray:
    """(B, N) bool: the fewest slots with half of the intake; of equal ones the first."""
    order = np.argsort(-share, axis=1, kind="stable")
    ranked = np.take_along_axis(share, order, axis=1)
    chosen = np.empty(share.shape, bool)
    np.put_along_axis(
        chosen, order, np.cumsum(ranked, axis=1) - ranked < 0.5 - 1e-6, axis=1
    )
    return chosen


def controls(held: np.ndarray, seed: int = HELD_OUT_SEED) -> np.ndarray:
    """(B, N) bool: for each example as many slots as it has holders, drawn from the
    others.
    """
    lots = np.random.default_rng(seed).random(held.shape) + held  # holders come last
    return (
        lots.argsort(axis=1).argsort(axis=1) < held.sum(axis=1, keepdims=True)
    ) & ~held


def looks(seen: Traces, held) -> np.ndarray:
    """How much of the attention goes to each of PLACES, (B, T, H, 3): the mean over all
    slots that ask, the holders among them.
    """
    slots = held.shape[1]
    heard = seen.attention.mean(axis=3, dtype=float)  # (B, T, H, N + n)
    inputs, to_holders = (
        heard[..., slots:].sum(-1),
        (heard[..., :slots] * held[:, None, None]).sum(-1),
    )
    return np.stack([inputs, to_holders, 1 - inputs - to_holders], axis=-1)


def periods(marked, steps: int) -> np.ndarray:
    """(3, B, T) bool: which steps lie before, at and after the marked one."""
    away = np.arange(steps) - np.asarray(marked)[:, None]
    return np.stack([away < 0, away == 0, away > 0])


def _table(values, when):
    """values (B, T, 3) -> {place: {period: mean over examples and steps, None where
    there are none}}.
    """
    return {
        place: {
            period: float(values[at][:, k].mean()) if at.any() else None
            for period, at in zip(PERIODS, when, strict=True)
        }
        for k, place in enumerate(PLACES)
    }


# --- The causal tests -----------------------------------------------------------------


def cuts(slots: int, rows: int, held, spared) -> dict[str, np.ndarray]:
    """{what may not be heard: mask (B or 1, 1, N + n, N + n)}, True where a row may
    attend to a column; to itself it always may.

    The input's own rows, which ask in all blocks but the last, pass nothing on from
    slot to slot: what a slot may not hear, nor may they.
    """
    R, itself = slots + rows, np.eye(slots + rows, dtype=bool)
    is_input = np.arange(R) >= slots

    def without(columns):  # (B or 1, R)
        return ~columns[:, None, None, :] | itself

    def padded(chosen):
        return np.concatenate([chosen, np.zeros((len(chosen), rows), bool)], axis=1)

    return {
        "all": without(np.ones((1, R), bool)),
        "slots": without(~is_input[None]),
        "input": without(is_input[None]),
        "holders": without(padded(held)),
        "controls": without(padded(spared)),
    }


def _slots_to_wipe(held, spared):
    slots = held.shape[1]
    each = {
        f"slot {k + 1}": np.broadcast_to(np.arange(slots) == k, held.shape)
        for k in range(slots)
    }
    return each | {"holders": held, "controls": spared}


def _right(model, questions: Questions, held, spared) -> dict[tuple, np.ndarray]:
    """{(test, what, when): (B,) bool}: which examples are answered rightly when the
    memory is interfered with.
    """
    xp, core = _namespace(model), model.core
    inputs, marked, steps = (
        to_device(questions.inputs, xp),
        questions.marked,
        questions.inputs.shape[1],
    )
    first, last = _arrays(core.initial_state(len(marked))), read(model, inputs)
    another = tuple(xp.roll(part, 1, axis=0) for part in last)

    def right(state):
        return to_host(answer(model, state)).argmax(-1) == questions.targets

    found = {("intact", "", ""): right(last)}
    for name, slots in _slots_to_wipe(held, spared).items():
        now = [to_device(slots & (marked == t)[:, None], xp) for t in range(steps)]
        found["wiped", name, "reset"] = right(
            read(
                model,
                inputs,
                change=lambda t, state, now=now: put(state, now[t], first),
            )
        )
        found["wiped", name, "swapped"] = right(
            put(last, to_device(slots, xp), another)
        )
    if isinstance(
        core, RelationalMemory
    ):  # the equations as the paper has them know no mask
        when = dict(zip(PERIODS, periods(marked, steps), strict=True))
        for name, mask in cuts(
            core.mem_slots, core.input_rows or 1, held, spared
        ).items():
            for period in "before", "after":
                masks = [
                    to_device(mask | ~when[period][:, t, None, None, None], xp)
                    for t in range(steps)
                ]
                found["cut", name, period] = right(
                    read(model, inputs, mask=masks.__getitem__)
                )
    return found


# --- All of it ------------------------------------------------------------------------


def analyse(model, questions: Questions) -> dict:
    """Everything there is to measure, as JSON can hold it.

        {"examples": B, "slots": N, "heads": H, "mark": the name of the marked step,
         "holders": {"mean number", "largest share", "uniform share"}, "attention":
         {"uniform" | "head 1" | ... | "mean": {place: {period: fraction or None}}},
         "intact": {metric: accuracy}, "wiped": {"slot 1" | ... | "holders" |
         "controls": {"reset" | "swapped": {metric: accuracy}}}, "cut": {what, as in
         `cuts`: {"before" | "after": {metric: accuracy}}}}

    "cut" is empty for a core that takes no mask. The network must be one that
    `has_attention`, with two examples at least.
    """
    count, steps = questions.inputs.shape[:2]
    pieces = np.array_split(
        np.arange(count), -(-count // PIECE)
    )  # of almost equal length, none of a single example
    each_share, each_look = [], []
    for rows in pieces:
        seen = traces(model, questions.inputs[rows])
        each_share.append(shares(seen, questions.marked[rows]))
        each_look.append(looks(seen, holders(each_share[-1])))
    share, look = np.concatenate(each_share), np.concatenate(each_look)
    held = holders(share)
    spared = controls(held)

    slots, heads, columns = held.shape[1], look.shape[2], seen.attention.shape[-1]
    counts = np.stack(
        [np.full(count, columns - slots), held.sum(1), slots - held.sum(1)], axis=-1
    )  # of columns in each place
    when = periods(questions.marked, steps)
    attention = {
        "uniform": _table(
            np.broadcast_to(counts[:, None] / columns, (count, steps, 3)), when
        )
    }
    attention |= {f"head {h + 1}": _table(look[:, :, h], when) for h in range(heads)}
    attention["mean"] = _table(look.mean(axis=2), when)

    parts = [
        _right(model, questions.take(rows), held[rows], spared[rows]) for rows in pieces
    ]
    right = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}

    def accuracies(test, name, column):
        hits = right[test, name, column]
        return {
            metric: float(hits[those].mean()) if those.any() else None
            for metric, those in questions.kinds.items()
        }

    tables: dict = {"wiped": {}, "cut": {}}
    for test, name, column in right:
        if test != "intact":
            tables[test].setdefault(name, {})[column] = accuracies(test, name, column)
    return {
        "examples": count,
        "slots": slots,
        "heads": heads,
        "mark": questions.mark,
        "holders": {
            "mean number": float(held.sum(1).mean()),
            "largest share": float(share.max(1).mean()),
            "uniform share": 1 / slots,
        },
        "attention": attention,
        "intact": accuracies("intact", "", ""),
        **tables,
    }


def cases(questions: Questions) -> np.ndarray:
    """Rows of figure 3's three cases, the marked step first, in the middle, last: each
    the first of the examples that are of all kinds.
    """
    steps, telling = (
        questions.inputs.shape[1],
        np.logical_and.reduce(list(questions.kinds.values())),
    )
    found = [
        np.flatnonzero((questions.marked == step) & telling)
        for step in dict.fromkeys((0, steps // 2, steps - 1))
    ]
    return np.array([rows[0] for rows in found if len(rows)], int)
