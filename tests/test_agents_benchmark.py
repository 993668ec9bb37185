"""benchmarks/agents.py: one agent in both libraries.

PyTorch's network, V-trace, loss and optimizer are also an independent oracle of ours.
"""

import agents
import numpy as np
import pytest
from agents import OURS, TORCH
from tinytasks import changed

from tinyrmc import Tape

WORKS = "paper", "quick"
pytestmark = [pytest.mark.slow, pytest.mark.weekly]


def tiny(work, **agent):
    """The task of a work, small, with levels that end after two or three steps."""
    task = agents.make_task(work)
    config = changed(
        task.config,
        model={"num_heads": 2, "head_size": 4, "features": 12},
        agent={"unroll": 6, **agent},
        world={"pool": 50, "limit": 2, "stages": ()},
        train={"batch_size": 7},
    )
    return type(task)(config)


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("algorithm", ["impala", "a2c"])
def test_pytorch_has_the_same_gradient(work, algorithm):
    """The loss too, of a trajectory that another policy acted; PyTorch's in float64."""
    torch = pytest.importorskip("torch")
    task = tiny(work, algorithm=algorithm, lag=0, gae_lambda=0.9)
    trajectory, model = agents.first_trajectory(task), agents.build(task)
    assert trajectory["is_first"][:, 1:-1].any()
    rng = np.random.default_rng(1)
    shift = rng.normal(size=trajectory["behaviour"].shape).astype(np.float32)
    trajectory["behaviour"] += shift
    trajectory["gained"] += shift  # untrained agents get nothing
    trajectory["state"] = rng.random(trajectory["state"].shape, np.float32)
    with Tape() as tape:
        total = task.loss(model, trajectory, {})[0]
    ours = tape.gradient(total, model.parameters())
    w, forward = agents.torch_network(task, torch.float64)
    batch = agents.tensors(trajectory, torch.float64)
    logits, values, _ = forward(
        *map(agents.as_torch, task.planes(trajectory)),
        batch["state"],
        batch["is_first"],
    )
    loss = agents.torch_loss(task, logits, values, batch)
    loss.backward()
    assert float(total.data) == pytest.approx(loss.item(), rel=1e-5)
    for (name, _), g in zip(model.named_parameters(), ours, strict=True):
        expected = w[name].grad.numpy()
        assert np.linalg.norm(g - expected) < 1e-5 * np.linalg.norm(expected), name


@pytest.mark.parametrize("work", WORKS)
def test_pytorch_learns_the_same(work):
    """The optimizer too."""
    pytest.importorskip("torch")
    expected = agents.first_losses(OURS, lambda: tiny(work), 5)
    found = agents.first_losses(TORCH, lambda: tiny(work), 5)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert len(set(expected)) == 5


@pytest.mark.parametrize("work", WORKS)
def test_pytorch_acts_the_same(work):
    """The first steps of a run: levels, states and the queue go on alike."""
    pytest.importorskip("torch")
    steps = agents.ours(tiny(work)), agents.torch_trainer(tiny(work))
    ours, theirs = ([float(step()) for _ in range(3)] for step in steps)
    assert theirs == pytest.approx(ours, rel=1e-3, abs=1e-6)
