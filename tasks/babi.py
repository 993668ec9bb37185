"""bAbI: twenty kinds of short stories with questions, read by memory networks.

The stories are those of Weston et al. 2015, the network is the End-To-End Memory
Network of Sukhbaatar et al. 2015, the recipe that of the authors' program. An answer is
one word; a list, `football,apple`, counts as one. What is reported is the share of
wrong answers, `error`.

*Restarts.* Some first weights lead nowhere, so the paper trains ten networks and takes
the one with the lowest training error (here, among equals, the one with the lowest
training loss). They are trained side by side, as one network with one more axis, on the
same batches: a product of matrices serves them all, and a run with ten takes nothing
like ten times as long. The twenty networks of `all` go side by side too, each with its
own stories in each batch. Every memory network comes out as if it had been trained
alone, but for rounding; `python -m tinyrmc evaluate RUN` has a table of their errors.

*Linear start.* For the first epochs the softmax over memories is left out. Then it is
switched on: after `recipe.linear_epochs` or, if that is None, once five validation
losses in a row are no better (to stop at the first is much too early; for a value each
epoch add `--train.evaluate-every 28`). That is decided for all networks together, at a
line of metrics; in the presets each epoch has one.

*Random memories.* In training, a story of n sentences may seem to have up to a tenth
more, which were forgotten: the ages of its sentences leave gaps.

*Other cores* read the story sentence by sentence, oldest first, as the same sums of
word embeddings, and the question as a last sentence; the answer follows from the last
output. The preset `cores` trains them with Adam, and clips the gradient of all networks
of `all` together.

*Where this departs from the authors' program:*

    batches     an epoch brings a story once, and leaves out the few that fill no batch;
                there they are drawn with replacement
    clipping    the norm of a matrix is that of all its numbers; there it is its largest
                singular value
    validation  the last tenth of the training questions of each task; there a random
                tenth for `joint`
    null word   it has no embedding and is no answer, for sentences are not padded. Nor
                are the ages of sentences answers
    test        all 1,000 questions; there the first 992
"""

from __future__ import annotations

import functools
import math
import statistics
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tinyrmc import corpora, fused, nn, training
from tinyrmc import primitives as p
from tinyrmc.backend import gemm, namespace
from tinyrmc.config import PLACE, check_least, check_within
from tinyrmc.cores import CoreConfig, build_core, describe
from tinyrmc.cores.memn2n import Encoding, MemN2N
from tinyrmc.corpora import Story
from tinyrmc.errors import UserError, counted
from tinyrmc.results import memory_hops
from tinyrmc.training.pieces import micro_batches

# --- What can be set ------------------------------------------------------------------

TASKS = tuple(str(k) for k in range(1, 21))


@dataclass(frozen=True)
class DataConfig:
    """Which stories."""

    common: typing.ClassVar = ("task", "version", "variant", "generated")

    task: typing.Literal[
        "1", "2", "3", "4", "5", "6", "7", "8", "9", "10",
        "11", "12", "13", "14", "15", "16", "17", "18", "19", "20",
        "all", "joint",
    ] = "1"  # fmt: skip
    """one task; all: a network for each; joint: one network for all"""
    version: typing.Literal["v1.1", "v1.2"] = "v1.2"
    """of the files; the paper used v1.1, and task 16 changed after it"""
    variant: typing.Literal["en", "en-10k"] = "en"
    """1,000 or 10,000 questions to learn from, for each task"""
    generated: bool = False
    """stories made up on the spot, which need no files: tasks 1, 2, 6, 15 and 16"""
    memories: int = 50
    """the most sentences of a story that are kept: its latest ones"""

    def __post_init__(self):
        check_least("data", self, "memories")
        if self.version == "v1.1" and self.variant == "en-10k":
            raise ValueError("data.variant en-10k is of version v1.2; choose that")
        told = [str(k) for k in corpora.GENERATED_TASKS]
        if self.generated and self.task in TASKS and self.task not in told:
            raise ValueError(
                f"data.task {self.task} cannot be generated; {', '.join(told)} can"
            )


@dataclass(frozen=True)
class ModelConfig(CoreConfig):
    """The memory network, or another core."""

    common: typing.ClassVar = (
        *("core", "hops", "embedding_size", "encoding", "tying", "restarts"),
    )

    where: typing.ClassVar = ("texts",)
    core: str = "memn2n"
    """memn2n: the End-To-End Memory Network. Others read sentence by sentence: see
    `nth_farthest --help` for what they are"""
    embedding_size: int = 20
    """width of word embeddings, and of the memory network"""
    hops: int = 3
    """how often the memory network looks at its memories"""
    tying: typing.Literal["adjacent", "layerwise"] = "adjacent"
    """which embeddings are the same: those of a hop's contents and the next one's
    memories, or those of all hops
    """
    encoding: typing.Literal["released", "printed", "bag"] = "released"
    """how a word's place in its sentence counts: as in the authors' program, as in the
    paper's equation, or not at all
    """
    pe_scale: float = 2.0
    """what a position encoding is multiplied by; 1: the size that is printed"""
    temporal: bool = True
    """whether memories know how old they are"""
    relu: float = 0.0
    """fraction of the units with a ReLU after each hop"""
    masked: bool = False
    """whether empty memories are kept out of the softmax"""
    restarts: int = 10
    """memory networks that start from different weights; the best on the training
    stories is taken
    """

    def __post_init__(self):
        super().__post_init__()
        check_least("model", self, "embedding_size", "hops", "restarts")
        check_within("model", self, "[0, 1]", "relu")
        check_within("model", self, "(0, inf)", "pe_scale")


