"""The settings of the recurrent cores that a task can be trained with.

`--model.core` chooses one of those in the registry (registry.py). What several cores
have in common is a field of `CoreConfig`; what is a core's own is in its `settings`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from ..backend.seeds import Seed
from ..config import ADDED, check_least, check_values
from . import registry
from .core import Core
from .registry import SettingsError


def _names(kind: type[CoreConfig]) -> tuple[str, ...]:
    return registry.names(*kind.where)


def _says(kind: type[CoreConfig]) -> str:
    return "; ".join(f"{name}: {registry.cores()[name].says}" for name in _names(kind))


def _usual(kind: type[CoreConfig]) -> dict[str, Any]:
    """The settings of each core that has some of its own, as they are by default."""
    found = {name: registry.cores()[name].config for name in _names(kind)}
    return {name: _default(own) for name, own in found.items() if own is not None}


@functools.cache
def _default(own: type) -> Any:
    """A core's own settings by default; they are frozen, so one object serves all."""
    return own()


@dataclass(frozen=True)
class CoreConfig:
    """Which core, and how large."""

    common: ClassVar[tuple[str, ...]] = (
        "core",
        "mem_slots",
        "head_size",
        "num_heads",
        "hidden_size",
    )
    # core -> the fields that make a difference to it, where a task differs from the
    # registry
    used: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    where: ClassVar[tuple[registry.Where, ...]] = ()
    choices: ClassVar[Mapping[str, Any]] = {"core": _names}
    sections: ClassVar[Mapping[str, Any]] = {"settings": _usual}

    core: str = field(default="rmc", metadata={"says": _says})
    mem_slots: int = 4
    """memory slots N (section 3.1); words of the dnc, cells of the entnet_bank"""
    head_size: int = 16
    """units of a head V; a slot, cell or block is num_heads x head_size units wide
    (section 3.2)
    """
    num_heads: int = 4
    """attention heads H (section 3.2)"""
    total_units: int | None = field(default=None, metadata=ADDED)
    """units of all slots, words or cells together, of each layer of the lstm, of each
    block, or of the rnn, gru or feedforward; None: head_size, dnc.word_size or
    hidden_size decides
    """
    key_size: int | None = None
    """units of a query and of a key K; None: as head_size"""
    num_blocks: int = 1
    """attention blocks a time step (rmc only)"""
    attention_mlp_layers: int = 2
    """linear layers of the row-wise MLP g_psi (section 3.3)"""
    activate_final: bool = True
    """a ReLU also after the last layer of that MLP: not in the released code, where it
    is linear (rmc only)
    """
    qkv_norm: Literal["usual", "layer", "none"] = field(default="usual", metadata=ADDED)
    """a bias and a layer norm on queries, keys and values: layer, as rmc has it; none,
    as rmc_paper; usual: as the core has it
    """
    gate_style: Literal["unit", "memory", "none"] = "unit"
    """a gate for each unit, one for each slot, or no gates (section 3.3; rmc only)"""
    forget_bias: float = 1.0
    """constant added to the forget gate's pre-activation, b~f of equation 7"""
    input_bias: float = 0.0
    """constant added to the input gate's pre-activation (rmc only)"""
    hidden_size: int = 256
    """units of the rnn, gru, feedforward, an lstm layer, or the dnc's controller, or
    inside the MLP of a block (transformer, linear_attention, delta, ssm)
    """
    layers: int = field(default=1, metadata=ADDED)
    """layers of the lstm, or of the dnc's controller; each further layer of the lstm
    also sees the input, and its outputs stand beside the others'; blocks of the
    transformer, linear_attention, delta and ssm
    """
    recompute_every: int | None = field(default=None, metadata=ADDED)
    """backward computes the steps of a sequence again, this many at a time: less
    memory, one more forward pass, and the same numbers; None: all steps are kept
    """
    # core -> its own settings, of this core and wherever they are not the usual ones
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self):
        check_values(self, "model")
        usual = _usual(type(self))
        given = {**usual, **self.settings}
        kept = {k: x for k, x in given.items() if k == self.core or x != usual.get(k)}
        object.__setattr__(self, "settings", kept)
        counts = "mem_slots head_size num_heads total_units key_size num_blocks"
        counts += " attention_mlp_layers hidden_size layers recompute_every"
        check_least("model", self, *counts.split())
        entry = registry.cores().get(self.core)
        used = _used(self) or ()
        if entry is not None and entry.check is not None:
            entry.check(self)
        sliced = self.total_units is not None and "total_units" in used
        if sliced and "mem_slots" in used:
            check_parts(self, self.mem_slots, f"{self.mem_slots} slots")

    def uses(self, name: str) -> bool:
        """Whether a field makes a difference to its core, as far as that is known."""
        used = _used(self)
        return used is None or name in used

    @property
    def used_beside(self) -> tuple[str, ...]:
        """The fields that what is around the core uses."""
        return ()

    @property
    def own(self) -> Any:
        """The own settings of its core; None if it has none."""
        return self.settings.get(self.core)

    @property
    def layer_units(self) -> int:
        """Units of a layer without slots."""
        return self.total_units or self.hidden_size

    @property
    def slot_size(self) -> int:
        """Units of one slot, word or cell."""
        if self.total_units is not None:
            return self.total_units // self.mem_slots
        return self.head_size * self.num_heads


