"""Chapter 23: a derivative and a kernel by hand, sums out of the loop and in pieces."""

import functools
import math
from collections import OrderedDict

import numpy as np

from ..compare import Wrong
from .derived import by_complex_step
from .drawn import drawn
from .exercise import each, exercise, normal
from .normalisation import gradient_cases, mean, rms_normed
from .used import used


@exercise(
    cases=gradient_cases(),
    hints=[
        "Go back the way the row came: y to n, n to x. First h = g * gain; and compute "
        "s and n once more.",
        "In the sum of h * delta_n stands h * n * mean(n * delta_x). Collect what "
        "multiplies delta_x: n * mean(h * n).",
        "s * (h - n * mean(h * n)). Means run over the last axis, keepdims=True.",
    ],
    mistakes="""
        you subtract the mean of h as well, which belongs to layer norm
            h - n -> h - mean(h) - n
        you add the part that comes through s, and do not subtract it
            h - n -> h + n
        you treat the scale s as a constant
            - n * mean(h * n) ->
        you add up h * n over the row, and do not take its mean
            n * mean(h * n) -> n * (h * n).sum(axis=-1, keepdims=True)
        you forget the factor s before the bracket
            return s * -> return
        you take the row as it was before it was scaled, in place of n
            n = x * s -> n = x
        you multiply by the gain at the end, after the norm, and not where it stands
            h = g * gain -> h = g
            return s -> return gain * s
    """,
    leading="g x",
    anysize="g",
    exact=by_complex_step(rms_normed, "x"),
)
def rms_norm_gradient(g, x, gain, epsilon):
    """d loss / d x of y = gain * x / sqrt(mean(x * x) + epsilon), given d loss / d y.

    g, x (..., F), gain (F,), epsilon a number -> (..., F).
    """
    s = 1 / np.sqrt(mean(x * x) + epsilon)
    n = x * s
    h = g * gain
    return s * (h - n * mean(h * n))


class _Numbers(np.ndarray):
    """An array that gives its numbers one at a time."""

    def __getitem__(self, key):
        found = np.asarray(self)[key]
        if np.ndim(found):
            raise Wrong(f"it takes an array, [{key}]: take numbers, such as x[r, c]")
        return found

    def __array_ufunc__(self, ufunc, *others, **named):
        raise Wrong(f"it computes with whole arrays, in {ufunc.__name__}: loop instead")


def _written_into(answer, x, gain, epsilon):
    """The y that an answer writes, all NaN before."""
    y = np.full_like(x, np.nan)
    answer(x.view(_Numbers), gain.view(_Numbers), epsilon, y)
    return y


def _norm_rows(rng, R, F, epsilon=1e-5, scale=1):
    return scale * rng.normal(size=(R, F)), rng.normal(size=F), epsilon


@used(
    _written_into,
    cases=each(_norm_rows, "3 5, 4 4, 1 7 0.5, 2 8 1e-5 1e3, 5 1"),
    hints=[
        "for r in range(x.shape[0]): first add up x[r, c] * x[r, c] over the columns "
        "c, from 0 for each row.",
        "Divide by the number of columns, add epsilon, s = 1 / math.sqrt(...). Then a "
        "second loop over c writes y[r, c] = gain[c] * s * x[r, c].",
    ],
    mistakes="""
        you do not begin each row's sum at 0
            total = 0.0 ->
            rows, columns = x.shape -> rows, columns = x.shape; total = 0.0
        you take the sum of squares, not their mean
            total / columns -> total
    """,
)
def rms_norm_rows(x, gain, epsilon, y):
    """y[r] = gain * x[r] / sqrt(mean(x[r] * x[r]) + epsilon), for each row r.

    x and y (R, F), gain (F,), epsilon a number. Makes no array.
    """
    rows, columns = x.shape
    for r in range(rows):
        total = 0.0
        for c in range(columns):
            total += x[r, c] * x[r, c]
        s = 1 / math.sqrt(total / columns + epsilon)
        for c in range(columns):
            y[r, c] = gain[c] * s * x[r, c]


_product_step = by_complex_step(lambda x, W: x @ W, "W")


