"""Chapter 21: one step of learning from what was acted."""

from __future__ import annotations

import numpy as np

from tinyrmc import Tape, fused, optim
from tinyrmc import primitives as p
from tinyrmc.cores import LSTM

from ..exercise import each
from ..used import used
from .players import Agent, policy_loss
from .returns import returns


def _run(answer, trajectory, rate, entropy_cost, steps):
    """The losses, and the parameters at the end, of a tiny agent."""
    agent = Agent(lambda n, seed: LSTM(n, 4, seed=1), 3, 3, 4, seed=1)
    for parameter in agent.parameters():
        parameter.data[...] *= 2
    adam = optim.Adam(agent.parameters())
    first = agent.core.initial_state(len(trajectory["taken"]))
    losses = [
        answer(agent, adam, trajectory, first, rate, entropy_cost) for _ in range(steps)
    ]
    learnt = np.concatenate([each.data.ravel() for each in agent.parameters()])
    return np.array(losses, float), learnt.astype(float)


def _acted(rng, B, T, entropy=0.1, steps=2, often=0.3):
    ended = rng.random((B, T)) < often
    trajectory = {
        "seen": rng.normal(size=(B, T + 1, 3)).astype(np.float32),
        "fresh": np.concatenate([np.zeros((B, 1), bool), ended], axis=1),
        "taken": rng.integers(3, size=(B, T)),
        "rewards": rng.normal(size=(B, T)).astype(np.float32),
        "ended": ended,
    }
    return trajectory, 0.01, entropy, steps


@used(
    _run,
    cases=each(_acted, "4 5, 3 3 0.1 1, 2 6 0.0, 5 2 0.1 2 0"),
    tolerance=1e-4,  # float32
    hints=[
        "On the tape: logits, values, _ = agent(trajectory['seen'], first, "
        "trajectory['fresh']). They have T + 1 moments; the last value is `after`.",
        "returns wants time first: returns(rewards.T, ended.T, 0.99, values.data[:, "
        "T]).T. Targets and advantages are plain numbers, float32.",
        "policy_loss(logits[:, :T], taken, advantages) + 0.25 * the sum of squares of "
        "(values[:, :T] - targets) - entropy_cost * the sum of the entropies, which "
        "fused.categorical(logits[:, :T], taken)[1] has; all divided by taken.size.",
    ],
    mistakes="""
        the state does not begin anew where an episode does: hand `fresh` to the agent
            trajectory["fresh"] -> None
        a gradient goes through the advantages; as factors of ln pi they are numbers,
        made with values.data
            targets - V[:, :T] -> targets - values[:, :T]
        a reward for entropy is subtracted from a loss
            - entropy_cost -> + entropy_cost
        the trajectory stops there, the episodes do not: the last value is `after`
            0.99, V[:, T] -> 0.99, 0 * V[:, T]
        the gradients of all updates add up: adam.zero_grad() is missing
            adam.zero_grad() -> pass
        nothing is clipped: max_norm=0.1
            , max_norm=0.1 ->
    """,
)
def update(agent, adam, trajectory, first, rate, entropy_cost):
    """One step of Adam on what was acted -> the loss, a number.

    trajectory: seen (B, T + 1, n), fresh (B, T + 1), taken, rewards and ended (B, T);
    first: the core's state at its beginning. With targets G, the returns for a discount
    of 0.99, the loss is the mean over all steps of
    -(G - V) ln pi(a) + 0.25 (V - G)^2 - entropy_cost H; gradients are clipped at 0.1.
    """
    taken, T = trajectory["taken"], trajectory["taken"].shape[1]
    with Tape() as tape:
        logits, values, _ = agent(trajectory["seen"], first, trajectory["fresh"])
        V = values.data
        found = returns(trajectory["rewards"].T, trajectory["ended"].T, 0.99, V[:, T])
        targets = found.T.astype(np.float32)
        loss = policy_loss(logits[:, :T], taken, targets - V[:, :T])
        loss = loss + 0.25 * p.sum(p.square(values[:, :T] - targets))
        _, entropies = fused.categorical(logits[:, :T], taken)
        loss = (loss - entropy_cost * p.sum(entropies)) * (1 / taken.size)
    adam.zero_grad()
    tape.backward(loss)
    adam.step(learning_rate=rate, max_norm=0.1)
    return float(loss.data)
