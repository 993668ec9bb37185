"""The nine equations of the Relational Memory Core, one small function each.

Santoro et al., "Relational recurrent neural networks" (2018), build a recurrent network
whose state is a matrix M of N memories ("slots"), and let the slots attend to one
another at every step. The argument takes three sections:

    3.1  eq 1      slots exchange information by multi-head dot product attention,
    3.2  eq 2      the new input joins as one more row that the slots may look at,
    3.3  eqs 3-9   the attended memory is written through the gates of an LSTM, slot by slot.

This file follows them in that order, and `step` at its end is one time step of the
whole. There is no class and no state here: a function takes an array namespace `xp` and
arrays, and returns an array. The same text therefore runs as

    xp = numpy, cupy         plain numbers, on the processor or on a GPU,
    xp = tinyrmc.primitives  recorded on our tape, so that gradients follow,
    xp = autograd.numpy      differentiated by an independent engine, the witness our tests call.

Three habits keep it so. Only names that all of them share are used. Nothing breaks on
complex numbers (no abs, no var), so a complex step h = 1e-30 differentiates to the last
digit: f'(x) = imag(f(x + ih)) / h. And scalars stay Python floats, so a float32 program
stays float32.

Letters follow the paper: B examples in a batch, N slots of F units, n rows of input, H
heads with keys of K and values of V units; G is the width of a gate. Weights are laid
out (in, out) and multiply from the right, `x @ W`, because a batch keeps its examples
in rows; the paper writes the same product as W x in eqs 4-6. No weight is indexed by a
slot: all slots share them, and the number of parameters does not depend on N (section
3.3).
"""

import math

# Section 3.1: slots exchange information ----------------------------------------------


def softmax(xp, x):
    """Weights exp(x_j) / sum_k exp(x_k) over the last axis: non-negative, summing to 1.

    Subtracting the largest entry changes nothing, exp(x_j - c) / sum_k exp(x_k - c)
    being the same for every c, and no exponential can then overflow.
    """
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def attention_weights(xp, Q, K):
    """How much each query looks at each key: softmax(Q K^T / sqrt(d_k)), the weights
    inside eq 1.

    Q (..., N, d_k), K (..., R, d_k) -> (..., N, R); every row sums to 1. Two vectors of
    d_k independent entries with mean 0 and variance 1 have a dot product of variance
    d_k; dividing by sqrt(d_k) keeps softmax off its flat ends.
    """
    d_k = Q.shape[-1]
    return softmax(xp, Q @ xp.swapaxes(K, -1, -2) / math.sqrt(d_k))  # (..., N, R)


def attention(xp, Q, K, V):
    """Eq 1, section 3.1: A(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V.

    Q (..., N, d_k) queries, K (..., R, d_k) keys, V (..., R, d_v) values -> (..., N,
    d_v). Each row of the result is a weighted mean of the rows of V. Leading axes are
    examples, or heads: each is treated by itself.
    """
    return attention_weights(xp, Q, K) @ V  # (..., N, d_v)


# Section 3.2: new memories are encoded ------------------------------------------------


def append_rows(xp, M, x):
    """[M; x], section 3.2: the input as further rows below the memory.

    M (B, N, F); x (B, F) for one row or (B, n, F) for n rows -> (B, N + n, F).
    """
    if len(x.shape) < len(M.shape):
        x = xp.expand_dims(x, axis=-2)  # (B, 1, F)
    return xp.concatenate([M, x], axis=-2)


def multi_head_attention(xp, M, x, W_q, W_k, W_v):
    """Eq 2, section 3.2: M~ = softmax(M W^q ([M; x] W^k)^T / sqrt(d_k)) [M; x] W^v,
    with H heads side by side.

    M (B, N, F) memory; x (B, F) or (B, n, F) input, as wide as a slot; W_q, W_k (H, F,
    K) and W_v (H, F, V) the projections of each head -> M~ (B, N, H * V).

    Memory and input are both looked at, but only the memory looks: queries come from M
    alone, so M~ has the rows of M, whatever the number of inputs. Every head has
    projections of its own and the results are concatenated column-wise; there is no
    projection after them. With x left out of [M; x] this is A_theta(M) of section 3.1.
    """
    Z = append_rows(xp, M, x)  # (B, N + n, F)
    heads = [
        attention(xp, M @ W_q[head], Z @ W_k[head], Z @ W_v[head])
        for head in range(W_q.shape[0])
    ]
    return xp.concatenate(heads, axis=-1)  # (B, N, H * V)


# Section 3.3: the memory becomes the cell of an LSTM ----------------------------------


def sigmoid(xp, x):
    """The logistic function 1 / (1 + exp(-x)), written as (1 + tanh(x / 2)) / 2: the
    same function, and no overflow.

    Exactly 1 at +inf and exactly 0 at -inf.
    """
    return 0.5 * (xp.tanh(0.5 * x) + 1.0)


def layer_norm(xp, x, gain, offset, epsilon=1e-5):
    """Bring every row to mean 0 and variance 1, then scale and shift: gain * (x - mean)
    / sqrt(var + epsilon) + offset.

    x (..., F); gain, offset (F,). Each slot is normalised by itself: joint statistics
    would let slots see each other outside attention. The variance is the biased one,
    the mean of squared distances.
    """
    d = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(d * d, axis=-1, keepdims=True)
    return gain * (d / xp.sqrt(variance + epsilon)) + offset


