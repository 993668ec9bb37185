"""Chapter 5: learning."""

import numpy as np
from register import Chapter, ahead, claim, shared

from tinyrmc import optim

NAMES = "train fresh slopes accuracy batches held_out middle targets STEPS draw"
chapter = Chapter("05", f"{NAMES} momentum_rule adam_rule")
by_heart = Chapter("05", "learns_from from_the_few batches held_out few")
SEEDS = range(3)
RATES = {
    "plain": np.geomspace(1e-3, 3, 8),
    "momentum": np.geomspace(1e-3, 1, 7),
    "Adam": np.geomspace(1e-4, 0.3, 8),
}


def after(rule, seed, steps=400, scale=1.0):
    """The losses, and the share of right answers to the held-out questions."""
    with np.errstate(all="ignore"):
        losses, weights = chapter.train(
            chapter.fresh(seed, scale),
            chapter.slopes,
            rule,
            chapter.batches(seed=seed + 1),
            steps,
        )
        return losses, chapter.accuracy(weights, *chapter.held_out)


def rule_of(name, rate):
    if name == "Adam":
        return chapter.adam_rule(rate)
    return chapter.momentum_rule(rate, 0.9 if name == "momentum" else 0.0)


@claim(
    lambda n: (
        n["right"].low > max(n["the middle"].mean + 0.2, n["its quadrant"].mean + 0.03)
        and n["one sign"].mean > 0.6
        and 0 < n["in most places"].mean - n["its quadrant"].mean < 0.01
    ),
    show=".0%",
)
def compares_points():
    """From three starts, {right:.0%} are right, where the point nearest to the middle
    is right in {the middle:.0%}.

    Let a rule know of the question only its quadrant, and take the point nearest to the
    quadrant's middle, $(\\pm 0.5, \\pm 0.5)$: it is right in {its quadrant:.1%}. (The
    point that is the nearest in most places of the quadrant is hardly better:
    {in most places:.1%}.)

    A rule that knows one sign of the question, left or right, and takes the point
    nearest to $(\\pm 0.5, 0)$, is right in {one sign:.0%}.
    """
    right = [after(lambda k, w, g: w - 0.1 * g, seed)[1] for seed in SEEDS]
    middle = np.mean(chapter.middle == chapter.targets)
    points, targets = chapter.draw(np.random.default_rng(0), 100_000)
    points = points.reshape(-1, 4, 2)
    found = {"right": right, "the middle": middle}
    sides = np.sign(points[:, 3:]) / 2
    for name, place in {"its quadrant": sides, "one sign": sides * [1, 0]}.items():
        nearest = np.linalg.norm(points[:, :3] - place, axis=-1).argmin(axis=1)
        found[name] = np.mean(nearest == targets)
    line = (np.arange(16) + 0.5) / 16
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 1, 2)  # of a quadrant
    found["in most places"] = []
    for some in np.array_split(np.arange(len(points)), 100):
        places = 2 * sides[some][:, None] * grid
        away = np.linalg.norm(points[some, None, :3] - places, axis=-1)
        votes = (away.argmin(axis=-1)[..., None] == np.arange(3)).sum(axis=1)
        found["in most places"].append(np.mean(votes.argmax(axis=1) == targets[some]))
    found["in most places"] = np.mean(found["in most places"])
    return found


@claim(
    lambda n: (
        n["Adam"].low > max(n["plain"].high, n["momentum"].high)
        and 0.45 < n["plain at 1/100"].low
        and n["plain at 1/100"].high < 0.55
    )
)
def forgiving():
    """Adam has the widest range here. The last line is plain descent with a rate of
    0.01: it has got to {plain at 1/100:.0%}, a little more than the middle gives.
    """
    found = {name: [] for name in RATES} | {"plain at 0.01": []}
    for seed in SEEDS:
        for name, rates in RATES.items():
            right = np.array([after(rule_of(name, rate), seed)[1] for rate in rates])
            good = rates[right > right.max() - 0.1]
            found[name].append(good.max() / good.min())
            if name == "plain":
                found["plain at 0.01"].append(right[2])
    return {k.replace("0.01", "1/100"): v for k, v in found.items()}


