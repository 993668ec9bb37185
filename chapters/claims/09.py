"""Chapter 9: gates."""

import numpy as np
from register import Chapter, by_chance, claim, rates

chapter = Chapter("09", "keep_a_bit")
LEARNT = 0.1  # the loss in the end; a guess costs 0.69


def at_the_end(bias, seed, rate=0.01, T=50):
    return np.mean(chapter.keep_a_bit(float(bias), T, seed, rate)[-10:])


@claim(
    lambda n: (
        n["learnt with 0"].mean == 0
        and n["bias 0, rate 1/100"].low > 0.65
        and 0 < n["learnt with 1"].mean < n["learnt with 3"].mean
        and n["learnt with 3"].mean <= n["learnt with 5"].mean
        and n["bias 1, rate 1/300"].mean < 0.2 < n["bias 1, rate 1/100"].low
        and n["bias 3, rate 3/100"].high > 0.6 < n["bias 5, rate 3/100"].high
    )
)
def forget_bias():
    """With a bias of 0, none of the 15 gets away from a guess. With 1,
    {learnt with 1:.0f} of them learn it, with 3, {learnt with 3:.0f} of them, and with
    5, {learnt with 5:.0f}.

    With 1 it is the smallest rate that learns, and with 3 and 5 the largest rate that
    may not.
    """
    found = {}
    for bias in (0, 1, 3, 5):
        for name, rate in zip(("1/300", "1/100", "3/100"), rates(0.01), strict=True):
            losses = [at_the_end(bias, seed, rate) for seed in (10, 0, 1, 2, 3)]
            found[f"bias {bias}, rate {name}"] = losses
    for bias in (0, 1, 3, 5):
        all_of = np.ravel([v for k, v in found.items() if k.startswith(f"bias {bias}")])
        found[f"learnt with {bias}"] = [np.sum(all_of < LEARNT)]
    return found


@claim(lambda n: n["bias 1, ten steps"].high < LEARNT)
def ten_steps():
    """Over ten steps it learns with a bias of 1, from each of three starts."""
    return {"bias 1, ten steps": [at_the_end(1, seed, T=10) for seed in (10, 0, 1)]}


tanh = Chapter("09", "grown")


@claim(
    lambda n: all(
        by_chance(n[f"memory, bias {b}, without"], n[f"memory, bias {b}, with tanh"])
        <= 0.05
        and by_chance(n[f"slope, bias {b}, with tanh"], n[f"slope, bias {b}, without"])
        <= 0.05
        for b in (1, 3, 5)
    ),
    show=".3f",
)
def the_tanh():
    """Without the tanh a slot's size gets into its own gates. They stand wide open or
    shut, where they have little slope and learn little; and a memory that opens its own
    gates grows further.
    """
    found = {}
    for bias in (1, 3, 5):
        for name, seen in (("with tanh", np.tanh), ("without", lambda m: m)):
            grown = [tanh.grown(seen, bias, seed) for seed in range(3)]
            found[f"memory, bias {bias}, {name}"] = [memory for memory, _ in grown]
            found[f"slope, bias {bias}, {name}"] = [slope for _, slope in grown]
    return found