@dataclass(frozen=True)
class RecipeConfig:
    """The settings of a memory network's training, in epochs."""

    common: typing.ClassVar = ("linear_epochs",)

    linear_epochs: int | None = 20
    """epochs without the softmax over memories; None: until five evaluations (see
    train.evaluate_every) have found no better validation loss
    """
    halve_every: int | None = 25
    """epochs with the softmax from one halving of the rate to the next; None: it stays
    """
    random_memories: float = 0.1
    """the most memories that are forgotten in training, as a share of the story"""

    def __post_init__(self):
        check_least("recipe", self, "linear_epochs", least=0)
        check_least("recipe", self, "halve_every")
        check_within("recipe", self, "[0, 1]", "random_memories")


@dataclass(frozen=True)
class Config:
    """Everything that decides a run's result, together with the seed."""

    data_dir: Path | None = field(default=None, metadata=PLACE)
    """the folder with the stories, as an archive or unpacked; None: the user's cache
    folder, where `python -m tinyrmc data babi` puts them
    """
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    recipe: RecipeConfig = field(default_factory=RecipeConfig)
    train: training.TrainConfig = field(default_factory=training.TrainConfig)


# Epochs have 28 batches of 32 for 900 stories, 281 for 9,000, 562 for 18,000.
QUICK = Config(
    train=training.TrainConfig(
        steps=(20 + 100) * 28,
        batch_size=32,
        optimizer="sgd",
        learning_rate=0.005,
        warmup_steps=0,
        objective="sum",
        clip_norm=40.0,
        clip_by="matrix",
        log_every=28,
        evaluate_every=10 * 28,
    )
)
JOINT = replace(
    QUICK,
    data=DataConfig(task="joint"),
    model=ModelConfig(embedding_size=50),
    recipe=RecipeConfig(linear_epochs=30, halve_every=15),
    train=replace(
        QUICK.train, steps=(30 + 60) * 562, log_every=562, evaluate_every=10 * 562
    ),
)
LARGE = replace(
    QUICK,
    data=DataConfig(variant="en-10k"),
    model=ModelConfig(embedding_size=100, relu=1.0),
    train=replace(
        QUICK.train, steps=(20 + 100) * 281, log_every=281, evaluate_every=10 * 281
    ),
)
CORES = replace(
    QUICK,
    model=ModelConfig(
        core="rmc", embedding_size=64, hidden_size=128, head_size=16, restarts=1
    ),
    recipe=RecipeConfig(linear_epochs=0, halve_every=None, random_memories=0.0),
    train=training.TrainConfig(
        steps=100 * 28, batch_size=32, learning_rate=1e-3, log_every=28,
        evaluate_every=10 * 28,
    ),
)  # fmt: skip

# --- The stories as numbers -----------------------------------------------------------

PARTS = ("train", "validation", "test")
HELD_OUT = 0.1  # of the training questions, for validation
TRIAL = 20  # epochs from which on a published result stands beside a run
PATIENCE = 5  # evaluations without a better validation loss that end a linear start
NOTHING = -1  # an answer that is no word of the training stories


Told = dict[int, dict[str, list[Story]]]  # task: {"train", "validation", "test": ...}


