"""tinyrmc: the Relational Memory Core on a small, readable autograd engine.

    from tinyrmc import RelationalMemory, Tape, optim, primitives

`engine.py` records and differentiates, `primitives.py` is the table of operations,
`equations.py` is the paper, `cores/` has the recurrent networks. Importing this package
imports NumPy and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from . import equations, fused, nn, optim
from .autograd import primitives
from .autograd.engine import Parameter, Tape, Tensor
from .autograd.gradcheck import gradcheck
from .cores import (
    DNC,
    GRU,
    LSTM,
    RNN,
    ConvLSTM,
    DeepLSTM,
    EntNet,
    EntNetBank,
    PaperRelationalMemory,
    RelationalMemory,
    register_core,
)
from .fused import plain

__version__ = "0.3.0"

__all__ = [
    "DNC",
    "GRU",
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
    "register_core",
    "save",
    "shipped",
]


def load(
    path: str | Path,
    data_dir: Path | None = None,
    classes: type | Iterable[type] = (),
) -> nn.Module:
    """The network of a run directory, a checkpoint or a weights file; a module that
    `save` wrote; or a trained network that comes along: `load("nth_farthest_4x4")`.

    data_dir: where the data of its task are now, if they have moved.
    classes: those of your own that `save` has met: `load("mine.npz", classes=[Net])`.
    """
    from .training.networks import load_model

    several = [classes] if isinstance(classes, type) else classes
    return load_model(path, data_dir, several)


def save(module: nn.Module, path: str | Path) -> None:
    """Write a module, its settings with its weights, to a file for `load`.

    The file holds no pickle and a checksum, and is written whole or not at all. A class
    of your own is in it by name, and a core that `--core FILE` brought by its file; its
    settings may be numbers, texts, modules, dataclasses, primitives, and lists, tuples
    or dicts of these. RunError for a module that its settings would not make again, but
    for attributes that begin with _.
    """
    from .training.networks import save_module

    save_module(module, path)


def shipped() -> list[str]:
    """The names of the trained networks that come along, for `load`."""
    from .training.networks import shipped

    return [*shipped()]