@claim(
    lambda n: (
        n["their answers agree"].low > 0.3
        and n["their answers agree"].high < 0.37
        and ahead(n, "where the middle is wrong", "where the middle is right")
    ),
    show=".0%",
)
def another_rule():
    """Their answers agree as often as by chance, and it is right more often where the
    middle is *wrong*.
    """
    found = {"their answers agree": []}
    found |= {"where the middle is right": [], "where the middle is wrong": []}
    inputs, targets = chapter.held_out
    easy = chapter.middle == targets
    for seed in SEEDS:
        source, rule = chapter.batches(seed=seed + 1), rule_of("plain", 0.01)
        _, weights = chapter.train(
            chapter.fresh(seed), chapter.slopes, rule, source, 400
        )
        shares = (
            chapter.accuracy(weights, inputs, chapter.middle),
            chapter.accuracy(weights, inputs[easy], targets[easy]),
            chapter.accuracy(weights, inputs[~easy], targets[~easy]),
        )
        for values, share in zip(found.values(), shares, strict=True):
            values.append(share)
    return found


@claim(
    lambda n: (
        all(
            ahead(n, f"s = 1, rate {rate}", f"s = 10, rate {rate}")
            and n[f"s = 1/10, rate {rate}"].mean > n[f"s = 1, rate {rate}"].mean - 0.02
            for rate in ("3/1000", "3/100")
        )
        and n["s = 1, rate 3/1000"].low > n["s = 10, rate 3/100"].high
        and n["first loss, s = 10"].low > 10
        and n["first loss, s = 1"].high < 2
    )
)
def large_start():
    """With $s = 10$ fewer are right than with $s = 1$, at either rate. A small start
    does no harm here.
    """
    found = {}
    for s, name in ((0.1, "1/10"), (1, "1"), (10, "10")):
        for rate, words in ((3e-3, "3/1000"), (3e-2, "3/100")):
            runs = [after(chapter.adam_rule(rate), seed, scale=s) for seed in SEEDS]
            found[f"first loss, s = {name}"] = [losses[0] for losses, _ in runs]
            found[f"s = {name}, rate {words}"] = [right for _, right in runs]
    return found


@claim(
    lambda n: (
        ahead(n, "constant, loss", "decay, loss")
        and ahead(n, "decay, right", "constant, right")
        and abs(n["warm-up and decay, right"].mean - n["decay, right"].mean) < 0.02
        and abs(n["warm-up, at 3/100, right"].mean - n["at 3/100, right"].mean) < 0.02
        and abs(n["warm-up, at 3/100, loss"].mean - n["at 3/100, loss"].mean) < 0.01
    ),
    show=".3f",
)
def decay():
    """From three starts, the last losses are {constant, loss:.3f} without decay and
    {decay, loss:.3f} with it; warm-up makes them {warm-up and decay, loss:.3f}. At
    three times the rate they are {at 3/100, loss:.3f} with decay, and with warm-up
    {warm-up, at 3/100, loss:.3f}.
    """
    rates = {
        "constant": optim.schedule(1e-2, 2000),
        "decay": optim.schedule(1e-2, 2000, cosine_fraction=0.5),
        "warm-up and decay": optim.schedule(
            1e-2, 2000, warmup=100, cosine_fraction=0.5
        ),
        "at 3/100": optim.schedule(3e-2, 2000, cosine_fraction=0.5),
        "warm-up, at 3/100": optim.schedule(
            3e-2, 2000, warmup=100, cosine_fraction=0.5
        ),
    }
    found = {}
    for name, rate in rates.items():
        runs = [after(chapter.adam_rule(rate), seed, 2000) for seed in SEEDS]
        found[f"{name}, loss"] = [np.mean(losses[-100:]) for losses, _ in runs]
        found[f"{name}, right"] = [right for _, right in runs]
    return found


@claim(
    lambda n: (
        n["of the 200"].low > 0.99
        and n["held out"].high < 0.85
        and ahead(n, "trained on new ones, held out", "held out")
        and n["of the 200 among the held out"].mean == 0
    ),
    show=".1%",
)
def two_hundred():
    """From three starts, {of the 200:.0%} of the 200 are right in the end, and
    {held out:.0%} of the others; after training on new ones,
    {trained on new ones, held out:.0%}.
    """
    ends = [
        [by_heart.learns_from(source, seed)[-1] for seed in SEEDS]
        for source in (by_heart.from_the_few, by_heart.batches())
    ]
    few, new = np.transpose(ends)[:, :, 0], np.transpose(ends)[:, :, 1]
    return {
        "of the 200": few[0],
        "held out": few[1],
        "trained on new ones, held out": new[1],
        "of the 200 among the held out": shared(by_heart.few[0], by_heart.held_out[0]),
    }
