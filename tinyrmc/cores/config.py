"""The recurrent cores that a task can be trained with, chosen by `--model.core`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from ..config import ADDED, check_least, check_values
from ..errors import Seed, UserError, counted
from .conv_lstm import ConvLSTM
from .core import Core
from .dnc import DNC
from .entnet import EntNet, EntNetBank
from .feedforward import Feedforward
from .lstm import LSTM, RNN, DeepLSTM
from .relational import PaperRelationalMemory, RelationalMemory


class SettingsError(UserError, ValueError):
    """No core has these settings."""


# what --model.core may be, in every task
CoreName: TypeAlias = Literal[
    "rmc", "rmc_paper", "lstm", "dnc", "entnet", "entnet_bank", "rnn"
]
# the same for agents
MapCore: TypeAlias = Literal[CoreName, "conv_lstm", "feedforward"]

# --- The settings ---------------------------------------------------------------------


@dataclass(frozen=True)
class DNCConfig:
    """What only the Differentiable Neural Computer has.

    It has model.mem_slots words, and its controller is model.layers x hidden_size.
    """

    common: ClassVar = ()

    word_size: int = 64
    """numbers W in a word of memory, unless model.total_units decides that"""
    read_heads: int = 4
    """read heads R"""
    write_heads: int = 1
    """write heads"""
    controller: Literal["lstm", "feedforward"] = "lstm"
    """LSTM layers with skip connections, or ReLU layers without a memory"""
    strength: Literal["softplus", "oneplus"] = "softplus"
    """how sharply a key selects: softplus (the released program) or oneplus, at least 1
    (the paper)
    """
    clip: float | None = 20.0
    """bound on the controller's output and state, and on the output; None: no bound"""

    def __post_init__(self):
        check_values(self, "model.dnc")
        check_least("model.dnc", self, "word_size", "read_heads", "write_heads")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(
                f"model.dnc.clip must be positive or None, not {self.clip}"
            )


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
    # core -> the fields that make a difference to it, where a task differs from `USED`
    used: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    core: CoreName = "rmc"
    """rmc: the Relational Memory Core as released, but for activate_final; rmc_paper:
    equations 1-9 to the letter; the baselines: lstm; dnc, the Differentiable Neural
    Computer; entnet, the Recurrent Entity Network; entnet_bank, which the paper calls
    EntNet: LSTM cells with shared weights, summed; and rnn, a plain recurrent network
    without a memory
    """
    mem_slots: int = 4
    """memory slots N (section 3.1); words of the dnc, cells of the entnet_bank"""
    head_size: int = 16
    """units of a head V; a slot, or cell, is num_heads x head_size units wide (section
    3.2)
    """
    num_heads: int = 4
    """attention heads H (section 3.2)"""
    total_units: int | None = field(default=None, metadata=ADDED)
    """units of all slots, words or cells together, of each layer of the lstm, or of the
    rnn; None: head_size, dnc.word_size or hidden_size decides
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
    """units of the rnn, of a layer of the lstm, or of the dnc's controller"""
    layers: int = field(default=1, metadata=ADDED)
    """layers of the lstm, or of the dnc's controller; each further layer of the lstm
    also sees the input, and its outputs stand beside the others'
    """
    dnc: DNCConfig = field(default_factory=DNCConfig, metadata=ADDED)

    def __post_init__(self):
        check_values(self, "model")
        check_least(
            "model",
            self,
            "mem_slots",
            "head_size",
            "num_heads",
            "total_units",
            "key_size",
            "num_blocks",
            "attention_mlp_layers",
            "hidden_size",
            "layers",
        )
        additions = self.num_blocks, self.gate_style, self.input_bias
        if self.core == "rmc_paper" and additions != (1, "unit", 0.0):
            raise ValueError(
                "model.core rmc_paper is the paper's text: one block, unit gates and "
                "no input bias; leave these as they are"
            )
        if self.total_units is not None and "total_units" in _used(self):
            self._check_total_units(self.total_units)

    def _check_total_units(self, units: int) -> None:
        """ValueError unless the units divide evenly among slots and heads."""
        heads = self.num_heads if self.core in ("rmc", "rmc_paper") else 1
        parts = 1 if _is_plain(self) else self.mem_slots * heads
        if units % parts:
            of_heads = f" x {heads} heads" if heads > 1 else ""
            raise ValueError(
                f"model.total_units {units} is no multiple of {self.mem_slots} "
                f"slots{of_heads}; choose a multiple of {parts}, or other slots"
            )

    @property
    def slot_size(self) -> int:
        """Units of one slot, word or cell."""
        if self.total_units is not None:
            return self.total_units // self.mem_slots
        if self.core == "dnc":
            return self.dnc.word_size
        return self.head_size * self.num_heads


