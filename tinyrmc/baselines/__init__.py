"""What the Relational Memory Core is compared with, each with the same interface: `output, state = core(inputs, state)`."""

from .lstm import LSTM

__all__ = ["LSTM"]
