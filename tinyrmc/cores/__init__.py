"""Recurrent cores with one contract: `output, state = core(inputs, state)`."""

from .config import CoreConfig, DNCConfig, build_core, describe
from .core import Core
from .dnc import DNC
from .entnet import EntNet, EntNetBank
from .lstm import GRU, LSTM, RNN, ConvLSTM, DeepLSTM, Feedforward
from .memn2n import Encoding, MemN2N, TextMemN2N
from .relational import PaperRelationalMemory, RelationalMemory

__all__ = [
    "DNC",
    "GRU",
    "LSTM",
    "RNN",
    "ConvLSTM",
    "Core",
    "CoreConfig",
    "DNCConfig",
    "DeepLSTM",
    "Encoding",
    "EntNet",
    "EntNetBank",
    "Feedforward",
    "MemN2N",
    "PaperRelationalMemory",
    "RelationalMemory",
    "TextMemN2N",
    "build_core",
    "describe",
]
