"""Chapter 0: a first look."""

import numpy as np
from register import Chapter, claim

from tinyrmc.training.discovery import load_task

chapter = Chapter("00", "learns")


@claim(
    lambda n: (
        0.6 < n["steps 100 to 200"].low
        and n["steps 100 to 200"].high < n["sorted from 0"].mean
        and n["the last 200 steps"].low > 8 / 9 > n["sorted from 0"].mean
    ),
    show=".0%",
)
def begins_to_compare():
    """In three starts it ends at {the last 200 steps:.0%}, above the highest line."""
    found = {"steps 100 to 200": [], "the last 200 steps": []}
    for seed in (2, 0, 1):
        right = chapter.learns(seed)  # of 128 new questions in each step
        found["steps 100 to 200"].append(np.mean(right[100:200]))
        found["the last 200 steps"].append(np.mean(right[-200:]))
    found["sorted from 0"] = load_task("nth_farthest").own_norm_accuracy((3, 1))[0]
    return found
