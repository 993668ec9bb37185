"""The losses by which a network is judged, computed from its logits."""

import math

import numpy as np

from ..autograd import primitives as p
from ..backend import add_rows, as_rows, gemm, namespace, row_dots
from .bodies import running
from .table import fused, plus


@fused(
    "... C",
    "...",
    indices={1: "C"},
    hint="targets are integers from 0 to C - 1, one for each row of logits; leave "
    "padding out with a weight of zero",
)
def softmax_cross_entropy(xp, logits, targets):
    """-log softmax(logits)[target] in nats, one value a row.

    logits (..., C), integer targets (...) -> (...). It takes logits: a softmax before
    this one would flatten the gradients. A target out of range is an error on NumPy. On
    a GPU, looking would make the host wait. There the kernel gives the row a loss and a
    gradient of NaN, and an optimizer refuses the step; this array body wraps the target
    silently.
    """
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    chosen = xp.take_along_axis(shifted, targets[..., None], axis=-1)[..., 0]
    prob = xp.exp(shifted)
    total = xp.sum(prob, axis=-1)
    prob /= total[..., None]
    return xp.log(total) - chosen, (prob, targets)


@softmax_cross_entropy.vjp
def softmax_cross_entropy_vjp(xp, needs, g, prob, targets):
    hot = targets[..., None] == xp.arange(prob.shape[-1])
    return (prob - hot) * g[..., None], None


@softmax_cross_entropy.defined_by
def softmax_cross_entropy_definition(logits, targets):
    shifted = logits - p.max(logits, axis=-1, keepdims=True)
    xp = namespace(shifted.data)
    hot = targets[..., None] == xp.arange(logits.shape[-1])
    chosen = p.sum(p.where(hot, shifted, 0.0), axis=-1)  # others may be -inf
    return p.log(p.sum(p.exp(shifted), axis=-1)) - chosen


# The rows and words of a tile of logits. The tiles kept until backward may take 64 MiB
# (in float32), or seven tenths of what the weight takes, if that is more.
_TILE = 1024
_KEPT = 1 << 24
_KEPT_OF_WEIGHT = 0.7


@fused(
    *("... d", "V d", "...", "V"),
    indices={2: "V"},
    hint="targets are integers from 0 to V - 1, one for each row of x; leave padding "
    "out with a weight of zero",
)
def linear_cross_entropy(xp, x, weight, targets, bias=None, *, block=_TILE, keep=None):
    """-log softmax(x weight^T + bias)[target] in nats, one value a row.

    x (..., d), weight (V, d), integer targets (...), bias (V,) or None -> (...). The
    weight is laid out like an embedding's, one row a word, so that one array can be
    both: then the weights are tied.

    The logits are made in tiles of `block` rows and words, so memory does not grow with
    rows x words. The first tiles are kept until backward, at most `keep` numbers: by
    default 64 MiB of them in float32, or 0.7 of what the weight takes, whichever is
    more. The other tiles are made again, and cost four matrix products in place of
    three. So a piece of up to 0.7 d rows, whatever V is, takes the time of the plain
    algorithm.

    A target out of range is an error on NumPy. On a GPU, where looking would make the
    host wait, the row's loss is NaN, and an optimizer refuses the step.
    """
    own = targets.reshape(-1).astype(np.intp)
    rows = as_rows(x)  # (R, d)
    if keep is None:
        keep = max(_KEPT, int(_KEPT_OF_WEIGHT * weight.size))
    parts = []
    for r in _tiles(len(rows), block):
        room = keep - r.start * len(weight)
        parts.append(_row_losses(xp, rows[r], weight, own[r], bias, block, room))
    *of_rows, kept = zip(*parts, strict=True)
    losses, top, total = map(xp.concatenate, of_rows)
    saved = x, weight, own, bias, top, total, [*kept], block
    return losses.reshape(targets.shape), saved


@linear_cross_entropy.vjp_in_place
def linear_cross_entropy_vjp(
    xp, needs, g, x, weight, targets, bias, top, total, kept, block
):
    # The gradient of the logits is g exp(logits - top) / total, and -g more at the
    # target. Rows are scaled after a product or before it, rather than whole tiles.
    gx, gweight, _, gbias = needs
    rows, g = as_rows(x), g.reshape(-1)
    products = []
    for r, tiles in zip(_tiles(len(rows), block), kept, strict=True):
        product = xp.take(weight, targets[r], axis=0) * -g[r, None]
        scale = g[r] / total[r]
        for k, w in enumerate(_tiles(len(weight), block)):
            if k < len(tiles):
                e, top_then = tiles[k]
                share = scale * xp.exp(top_then - top[r])
            else:
                e = _logits(xp, rows[r], weight, bias, w)
                share = scale
                e -= top[r, None]
                e = xp.exp(e, out=e)
            if gx is not None:
                product = product + gemm(e, weight[w]) * share[:, None]
            if gweight is not None:
                gweight[w] += gemm(e.T, rows[r] * share[:, None])
            if gbias is not None:
                gbias[w] += gemm(share, e)
        products.append(product)
    if gx is not None:
        gx += xp.concatenate(products).reshape(x.shape)
    if gweight is not None:
        add_rows(gweight, targets, rows * -g[:, None])
    if gbias is not None:
        add_rows(gbias[:, None], targets, -g[:, None])


