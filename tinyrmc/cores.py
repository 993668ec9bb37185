"""The recurrent cores that a task can be trained with, chosen by `--model.core`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .baselines import LSTM
from .memory import PaperRelationalMemory, RelationalMemory


@dataclass(frozen=True)
class CoreConfig:
    """Which core, and how large."""

    core: Literal["rmc", "rmc_paper", "lstm"] = "rmc"
    """rmc: the Relational Memory Core as released; rmc_paper: equations 1-9 to the letter; lstm: the baseline"""
    mem_slots: int = 4
    """memory slots N (section 3.1)"""
    head_size: int = 16
    """units of a head V; a slot is num_heads x head_size units wide (section 3.2)"""
    num_heads: int = 4
    """attention heads H (section 3.2)"""
    key_size: int | None = None
    """units of a query and of a key K; None: as head_size"""
    num_blocks: int = 1
    """attention blocks a time step (rmc only)"""
    attention_mlp_layers: int = 2
    """linear layers of the row-wise MLP g_psi (section 3.3)"""
    activate_final: bool = True
    """a ReLU also after the last layer of that MLP: not in the released code, where it is linear (rmc only)"""
    gate_style: Literal["unit", "memory", "none"] = "unit"
    """a gate for each unit, one for each slot, or no gates (section 3.3; rmc only)"""
    forget_bias: float = 1.0
    """constant added to the forget gate's pre-activation, b~f of equation 7"""
    input_bias: float = 0.0
    """constant added to the input gate's pre-activation (rmc only)"""
    hidden_size: int = 256
    """units of the LSTM (lstm only)"""

    def __post_init__(self):
        for name in ("mem_slots", "head_size", "num_heads", "key_size", "num_blocks", "attention_mlp_layers", "hidden_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"model.{name} must be an integer of at least 1, not {value}")
        if self.core == "rmc_paper" and (self.num_blocks, self.gate_style, self.input_bias) != (1, "unit", 0.0):
            raise ValueError("model.core rmc_paper is the paper's text: one block, unit gates and no input bias; leave these as they are")


def build_core(config: CoreConfig, input_size: int, seed):
    """The core that `config` describes for input vectors of `input_size`. ValueError names a bad value."""
    c = config
    if c.core == "lstm":
        return LSTM(input_size, c.hidden_size, c.forget_bias, seed=seed)
    shape = (input_size, c.mem_slots, c.head_size, c.num_heads)
    if c.core == "rmc_paper":
        return PaperRelationalMemory(
            *shape, forget_bias=c.forget_bias, attention_mlp_layers=c.attention_mlp_layers, key_size=c.key_size, seed=seed
        )
    return RelationalMemory(
        *shape, c.num_blocks, c.forget_bias, c.input_bias, None if c.gate_style == "none" else c.gate_style, c.attention_mlp_layers,
        c.key_size, seed=seed, activate_final=c.activate_final,
    )  # fmt: skip
