"""An agent that learns BoxWorld, in tinyrmc and in PyTorch eager; gpu.py times both.

A step is one update: the agent acts in all levels of its batch, then learns from that.
The two networks are those of `box_world`'s presets, around the Relational Memory Core:

paper    two convolutions over pixels, memory 4 x 256, 32 levels, 40 steps in the world
quick    one layer over codes, memory 4 x 64, 256 levels, 20 steps in the world

Both libraries have the same worlds, weights, random numbers and optimizer, and both act
without recording, then go through the trajectory again. PyTorch's agent is written
here, its memory in peers.py. When both learn a few times from one trajectory, their
losses must agree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import candidates
import numpy as np
import peers

from tinyrmc.autograd.engine import Tensor
from tinyrmc.backend import Array, device_namespace, namespace
from tinyrmc.nn import Module
from tinyrmc.training.discovery import load_task
from tinyrmc.training.streams import move_batch
from tinyrmc.training.trainer import Trainer

OURS, TORCH = "tinyrmc", "PyTorch eager"
LEVELS = 10_000  # made beforehand; a run makes more
# of the first losses, relative to the largest: each is a small difference of large
# sums, and a ReLU near its kink may fall on either side
LARGEST_ERROR = 5e-3
SEED = 0


# --- The problem ----------------------------------------------------------------------


def make_task(work: str, levels: int | None = None) -> Any:
    """`box_world` with this preset, at a constant rate; RMSProp, if any, in PyTorch's
    form.

    levels: how many at once; None: as many as the preset has.
    """
    task = load_task("box_world").Task
    config = task.presets[work][1]
    settings: dict[str, Any] = {"cosine_fraction": 0.0}
    if levels:
        settings["batch_size"] = levels
    if config.train.optimizer == "rmsprop":
        settings["rms_variant"] = "pytorch"
    return task(
        dataclasses.replace(
            config,
            world=dataclasses.replace(config.world, pool=LEVELS),
            train=dataclasses.replace(config.train, **settings),
        )
    )


def first_trajectory(task: Any) -> dict[str, np.ndarray]:
    """The untrained agent's first steps, the same for everyone."""
    agent, c = build(task), task.config
    noise = task.draw(np.random.default_rng(SEED), c.train.batch_size)
    return task.prepare(agent, noise, None)[0]


def build(task: Any) -> Any:
    """The network with the weights that a run begins with."""
    return task.build(np.random.SeedSequence(SEED).spawn(1)[0])


# --- Ours -----------------------------------------------------------------------------


def ours(
    task: Any, trajectory: dict[str, Array] | None = None, device: str = "cpu"
) -> Callable:
    """step() -> loss, of the Trainer as `tinyrmc.train` makes it, with one worker.

    trajectory: learn from that, and do not act.
    """
    if trajectory is not None:
        task.stream = lambda model, seed: candidates.Same(trajectory)
        task.prepare = lambda model, batch, carry: (batch, {"none": batch["taken"]})
    return candidates.steps_of(Trainer(task, seed=SEED, device=device))


# --- PyTorch --------------------------------------------------------------------------


class TorchAgent(Module):
    """PyTorch's network, for `ActingTask.act`: arrays in and out, nothing recorded.

    Arrays and PyTorch's tensors share their memory, also on a GPU, where both work on
    the common stream, so nothing is copied and nothing waits.
    """

    def __init__(self, forward: Callable, first: Array):
        self._forward, self._first = forward, first

    def initial_state(self, batch_size: int) -> Array:
        """The identity, as everywhere."""
        return namespace(self._first).repeat(self._first[None], batch_size, axis=0)

    def __call__(self, *arrays: Array | Tensor) -> tuple:
        import torch

        # the memory comes as a Tensor from where it was selected
        plain = (x.data if isinstance(x, Tensor) else x for x in arrays)
        with torch.no_grad():
            logits, values, memory = self._forward(*map(as_torch, plain))
        asarray = namespace(self._first).asarray
        return SimpleNamespace(data=asarray(logits)), values, asarray(memory)


def as_torch(array: Array) -> Any:
    """PyTorch's view of an array, where that lies."""
    import torch

    device = "cpu" if namespace(array) is np else "cuda"
    return torch.as_tensor(array, device=device)


def torch_network(
    task: Any, dtype: Any = None, device: str = "cpu"
) -> tuple[dict, Callable]:
    """(parameters by name, forward): as an `Agent` with the core rmc is called.

    forward(picture, numbers, memory, fresh) -> (logits, values, the last memory), all
    in the parameters' precision, whatever picture and numbers are.
    """
    import torch
    import torch.nn.functional as F

    c, lib = task.config.model, peers.torch_library(device)
    w = {
        name: torch.tensor(q.data, dtype=dtype, device=device, requires_grad=True)
        for name, q in build(task).named_parameters()
    }
    sizes = {"heads": c.num_heads, "size": c.head_size, "final": c.activate_final}
    encode = _torch_linear if c.encoder == "linear" else _torch_convolutions

    def dense(x, name):
        return F.linear(x, w[f"{name}.weight"].T, w[f"{name}.bias"])

    def forward(picture, numbers, memory, fresh):
        picture, numbers = (x.to(dtype or x.dtype) for x in (picture, numbers))
        x = encode(w, picture, numbers)  # (B, T, E)
        memories = list(peers.memories(lib, w, x, memory, **sizes, fresh=fresh))
        h = torch.stack(memories, 1).flatten(2)  # (B, T, N F)
        if c.skip:
            h = torch.cat([h, x], 2)
        both = dense(F.relu(dense(h, "hidden")), "heads")
        return both[..., :-1], both[..., -1], memories[-1]

    return w, forward


