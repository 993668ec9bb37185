"""Chapter 17: one time through a text, window by window."""

from __future__ import annotations

import numpy as np

from tinyrmc import Tape, fused, optim
from tinyrmc import primitives as p
from tinyrmc.cores import LSTM

from ..exercise import each
from ..used import used
from .network import LanguageModel, numbers_of


def _run(answer, inputs, targets, rates, dropout):
    """The losses, and the parameters afterwards, of a tiny network."""
    core = LSTM(4, 4, seed=1)
    model = LanguageModel(int(inputs.max()) + 1, core, dropout=dropout, seed=1)
    for parameter in model.parameters():
        parameter.data[...] *= 4  # so that a state matters
    adam = optim.Adam(model.parameters())
    losses = answer(model, adam, inputs, targets, rates, np.random.default_rng(2))
    learnt = np.concatenate([each.data.ravel() for each in model.parameters()])
    return losses, learnt.astype(float)


def _lessons(rng, K, lanes, T, dropout=0):
    ids = rng.permutation(np.arange(K * lanes * T + 1) % 6)
    inputs, targets = (x.reshape(K, lanes, T) for x in (ids[:-1], ids[1:]))
    return inputs, targets, rng.uniform(0.01, 0.1, size=K), dropout


@used(
    _run,
    cases=each(_lessons, "1 2 3, 4 2 3, 3 1 5, 3 3 2 0.5"),
    tolerance=1e-4,  # float32
    hints=[
        "Before the loop: a fresh state, model.core.initial_state(lanes). In the loop: "
        "`with Tape() as tape:` logits, the next state, and the loss.",
        "logits are (B T, V), so the targets are y.reshape(-1). The loss is "
        "primitives.mean(fused.softmax_cross_entropy(logits, y.reshape(-1))).",
        "After the tape: state = numbers_of(state), adam.zero_grad(), "
        "tape.backward(loss), adam.step(learning_rate=rate, max_norm=1.0).",
    ],
    mistakes="""
        each window begins with a fresh state: carry it over
            state = numbers_of(state)
                -> state = model.core.initial_state(inputs.shape[1])
        the gradients of all steps add up: adam.zero_grad() is missing
            adam.zero_grad() ->
        every step has the first rate
            rate=rate -> rate=rates[0]
        nothing is dropped: hand `random` to the model
            model(x, state, random) -> model(x, state)
        nothing is clipped: max_norm=1.0
            , max_norm=1.0 ->
    """,
)
def one_epoch(model, adam, inputs, targets, rates, random):
    """One time through all windows of a text, with a step of Adam after each.

    model(ids (B, T), state, random) -> logits (B T, V), state; inputs and targets
    (K, B, T), integers; rates (K,), that of each step -> the loss of each window, a
    list. The state is carried from window to window; gradients are clipped at 1.
    """
    state, losses = model.core.initial_state(inputs.shape[1]), []
    for x, y, rate in zip(inputs, targets, rates, strict=True):
        with Tape() as tape:
            logits, state = model(x, state, random)
            loss = p.mean(fused.softmax_cross_entropy(logits, y.reshape(-1)))
        state = numbers_of(state)
        adam.zero_grad()
        tape.backward(loss)
        adam.step(learning_rate=rate, max_norm=1.0)
        losses.append(float(loss.data))
    return losses
