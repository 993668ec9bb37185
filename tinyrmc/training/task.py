"""The contract between a task and the training loop.

A task file defines a class `Task`. Give it `presets`, `build`, `loss`, and `draw` (or
`data`, where its examples come from a file); the rest has sensible defaults.
`streams.py` and `schedules.py` have pieces to build a task from.

Whatever else a task can do, commands find by the name of the method, and a task that
cannot has none:

    questions(batch)              what examples ask, as `results.probes.Questions`: for
                                  `plot attention`, which also needs a network with a
                                  `core`, and a layer `head` that makes logits of its
                                  last output. None: nothing but whether it is right
    readings(model, task=None)    what memory networks do with stories, as
                                  `results.memory_hops.Reading`s, for `plot hops`; of
                                  one of its numbers alone. UserError without hops
    generate(model, prompt, rng, words=100, temperature=1.0, top_k=0, unk=True)
                                  the words with which a language model goes on, one by
                                  one, for `generate`; "\\n" ends a line. UserError
                                  for unknown words in a prompt; `unk` may be left out
    prompt, between               a word to begin with, which the text has ("The"), and
                                  what stands between two of what it writes (" ")
    pictures(model, folder)       draws what there is to see in a trained model, at the
                                  end of a run and for `plot`: the files' paths
    analyses(model)               whatever else there is to measure on held-out
                                  examples, as (name, `Table`), for `evaluate`. Some of
                                  it takes long: each is shown when it is there
    analysis_titles               {name: what it measures, in a few words} of these, in
                                  their order; shown beforehand where they take long,
                                  and as headings. It may be left out
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import optim
from ..autograd.engine import Parameter, Tensor
from ..backend import namespace
from ..config import check_values, hints_of, values_of, wanted
from ..cores.config import CoreConfig, describe, unused
from ..cores.core import Core
from ..corpora.corpus import checksum, require_same
from ..errors import is_integer, is_number, nearest
from ..nn import Module
from .discovery import TaskError
from .pieces import MetricAccumulator, Sums, micro_batches
from .streams import Batch, Epochs, Samples, Stream

# every run of a task is tested on the same examples, whatever its own seed
HELD_OUT_SEED = 2018
# of the loop, in a line of metrics
OWN_NAMES = (
    "loss step stage samples seconds learning_rate gradient_norm skipped_updates"
).split()
# what a task may have besides, and what it is given
MORE = {"pictures": "self model folder", "analyses": "self model"}


class Task:
    """A task, as learning needs it and a run tells of it.

    Its `config` decides the result of a run, together with the seed. Everything that
    `observe` changes must be in `state`: workers in other processes, and runs that go
    on from a checkpoint, know of nothing else.

    presets: {name: (one line of description, config)}; the first is the default. A
        config is a frozen dataclass with a field `train: TrainConfig` and whatever else
        the task needs; its fields and their docstrings are the command line.
    headline: the metric that says how well a run does: its curve is drawn, and on the
        held-out examples it is `test_<headline>`. If it is an accuracy, each line of
        metrics also has that of the best single training batch since the line before,
        `best_batch_<headline>`.
    lower: the metrics for which lower is better.
    splits: the sets of held-out examples, a word each: `("validation", "test")`. The
        first is watched while a run trains, and guides it; all are measured at its end,
        and the last gives its result. Metrics are named after their set:
        `validation_loss`.
    test_examples: how many held-out examples there are, in each set. Where the sets
        differ in size, override `examples`.
    phases: the names in `state` of what the loss depends on: where one changes, the GPU
        captures another CUDA graph of the step. None: all of it.
    carries: whether `loss` hands a carry from step to step, such as the state of a
        recurrent network in the middle of a long text.
    grids: {name: (one line of description, preset, {field: values})}: sweeps worth a
        name, such as a figure of the paper's.
    published: {cell: (what the paper reports, the words that train it)}: the paper's
        results, for `python -m tinyrmc report`; "" for a cell of ours alone. The words
        follow the task's name on the command line: "paper --model.core lstm"; None:
        nothing here trains it. See `cell`.
    unit: what the examples of a batch are counted in, and how many of those one is:
        ("tokens", 35), for windows of a text. Curves can be drawn against it.
    row: what a row of a batch is called: a lane, where each goes on with its text.
    batches: what the metrics of training batches are about, in a word or two.
    batches_watched: whether those are metrics of the network that is watched on the
        held-out examples, and of no other: then they are drawn beside its curve.
    success: a run counts as a success from this value of the headline metric on the
        held-out examples; None, the default where lower is better: none does.
    """

    presets: dict[str, tuple[str, Any]] = {}
    headline: str = "accuracy"
    lower: tuple[str, ...] = ("loss", "perplexity")
    splits: tuple[str, ...] = ("test",)
    test_examples: int = 10_240
    phases: tuple[str, ...] | None = None
    carries: bool = False

    grids: dict[str, tuple[str, str, dict[str, Any]]] = {}
    published: Mapping[str, tuple[str, str | None]] = {}
    unit: tuple[str, int] = ("samples", 1)
    row: str = "example"
    batches: str = "batches"
    batches_watched: bool = True
    success: float | None = 0.9

    def __init_subclass__(cls, **keywords: Any):
        super().__init_subclass__(**keywords)
        ours = cls.__mro__[: cls.__mro__.index(Task)]
        if cls.headline in cls.lower and not any("success" in vars(k) for k in ours):
            cls.success = None
        if cls.presets:
            check_class(cls)

    def __init__(self, config: Any):
        check_values(config)
        self.config = config

    # --- What is learnt ---------------------------------------------------------------

    @abc.abstractmethod
    def build(self, seed: np.random.SeedSequence) -> Module:
        """A new network."""

    def draw(self, rng: np.random.Generator, count: int) -> Batch:
        """`count` fresh examples as a dict of example-first arrays.

        A task whose examples are a finite set gives `data` instead.
        """
        name = type(self).__name__
        raise TaskError(f"{name} needs a method draw, data, or stream and held_out")

    def data(self, part: str) -> Batch:
        """All examples of "train", or of one of the `splits`, as a dict of
        example-first arrays, for a task whose examples come from a file:

            def data(self, part):
                return {"x": FILE[f"{part}_x"], "y": FILE[f"{part}_y"]}

        Training reads them epoch after epoch, each in an order of its own (`Epochs`). A
        run keeps their checksum, and goes on with no others.
        """
        raise NotImplementedError

    @functools.cached_property
    def _parts(self) -> dict[str, Batch] | None:
        """The examples of each part, read once; None without `data`."""
        if type(self).data is Task.data:
            return None
        return {part: self._part(part) for part in ("train", *self.splits)}

    def _part(self, name: str) -> Batch:
        batch = check_given(self, "data", self.data(name), dict)
        lengths = {each: np.shape(x)[:1] for each, x in batch.items()}
        if len({*lengths.values()}) != 1 or min(lengths.values()) in ((), (0,)):
            raise TaskError(
                f"{type(self).__name__}.data({name!r}) must give arrays of as many "
                f"rows as there are examples, not {lengths}"
            )
        return {each: np.asarray(x) for each, x in batch.items()}

    def prepare(
        self, model, batch: Batch, carry: Batch | None
    ) -> tuple[Batch, Batch | None]:
        """The batch and the carry for `loss`; called before recording begins.

        By default, these two unchanged. Here a network may have a say in what it learns
        from: an agent acts.
        """
        return batch, carry

    @abc.abstractmethod
    def loss(self, model, batch: Batch, carry: Batch | None) -> tuple:
        """(sum of the losses as a Tensor, their count, {metric: (sum, count)}, carry).

        The loop divides the sum by the count once, after adding up all pieces of the
        batch: give sums, not means. A piece that is masked throughout may count 0, but
        not a whole batch.

        It draws nothing: random numbers come with the batch. What it drew on the host,
        a CUDA graph would repeat in every step.

        The carry is what the next step gets for the same rows: a dict of arrays, one
        row an example, detached (give a Tensor's `.data`); put nested states into one
        dict. None: the next step starts afresh. A piece of the batch has the same rows
        in every step, so row k of each batch must go on where row k of the last one
        stopped: it is a lane of the text. See `carries`.
        """

    def carried(self, model) -> Batch:
        """The carry of one example, as arrays (1, ...). A checkpoint's must have the
        same shapes and dtypes; names that are not in here are not compared.
        """
        return {}

    # --- How it is learnt -------------------------------------------------------------

    def stream(self, model, seed: int) -> Stream:
        """The source of training batches: `Samples`, `Epochs` or a `Stream`."""
        if self._parts:
            return Epochs(self._parts["train"], self.config.train.batch_size, seed)
        return Samples(self.draw, seed)

    def optimizer(
        self, parameters: Iterable[Parameter], allocate: Callable
    ) -> optim.Optimizer:
        """The optimizer; by default as `config.train` says.

        allocate: pass it on to the optimizer. Its buffers must lie where workers in
            other processes see them.
        """
        t = self.config.train
        own: dict[str, Any] = {} if t.epsilon is None else {"epsilon": t.epsilon}
        kind: Callable[..., optim.Optimizer] = optim.SGD
        if t.optimizer in ("adam", "adamw"):
            kind, own = optim.Adam, own | {"beta1": t.beta1, "beta2": t.beta2}
        if t.optimizer == "adamw":
            kind, each = optim.AdamW, [*parameters]
            own["weight_decay"] = t.weight_decay
            matrices = [p for p in each if p.ndim > 1]
            rest = optim.Group([p for p in each if p.ndim < 2], weight_decay=0.0)
            parameters = [*matrices, rest]  # type: ignore[list-item]
        elif t.optimizer == "rmsprop":
            own |= {"decay": t.rms_decay, "variant": t.rms_variant}
            kind = optim.RMSProp
        elif t.optimizer == "sgd":
            own |= {"momentum": t.momentum}
        optimizer = kind(parameters, **own, allocate=allocate)
        optimizer.clip_by = t.clip_by
        return optimizer

    def learning_rate(self, step: int) -> float:
        """The rate of this step: warm-up, plateau, decay. `schedules.py` has others."""
        t = self.config.train
        return optim.schedule(
            t.learning_rate, t.steps, t.warmup_steps, t.cosine_fraction
        )(step)

    def after_update(self, model) -> None:
        """Called after each update, for constraints on parameters."""

    def place(self, step: int) -> dict:
        """Where a curriculum or a phase stands, for a line of metrics: its "stage"."""
        return {}

    def observe(self, step: int, metrics: dict) -> None:
        """Called with each line of metrics: moves a curriculum, a phase, the rate.

        Every `evaluate_every` steps the line has the metrics on the first of the
        `splits` too, as `test_*` if that is `test`.
        """

    def finished(self, step: int) -> bool:
        """Whether a run is over after this many steps; asked before each step."""
        return step >= self.config.train.steps

    @functools.cached_property
    def text_checksum(self) -> int | None:
        """The checksum of what is read from files; None if nothing is.

        `state` should keep it as "text": runs on different texts then count as
        different, and none goes on with another text.
        """
        if not self._parts:
            return None
        arrays = {(k, n): x for k, v in self._parts.items() for n, x in v.items()}
        names = (f"{name} {x.dtype} {x.shape}" for name, x in arrays.items())
        return checksum(names, arrays.values())

    def state(self) -> dict:
        """The changes made by `observe`, as JSON can hold them."""
        return {} if self.text_checksum is None else {"text": self.text_checksum}

    def load_state(self, state: dict) -> None:
        """Take back what `state` gave."""
        if self._parts:
            require_same(state.get("text"), self.text_checksum or 0)

    # --- How it is tested -------------------------------------------------------------

    def examples(self, split: str) -> int:
        """How many held-out examples there are in a set."""
        return _rows(self._parts[split]) if self._parts else self.test_examples

    def effort(self, split: str) -> float:
        """The cost of evaluating this set, in training examples: an estimate by which
        --max-minutes reserves time.
        """
        return self.examples(split)

    # Where there are several sets, `held_out` and `evaluate` are told which is meant.

    def held_out(self, split: str | None = None) -> Stream:
        """The examples to test on: the first `examples` of the batch of step 0."""
        if self._parts:
            part = self._parts[split or self.splits[0]]
            return Epochs(part, _rows(part), shuffle=False)
        place = self.splits.index(split) if split else 0
        return Samples(self.draw, HELD_OUT_SEED + place)

    def evaluate(
        self, model, worker: int = 0, workers: int = 1, xp=np, split: str | None = None
    ) -> Sums:
        """{metric: (sum, count)} over a worker's pieces of the held-out examples.

        split: one of `splits`; None: the first. Records no tape.
        """
        split = split or self.splits[0]
        held_out, found = self.held_out(*self.naming(split)), MetricAccumulator()
        pieces = micro_batches(
            self.examples(split), self.config.train.micro_batch(xp), workers
        )
        for start, stop in pieces[worker::workers]:
            batch = move_batch(xp, held_out.batch(0, start, stop))
            total, count, metrics = self.measure(model, batch)
            found.add({"loss": (total.data, count), **metrics})
        return found.sums

    def measure(self, model, batch: Batch) -> tuple:
        """The parts of an evaluation: (sum, count, metrics), as from `loss`.

        A task may test differently from how it trains.
        """
        return check_result(self, self.loss(model, batch, None))[:3]

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        """The reported metrics, of the means of all, in training and on held-out sets.

        For what is not a mean itself: the perplexity is exp(mean loss), which is not
        the mean of the perplexities of batches.
        """
        return means

    # --- What follows from that -------------------------------------------------------

    @property
    def watched(self) -> str:
        """The name of the headline on the set that is watched: "test_accuracy"."""
        return f"{self.splits[0]}_{self.headline}"

    @property
    def result(self) -> str:
        """The name of the headline on the set that gives a run's result."""
        return f"{self.splits[-1]}_{self.headline}"

    def cells(self) -> dict[str, str]:
        """{cell: the metric to compare it with}: the published results for a run.

        A run that stands for several cells, such as a network for many tasks, has its
        own.
        """
        cell = self.cell()
        return {} if cell is None else {cell: self.result}

    def naming(self, split: str) -> tuple[str, ...]:
        """The arguments that name a set: none where there is one set alone."""
        return (split,) if len(self.splits) > 1 else ()

    def named(self, split: str, sums: Sums) -> dict[str, float]:
        """The metrics of a set, as a line of metrics names it.

        Waits for the device.
        """
        means = self.summary(MetricAccumulator(sums).means())
        return {f"{split}_{name}": value for name, value in means.items()}

    def held_out_metrics(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Those metrics of a line that are on held-out examples."""
        splits = tuple(f"{split}_" for split in self.splits)
        return {name: line[name] for name in line if name.startswith(splits)}

    def lower_is_better(self, metric: str) -> bool:
        """Whether less is better, of a metric such as "loss" or "test_loss"."""
        split, _, name = metric.partition("_")
        return (name if split in self.splits else metric) in self.lower

    # --- How it presents itself -------------------------------------------------------

    def describe(self, model) -> str:
        """The network in a few words, for the first lines of a run: by default that of
        its `core`, if the configuration has chosen one.
        """
        chosen, core = getattr(self.config, "model", None), getattr(model, "core", None)
        if isinstance(chosen, CoreConfig) and isinstance(core, Core):
            return describe(chosen, core)
        return type(model).__name__

    def parameters(self, model) -> int:
        """How many parameters the network has that reports tell of.

        By default all of the model's. Of several networks side by side one may count.
        """
        return model.num_parameters

    def notes(self) -> Sequence[str]:
        """Notes on a run for its reader before it begins, a sentence each.

        For example, that a text is not the published one.
        """
        return ()

    def idle(self) -> dict[str, Sequence[str]]:
        """{where: the fields that make no difference there} of this configuration.

        {"where all is seen": ["world.viewport"]}. If you set one of them, you are told.
        Leave out those that the core does not use: they are known.
        """
        return {}

    def references(self) -> dict[str, dict[str, float]]:
        """{metric: {label: value}}: floors and published numbers.

        They are shown beside the metric and drawn in its curve. The metrics are those
        of the held-out examples, named after their set: "test_accuracy", where `loss`
        gives "accuracy". A published number's label begins with "paper"; the others are
        what one can reach without learning the task.
        """
        return {}

    def cell(self) -> str | None:
        """The name, in `published`, of the result to compare this configuration with.

        It says what is tested, and which core.
        """
        return None

    def is_final(self, line: dict) -> bool:
        """Whether the batches up to a line of metrics were of the task itself.

        A curriculum begins with easier ones.
        """
        return True


def _rows(batch: Batch) -> int:
    return len(next(iter(batch.values())))


def move_batch(xp, batch: Batch) -> Batch:
    """A host batch as arrays of `xp`; on NumPy the batch itself."""
    return batch if xp is np else {name: xp.asarray(x) for name, x in batch.items()}


def idle_fields(task: Any) -> dict[str, list[str]]:
    """{where: the fields that make no difference there}, of the task and its core."""
    model = getattr(task.config, "model", None)
    found: dict[str, list[str]] = {}
    if isinstance(model, CoreConfig):
        found[f"on the core {model.core}"] = [f"model.{name}" for name in unused(model)]
    for where, names in task.idle().items():
        found[where] = [*found.get(where, ()), *names]
    return found


# --- Mistakes in a task that would go unnoticed, in the words of its author -----------


def check_class(kind: Any) -> None:
    """TaskError unless a class of tasks has sets of held-out examples named by words,
    and presets whose configurations can be flags: each setting has a type, one that a
    flag can have, and a value of that type.
    """
    name = kind.__name__
    named = isinstance(kind.splits, tuple) and len(kind.splits) > 0
    if not (named and all(map(str.isalnum, kind.splits))):
        raise TaskError(
            f"{name}.splits must be a tuple of words of letters, as in "
            f'("validation", "test"), not {kind.splits!r}'
        )
    if wrong := [x for x in kind.presets if not re.fullmatch(r"'\w[\w.-]*'", repr(x))]:
        raise TaskError(f"{name}.presets must be named by words, not by {wrong[0]!r}")
    if (kind.state is Task.state) != (kind.load_state is Task.load_state):
        raise TaskError(
            f"{name} must have both state and load_state, or neither: in workers, and "
            "where a run goes on, one takes back what the other gave"
        )
    check_methods(kind)
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
            hints = hints_of(owner)
            for each, value in values_of(config).items():
                name = f"{owner.__name__}.{each}"
                if dataclasses.is_dataclass(value):
                    configs.append(value)
                else:
                    wanted(hints[each])
        except (ValueError, NameError, TypeError) as error:
            raise TaskError(f"{name}: {error}") from None


def check_methods(kind: Any) -> None:
    """TaskError for a method that does not take the arguments it will be given."""
    base = {name: x for name, x in vars(Task).items() if inspect.isfunction(x)}
    given = {
        name: " ".join(inspect.signature(x).parameters) for name, x in base.items()
    }
    for name, words in (given | MORE).items():
        method, asked = inspect.getattr_static(kind, name, None), words.split()
        if name in ("held_out", "evaluate") and len(kind.splits) == 1:
            asked.pop()  # they are not told which
        try:
            if inspect.isfunction(method):
                inspect.signature(method).bind(*asked)
        except TypeError:
            says = f"{kind.__name__}.{name}, in line {method.__code__.co_firstlineno}"
            asks = f"must take ({', '.join(asked)}), and takes"
            raise TaskError(f"{says}, {asks} {inspect.signature(method)}") from None


def check_own(task: Any, step: int) -> None:
    """TaskError for what a task tells of itself in a form that would fail later on."""
    name = type(task).__name__
    for split in task.splits:
        if not is_integer(count := task.examples(split)) or count < 1:
            raise TaskError(f"{name}.test_examples must be at least 1, not {count!r}")
    told = check_given(task, "references", task.references(), dict)
    for metric, marks in told.items():
        if not (isinstance(marks, dict) and all(map(is_number, marks.values()))):
            says = "must give {metric: {label: number}}, not"
            raise TaskError(f"{name}.references() {says} {metric!r}: {_told(marks)}")
    placed = check_given(task, "place", task.place(step), dict)
    check_names(task, "place", {*placed} - {"stage"})
    state = check_given(task, "state", task.state(), dict)
    try:
        text = json.dumps(state)
    except (TypeError, ValueError) as error:
        raise TaskError(f"{name}.state() must give what JSON holds: {error}") from None
    task.load_state(json.loads(text))


def check_names(task: Any, method: str, names: Iterable[str]) -> None:
    """TaskError for metrics that are called as what the loop itself writes."""
    own = tuple(f"{each}_" for each in (*task.splits, "best_batch"))
    for name in names:
        if name in OWN_NAMES or name.startswith(own):
            raise TaskError(
                f"{type(task).__name__}.{method}() calls a metric {name!r}, a name "
                "that the training loop has for its own; call it something else"
            )


def check_given(task: Any, method: str, value: Any, kind: type) -> Any:
    """The result of a method; TaskError unless it is of this kind, or gives a list's
    items as a tuple or one by one.
    """
    several = kind is list and isinstance(value, tuple | Iterator)
    if not (isinstance(value, kind) or several):
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
            bare = getattr(value, "shape", None) == () and not isinstance(value, Tensor)
            single &= bare or isinstance(value, int | float)
        if not single:
            raise TaskError(
                f"{loss} must give metrics as {{name: (sum, count)}}, not {name!r}: "
                f"{_told(pair)}; sum and count are single numbers, a Tensor's its .data"
            )
    check_names(task, "loss", metrics)
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


def check_sums(task: Any, model: Module, batch: Batch) -> None:
    """TaskError for a `loss` that gives a mean beside a count: of a batch twice over
    the count is twice as large, and a sum should be, too.
    """
    xp = namespace(next(iter(batch.values())))
    twice = {name: xp.concatenate([x, x]) for name, x in batch.items()}
    found = []
    for each in batch, twice:
        given, carry = task.prepare(model, each, None)
        total, count, metrics, _ = check_result(task, task.loss(model, given, carry))
        pairs = {"loss": (total.data, count), **metrics}
        found.append({k: (float(x), float(n)) for k, (x, n) in pairs.items()})
    for name, (total, count) in found[0].items():
        both, counted = found[1].get(name, (0.0, 0.0))
        if counted == 2 * count != 0 and abs(both - total) < 1e-4 * abs(total):
            says = "the loss" if name == "loss" else f"the metric {name!r}"
            raise TaskError(
                f"{type(task).__name__}.loss() gives {says} as a mean beside a count: "
                f"{total:.6g} with {count:.6g}, and of the same examples twice "
                f"{both:.6g} with {counted:.6g}; give sums (primitives.sum), or the "
                "count 1 beside a mean"
            )


def drawn_twice(stream: Stream) -> list[str]:
    """A note, if a stream gives other examples for the same step the second time."""
    one, other = stream.batch(0, 0, 2), stream.batch(0, 0, 2)
    differ = [k for k in one if not np.array_equal(one[k], other[k], _numbers(one[k]))]
    says = f"the first batch, drawn twice, differs in {', '.join(differ)}: no run can "
    says += "be repeated or resumed exactly; take all random numbers from the `rng` "
    return [f"{says}that `draw` is given, none from np.random"] if differ else []


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


def check_headline(task: Any, given: Mapping[str, float]) -> None:
    """TaskError unless evaluation gives the metric that says how well a run does."""
    if (name := task.watched) not in given:
        raise TaskError(
            f"{type(task).__name__}.headline asks for {name!r}, which evaluation does "
            f"not give; it gives {', '.join(given)}{nearest(name, given)}"
        )
