"""Measurements of where a trained memory looks, and whether that matters.

Maps of attention mislead: a slot may hear what it knew already, and what it hears must
still pass the gates. So we compare how much attention goes where with what attention to
everything alike would give, and then test it: we take parts of the memory away, cut
attention, and count the right answers again.

All figures rest on these definitions. The marked step of an example is the one at which
the item came that its question is about.

    intake    of a slot: its attention to the input at the marked step (mean over heads,
              in the last block) times its input gate at that step (mean over units; 1
              where there are no gates). What the slot forgets later is not subtracted.
    holders   the slots that took it in: the fewest slots that together have half of the
              example's intake.
    controls  as many other slots, drawn at random (one fewer, where more than half of
              the slots are holders).
    reset     a slot's row becomes its first value again, right after the marked step.
              The network knows that value, it begins with it, and may take in again
              what comes from then on.
    swapped   a slot's row is exchanged, after the last step, for that of the same slot
              in another sequence: of the usual form, but it says nothing about this
              one.
    cut       attention that is forbidden at the steps before, or after, the marked one.
              What remains still sums to 1, and the gates see the input as ever.

A task says what it asks in `Task.questions`; its network must have a `core` that reads
the inputs step by step and a `head` that answers from the core's last output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autograd import primitives as p
from ..autograd.nested import refilled
from ..backend import namespace, to_host
from ..backend.seeds import generator
from ..cores.core import state_arrays
from ..cores.relational import PaperRelationalMemory, RelationalMemory
from ..errors import RunError
from ..training.discovery import TaskError
from ..training.task import Task
from ..training.testing import HELD_OUT_SEED
from ..training.train_config import MICRO_BATCH

PLACES = ("input", "holders", "others")  # where attention goes
PERIODS = ("before", "at", "after")  # the marked step

Array = Any  # of NumPy or CuPy
State = tuple[Array, ...]  # of a core, each array (B, N, F)
Fractions = dict[str, dict[str, float | None]]  # place -> period -> fraction


@dataclass(frozen=True)
class Questions:
    """A batch as the probes see it, example-first.

    inputs: (B, T, ...) what the core reads, step by step.
    marked: (B,) the step, from 0, at which the item came that the question is about.
    targets: (B,) the right answer, as an index of the logits.
    kinds: {metric: (B,) bool}: the accuracies to measure, and which examples count for
        each. `Task.references` has their floors, named after a held-out set. Examples
        that count for all of them are shown first.
    describe: row -> (the question in words, what came at each step: T dicts {name:
        text, number or list of numbers} of the same names).
    mark: what the marked step is called where it is shown.
    """

    inputs: np.ndarray
    marked: np.ndarray
    targets: np.ndarray
    kinds: dict[str, np.ndarray]
    describe: Callable[[int], tuple[str, list[dict[str, Any]]]]
    mark: str = "reference"

    def __post_init__(self):
        """TaskError unless there is a row for each example, and steps exist."""
        B, T = self.inputs.shape[:2]
        given = {"marked": self.marked, "targets": self.targets, **self.kinds}
        for name, array in given.items():
            kind, wanted = ("b", "bools") if name in self.kinds else ("iu", "integers")
            if np.shape(array) != (B,) or array.dtype.kind not in kind:
                got = f"{getattr(array, 'dtype', type(array))}{list(np.shape(array))}"
                raise TaskError(
                    f"Questions: {name} must be {wanted} [{B}], one for each example, "
                    f"not {got}"
                )
        if not self.kinds:
            raise TaskError("Questions: kinds names no accuracy to measure; give one")
        if B and not 0 <= self.marked.min() <= self.marked.max() < T:
            raise TaskError(f"Questions: marked must name steps from 0 to {T - 1}")

    def take(self, rows: np.ndarray) -> Questions:
        """Some of the examples, by their indices."""
        return Questions(
            self.inputs[rows],
            self.marked[rows],
            self.targets[rows],
            {name: counts[rows] for name, counts in self.kinds.items()},
            lambda row: self.describe(int(rows[row])),
            self.mark,
        )


@dataclass(frozen=True)
class Traces:
    """The answers, attention and gates of a batch, as NumPy arrays."""

    logits: np.ndarray  # (B, C)
    attention: np.ndarray  # (B, T, H, N, N + n) of the last block, to n rows of input
    gates: dict[str, np.ndarray]  # "input", "forget": (B, T, N, F or 1); or nothing


def held_out(task: Task, count: int) -> Questions:
    """The first `count` held-out examples; RunError if the task asks no questions."""
    examples = task.held_out(*task.naming(task.splits[-1]))
    asked = getattr(task, "questions", lambda batch: None)
    if (questions := asked(examples.batch(0, 0, count))) is None:
        raise RunError(
            "the task does not say what its examples ask: it has no method questions"
        )
    return questions


def has_attention(model: Any) -> bool:
    """Whether the network's core is a memory whose slots attend."""
    core = getattr(model, "core", None)
    return isinstance(core, (RelationalMemory, PaperRelationalMemory))


