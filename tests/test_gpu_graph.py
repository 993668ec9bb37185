"""Whole training steps on a GPU: how many operations they ask for, and CUDA graphs of
them.

On the stand-in, with the kernels compiled by g++: a graph there is the list of what was
asked for, which is done again.
"""

import contextlib
import dataclasses
import functools

import fakecupy
import numpy as np
import pytest
from cuda_shim import shim
from fakecupy import cupy, device, no_sync, only
from tinytasks import changed, steps
from turns import rarely

from tinyrmc import optim
from tinyrmc import primitives as p
from tinyrmc.backend import namespace
from tinyrmc.backend.gpu.graph import Graph
from tinyrmc.cores import registry
from tinyrmc.errors import UsageError
from tinyrmc.training.discovery import TaskError, load_task
from tinyrmc.training.gpu import capture
from tinyrmc.training.gpu.metrics import OnDevice
from tinyrmc.training.trainer import Trainer

pytestmark = [shim, pytest.mark.slow]
OPERATIONS = 250  # of a step of nth farthest at 8 slots and 8 time steps, at most
TINY = {"mem_slots": 2, "num_heads": 2, "head_size": 2}


def trainer(graph=False, device="cuda", task="nth_farthest", model=TINY, **train):
    """A Trainer of the task's first preset, made small."""
    kind = load_task(task).Task if isinstance(task, str) else task
    config = next(iter(kind.presets.values()))[1]
    if "mem_slots" in model and issubclass(kind, load_task("nth_farthest").Task):
        objects, stages = (8, ()) if model["mem_slots"] > 2 else (3, ((2, 1),))
        data = {"objects": objects, "stages": stages}
        config = changed(config, data=data, model=model)
    config = changed(config, train={"batch_size": 3, **train})
    return Trainer(kind(config), seed=3, device=device, prefetch=False, graph=graph)


def test_the_operations_of_a_step(cublas):
    """With as many slots and time steps as in the paper.

    The number does not depend on widths, and hardly on the batch.
    """
    sizes = {"mem_slots": 8, "num_heads": 2, "head_size": 2}
    ours = trainer(model={**sizes, "activate_final": False}, clip_norm=None)
    ours.advance()
    with no_sync(), only(np.float32), fakecupy.recorded() as operations:
        ours.advance()
    asked = [name for name in operations if name != "upload"]
    assert 200 < len(asked) <= OPERATIONS, sorted(asked)
    assert len(operations) - len(asked) == 5  # the batch and the rate, nothing else


@pytest.mark.parametrize("clip", [0.5, *rarely([None])])
def test_a_graph_gives_the_same_bits(clip, cublas):
    """Over new batches, a moving rate, other shapes, lines of metrics and a resume."""
    plain, graph = (trainer(on, clip_norm=clip) for on in (False, True))
    lines = []
    for each in plain, graph:
        for step in range(8):
            each.task.stage = step // 4  # another shape
            with no_sync():
                each.advance()
            if step in (3, 7):
                lines.append(each.read())
        again = trainer(each is graph, clip_norm=clip)
        again.restore(each.arrays(), each.state())
        for _ in range(3):
            again.advance()
            each.advance()
        same(again, each)
    same(plain, graph)
    assert lines[:2] == lines[2:]
    assert int(graph.skipped) == 0 and int(graph._steps) == graph.step == 11


def same(one, other):
    """Parameters, the optimizer's state and the carry, to the last bit."""
    ours, theirs = one.arrays(), other.arrays()
    assert ours.keys() == theirs.keys()
    for name, x in ours.items():
        np.testing.assert_array_equal(x, theirs[name], err_msg=name)


def test_a_graph_skips_what_is_not_finite(cublas):
    """The count and the step of the first one are kept on the device."""
    ours = trainer(graph=True)
    draw = ours.stream.batch

    def spoiled(step, start, stop):
        batch = draw(step, start, stop)
        if step in (5, 6):
            batch["inputs"][0] = np.nan
        return batch

    ours.stream.batch = spoiled
    steps(ours, 8)
    assert (int(ours.skipped), int(ours.first_skipped)) == (2, 6)
    assert int(ours.optimizer.updates) == 6 and ours.read()["skipped_updates"] == 2


class Own(load_task("nth_farthest").Task):
    def optimizer(self, parameters, allocate):
        return optim.AdamW(parameters, weight_decay=0.3, allocate=allocate)