class Material:
    """The stories one network learns from and is tested on, as arrays.

    rows: (sentences + 1, columns), every sentence and question there is, each once, as
        the encoding has it. The first is empty.
    sentences: {the words of each: its row}
    parts: {"train", "validation", "test": {name: array with a row a question}}:
        "memory" (., M), numbers of rows, the latest sentence first, 0 after the oldest;
        "question" (.), the number of a row; "answer" (.), a word; "task" (.).
    """

    def __init__(self, told: Told, memories: int, encoding: Encoding):
        self.tasks = [*told]
        self.told = told
        known = [
            story
            for parts in told.values()
            for story in parts["train"] + parts["validation"]
        ]
        self.vocabulary = sorted(_words(known) | {story.answer for story in known})
        self.ids = {word: id for id, word in enumerate(self.vocabulary)}
        longest = _longest(known)
        for task in told:
            self._check(task, longest)
        most = max(len(story.sentences) for story in known)
        self.slots = min(memories, most)
        self.encoding = replace(encoding, longest=longest)
        self.sentences: dict[tuple[str, ...], int] = {(): 0}
        self.parts = {part: self._arrays(part) for part in PARTS}
        ids = [[self.ids[word] for word in words] for words in self.sentences]
        self.rows = self.encoding.rows(ids, len(self.vocabulary))
        self.rows.flags.writeable = False  # tasks share it
        learnt = self.parts["train"]
        answers = learnt["answer"].astype(np.intp)
        self.commonest = {
            task: int(np.bincount(answers[learnt["task"] == task]).argmax())
            for task in told
        }

    def _check(self, task, longest):
        """UserError for a story before any sentence, in words unknown, or longer."""
        told = self.told[task]
        for story in told["train"] + told["validation"] + told["test"]:
            if not story.sentences:
                question = " ".join(story.question)
                raise UserError(
                    f"task {task}: story {story.number + 1} asks {question!r} before "
                    "anything is told; put a sentence first"
                )
        what = ""
        if unknown := sorted(_words(told["test"]) - self.ids.keys()):
            what = f"words that those never use: {', '.join(unknown[:5])}"
        elif (most := _longest(told["test"])) > longest:
            what = f"a sentence of {most} words, more than those"
        if what:
            raise UserError(
                f"task {task}: beside the stories to learn from, those to be tested on "
                f"have {what}; fetch both files of one version"
            )

    def _arrays(self, part) -> training.Batch:
        stories = [(task, s) for task, parts in self.told.items() for s in parts[part]]
        memory = np.zeros((len(stories), self.slots), np.int32)
        for row, (_, story) in zip(memory, stories, strict=True):
            latest = story.sentences[: -self.slots - 1 : -1]
            row[: len(latest)] = [self._number(sentence) for sentence in latest]
        answers = [self.ids.get(story.answer, NOTHING) for _, story in stories]
        arrays = {
            "memory": memory,
            "question": np.array([self._number(s.question) for _, s in stories]),
            "answer": np.array(answers),
            "task": np.array([task for task, _ in stories]),
        }
        for array in arrays.values():
            array.flags.writeable = False
        return arrays

    def _number(self, sentence) -> int:
        return self.sentences.setdefault(sentence, len(self.sentences))

    def take(self, part: str, rows) -> training.Batch:
        """Some of the questions, and "age", that of each memory: from 1; 0: empty."""
        batch = {name: x[rows] for name, x in self.parts[part].items()}
        ages = np.arange(1, self.slots + 1, dtype=np.int32)
        return batch | {"age": np.where(batch["memory"] > 0, ages, 0)}

    def count(self, part: str) -> int:
        """The number of questions."""
        return len(self.parts[part]["answer"])


def _said(story: Story) -> tuple[tuple[str, ...], ...]:
    return *story.sentences, story.question


def _longest(stories: Iterable[Story]) -> int:
    return max(len(words) for story in stories for words in _said(story))


def _words(stories: Iterable[Story]) -> set[str]:
    return {word for story in stories for words in _said(story) for word in words}


def split_off(stories: list[Story]) -> dict[str, list[Story]]:
    """The stories to learn from, and their last tenth, for validation."""
    held = max(1, round(HELD_OUT * len(stories)))
    return {"train": stories[:-held], "validation": stories[-held:]}


def read(source, data: DataConfig, encoding: Encoding) -> tuple[Material, ...]:
    """A `Material` for each network, with this encoding, the longest sentence aside."""
    # where no task is complete, the first one's missing file is named
    tasks = [int(data.task)] if data.task in TASKS else source.complete or [1]
    told = {
        task: split_off(source.stories(task, "train"))
        | {"test": source.stories(task, "test")}
        for task in tasks
    }
    apart = [told] if data.task == "joint" else [{k: told[k]} for k in told]
    return tuple(Material(each, data.memories, encoding) for each in apart)


# A report makes several tasks for each run, most of them with the same stories. All
# twenty take 90 MB, or 400 MB with 10,000 questions each, so only two sets are kept.
read_once = functools.lru_cache(maxsize=2)(read)


def forgetful(share: float, rng: np.random.Generator, batch) -> training.Batch:
    """A batch in which stories seem longer than they are, by up to a share.

    A story of n memories gets n of the ages 1 .. n + k, for a k from 0 to share * n,
    rounded up. An age beyond the oldest that there is counts as that one.
    """
    memory = batch["memory"]
    n = (memory > 0).sum(axis=1)
    more = rng.integers(np.ceil(share * n).astype(int) + 1)
    slots = memory.shape[1]
    draws = rng.random((len(n), slots + int(np.ceil(share * slots))))
    places = np.arange(draws.shape[1])
    draws[places >= (n + more)[:, None]] = 2.0  # there is no such age
    chosen = draws.argsort(axis=1).argsort(axis=1) < n[:, None]
    ages = 1 + np.argsort(~chosen, axis=1, kind="stable")[:, :slots]
    ages = np.where(memory > 0, np.minimum(ages, slots), 0).astype(np.int32)
    return batch | {"age": ages}


class SideBySide(training.Stream):
    """Several streams as one: `0.memory` is the memory of the first one's batch."""

    random_access = True

    def __init__(self, streams: list[training.Epochs]):
        self.streams = streams

    def batch(self, step, start, stop):
        """Examples start .. stop - 1 of each stream's batch at this step."""
        return {
            f"{number}.{name}": x
            for number, stream in enumerate(self.streams)
            for name, x in stream.batch(step, start, stop).items()
        }


# --- The network ----------------------------------------------------------------------


