"""The sentences that the hops of memory networks look at: counts, and a page that
reads any story of known words.

The strength of a memory in a hop is its weight p_i in the sum that the hop finds. A hop
looks at the strongest one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..autograd.engine import Tensor
from ..cores.memn2n import MemN2N
from ..corpora import Story
from ..errors import counted
from .pages import filled, floats
from .text import Rows, percent

CAVEAT = (
    "Attention is no explanation: it says where a hop looks, not what decided the "
    "answer."
)
SAYS = (
    "How often the strongest memory of each hop is a sentence that the data name as a "
    "supporting fact of the answer; an empty memory does not count as one. Beside it: "
    "how often the last sentence is one, and a sentence taken at random."
)

# Of the page: examples of each task, answered right and answered wrong.
IN_PAGE = 12
OF_SEVERAL = 3  # the same, where one page has several tasks
TEMPLATE = Path(__file__).with_suffix(".html")

# --- What a network does with stories -------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """The work of one memory network on the Q stories on which it is tested."""

    network: MemN2N
    restart: int  # which of its restarts is meant
    vocabulary: Sequence[str]  # the words that its rows belong to
    slots: int  # M, how many sentences it remembers, the latest ones
    masked: bool  # empty memories are kept out of the softmax
    linear: bool  # there is no softmax yet
    tasks: np.ndarray  # (Q,) the task each story is of
    stories: Sequence[Story]
    # (Q, K, M) how strong each memory is in each of K hops, the latest sentence first
    weights: np.ndarray
    answers: Sequence[str]  # Q words, the network's

    @property
    def right(self) -> np.ndarray:
        """(Q,) which answers are right."""
        pairs = zip(self.answers, self.stories, strict=True)
        return np.array([answer == story.answer for answer, story in pairs])

    @property
    def facts(self) -> np.ndarray:
        """(Q, M) which memories are supporting facts."""
        found = np.zeros((len(self.stories), self.slots), bool)
        for row, story in zip(found, self.stories, strict=True):
            ages = [len(story.sentences) - 1 - place for place in story.supporting]
            row[[age for age in ages if age < self.slots]] = True
        return found

    @property
    def sentences(self) -> np.ndarray:
        """(Q,) how many memories are sentences; the others are empty."""
        lengths = [len(story.sentences) for story in self.stories]
        return np.minimum(lengths, self.slots)

    def of(self, task: int) -> np.ndarray:
        """The numbers of the stories of a task."""
        return np.flatnonzero(self.tasks == task)


def shares(reading: Reading, rows: np.ndarray) -> list[float]:
    """The shares of some stories in which these are a supporting fact: the strongest
    memory of each hop, the last sentence, one at random. NaN for no stories.
    """
    if not len(rows):
        return [np.nan] * (reading.weights.shape[1] + 2)
    facts = reading.facts[rows]
    strongest = reading.weights[rows].argmax(axis=-1)  # (Q, K)
    hits = np.take_along_axis(facts, strongest, axis=-1)
    chance = facts.sum(axis=-1) / reading.sentences[rows]
    return [*hits.mean(axis=0), facts[:, 0].mean(), chance.mean()]


def table(readings: Sequence[Reading], task: int | None = None) -> Rows:
    """The `shares` of every task; of a single one, also for right and wrong answers."""
    tasks = {k: each for each in readings for k in np.unique(each.tasks).tolist()}
    if task is not None:
        tasks = {task: tasks[task]}
    hops = range(1, readings[0].weights.shape[1] + 1)
    columns = [*(f"hop {k}" for k in hops), "last sentence", "at random"]
    rows = [["", "questions", *columns]]
    for k, reading in tasks.items():
        own = reading.of(k)
        parts = {f"task {k}": own}
        if len(tasks) == 1:
            right = reading.right[own]
            parts |= {"answered right": own[right], "answered wrong": own[~right]}
        for name, part in parts.items():
            found = map(percent, shares(reading, part))
            rows.append([name, f"{len(part):,}", *found])
    return rows


# --- Words ----------------------------------------------------------------------------


def sentence(words: Sequence[str], end: str = ".") -> str:
    """Words as you would write them: Mary went to the garden."""
    text = " ".join(words)
    return f"{text[:1].upper()}{text[1:]}{end}"


def chosen(reading: Reading, rows: np.ndarray, each: int) -> list[list[int]]:
    """Of some rows the first `each` answered right, and as many answered wrong; no two
    are of one story.
    """
    right = reading.right[rows]
    told = set[object]()
    groups: list[list[int]] = [[], []]
    parts = (rows[right].tolist(), groups[0]), (rows[~right].tolist(), groups[1])
    for own, group in sorted(parts, key=lambda part: len(part[0])):  # rarer ones first
        for row in own:
            story = reading.stories[row]
            names = {story.number, story.sentences}
            if len(group) < each and told.isdisjoint(names):
                group.append(row)
                told |= names
    return groups


# --- The page -------------------------------------------------------------------------


def page(title: str, reading: Reading, task: int | None = None) -> str:
    """One HTML page that holds the network and examples, and reads what is typed."""
    tasks = np.unique(reading.tasks).tolist() if task is None else [task]
    most = IN_PAGE if len(tasks) == 1 else OF_SEVERAL
    examples = []
    for each in tasks:
        for row in itertools.chain(*chosen(reading, reading.of(each), most)):
            story = reading.stories[row]
            example = {
                "task": each,
                "right": bool(reading.right[row]),
                "story": [sentence(words) for words in story.sentences],
                "question": sentence(story.question, "?"),
                "answer": story.answer,
                "facts": list(story.supporting),
            }
            examples.append(example)
    unit = "Strengths in percent of all memories."
    if reading.linear:
        unit = "Scores u · m: this network has no softmax over its memories yet."
    data = {
        "title": title,
        "caveat": CAVEAT,
        "says": f"{SAYS} In percent.",
        "unit": unit,
        "network": _network(reading),
        "examples": examples,
        # without the signs the table fits a phone
        "rows": [[x.removesuffix(" %") for x in row] for row in table([reading], task)],
        "questions": counted(int(np.isin(reading.tasks, tasks).sum()), "question"),
    }
    return filled(TEMPLATE, data)


def _network(reading: Reading) -> dict[str, Any]:
    """All that the page needs to compute what the network computes."""
    network, encoding = reading.network, reading.network.encoding

    def own(parameter: Tensor | None) -> str | None:
        return None if parameter is None else floats(parameter.data[reading.restart])

    return {
        "words": list(reading.vocabulary),
        "size": network.size,
        "hops": network.hops,
        "slots": reading.slots,
        "ages": network.slots,
        "tying": network.tying,
        "plain": network.plain_units,
        "encoding": encoding.kind,
        "scale": encoding.scale,
        "longest": encoding.longest,
        "masked": reading.masked,
        "linear": reading.linear,
        "tables": own(network.tables),
        "H": own(network.H),
        "questions": own(network.questions),
        "answers": own(network.answers),
    }