@dataclass(frozen=True)
class ConvLSTMConfig:
    """What only the ConvLSTM has."""

    common: ClassVar = ()

    channels: int = 64
    """numbers at each place of its map"""
    kernel: int = 5
    """height and width of its window"""

    def __post_init__(self):
        check_values(self, "model.conv_lstm")
        check_least("model.conv_lstm", self, "channels", "kernel")


@dataclass(frozen=True)
class MapCoreConfig(CoreConfig):
    """Which core, and how large, where maps come in and an answer at each step."""

    core: MapCore = "rmc"  # type: ignore[assignment]
    """rmc, rmc_paper, lstm, dnc, entnet, entnet_bank and rnn read all numbers of a map
    in a row; conv_lstm, an LSTM of convolutions, remembers in maps; feedforward, a
    layer of hidden_size units, remembers nothing
    """
    conv_lstm: ConvLSTMConfig = field(default_factory=ConvLSTMConfig)


_UNITS = ("mem_slots", "head_size", "num_heads", "total_units")
_PAPER = (*_UNITS, "key_size", "attention_mlp_layers", "forget_bias", "qkv_norm")
USED = {  # core -> the fields of CoreConfig that make a difference to it
    "rmc": (*_PAPER, "num_blocks", "activate_final", "gate_style", "input_bias"),
    "rmc_paper": _PAPER,
    "lstm": ("total_units", "hidden_size", "layers", "forget_bias"),
    "conv_lstm": ("forget_bias", "conv_lstm"),
    "dnc": ("mem_slots", "total_units", "hidden_size", "layers", "forget_bias", "dnc"),
    "entnet": _UNITS,
    "entnet_bank": (*_UNITS, "forget_bias"),
    "rnn": ("total_units", "hidden_size"),
    "feedforward": ("total_units", "hidden_size"),
    "memn2n": (),  # built by tasks, whose settings say how
}


def without_effect(config: CoreConfig, default: CoreConfig) -> list[str]:
    """The fields in which `config` differs from `default` without any effect.

    Its core does not use these fields.
    """
    names = unused(config)
    return [name for name in names if getattr(config, name) != getattr(default, name)]


def unused(config: CoreConfig) -> list[str]:
    """The fields that its core does not use, but others do."""
    others = {name for used in USED.values() for name in used} - {*_used(config)}
    return [field.name for field in fields(config) if field.name in others]


def _used(config: CoreConfig) -> tuple[str, ...]:
    """The fields that make a difference to its core."""
    used = {**USED, **config.used}
    if config.core not in used:
        raise SettingsError(
            f"no table says which fields the core {config.core!r} uses; give "
            f"{type(config).__name__} a `used`, as tinyrmc/cores/config.py has USED"
        )
    return used[config.core]


def _is_plain(config: CoreConfig) -> bool:
    """Whether its core has a width in units, but no slots."""
    used = _used(config)
    return "hidden_size" in used and "mem_slots" not in used


def sizes(config: CoreConfig) -> str:
    """The flags that say how large the core is, with their values."""
    values: dict[str, Any] = {}
    for name in _used(config):
        value = getattr(config, name)
        if is_dataclass(value):
            parts = fields(value)
            values |= {f"{name}.{x.name}": getattr(value, x.name) for x in parts}
        else:
            values[name] = value
    flags = [
        f"--model.{name.replace('_', '-')} {value}"
        for name, value in values.items()
        if type(value) is int
    ]
    return ", ".join(flags)


# --- The cores ------------------------------------------------------------------------


def build_core(
    config: CoreConfig, input_size: int | tuple[int, int, int], seed: Seed
) -> Core:
    """The core that `config` describes for inputs of `input_size`.

    `input_size` is the width of a vector, or the (height, width, channels) of a map.
    Only a `conv_lstm` must know a map's shape; the others take it in a row, (B, height
    * width * channels). SettingsError names a bad value.
    """
    if config.core not in (*_BUILDERS, "conv_lstm"):
        raise SettingsError(
            f"build_core knows no core {config.core!r}; build it in the task, or enter "
            "it in tinyrmc/cores/config.py"
        )
    width = input_size if isinstance(input_size, int) else math.prod(input_size)
    try:
        if isinstance(config, MapCoreConfig) and config.core == "conv_lstm":
            return _build_conv_lstm(config, input_size, seed)
        return _BUILDERS[config.core](config, width, seed)
    except ValueError as error:
        raise SettingsError(str(error)) from error


