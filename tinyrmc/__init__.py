"""tinyrmc: the Relational Memory Core on a small, readable autograd engine over plain
arrays.

    from . import RelationalMemory, Tape, optim, primitives

`engine.py` records and differentiates, `primitives.py` is the table of operations,
`equations.py` is the paper, `cores/` the recurrent networks. Importing this package
imports NumPy and nothing else.
"""

from . import equations, fused, nn, optim, primitives
from .checking import gradcheck
from .cores import (
    DNC,
    LSTM,
    DeepLSTM,
    EntNet,
    EntNetBank,
    PaperRelationalMemory,
    RelationalMemory,
)
from .engine import Parameter, Tape, Tensor

__version__ = "0.1.0"

__all__ = [
    "DNC",
    "LSTM",
    "DeepLSTM",
    "EntNet",
    "EntNetBank",
    "PaperRelationalMemory",
    "Parameter",
    "RelationalMemory",
    "Tape",
    "Tensor",
    "equations",
    "fused",
    "gradcheck",
    "load",
    "nn",
    "optim",
    "primitives",
]


def load(path):
    """The trained model of a run directory, checkpoint or weights file:
    `tinyrmc.load("runs/nth_farthest-quick-1")`.
    """
    from .training.checkpoints import load_model

    return load_model(path)
