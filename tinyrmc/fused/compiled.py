"""Bodies of fused operations, compiled for the CPU by Numba: the extra `fast`.

NumPy makes a pass over memory for each arithmetic operation. A compiled body takes a
row through a whole formula while it lies in the first cache. Matrix products stay with
NumPy's BLAS. As on a GPU, a body takes the place of an operation's array body of the
same name, `reference` says what both compute, and the array body runs where this one
does not know the dtype: it is made for float32.

Loops touch few arrays each: then the compiler knows that these do not overlap, and uses
vector instructions. It may add up in another order and fuse a product with a sum, but
it may not assume that numbers are finite: NaN and infinity come through.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numba.types import Array, boolean, float32

SEEN = {n: Array(float32, n, "C", readonly=True) for n in (1, 2, 3)}  # tapes' arrays
OWN = {n: Array(float32, n, "C") for n in (1, 2, 3)}  # that a kernel writes into
FAST = {"reassoc", "contract", "nsz"}
NOTHING = {n: np.empty((0,) * n, np.float32) for n in (1, 3)}  # in place of None

HALF, ONE, ZERO = np.float32(0.5), np.float32(1), np.float32(0)


def kernel(*types):
    """Decorator: compile now, for these types; or load it from the cache."""
    return numba.njit(
        [types], fastmath=FAST, error_model="numpy", nogil=True, cache=True
    )


part = numba.njit(fastmath=FAST, error_model="numpy", cache=True)


# --- functions of a number ------------------------------------------------------------

# tanh x = x p(x^2) / q(x^2), to 3e-7; the least squares of relative errors up to FAR,
# beyond which it is 1 to the last bit
FAR = np.float32(7.9)
P = [
    np.float32(c)
    for c in (1.0, 0.134507208, 3.57911131e-3, 2.20252327e-5, 1.54308073e-8)
]
Q = [
    np.float32(c)
    for c in (1.0, 0.467840488, 2.61926909e-2, 3.42384651e-4, 8.59992108e-7)
]
P0, P1, P2, P3, P4 = P
Q0, Q1, Q2, Q3, Q4 = Q
# exp x = 2^n e^r, with |r| at most log(2) / 2; log 2 is the sum of two numbers, of
# which the first has few bits, so that n times it is exact
LOG2_E, LOG_2, REST = map(np.float32, (1.44269504, 0.693359375, -2.12194440e-4))
LEAST = np.float32(-87)  # exp of less is zero
E2, E3, E4, E5, E6 = (np.float32(1 / math.factorial(k)) for k in range(2, 7))


@part
def tanh(x):
    x = -FAR if x < -FAR else x
    x = FAR if x > FAR else x
    s = x * x
    p = P0 + s * (P1 + s * (P2 + s * (P3 + s * P4)))
    q = Q0 + s * (Q1 + s * (Q2 + s * (Q3 + s * Q4)))
    return x * p / q


@part
def sigmoid(x):
    return HALF + HALF * tanh(HALF * x)


@part
def exp(x):
    """For x of at most 0."""
    near = x if x > LEAST else LEAST
    n = np.int32(near * LOG2_E - HALF)
    r = x - np.float32(n) * LOG_2 - np.float32(n) * REST
    y = ONE + r * (ONE + r * (E2 + r * (E3 + r * (E4 + r * (E5 + r * E6)))))
    power = np.int32((n + np.int32(127)) << np.int32(23)).view(np.float32)  # 2^n
    return ZERO if x < LEAST else y * power


# --- linear ---------------------------------------------------------------------------


@kernel(OWN[2], SEEN[1], boolean)
def add_bias(y, bias, relu):
    for r in range(y.shape[0]):
        row = y[r]
        for k in range(len(bias)):
            row[k] += bias[k]
        if relu:
            for k in range(len(bias)):
                row[k] = ZERO if row[k] < ZERO else row[k]


@kernel(SEEN[1], SEEN[1], OWN[1])
def before_relu(g, y, out):
    for k in range(len(g)):
        out[k] = g[k] if y[k] > ZERO else ZERO


# --- layer norm -----------------------------------------------------------------------


@part
def add_up(x, bias, residual, b, n, z):
    """z = x + bias + residual, of one row."""
    row = x[b, n]
    for k in range(len(z)):
        z[k] = row[k]
    if bias.size:
        for k in range(len(z)):
            z[k] += bias[k]
    if residual.size:
        row = residual[b, n]
        for k in range(len(z)):
            z[k] += row[k]


@kernel(*(SEEN[3], SEEN[1], SEEN[3], SEEN[1], SEEN[1], OWN[3], OWN[2], float32))
def norm(x, bias, residual, gain, offset, y, stats, epsilon):
    """y = (z - mean z) / sqrt(var z + epsilon) * gain + offset, for each row."""
    width = np.float32(x.shape[2])
    for b in range(x.shape[0]):
        for n in range(x.shape[1]):
            z = y[b, n]
            add_up(x, bias, residual, b, n, z)
            first, total, squares = z[0], ZERO, ZERO
            for k in range(len(z)):  # from the first on: a constant row is exactly 0
                total += z[k] - first
            mean = total / width
            for k in range(len(z)):
                d = z[k] - first - mean
                squares += d * d
            scale = ONE / np.sqrt(squares / width + epsilon)
            for k in range(len(z)):
                z[k] = (z[k] - first - mean) * scale * gain[k] + offset[k]
            stats[0, b * x.shape[1] + n] = mean
            stats[1, b * x.shape[1] + n] = scale


@kernel(*(SEEN[3], SEEN[3], SEEN[1], SEEN[3], SEEN[1], SEEN[2], OWN[3], OWN[1]))
def norm_backward(g, x, bias, residual, gain, stats, gx, sums):
    """gx = scale * (h - mean h - z^ mean(h z^)), h = g * gain, z^ the normed row.

    sums: the gradients of gain and offset, one after the other.
    """
    width = x.shape[2]
    sums[:] = ZERO
    of_gain, of_offset = sums[:width], sums[width:]
    for b in range(x.shape[0]):
        for n in range(x.shape[1]):
            z, row = gx[b, n], g[b, n]
            mean, scale = stats[0, b * x.shape[1] + n], stats[1, b * x.shape[1] + n]
            add_up(x, bias, residual, b, n, z)
            first, ahead, along = z[0], ZERO, ZERO
            for k in range(width):
                z[k] = (z[k] - first - mean) * scale
            for k in range(width):
                h = row[k] * gain[k]
                ahead += h
                along += h * z[k]
            ahead /= np.float32(width)
            along /= np.float32(width)
            for k in range(width):
                of_gain[k] += row[k] * z[k]
                of_offset[k] += row[k]
            for k in range(width):
                z[k] = scale * (row[k] * gain[k] - ahead - z[k] * along)


# --- attention ------------------------------------------------------------------------


@kernel(OWN[2], float32)
def softmax(w, scale):
    """softmax(scale * w) of each row, in place."""
    for r in range(w.shape[0]):
        row = w[r]
        most = row[0]
        for k in range(len(row)):
            most = row[k] if row[k] > most else most
        for k in range(len(row)):
            row[k] = (row[k] - most) * scale
    flat = w.reshape(w.size)
    for k in range(w.size):
        flat[k] = exp(flat[k])
    for r in range(w.shape[0]):
        row, total = w[r], ZERO
        for k in range(len(row)):
            total += row[k]
        total = ONE / total
        for k in range(len(row)):
            row[k] *= total


@kernel(OWN[2], SEEN[2], float32)
def softmax_backward(g, w, scale):
    """scale * w * (g - g . w) of each row, in place of g."""
    for r in range(w.shape[0]):
        row, own, along = g[r], w[r], ZERO
        for k in range(len(row)):
            along += row[k] * own[k]
        for k in range(len(row)):
            row[k] = scale * own[k] * (row[k] - along)


# --- gates ----------------------------------------------------------------------------


@part
def gate(z, x, bias):
    for k in range(len(z)):
        z[k] = sigmoid(z[k] + x[k] + bias)


@part
def squash(x, out):
    for k in range(len(x)):
        out[k] = tanh(x[k])


@part
def squash_in_place(x):
    for k in range(len(x)):
        x[k] = tanh(x[k])


@part
def mix(i, c, f, m, out):
    for k in range(len(out)):
        out[k] = i[k] * c[k] + f[k] * m[k]


@kernel(*(SEEN[3], OWN[3], OWN[3], SEEN[3], OWN[3], OWN[3], float32, float32))
def gates(from_input, z, c, memory, new, squashed, input_bias, forget_bias):
    """new = i * tanh(c) + f * memory; z becomes the gates i|f, c its tanh."""
    width = c.shape[2]
    for b in range(c.shape[0]):
        x = from_input[b, 0]
        for n in range(c.shape[1]):
            i, f = z[b, n, :width], z[b, n, width:]
            gate(i, x[:width], input_bias)
            gate(f, x[width:], forget_bias)
            squash_in_place(c[b, n])
            mix(i, c[b, n], f, memory[b, n], new[b, n])
            if squashed.size:
                squash(new[b, n], squashed[b, n])


@part
def gate_backward(g, times, s, out, total):
    for k in range(len(g)):
        out[k] = g[k] * times[k] * (s[k] - s[k] * s[k])
    for k in range(len(g)):
        total[k] += out[k]


@kernel(*(SEEN[3], SEEN[3], SEEN[3], SEEN[3], OWN[3], OWN[3], OWN[3], OWN[3]))
def gates_backward(g, z, c, memory, gx, gz, gc, gm):
    """The gradients of from_input, from_memory, the candidate and the memory."""
    width = c.shape[2]
    gx[:] = ZERO
    for b in range(c.shape[0]):
        of_x = gx[b, 0]
        for n in range(c.shape[1]):
            row, i, f = g[b, n], z[b, n, :width], z[b, n, width:]
            of_i, of_f = gz[b, n, :width], gz[b, n, width:]
            gate_backward(row, c[b, n], i, of_i, of_x[:width])
            gate_backward(row, memory[b, n], f, of_f, of_x[width:])
            s, of_c, of_m = c[b, n], gc[b, n], gm[b, n]
            for k in range(width):
                of_c[k] = row[k] * i[k] * (ONE - s[k] * s[k])
            for k in range(width):
                of_m[k] = row[k] * f[k]


# --- losses and updates ---------------------------------------------------------------


@kernel(OWN[2], SEEN[1], OWN[1], OWN[1])
def softmax_tile(e, bias, top, total):
    """Logits of some words become exp(logit + bias - top); top and total grow."""
    for r in range(e.shape[0]):
        row, most = e[r], top[r]
        if bias.size:
            for k in range(len(row)):
                row[k] += bias[k]
        for k in range(len(row)):
            most = most if row[k] < most else row[k]
        for k in range(len(row)):
            row[k] = exp(row[k] - most)
        part = ZERO
        for k in range(len(row)):
            part += row[k]
        total[r] = total[r] * exp(top[r] - most) + part
        top[r] = most


@kernel(*(OWN[1], SEEN[1], OWN[1], OWN[1], *[float32] * 6))
def adam(data, g, m, v, keep_m, keep_v, take_m, take_v, rate, epsilon):
    """m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; data -= rate m / (sqrt v + e)."""
    for k in range(len(data)):
        m[k] = keep_m * m[k] + take_m * g[k]
        v[k] = keep_v * v[k] + take_v * g[k] * g[k]
        data[k] -= rate * m[k] / (np.sqrt(v[k]) + epsilon)