def mlp(xp, z, layers):
    """Linear layers with a ReLU between each two and none after the last, applied to
    every row by itself.

    z (..., F); layers [(weight (in, out), bias (out,)), ...], at least one -> (..., out
    of the last).
    """
    *hidden, (weight, bias) = layers
    for hidden_weight, hidden_bias in hidden:
        z = xp.maximum(z @ hidden_weight + hidden_bias, 0.0)
    return z @ weight + bias


def g_psi(xp, z, layers, gain, offset):
    """The post-attention processor g_psi of eq 7: layer_norm(MLP(z) + z).

    z (B, N, F) -> (B, N, F); `layers` as in `mlp`, from F to F, and gain, offset (F,).
    The paper names only the kind, a row-wise MLP with layer normalisation; the residual
    connection inside the norm is that of the code it released.
    """
    return layer_norm(xp, mlp(xp, z, layers) + z, gain, offset)


def gate(xp, x, h, W, U, b):
    """Eqs 4, 5 and 6: the pre-activation of a gate, for instance f_{i,t} = W^f x_t +
    U^f h_{i,t-1} + b^f.

    x (B, D) the input as one vector; h (B, N, F); W (D, G), U (F, G), b (G,) -> (B, N,
    G). The three gates differ in their weights alone. The input term is the same for
    every slot. G = F gates each unit ("unit" gating); G = 1 gates a whole slot
    ("memory" gating).
    """
    return xp.expand_dims(x @ W, axis=-2) + h @ U + b  # (B, 1, G) + (B, N, G) + (G,)


def update_memory(xp, f, i, m, candidate, forget_bias):
    """Eq 7: m_{i,t} = sigma(f_{i,t} + b~^f) * m_{i,t-1} + sigma(i_{i,t}) *
    g_psi(m~_{i,t}).

    f, i (B, N, G) pre-activations of the forget and the input gate; m (B, N, F) the
    memory before; candidate (B, N, F) the value g_psi(m~), what attention proposes to
    write; forget_bias, b~^f, a constant -> (B, N, F). A positive forget_bias opens the
    forget gate of a fresh network, so that it starts by remembering.
    """
    return sigmoid(xp, f + forget_bias) * m + sigmoid(xp, i) * candidate


def output(xp, o, m):
    """Eq 8: h_{i,t} = sigma(o_{i,t}) * tanh(m_{i,t}), with o (B, N, G) and m (B, N, F)
    -> (B, N, F).
    """
    return sigmoid(xp, o) * xp.tanh(m)


def step(xp, x, state, parameters, trace=None):
    """One time step of the Relational Memory Core: eqs 2-9.

    x           (B, F) the input of this step, projected to the width of a slot; or (B, n, F), n rows of input.
    state       (m, h), each (B, N, F): the pair s_{i,t} = (h_{i,t-1}, m_{i,t-1}) of eq 3, memory first as in eq 9.
    parameters  a dict with keys
                    W_q, W_k (H, F, K), W_v (H, F, V)       eq 2, with H * V = F
                    mlp [(weight, bias), ...]               g_psi: from F to F
                    gain, offset (F,)                       g_psi: layer normalisation
                    W_f, W_i, W_o (n * F, G)                eqs 4-6: from the input, its n rows side by side
                    U_f, U_i, U_o (F, G)                    eqs 4-6: from each slot of h
                    b_f, b_i, b_o (G,)                      eqs 4-6: biases
                    forget_bias                             eq 7: a constant float
    trace       a dict to fill with what can be looked at: "attention", a list of H
                weights (B, N, N + n) whose first N columns are the slots and the last n
                the input rows; and "input_gate", "forget_gate", "output_gate", each (B,
                N, G), in [0, 1]. They are computed a second time for it, so that the
                equations stay bare.

    Returns h_t (B, N, F) and the next state (m_t, h_t).
    """
    p = parameters
    m, h = state  # eq 3
    attended = multi_head_attention(xp, m, x, p["W_q"], p["W_k"], p["W_v"])  # eq 2
    candidate = g_psi(xp, attended, p["mlp"], p["gain"], p["offset"])

    x_vector = xp.reshape(x, (x.shape[0], -1))  # (B, n * F)
    f = gate(xp, x_vector, h, p["W_f"], p["U_f"], p["b_f"])  # eq 4
    i = gate(xp, x_vector, h, p["W_i"], p["U_i"], p["b_i"])  # eq 5
    o = gate(xp, x_vector, h, p["W_o"], p["U_o"], p["b_o"])  # eq 6

    if trace is not None:
        Z = append_rows(xp, m, x)
        trace["attention"] = [
            attention_weights(xp, m @ p["W_q"][head], Z @ p["W_k"][head])
            for head in range(p["W_q"].shape[0])
        ]
        trace["input_gate"] = sigmoid(xp, i)
        trace["forget_gate"] = sigmoid(xp, f + p["forget_bias"])
        trace["output_gate"] = sigmoid(xp, o)

    m = update_memory(xp, f, i, m, candidate, p["forget_bias"])  # eq 7
    h = output(xp, o, m)  # eq 8
    return h, (m, h)  # eq 9
