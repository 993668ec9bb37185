"""Recurrent cores with one contract: `output, state = core(inputs, state)`."""

from .config import CoreConfig, build_core, describe
from .core import Core
from .registry import register_core

# Each registers its cores, in this order, which is that of the help.
# isort: split
from .relational import PaperRelationalMemory, RelationalMemory

# isort: split
from .lstm import GRU, LSTM, RNN, ConvLSTM, DeepLSTM, Feedforward

# isort: split
from .dnc import DNC, DNCConfig
from .entnet import EntNet, EntNetBank

# isort: split
from .transformer import Transformer

# isort: split
from .linear_attention import LinearAttention

# isort: split
from .delta import DeltaNet
from .ssm import SelectiveSSM
from .stm import STM

# isort: split
from .memn2n import Encoding, MemN2N, TextMemN2N

__all__ = [
    "DNC",
    "GRU",
    "LSTM",
    "RNN",
    "STM",
    "ConvLSTM",
    "Core",
    "CoreConfig",
    "DNCConfig",
    "DeepLSTM",
    "DeltaNet",
    "Encoding",
    "EntNet",
    "EntNetBank",
    "Feedforward",
    "LinearAttention",
    "MemN2N",
    "PaperRelationalMemory",
    "RelationalMemory",
    "SelectiveSSM",
    "TextMemN2N",
    "Transformer",
    "build_core",
    "describe",
    "register_core",
]