class Network(nn.Module):
    """The networks for one `Material`: memory networks, or another core.

    A batch as `Material.take` gives it -> logits (R, B, V), for R restarts.
    """

    def __init__(self, config: Config, material: Material, seed):
        m = config.model
        words = len(material.vocabulary)
        ages = np.eye(material.slots + 1, dtype=np.float32)[:, 1:]  # 0: no age
        self.rows, self.ages = nn.Constant(material.rows), nn.Constant(ages)
        self.masked, self.temporal = m.masked, m.temporal
        self.reader: MemN2N | Reader
        if m.core == "memn2n":
            self.reader = MemN2N(
                words,
                m.embedding_size,
                material.slots if m.temporal else 0,
                hops=m.hops,
                tying=m.tying,
                encoding=material.encoding,
                relu=m.relu,
                networks=m.restarts,
                seed=seed,
            )
        else:
            self.reader = Reader(m, words, material.encoding, seed)

    def __call__(self, batch, linear: bool = False, trace=None):
        memory, question = batch["memory"], batch["question"]
        xp = namespace(memory)
        dtype = self.reader.dtype
        rows = self.rows.on(xp, dtype)
        if isinstance(self.reader, Reader):
            return self.reader(rows, memory, question)
        memories = xp.take(rows, memory, axis=0)  # (B, M, halves * V)
        if self.temporal:
            ages = xp.take(self.ages.on(xp, dtype), batch["age"], axis=0)  # (B, M, N)
            memories = xp.concatenate([memories, ages], axis=2)
        questions = xp.take(rows, question, axis=0)
        empty = memory == 0 if self.masked else None
        return self.reader(memories, questions, linear, empty, trace)


class Reader(nn.Module):
    """A recurrent core that reads the sentences one by one, the question last."""

    def __init__(self, m: ModelConfig, words: int, encoding: Encoding, seed):
        rng = nn.generator(seed)
        self.embedding = nn.Embedding(words, m.embedding_size, seed=rng)
        self.core = build_core(m, m.embedding_size, rng)
        self.answer = nn.Linear(self.core.output_size, words, seed=rng)
        bag = encoding.kind == "bag"
        self._along = None if bag else nn.Constant(encoding.along(m.embedding_size))

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the parameters."""
        return self.embedding.weight.dtype

    def __call__(self, rows, memory, question):
        """Rows of sentences, memory (B, M), question (B,) -> logits (1, B, V)."""
        xp = namespace(memory)
        E = self.embedding.weight
        if self._along is not None:
            E = p.concatenate([E, E * self._along.on(xp, self.dtype)])
        order, last = in_order(memory, question)
        inputs = p.matmul(xp.take(rows, order, axis=0), E)  # (B, M + 1, d)
        state = self.core.initial_state(len(memory))
        outputs, _ = self.core.unroll(inputs, state, lengths=last + 1)
        steps = xp.arange(order.shape[1])
        ends = (steps == last[:, None]).astype(self.dtype)  # (B, M + 1)
        output = p.sum(p.stack(outputs, axis=1) * ends[:, :, None], axis=1)
        return p.expand_dims(self.answer(output), 0)


def in_order(memory, question):
    """The words to read: the memories, the oldest first, the question, nothing more.

    (B, M + 1) numbers of rows, and the place (B,) of the question.
    """
    xp = namespace(memory)
    last = xp.sum(memory > 0, axis=1)  # (B,)
    back = last[:, None] - 1 - xp.arange(memory.shape[1] + 1)
    told = xp.take_along_axis(memory, xp.maximum(back, 0), axis=1)
    asked = xp.where(back == -1, question[:, None], 0)
    return xp.where(back >= 0, told, asked), last


class Networks(nn.Module):
    """A network for each `Material`."""

    def __init__(self, config: Config, materials: Sequence[Material], seed):
        self.networks = [
            Network(config, material, _of_task(seed, material))
            for material in materials
        ]

    def __call__(self, number: int, batch, linear: bool = False, trace=None):
        """The logits (R, B, V) of the network of that number."""
        return self.networks[number](batch, linear, trace)


def _of_task(seed: np.random.SeedSequence, material: Material):
    """A task's own seed, the same whether it is trained alone or beside others."""
    place = material.tasks[0] if len(material.tasks) == 1 else 0
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, place))


# --- What was published: babi.txt -----------------------------------------------------


OTHERS = {"lstm": "LSTM", "rmc": "RMC", "entnet": "EntNet"}  # cores with a column
UNPUBLISHED = ("RMC", "EntNet")  # columns that no paper has


def row_of(size: str, task: str) -> str:
    """The row of a table of results: "1k, task 16", or "1k, mean"."""
    return f"{size}, mean" if task == "mean" else f"{size}, task {task}"


def published() -> dict[str, tuple[str, str | None]]:
    """{cell: (error, the words that train it)}; a cell is "1k, task 16, PE LS"."""
    found: dict[str, tuple[str, str | None]] = {}
    _, *parts = Path(__file__).with_suffix(".txt").read_text("utf-8").split("\n\n")
    for table, commands in zip(parts[::2], parts[1::2], strict=True):
        words = dict(line.split(": ") for line in commands.splitlines())
        (size, *heads), *lines = (line.split(", ") for line in table.splitlines())
        for (line,) in lines:
            task, *errors = line.split()
            errors = [f"{error} %" for error in errors] + [""] * len(UNPUBLISHED)
            for head, error in zip([*heads, *UNPUBLISHED], errors, strict=True):
                found[f"{row_of(size, task)}, {head}"] = error, words.get(head)
    return found


