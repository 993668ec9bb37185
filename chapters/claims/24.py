"""Chapter 24: the small capstone that is shown."""

import numpy as np
from register import Chapter, claim, shared

chapter = Chapter("24", "Small third_last trained_small right_of")


@claim(
    lambda n: (
        n["held out"].low > 0.98
        and n["state wiped"].high < 0.2
        and n["untrained"].high < 0.2
        and n["7, third from the end"].high < 0.25
        and n["7, fourth from the start"].low > 0.9
        and n["12, third from the end"].high + n["12, fourth from the start"].high < 0.5
        and n["questions seen before"].high == 0
    ),
    show=".0%",
)
def small_capstone():
    """{held out:.0%} of 2,000 held-out questions, three seeds; untrained in
    {untrained:.0%}, and with its state wiped before the last symbol in
    {state wiped:.0%}. Of seven symbols it names the third from the end in
    {7, third from the end:.0%}, and the fourth from the start in
    {7, fourth from the start:.0%}; of eight, {8, third from the end:.0%} and
    {8, fourth from the start:.0%}; of twelve, {12, third from the end:.0%} and
    {12, fourth from the start:.0%}. So after 300 steps at this one rate it has not
    learnt the rule: of seven symbols it answers by a place counted from the start, and
    of twelve mostly by neither.
    """
    found = {}
    for seed in range(3):
        network, _ = chapter.trained_small(seed)
        test = chapter.third_last(np.random.default_rng(2026), 2000, 6, held_out=True)
        values = {
            "held out": chapter.right_of(network, *test),
            "untrained": chapter.right_of(chapter.Small(seed), *test),
            "state wiped": chapter.right_of(network, *test, wiped=True),
        }
        for size in (7, 8, 12):
            rng = np.random.default_rng([2026, size])
            longer, wanted = chapter.third_last(rng, 2000, size, held_out=True)
            fourth = longer[:, 3].argmax(axis=-1)
            for name, those in (
                ("third from the end", wanted),
                ("fourth from the start", fourth),
            ):
                right = chapter.right_of(network, longer, those)
                values[f"{size}, {name}"] = right
        seen = [
            chapter.third_last(np.random.default_rng([seed, step]), 64, 6)[0]
            for step in range(300)
        ]
        values["questions seen before"] = shared(np.concatenate(seen), test[0])
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    return found