# --- Reading a sequence, and interfering ----------------------------------------------


def read(
    model: Any,
    inputs: Array,
    change: Callable[[int, State], State] | None = None,
    mask: Callable[[int], Array] | None = None,
    trace: list[dict[str, Array]] | None = None,
) -> State:
    """The core's state after inputs (B, T, ...); `answer` makes logits of it.

    change(t, state) -> state takes effect after step t. mask(t) forbids attention in
    step t, as `RelationalMemory` describes it. `trace` receives what each step did.
    """
    state = model.core.initial_state(inputs.shape[0])
    for t in range(inputs.shape[1]):
        masked = {} if mask is None else {"mask": mask(t)}
        _, state = model.core(inputs[:, t], state, trace, **masked)
        if change is not None:
            state = refilled(state, change(t, _arrays(state)))
    return _arrays(state)


def _arrays(state: Any) -> State:
    return tuple(state_arrays(state).values())


def answer(model: Any, state: State) -> Array:
    """The logits (B, C) that the network gives from a state of `read`."""
    memory = state[-1]  # flattened, this is the output of either core
    return model.head(p.reshape(memory, (memory.shape[0], -1))).data


def put(state: State, slots: Array, values: State) -> State:
    """A state whose rows of `slots`, (B, N) bool, are those of the state `values`."""
    return tuple(
        namespace(now).where(slots[..., None], other, now)
        for now, other in zip(state, values, strict=True)
    )


def traces(model: Any, inputs: np.ndarray) -> Traces:
    """The traces of NumPy inputs (B, T, ...), undisturbed. Waits for the device."""
    xp = namespace(model.parameters()[0].data)
    steps = list[dict[str, Array]]()
    state = read(model, xp.asarray(inputs), trace=steps)

    def stacked(name: str) -> np.ndarray:
        return np.stack([to_host(step[name]) for step in steps], axis=1)

    names = [name for name in ("input", "forget") if f"{name}_gate" in steps[0]]
    gates = {name: stacked(f"{name}_gate") for name in names}
    return Traces(to_host(answer(model, state)), stacked("attention"), gates)


# --- How much attention goes where ----------------------------------------------------


def shares(seen: Traces, marked: np.ndarray) -> np.ndarray:
    """Each slot's share of its example's intake, (B, N); rows sum to 1."""
    rows = np.arange(len(marked))
    slots = seen.attention.shape[3]
    heard = seen.attention[rows, marked, :, :, slots:].sum(-1, dtype=float)  # (B, H, N)
    intake = heard.mean(axis=1)  # (B, N)
    if seen.gates:
        intake *= seen.gates["input"][rows, marked].mean(axis=-1)
    return intake / intake.sum(axis=1, keepdims=True)


def holders(share: np.ndarray) -> np.ndarray:
    """(B, N) bool: the fewest slots with half of the intake, the first of equal."""
    order = np.argsort(-share, axis=1, kind="stable")
    ranked = np.take_along_axis(share, order, axis=1)
    before = np.cumsum(ranked, axis=1) - ranked  # what larger slots have together
    chosen = np.empty(share.shape, bool)
    np.put_along_axis(chosen, order, before < 0.5 - 1e-6, axis=1)
    return chosen