def column(config: Config) -> str | None:
    """The head of the published column that a configuration belongs to.

    None, too, for a memory network of another size, and for a trial of less than
    `TRIAL` epochs after the linear start.
    """
    m = config.model
    r = config.recipe
    joint = config.data.task == "joint"
    stories = 900 * (20 if joint else 1) * (10 if config.data.variant != "en" else 1)
    t = config.train
    epoch = stories // config.train.batch_size
    linear = at_a_line((r.linear_epochs or 0) * epoch, t)
    if t.steps - linear < 0.95 * TRIAL * epoch:
        return None
    if m.core in OTHERS and not joint:
        return OTHERS[m.core]
    units = 50 if joint else 100 if m.relu else 20
    if (m.embedding_size, config.data.memories) != (units, 50):
        return None
    bag = m.encoding == "bag"
    if m.relu not in (0, 1) or (bag and m.relu):
        return None
    usual = m.masked, m.temporal, m.tying == "adjacent" or joint, m.hops == 3 or joint
    position = bag or (m.encoding, m.pe_scale) == ("released", 2.0)
    if m.core != "memn2n" or usual != (False, True, True, True) or not position:
        return None
    linear, forgets = r.linear_epochs != 0, r.random_memories > 0
    if not joint:
        names = "PE", *["LS"] * linear, *["RN"] * forgets, *["ReLU"] * (m.relu == 1)
        head = "BoW" if (bag, linear, forgets) == (True, False, False) else ""
        return head or (None if bag else " ".join(names))
    if bag or not linear or m.relu:
        return None
    if m.tying == "layerwise":
        return None if forgets or m.hops != 3 else "joint layerwise"
    if forgets:
        return "joint RN" if m.hops == 3 else None
    return f"joint {m.hops} hop{'' if m.hops == 1 else 's'}"


def at_a_line(steps: int, train: training.TrainConfig) -> int:
    """The first step from this one on that has a line of metrics."""
    return math.ceil(steps / train.log_every) * train.log_every


# --- The task -------------------------------------------------------------------------