def _torch_linear(w, picture, numbers):
    import torch
    import torch.nn.functional as F

    seen = torch.cat([picture.flatten(2), numbers], 2)
    return F.relu(F.linear(seen, w["encoder.weight"].T, w["encoder.bias"]))


def _torch_convolutions(w, picture, numbers):
    """Two convolutions, and the maps of coordinates."""
    import torch
    import torch.nn.functional as F

    B, T = picture.shape[:2]
    x = picture.flatten(0, 1).permute(0, 3, 1, 2)  # (B T, c, h, w)
    for k in range(2):
        weight = w[f"convolutions.{k}.weight"].permute(3, 2, 0, 1)
        x = F.relu(F.conv2d(x, weight, w[f"convolutions.{k}.bias"]))
    rows, columns = (
        torch.linspace(-1, 1, n, dtype=x.dtype, device=x.device) for n in x.shape[2:]
    )
    maps = torch.stack(torch.meshgrid(rows, columns, indexing="ij"))
    x = torch.cat([x, maps.expand(B * T, *maps.shape)], 1)
    return torch.cat([x.permute(0, 2, 3, 1).reshape(B, T, -1), numbers], 2)


def tensors(arrays: dict[str, Array], dtype: Any = None) -> dict[str, Any]:
    """Arrays as PyTorch's; those of floating point in this precision."""
    found = {
        k: as_torch(np.require(x, None, "W") if namespace(x) is np else x)
        for k, x in arrays.items()
    }
    return {k: x.to(dtype) if x.is_floating_point() else x for k, x in found.items()}


def torch_loss(task: Any, logits, values, batch: dict) -> Any:
    """The sum over all steps of a trajectory, all of them tensors (B, T)."""
    import torch

    c, T = task.config.agent, batch["taken"].shape[1]
    log_pi = torch.log_softmax(logits[:, :T], 2)
    taken = log_pi.gather(2, batch["taken"][..., None])[..., 0]
    with torch.no_grad():
        rhos = torch.exp(taken - batch["behaviour"]).clamp(max=1)
        if c.algorithm == "a2c":
            rhos = torch.ones_like(rhos)
        discounts = c.discount * ~batch["ended"]
        rewards = batch["gained"] * c.reward_scale
        errors = rewards + discounts * values[:, 1:] - values[:, :T]
        further = [torch.zeros_like(values[:, 0])]  # v - V, the last one first
        for t in reversed(range(T)):
            ahead = discounts[:, t] * c.gae_lambda * rhos[:, t] * further[-1]
            further.append(rhos[:, t] * errors[:, t] + ahead)
        beyond = torch.stack(further[::-1], 1)
        vs = values[:, :T] + beyond[:, :T]
        surprises = errors + discounts * c.gae_lambda * beyond[:, 1:]
        advantages = rhos * surprises
    policy = -torch.sum(taken * advantages)
    value = 0.5 * torch.sum((values[:, :T] - vs) ** 2)
    entropy = -torch.sum(torch.exp(log_pi) * log_pi)
    return policy + c.value_cost * value - c.entropy_cost * entropy


def torch_learner(task: Any, device: str = "cpu") -> tuple[TorchAgent, Callable]:
    """(an agent that acts, learn(trajectory) -> mean loss, a tensor)."""
    import torch

    c = task.config.train
    w, forward = torch_network(task, device=device)
    first = device_namespace(device).asarray(build(task).initial_state(1)[0])
    if c.optimizer == "rmsprop":
        optimizer: Any = torch.optim.RMSprop(
            w.values(), c.learning_rate, alpha=c.rms_decay, eps=c.epsilon
        )
    else:
        betas = c.beta1, c.beta2
        optimizer = torch.optim.Adam(w.values(), c.learning_rate, betas, fused=True)

    def learn(trajectory):
        picture, numbers = map(as_torch, task.planes(trajectory))
        batch = tensors(trajectory)
        optimizer.zero_grad()
        logits, values, _ = forward(picture, numbers, batch["state"], batch["is_first"])
        total, count = torch_loss(task, logits, values, batch), batch["taken"].numel()
        (total if c.objective == "sum" else total / count).backward()
        if c.clip_norm:
            torch.nn.utils.clip_grad_norm_(w.values(), c.clip_norm)
        optimizer.step()
        return total.detach() / count

    return TorchAgent(forward, first), learn


def torch_trainer(task: Any, device: str = "cpu") -> Callable:
    """step() -> loss, a tensor: acts, and learns from that."""
    agent, learn = torch_learner(task, device)
    _, data = np.random.SeedSequence(SEED).spawn(2)
    stream = task.stream(agent, int(data.generate_state(1, np.uint64)[0]))
    B, number, carry = task.config.train.batch_size, 0, None

    def step():
        nonlocal number, carry
        noise = move_batch(device_namespace(device), stream.batch(number, 0, B))
        trajectory, carry = task.prepare(agent, noise, carry)
        number += 1
        return learn(trajectory)

    return step


# --- The first losses -----------------------------------------------------------------


def first_losses(
    name: str, make: Callable[[], Any], count: int = 3, device: str = "cpu"
) -> list[float]:
    """A candidate's losses when it learns again and again from the first trajectory.

    make: makes a task.
    """
    task = make()
    trajectory = move_batch(device_namespace(device), first_trajectory(task))
    if name == OURS:
        step = ours(task, trajectory, device)
        return [float(step()) for _ in range(count)]
    learn = torch_learner(task, device)[1]
    return [float(learn(trajectory)) for _ in range(count)]