def _build_rmc(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    return RelationalMemory(
        input_size,
        c.mem_slots,
        head_size=c.slot_size // c.num_heads,
        num_heads=c.num_heads,
        num_blocks=c.num_blocks,
        forget_bias=c.forget_bias,
        input_bias=c.input_bias,
        gate_style=None if c.gate_style == "none" else c.gate_style,
        attention_mlp_layers=c.attention_mlp_layers,
        key_size=c.key_size,
        activate_final=c.activate_final,
        qkv_norm=c.qkv_norm != "none",
        seed=seed,
    )


def _build_rmc_paper(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    return PaperRelationalMemory(
        input_size,
        c.mem_slots,
        head_size=c.slot_size // c.num_heads,
        num_heads=c.num_heads,
        forget_bias=c.forget_bias,
        attention_mlp_layers=c.attention_mlp_layers,
        key_size=c.key_size,
        qkv_norm=c.qkv_norm == "layer",
        seed=seed,
    )


def _build_lstm(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    units = c.total_units or c.hidden_size
    if c.layers == 1:
        return LSTM(input_size, units, c.forget_bias, seed=seed)
    return DeepLSTM(input_size, units, c.layers, c.forget_bias, seed=seed)


def _build_conv_lstm(
    c: MapCoreConfig, input_size: int | tuple[int, int, int], seed: Seed
) -> Core:
    if isinstance(input_size, int):
        raise ValueError(
            "model.core conv_lstm reads maps (height, width, channels), but its inputs "
            f"are vectors of {input_size} numbers; choose another core"
        )
    own = c.conv_lstm
    sizes = *input_size, own.channels, own.kernel
    return ConvLSTM(*sizes, c.forget_bias, seed=seed)


def _build_dnc(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    return DNC(
        input_size,
        c.mem_slots,
        word_size=c.slot_size,
        hidden_size=c.hidden_size,
        read_heads=c.dnc.read_heads,
        write_heads=c.dnc.write_heads,
        layers=c.layers,
        controller=c.dnc.controller,
        strength=c.dnc.strength,
        clip=c.dnc.clip,
        forget_bias=c.forget_bias,
        seed=seed,
    )


def _build_entnet(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    return EntNet(input_size, c.mem_slots, c.slot_size, seed=seed)


def _build_entnet_bank(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    return EntNetBank(input_size, c.mem_slots, c.slot_size, c.forget_bias, seed=seed)


def _build_rnn(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    return RNN(input_size, c.total_units or c.hidden_size, seed=seed)


def _build_feedforward(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    return Feedforward(input_size, c.total_units or c.hidden_size, seed=seed)


_BUILDERS: dict[str, Callable[[CoreConfig, int, Seed], Core]] = {
    "rmc": _build_rmc,
    "rmc_paper": _build_rmc_paper,
    "lstm": _build_lstm,
    "dnc": _build_dnc,
    "entnet": _build_entnet,
    "entnet_bank": _build_entnet_bank,
    "rnn": _build_rnn,
    "feedforward": _build_feedforward,
}


def describe(config: CoreConfig, core: Any) -> str:
    """A core that `build_core` made from `config`, in a few words.

    For the first lines of a run and the rows of a table.
    """
    c = config
    layers = f"{c.layers} layers of " if c.layers > 1 else ""
    if _is_plain(c):
        layers = layers if "layers" in _used(c) else ""
        return f"{c.core} of {layers}{core.hidden_size} units"
    if isinstance(c, MapCoreConfig) and c.core == "conv_lstm":
        height, width, _ = core.input_shape
        window = f"{c.conv_lstm.kernel} x {c.conv_lstm.kernel}"
        return (
            f"conv_lstm of {core.channels} channels on {height} x {width} places, "
            f"{window} kernel"
        )
    if c.core == "dnc":
        heads = f"{core.read_heads} read and {core.write_heads} write heads"
        return (
            f"dnc, {counted(c.mem_slots, 'word')} x {core.word_size}, {heads}, "
            f"{c.dnc.controller} controller of {layers}{c.hidden_size} units"
        )
    if c.core == "entnet_bank":
        cells = counted(c.mem_slots, "cell")
        return f"entnet_bank, {cells} of {core.hidden_size} units"
    heads = "" if c.core == "entnet" else f", {counted(c.num_heads, 'head')}"
    slots = counted(c.mem_slots, "slot")
    return f"{c.core}, {slots} x {core.mem_size} units{heads}"