def controls(held: np.ndarray, seed: int = HELD_OUT_SEED) -> np.ndarray:
    """(B, N) bool: for each example as many other slots as it has holders."""
    lots = generator(seed).random(held.shape) + held  # holders come last
    ranks = lots.argsort(axis=1).argsort(axis=1)
    return (ranks < held.sum(axis=1, keepdims=True)) & ~held


def looks(seen: Traces, held: np.ndarray) -> np.ndarray:
    """The attention that goes to each of PLACES, (B, T, H, 3): the mean over all slots
    that ask, the holders among them.
    """
    slots = held.shape[1]
    heard = seen.attention.mean(axis=3, dtype=float)  # (B, T, H, N + n)
    to_input = heard[..., slots:].sum(-1)
    to_holders = (heard[..., :slots] * held[:, None, None]).sum(-1)
    return np.stack([to_input, to_holders, 1 - to_input - to_holders], axis=-1)


def periods(marked: np.ndarray, steps: int) -> np.ndarray:
    """(3, B, T) bool: which steps lie before, at and after the marked one."""
    away = np.arange(steps) - np.asarray(marked)[:, None]
    return np.stack([away < 0, away == 0, away > 0])


def _where(
    seen: np.ndarray, held: np.ndarray, columns: int, when: np.ndarray
) -> dict[str, Fractions]:
    """The "attention" of `analyse`, from `looks` (B, T, H, 3) at N + n columns."""
    slots = held.shape[1]
    holding = held.sum(axis=1)
    inputs = np.full(len(held), columns - slots)
    alike = np.stack([inputs, holding, slots - holding], axis=-1) / columns  # (B, 3)
    rows = {"uniform": np.broadcast_to(alike[:, None], seen[:, :, 0].shape)}
    rows |= {f"head {h + 1}": seen[:, :, h] for h in range(seen.shape[2])}
    rows["mean"] = seen.mean(axis=2)

    def fractions(values: np.ndarray) -> dict[str, float | None]:  # (B, T)
        means = [float(values[at].mean()) if at.any() else None for at in when]
        return dict(zip(PERIODS, means, strict=True))

    return {
        name: {place: fractions(values[..., k]) for k, place in enumerate(PLACES)}
        for name, values in rows.items()
    }


# --- The causal tests -----------------------------------------------------------------


def cuts(
    slots: int, rows: int, held: np.ndarray, spared: np.ndarray
) -> dict[str, np.ndarray]:
    """{what may not be heard: mask (B or 1, 1, N + n, N + n)}, True where a row may
    attend to a column; to itself it always may. What a slot may not hear, nor may the
    input's n rows, which ask too, in all blocks but the last.
    """
    R = slots + rows
    itself = np.eye(R, dtype=bool)
    is_input = np.arange(R) >= slots
    more = (0, 0), (0, rows)  # (B, N) -> (B, R)

    def without(columns: np.ndarray) -> np.ndarray:  # (B or 1, R)
        return ~columns[:, None, None, :] | itself

    return {
        "all": without(np.ones((1, R), bool)),
        "slots": without(~is_input[None]),
        "input": without(is_input[None]),
        "holders": without(np.pad(held, more)),
        "controls": without(np.pad(spared, more)),
    }


