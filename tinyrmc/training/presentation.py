"""How a task presents itself: to command lines, in reports and tables, in pictures.

Training asks for none of this. A task can do without all of it but `presets`, from
which the command line makes its flags.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..cores.config import CoreConfig, unused
from ..errors import UserError
from .checks import check_methods, check_presets, check_splits
from .examinations import Table


class Presentation:
    """What command lines, reports and pictures ask of a task.

    presets: {name: (one line of description, config)}; the first is the default. A
        config is a frozen dataclass with a field `train: TrainConfig` and whatever else
        the task needs; its fields and their docstrings are the command line.
    grids: {name: (one line of description, preset, {field: values})}: sweeps worth a
        name, such as a figure of the paper's.
    published: {cell: (what the paper reports, the words that train it)}: the paper's
        results, for `python -m tinyrmc report`; "" for a cell of ours alone. The words
        follow the task's name on the command line: "paper --model.core lstm"; None:
        nothing here trains it. See `cell`.
    claims: {what the paper says: (the cell that is better, the cell that is worse)}:
        reports hold them against our own results, where there are both.
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
    grids: dict[str, tuple[str, str, dict[str, Any]]] = {}
    published: Mapping[str, tuple[str, str | None]] = {}
    claims: Mapping[str, tuple[str, str]] = {}
    unit: tuple[str, int] = ("samples", 1)
    row: str = "example"
    batches: str = "batches"
    batches_watched: bool = True
    success: float | None = 0.9

    def __init_subclass__(cls, **keywords: Any):
        super().__init_subclass__(**keywords)
        if cls.presets:
            check_splits(cls)
            check_methods(cls)
            check_presets(cls)

    def describe(self, model) -> str:
        """The network in a few words, for the first lines of a run."""
        return type(model).__name__

    def parameters(self, model) -> int:
        """How many parameters the network has that reports tell of.

        By default all of the model's. Of several networks side by side one may count.
        """
        return model.num_parameters

    def notes(self) -> Sequence[str]:
        """What you should know about a run before it begins, a sentence each.

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

    def deviation(self, metric: str, label: str) -> float | None:
        """The standard deviation of one held-out example's value from a reference.

        It is that of a network as good as the reference, and decides how far a network
        must come to be past it. None: a share's own, if the metric is one, else 0.
        """
        return None

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

    def questions(self, batch: dict) -> Any:
        """What the examples of a batch ask, as `results.probes.Questions`.

        With it `plot attention` shows and tests where a memory looks. The network must
        have a `core`, and a layer `head` that makes logits of its last output. None if
        there is nothing to say but whether the answers are right.
        """
        return None

    def readings(self, model, task: int | None = None) -> Iterable[Any]:
        """What memory networks do with stories, as `results.hops.Reading`s.

        task: this one alone. UserError if there is no such task, or no hops.
        """
        raise UserError("it has no memory network that reads stories; give one of babi")

    @property
    def examines(self) -> Mapping[str, str]:
        """{name: what it measures, in a few words} of `examinations`, in their order.

        Shown beforehand where they take long, and as headings. It may be left out.
        """
        return {}

    def examinations(self, model) -> Iterable[tuple[str, Table]]:
        """(name, what was found) of whatever else there is to measure.

        On held-out examples, of a trained model. Some of it takes long: yield each when
        it is there, and it will be shown.
        """
        return ()

    def generate(
        self,
        model,
        prompt: str,
        rng: np.random.Generator,
        words: int = 100,
        temperature: float = 1.0,
        top_k: int = 0,
        unk: bool = True,
    ) -> Iterator[str]:
        """The words with which a language model goes on after a prompt, one by one.

        "\\n" ends a line. Each is drawn by `sampling.draw` with the temperature and
        the `top_k`; without `unk` never <unk>, which stands for all rare words. A task
        may leave out that argument. UserError if the model does not know a word of the
        prompt.
        """
        raise NotImplementedError

    def pictures(self, model, folder: Path) -> list[Path]:
        """Draw what there is to see in a trained model into `folder`."""
        return []


def idle_fields(task: Any) -> dict[str, list[str]]:
    """{where: the fields that make no difference there}, of the task and its core."""
    model = getattr(task.config, "model", None)
    found: dict[str, list[str]] = {}
    if isinstance(model, CoreConfig):
        found[f"on the core {model.core}"] = [f"model.{name}" for name in unused(model)]
    for where, names in task.idle().items():
        found[where] = [*found.get(where, ()), *names]
    return found
