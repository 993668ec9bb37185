"""Chapter 0: a first look."""

import numpy as np
from register import Chapter, claim

chapter = Chapter("00", "learns")
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
        and n["the last 200 steps, its sign misleads"].low > 0.5
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