class Handing(load_task("nth_farthest").Task):
    """Hands on what it has seen in this step, and what was handed to it."""

    carries = True

    def loss(self, model, batch, carry):
        total, count, metrics, _ = super().loss(model, batch, None)
        seen = namespace(batch["inputs"]).sum(batch["inputs"], axis=(1, 2))
        before = carry or {"now": seen, "then": seen}
        total = total + p.sum(total * before["then"])
        return total, count, metrics, {"now": seen, "then": before["now"]}


CORES = [{"core": core} for core in registry.names() if core != "rmc"]
CORES += [{"num_blocks": 2}, {"gate_style": "memory"}, {"gate_style": "none"}]
STEPS = [{"task": Own}, {"task": Handing}, {"model": {**TINY, "core": "rmc"}}]
STEPS += [{"optimizer": "sgd", "momentum": 0.9, "clip_norm": 0.5}]
STEPS += rarely({"model": {**TINY, **asked}} for asked in CORES)
STEPS += rarely(
    [
        {"optimizer": "sgd", "clip_by": "matrix", "clip_norm": 0.5},
        {"optimizer": "rmsprop", "clip_norm": 0.5},
        {"clip_by": "matrix", "clip_norm": 0.5},
    ]
)


@pytest.mark.parametrize("asked", STEPS, ids=str)
def test_every_core_update_and_carry_can_be_captured(asked, cublas):
    """While the rate moves: it rises in the first steps."""
    plain, graph = (trainer(on, **asked) for on in (False, True))
    for each in plain, graph:
        for _ in range(7):
            with no_sync():
                each.advance()
    assert graphs_of(graph) == [True] and graph.task.learning_rate(6) > 0
    same(plain, graph)


@pytest.mark.parametrize("rate", [-1, None])
def test_a_rate_that_cannot_be_is_refused_when_the_graph_is_there(rate, cublas):
    graph = trainer(True)
    graph.task.learning_rate = lambda step: 0.1 if step < 4 else rate
    steps(graph, 4)
    assert graphs_of(graph) == [True]
    with pytest.raises(TaskError, match=rf"learning_rate\(4\) must .* not {rate}$"):
        graph.advance()


# --- Texts and stories ----------------------------------------------------------------

SMALL = {"embedding_size": 4, "hidden_size": 4, "num_heads": 2, "head_size": 2}
NETWORKS = [
    ("language_modeling", "quick", {**SMALL, "core": "lstm"}),
    ("babi", "quick", {"embedding_size": 4, "restarts": 2}),
]
MEMORIES = {"embedding_size": 4, "memories": 5, "hops": 2}
NETWORKS += rarely(
    [
        ("language_modeling", "quick", {**SMALL, "core": "rmc"}),
        ("language_modeling", "memn2n", MEMORIES),
        ("babi", "cores", {**SMALL, "core": "lstm"}),
    ]
)


def reader(graph, task, preset, model, window=3):
    """A Trainer that reads: four windows of a short text are an epoch."""
    kind = load_task(task).Task
    config = changed(kind.presets[preset][1], model=model, train={"batch_size": 3})
    if task == "babi":
        return Trainer(kind(config), seed=3, device="cuda", prefetch=False, graph=graph)
    task = kind(changed(config, data={"window": window, "lanes": 3}))
    text = task.corpus.texts["train"][: 3 * (4 * window + 1) + 1]
    texts = {**task.corpus.texts, "train": text}
    task.corpus = dataclasses.replace(task.corpus, texts=texts)
    return Trainer(task, seed=3, device="cuda", prefetch=False, graph=graph)


def captured(make, opens=None):
    """A line of metrics, the same of steps with graphs and without: into the next phase
    of the task, if something `opens` it, and on from a checkpoint.
    """
    plain, graph = make(False), make(True)
    for each in plain, graph:
        for step in range(12):
            if opens and step == 6:
                opens(each.task)
            with no_sync():
                each.advance()
        again = make(each is graph)
        again.restore(each.arrays(), each.state())
        same(steps(again, 5), steps(each, 5))
    assert graphs_of(graph) == [True, *[True] * bool(opens)]
    same(plain, graph)
    line = plain.read()
    assert line == graph.read()
    return line


def ends_linear_start(task):
    task.linear = not task.linear


@pytest.mark.parametrize(("task", "preset", "model"), NETWORKS)
def test_what_reads_can_be_captured(task, preset, model, cublas):
    """With dropout and a state that is carried on and begins anew."""
    opens = ends_linear_start if task == "babi" else None
    make = functools.partial(reader, task=task, preset=preset, model=model)
    captured(make, opens)


# operations for each word, and besides: two layers of an LSTM, and a memory
PER_WORD = [*rarely([("lstm", 68, 352)]), ("rmc", 60, 352)]


