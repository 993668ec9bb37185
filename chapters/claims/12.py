"""Chapter 12: back through time. All of fresh weights, and of random gradients."""

import numpy as np
from register import Chapter, claim

from tinyrmc import PaperRelationalMemory

chapter = Chapter("12", "step_vjp through_time in_windows states_of sizes_on WAYS")
B, N, F, T = 2, 4, 12, 40
SEEDS, MORE = range(3), range(12)
LENGTHS = (1, 2, 5, 10, 20, 40)


def drawn(seed):
    """Fresh weights by name, inputs, a first memory and gradients for every step."""
    core = PaperRelationalMemory(F, N, F // 2, 2, dtype=np.float64, seed=seed)
    named = core.equation_parameters().items()
    weights = {name: getattr(value, "data", value) for name, value in named}
    weights["mlp"] = [(weight.data, bias.data) for weight, bias in weights["mlp"]]
    rng = np.random.default_rng([12, seed])
    xs, g = rng.normal(size=(T, B, F)), rng.normal(size=(T, B, N, F))
    return weights, xs, core.initial_state(B)[0], g


@claim(
    lambda n: (
        n["through attention, bias 1"].low
        > 1.5  # of the same weights, with and without
        and n["through h alone, bias 1"].high < 1e-6
        and n["through h alone, bias 3"].high < 1e-6
        and sum(x > 1 for x in n["through attention, bias 3"]) == 11
        and sum(x < 1 for x in n["grows with bias 1"]) == 10
        and sum(x > 1 for x in n["grows with bias 3"]) == 9
    ),
    show=".0e",
)
def ways():
    """with a bias of 1 and $h$ shut, {through attention, bias 1.low:.0f} to
    {through attention, bias 1.high:.0f} times as much after 20 steps in twelve draws of
    weights; with a bias of 3, {through attention, bias 3.low:.1f} to
    {through attention, bias 3.high:.0f} times, less in one of them.

    With all ways open, 40 steps shrink the gradient in ten of the twelve draws if the
    bias is 1, and let it grow in nine if it is 3: from {grows with bias 1.low:.3f} to
    {grows with bias 1.high:.0f} times, and from {grows with bias 3.low:.1f} to
    {grows with bias 3.high:.0f} times.
    """
    names = ("all ways", "not through h", "equation 7 alone", "through h alone")
    found = {}
    for seed in MORE:
        weights, xs, m, g = drawn(seed)
        g[:-1] = 0
        for bias in (1, 3):
            named = weights | {"forget_bias": float(bias)}
            states = chapter.states_of(xs, m, np.zeros_like(m), named)
            for name, ways in zip(names, chapter.WAYS.values(), strict=True):
                sizes = chapter.sizes_on(ways, xs, states, g, named)
                found.setdefault(f"{name}, bias {bias}", []).append(sizes[19])
                if name == "all ways":
                    grown = sizes[-1] / sizes[0]
                    found.setdefault(f"grows with bias {bias}", []).append(grown)
            arrived = (found[f"{name}, bias {bias}"][-1] for name in names)
            _, attended, alone, _ = arrived
            more = attended / alone
            found.setdefault(f"through attention, bias {bias}", []).append(more)
    return found


@claim(
    lambda n: (
        n["windows of 10 steps"].high < 0.9
        and n["windows of 1 steps"].high < n["windows of 10 steps"].low
    )
)
def windows():
    """With three draws, windows of 10 steps have a cosine of {windows of 10 steps:.2f},
    windows of 20 one of {windows of 20 steps:.2f}.
    """
    found = {f"windows of {length} steps": [] for length in LENGTHS}
    for seed in SEEDS:
        weights, xs, m, g = drawn(seed)
        states = chapter.states_of(xs, m, np.zeros_like(m), weights)

        def backwards(*case, weights=weights):
            return chapter.step_vjp(*case, weights, 1.0)

        *_, whole = chapter.through_time(backwards, xs, states, g)
        for length in LENGTHS:
            cut = chapter.in_windows(backwards, xs, states, g, length)
            sizes = np.linalg.norm(cut) * np.linalg.norm(whole)
            found[f"windows of {length} steps"].append((cut * whole).sum() / sizes)
    return found
