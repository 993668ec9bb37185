"""Chapter 24: the small capstone that is shown."""

import numpy as np
from register import Chapter, ahead, claim, shared

from tinyrmc.course.exercises import capstone

chapter = Chapter("24", "Small third_last trained_small right_of")
ways = Chapter("24", "trained_reader shares_of")


@claim(
    lambda n: (
        n["held out"].low > 0.98
        and n["wiped after 5"].high < 0.2
        and n["wiped after 3"].high < 0.9
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
    {untrained:.0%}, and in {wiped after 3:.0%} with its state wiped after the third
    symbol. (Wiped before the last it is {wiped after 5:.0%}: no answer leaks.) Of seven
    symbols it names the third from the end in {7, third from the end:.0%}, and the
    fourth from the start in
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
            "wiped after 5": chapter.right_of(network, *test, wiped=5),
            "wiped after 3": chapter.right_of(network, *test, wiped=3),
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


@claim(lambda n: 0.2 < n["of 12"].mean < n["of 6"].mean < 0.4, show=".0%")
def most_frequent():
    """Beside these stands what the most frequent symbol would get: {of 6:.0%} of
    six symbols, {of 7:.0%} of seven, {of 8:.0%} of eight and {of 12:.0%} of twelve.
    """
    found = {}
    for size in (6, 7, 8, 12):
        rng = np.random.default_rng([2026, size] if size > 6 else 2026)
        inputs, answers = chapter.third_last(rng, 2000, size, held_out=True)
        most = inputs.sum(axis=1).argmax(axis=-1)
        found[f"of {size}"] = np.mean(most == answers)
    return found


@claim(
    lambda n: (
        n["beside"].low > capstone.distances.threshold
        and n["beside, longer"].low > capstone.distances.longer
        and n["last"].high < n["beside"].low
        and ahead(n, "beside, longer", "last, longer")
        and n["maze"].low > capstone.maze.threshold
        and n["maze, longer"].low > capstone.maze.longer
    ),
    show=".0%",
)
def other_tasks():
    """An LSTM of 64 units that reads the points before it knows the question has
    {last:.0%}, and {last, longer:.0%} at the larger size; one that gets the last point
    beside each of the others passes, with {beside:.0%} and {beside, longer:.0%} (three
    seeds each, 3,000 steps on two to four points, at one rate, 3e-3).

    A plain LSTM of 64 units passes after 1,000 steps of 64 questions, with {maze:.0%}
    and {maze, longer:.0%}, three seeds.
    """
    runs = {
        "last": (capstone.distances, [2, 3, 4], 3000, 3e-3, False),
        "beside": (capstone.distances, [2, 3, 4], 3000, 3e-3, True),
        "maze": (capstone.maze, [8], 1000, 1e-2, False),
    }
    found = {}
    for name, (task, sizes, steps, rate, beside) in runs.items():
        for seed in range(3):
            network = ways.trained_reader(task, sizes, steps, rate, seed, beside)
            near, far = ways.shares_of(network, task)
            found.setdefault(name, []).append(near)
            found.setdefault(f"{name}, longer", []).append(far)
    return found
