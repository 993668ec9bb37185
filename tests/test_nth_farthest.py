"""The task nth_farthest: its examples against a loop that reads only what a network
reads, its floors, its ladder and its streams.

The oracle knows nothing of how examples are made. It reads labels, question and vectors
back from the inputs, measures every distance in plain Python, and answers.
"""

import dataclasses
import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tinytasks import assert_same_arrays, changed, observed

from tinyrmc.training import HELD_OUT_SEED, Samples
from tinyrmc.training.discovery import load_task
from tinyrmc.training.trainer import Trainer

nth_farthest = load_task("nth_farthest")

# (objects, dimensions) of the task itself
LAYOUTS = st.tuples(st.integers(2, 8), st.integers(1, 16))


ENDS = st.sampled_from(["nearest", "farthest"])  # from where n counts


def drawn(count, objects, dimensions, layout=None, seed=0, count_from="nearest"):
    rng, layout = np.random.default_rng(seed), layout or (objects, dimensions)
    return nth_farthest.draw(rng, count, objects, dimensions, layout, count_from)


def task_of(objects=4, dimensions=4, stages=(), seed=0, **data):
    """A task with the smallest network that will do."""
    data = nth_farthest.DataConfig(objects, dimensions, stages, **data)
    config = dataclasses.replace(nth_farthest.QUICK, data=data)
    sizes = {"mem_slots": 2, "head_size": 2, "num_heads": 1}
    return nth_farthest.Task(changed(config, model=sizes))


def the_one(row):
    """Where the single 1 of a one-hot row stands; the rest must be zeros."""
    (place,) = np.flatnonzero(row)
    assert row[place] == 1
    return int(place)


def decoded(example, layout):
    """(vectors, labels, n, m) of one example's inputs (k, D + 3 N): lists of Python
    numbers, as a network could read them.
    """
    most, width = layout
    vectors = [[float(value) for value in step[:width]] for step in example]
    labels = [the_one(step[width : width + most]) for step in example]
    asked = [np.split(step[width + most :], 2) for step in example]
    ((n, m),) = {tuple(map(the_one, each)) for each in asked}  # the same at every step
    return vectors, labels, n, m


def brute_force(vectors, labels, n, m, count_from):
    """(label of the nth vector from the one labelled m, counted from the nearest or the
    farthest, time step of m), by explicit loops.
    """
    reference = labels.index(m)
    distances = []
    for vector, label in zip(vectors, labels, strict=True):
        total = 0.0
        for ours, theirs in zip(vector, vectors[reference], strict=True):
            total += (ours - theirs) ** 2
        distances.append((total, label))
    return sorted(distances, reverse=count_from == "farthest")[n][1], reference


@given(LAYOUTS, st.data(), st.integers(0, 2**32), ENDS)
def test_every_answer_is_that_of_the_loop(layout, data, seed, count_from):
    objects = data.draw(st.integers(2, layout[0]), label="objects")
    dimensions = data.draw(st.integers(1, layout[1]), label="dimensions")
    batch = drawn(5, objects, dimensions, layout, seed, count_from)
    for k, example in enumerate(batch["inputs"]):
        vectors, labels, n, m = decoded(example, layout)
        answer, reference = brute_force(vectors, labels, n, m, count_from)
        found = (batch[name][k] for name in ("target", "reference", "is_self"))
        assert tuple(found) == (answer, reference, answer == m)
        assert (n == (0 if count_from == "nearest" else objects - 1)) == (answer == m)


def test_a_task_counts_from_where_it_is_told():
    """The released generator asks for m itself with n = 0; counted from the farthest it
    is the last.
    """
    for count_from, n in (("nearest", 0), ("farthest", 3)):
        batch = task_of(count_from=count_from).draw(np.random.default_rng(0), 100)
        assert ((batch["inputs"][:, 0, 4 + 4 + n] == 1) == batch["is_self"]).all()
        assert batch["is_self"].any()


@given(LAYOUTS, st.data(), st.integers(0, 2**32))
def test_an_easier_rung_has_the_layout_of_the_task(layout, data, seed):
    objects = data.draw(st.integers(2, layout[0]), label="objects")
    dimensions = data.draw(st.integers(1, layout[1]), label="dimensions")
    inputs = drawn(7, objects, dimensions, layout, seed)["inputs"]
    assert inputs.dtype == np.float32
    assert inputs.shape == (7, objects, layout[1] + 3 * layout[0])
    x = inputs[..., : layout[1]]
    assert not x[..., dimensions:].any()
    assert np.all(x[..., :dimensions] != 0) and np.abs(x).max() <= 1
    for example in inputs:
        _, labels, n, _ = decoded(example, layout)
        assert len(set(labels)) == objects and n < objects


