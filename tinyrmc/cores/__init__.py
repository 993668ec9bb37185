"""Recurrent cores with one contract: `output, state = core(inputs, state)`."""

from .config import (
    ADDED,
    ConvLSTMConfig,
    CoreConfig,
    DNCConfig,
    MapCoreConfig,
    SettingsError,
    build_core,
    describe,
    sizes,
    without_effect,
)
from .core import Core, select_state
from .dnc import DNC
from .entnet import EntNet, EntNetBank
from .lstm import LSTM, RNN, ConvLSTM, DeepLSTM, Feedforward
from .memn2n import Encoding, MemN2N, TextMemN2N
from .relational import PaperRelationalMemory, RelationalMemory, identity_memory

__all__ = [
    "ADDED",
    "DNC",
    "LSTM",
    "RNN",
    "ConvLSTM",
    "ConvLSTMConfig",
    "Core",
    "CoreConfig",
    "DNCConfig",
    "DeepLSTM",
    "Encoding",
    "EntNet",
    "EntNetBank",
    "Feedforward",
    "MapCoreConfig",
    "MemN2N",
    "PaperRelationalMemory",
    "RelationalMemory",
    "SettingsError",
    "TextMemN2N",
    "build_core",
    "describe",
    "identity_memory",
    "select_state",
    "sizes",
    "without_effect",
]
