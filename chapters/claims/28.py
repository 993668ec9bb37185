"""Chapter 28: after the RMC."""

import numpy as np
from register import Chapter, ahead, claim, even, rates, shared

from tinyrmc.course.exercises.after_the_rmc import store

chapter = Chapter("28", "trained right recalled rewritten farthest RATE")
SEEDS = range(3)


def networks(kind, draw, steps, rate=None):
    """Three of them, trained."""
    rate = rate or chapter.RATE
    return [chapter.trained(kind, draw, steps, rate, seed)[0] for seed in SEEDS]


def scores(trained, new):
    return [chapter.right(network, *new) for network in trained]


def at_three_rates(kind, draw, steps, new):
    """Of three seeds each: {"RMC at 0.001": [...], ...}."""
    return {
        f"{kind}, rate {1e3 * rate:.0f}e-3": scores(
            networks(kind, draw, steps, rate), new
        )
        for rate in rates(chapter.RATE)
    }


def unseen(draw, steps, count=2000):
    """New examples without those that a training has shown, and how many those were."""
    inputs, targets = draw(np.random.default_rng(2026), count)
    rngs = (np.random.default_rng([seed, t]) for seed in SEEDS for t in range(steps))
    seen = np.concatenate([draw(rng, 64)[0] for rng in rngs])
    known = {each.tobytes() for each in seen}
    fresh = np.array([each.tobytes() not in known for each in inputs])
    new = inputs[fresh], targets[fresh]
    assert not shared(seen, new[0])
    return new, np.sum(~fresh)


@claim(
    lambda n: (
        abs(n["last value, recall"].mean - 1 / 4) < 0.01
        and abs(n["last value, rewrites"].mean - 0.44) < 0.01
        and abs(n["ranked by size"].mean - 0.78) < 0.01
        and abs(n["order"].mean - 8 / 9) < 0.005
        and abs(n["order and sign"].mean - 17 / 18) < 0.005
    ),
    show=".3g",
)
def floors():
    """If you keep the last value alone, you are right one time in four.

    (If you keep the last value of all alone, you are right in
    {last value, rewrites:.0%}.)

    If you rank the numbers by their own size, and take no distance, you are right in
    {ranked by size:.0%}. If you know their order along the line, you know the answer
    unless $m$ is in the middle, where you guess: {order:.0%}. And with the sign of $m$
    as well you guess better there, for a number above 0 has more room below it:
    {order and sign:.0%}.
    """
    found = {"ranked by size": chapter.nth.own_norm_accuracy((3, 1))[0]}
    inputs, right = chapter.farthest(np.random.default_rng(2026), 20_000)
    labels, n, m = chapter.nth.decode(inputs, (3, 1))
    order, rows = np.argsort(inputs[..., 0], axis=1), np.arange(len(n))
    place = (labels[rows[:, None], order] == m[:, None]).argmax(
        axis=1
    )  # along the line
    up = {"order": 1, "order and sign": inputs[labels == m[:, None], 0] > 0}
    for name, above in up.items():
        near = np.where(place == 1, 1 + np.where(above, 1, -1), 1)
        far = np.where(place == 1, 2 - near, 2 - place)
        answer = np.where(n == 0, place, np.where(n == 1, near, far))
        found[name] = np.mean(labels[rows, order[rows, answer]] == right)
    for name, draw in (("recall", chapter.recalled), ("rewrites", chapter.rewritten)):
        inputs, targets = draw(np.random.default_rng(2026), 20_000)
        last = inputs[:, -2, -9:-1].argmax(axis=-1)  # eight values, then a mark
        found[f"last value, {name}"] = np.mean(last == targets)
    return found


@claim(
    lambda n: (
        n["delta"].low > 0.99
        and n["sum"].low > 0.99
        and n["delta, values exchanged"].high < 0.2
        and max(n[f"RMC, rate {rate}"].high for rate in ("1e-3", "3e-3", "9e-3")) < 0.3
    ),
    show=".3g",
)
def recalls():
    """After 600 steps the delta rule has {delta:.0%} of the new sequences right, and
    the sum {sum:.0%}. If the values are exchanged with those of other sequences, the
    delta rule has {delta, values exchanged:.0%} right, one in eight.

    In as many steps the RMC does not learn it: it has {RMC, rate 1e-3:.0%},
    {RMC, rate 3e-3:.0%} and {RMC, rate 9e-3:.0%} at the three rates, and one in four is
    what the last value alone gives.
    """
    new, known = unseen(chapter.recalled, 600)
    matrix = networks("delta", chapter.recalled, 600)
    exchanged = new[0].copy()
    exchanged[..., 8:16] = np.roll(new[0][..., 8:16], 1, axis=0)
    return {
        "seen before": known,
        "delta": scores(matrix, new),
        "delta, values exchanged": scores(matrix, (exchanged, new[1])),
        "sum": scores(networks("sum", chapter.recalled, 600), new),
        **at_three_rates("RMC", chapter.recalled, 600, new),
    }