def test_labels_questions_and_vectors_are_uniform_and_independent():
    layout, count = (5, 3), 30_000
    batch = drawn(count, 3, 2, layout)
    labels, ranks, asked = (
        batch["inputs"][..., 3 + 5 * k : 8 + 5 * k].argmax(-1) for k in range(3)
    )
    five_sigma = 5 * np.sqrt(0.25 / count)

    def assert_as_often(hits, share):
        assert abs(np.mean(hits) - share) < five_sigma

    for step in range(3):
        for label in range(5):  # all of the task's, though three would do
            assert_as_often(labels[:, step] == label, 1 / 5)
        assert_as_often(batch["reference"] == step, 1 / 3)
        assert_as_often(ranks[:, 0] == step, 1 / 3)
        for rank in range(3):
            both = (batch["reference"] == step) & (ranks[:, 0] == rank)
            assert_as_often(both, 1 / 9)
    for label in range(5):
        assert_as_often(asked[:, 0] == label, 1 / 5)
        assert_as_often(batch["target"] == label, 1 / 5)
    # (count, 3 objects x 2 dimensions)
    x = batch["inputs"][..., :2].astype(np.float64).reshape(count, -1)
    assert np.abs(x.mean(0)).max() < 5 * np.sqrt(1 / 3 / count)
    most = 5 / np.sqrt(count)
    assert np.abs(np.cov(x, rowvar=False) - np.eye(6) / 3).max() < most / 3
    for i in range(6):
        assert np.abs(np.corrcoef(x[:, i], labels[:, 0])[0, 1]) < most


# --- The floors -----------------------------------------------------------------------


@given(LAYOUTS, st.integers(0, 2**32), ENDS)
def test_the_own_norm_answer_is_that_of_the_loop(layout, seed, count_from):
    inputs = drawn(5, *layout, seed=seed, count_from=count_from)["inputs"]
    answers = nth_farthest.own_norm_answer(inputs, layout, count_from)
    for example, answer in zip(inputs, answers, strict=True):
        vectors, labels, n, m = decoded(example, layout)
        others = [
            (sum(value**2 for value in vector), label)
            for vector, label in zip(vectors, labels, strict=True)
            if label != m
        ]
        order = [m, *(label for _, label in sorted(others))]
        assert answer == order[:: 1 if count_from == "nearest" else -1][n]


def test_the_floors():
    for layout, own_norm in [((4, 4), 0.594), ((8, 16), 0.31)]:
        count, n = 40_000, layout[0]
        batch = drawn(count, *layout, seed=1)
        sigma = np.sqrt(0.25 / count)
        right = nth_farthest.own_norm_answer(batch["inputs"], layout) == batch["target"]
        assert abs(right.mean() - own_norm) < 0.005 + 4 * sigma
        assert right[batch["is_self"]].all()

        # Answering m to the self query, and guessing among the others else, is right in
        # 1/N + (N - 1)/N * 1/(N - 1) of the cases.
        labels = batch["inputs"][..., layout[1] : layout[1] + n].argmax(-1)
        m = batch["inputs"][:, 0, -n:].argmax(-1)
        others = labels[labels != m[:, None]].reshape(count, -1)
        choice = np.random.default_rng(2).integers(n - 1, size=count)
        guess = others[np.arange(count), choice]
        right_by_guess = np.where(batch["is_self"], m, guess) == batch["target"]
        assert abs(right_by_guess.mean() - 2 / n) < 4 * sigma
        assert abs(right_by_guess[~batch["is_self"]].mean() - 1 / (n - 1)) < 5 * sigma

        shown = task_of(*layout).references()
        assert shown["test_accuracy"]["only the self query"] == 2 / n
        assert shown["test_accuracy_without_self"]["only the self query"] == 1 / (n - 1)
        for metric, hits in (
            ("test_accuracy", right),
            ("test_accuracy_without_self", right[~batch["is_self"]]),
        ):
            floor = shown[metric]["ranking by own norm"]
            assert abs(floor - hits.mean()) < 6 * sigma
        assert ("paper (RMC)" in shown["test_accuracy"]) == (layout == (8, 16))


# --- The stream -----------------------------------------------------------------------


@given(st.integers(1, 300), st.data())
def test_a_batch_is_the_same_in_whatever_parts_it_is_drawn(size, data):
    task = task_of(3, 2, ((2, 1), (3, 1)))
    task.stage = 1
    stream = task.stream(None, seed=5)
    step = data.draw(st.integers(0, 10**6), label="step")
    cuts = sorted(
        data.draw(st.sets(st.integers(0, size), max_size=5), label="cuts") | {0, size}
    )
    parts = [
        stream.batch(step, start, stop) for start, stop in itertools.pairwise(cuts)
    ]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    whole = task.stream(None, seed=5).batch(step, 0, size)
    assert all(len(array) == size for array in whole.values())
    assert_same_arrays(joined, whole)


def held_out(trainer):
    """A run's test inputs, as its network sees them."""
    seen = []
    network = trainer.model
    trainer.task.test_examples = 200
    trainer.task.evaluate(lambda inputs: seen.append(inputs) or network(inputs))
    return np.concatenate(seen)


