"""An agent: a core turns what it sees into a policy and a value.

Appendix A.3 of Santoro et al. 2018: two convolutions of 12 and 24 kernels, 2 x 2 with
stride 1, each with a ReLU; two maps of coordinates from -1 to 1 beside their output.
All of it, flattened, goes into the core, whose output gives the policy's logits and the
value.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from ..autograd import primitives as p
from ..autograd.engine import Tensor
from ..backend import Array, namespace
from ..backend.seeds import Seed, generator
from ..config import ADDED, check_least
from ..nn import Constant, Conv2d, Linear, Module
from .config import MapCoreConfig, build_core
from .core import State, Trace
from .relational import RelationalMemory

CHANNELS = 12, 24


@dataclass(frozen=True)
class AgentConfig(MapCoreConfig):
    """Which core, how large, and what is around it."""

    common: ClassVar[tuple[str, ...]] = (*MapCoreConfig.common, "encoder")

    encoder: Literal["conv", "linear", "attention"] = field(
        default="conv", metadata=ADDED
    )
    """what looks at the picture: conv, two convolutions (appendix A.3); linear, one
    layer that sees all of it at once; attention, a Relational Memory Core without gates
    that reads all places at once, anew at each step (Zambaldi et al. 2018)
    """
    rounds: int = field(default=4, metadata=ADDED)
    """attention blocks of that encoder, whose heads are as the rmc's"""
    features: int = field(default=128, metadata=ADDED)
    """units of the linear encoder, and of the layer before policy and value"""
    coordinates: bool = field(default=True, metadata=ADDED)
    """two maps of coordinates beside the convolutions' output"""
    skip: bool = field(default=False, metadata=ADDED)
    """policy and value see the encoder's output and the core's"""
    sight: Literal["codes", "rgb"] = field(default="codes", metadata=ADDED)
    """codes: what each cell holds, one-hot; rgb: its colour (appendix A.3)"""
    last: bool = field(default=True, metadata=ADDED)
    """the agent is told its last action and the reward for it"""

    @property
    def used_beside(self) -> tuple[str, ...]:
        if self.encoder != "attention":
            return ()
        size = ["mem_slots"] if self.total_units else ["head_size"]
        return "num_heads", "total_units", *size

    def __post_init__(self):
        super().__post_init__()
        if self.reads_maps and self.encoder != "conv":
            raise ValueError(
                f"model.core {self.core} reads maps, and model.encoder {self.encoder} "
                "gives none; take the encoder conv"
            )
        check_least("model", self, "features", "rounds")


class Agent(Module):
    """Sees pictures and a few numbers beside them; gives logits of actions and a value.

    Args:
        config: the core and what is around it.
        picture: (height, width, channels) of what it sees.
        numbers: how many numbers come beside each picture.
        actions: how many actions there are, A.
    """

    def __init__(
        self,
        config: AgentConfig,
        picture: tuple[int, int, int],
        numbers: int,
        actions: int,
        *,
        seed: Seed,
    ):
        rng = generator(seed)
        size = config.features
        height, width, channels = picture
        self.config, self.actions = config, actions
        self.convolutions: list[Conv2d] = []
        self.encoder = self.places = None
        if config.encoder == "linear":
            seen = height * width * channels + numbers
            self.encoder = Linear(seen, size, relu=True, seed=rng)
            self.core = build_core(config, size, rng)
        elif config.encoder == "attention":
            self.places = RelationalMemory(
                channels + 2 * config.coordinates,
                1,  # the slot that sums up what is there
                config.slot_size // config.num_heads,
                config.num_heads,
                config.rounds,
                gate_style=None,
                seed=rng,
                input_rows=height * width,
            )
            self.core = build_core(config, self.places.output_size + numbers, rng)
        else:
            for count in CHANNELS:
                self.convolutions.append(Conv2d(channels, count, relu=True, seed=rng))
                channels = count
                height = height - 1
                width = width - 1
            channels += 2 * config.coordinates
            in_a_row = height * width * channels + numbers
            maps = height, width, channels + numbers  # each number at every place
            wide = maps if config.reads_maps else in_a_row
            self.core = build_core(config, wide, rng)
        seen = self.core.output_size + self.core.input_size * config.skip
        self.hidden = Linear(seen, config.features, relu=True, seed=rng)
        self.heads = Linear(config.features, actions + 1, seed=rng)
        # a policy that tries everything, and values near zero, to begin with
        self.heads.weight.data *= np.float32(0.1)

    def initial_state(self, batch_size: int) -> State:
        """The core's initial state."""
        return self.core.initial_state(batch_size)

    def __call__(
        self,
        picture: Array,
        numbers: Array,
        state: State,
        is_first: Array | None = None,
        trace: Trace = None,
    ) -> tuple[Tensor, Tensor, State]:
        """Pictures (B, T, h, w, c) and numbers (B, T, n) -> logits (B, T, A), values
        (B, T), the core's last state. is_first: bool (B, T), as in `Core.unroll`.
        """
        x = self.encode(picture, numbers)  # (B, T, E)
        outputs, state = self.core.unroll(x, state, trace, is_first=is_first)
        return *self.decide(p.stack(outputs, axis=1), x), state

    def decide(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, T, A) and values (B, T) of the core's output (B, T, F) and its
        input (B, T, E).
        """
        if self.config.skip:
            h = p.concatenate([h, x], axis=2)
        both = self.heads(self.hidden(h))  # (B, T, A + 1)
        return both[..., : self.actions], both[..., self.actions]

    def encode(self, picture: Array, numbers: Array) -> Tensor:
        """The core's input (B, T, E) for pictures (B, T, h, w, c)."""
        xp = namespace(picture)
        lead = picture.shape[:2]
        if self.encoder is not None:
            flat = picture.reshape(*lead, -1)
            return self.encoder(xp.concatenate([flat, numbers], axis=2))
        x = Tensor(picture)
        for layer in self.convolutions:
            x = layer(x)
        if self.config.coordinates:
            x = p.concatenate([x, coordinates(x)], axis=4)
        if self.places is not None:
            h, w, c = x.shape[2:]
            rows = p.reshape(x, (lead[0] * lead[1], h * w, c))
            x, _ = self.places(rows, self.places.initial_state(rows.shape[0]))
        if self.config.reads_maps:
            # the numbers are no map, so each place gets all of them
            shape = *x.shape[:4], numbers.shape[2]
            everywhere = xp.broadcast_to(numbers[:, :, None, None], shape)
            x = p.concatenate([x, everywhere], axis=4)
            return p.reshape(x, (*lead, -1))
        return p.concatenate([p.reshape(x, (*lead, -1)), numbers], axis=2)


def coordinates(x: Tensor) -> Array:
    """The row and column of each place in maps (..., h, w, c), from -1 to 1."""
    *lead, h, w, _ = x.shape
    xp = namespace(x.data)
    return xp.broadcast_to(_places(h, w).on(xp, x.dtype), (*lead, h, w, 2))


@functools.cache
def _places(height: int, width: int) -> Constant:
    rows, columns = np.linspace(-1, 1, height), np.linspace(-1, 1, width)
    return Constant(np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=2))
