"""The recurrent cores that a task can be trained with, chosen by `--model.core`.

Each core is entered once, in `CORES`: the choices of the flag, its help, the settings
that make no difference, and the colour of its curves follow from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from ..config import ADDED, check_least, check_values, check_within
from ..errors import Seed, UserError, counted
from .core import Core
from .dnc import DNC
from .entnet import EntNet, EntNetBank
from .lstm import GRU, LSTM, RNN, ConvLSTM, DeepLSTM, Feedforward
from .relational import PaperRelationalMemory, RelationalMemory


class SettingsError(UserError, ValueError):
    """No core has these settings."""


# --- The cores ------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """A core, as `--model.core` knows it."""

    says: str  # what it is, for the help
    used: tuple[str, ...]  # the fields of `CoreConfig` that make a difference to it
    # what follows its name when it is described, a format of the config `c`, the
    # `core`, and some counts in words: see `describe`
    size: str
    colour: int  # of its curves, in the palette of `results/figures/style.py`
    # build(config, width of an input, seed); None where tasks build it
    build: Callable[[Any, Any, Seed], Core] | None = None
    # only where maps come in, or only where words are read
    where: Literal["everywhere", "maps", "texts"] = "everywhere"


def _of_slots(c: CoreConfig) -> dict[str, Any]:
    """The arguments that both formulations of the memory have."""
    names = "mem_slots num_heads forget_bias attention_mlp_layers key_size"
    own = {name: getattr(c, name) for name in names.split()}
    return own | {"head_size": c.slot_size // c.num_heads}


def _rmc(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    return RelationalMemory(
        input_size,
        **_of_slots(c),
        num_blocks=c.num_blocks,
        input_bias=c.input_bias,
        gate_style=None if c.gate_style == "none" else c.gate_style,
        activate_final=c.activate_final,
        qkv_norm=c.qkv_norm != "none",
        seed=seed,
    )


def _rmc_paper(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    normed = c.qkv_norm == "layer"
    return PaperRelationalMemory(input_size, **_of_slots(c), qkv_norm=normed, seed=seed)


def _lstm(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    if c.layers == 1:
        return LSTM(input_size, c.units, c.forget_bias, seed=seed)
    return DeepLSTM(input_size, c.units, c.layers, c.forget_bias, seed=seed)


def _dnc(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    own = vars(c.dnc) | {"word_size": c.slot_size, "hidden_size": c.hidden_size}
    own |= {"layers": c.layers, "forget_bias": c.forget_bias}
    return DNC(input_size, c.mem_slots, **own, seed=seed)


def _of(kind: Callable[..., Core], *names: str) -> Callable[[Any, Any, Seed], Core]:
    """How to build a core whose arguments are an input's width and these of `c`."""
    return lambda c, input_size, seed: kind(
        input_size, *[getattr(c, name) for name in names], seed=seed
    )


def _conv_lstm(c: MapCoreConfig, input_size: Any, seed: Seed) -> Core:
    if isinstance(input_size, int):
        numbers = f"vectors of {input_size} numbers; choose another core"
        raise ValueError(f"model.core conv_lstm reads maps, and here are {numbers}")
    height, width, channels = input_size
    sizes = height, width, channels, c.conv_lstm.channels, c.conv_lstm.kernel
    return ConvLSTM(*sizes, c.forget_bias, seed=seed)


_LAYER = ("total_units", "hidden_size")
_UNITS = ("mem_slots", "head_size", "num_heads", "total_units")
_PAPER = (*_UNITS, "key_size", "attention_mlp_layers", "forget_bias", "qkv_norm")
_SLOTS = ", {slots} x {core.mem_size} units"
_PLAIN = " of {layers}{core.hidden_size} units"

CORES = {
    "rmc": Entry(
        "the Relational Memory Core as released, but for activate_final",
        (*_PAPER, "num_blocks", "activate_final", "gate_style", "input_bias"),
        f"{_SLOTS}, {{heads}}",
        0,
        _rmc,
    ),
    "rmc_paper": Entry(
        "equations 1-9 to the letter", _PAPER, f"{_SLOTS}, {{heads}}", 5, _rmc_paper
    ),
    "lstm": Entry(
        "the main baseline", (*_LAYER, "layers", "forget_bias"), _PLAIN, 1, _lstm
    ),
    "dnc": Entry(
        "the Differentiable Neural Computer",
        (*_LAYER, "mem_slots", "layers", "forget_bias", "dnc"),
        ", {words} x {core.word_size}, {core.read_heads} read and {core.write_heads} "
        "write heads, {c.dnc.controller} controller of {layers}{c.hidden_size} units",
        2,
        _dnc,
    ),
    "entnet": Entry(
        "the Recurrent Entity Network",
        _UNITS,
        _SLOTS,
        3,
        _of(EntNet, "mem_slots", "slot_size"),
    ),
    "entnet_bank": Entry(
        "what the paper calls EntNet: LSTM cells with shared weights, summed",
        (*_UNITS, "forget_bias"),
        ", {cells} of {core.hidden_size} units",
        4,
        _of(EntNetBank, "mem_slots", "slot_size", "forget_bias"),
    ),
    "rnn": Entry(
        "a plain recurrent network without a memory",
        _LAYER,
        _PLAIN,
        6,
        _of(RNN, "units"),
    ),
    "gru": Entry(
        "the gated recurrent unit (Cho et al. 2014)",
        _LAYER,
        _PLAIN,
        10,
        _of(GRU, "units"),
    ),
    "conv_lstm": Entry(
        "an LSTM of convolutions, which remembers in maps (all others read the numbers "
        "of a map in a row)",
        ("forget_bias", "conv_lstm"),
        " of {core.channels} channels on {core.input_shape[0]} x {core.input_shape[1]} "
        "places, {c.conv_lstm.kernel} x {c.conv_lstm.kernel} kernel",
        7,
        _conv_lstm,
        "maps",
    ),
    "feedforward": Entry(
        "a layer of hidden_size units, which remembers nothing",
        _LAYER,
        _PLAIN,
        8,
        _of(Feedforward, "units"),
        "maps",
    ),
    "memn2n": Entry(
        "the End-To-End Memory Network (Sukhbaatar et al. 2015), with sizes of its own",
        (),
        "",
        9,
        where="texts",
    ),
}


