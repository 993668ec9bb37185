"""What the Relational Memory Core is compared with, each with the same interface: `output, state = core(inputs, state)`."""

from .dnc import DNC
from .entnet import EntNet, EntNetBank
from .lstm import LSTM, DeepLSTM

__all__ = ["DNC", "LSTM", "DeepLSTM", "EntNet", "EntNetBank"]
