"""Chapter 7: a laboratory of invariants."""

import numpy as np
from register import Chapter, claim

chapter = Chapter("07", "distances_of")


@claim(
    lambda n: (
        n["after 8 inputs, of what it was after 1"].high < 0.5
        and np.median(n["after 8 inputs"]) < 2e-9
        and n["from zeros"].high == 0
    ),
    show=".1e",
)
def closer():
    """in twenty draws of weights and inputs in {steps closer:.0%} of the steps, and end
    {after 8 inputs.low:.0e} to {after 8 inputs.high:.0e} apart, half of them less than
    2e-09
    """
    draws = [chapter.distances_of(1.0, seed) for seed in range(20)]
    return {
        "steps closer": np.mean([np.diff(each) < 0 for each in draws]),
        "after 1 input": [each[0] for each in draws],
        "after 8 inputs": [each[-1] for each in draws],
        "after 8 inputs, of what it was after 1": [x[-1] / x[0] for x in draws],
        "from zeros": [max(chapter.distances_of(0.0, seed)) for seed in range(3)],
    }


@claim(
    lambda n: (
        np.median(n["8 slots of 64"]) < 1e-6
        and np.median(n["values as they are"]) < 1e-6
        and n["long, more than 1 % apart"].mean > 0
        and n["long, less than 1e-4 apart"].mean > 15
        and n["long, closer than any before"].mean > 0
    ),
    show=".1e",
)
def not_always():
    """where values are the rows themselves, the median is
    {values as they are, median:.0e}; and with eight slots of 64 units it is
    {8 slots of 64, median:.0e}.

    with queries ten times as long {long, less than 1e-4 apart:.0f} of 20 draws still
    end less than 1e-4 apart, {long, closer than any before:.0f} of them closer than any
    of the twenty before, and {long, more than 1 % apart:.0f} stay more than 1 % apart.
    """
    settings = {
        "8 slots of 64": {"N": 8, "F": 64},
        "values as they are": {"mixed": False},
        "queries ten times as long": {"longer": 10.0},
    }
    found = {
        name: [chapter.distances_of(1.0, seed, **how)[-1] for seed in range(20)]
        for name, how in settings.items()
    }
    for name, ends in [*found.items()]:
        found[f"{name}, median"] = np.median(ends)
    before = [chapter.distances_of(1.0, seed)[-1] for seed in range(20)]
    long = np.array(found["queries ten times as long"])
    return found | {
        "long, more than 1 % apart": sum(long > 0.01),
        "long, less than 1e-4 apart": sum(long < 1e-4),
        "long, closer than any before": sum(long < min(before)),
    }
