"""The nine equations of the Relational Memory Core, as small functions.

Santoro et al., "Relational recurrent neural networks" (2018), build a recurrent network
whose state is a matrix M of N memories ("slots"), and let the slots attend to one
another at every step. The argument takes three sections:

    3.1  eq 1      slots exchange information by multi-head dot product attention,
    3.2  eq 2      the new input joins as one more row that the slots may look at,
    3.3  eqs 3-9   an LSTM's gates write the attended memory, slot by slot.

This file follows them in that order, and `step` at its end is one time step of the
whole. It trains: the core `rmc_paper` is `step`; the core `rmc`, the form that the
authors released, arranges attention, `layer_norm` and equation 7 in its own way, and
runs them fused. Fused operations are written for speed, but what they mean are the
functions of this file, and `python -m tinyrmc.train nth_farthest --plain` runs these.

There is no class and no state here: a function takes an array namespace `xp` and
arrays, and returns an array. So the same text runs as

    xp = numpy, cupy         plain numbers, on the processor or on a GPU,
    xp = tinyrmc.autograd.primitives  recorded on our tape, so that gradients follow,
    xp = autograd.numpy      differentiated by another engine, the witness of our tests.

Three habits make that possible. Only names that all of them share are used. Nothing
breaks on complex numbers (no abs, no var), so a complex step h = 1e-30 differentiates
to the last digit: f'(x) = imag(f(x + ih)) / h. And scalars stay Python floats, so a
float32 program stays float32.

Letters follow the paper: B examples in a batch, N slots of F units, n rows of input, H
heads with keys of K and values of V units; G is the width of a gate. Weights are laid
out (in, out) and multiply from the right, `x @ W`, because a batch keeps its examples
in rows; the paper writes the same product as W x in eqs 4-6. No weight is indexed by a
slot: all slots share them, and the number of parameters does not depend on N (section
3.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Array = Any  # of whichever library `xp` is; what matters is the shape

# Section 3.1: slots exchange information ----------------------------------------------


def softmax(xp: Any, x: Array) -> Array:
    """Weights exp(x_j) / sum_k exp(x_k) over the last axis: non-negative, summing to 1.

    Subtracting the largest entry changes nothing, since exp(x_j - c) / sum_k exp(x_k -
    c) is the same for every c. But then no exponential can overflow.
    """
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def attention_weights(xp: Any, Q: Array, K: Array) -> Array:
    """How much each query looks at each key: the weights inside eq 1.

    softmax(Q K^T / sqrt(d_k)) of Q (..., N, d_k), K (..., R, d_k) -> (..., N, R); every
    row sums to 1. Two vectors of d_k independent entries with mean 0 and variance 1
    have a dot product of variance d_k. Dividing by sqrt(d_k) keeps softmax off its flat
    ends.
    """
    d_k = Q.shape[-1]
    return softmax(xp, Q @ xp.swapaxes(K, -1, -2) / math.sqrt(d_k))  # (..., N, R)


def attention(xp: Any, Q: Array, K: Array, V: Array) -> Array:
    """Eq 1, section 3.1: A(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V.

    Q (..., N, d_k) queries, K (..., R, d_k) keys, V (..., R, d_v) values -> (..., N,
    d_v). Each row of the result is a weighted mean of the rows of V. Leading axes are
    examples, or heads; each of those is computed by itself.
    """
    return attention_weights(xp, Q, K) @ V  # (..., N, d_v)


# Section 3.2: new memories are encoded ------------------------------------------------


def append_rows(xp: Any, M: Array, x: Array) -> Array:
    """[M; x], section 3.2: the input as further rows below the memory.

    M (B, N, F); x (B, F) for one row or (B, n, F) for n rows -> (B, N + n, F).
    """
    if len(x.shape) < len(M.shape):
        x = xp.expand_dims(x, axis=-2)  # (B, 1, F)
    return xp.concatenate([M, x], axis=-2)


def multi_head_attention(
    xp: Any, M: Array, x: Array, W_q: Array, W_k: Array, W_v: Array
) -> Array:
    """Eq 2, section 3.2: M~ = softmax(M W^q ([M; x] W^k)^T / sqrt(d_k)) [M; x] W^v.

    M (B, N, F) memory; x (B, F) or (B, n, F) input, as wide as a slot; W_q, W_k (H, F,
    K) and W_v (H, F, V) the projections of each head -> M~ (B, N, H * V).

    Memory and input are both looked at, but only the memory looks: queries come from M
    alone, so M~ has the rows of M, whatever the number of inputs. Every head has its
    own projections. The results of the H heads stand side by side, column-wise, and no
    projection follows. With x left out of [M; x] this is A_theta(M) of section 3.1.
    """
    Z = append_rows(xp, M, x)  # (B, N + n, F)
    heads = [
        attention(xp, M @ W_q[head], Z @ W_k[head], Z @ W_v[head])
        for head in range(W_q.shape[0])
    ]
    return xp.concatenate(heads, axis=-1)  # (B, N, H * V)


# Section 3.3: the memory becomes the cell of an LSTM ----------------------------------


def sigmoid(xp: Any, x: Array) -> Array:
    """The logistic function 1 / (1 + exp(-x)).

    Written as (1 + tanh(x / 2)) / 2, which is the same function and never overflows. It
    is exactly 1 at +inf and exactly 0 at -inf.
    """
    return 0.5 * (xp.tanh(0.5 * x) + 1.0)


def layer_norm(
    xp: Any, x: Array, gain: Array, offset: Array, epsilon: float = 1e-5
) -> Array:
    """Bring every row to mean 0 and variance 1, then scale and shift.

    gain * (x - mean) / sqrt(var + epsilon) + offset for x (..., F); gain, offset (F,).
    Each slot is normalised by itself: joint statistics would let slots see each other
    outside attention. The variance is the biased one, the mean of squared distances.
    Taking the row's first number away beforehand changes nothing but rounding: a
    constant row becomes exactly 0.
    """
    d = x - x[..., :1]
    d = d - xp.mean(d, axis=-1, keepdims=True)
    variance = xp.mean(d * d, axis=-1, keepdims=True)
    return gain * (d / xp.sqrt(variance + epsilon)) + offset


def mlp(xp: Any, z: Array, layers: list[tuple[Array, Array]]) -> Array:
    """Linear layers with a ReLU between each two and none after the last.

    They see every row by itself. z (..., F); layers [(weight (in, out), bias (out,)),
    ...], at least one -> (..., out of the last).
    """
    *hidden, (weight, bias) = layers
    for hidden_weight, hidden_bias in hidden:
        z = xp.maximum(z @ hidden_weight + hidden_bias, 0.0)
    return z @ weight + bias


def g_psi(
    xp: Any, z: Array, layers: list[tuple[Array, Array]], gain: Array, offset: Array
) -> Array:
    """The post-attention processor g_psi of eq 7: layer_norm(MLP(z) + z).

    z (B, N, F) -> (B, N, F); `layers` as in `mlp`, from F to F, and gain, offset (F,).
    The paper names only the kind, a row-wise MLP with layer normalisation; the residual
    connection inside the norm comes from the code that its authors released.
    """
    return layer_norm(xp, mlp(xp, z, layers) + z, gain, offset)


def gate(xp: Any, x: Array, h: Array, W: Array, U: Array, b: Array) -> Array:
    """Eqs 4, 5 and 6: the pre-activation of a gate.

    For instance f_{i,t} = W^f x_t + U^f h_{i,t-1} + b^f; the three gates differ in
    their weights alone. x (B, D) the input as one vector; h (B, N, F); W (D, G), U (F,
    G), b (G,) -> (B, N, G). The input term is the same for every slot. G = F gates each
    unit ("unit" gating); G = 1 gates a whole slot ("memory" gating).
    """
    return xp.expand_dims(x @ W, axis=-2) + h @ U + b  # (B, 1, G) + (B, N, G) + (G,)


def update_memory(
    xp: Any, f: Array, i: Array, m: Array, candidate: Array, forget_bias: float
) -> Array:
    """Eq 7: m_{i,t} = sigma(f_{i,t} + b~^f) * m_{i,t-1} + sigma(i_{i,t}) * candidate.

    The candidate is g_psi(m~_{i,t}), what attention proposes to write. f, i (B, N, G)
    pre-activations of the forget and the input gate; m (B, N, F) the memory before;
    candidate (B, N, F); forget_bias, b~^f, a constant -> (B, N, F). A positive
    forget_bias opens the forget gate of a fresh network, so that it starts by
    remembering.
    """
    return sigmoid(xp, f + forget_bias) * m + sigmoid(xp, i) * candidate


def output(xp: Any, o: Array, m: Array) -> Array:
    """Eq 8: h_{i,t} = sigma(o_{i,t}) * tanh(m_{i,t}).

    o (B, N, G), m (B, N, F) -> (B, N, F).
    """
    return sigmoid(xp, o) * xp.tanh(m)


def step(
    xp: Any,
    x: Array,
    state: tuple[Array, Array],
    parameters: dict[str, Any],
    trace: dict[str, Any] | None = None,
    attend: Callable[[Array, Array], Array] | None = None,
    refine: Callable[[Array], Array] | None = None,
) -> tuple[Array, tuple[Array, Array]]:
    """One time step of the Relational Memory Core: eqs 2-9.

    Returns h_t (B, N, F) and the next state (m_t, h_t).

    Args:
        x: (B, F) the input of this step, projected to the width of a slot; or (B, n,
            F), n rows of input.
        state: (m, h), each (B, N, F): the pair s_{i,t} = (h_{i,t-1}, m_{i,t-1}) of eq
            3, memory first as in eq 9.
        parameters: a dict, see below.
        trace: a dict to fill with what there is to look at: "attention", a list of H
            weights (B, N, N + n) whose first N columns are the slots and the last n the
            input rows; and "input_gate", "forget_gate", "output_gate", each (B, N, G),
            in [0, 1]. They are computed a second time for it, so that the equations
            stay bare.
        attend: M~ = attend(m, x) in place of equation 2, with its own weights and
            without "attention" in the trace.
        refine: candidate = refine(M~) in place of g_psi, with its own weights.

    The keys of `parameters`:

        W_q, W_k (H, F, K), W_v (H, F, V)  eq 2, with H * V = F
        mlp [(weight, bias), ...]          g_psi: from F to F
        gain, offset (F,)                  g_psi: layer normalisation
        W_f, W_i, W_o (n * F, G)           eqs 4-6: from the input, its n rows side by
                                           side
        U_f, U_i, U_o (F, G)               eqs 4-6: from each slot of h
        b_f, b_i, b_o (G,)                 eqs 4-6: biases
        forget_bias                        eq 7: a constant float

    The function is long because it is the paper's step, equation by equation.
    """
    p = parameters
    m, h = state  # eq 3
    if attend is None:
        attended = multi_head_attention(xp, m, x, p["W_q"], p["W_k"], p["W_v"])  # eq 2
    else:
        attended = attend(m, x)
    if refine is None:
        candidate = g_psi(xp, attended, p["mlp"], p["gain"], p["offset"])
    else:
        candidate = refine(attended)

    x_vector = xp.reshape(x, (x.shape[0], -1))  # (B, n * F)
    f = gate(xp, x_vector, h, p["W_f"], p["U_f"], p["b_f"])  # eq 4
    i = gate(xp, x_vector, h, p["W_i"], p["U_i"], p["b_i"])  # eq 5
    o = gate(xp, x_vector, h, p["W_o"], p["U_o"], p["b_o"])  # eq 6

    if trace is not None and attend is None:
        Z = append_rows(xp, m, x)
        trace["attention"] = [
            attention_weights(xp, m @ p["W_q"][head], Z @ p["W_k"][head])
            for head in range(p["W_q"].shape[0])
        ]
    if trace is not None:
        trace["input_gate"] = sigmoid(xp, i)
        trace["forget_gate"] = sigmoid(xp, f + p["forget_bias"])
        trace["output_gate"] = sigmoid(xp, o)

    m = update_memory(xp, f, i, m, candidate, p["forget_bias"])  # eq 7
    h = output(xp, o, m)  # eq 8
    return h, (m, h)  # eq 9
