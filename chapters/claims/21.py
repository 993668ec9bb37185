"""Chapter 21: learning from reward."""

import numpy as np
from register import Chapter, ahead, by_chance, claim, even, rates

from tinyrmc.course.exercises.acting import Maze

chapter = Chapter("21", "train CORES play PAYS noise learnt_with never policy_loss_vjp")
RATES = {"a third": 0, "usual": 1, "three times": 2}


def won(learnt):
    """1 for each of 200 games that the best arm has won, else 0; learnt(seed) is its
    probability at the end.
    """
    return [float(learnt(seed) > 0.5) for seed in range(200)]


@claim(
    lambda n: (
        min(n[f"with, {rate}"].mean for rate in RATES) > 0.95
        and n["without, a third"].mean
        > n["without, usual"].mean
        > n["without, three times"].mean
        and by_chance(n["without, a third"], n["without, three times"]) < 0.01
        and by_chance(n["with, three times"], n["without, a third"]) < 0.01
        and all(even(n, f"with 22, {rate}", f"without, {rate}") for rate in RATES)
        and n["of the first twenty"].mean == 5
        and n["of the next twenty"].mean == 15
    )
)
def baselines():
    """Without a baseline the best arm has won {of the first twenty:.0f} of these twenty
    games. Do not build on that: of the next twenty, seeds 20 to 39, the best arm wins
    {of the next twenty:.0f} games. Over 200 games it wins a share of
    {without, usual.mean:.2f} without a baseline, at a third of the rate
    {without, a third.mean:.2f}, at three times the rate
    {without, three times.mean:.2f}: the larger the step, the more chance decides. With
    a baseline it is {with, usual.mean:.2f}, {with, a third.mean:.2f} and
    {with, three times.mean:.2f}.

    Over 200 games the best arm wins a share of {with 22, usual.mean:.2f} with a
    baseline of 22, at a third of the rate {with 22, a third.mean:.2f}, at three times
    the rate {with 22, three times.mean:.2f}. This differs from no baseline by no more
    than chance may bring.
    """
    found = {}
    for name, rate in zip(RATES, rates(0.1), strict=True):
        for which, known, less in (
            ("with", True, 0),
            ("without", False, 0),
            ("with 22", False, 22),  # taken off what the arms pay
        ):

            def learnt(seed, rate=rate, known=known, pays=chapter.PAYS - less):
                random = np.random.default_rng(seed)
                return chapter.play(random, pays, 500, rate, known)[-1]

            found[f"{which}, {name}"] = won(learnt)
    found["of the first twenty"] = sum(found["without, usual"][:20])
    found["of the next twenty"] = sum(found["without, usual"][20:40])
    spread = np.array(
        [[chapter.noise(b, seed)[0] for b in (0, 11)] for seed in range(3)]
    )
    found["times less noise"] = spread[:, 0] / spread[:, 1]
    return found


@claim(
    lambda n: (
        not ahead(n, "without, worth 1", "without, worth 0")
        and by_chance(n["without, worth 10"], n["without, worth 0"]) < 0.01
        and by_chance(n["with, worth 10"], n["without, worth 10"]) < 0.01
        and min(n[f"with, worth {cost}"].mean for cost in (0, 1, 10)) > 0.95
    )
)
def entropy():
    """At this one rate, 0.1, it can in part, and at a price. Count the games, of 200,
    in which the best arm has the largest probability in the mean of the last 250
    pulls. Without a baseline that is a share of {without, worth 0.mean:.2f}; with an
    entropy that is worth 1 it is {without, worth 1.mean:.2f}, which can be chance, and
    with one worth 10 it is {without, worth 10.mean:.2f}. With a baseline it is
    {with, worth 0.mean:.2f}, {with, worth 1.mean:.2f} and {with, worth 10.mean:.2f}.
    """
    found = {}
    for name, known in (("without", False), ("with", True)):
        for cost in (0, 1, 10):
            found[f"{name}, worth {cost}"] = [
                float(chapter.learnt_with(cost, seed, known).argmax() == 2)
                for seed in range(200)
            ]
    return found


@claim(
    lambda n: (
        min(n["LSTM, usual"].low, n["RMC, usual"].low) > 0.95
        and max(n[k].high for k in n if "no memory" in k or "never" in k) < 0.6
    ),
    show=".0%",
)
def maze():
    """Three seeds each, at one rate, 0.01: the LSTM turns correctly in
    {LSTM, usual:.0%} of the episodes, the RMC in {RMC, usual:.0%}. Without a memory it
    is {no memory, usual:.0%}, at a third of the rate {no memory, a third:.0%}, at three
    times the rate {no memory, three times:.0%}.

    Three seeds end at {never anew, usual:.0%} correct turns, at a third of the rate at
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


class Counting(Maze):
    """Chapter 21's maze; it notes turns, correct ones and episodes of each step."""

    def _step(self, *now):
        outcome = super()._step(*now)
        turned, right = outcome.terminated.sum(), (outcome.reward == 1).sum()
        self.noted = [*getattr(self, "noted", ()), (turned, right, outcome.ended.sum())]
        return outcome


@claim(
    lambda n: (
        n["turns"].high < 0.9
        and 0.45 < n["right"].low < n["right"].high < 0.55
        and [
            turns < 0.5
            for which in RATES
            for right, turns in zip(
                *(n[f"never anew, {which}, {what}"] for what in ("right", "turns")),
                strict=True,
            )
            if right > 0.645
        ]
        == [True]
    ),
    show=".0%",
)
def turns():
    """Without a memory it turns in {turns:.0%} of the last episodes, three seeds, and
    of these turns {right:.0%} are correct.

    Of the turns in its last episodes {never anew, usual, right:.0%} are correct,
    {never anew, a third, right:.0%} and {never anew, three times, right:.0%}: in eight
    runs of nine at most 64 % of the turns are correct, where a coin has 50 %, and the
    one with 92 % turns in less than half of the episodes.
    """
    found = {}
    runs = {"": ("no memory", {})}
    for name, rate in zip(RATES, rates(0.01), strict=True):
        runs[f"never anew, {name}, "] = "LSTM", {"rate": rate, "anew": chapter.never}
    for name, (core, how) in runs.items():
        make = chapter.CORES[core]
        for seed in range(3):
            world = Counting()
            chapter.train(make, seed, maze=lambda world=world: world, **how)
            last = 50 * 8  # steps of 50 updates
            turned, right, ended = np.sum(world.noted[-last:], axis=0)
            found.setdefault(f"{name}turns", []).append(turned / ended)
            found.setdefault(f"{name}right", []).append(right / turned)
    return found
