"""Layers: parameters with names, and the functions that use them.

layers.py    Module, Linear, Conv2d, Embedding, LayerNorm, RMSNorm, MultiHeadAttention,
             MLP, Sequential
settings.py  the settings of a module, for its repr, its config and files
dropout.py   Dropout, and the noise that its masks come from
"""

from ..autograd.engine import Parameter
from ..backend.seeds import generator
from .dropout import Dropout, Noise
from .layers import (
    MLP,
    Constant,
    Conv2d,
    Embedding,
    LayerNorm,
    Linear,
    Module,
    MultiHeadAttention,
    RMSNorm,
    Sequential,
    check_array,
    check_dtype,
    truncated_normal,
)

__all__ = [
    "MLP",
    "Constant",
    "Conv2d",
    "Dropout",
    "Embedding",
    "LayerNorm",
    "Linear",
    "Module",
    "MultiHeadAttention",
    "Noise",
    "Parameter",
    "RMSNorm",
    "Sequential",
    "check_array",
    "check_dtype",
    "generator",
    "truncated_normal",
]
