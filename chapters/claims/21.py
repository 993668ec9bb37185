"""Chapter 21: learning from reward."""

import numpy as np
from register import Chapter, by_chance, claim, rates

chapter = Chapter("21", "train CORES play PAYS noise learnt_with never policy_loss_vjp")
RATES = {"a third": 0, "usual": 1, "three times": 2}


def won(rate, with_baseline):
    """1 for each of twenty games that the best arm has won, else 0."""
    games = [
        chapter.play(np.random.default_rng(k), chapter.PAYS, 500, rate, with_baseline)
        for k in range(20)
    ]
    return [float(game[-1] > 0.5) for game in games]


@claim(
    lambda n: (
        all(
            n[f"with, {rate}"].mean == 1
            and by_chance(n[f"with, {rate}"], n[f"without, {rate}"]) < 0.05
            for rate in RATES
        )
        and round(by_chance(n["without, a third"], n["without, usual"]), 2) == 0.01
        and by_chance(n["without, a third"], n["without, three times"]) > 0.05
        and by_chance(n["entropy 10"], n["entropy 0"]) > 0.05
        and by_chance(n["entropy 1"], n["entropy 0"]) > 0.05
    )
)
def baselines():
    """The best arm wins a share of {with, usual.mean:.2f} of twenty games with a
    baseline, {without, usual.mean:.2f} without; at a third of the rate
    {with, a third.mean:.2f} and {without, a third.mean:.2f}, at three times the rate
    {with, three times.mean:.2f} and {without, three times.mean:.2f}.

    Of twenty games without a baseline the best arm wins a share of
    {entropy 0.mean:.2f}, with an entropy that is worth 1 {entropy 1.mean:.2f}, and
    worth 10 {entropy 10.mean:.2f}: that can be chance.

    Without one the best arm wins a share of {without, a third.mean:.2f} of the games at
    a third of the rate, and {without, usual.mean:.2f} at the usual one: that is hardly
    chance (p = 0.01). At three times the rate it is {without, three times.mean:.2f},
    which twenty games cannot tell from {without, a third.mean:.2f}.
    """
    found = {}
    for name, k in RATES.items():
        for which, known in (("with", True), ("without", False)):
            found[f"{which}, {name}"] = won(rates(0.1)[k], known)
    for cost in (0, 1, 10):
        found[f"entropy {cost}"] = [
            float(chapter.learnt_with(cost, seed) > 0.5) for seed in range(20)
        ]
    spread = np.array(
        [[chapter.noise(b, seed)[0] for b in (0, 11)] for seed in range(3)]
    )
    found["times less noise"] = spread[:, 0] / spread[:, 1]
    return found


@claim(
    lambda n: (
        min(n["LSTM, usual"].low, n["RMC, usual"].low) > 0.95
        and max(n[k].high for k in n if "no memory" in k or "never" in k) < 0.6
    ),
    show=".0%",
)
def maze():
    """Three seeds each: the LSTM turns the right way in {LSTM, usual:.0%} of the
    episodes, the RMC in {RMC, usual:.0%}. Without a memory it is
    {no memory, usual:.0%}, at a third of the rate {no memory, a third:.0%}, at three
    times the rate {no memory, three times:.0%}.

    Three seeds end at {never anew, usual:.0%} right turns, at a third of the rate at
    {never anew, a third:.0%}, at three times the rate at {never anew, three times:.0%}.
    """
    found = {}
    for core, make in chapter.CORES.items():
        for name, k in RATES.items():
            if name == "usual" or core == "no memory":
                found[f"{core}, {name}"] = [
                    chapter.train(make, seed, rate=rates(0.01)[k])[1][-1]
                    for seed in range(3)
                ]
    for name, k in RATES.items():
        found[f"never anew, {name}"] = [
            chapter.train(
                chapter.CORES["LSTM"], seed, rate=rates(0.01)[k], anew=chapter.never
            )[1][-1]
            for seed in range(3)
        ]
    return found