def test_runs_of_different_seeds_are_tested_on_the_same_examples():
    held = [held_out(Trainer(task_of(3, 2, ((3, 1),)), seed)) for seed in (0, 1)]
    np.testing.assert_array_equal(*held)
    task = task_of(3, 2, ((3, 1),))
    expected = Samples(task.draw, HELD_OUT_SEED).batch(0, 0, 200)["inputs"]
    np.testing.assert_array_equal(held[0], expected)
    assert held[0][..., :2].all()  # of the task, not of the stage a run begins on
    assert nth_farthest.Task.test_examples >= 10_000
    for seed in (0, 1):
        learnt = Trainer(task, seed).stream.batch(0, 0, 200)["inputs"]
        assert not np.isin(held[0][..., :2], learnt[..., :2]).any()


# --- The ladder -----------------------------------------------------------------------


def test_a_stage_is_passed_by_the_way_covered_from_floor_to_perfect():
    task = task_of(4, 2, ((3, 1), (3, 2)), promotion_threshold=0.4)
    passing = 2 / 3 + 0.4 / 3
    assert observed(task, 100, {"accuracy": passing - 1e-9}) == {"stage": "3x1"}
    assert task.state() == {"stage": 0}
    # only rehearsed since the last line
    assert observed(task, 200, {"accuracy": float("nan")}) == {"stage": "3x1"}
    assert task.stage == 0
    # the line tells of the stage it was measured on
    assert observed(task, 300, {"accuracy": passing + 1e-9}) == {"stage": "3x1"}
    assert observed(task, 400, {"accuracy": passing - 1e-9}) == {"stage": "3x2"}
    assert task.stage == 1
    assert observed(task, 500, {"accuracy": 1.0}) == {"stage": "3x2"}
    assert task.stage == 2
    # there is no further one
    assert observed(task, 600, {"accuracy": 1.0}) == {"stage": "4x2"}
    assert task.stage == 2


def test_one_step_in_four_goes_back_to_an_earlier_stage():
    task = task_of(4, 3, ((2, 1), (3, 1), (4, 2)), replay_fraction=0.25)
    task.stage = 2
    stream, steps = task.stream(None, seed=3), 2000
    seen = {stage: 0 for stage in task.stages}
    for step in range(steps):
        batch = stream.batch(step, 0, 1)
        x = batch["inputs"]
        stage = x.shape[1], int(np.count_nonzero(x[0, 0, :3]))
        seen[stage] += 1
        assert batch["current"].all() == (stage == (4, 2))
    five_sigma = 5 * np.sqrt(0.25 * 0.75 / steps)
    assert seen[(4, 3)] == 0
    for stage, fraction in (((4, 2), 0.75), ((2, 1), 0.125), ((3, 1), 0.125)):
        assert abs(seen[stage] / steps - fraction) < five_sigma


def test_rehearsed_examples_train_but_do_not_count_as_accuracy():
    task = task_of(3, 2, ((3, 1),))
    task.stage = 1
    model = task.build(np.random.SeedSequence(0))
    batch = task.draw(np.random.default_rng(0), 10, 0)
    loss, count, metrics, _ = task.loss(model, batch, None)
    assert count == 10 and np.isfinite(loss.data)
    assert metrics["accuracy"][1] == metrics["accuracy_without_self"][1] == 0


def test_the_metrics_are_what_they_say():
    task = task_of(3, 2)
    model = task.build(np.random.SeedSequence(0))
    batch = task.draw(np.random.default_rng(0), 50)
    loss, count, metrics, carry = task.loss(model, batch, None)
    logits = model(batch["inputs"]).data.astype(np.float64)
    right = others = total = 0
    for row, target, is_self in zip(
        logits, batch["target"], batch["is_self"], strict=True
    ):
        total -= row[target] - np.log(sum(np.exp(value) for value in row))
        right += max(range(3), key=row.__getitem__) == target
        others += (max(range(3), key=row.__getitem__) == target) and not is_self
    assert carry is None and count == 50
    np.testing.assert_allclose(loss.data, total, rtol=1e-5)
    assert metrics["accuracy"] == (right, 50)
    assert metrics["accuracy_without_self"] == (others, 50 - batch["is_self"].sum())


def test_the_network_is_the_paper_s():
    """Section 4.1 and appendix A.1: four layers of 256 ReLU units on the core's last
    output, then the logits. The website's network has narrower ones.
    """
    for preset, (_, config) in nth_farthest.Task.presets.items():
        sizes = {"mem_slots": 2, "head_size": 2, "num_heads": 1}
        small = changed(config, model=sizes)
        model = nth_farthest.Task(small).build(np.random.SeedSequence(0))
        n, d = config.data.objects, config.data.dimensions
        shapes = [
            p.shape for name, p in model.named_parameters() if name.startswith("head.")
        ]
        units = 96 if preset == "plane" else 256
        first, inner = [(model.core.output_size, units), (units,)], (units, units)
        assert shapes == [*first, *[inner, (units,)] * 3, (units, n), (n,)], preset
        assert model(np.zeros((3, n, d + 3 * n), np.float32)).shape == (3, n)
    paper = nth_farthest.PAPER.model
    assert paper.mem_slots * paper.num_heads * paper.head_size == 2048
