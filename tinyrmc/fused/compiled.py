"""Bodies of fused operations, compiled for the CPU by Numba: the extra `fast`.

NumPy makes a pass over memory for each arithmetic operation. A compiled body takes a
row through a whole formula while it lies in the first cache. `bodies.py` says when it
runs in the place of an array body, and `reference` what both compute.

Loops touch few arrays each: then the compiler knows that these do not overlap, and uses
vector instructions. It may add up in another order and fuse a product with a sum, but
it may not assume that numbers are finite: NaN and infinity come through.
"""

import math
import sys

import numba
import numpy as np
from numba.types import Array, boolean, float32, int64

SEEN = {n: Array(float32, n, "C", readonly=True) for n in (1, 2, 3)}  # tapes' arrays
OWN = {n: Array(float32, n, "C") for n in (1, 2, 3)}  # that a kernel writes into
NOTHING = {n: np.empty((0,) * n, np.float32) for n in (1, 2)}  # in place of None
OPTIONS = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy"}

f4 = np.float32
HALF, ONE, ZERO = f4(0.5), f4(1), f4(0)


def kernel(*types):
    """Decorator: load the kernel for these types from the user's caches, or compile it
    now. The caches are those of Numba: __pycache__ here, or NUMBA_CACHE_DIR, or the
    user's. Where nobody may write, every process compiles for itself.
    """

    def decorate(function):
        try:
            found = numba.njit([types], nogil=True, cache=True, **OPTIONS)(function)
        except Exception:  # no such folder, a full disk, a broken file
            found = numba.njit([types], nogil=True, **OPTIONS)(function)
        if function.__name__ == "add_bias" and not found.stats.cache_hits:
            print("compiling for this processor: some seconds, once", file=sys.stderr)
        return found

    return decorate


part = numba.njit(**OPTIONS)


# tanh x = x p(x^2) / q(x^2) to 3e-7, and 1 to the last bit from FAR on: the fit with
# the smallest relative error
FAR = f4(7.9)
P0, P1, P2 = f4(1), f4(0.134507208), f4(3.57911131e-3)
P3, P4 = f4(2.20252327e-5), f4(1.54308073e-8)
Q0, Q1, Q2 = f4(1), f4(0.467840488), f4(2.61926909e-2)
Q3, Q4 = f4(3.42384651e-4), f4(8.59992108e-7)
# exp x = 2^n e^r, with |r| at most log(2) / 2. log 2 is the sum of two numbers, of
# which the first has few bits, so that n times it is exact.
LOG2_E, LOG_2, REST = f4(1.44269504), f4(0.693359375), f4(-2.12194440e-4)
LEAST = f4(-87)  # exp of less is zero
E2, E3, E4, E5, E6 = (f4(1 / math.factorial(k)) for k in range(2, 7))


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
    r = x - f4(n) * LOG_2 - f4(n) * REST
    y = ONE + r * (ONE + r * (E2 + r * (E3 + r * (E4 + r * (E5 + r * E6)))))
    power = np.int32((n + np.int32(127)) << np.int32(23)).view(f4)  # 2^n
    return ZERO if x < LEAST else y * power


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


@part
def add_up(x, residual, r, z):
    row = x[r]
    for k in range(len(z)):
        z[k] = row[k]
    if residual.size:
        row = residual[r]
        for k in range(len(z)):
            z[k] += row[k]


@kernel(SEEN[2], SEEN[2], SEEN[1], SEEN[1], OWN[2], OWN[2], float32)
def norm(x, residual, gain, offset, y, stats, epsilon):
    """y = (z - mean z) / sqrt(var z + epsilon) * gain + offset, z = x + residual."""
    width = f4(x.shape[1])
    for r in range(x.shape[0]):
        z = y[r]
        add_up(x, residual, r, z)
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
        stats[r, 0], stats[r, 1] = mean, scale


@kernel(SEEN[2], SEEN[2], SEEN[2], SEEN[1], SEEN[2], OWN[2], OWN[2])
def norm_backward(g, x, residual, gain, stats, gx, sums):
    """gx = scale * (h - mean h - n * mean(h n)), h = g * gain, n the normed row.

    sums: the gradients of gain and offset.
    """
    width = f4(x.shape[1])
    of_gain, of_offset = sums[0], sums[1]
    sums[:] = ZERO
    for r in range(x.shape[0]):
        n, row, mean, scale = gx[r], g[r], stats[r, 0], stats[r, 1]
        add_up(x, residual, r, n)
        first, ahead, along = n[0], ZERO, ZERO
        for k in range(len(n)):
            n[k] = (n[k] - first - mean) * scale
        for k in range(len(n)):
            ahead += row[k] * gain[k]
            along += row[k] * gain[k] * n[k]
        ahead, along = ahead / width, along / width
        for k in range(len(n)):
            of_gain[k] += row[k] * n[k]
            of_offset[k] += row[k]
        for k in range(len(n)):
            n[k] = scale * (row[k] * gain[k] - ahead - n[k] * along)


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


@part
def gate(z, x, bias):
    for k in range(len(z)):
        z[k] = sigmoid(z[k] + x[k] + bias)


@kernel(SEEN[3], OWN[3], OWN[3], SEEN[3], OWN[3], float32, float32)
def gates(from_input, z, c, memory, new, input_bias, forget_bias):
    """new = i * tanh(c) + f * memory; z becomes the gates i|f, c its tanh."""
    width = c.shape[2]
    for b in range(c.shape[0]):
        x = from_input[b, 0]
        for n in range(c.shape[1]):
            i, f, s = z[b, n, :width], z[b, n, width:], c[b, n]
            m, out = memory[b, n], new[b, n]
            gate(i, x[:width], input_bias)
            gate(f, x[width:], forget_bias)
            for k in range(width):
                s[k] = tanh(s[k])
            for k in range(width):
                out[k] = i[k] * s[k] + f[k] * m[k]


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


@kernel(OWN[2], SEEN[1], Array(int64, 1, "C"), int64, OWN[1], OWN[1], OWN[1])
def softmax_tile(e, bias, targets, start, chosen, top, total):
    """Logits of the words from `start` on become exp(logit + bias - top).

    top and total grow; chosen gets the logits of the targets among these words.
    """
    for r in range(e.shape[0]):
        row, most, sum = e[r], top[r], ZERO
        if bias.size:
            for k in range(len(row)):
                row[k] += bias[k]
        if 0 <= targets[r] - start < len(row):
            chosen[r] = row[targets[r] - start]
        for k in range(len(row)):
            most = most if row[k] < most else row[k]
        for k in range(len(row)):
            row[k] = exp(row[k] - most)
        for k in range(len(row)):
            sum += row[k]
        total[r] = total[r] * exp(top[r] - most) + sum
        top[r] = most


@kernel(*(OWN[1], SEEN[1], OWN[1], OWN[1], *[float32] * 6))
def adam(data, g, m, v, keep_m, keep_v, take_m, take_v, rate, epsilon):
    """m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; data -= rate m / (sqrt v + e)."""
    for k in range(len(data)):
        m[k] = keep_m * m[k] + take_m * g[k]
        v[k] = keep_v * v[k] + take_v * g[k] * g[k]
        data[k] -= rate * m[k] / (np.sqrt(v[k]) + epsilon)
