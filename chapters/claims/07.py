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