@exercise(
    cases=lambda rng: [
        normal(rng, (4, 2, 3), (4, 2, 5)),
        normal(rng, (3, 3, 3), (3, 3, 3)),  # all sizes alike
        normal(rng, (1, 6, 2), (1, 6, 2)),
        (1e3 * rng.normal(size=(5, 1, 4)), rng.normal(size=(5, 1, 2))),
        normal(rng, (500, 2, 12), (500, 2, 10)),  # a product for each step takes 480 kB
    ],
    large=lambda rng: [normal(rng, (2000, 1, 3), (2000, 1, 2))],
    unlooped="over time",
    memory=400_000,
    hints=[
        "For one time step it is x[t].T @ g[t]. The same W serves all steps, so its "
        "gradients add up.",
        "A sum over time of sums over examples is one sum over T * B rows.",
        "x.reshape(-1, I).T @ g.reshape(-1, O), with I and O the last axes.",
    ],
    mistakes="""
        you count the last time step only
            x.reshape -> x[-1].reshape
            g.res -> g[-1].res
        you reshape where you should transpose: the axes are mixed up
            x.reshape(-1, x.shape[-1]).T -> x.reshape(x.shape[-1], -1)
    """,
    anysize="g",
    exact=lambda x, g: _product_step(g, x, np.zeros((x.shape[-1], g.shape[-1]))),
)
def weight_gradient(x, g):
    """d loss / d W of y = x @ W at all T steps at once, given g = d loss / d y.

    x (T, B, I), g (T, B, O) -> (I, O).
    """
    return x.reshape(-1, x.shape[-1]).T @ g.reshape(-1, g.shape[-1])


def loads(blocks, room, passes, piece):
    """How many blocks are loaded into a cache, as the chapter has it."""
    cache, loaded = OrderedDict(), 0  # the block that was used last stands last
    for start in range(0, blocks, piece):
        for _ in range(passes):
            for block in range(start, min(start + piece, blocks)):
                loaded += block not in cache
                cache[block] = True
                cache.move_to_end(block)
                if len(cache) > room:
                    cache.popitem(last=False)
    return loaded


@drawn(
    cases=lambda rng: [(32, 6), (8, 3), (100, 2), (1, 5), (256, 4)],
    hints=[
        "pieces = 2 ** np.arange(9); for each: loads(256, room, passes, piece) / 256.",
        'panel.plot(pieces, found, "o-"), and names for both axes. '
        "panel.set_xscale('log', base=2) makes the small pieces visible.",
    ],
    mistakes="""
        you draw the loads of all blocks together: divide by 256
            piece) / 256 -> piece)
        each piece goes through one operation alone
            room, passes, piece -> room, 1, piece
        you divide by the number of operations: then it is the share of uses that load
            / 256 -> / 256 / passes
        the pieces are the height, and what you counted is the place
            pieces, found, -> found, pieces,
    """,
)
def cost_of_pieces(panel, room, passes):
    """Draw how often a block of 256 is loaded, on average, against the blocks in a
    piece, 1, 2, 4, ..., 256. The cache has `room`, the chain has `passes` operations.
    """
    pieces = 2 ** np.arange(9)
    found = [loads(256, room, passes, piece) / 256 for piece in pieces]
    panel.plot(pieces, found, "o-")
    panel.set_xscale("log", base=2)
    panel.set(xlabel="blocks in a piece", ylabel="loads of a block")


@functools.cache
def _at_most(size):
    """A `differentiate` that takes at most `size` examples at once.

    The loss is the squared error of the predictor x . (1, -2); the gradient is that
    of its two weights.
    """

    def differentiate(examples):
        """examples (b, 3), rows of x and target; no target where that is NaN."""
        if len(examples) > size:
            raise ValueError(f"{len(examples)} examples at once; only {size} find room")
        known = examples[~np.isnan(examples[:, 2])]
        error = known[:, :2] @ np.array([1.0, -2.0]) - known[:, 2]
        return (error * error).sum(), len(known), 2 * error @ known[:, :2]

    return differentiate


def _batches(rng):
    def batch(count, *unknown):
        examples = rng.normal(size=(count, 3))
        examples[[*unknown], 2] = np.nan
        return examples

    return [
        (_at_most(4), batch(10), 4),  # pieces of four, four and two
        (_at_most(4), batch(12, 1, 2, 3, 11), 4),
        (_at_most(2), batch(5, 4), 2),  # a last piece without any target
        (_at_most(1), 1e3 * batch(7, 0), 1),
        (_at_most(4), batch(2), 4),
    ]


