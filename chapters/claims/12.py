"""Chapter 12: back through time. All of fresh weights, and of random gradients."""

import numpy as np
from register import Chapter, claim

from tinyrmc import PaperRelationalMemory, equations

chapter = Chapter("12", "step_vjp through_time in_windows states_of sizes_on WAYS")
B, N, F, T = 2, 4, 12, 40
DRAWS = range(12)
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
        n["through the candidate, bias 1"].low
        > 1.5  # of the same weights, with and without
        and n["through h alone, bias 1"].high < 1e-6
        and n["through h alone, bias 3"].high < 1e-6
        and sum(x > 1 for x in n["through the candidate, bias 3"]) == 11
        and sum(x < 1 for x in n["grows with bias 1"]) == 10
        and sum(x > 1 for x in n["grows with bias 3"]) == 9
    ),
    show=".0e",
)
def ways():
    """with a bias of 1 and $h$ shut, {through the candidate, bias 1.low:.0f} to
    {through the candidate, bias 1.high:.0f} times as much after 20 steps in twelve
    draws of weights; with a bias of 3, {through the candidate, bias 3.low:.1f} to
    {through the candidate, bias 3.high:.0f} times, less in one of them.

    With all ways open, 39 steps, from the first of forty to the last, shrink the
    gradient in ten of the twelve draws if the bias is 1, and let it grow in nine if it
    is 3: from {grows with bias 1.low:.3f} to
    {grows with bias 1.high:.0f} times, and from {grows with bias 3.low:.1f} to
    {grows with bias 3.high:.0f} times.
    """
    names = ("all ways", "not through h", "equation 7 alone", "through h alone")
    found = {}
    for seed in DRAWS:
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
            _, both, alone, _ = arrived
            more = both / alone
            found.setdefault(f"through the candidate, bias {bias}", []).append(more)
    return found


parts = Chapter("12", "through_time states_of step_vjp g_psi_vjp heads_vjp my vjps")


def one_step_back(x, m, h, g_m, p):
    """The gradient of the old m, and by what each part on its way multiplies it, where
    nothing comes through h.
    """
    both = parts.step_vjp(x, m, h, g_m, np.zeros_like(h), p, 1.0)[0]
    of_attention = p["W_q"], p["W_k"], p["W_v"]
    z = parts.my.multi_head_attention(np, m, x, *of_attention)
    (W1, b1), (W2, b2) = p["mlp"]
    inside = np.maximum(z @ W1 + b1, 0) @ W2 + b2 + z
    i = parts.my.gate(np, x, h, p["W_i"], p["U_i"], p["b_i"])
    written = equations.sigmoid(np, i) * g_m
    normed = parts.vjps.layer_norm_gradient(written, inside, p["gain"], 1e-5)
    encoded = parts.g_psi_vjp(written, z, p["mlp"], p["gain"], p["offset"])
    attended = parts.heads_vjp(encoded, m, x, *of_attention)
    size = np.linalg.norm
    return both, {
        "input gate": size(written) / size(g_m),
        "norm": size(normed) / size(written),
        "MLP": size(encoded) / size(normed),
        "attention": size(attended) / size(encoded),
        "through the candidate": size(attended) / size(g_m),
        "straight line": size(both - attended) / size(g_m),
        "both": size(both) / size(g_m),
    }


@claim(
    lambda n: (
        n["attention"].high < 1
        and sum(x < 1 for x in n["norm"]) == 8
        and n["through the candidate"].high < n["straight line"].low
        and all(a > b for a, b in zip(n["both"], n["straight line"], strict=True))
    ),
    show=".2f",
)
def factors():
    """| the input gate | {input gate:.2f} |
    | the norm | {norm:.2f} |
    | the MLP, with $z$ added | {MLP:.2f} |
    | attention | {attention:.2f} |
    | all of these, the way through the candidate | {through the candidate:.2f} |
    | the forget gate, the straight line | {straight line:.2f} |
    | both ways together | {both:.2f} |
    """
    found = {}
    for seed in DRAWS:
        weights, xs, m, g = drawn(seed)
        g[:-1] = 0
        p, steps = weights | {"forget_bias": 1.0}, []
        states = parts.states_of(xs, m, np.zeros_like(m), p)

        def one_way(x, m, h, g_m, g_h, p=p, steps=steps):
            if g_h.any():  # the loss is at the last h: this is the last step
                by_m, _, by_U = parts.step_vjp(x, m, h, g_m, g_h, p, 1.0)
                return by_m, 0 * h, by_U
            by_m, factors = one_step_back(x, m, h, g_m, p)
            steps.append(factors)
            return by_m, 0 * h, 0.0

        parts.through_time(one_way, xs, states, g)
        for name in steps[0]:
            mean = np.exp(np.mean([np.log(step[name]) for step in steps[:19]]))
            found.setdefault(name, []).append(mean)
    return found


@claim(
    lambda n: (
        n["windows of 10 steps"].high < 0.9
        and n["windows of 20 steps"].low < 0.9 < n["windows of 20 steps"].high
    )
)
def windows():
    """In twelve others, windows of 10 steps have a cosine of {windows of 10 steps:.2f},
    windows of 20 one of {windows of 20 steps:.2f}.
    """
    found = {f"windows of {length} steps": [] for length in LENGTHS}
    for seed in DRAWS:
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
