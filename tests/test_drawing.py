"""The drawing of a tape: which boxes and lines there are, and where they stand."""

import itertools
import math

import matplotlib.pyplot as plt
import numpy as np
import pytest

from tinyrmc import Parameter, Tape, course
from tinyrmc import primitives as p
from tinyrmc.course.pictures import draw_tape, tape_graph


@pytest.fixture(autouse=True)
def pictures():
    yield
    plt.close("all")


def recorded():
    """tanh(x W) times itself, and a side branch that the loss does not need."""
    W = Parameter(np.ones((2, 3)))
    with Tape() as tape:
        x = tape.watch(np.ones((4, 2)))
        y = p.tanh(x @ W)
        p.exp(y)
        loss = p.sum(y * y)
    return tape, x, W, loss


def names_of(graph):
    return [(graph.labels[line[0]], graph.labels[line[-1]]) for line in graph.lines]


def test_boxes_are_what_the_loss_is_made_of_and_each_use_is_a_line():
    _, _, W, loss = recorded()
    graph = tape_graph(loss, {"W": W})
    assert sorted(names_of(graph)) == sorted(
        [
            ("input (4, 2)", "matmul"),
            ("W (2, 3)", "matmul"),
            ("matmul", "tanh"),
            ("tanh", "multiply"),
            ("tanh", "multiply"),
            ("multiply", "sum"),
        ]
    )


def test_every_line_goes_down_a_row_at_a_time():
    with Tape():
        W = Parameter(np.ones((3, 3)))
        y = W
        for _ in range(4):
            y = p.tanh(y)
        loss = p.sum(y + W)  # a line past all others
    graph = tape_graph(loss, {})
    for line in graph.lines:
        assert np.diff([graph.rows[key] for key in line]).tolist() == [1] * (
            len(line) - 1
        )


def test_an_operation_with_several_results_is_one_box():
    W = Parameter(np.ones((3, 2)))
    with Tape():
        first, *_, last = p.unstack(W * 2.0, axis=0)
        loss = p.sum(first + last)
    graph = tape_graph(loss, {})
    labels = [*graph.labels.values()]
    assert labels.count("unstack") == 1
    assert names_of(graph).count(("unstack", "add")) == 2


def test_what_is_walked_back_or_never_recorded_cannot_be_drawn():
    tape, _, _, loss = recorded()
    tape.backward(loss)
    for nothing in (loss, Parameter(np.ones(2)), p.sum(np.ones(3))):
        with pytest.raises(ValueError, match="before backward"):
            draw_tape(nothing)


def attention_of_two_heads():
    rng = np.random.default_rng(0)
    W = [Parameter(rng.normal(size=(4, 2))) for _ in range(6)]
    M = rng.normal(size=(3, 4))
    with Tape() as tape:
        M = tape.watch(M)
        heads = []
        for q, k, v in (W[:3], W[3:]):
            scores = p.divide(M @ q @ p.swapaxes(M @ k, 0, 1), math.sqrt(2))
            heads.append(p.softmax(scores) @ (M @ v))
        loss = p.sum(p.square(p.tanh(p.concatenate(heads, axis=1)) + M))
    return tape, loss


def test_no_two_boxes_of_forty_lie_on_each_other_or_outside():
    tape, loss = attention_of_two_heads()
    panel = draw_tape(loss)
    figure = panel.figure
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in panel.texts]
    assert len(boxes) == len(tape.entries) + 7
    for first, second in itertools.combinations(boxes, 2):
        assert not first.overlaps(second)
    page = figure.bbox
    assert all(page.x0 < box.x0 and box.x1 < page.x1 for box in boxes)


def test_course_has_it():
    assert course.draw_tape is draw_tape