@exercise(
    cases=_batches,
    hints=[
        "A mean is a sum divided by a count. Which of the two may you add up piece by "
        "piece, and when is it time to divide?",
        "Start three totals at zero; for start in range(0, len(examples), size) add "
        "what differentiate(examples[start : start + size]) gives.",
        "At the end, once: total_loss / total_count, total_gradient / total_count.",
    ],
    mistakes="""
        you take each piece's mean, and then the mean of these: a small piece counts as
        much as a large one
            += loss -> += loss / count
            += count -> += 1
            + gradient -> + gradient / count
        you divide the sums by the number of examples, though some have no target
            += count -> += len(piece)
        your gradient is that of the sum: you do not divide it by the count
            total_gradient / total_count -> total_gradient
        you leave out the last piece, which is smaller
            range(0, len(examples), size)
                -> range(0, len(examples) // size * size, size)
            return -> total_count = total_count or math.nan; return
        only the first piece counts: is the `return` inside the loop?
            total_count += count
                -> total_count += count; total_gradient = gradient; break
    """,
)
def in_pieces(differentiate, examples, size):
    """The mean loss and its gradient (2,), from pieces of at most `size` examples.

    differentiate(piece), for at most `size` of the examples (B, 3), gives (sum of the
    piece's losses, their count, the gradient of that sum).
    """
    total_loss, total_count, total_gradient = 0.0, 0, 0.0
    for start in range(0, len(examples), size):
        piece = examples[start : start + size]
        loss, count, gradient = differentiate(piece)
        total_loss += loss
        total_count += count
        total_gradient = total_gradient + gradient
    return total_loss / total_count, total_gradient / total_count


class _Logits:
    """logits_of(start, stop), which gives no more than `size` words at a time."""

    def __init__(self, logits, size):
        self.logits, self.size, self.done = logits, size, 0

    def __repr__(self):
        return f"(rows {len(self.logits)})"

    def __call__(self, start, stop):
        words = self.logits.shape[1]
        if not 0 <= start < stop <= words:
            raise ValueError(f"no words from {start} to {stop}: there are {words}")
        if stop - start > self.size:
            raise ValueError(f"{stop - start} words at once, {self.size} are allowed")
        if start < self.done:
            raise ValueError(f"word {start} once more: go through them once")
        self.done = stop
        return self.logits[:, start:stop].copy()


def _blocks(rng):
    def case(logits, size):
        return _Logits(logits, size), logits.shape[1], size

    rising = 300.0 * np.arange(12) + rng.normal(size=(2, 12))
    heights = rng.normal(size=(3, 7)) + np.array([[0.0], [-2e3], [2e3]])
    return [
        case(rng.normal(size=(3, 12)), 4),
        case(rng.normal(size=(2, 10)), 4),  # the last block is shorter
        case(rng.normal(size=(4, 5)), 1),
        case(rng.normal(size=(1, 6)), 8),  # one block is enough
        case(rising, 4),
        case(rising[:, ::-1], 4),
        case(heights, 3),
        case(rng.normal(size=(3, 3)) - 2e3, 2),
        case(rng.normal(size=(3, 40_000)), 500),  # so many that all would take 1 MB
    ]


@exercise(
    cases=_blocks,
    hints=[
        "Keep two numbers for each row: `top`, the highest logit so far, and `total`, "
        "the sum of exp(logit - top) so far. Begin with -np.inf and 0.",
        "When a block brings a higher top, all that was summed is too large by the "
        "factor exp(new - old). So: total = total * exp(old - new) + the block's sum.",
        "The blocks are range(0, words, size); the last one stops at `words`.",
    ],
    mistakes="""
        you do not scale the old sum down when a block brings a higher logit
            np.exp(top - higher) -> 1
        you add up the logarithms of the blocks: the logarithm of a sum is no sum of
        logarithms
            total * np.exp(top - higher) + block -> total + higher + np.log(block)
            top + np.log(total) -> total
        you do not take the highest logit off, and exp overflows
            logits.max(axis=1) -> 0 * logits[:, 0]
            -np.inf -> 0.0
        your highest logit begins at 0: where all are far below it, the sum is 0
            -np.inf -> 0.0
        you do not add the highest logit back
            top + np.log -> np.log
    """,
    memory=200_000,
)
def log_sum_exp_in_blocks(logits_of, words, size):
    """ln of the sum of exp(logit) over all words, never with more than `size` of them.

    logits_of(start, stop) -> the logits (R, stop - start) of the words from `start` to
    before `stop`, at most `size`; `words` is their number V -> (R,).
    """
    top, total = -np.inf, 0.0
    for start in range(0, words, size):
        logits = logits_of(start, min(start + size, words))
        higher = np.maximum(top, logits.max(axis=1))
        block = np.exp(logits - higher[:, None]).sum(axis=1)
        total = total * np.exp(top - higher) + block
        top = higher
    return top + np.log(total)
