"""The words of a task about itself, for the lines of a run, its curves and reports; and
the capabilities that it may have.

Commands find a capability by the name of its method, and a task that cannot has none:

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..cores.config import CoreConfig, describe, unused
from ..cores.core import Core

Value = str | int | float | None


@dataclass(frozen=True)
class Table:
    """A metric taken apart, in rows, such as perplexity by how rare a word is. A task's
    `analyses` gives it, `evaluate` prints it, and `plot analyses` draws it.

    metric: what the fractions are, which says how to show them: "test_perplexity".
    columns: the heads. The first says what a row is about.
    rows: a cell for each column: words, whole numbers, values of `metric`; None where
        there is nothing.
    brief: instead of many rows, the table to print and draw; `--json` keeps the rows.

    ValueError for a row of another length.
    """

    metric: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    brief: Table | None = None

    def __post_init__(self):
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{len(self.columns)} columns have a row {row!r}")


class Curve(Table):
    """A Table of numbers, to be drawn: its other columns over the first one.

    A column whose name begins with "paper" is a published curve, drawn dashed.
    """


class HeatMap(Table):
    """A Table of numbers, to be drawn as shades: a column over the first one is a row
    of the picture, whose largest number is white.
    """


class Told:
    """The words of a `Task` about itself. All of them can be left out.

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

    grids: dict[str, tuple[str, str, dict[str, Any]]] = {}
    published: Mapping[str, tuple[str, str | None]] = {}
    unit: tuple[str, int] = ("samples", 1)
    row: str = "example"
    batches: str = "batches"
    batches_watched: bool = True
    success: float | None = 0.9
    config: Any
    result: Any

    def describe(self, model) -> str:
        """The network in a few words, for the first lines of a run: by default that of
        its `core`, if the configuration has chosen one.
        """
        chosen, core = getattr(self.config, "model", None), getattr(model, "core", None)
        if isinstance(chosen, CoreConfig) and isinstance(core, Core):
            return describe(chosen, core)
        return type(model).__name__

    def parameters(self, model) -> int:
        """The number of the network's parameters that reports tell of.

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

    def cells(self) -> dict[str, str]:
        """{cell: the metric to compare it with}: the published results for a run.

        A run that stands for several cells, such as a network for many tasks, has its
        own.
        """
        cell = self.cell()
        return {} if cell is None else {cell: self.result}


def idle_fields(task: Any) -> dict[str, list[str]]:
    """{where: the fields that make no difference there}, of the task and its core."""
    model = getattr(task.config, "model", None)
    found: dict[str, list[str]] = {}
    if isinstance(model, CoreConfig):
        found[f"on the core {model.core}"] = [f"model.{name}" for name in unused(model)]
    for where, names in task.idle().items():
        found[where] = [*found.get(where, ()), *names]
    return found
