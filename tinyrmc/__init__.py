"""tinyrmc: the Relational Memory Core on a small, readable autograd engine.

    from tinyrmc import RelationalMemory, Tape, optim, primitives

`engine.py` records and differentiates, `primitives.py` is the table of operations,
`equations.py` is the paper, `cores/` has the recurrent networks. Importing this package
imports NumPy and nothing else.
"""

from __future__ import annotations

from pathlib import Path

from . import equations, fused, nn, optim
from .autograd import primitives
from .autograd.engine import Parameter, Tape, Tensor
from .autograd.gradcheck import gradcheck
from .cores import (
    DNC,
    LSTM,
    RNN,
    ConvLSTM,
    DeepLSTM,
    EntNet,
    EntNetBank,
    PaperRelationalMemory,
    RelationalMemory,
)
from .fused import plain

__version__ = "0.1.0"

__all__ = [
    "DNC",
    "LSTM",
    "RNN",
    "ConvLSTM",
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
    "plain",
    "primitives",
]


def load(path: str | Path, data_dir: Path | None = None) -> nn.Module:
    """The trained model of a run directory, a checkpoint or a weights file.

    For example `tinyrmc.load("runs/nth_farthest-quick-1")`.

    data_dir: where the data of its task are now, if they have moved.
    """
    from .training.checkpoints import load_model

    return load_model(path, data_dir)