def check_parts(config: CoreConfig, parts: int, says: str) -> None:
    """ValueError unless the total_units, if they are given, go into so many parts."""
    if (config.total_units or 0) % parts:
        raise ValueError(
            f"model.total_units {config.total_units} is no multiple of {parts}, of "
            f"{says}"
        )


@dataclass(frozen=True)
class MapCoreConfig(CoreConfig):
    """Which core, and how large, where maps come in and an answer at each step."""

    where: ClassVar[tuple[registry.Where, ...]] = ("maps",)

    @property
    def reads_maps(self) -> bool:
        """Whether its core takes maps as they are, not in a row."""
        return registry.cores()[self.core].reads_maps


def unused(config: CoreConfig) -> list[str]:
    """The fields that its core does not use, but others do."""
    used, usual = _used(config), _usual(type(config))
    others = {name for e in registry.cores().values() for name in e.used or ()}
    others -= {*config.used_beside}
    others -= {x.name for x in fields(config)} if used is None else {*used}
    idle = [x.name for x in fields(config) if x.name in others]
    return idle + [name for name in usual if name != config.core]


def _used(config: CoreConfig) -> tuple[str, ...] | None:
    """The fields that make a difference to its core; None: that is not known."""
    if config.core in config.used:
        return config.used[config.core]
    if config.core not in registry.cores():
        raise SettingsError(
            f"no table says which fields the core {config.core!r} uses; give "
            f"{type(config).__name__} a `used`, or register the core"
        )
    return registry.cores()[config.core].used


# --- What they are for ----------------------------------------------------------------


def build_core(
    config: CoreConfig, input_size: int | tuple[int, int, int], seed: Seed
) -> Core:
    """The core that `config` describes for inputs of `input_size`: the width of a
    vector, or the (height, width, channels) of a map, which most cores take in a row.
    SettingsError names a bad value.
    """
    if (entry := registry.cores().get(config.core)) is None:
        raise SettingsError(
            f"build_core knows no core {config.core!r}; build it in the task, or "
            "register it (tinyrmc.register_core)"
        )
    if not entry.reads_maps and not isinstance(input_size, int):
        input_size = math.prod(input_size)
    try:
        core = entry.build(config, input_size, seed)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    if not isinstance(core, Core):
        raise SettingsError(
            f"the core {config.core} was registered with a function that gives a "
            f"{type(core).__name__}; it must give a tinyrmc.cores.Core"
        )
    return core.recompute(config.recompute_every)


def describe(config: CoreConfig, core: Any) -> str:
    """A core that `build_core` made from `config`, in a few words."""
    if (size := registry.cores()[config.core].size) is not None:
        return f"{config.core}{size(config, core)}"
    told = [f"{name} {getattr(config, name)}" for name in _used(config) or ()]
    for x in fields(config.own) if config.own is not None else ():
        told.append(f"{x.name} {getattr(config.own, x.name)}")
    return ", ".join([config.core, *told])