def _right(
    model: Any, questions: Questions, held: np.ndarray, spared: np.ndarray
) -> dict[tuple[str, str, str], np.ndarray]:
    """{(test, what, when): (B,) bool}: which examples are answered rightly when the
    memory is interfered with.
    """
    xp = namespace(model.parameters()[0].data)
    core = model.core
    inputs = xp.asarray(questions.inputs)
    marked = questions.marked
    steps = range(inputs.shape[1])
    first = _arrays(core.initial_state(len(marked)))
    last = read(model, inputs)
    another = tuple(xp.roll(part, 1, axis=0) for part in last)

    def right(state: State) -> np.ndarray:
        return to_host(answer(model, state)).argmax(-1) == questions.targets

    def reset(slots: np.ndarray) -> State:
        now = [xp.asarray(slots & (marked == t)[:, None]) for t in steps]
        return read(model, inputs, change=lambda t, state: put(state, now[t], first))

    def cut(mask: np.ndarray, at: np.ndarray) -> State:  # at (B, T)
        masks = [xp.asarray(mask | ~at[:, t, None, None, None]) for t in steps]
        return read(model, inputs, mask=masks.__getitem__)

    found = {("intact", "", ""): right(last)}
    each = np.eye(held.shape[1], dtype=bool)
    wiped = {f"slot {k + 1}": one & np.ones_like(held) for k, one in enumerate(each)}
    for name, slots in {**wiped, "holders": held, "controls": spared}.items():
        found["wiped", name, "reset"] = right(reset(slots))
        found["wiped", name, "swapped"] = right(put(last, xp.asarray(slots), another))
    if isinstance(core, RelationalMemory):  # the paper's equations know no mask
        before, _, after = periods(marked, len(steps))
        forbidden = cuts(core.mem_slots, core.input_rows or 1, held, spared)
        for name, mask in forbidden.items():
            found["cut", name, "before"] = right(cut(mask, before))
            found["cut", name, "after"] = right(cut(mask, after))
    return found


# --- All of it ------------------------------------------------------------------------


def analyse(model: Any, questions: Questions) -> dict[str, Any]:
    """Everything there is to measure of a network that `has_attention`, as JSON can
    hold it. There must be two examples; "cut" is empty for a core that takes no mask.

        "examples", "slots", "heads"    B, N, H
        "mark"       what the marked step is called
        "holders"    {"mean number", "largest share", "uniform share"}
        "attention"  {"uniform" | "head 1" | ... | "mean":
                      {place: {period: fraction or None}}}
        "intact"     {metric: accuracy}
        "wiped"      {"slot 1" | ... | "holders" | "controls":
                      {"reset" | "swapped": {metric: accuracy}}}
        "cut"        {what, as in `cuts`: {"before" | "after": {metric: accuracy}}}
    """
    count, steps = questions.inputs.shape[:2]
    # of almost equal length, so that none has a single example
    pieces = np.array_split(np.arange(count), -(-count // MICRO_BATCH))
    share, look = [], []
    for rows in pieces:
        seen = traces(model, questions.inputs[rows])
        share.append(shares(seen, questions.marked[rows]))
        look.append(looks(seen, holders(share[-1])))
    columns = seen.attention.shape[-1]
    taken = np.concatenate(share)
    held = holders(taken)
    spared = controls(held)
    found: dict[str, Any] = {"intact": {}, "wiped": {}, "cut": {}}
    parts = [
        _right(model, questions.take(rows), held[rows], spared[rows]) for rows in pieces
    ]
    for test, name, how in parts[0]:
        hits = np.concatenate([part[test, name, how] for part in parts])
        accuracies = {
            metric: float(hits[those].mean()) if those.any() else None
            for metric, those in questions.kinds.items()
        }
        if test == "intact":
            found[test] = accuracies
        else:
            found[test].setdefault(name, {})[how] = accuracies
    when = periods(questions.marked, steps)
    return {
        "examples": count,
        "slots": held.shape[1],
        "heads": seen.attention.shape[2],
        "mark": questions.mark,
        "holders": {
            "mean number": float(held.sum(1).mean()),
            "largest share": float(taken.max(1).mean()),
            "uniform share": 1 / held.shape[1],
        },
        "attention": _where(np.concatenate(look), held, columns, when),
        **found,
    }


def cases(questions: Questions) -> np.ndarray:
    """The rows of figure 3's three cases: the marked step comes first, in the middle or
    last. Each is the first such example, of all kinds if there is one.
    """
    steps = questions.inputs.shape[1]
    telling = np.logical_and.reduce([*questions.kinds.values()])
    rows = []
    for step in dict.fromkeys((0, steps // 2, steps - 1)):
        of_step = np.flatnonzero(questions.marked == step)
        rows += [*of_step[telling[of_step]], *of_step][:1]
    return np.array(rows, int)