def _names(*where: str) -> tuple[str, ...]:
    return tuple(name for name, e in CORES.items() if e.where in ("everywhere", *where))


def _says(names: tuple[str, ...]) -> str:
    return "; ".join(f"{name}: {CORES[name].says}" for name in names)


# what --model.core may be: in every task, for agents, and where texts are read
if TYPE_CHECKING:
    CoreName: TypeAlias = str
    MapCore: TypeAlias = str
    TextCore: TypeAlias = str
else:
    CoreName = Literal[_names()]
    MapCore = Literal[_names("maps")]
    TextCore = Literal[_names("texts")]

# --- The settings ---------------------------------------------------------------------


@dataclass(frozen=True)
class DNCConfig:
    """The settings of the Differentiable Neural Computer alone. It has model.mem_slots
    words, and its controller is model.layers x hidden_size.
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
    """bound on the controller's output and state, and the core's output; None: none"""

    def __post_init__(self):
        check_values(self, "model.dnc")
        check_least("model.dnc", self, "word_size", "read_heads", "write_heads")
        check_within("model.dnc", self, "(0, inf]", "clip")


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
    # core -> the fields that make a difference to it, where a task differs from `CORES`
    used: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    core: CoreName = field(default="rmc", metadata={"says": _says(_names())})
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
    rnn, gru or feedforward; None: head_size, dnc.word_size or hidden_size decides
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
    """units of the rnn, gru, feedforward, an lstm layer, or the dnc's controller"""
    layers: int = field(default=1, metadata=ADDED)
    """layers of the lstm, or of the dnc's controller; each further layer of the lstm
    also sees the input, and its outputs stand beside the others'
    """
    dnc: DNCConfig = field(default_factory=DNCConfig, metadata=ADDED)

    def __post_init__(self):
        check_values(self, "model")
        counts = "mem_slots head_size num_heads total_units key_size num_blocks"
        counts += " attention_mlp_layers hidden_size layers"
        check_least("model", self, *counts.split())
        additions = self.num_blocks, self.gate_style, self.input_bias
        if self.core == "rmc_paper" and additions != (1, "unit", 0.0):
            raise ValueError(
                "model.core rmc_paper is the paper's text: one block, unit gates and "
                "no input bias; leave these as they are"
            )
        used = _used(self)
        if self.total_units is None or not {"total_units", "mem_slots"} <= {*used}:
            return
        heads = self.num_heads if self.core in ("rmc", "rmc_paper") else 1
        if self.total_units % (parts := self.mem_slots * heads):
            raise ValueError(
                f"model.total_units {self.total_units} is no multiple of {parts}, of "
                f"{self.mem_slots} slots x {heads} heads"
            )

    @property
    def units(self) -> int:
        """Units of a layer without slots."""
        return self.total_units or self.hidden_size

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
    """The settings of the ConvLSTM alone."""

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

    core: MapCore = field(default="rmc", metadata={"says": _says(_names("maps"))})
    conv_lstm: ConvLSTMConfig = field(default_factory=ConvLSTMConfig)


def unused(config: CoreConfig) -> list[str]:
    """The fields that its core does not use, but others do."""
    others = {name for entry in CORES.values() for name in entry.used}
    others -= {*_used(config)}
    return [field.name for field in fields(config) if field.name in others]


def _used(config: CoreConfig) -> tuple[str, ...]:
    """The fields that make a difference to its core."""
    if config.core in config.used:
        return config.used[config.core]
    if config.core not in CORES:
        raise SettingsError(
            f"no table says which fields the core {config.core!r} uses; give "
            f"{type(config).__name__} a `used`, as tinyrmc/cores/config.py has CORES"
        )
    return CORES[config.core].used


# --- What they are for ----------------------------------------------------------------


def build_core(
    config: CoreConfig, input_size: int | tuple[int, int, int], seed: Seed
) -> Core:
    """The core that `config` describes for inputs of `input_size`: the width of a
    vector, or the (height, width, channels) of a map, which all but `conv_lstm` take in
    a row. SettingsError names a bad value.
    """
    entry = CORES.get(config.core)
    if entry is None or entry.build is None:
        raise SettingsError(
            f"build_core knows no core {config.core!r}; build it in the task, or enter "
            "it in tinyrmc/cores/config.py"
        )
    if config.core != "conv_lstm" and not isinstance(input_size, int):
        input_size = math.prod(input_size)
    try:
        return entry.build(config, input_size, seed)
    except ValueError as error:
        raise SettingsError(str(error)) from error


def describe(config: CoreConfig, core: Any) -> str:
    """A core that `build_core` made from `config`, in a few words."""
    c, several = config, config.layers > 1 and "layers" in _used(config)
    size = CORES[c.core].size.format(
        c=c,
        core=core,
        layers=f"{c.layers} layers of " if several else "",
        heads=counted(c.num_heads, "head"),
        **{f"{one}s": counted(c.mem_slots, one) for one in ("slot", "word", "cell")},
    )
    return f"{c.core}{size}"
