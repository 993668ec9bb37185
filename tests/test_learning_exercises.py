"""The exercises of chapter 4: right answers written otherwise, wrong ones that are in
no list, and the package's own optimizers beside them.
"""

import numpy as np
import pytest

from tinyrmc import Parameter, fused, gradcheck, optim
from tinyrmc import primitives as p
from tinyrmc.course.exercises import learning as ex

# --- Right, but written otherwise -----------------------------------------------------


def one_hot(g, logits, targets):
    y = np.zeros_like(logits)
    y[range(len(y)), targets] = 1
    return np.einsum("r,rc->rc", g, ex.softmax(logits) - y)


def row_by_row(g, logits, targets):
    rows = []
    for weight, row, target in zip(g, logits, targets, strict=True):
        share = np.exp(row - np.logaddexp.reduce(row))
        rows.append(weight * (share - (np.arange(len(row)) == target)))
    return np.array(rows)


def in_one_line(w, g, v, rate, momentum):
    return w - rate * (g + momentum * v), g + momentum * v


def in_place_on_copies(w, g, v, rate, momentum):
    w, v = w.copy(), v.copy()
    v *= momentum
    v += g
    w -= rate * v
    return [w, v]


def by_differences(w, g, m, v, t, rate, beta1, beta2):
    m = m + (1 - beta1) * (g - m)
    v = v + (1 - beta2) * (g**2 - v)
    size = (v / (1 - beta2**t)) ** 0.5 + 1e-8
    return w - rate / (1 - beta1**t) * m / size, m, v


def if_it_is_longer(gradients, limit):
    length = np.linalg.norm(np.concatenate([g.ravel() for g in gradients]))
    return [g * limit / length if length > limit else g * 1.0 for g in gradients]


def by_minimum(gradients, limit):
    with np.errstate(divide="ignore"):
        factor = np.minimum(1, limit / np.sqrt(sum((g**2).sum() for g in gradients)))
    return tuple(factor * g for g in gradients)


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        (ex.cross_entropy_vjp, one_hot),
        (ex.cross_entropy_vjp, row_by_row),
        (ex.sgd, in_one_line),
        (ex.sgd, in_place_on_copies),
        (ex.adam_step, by_differences),
        (ex.clip, if_it_is_longer),
        (ex.clip, by_minimum),
    ],
)
def test_a_right_answer_written_otherwise_is_right(exercise, answer):
    verdict = exercise.judge(answer)
    assert verdict.state == "right", verdict.text


# --- Wrong, and in no list ------------------------------------------------------------


def adam(w, g, m, v, t, rate, beta1, beta2, *, epsilon=1e-8, steps=None):
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    t = t if steps is None else steps
    return w - rate * m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + epsilon), m, v


def in_place(w, g, v, rate, momentum):
    v *= momentum
    v += g
    return w - rate * v, v


def half_done(gradients, limit):
    return [ex.clip(gradients, limit)[0], *gradients[1:]]


WRONG = [
    (
        ex.cross_entropy_vjp,
        lambda g, z, y: g[:, None] * (ex.softmax(z) - 1 / z.shape[1]),
    ),
    (ex.cross_entropy_vjp, lambda g, z, y: abs(g)[:, None] * one_hot(g * 0 + 1, z, y)),
    (ex.cross_entropy_vjp, lambda g, z, y: one_hot(g, np.clip(z, -700, 700), y)),
    (ex.cross_entropy_vjp, lambda g, z, y: one_hot(g, z, y[::-1])),
    (ex.cross_entropy_vjp, lambda g, z, y: one_hot(g, z, y).sum(axis=0)),
    (ex.cross_entropy_vjp, lambda g, z, y: one_hot(g, z, y).astype(np.float32)),
    (ex.sgd, in_place),
    (ex.sgd, lambda w, g, v, rate, momentum: ex.sgd(w, g, v, rate, 0.9)),
    (ex.sgd, lambda w, g, v, rate, momentum: ex.sgd(w, g, v, 0.1, momentum)),
    (ex.sgd, lambda w, g, v, rate, momentum: ex.sgd(w, np.sign(g), v, rate, momentum)),
    (ex.sgd, lambda w, g, v, rate, momentum: ex.sgd(g, w, v, rate, momentum)),
    (ex.adam_step, lambda *case: adam(*case, epsilon=1e-7)),
    (ex.adam_step, lambda *case: adam(*case, epsilon=1e-10)),
    (ex.adam_step, lambda *case: adam(*case, steps=1)),
    (ex.adam_step, lambda *case: adam(*case[:-2], 0.9, 0.999)),
    (ex.adam_step, lambda *case: [each.astype("f") for each in adam(*case)]),
    (ex.clip, half_done),
    (ex.clip, lambda gradients, limit: ex.clip(gradients, 1.0)),
    (ex.clip, lambda gradients, limit: [abs(g) for g in ex.clip(gradients, limit)]),
    (ex.clip, lambda gradients, limit: [g.ravel() for g in ex.clip(gradients, limit)]),
    (ex.clip, lambda gradients, limit: ex.clip(gradients, limit / 2)),
]


@pytest.mark.parametrize(("exercise", "answer"), WRONG)
def test_a_wrong_answer_that_is_in_no_list_is_wrong(exercise, answer):
    assert exercise.judge(answer).state == "wrong"


# --- Beside the package ---------------------------------------------------------------


def test_the_gradient_of_the_cross_entropy_is_the_packages():
    rng = np.random.default_rng(3)
    logits, targets = rng.normal(size=(4, 3)), rng.integers(3, size=4)
    g = rng.normal(size=4)

    def loss(z):
        return p.sum(fused.softmax_cross_entropy(z, targets) * g)

    gradcheck(loss, logits)  # by the complex step
    shift = np.zeros(logits.shape)
    shift[2, 1] = 1e-6
    slope = (loss(logits + shift).data - loss(logits - shift).data) / 2e-6
    assert np.isclose(ex.cross_entropy_vjp(g, logits, targets)[2, 1], slope, rtol=1e-6)


@pytest.mark.parametrize("name", ["sgd", "adam_step"])
def test_many_steps_are_those_of_the_package(name):
    rng = np.random.default_rng(5)
    w = rng.normal(size=(2, 3))
    parameter = Parameter(w)
    package = {
        "sgd": lambda: optim.SGD([parameter], 0.1, momentum=0.9),
        "adam_step": lambda: optim.Adam([parameter], 0.1),
    }[name]()
    m = v = np.zeros_like(w)
    for t in range(1, 9):
        g = 10 * rng.normal(size=w.shape)
        package.zero_grad()
        parameter.grad += g
        package.step(max_norm=2.0)
        (g,) = ex.clip([g], 2.0)
        if name == "sgd":
            w, v = ex.sgd(w, g, v, 0.1, 0.9)
        else:
            w, m, v = ex.adam_step(w, g, m, v, t, 0.1, 0.9, 0.999)
    assert np.allclose(parameter.data, w, rtol=1e-12)