class Task(training.Task):
    """Answering questions about stories; see the module's text."""

    presets = {
        "quick": (
            "one task, ten restarts side by side; --data.task all: three minutes or so "
            "of one core",
            QUICK,
        ),
        "joint": ("one network for all twenty tasks", JOINT),
        "large": ("10,000 questions to learn from, a wide network with ReLUs", LARGE),
        "cores": ("another core, --model.core lstm, rmc, entnet ..., with Adam", CORES),
    }
    published = published()
    headline = "error"
    lower = ("loss", "error")
    splits = ("validation", "test")
    phases = ("linear",)
    success = 0.05

    def __init__(self, config: Config):
        super().__init__(config)
        self.linear = config.recipe.linear_epochs != 0
        self.switched = 0  # the first step with the softmax
        self.plateau = training.Plateau("validation_loss", patience=PATIENCE)

    @functools.cached_property
    def source(self) -> typing.Any:
        """The source of stories; set it before training to have others: something
        with `stories` and `complete`, as `corpora.Babi` has them.
        """
        data = self.config.data
        if data.generated:
            return corpora.GeneratedStories(
                questions=10_000 if data.variant == "en-10k" else 1000
            )
        return corpora.babi(data.version, data.variant, self.config.data_dir)

    @functools.cached_property
    def materials(self) -> tuple[Material, ...]:
        """One for each network. Tasks with the same stories of ours share them."""
        m, source = self.config.model, self.source
        words = self.config.data, Encoding(m.encoding, m.pe_scale)
        if isinstance(source, corpora.Babi | corpora.GeneratedStories):
            return read_once(source, *words)
        return read(source, *words)

    @functools.cached_property
    def text_checksum(self) -> int:
        """The checksum of all that is learnt from and tested on."""
        words: list[str] = []
        arrays: list[np.ndarray] = []
        for material in self.materials:
            words += [*material.vocabulary, *map(" ".join, material.sentences)]
            for part in PARTS:
                arrays += material.parts[part].values()
        return corpora.checksum(words, arrays)

    # --- What is learnt

    def build(self, seed):
        return Networks(self.config, self.materials, seed)

    def stream(self, model, seed):
        size, share = self.config.train.batch_size, self.config.recipe.random_memories
        memn2n = self.config.model.core == "memn2n"
        vary = functools.partial(forgetful, share) if memn2n and share else None
        streams = []
        for material in self.materials:
            own = _of_task(np.random.SeedSequence(seed), material)
            streams.append(
                training.Epochs(
                    material.count("train"),
                    size,
                    int(own.generate_state(1, np.uint64)[0]),
                    take=functools.partial(material.take, "train"),
                    vary=vary,
                )
            )
        return SideBySide(streams)

    def loss(self, model, batch, carry):
        total = 0.0
        count = 0
        wrong = 0
        for number in range(len(model.networks)):
            prefix = f"{number}."
            own = {
                name.removeprefix(prefix): x
                for name, x in batch.items()
                if name.startswith(prefix)
            }
            logits = model(number, own, self.linear)
            xp = namespace(logits.data)
            answers = xp.broadcast_to(own["answer"], logits.shape[:-1])
            total = total + p.sum(fused.softmax_cross_entropy(logits, answers))
            count += answers.size
            wrong = wrong + xp.sum(xp.argmax(logits.data, axis=-1) != answers)
        return total, count, {"error": (wrong, count)}, None

    # --- How it is learnt

    @property
    def epoch(self) -> int:
        """Steps of an epoch, that of the network with the most stories."""
        most = max(material.count("train") for material in self.materials)
        return max(1, most // self.config.train.batch_size)

    def learning_rate(self, step):
        rate = super().learning_rate(step)
        every = self.config.recipe.halve_every
        if self.linear or every is None:
            return rate
        # as in the program, at the beginning of epochs 25, 50 .., the first one being 1
        return training.staircase(rate, every)((step - self.switched) // self.epoch + 1)

    def place(self, step):
        return {"linear": int(self.linear)}

    def observe(self, step, metrics):
        if not self.linear:
            return
        epochs = self.config.recipe.linear_epochs
        stalled = self.plateau.observe(metrics)
        over = stalled if epochs is None else step >= epochs * self.epoch
        # switched on at the last step, the softmax would be read but never trained
        if over and step < self.config.train.steps:
            self.linear = False
            self.switched = step

    @property
    def linear_steps(self) -> int:
        """Steps of the linear start, which ends at a line of metrics; where validation
        ends it, the fewest possible.
        """
        epochs, t = self.config.recipe.linear_epochs, self.config.train
        if epochs is None:
            return (PATIENCE + 1) * t.evaluate_every
        return at_a_line(epochs * self.epoch, t)

    def state(self):
        return {
            "linear": self.linear,
            "switched": self.switched,
            "plateau": self.plateau.state(),
            "text": self.text_checksum,
        }

    def load_state(self, state):
        corpora.require_same(state.get("text"), self.text_checksum)
        self.linear, self.switched = state["linear"], state["switched"]
        self.plateau.load_state(state["plateau"])

    # --- How it is tested

    def examples(self, split):
        """The number of questions in a set, of all networks together."""
        return sum(material.count(split) for material in self.materials)

    def effort(self, split):
        return (self.examples("train") + self.examples(split)) / len(self.materials)

    def evaluate(self, model, worker=0, workers=1, xp=np, split=None):
        """Sums for each task and each restart, of the set and of the training stories.

        `summary` needs both: it chooses by the latter.
        """
        totals = training.MetricAccumulator()
        for number in range(len(self.materials)):
            for part in ("train", split or self.splits[0]):
                for judged in self._judge(model, number, part, worker, workers, xp):
                    totals.add(judged)
        return totals.sums

    def _judge(self, model, number, part, worker=0, workers=1, xp=np):
        """The sums of each piece of a network's stories."""
        material = self.materials[number]
        size = self.config.train.micro_batch(xp)
        pieces = micro_batches(material.count(part), size, workers)
        for start, stop in pieces[worker::workers]:
            batch = material.take(part, np.arange(start, stop))
            tasks = batch.pop("task")
            batch = {name: xp.asarray(x) for name, x in batch.items()}
            logits = model(number, batch, self.linear).data
            yield _judged(part, logits, batch["answer"], tasks)

    def summary(self, means):
        """With the error of the restart chosen for each network: the one with the
        lowest training error.

        Among equals the lowest training loss decides. `error_restart_3` is the mean of
        restart 3 over all tasks, `error_task_16` that of the chosen restart on task 16.
        """
        if "error" in means:  # of batches
            return means
        tasks = self._tasks
        restarts = range(self.restarts)
        chosen, rows = self._choice(means, tasks), np.arange(len(tasks))
        found = {"loss": means["loss"]}
        for name, kind in (("error", "wrong"), ("training_error", "train wrong")):
            errors = self._of_restarts(means, kind, tasks)
            found[name] = float(errors[rows, chosen].mean())
            if len(restarts) > 1:
                each = enumerate(errors.mean(axis=0))
                found |= {f"{name}_restart_{r}": float(x) for r, x in each}
        if len(tasks) > 1:
            errors = self._of_restarts(means, "wrong", tasks)
            each = zip(tasks, errors[rows, chosen], strict=True)
            found |= {f"error_task_{k}": float(x) for k, x in each}
        return found

    def named(self, split, sums):
        """Single restarts are shown for the last set alone."""
        found = super().named(split, sums)
        last = split == self.splits[-1]
        return {k: x for k, x in found.items() if last or "_restart_" not in k}

    def _of_restarts(self, means, kind, tasks):
        """Errors or losses of a kind (tasks, restarts)."""
        restarts = range(self.restarts)
        return np.array([[means[f"{kind} {k} {r}"] for r in restarts] for k in tasks])

    def _choice(self, means, tasks):
        """Which restart (tasks,) is taken for each task; if joint, the same for all:
        that of the lowest training error, and among equals of the lowest loss.
        """
        kinds = "train loss", "train wrong"
        pair = [self._of_restarts(means, kind, tasks) for kind in kinds]
        if self.config.data.task == "joint":
            pair = [x.mean(axis=0)[None] for x in pair]
        best = [np.lexsort(own)[0] for own in zip(*pair, strict=True)]
        return np.broadcast_to(best, len(tasks))

    def taken(self, model, number: int) -> int:
        """The restart of a network that is taken."""
        totals = training.MetricAccumulator()
        for judged in self._judge(model, number, "train"):
            totals.add(judged)
        return int(self._choice(totals.means(), self.materials[number].tasks)[0])

    @property
    def _tasks(self) -> list[int]:
        return [task for material in self.materials for task in material.tasks]

    @property
    def restarts(self) -> int:
        """Networks side by side for each `Material`."""
        return self.config.model.restarts if self.config.model.core == "memn2n" else 1

    def lower_is_better(self, metric):
        return True

    analysis_titles: typing.ClassVar = {
        "restarts": "test errors; the restart with the lowest training error is taken"
    }

    def analyses(self, model):
        """The errors of each restart on each task; in brief, a row for each task."""
        split = self.splits[-1]
        restarts = self.restarts
        means = training.MetricAccumulator(self.evaluate(model, split=split)).means()
        metric = f"{split}_error"
        tasks = self._tasks
        chosen = self._choice(means, tasks).tolist()
        kinds = "wrong", "train wrong"
        tested, trained = (
            self._of_restarts(means, kind, tasks).tolist() for kind in kinds
        )
        rows = [
            (f"task {k}, restart {r}", train, test, "yes" if r == taken else "")
            for k, taken, *pair in zip(tasks, chosen, trained, tested, strict=True)
            for r, (train, test) in enumerate(zip(*pair, strict=True))
        ]
        brief = None
        if len(tasks) > 1 and restarts > 1:
            each = [
                (f"task {k}", r, own[r], min(own), statistics.median(own), max(own))
                for k, r, own in zip(tasks, chosen, tested, strict=True)
            ]
            spread = [
                f"{part} of {restarts}" for part in ("lowest", "median", "highest")
            ]
            heads = "", "restart taken", "test error", *spread
            brief = training.Table(metric, heads, each)
        columns = "", "training error", "test error", "taken"
        yield "restarts", training.Table(metric, columns, rows, brief)

    # --- What the hops look at

    def readings(self, model, task=None):
        """A reading for each network, by the restart that is taken."""
        if (core := self.config.model.core) != "memn2n":
            raise UserError(
                f"its core, {core}, has no hops; give a run with --model.core memn2n"
            )
        if task not in (None, *self._tasks):
            known = ", ".join(map(str, self._tasks))
            raise UserError(f"it has not learnt task {task}; --task is one of {known}")
        return (
            self._reading(model, number)
            for number, material in enumerate(self.materials)
            if task is None or task in material.tasks
        )

    def _reading(self, model, number):
        material, network = self.materials[number], model.networks[number]
        restart = self.taken(model, number)
        answers = []
        weights = []
        size = self.config.train.micro_batch(np)
        for start, stop in micro_batches(material.count("test"), size, 1):
            batch = material.take("test", np.arange(start, stop))
            trace = []
            logits = model(number, batch, self.linear, trace).data[restart]
            answers += [material.vocabulary[id] for id in logits.argmax(axis=-1)]
            of_hops = [hop["weights"][:, restart] for hop in trace]
            weights.append(np.stack(of_hops, axis=1))
        return memory_hops.Reading(
            network=network.reader,
            restart=restart,
            vocabulary=material.vocabulary,
            slots=material.slots,
            masked=network.masked,
            linear=self.linear,
            tasks=material.parts["test"]["task"],
            stories=[s for parts in material.told.values() for s in parts["test"]],
            weights=np.concatenate(weights),
            answers=answers,
        )

    # --- What to compare it with

    def describe(self, model):
        m = self.config.model
        words = []
        if m.core == "memn2n":
            many = f"{m.restarts} restarts of " if m.restarts > 1 else ""
            size = f"{counted(m.hops, 'hop')}, {counted(m.embedding_size, 'unit')}"
            words.append(f"{many}memn2n, {size}, {m.tying}")
        else:
            words.append(describe(m, model.networks[0].reader.core))
        if len(self.materials) > 1:
            words.append(f"for each of {len(self.materials)} tasks")
        return "; ".join(words)

    def parameters(self, model):
        """The parameters of the restarts that are taken, one for each network."""
        return model.num_parameters // self.restarts

    @property
    def batches(self):
        """Held-out errors are those of the restart that is taken."""
        several = self.restarts > 1
        return f"batches, all {self.restarts} restarts," if several else "batches"

    @property
    def batches_watched(self):
        return self.restarts == 1

    def idle(self):
        m = self.config.model
        found = {}
        if m.core != "memn2n":
            own = "hops", "tying", "temporal", "relu", "masked", "restarts"
            names = [*(f"model.{name}" for name in own), "recipe.random_memories"]
            if self.config.recipe.halve_every is None:
                names.append("recipe.linear_epochs")
            found[f"on the core {m.core}"] = names
        elif not m.temporal:
            found["without temporal encoding"] = ["recipe.random_memories"]
        if m.encoding == "bag":
            found["on a bag of words"] = ["model.pe_scale"]
        if self.config.data.generated:
            found["on generated stories"] = ["data.version"]
        return found

    def notes(self):
        missing = {*map(int, TASKS)} - {*self._tasks}
        data, notes = self.config.data, [*self._notes_on_the_linear_start()]
        notes += getattr(self.source, "notes", [])
        if missing and data.task not in TASKS and not data.generated:
            which = ", ".join(map(str, sorted(missing)))
            notes.append(f"without task {which}, whose files are not all there")
        if changed := {*self._tasks} & self._changed:
            which = ", ".join(map(str, sorted(changed)))
            notes.append(
                f"the stories of task {which} are not, byte for byte, those that were "
                "published; no published result is set beside them"
            )
        if data.version == "v1.2" and 16 in self._tasks and self.cells():
            notes.append(
                "task 16 is that of bAbI v1.2; the paper's is another, that of v1.1"
            )
        for material, k in [(m, k) for m in self.materials for k in m.tasks]:
            answers = {story.answer for story in material.told[k]["test"]}
            if unknown := sorted(answers - material.ids.keys()):
                notes.append(
                    f"task {k}: some answers are never learnt, and count as errors: "
                    f"{', '.join(unknown)}"
                )
        return notes

    def _notes_on_the_linear_start(self):
        epochs, steps = self.config.recipe.linear_epochs, self.linear_steps
        if self.config.model.core != "memn2n":
            return
        if epochs and steps != (asked := epochs * self.epoch):
            yield (
                f"the linear start ends at a line of metrics, so it takes {steps:,} "
                f"steps instead of {asked:,}; give a --train.log-every that divides "
                f"{asked:,}"
            )
        if self.config.train.steps <= steps:
            yield (
                f"there will be no softmax over memories: the linear start alone takes "
                f"{steps:,} steps; give --train.steps more, or --recipe.linear-epochs "
                "less"
            )

    @functools.cached_property
    def _changed(self) -> set[int]:
        """The tasks whose files are not the published ones."""
        return {*getattr(self.source, "changed", ())}

    def cells(self):
        """Of tasks whose stories are here as they were published, and the mean only if
        that is all of them: means over fewer tasks are not to be compared.
        """
        if self.config.data.generated or (head := column(self.config)) is None:
            return {}
        size = "10k" if self.config.data.variant == "en-10k" else "1k"
        chosen, result = self.config.data.task, self.result
        if chosen in TASKS:
            known = int(chosen) not in self._changed
            return {f"{row_of(size, chosen)}, {head}": result} if known else {}
        tasks = [str(k) for k in self.source.complete if k not in self._changed]
        each = {f"{row_of(size, k)}, {head}": f"{result}_task_{k}" for k in tasks}
        mean = {f"{row_of(size, 'mean')}, {head}": result}
        return mean | each if len(tasks) == len(TASKS) else each

    def references(self):
        """The error of the commonest answer of the training stories."""
        return {
            f"{split}_error": {"commonest answer": self._floor(split)}
            for split in self.splits
        }

    def _floor(self, split):
        wrong = []
        for material in self.materials:
            part = material.parts[split]
            for task, answer in material.commonest.items():
                wrong.append((part["answer"][part["task"] == task] != answer).mean())
        return float(np.mean(wrong))


def _judged(part, logits, answers, tasks) -> dict[str, tuple]:
    """Sums of some questions' logits (R, B, V): by task and restart, wrong answers and,
    of the training stories, losses. Nothing waits for the device.

    An answer that is no word of the training stories is wrong, and has no loss.
    """
    xp = namespace(logits)
    dtype = logits.dtype
    numbers, places = np.unique(tasks, return_inverse=True)
    own = np.eye(len(numbers), dtype=dtype)[places]  # (B, tasks)
    each, counts = xp.asarray(own), own.sum(axis=0)
    wrong = gemm((xp.argmax(logits, axis=-1) != answers).astype(dtype), each)
    known = (answers != NOTHING).astype(dtype)
    targets = xp.broadcast_to(xp.maximum(answers, 0), logits.shape[:-1])
    losses = fused.softmax_cross_entropy(logits, targets).data * known
    losses = gemm(losses, each)  # (R, tasks)
    if part != "train":
        sums = {"loss": (xp.sum(losses), xp.sum(known) * len(logits))}
        return sums | _by_task("wrong", wrong, numbers, counts)
    sums = _by_task("train wrong", wrong, numbers, counts)
    return sums | _by_task("train loss", losses, numbers, counts)


def _by_task(name, sums, tasks, counts):
    """{name, task and restart: (sum, count)} of sums (R, tasks)."""
    return {
        f"{name} {task} {r}": (sums[r, column], int(count))
        for column, (task, count) in enumerate(zip(tasks, counts, strict=True))
        for r in range(len(sums))
    }
