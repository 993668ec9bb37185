"""The SAM-based Two-memory Model (Le et al. 2020): items, and relations between them.

A step has the input x, the item memory M (D, D) and the relational memory R (K, D, D),
K matrices that each associate one vector with another. Numbers are the paper's.

    x1, x2, x3 = x W_1 + b, x W_2 + b, softmax(x W_3 + b)    (D), (D), (K)
    i, f = sigmoid(tanh(M') U + x1 W + b)                    as the RMC's gates, (D, D)
    M  = f * M' + i * tanh(x1 x1^T)                          (10) a gate for each number
    r  = sum_k x3_k R'_k^T x2                                (11) what R says of x, (D)
    q, k, v = layer_norm((M + a2 r x2^T) W_qkv + b)^T        (K, D) each
    S_j = sum_l tanh(q_j * k_l) v_l^T                        (5) K matrices (D, D)
    R  = a1 R' + S                                           (12)
    M  = M + a3 (S, read by a linear layer)                  (13)
    output = (R, read by two linear layers)                  (14)

S is the Self-attentive Associative Memory: attention whose answer to query j is no mean
of values but a sum of outer products, so a relation between two items is a matrix, not
a weight.

The equations are those of the authors' program. The paper writes R' + a1 S in (12) and
reads R rather than S in (13); it has a second function of x in x1 x1^T; and it leaves
open that layer_norm is over all of q, k and v together. a1, a2 and a3 are learned, and
all start at 0 there: at first R holds the last step alone, and does not act on M. The
program's last two layers with ReLUs are left to the task's readout.

Every step needs the one before, so there is no quicker way to do many at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..autograd import primitives as p
from ..autograd.engine import Parameter, Tensor
from ..backend import Array
from ..backend.seeds import Seed, generator
from ..config import check_least, check_values
from ..errors import check_number
from ..nn import LayerNorm, Linear, check_dtype
from .config import CoreConfig
from .core import Core, Inputs, State, Step, Trace
from .registry import register_core


class STM(Core):
    """The two-memory model.

    Its state is (M, R), (B, D, D) and (B, K, D, D), which start as learned parameters;
    the output is (B, output_size).

    Args:
        input_size: width of an input.
        mem_slots: K, queries, and matrices of the relational memory.
        mem_size: D, width of an item. In a step attention takes K^2 D^2 products, (13)
            K D^3, (14) K D^2 relation_size.
        relation_size: numbers read from each matrix of R.
        output_size: numbers of the output.
        forget_bias: constant added to the forget gate's pre-activation at first; it is
            learned, as the input gate's 0 is.
    """

    any_weight = "item.weight"
    mem_slots: int
    mem_size: int

    def __init__(
        self,
        input_size: int,
        mem_slots: int,
        mem_size: int,
        relation_size: int = 32,
        output_size: int = 64,
        forget_bias: float = 1.0,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
    ):
        self._set_sizes(input_size=input_size, mem_slots=mem_slots, mem_size=mem_size)
        self._set_sizes(relation_size=relation_size, output_size=output_size)
        check_number("STM", "forget_bias", forget_bias)
        dtype = check_dtype("STM", dtype)
        rng = generator(seed)
        K = mem_slots
        D = mem_size

        def layer(wide, narrow):
            return Linear(wide, narrow, dtype=dtype, seed=rng)

        def uniform(*shape):  # as wide as the authors' program starts the memories
            bound = sum(shape) ** -0.5
            return Parameter(rng.uniform(-bound, bound, shape).astype(dtype))

        self.item, self.key, self.choice = (layer(input_size, n) for n in (D, D, K))
        self.gate_inputs, self.gate_memory = layer(D, 2 * D), layer(D, 2 * D)
        self.gate_biases = Parameter(np.array([0.0, forget_bias], dtype))
        self.qkv = layer(D, 3 * K)
        self.qkv_norm = LayerNorm(D * 3 * K, dtype)
        self.alphas = Parameter(np.zeros(3, dtype))
        self.to_items = layer(K * D, D)
        self.of_relation = layer(D * D, relation_size)
        self.of_relations = layer(K * relation_size, output_size)
        self.first_items, self.first_relations = uniform(D, D), uniform(K, D, D)

    def initial_state(self, batch_size: int) -> tuple[Tensor, Tensor]:
        """Both memories, for each example. Call this inside the Tape."""
        # of its own: `broadcast_to` shows the Parameter's
        items = self.first_items + self.zeros(batch_size, 1, 1)
        return items, self.first_relations + self.zeros(batch_size, 1, 1, 1)

    def __call__(self, inputs: Inputs, state: State, trace: Trace = None) -> Step:
        """One step: inputs (B, input_size), (M, R) -> (B, output_size), (M, R)."""
        self._check_inputs(inputs, None, self.input_size)
        B = inputs.shape[0]
        K = self.mem_slots
        D = self.mem_size
        items, relations = state
        self._check_state(items, B, D, D)
        self._check_state(relations, B, K, D, D)
        x = self.item(inputs)
        x2 = self.key(inputs)
        choice = self.choice(inputs)
        gates = self.gate_memory(p.tanh(items)) + p.expand_dims(self.gate_inputs(x), 1)
        opens, keeps = p.split(gates, 2, axis=-1)  # (B, D, D) each
        opens = p.sigmoid(opens + self.gate_biases[0])
        keeps = p.sigmoid(keeps + self.gate_biases[1])
        items = opens * p.tanh(_outer(x, x)) + keeps * items
        chosen = p.expand_dims(p.softmax(choice), -1) * p.expand_dims(
            x2, 1
        )  # (B, K, D)
        chosen = p.reshape(chosen, (B, 1, K * D))
        read = (chosen @ p.reshape(relations, (B, K * D, D)))[:, 0]  # (B, D)
        a1, a2, a3 = p.unstack(self.alphas)
        new = self._relate(items + a2 * _outer(read, x2))
        relations = a1 * relations + new
        across = p.swapaxes(p.reshape(new, (B, K * D, D)), 1, 2)
        items = items + a3 * self.to_items(across)
        told = self.of_relation(p.reshape(relations, (B, K, D * D)))
        return self.of_relations(p.reshape(told, (B, -1))), (items, relations)

    def _relate(self, items: Tensor) -> Tensor:
        """The Self-attentive Associative Memory of items (B, D, D): (B, K, D, D)."""
        qkv = self.qkv(items)  # (B, D, 3 K)
        flat = self.qkv_norm(p.reshape(qkv, (len(qkv.data), -1)))
        q, k, v = p.split(p.swapaxes(p.reshape(flat, qkv.shape), 1, 2), 3, axis=1)
        alike = p.tanh(p.expand_dims(q, 2) * p.expand_dims(k, 1))  # (B, K, K, D)
        return p.swapaxes(alike, -1, -2) @ p.expand_dims(v, 1)


def _outer(a: Tensor | Array, b: Tensor | Array) -> Tensor:
    """a b^T of each example: two (B, D) -> (B, D, D)."""
    return p.expand_dims(a, -1) * p.expand_dims(b, -2)


# --- By name --------------------------------------------------------------------------


@dataclass(frozen=True)
class STMConfig:
    """The settings of the two-memory model alone."""

    common: ClassVar = ()

    item_size: int = 32
    """width D of an item"""
    relation_size: int = 32
    """numbers read from each of the model.mem_slots matrices of relations"""
    output_size: int = 64
    """numbers of its output"""

    def __post_init__(self):
        check_values(self, "model.stm")
        check_least("model.stm", self, "item_size", "relation_size", "output_size")


def _size(c: CoreConfig, core: Any) -> str:
    D = core.mem_size
    return f", items {D} x {D}, relations {core.mem_slots} x {D} x {D}"


@register_core(
    "stm",
    config=STMConfig,
    used=("mem_slots", "forget_bias"),
    size=_size,
    colour="#999933",
)
def _stm(c: CoreConfig, input_size: int, seed: Seed) -> STM:
    """a memory of items and one of their relations (Le et al. 2020)"""
    own = vars(c.own)
    sizes = own["item_size"], own["relation_size"], own["output_size"]
    return STM(input_size, c.mem_slots, *sizes, c.forget_bias, seed=seed)
