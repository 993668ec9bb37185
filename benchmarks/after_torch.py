"""The cores of after.py in PyTorch eager, with the same weights: to compare, to time.

Each is written as one would write it there: its own layers and functions, chunks of 32
steps where there are chunks, a loop over time for the state space (as the reference in
Mamba's own program). `step(core, inputs)` gives a function that runs a training step
and returns the loss; None for cores that are not here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

CHUNK = 32


class Weights:
    """A core's parameters as PyTorch's, by our names."""

    def __init__(self, core):
        arrays = core.arrays().items()
        self.known = {k: torch.from_numpy(x).requires_grad_() for k, x in arrays}

    def __call__(self, name: str) -> torch.Tensor:
        return self.known[name]

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        bias = self.known.get(f"{name}.bias")
        return F.linear(x, self(f"{name}.weight").T, bias)

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(
            x, x.shape[-1:], self(f"{name}.gain"), self(f"{name}.offset")
        )


def step(core: Any, inputs: Any) -> Callable[[], float] | None:
    """A training step with a core of ours, put into PyTorch."""
    mix, w = MIXES.get(type(core).__name__), Weights(core)
    if mix is None:
        return None
    x = torch.from_numpy(inputs)

    def run() -> float:
        for parameter in w.known.values():
            parameter.grad = None
        h = w.linear("input_projection", x)
        for number in range(core.layers):
            name = f"blocks.{number}"
            n, last = w.norm(f"{name}.norm", h), f"{name}.mix.0"
            if core.conv > 1:
                kernel = w(f"{last}.weight").T[:, None]
                n = F.conv1d(
                    F.pad(n.mT, (core.conv - 1, 0)), kernel, groups=len(kernel)
                )
                n, last = n.mT, f"{name}.mix.1"
            h = h + w.linear(f"{last}.out", mix(core, w, last, n))
            n = w.norm(f"{name}.mlp_norm", h)
            h = h + w.linear(f"{name}.mlp.1", F.relu(w.linear(f"{name}.mlp.0", n)))
        loss = w.norm("norm", h).square().mean()
        loss.backward()
        return loss.item()

    return run


def projected(core, w, name, n):
    """q, k, v (B, H, T, V)."""
    batch, steps, _ = n.shape
    qkv = w.linear(f"{name}.qkv", n).view(batch, steps, 3, core.num_heads, -1)
    return qkv.permute(2, 0, 3, 1, 4)


def joined(x):
    """(B, H, T, V) -> (B, T, F)."""
    return x.transpose(1, 2).flatten(2)


def attention(core, w, name, n):
    q, k, v = projected(core, w, name, n)
    steps, size = q.shape[2:]
    angles = torch.arange(steps)[:, None] * 10_000 ** (-torch.arange(0, size, 2) / size)

    def turned(u):
        one, other = u.chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)

    q, k, window = turned(q), turned(k), core.window
    if steps <= window + 1:
        return joined(F.scaled_dot_product_attention(q, k, v, is_causal=True))
    behind = torch.arange(steps)[:, None] - torch.arange(steps)
    mask = (behind >= 0) & (behind <= window)
    return joined(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


def in_chunks(*arrays):
    size = min(CHUNK, arrays[0].shape[2])
    return [x.unflatten(2, (-1, size)) for x in arrays]


def linear_attention(core, w, name, n):
    q, k, v = projected(core, w, name, n)
    one = torch.ones(*v.shape[:-1], 1)
    q, k, v = in_chunks(F.elu(q) + 1, F.elu(k) + 1, torch.cat([v, one], dim=-1))
    before = (k.mT @ v).cumsum(2).roll(1, 2)
    before = torch.cat([torch.zeros_like(before[:, :, :1]), before[:, :, 1:]], dim=2)
    found = (torch.tril(q @ k.mT) @ v + q @ before).flatten(2, 3)
    return joined(found[..., :-1] / (found[..., -1:] + 1e-6))


def delta(core, w, name, n):
    q, k, v = projected(core, w, name, n)
    q, k = (F.normalize(F.silu(u), dim=-1) for u in (q, k))
    beta = w.linear(f"{name}.beta", n).sigmoid().transpose(1, 2)[..., None]
    q, k, v, beta = in_chunks(q, k, v, beta)
    system = torch.tril(beta * (k @ k.mT), -1)
    right = torch.cat([beta * v, beta * k], dim=-1)
    solved = torch.linalg.solve_triangular(
        system, right, upper=False, unitriangular=True
    )
    of_values, of_keys = solved.chunk(2, dim=-1)
    here, memory, found = torch.tril(q @ k.mT), 0 * (k.mT @ v)[:, :, 0], []
    for c in range(q.shape[2]):
        missing = of_values[:, :, c] - of_keys[:, :, c] @ memory
        found.append(here[:, :, c] @ missing + q[:, :, c] @ memory)
        memory = memory + k[:, :, c].mT @ missing
    return joined(torch.cat(found, dim=2))


def selective(core, w, name, n):
    units, size = core.output_size, core.state_size
    parts = [units, units, size, size]
    z, x, B, C = w.linear(f"{name}.projection", n).split(parts, dim=-1)
    x, lasts = F.silu(x), F.softplus(w.linear(f"{name}.duration", n))
    keeps = torch.exp(lasts[..., None] * -w(f"{name}.A_log").exp())
    adds = (lasts * x)[..., None] * B[..., None, :]
    h, found = torch.zeros_like(adds[:, 0]), []
    for kept, new, c in zip(keeps.unbind(1), adds.unbind(1), C.unbind(1), strict=True):
        h = kept * h + new
        found.append((h @ c[..., None])[..., 0])
    y = torch.stack(found, dim=1) + w(f"{name}.through") * x
    return y * F.silu(z)


MIXES: dict[str, Callable] = {
    "Transformer": attention,
    "LinearAttention": linear_attention,
    "DeltaNet": delta,
    "SelectiveSSM": selective,
}
