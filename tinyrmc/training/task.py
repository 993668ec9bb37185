"""The contract between a task and the training loop.

A task file defines a class `Task`. Give it `presets`, `build`, `loss`, and `draw` (or
`data`, where its examples come from a file); the rest has sensible defaults.
`testing.py` says how it is tested, `telling.py` what else it may tell and do;
`streams.py` and `schedules.py` have pieces to build a task from.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .. import optim
from ..autograd.engine import Parameter
from ..config import check_values
from ..corpora.corpus import checksum, require_same
from ..nn import Module
from .mistakes import check_class, check_given, mistake
from .streams import Batch, Epochs, Samples, Stream
from .telling import Told
from .testing import Tested

# what to do where `data` gives other examples than before
ITS_FILES = "restore the file that it reads (or does `data` draw from np.random?)"


class Task(Tested, Told):
    """A task, as learning needs it.

    Its `config` decides the result of a run, together with the seed. Everything that
    `observe` changes must be in `state`: workers in other processes, and runs that go
    on from a checkpoint, know of nothing else.

    presets: {name: (one line of description, config)}; the first is the default. A
        config is a frozen dataclass with a field `train: TrainConfig` and whatever else
        the task needs; its fields and their docstrings are the command line.
    phases: the names in `state` of what the loss depends on: where one changes, the GPU
        captures another CUDA graph of the step. None: all of it.
    carries: whether `loss` hands a carry from step to step, such as the state of a
        recurrent network in the middle of a long text.
    """

    presets: dict[str, tuple[str, Any]] = {}
    phases: tuple[str, ...] | None = None
    carries: bool = False

    def __init_subclass__(cls, **keywords: Any):
        super().__init_subclass__(**keywords)
        ours = cls.__mro__[: cls.__mro__.index(Task)]
        if cls.headline in cls.lower and not any("success" in vars(k) for k in ours):
            cls.success = None
        if cls.presets:
            check_class(cls, Task)

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
        raise mistake(self, "draw")

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
    def _parts(self) -> dict[str, Batch] | None:  # type: ignore[override]
        """The examples of each part, read once; None without `data`."""
        if type(self).data is Task.data:
            return None
        return {part: self._part(part) for part in ("train", *self.splits)}

    def _part(self, name: str) -> Batch:
        batch = check_given(self, "data", self.data(name), dict)
        lengths = {each: np.shape(x)[:1] for each, x in batch.items()}
        if len({*lengths.values()}) != 1 or min(lengths.values()) in ((), (0,)):
            raise mistake(self, "data", part=name, found=lengths)
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
            kind = optim.Adam
            own = own | {"beta1": t.beta1, "beta2": t.beta2}
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
        """Take back what `state` gave. A key of a file that `state` then does not give
        is refused; pop what you read from older ones.
        """
        if self._parts:
            require_same(state.get("text"), self.text_checksum or 0, ITS_FILES)
