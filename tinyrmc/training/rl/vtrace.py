"""V-trace: what an actor's trajectory says about the value of a newer policy.

Espeholt et al. 2018 ("IMPALA"), section 4.1. An actor followed the policy mu for T
steps; meanwhile the learner's policy became pi. With rho_t = pi(a_t) / mu(a_t), which
two clips keep from growing large, each later surprise counts for as much as pi would
have met it:

    delta_t = min(rho_t, clip_rho) (r_t + g_t V_{t+1} - V_t)
    v_t - V_t = delta_t + g_t lambda min(rho_t, 1) (v_{t+1} - V_{t+1})
    advantage_t = min(rho_t, clip_pg_rho) (r_t + g_t q_{t+1} - V_t)
    with q_t = lambda v_t + (1 - lambda) V_t

where g_t is the discount, 0 where the episode ended at step t. With lambda = 1, the
paper's case, q is v. On policy (rho = 1) v is the T-step return for lambda = 1, and the
advantage is that of Schulman et al. 2016 (GAE) for any lambda.

`ActingTask.loss` is a loss made of these, with sums over time and batch.
"""

from __future__ import annotations

import math

from ...autograd.engine import Tensor
from ...backend import Array, namespace
from ...errors import check_number


def targets(
    log_rhos: Array | Tensor,
    discounts: Array,
    rewards: Array,
    values: Array | Tensor,
    bootstrap: Array | Tensor,
    clip_rho: float = 1.0,
    clip_pg_rho: float = 1.0,
    lambda_: float = 1.0,
) -> tuple[Array, Array]:
    """The targets v of the values, and the advantages of the actions: each (T, B).

    Arrays, not Tensors: no gradient flows through them. All arguments are time-major,
    of one dtype and one array library, and further axes after B are welcome. They stay
    as they are. Nothing waits for the device.

    Args:
        log_rhos: log pi(a_t) - log mu(a_t), (T, B); zeros where the policy that acted
            is the one that learns.
        discounts: g_t, (T, B): 0 where the episode ended with step t. If an episode was
            only cut off there, you may let it go on in thought: leave its discount at 0
            and add discount * V(its last observation) to the reward.
        rewards: r_t, (T, B), that of action a_t.
        values: V_t, (T, B), of what was seen before action a_t.
        bootstrap: V_T, (B,), of what was seen after the last action.
        clip_rho: bound on the ratio in delta; it decides which policy's values these
            are. math.inf: no bound.
        clip_pg_rho: bound on the ratio of the advantages.
        lambda_: from 0, one step ahead, to 1.

    ValueError names an argument of another shape or dtype, and a clip or lambda out of
    range.
    """
    log_rhos, discounts, rewards, values, bootstrap = _checked(
        log_rhos=log_rhos,
        discounts=discounts,
        rewards=rewards,
        values=values,
        bootstrap=bootstrap,
    )
    check_number("vtrace", "clip_rho", clip_rho, "(0, inf]")
    check_number("vtrace", "clip_pg_rho", clip_pg_rho, "(0, inf]")
    check_number("vtrace", "lambda_", lambda_, "[0, 1]")
    xp = namespace(values)
    # clipped before the exponential, which a rare action would let overflow
    highest = math.log(max(clip_rho, clip_pg_rho, 1.0))
    rhos = xp.exp(xp.minimum(log_rhos, highest))
    surprises = xp.empty_like(values)  # r_t + g_t V_{t+1} - V_t
    surprises[:-1], surprises[-1] = values[1:], bootstrap
    surprises *= discounts
    surprises += rewards
    surprises -= values
    ahead = discounts * lambda_
    through = ahead * xp.minimum(rhos, 1.0)
    further = xp.minimum(rhos, clip_rho) * surprises  # will be v - V
    for t in reversed(range(len(further) - 1)):
        further[t] += through[t] * further[t + 1]
    surprises[:-1] += ahead[:-1] * further[1:]
    surprises *= xp.minimum(rhos, clip_pg_rho)
    further += values
    return further, surprises


def _checked(**arguments: Array | Tensor) -> list[Array]:
    """The arrays in the arguments, or an error unless all fit the rewards."""
    arrays = {
        name: value.data if isinstance(value, Tensor) else value
        for name, value in arguments.items()
    }
    shape, dtype = arrays["rewards"].shape, arrays["rewards"].dtype
    if len(shape) < 2 or 0 in shape or dtype.kind != "f":
        wanted = "floating point, (T, B) with at least one step"
        raise ValueError(f"vtrace: rewards must be {wanted}, not {dtype}{[*shape]}")
    for name, array in arrays.items():
        wanted = f"{dtype}{[*(shape[1:] if name == 'bootstrap' else shape)]}"
        if (found := f"{array.dtype}{[*array.shape]}") != wanted:
            raise ValueError(f"vtrace: {name} must be {wanted}, not {found}")
    return list(arrays.values())
