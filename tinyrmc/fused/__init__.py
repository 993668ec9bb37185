"""Fused primitives: where a recurrent memory spends its time, with derivatives by hand.

A fused primitive is one tape entry where a composition would be ten, and it saves the
least that its backward needs. Each one carries its own definition in basic primitives,
`op.reference(...)`, which for the paper's operations is the function of `equations.py`.
That is the text to read; it is the oracle in the tests; and inside `with plain():`, or
in `python -m tinyrmc.train --plain`, it runs instead.

All matrix products go through `backend.gemm`. The rest of each body is NumPy's
vocabulary on `xp`, so the same lines run on CuPy. On a GPU a kernel of the same name in
backend/gpu/ takes the place of a body and its vjp, if it supports the call.

As in `primitives.py`, an operation, its derivative and its definition stand one under
the other:

    layers.py        linear, embedding, layer_norm
    convolution.py   conv2d
    relational.py    attention, rmc_gates
    recurrent.py     lstm_gates, lstm
    scans.py         linear_scan, solve_lower, of linear recurrences
    hops.py          memory_hop, sliding_hop, of memory networks
    addressing.py    content_weights, erase_and_write, temporal_links, of the DNC
    losses.py        softmax_cross_entropy, linear_cross_entropy, categorical
    bodies.py        where compiled bodies take the place of NumPy's on a CPU
    compiled.py      these bodies, for Numba
    table.py         what they have in common
"""

from .addressing import content_weights, erase_and_write, temporal_links
from .bodies import bodies, held_compiled, use_compiled
from .convolution import conv2d
from .hops import memory_hop, sliding_hop
from .layers import embedding, layer_norm, linear
from .losses import categorical, linear_cross_entropy, softmax_cross_entropy
from .recurrent import lstm, lstm_gates
from .relational import attention, rmc_gates
from .scans import linear_scan, solve_lower
from .table import Fused, fused, is_plain, plain

__all__ = [
    "Fused",
    "attention",
    "bodies",
    "categorical",
    "content_weights",
    "conv2d",
    "embedding",
    "erase_and_write",
    "fused",
    "held_compiled",
    "is_plain",
    "layer_norm",
    "linear",
    "linear_cross_entropy",
    "linear_scan",
    "lstm",
    "lstm_gates",
    "memory_hop",
    "plain",
    "rmc_gates",
    "sliding_hop",
    "softmax_cross_entropy",
    "solve_lower",
    "temporal_links",
    "use_compiled",
]