@claim(lambda n: n["exchanged"].high < 0.2, show=".3g")
def reads_the_values():
    """The sum has {exchanged:.0%} then, too."""
    inputs, targets = chapter.recalled(np.random.default_rng(2026), 2000)
    inputs[..., 8:16] = np.roll(inputs[..., 8:16], 1, axis=0)
    sums = networks("sum", chapter.recalled, 600)
    return {"exchanged": scores(sums, (inputs, targets))}


def met(rng, count, apart=True):
    """Sequences in which no key comes with the value of its own number; or, if not
    `apart`, those that ask for such a pair.
    """
    found = []
    while sum(len(targets) for _, targets in found) < count:
        inputs, targets = chapter.recalled(rng, 2 * count)
        keys, values = inputs[..., :8].argmax(-1), inputs[..., 8:16].argmax(-1)
        alike = (keys == values)[:, :-1].any(axis=1)
        some = ~alike if apart else targets == keys[:, -1]
        found.append((inputs[some], targets[some]))
    inputs, targets = (
        np.concatenate(each)[:count] for each in zip(*found, strict=True)
    )
    return inputs, targets


@claim(
    lambda n: n["delta"].low > 0.9 and n["sum"].low > 0.75 and even(n, "delta", "sum"),
    show=".3g",
)
def binds():
    """Of new sequences that ask for such a pair, the delta rule has {delta:.0%} right,
    and the sum {sum:.0%}. They bind what never came together; three seeds cannot
    tell which of the two binds better.
    """
    together = met(np.random.default_rng(2026), 1000, apart=False)
    others = met(np.random.default_rng(2027), 1000)
    found = {}
    for kind in ("delta", "sum"):
        trained = networks(kind, met, 600)
        found[kind] = scores(trained, together)
        found[f"{kind}, other pairs"] = scores(trained, others)
    return found


@claim(
    lambda n: (
        n["delta"].low > 0.99
        and n["decay"].low > 0.95
        and max(n[f"sum, rate {rate}"].high for rate in ("1e-3", "3e-3", "9e-3")) < 0.48
        and min(n[f"sum, rate {rate}"].low for rate in ("1e-3", "3e-3", "9e-3")) > 0.43
        and n["RMC"].low > 0.5
        and ahead(n, "delta", "sum, rate 3e-3")
    ),
    show=".3g",
)
def replaces():
    """On rewrites the delta rule has {delta:.0%} right and the decay {decay:.0%}; the
    RMC, at this one rate, {RMC:.0%}. The sum has {sum, rate 1e-3:.0%},
    {sum, rate 3e-3:.0%} and {sum, rate 9e-3:.0%} at the three rates: what it can have
    at most.
    """
    new, known = unseen(chapter.rewritten, 600)
    found = {"seen before": known}
    for kind in ("delta", "decay", "RMC"):
        found[kind] = scores(networks(kind, chapter.rewritten, 600), new)
    return found | at_three_rates("sum", chapter.rewritten, 600, new)


order = Chapter("28", "trained right rewritten mixed of_the_key RATE")


