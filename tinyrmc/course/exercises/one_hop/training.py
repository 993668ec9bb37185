"""Chapter 19: one time through all stories."""

from __future__ import annotations

import numpy as np

from tinyrmc import Parameter, Tape, fused, nn, optim
from tinyrmc import primitives as p

from ..exercise import each
from ..used import used


class _Linear(nn.Module):
    """Two networks side by side: logits (2, B, 3) of arrays (B, 4) and (B,)."""

    def __init__(self, seed):
        weights = np.random.default_rng(seed).normal(size=(2, 4, 3))
        self.weights = Parameter(weights)

    def __call__(self, x, factor):
        return (x * factor[:, None]) @ self.weights


def _run(answer, inputs, targets, order, rate, seed):
    """The losses and the weights afterwards."""
    network = _Linear(seed)
    sgd = optim.SGD(network.parameters())
    losses = answer(network, sgd, inputs, targets, order, rate)
    return losses, network.weights.data


def _lessons(rng, S, size, rate=0.01, scale=1):
    inputs = scale * rng.normal(size=(S, 4)), rng.uniform(0.5, 2, size=S)
    order = rng.permutation(S)[:size]
    return inputs, rng.integers(3, size=S), order, rate, int(rng.integers(99))


@used(
    _run,
    cases=each(
        _lessons,  # 80 do not fill a batch; the last gradient is longer than 40
        "32 32, 96 96 0.003, 80 80, 200 64, 32 32 0.01 100",
    ),
    tolerance=1e-6,
    hints=[
        "for start in range(0, len(order) - 31, 32): "
        "batch = order[start : start + 32]. Then, on a tape, "
        "z = network(*(x[batch] for x in inputs)).",
        "All R copies have the same answers: np.broadcast_to(targets[batch], "
        "z.shape[:-1]). The loss is the sum of fused.softmax_cross_entropy(z, y).",
        "sgd.zero_grad(), tape.backward(loss), sgd.step(rate, max_norm=40.0).",
    ],
    mistakes="""
        you go through the questions as they stand, not in `order`
            order[start : start + 32] -> np.arange(start, start + 32)
        the gradients of all batches add up: sgd.zero_grad() is missing
            sgd.zero_grad() ->
        you take the mean of the losses; their sum is wanted
            p.sum( -> p.mean(
        nothing is clipped: max_norm=40.0
            , max_norm=40.0 ->
    """,
)
def learn_stories(network, sgd, inputs, targets, order, rate):
    """One time through the questions in `order`, in batches of 32.

    network(*inputs of a batch) -> logits (R, B, V) of R copies; inputs a tuple of
    arrays (S, ...), targets (S,); order, numbers of questions. What does not fill a
    batch is left out. The loss is the sum over copies and questions; gradients are
    clipped at 40 -> the loss of each batch, a list.
    """
    losses = []
    for start in range(0, len(order) - 31, 32):
        batch = order[start : start + 32]
        with Tape() as tape:
            z = network(*(x[batch] for x in inputs))
            y = np.broadcast_to(targets[batch], z.shape[:-1])
            loss = p.sum(fused.softmax_cross_entropy(z, y))
        sgd.zero_grad()
        tape.backward(loss)
        sgd.step(rate, max_norm=40.0)
        losses.append(float(loss.data))
    return losses