@pytest.mark.parametrize(("core", "each", "besides"), PER_WORD)
def test_the_operations_of_a_step_that_reads(core, each, besides, cublas):
    """Of T words. The number does not depend on widths or the number of lanes."""
    counts = []
    for window in 4, 8:
        model = {**SMALL, "core": core}
        ours = reader(False, "language_modeling", "quick", model, window)
        for _ in range(2):
            with fakecupy.recorded() as operations:
                ours.advance()
        counts.append(len([name for name in operations if name != "upload"]))
    assert (counts[1] - counts[0]) / 4 <= each
    assert 2 * counts[0] - counts[1] <= besides, counts


# --- Agents ---------------------------------------------------------------------------

WIDTHS = {"mem_slots": 2, "num_heads": 2, "head_size": 2}
CONV = {"features": 4, "core": "conv_lstm", "encoder": "conv"}
AGENTS = [("box_world", "quick", {"features": 4})]
AGENTS += rarely(
    [
        ("box_world", "quick", CONV),
        ("box_world", "paper", {}),  # sees pixels, learns from what was acted before
        ("mini_pacman", "quick", {"features": 4, "core": "lstm", "hidden_size": 4}),
    ]
)


def agent(graph, task, preset, model, unroll=4):
    """A Trainer that acts in three levels, and learns from that."""
    kind = load_task(task).Task
    config = changed(kind.presets[preset][1], model={**WIDTHS, **model})
    settings = {"agent": {"unroll": unroll}, "train": {"batch_size": 3}}
    if task == "box_world":
        settings["world"] = {"pool": 64, "limit": 9, "stages": ((5, 1, 0), (6, 2, 1))}
    task = kind(changed(config, **settings))
    return Trainer(task, seed=3, device="cuda", prefetch=False, graph=graph)


@pytest.mark.parametrize(("task", "preset", "model"), AGENTS)
def test_a_whole_update_of_an_agent_can_be_captured(task, preset, model, cublas):
    """Acting and learning: levels end and begin anew, stages open, the rate moves."""

    def opens(task):
        task.load_state({"stage": 1, "since": 6})

    stages = task == "box_world"
    make = functools.partial(agent, task=task, preset=preset, model=model)
    line = captured(make, opens if stages else None)
    assert not stages or "score" in line  # levels have ended


# operations for each step in the world, and besides: with the encoder and head
PER_MOVE = [("quick", 200, 210), *rarely([("paper", 222, 330)])]


@pytest.mark.parametrize(("preset", "each", "besides"), PER_MOVE)
def test_the_operations_of_an_agents_update(preset, each, besides, cublas):
    """Of T steps in the world. The number depends neither on widths nor on levels."""
    counts = []
    for unroll in 4, 8:
        ours = agent(False, "box_world", preset, {"features": 4}, unroll)
        steps(ours, 2)
        with no_sync(), fakecupy.recorded() as operations:
            ours.advance()
        counts.append(len([name for name in operations if name != "upload"]))
    assert (counts[1] - counts[0]) / 4 <= each, counts
    assert 2 * counts[0] - counts[1] <= besides, counts


# --- What cannot be captured ----------------------------------------------------------


OBSTACLES = [
    ({"device": "cpu"}, "needs --device cuda"),
    ({"micro_batch_size": 2}, "needs the batch in one piece"),
]


@pytest.mark.parametrize(("asked", "says"), OBSTACLES)
def test_what_no_graph_can_repeat_is_refused(asked, says, cublas):
    with pytest.raises(UsageError, match=f"--graph {says}"):
        trainer(graph=True, **asked)
    ours, on_cpu = trainer(graph=None, **asked), "device" in asked
    assert ours._cuda_graph is None
    assert ours.without_graphs.startswith("" if on_cpu else says)
    assert bool(ours.without_graphs) != on_cpu
    assert trainer(graph=False, **asked).without_graphs == ""


class Peeking(load_task("nth_farthest").Task):
    """Looks at its loss, for which a step would wait."""

    def loss(self, *arguments):
        total, *rest = super().loss(*arguments)
        assert float(total.data) > 0
        return total, *rest


def test_a_step_that_waits_is_refused_or_taken_as_ever(cublas, capsys):
    """Refused if graphs were asked for; else the steps go on, and a note says so."""
    plain, other = (trainer(on, task=Peeking) for on in (False, None))
    for each in plain, other:
        steps(each, 6)
    same(plain, other)
    told = capsys.readouterr().err
    assert told.startswith("note: steps go on without CUDA graphs (Refused: float()")
    assert told.count("note") == 1
    asked = trainer(True, task=Peeking)
    with pytest.raises(UsageError, match=r"--graph: this step .* float\(\).*; say"):
        steps(asked, 3)


