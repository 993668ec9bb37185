"""Operations of a linear recurrence: its scan over time, a chunk's own equations."""

from ..autograd import primitives as p
from ..backend import gemm
from .table import fused


@fused("T R", "T R", "R")
def linear_scan(xp, a, b, first):
    """h_t = a_t h_{t-1} + b_t for all T steps, number by number: (T, R).

    a, b (T, R), and `first` (R) is what h is before the first step. This is one entry
    on the tape, where the steps would be 2 T.
    """
    kind = xp.result_type(a, b, first)
    h = xp.empty(b.shape, kind)
    before = first
    for t in range(len(b)):
        before = xp.multiply(a[t], before, out=h[t])
        before += b[t]
    return h, (a, h, first)


@linear_scan.vjp
def linear_scan_vjp(xp, needs, g, a, h, first):
    total = xp.array(g)  # of h_t: its own, and what comes back from h_{t+1}
    for t in reversed(range(len(g) - 1)):
        total[t] += a[t + 1] * total[t + 1]
    ga = xp.empty_like(total) if needs[0] else None
    if ga is not None:
        xp.multiply(total[0], first, out=ga[0])
        xp.multiply(total[1:], h[:-1], out=ga[1:])
    return ga, total, total[0] * a[0] if needs[2] else None


@linear_scan.defined_by
def linear_scan_definition(a, b, first):
    steps = []
    for decay, new in zip(p.unstack(a), p.unstack(b), strict=True):
        first = decay * first + new
        steps.append(first)
    return p.stack(steps)


@fused("... C C", "... C D")
def solve_lower(xp, lower, right):
    """x with (I + L) x = right, for the part L of `lower` strictly below its diagonal.

    lower (..., C, C), right (..., C, D) -> (..., C, D). Row by row, each from those
    above it: C small products, for all leading axes at once. The inverse as a product
    of powers of L would take log C of them, and lose its digits where rows are alike.
    """
    x = xp.array(right, xp.result_type(lower, right))
    for row in range(1, x.shape[-2]):
        above = gemm(lower[..., row, None, :row], x[..., :row, :])
        x[..., row, :] -= above[..., 0, :]
    return x, (lower, x)


@solve_lower.vjp
def solve_lower_vjp(xp, needs, g, lower, x):
    # The same with L transposed, so from the last row on; and L gets -g x^T.
    back = xp.array(g)
    rows = g.shape[-2]
    for row in reversed(range(rows - 1)):
        below = gemm(lower[..., row + 1 :, row][..., None, :], back[..., row + 1 :, :])
        back[..., row, :] -= below[..., 0, :]
    if not needs[0]:
        return None, back
    return -xp.tril(gemm(back, xp.swapaxes(x, -1, -2)), -1), back


@solve_lower.defined_by
def solve_lower_definition(lower, right):
    rows = [right[..., :1, :]]
    for row in range(1, right.shape[-2]):
        above = lower[..., row : row + 1, :row] @ p.concatenate(rows, axis=-2)
        rows.append(right[..., row : row + 1, :] - above)
    return p.concatenate(rows, axis=-2)
