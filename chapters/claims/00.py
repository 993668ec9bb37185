"""Chapter 0: a first look."""

import numpy as np
from register import Chapter, claim

chapter = Chapter("00", "learns")
asked = Chapter("00", "kinds nth_farthest SIZE")
NAMES = (
    "steps 100 to 200, where n is 0",
    "steps 100 to 200, elsewhere",
    "the last 200 steps",
    "the last 200 steps, its sign leads",
    "the last 200 steps, its sign misleads",
    "share of questions whose sign leads",
    "share of questions whose sign misleads",
)


@claim(
    lambda n: (
        n["steps 100 to 200, where n is 0"].low > 0.99
        and 0.45 < n["steps 100 to 200, elsewhere"].low
        and n["steps 100 to 200, elsewhere"].high < 0.55
        and abs(n["share of questions whose sign leads"].mean - 3 / 18) < 0.001
        and abs(n["share of questions whose sign misleads"].mean - 1 / 18) < 0.001
        and n["the last 200 steps"].low > 17 / 18
        and n["the last 200 steps, its sign leads"].low
        + n["the last 200 steps, its sign misleads"].low
        > 1
    ),
    show=".1%",
)
def begins_to_compare():
    """from three starts, in steps 100 to 200, it is right in
    {steps 100 to 200, where n is 0:.0%} of the cases where $n$ is 0, and in
    {steps 100 to 200, elsewhere:.0%} of the others.

    In the end it is right in {the last 200 steps:.1%}, above the highest line, if not
    by much.

    It is right in {the last 200 steps, its sign leads:.0%} of the first kind and in
    {the last 200 steps, its sign misleads:.0%} of the second.
    """
    found = {name: [] for name in NAMES}
    for seed in (2, 0, 1):
        right, asked = chapter.learns(seed)  # of 128 new questions in each step
        early, late = right[100:200], right[-200:]
        easy = asked[100:200] == 0
        shares = (
            early[easy].mean(),
            early[~easy].mean(),
            late.mean(),
            late[asked[-200:] == 2].mean(),
            late[asked[-200:] == 3].mean(),
            np.mean(asked == 2),
            np.mean(asked == 3),
        )
        for name, share in zip(NAMES, shares, strict=True):
            found[name].append(share)
    return found


@claim(lambda n: n["its sign misleads"].mean < n["its sign leads"].mean - 0.2)
def closer():
    """in the mean they differ by {its sign misleads:.2f}, where it leads by
    {its sign leads:.2f}.
    """
    size = asked.SIZE
    inputs = asked.nth_farthest.draw(np.random.default_rng(0), 100_000, *size, size)
    inputs = inputs["inputs"]
    labels, _, m = asked.nth_farthest.decode(inputs, size)
    places = inputs[:, :, 0]
    own = places[labels == m[:, None]]
    gap = abs(places.max(axis=1) + places.min(axis=1) - 2 * own)  # of both distances
    kinds = asked.kinds(inputs)
    return {
        "its sign leads": gap[kinds == 2].mean(),
        "its sign misleads": gap[kinds == 3].mean(),
    }