def graphs_of(ours):
    return [each.captured for each in ours._cuda_graph._steps.values()]


def test_graphs_come_by_themselves_for_shapes_that_come_again(cublas):
    """Not for one that comes once, and no more of them than are kept."""
    ours, other = trainer(graph=None), trainer(graph=None)
    assert ours._cuda_graph.stream is other._cuda_graph.stream  # so they are in order
    ours.task.phases = None  # all of its state is one
    for number in 0, 0, 1, 0:
        ours.task.stage = number
        ours.advance()
    assert graphs_of(ours) == [True]
    for number in range(capture.KEPT + 1):
        ours.task.state = lambda number=number: {"stage": number}
        steps(ours, 3)
    assert graphs_of(ours) == capture.KEPT * [True]
    kept = [*ours._cuda_graph._steps]
    ours.task.state = lambda: {"stage": 0}  # lost its graph, and gets no other
    steps(ours, 3)
    assert [*ours._cuda_graph._steps] == kept


@pytest.mark.parametrize("early", [True, False])
def test_without_room_for_a_graph_the_steps_go_on(early, cublas, capsys, monkeypatch):
    """Whether a step runs out of memory at its beginning or before its update.

    Without graphs it does what it always did.
    """
    inside, memory = [], Graph.memory

    @contextlib.contextmanager
    def noted(graph):
        inside.append(1)
        try:
            with memory(graph):
                yield
        finally:
            inside.clear()

    def short(kept, *arguments, **more):
        if inside:
            raise fakecupy.OutOfMemoryError("Out of memory allocating 9 bytes\nmore")
        return kept(*arguments, **more)

    monkeypatch.setattr(Graph, "memory", noted)
    plain, other, asked = (trainer(on, task=Handing) for on in (False, None, True))
    for each in other, asked:
        owner, name = (each.task, "loss") if early else (each.optimizer, "step")
        limited = functools.partial(short, getattr(owner, name))
        monkeypatch.setattr(owner, name, limited)
    for each in plain, other:
        steps(each, 6)
    same(plain, other)
    told = capsys.readouterr().err
    assert told.startswith("note: steps go on without CUDA graphs (OutOfMemoryError: O")
    assert told.count("\n") == 1
    with pytest.raises(UsageError, match=r"--graph: this step .*OutOfMemoryError"):
        steps(asked, 3)
    inside.append(1)
    with pytest.raises(fakecupy.OutOfMemoryError):
        other.advance()
    inside.clear()
    plain.advance()
    other.advance()  # what it carries is still there
    same(plain, other)


def test_graphs_make_room_for_a_step_of_another_kind(cublas, capsys, monkeypatch):
    plain, other = (trainer(on) for on in (False, None))
    draw = other.task.loss

    def short(*arguments):
        if other._cuda_graph._steps and other.task.stage:
            raise fakecupy.OutOfMemoryError("Out of memory allocating 9 bytes")
        return draw(*arguments)

    monkeypatch.setattr(other.task, "loss", short)
    for each in plain, other:
        for step in range(6):
            each.task.stage = step // 4  # another shape
            each.advance()
    same(plain, other)
    assert capsys.readouterr().err.count("OutOfMemoryError") == 1


def test_every_thread_that_takes_a_step_works_on_the_graphs_stream(cublas):
    """It makes the batch and the rate there, and reads there what came out."""
    ours = trainer(graph=True)
    cupy.cuda.Stream().use()  # that of a thread which has not made the Trainer
    ours.advance()
    assert cupy.cuda.get_current_stream() is ours._cuda_graph.stream


def test_totals_of_more_names_than_there_are_places(cublas):
    """Those beyond are added up as ever; and all go on from what was saved."""
    more = OnDevice.MOST + 2
    one = device(np.ones((), np.int64))
    totals = OnDevice(cupy)
    for _ in range(2):
        totals.add({f"metric {k}": (one, one) for k in range(more)})
    assert not totals.sums["metric 0"][0]
    again = OnDevice(cupy, totals.plain())
    again.add({f"metric {k}": (one, one) for k in range(more)})
    assert again.plain() == {f"metric {k}": (3, 3) for k in range(more)}


def test_the_memory_of_a_graph_goes_with_it(cublas):
    """CuPy keeps that of a pool which nobody has any more."""
    ours, freed = trainer(graph=True), fakecupy._Pool.freed
    steps(ours, 3)
    before = freed[0]
    ours._cuda_graph.forget()
    assert freed[0] == before + 1