@linear_cross_entropy.defined_by
def linear_cross_entropy_definition(
    x, weight, targets, bias=None, block=None, keep=None
):
    logits = p.matmul(x, p.transpose(weight))
    logits = logits if bias is None else logits + bias
    return softmax_cross_entropy_definition(logits, targets)


def _row_losses(xp, x, weight, targets, bias, block, room):
    """(losses, highest logit, sum of exp(logit - highest), kept tiles) of some rows.

    Tile after tile: where a higher logit comes, the sum so far is scaled down. A tile
    is kept as exp(logit - highest so far), together with that highest logit; the kept
    tiles have at most `room` numbers in all.
    """
    # Not -inf: where biases of -inf forbid the first tile, -inf - -inf would be NaN.
    top = float(np.finfo(x.dtype).min)
    total = 0.0
    chosen = math.nan
    kept = []
    bodies = running(x, weight, bias)
    if bodies:
        top, total, chosen = (np.full(len(x), n, x.dtype) for n in (top, total, chosen))
    for w in _tiles(len(weight), block):
        e = _logits(xp, x, weight, None if bodies else bias, w)
        if bodies:
            shift = bodies.NOTHING[1] if bias is None else bias[w]
            shift = np.ascontiguousarray(shift)
            bodies.softmax_tile(e, shift, targets, w.start, chosen, top, total)
        else:
            inside = (targets >= w.start) & (targets < w.stop)
            column = xp.where(inside, targets - w.start, 0)
            own = xp.take_along_axis(e, column[:, None], axis=-1)[:, 0]
            chosen = xp.where(inside, own, chosen)
            highest = xp.maximum(xp.max(e, axis=-1), top)
            e -= highest[:, None]
            e = xp.exp(e, out=e)
            total = total * xp.exp(top - highest) + xp.sum(e, axis=-1)
            top = highest
        room -= e.size
        if room >= 0:
            kept.append((e, top.copy()))  # the kernel writes over its own
    return xp.log(total) - (chosen - top), top, total, kept


def _tiles(length, block):
    """Slices of `block`, the last one shorter. There is always one."""
    return [slice(k, min(k + block, length)) for k in range(0, max(length, 1), block)]


def _logits(xp, x, weight, bias, words):
    """The logits of some rows for the slice `words`."""
    logits = gemm(x, weight[words].T)
    return logits if bias is None else plus(xp, logits, bias[words])


@fused(
    "... A",
    "...",
    indices={1: "A"},
    hint="actions are integers from 0 to A - 1, one for each row of logits",
)
def categorical(xp, logits, actions):
    """log pi(action) and the entropy of pi = softmax(logits), in nats, of each row.

    logits (..., A), integer actions (...) -> two of shape (...). The policy gradient is
    the gradient of sum(log pi(a) * advantage). A logit of -inf forbids an action. An
    action out of range is an error on NumPy; on a GPU, where looking would make the
    host wait, it wraps.
    """
    logs = logits - xp.max(logits, axis=-1, keepdims=True)
    prob = xp.exp(logs)
    total = xp.sum(prob, axis=-1, keepdims=True)
    prob /= total
    logs -= xp.log(total)
    finite = xp.where(prob > 0, logs, xp.zeros((), logs.dtype))  # 0 log 0 is 0
    entropy = -row_dots(prob, finite)
    chosen = xp.take_along_axis(logs, actions[..., None], axis=-1)[..., 0]
    return (chosen, entropy), (prob, finite, entropy, actions)


@categorical.vjp
def categorical_vjp(xp, needs, g, prob, logs, entropy, actions):
    # d log pi(a) / dz = [a] - pi,  d entropy / dz = -pi (log pi + entropy)
    gchosen, gentropy = (each[..., None] for each in g)
    hot = actions[..., None] == xp.arange(prob.shape[-1])
    glogits = (logs + entropy[..., None]) * gentropy
    glogits += gchosen
    glogits *= prob
    return gchosen * hot - glogits, None


@categorical.defined_by
def categorical_definition(logits, actions):
    shifted = logits - p.max(logits, axis=-1, keepdims=True)
    logs = shifted - p.log(p.sum(p.exp(shifted), axis=-1, keepdims=True))
    chosen = p.take_along_axis(logs, actions[..., None])[..., 0]
    prob = p.exp(logs)
    finite = p.where(prob.data.real > 0, logs, 0.0)  # 0 log 0 is 0
    return chosen, -p.sum(prob * finite, axis=-1)