@claim(
    lambda n: (
        abs(n["by chance"].mean - (1 - (2 / 3) ** 6) / 2) < 0.005
        and n["sum, changed"].high == 0
        and min(n["decay, changed"].low, n["delta, changed"].low) > 0.1
        and n["sum, of the key"].low > 0.995
        and abs(n["sum, loss"].mean - n["loss by chance"].mean) < 0.06
    ),
    show=".3g",
)
def knows_no_order():
    """On 20,000 sequences it is right, at the middle rate, in {sum, right:.1%}, with a
    loss of {sum, loss:.2f}; by chance you would be in {by chance:.1%}, with
    {loss by chance:.2f}. Of its answers {sum, of the key:.0%} are among the values that
    came with the key. None of them changes if the pairs are mixed up; of the decay's,
    {decay, changed:.0%} do, and of the delta rule's {delta, changed:.0%}.
    """
    inputs, targets = order.rewritten(np.random.default_rng(2026), 20_000)
    asked, rows = order.of_the_key(inputs), np.arange(len(inputs))
    n, values = asked.sum(axis=1), inputs[:, :-1, 3:11] * asked[..., None]
    found = {"by chance": np.mean(1 / n), "loss by chance": np.log(n).mean()}
    others = order.mixed(inputs)
    for kind in ("sum", "decay", "delta"):
        for seed in SEEDS:
            network, _ = order.trained(kind, order.rewritten, 600, seed=seed)
            logits = network(inputs).data.astype(float)
            answers, moved = (x.argmax(axis=1) for x in (logits, network(others).data))
            losses = np.log(np.exp(logits).sum(axis=1)) - logits[rows, targets]
            for what, x in (
                ("right", answers == targets),
                ("changed", answers != moved),
                ("of the key", values.any(axis=1)[rows, answers]),
                ("loss", losses),
            ):
                found.setdefault(f"{kind}, {what}", []).append(x.mean())
    return found


@claim(
    lambda n: (
        ahead(n, "no memory", "sum")
        and max(n[k].high for k in n if k != "seen before") < 17 / 18
        and [k for k in n for x in n[k] if k != "seen before" and x > 8 / 9]
        == ["no memory"]
        and all(
            abs(x - 2 / 3) < 0.04
            for rate in ("1e-3", "3e-3", "9e-3")
            for x in n[f"RMC, rate {rate}"]
        )
        and even(n, "delta", "sum")
    ),
    show=".3g",
)
def relates():
    """| no memory | | {no memory:.0%} | |
    | delta rule | | {delta:.0%} | |
    | sum | | {sum:.0%} | |
    | RMC | {RMC, rate 1e-3:.0%} | {RMC, rate 3e-3:.0%} | {RMC, rate 9e-3:.0%} |

    None of these 18 networks has as many right as order and sign give, and one alone, a
    network without a memory, has more than the order gives.

    Without a memory, each seed at this one rate has more right than each of the sum's;
    the RMC is within four points of the first floor at all three rates. (Delta rule and
    sum these three seeds cannot tell apart.)
    """
    new, known = unseen(chapter.farthest, 1000)
    found = {"seen before": known}
    for kind in ("delta", "sum", "no memory"):
        found[kind] = scores(networks(kind, chapter.farthest, 1000), new)
    return found | at_three_rates("RMC", chapter.farthest, 1000, new)


@claim(
    lambda n: (
        all(ahead(n, f"sum, {k} pairs", f"delta, {k} pairs") for k in (16, 32, 64))
        and ahead(n, "lost by the sum, 16 pairs", "lost by the delta, 16 pairs")
        and n["sum, 64 pairs"].high < 0.5
    ),
    show=".3g",
)
def holds():
    """With 16 pairs, as many as $d$, the sum finds {sum, 16 pairs:.0%} of them, and
    with 64 pairs {sum, 64 pairs:.0%}. The delta rule finds fewer,
    {delta, 16 pairs:.0%} and {delta, 64 pairs:.0%}.

    With 16 pairs, what comes back is off by {lost by the sum, 16 pairs:.0%} of the
    values' squares for the sum, and by {lost by the delta, 16 pairs:.0%} for the delta
    rule. So the delta rule is nearer to the values, and yet confuses more of them.

    Here, with 16, 32 and 64 pairs whose keys come once, it found fewer.
    """
    found, d = {}, 16
    for seed in SEEDS:
        for n in (4, 8, 16, 32, 64):
            rng = np.random.default_rng([seed, n])
            memories = rng.normal(size=(20, 2, n, d))
            for name, beta, rule in (
                ("sum", 1.0, "sum"),
                ("delta", 1.0, "delta"),
                ("delta, beta 1/2", 0.5, "delta"),
            ):
                right, lost = [], []
                for keys, values in memories:
                    keys = keys / np.linalg.norm(keys, axis=1, keepdims=True)
                    found_there = keys @ store(keys, values, beta, rule)
                    away = ((found_there[:, None] - values) ** 2).sum(axis=-1)
                    right.append(np.mean(away.argmin(axis=1) == np.arange(n)))
                    lost.append(np.trace(away) / (values**2).sum())
                found.setdefault(f"{name}, {n} pairs", []).append(np.mean(right))
                key = f"lost by the {name}, {n} pairs"
                found.setdefault(key, []).append(np.mean(lost))
    return found
