"""Chapter 27: worlds and a memory. The last two claims are of committed results."""

import numpy as np
from register import Chapter, ahead, claim

from tinyrmc import course

chapter = Chapter(
    "27",
    "Training CORES play changes_of PLAYED boards world unseen apart parts_of_a_step "
    "learnt_values KINDS",
)
seen = Chapter("27", "walks right_share boards TINY BoxWorld")
SEEDS = range(3)


@claim(
    lambda n: (
        n["3 x 3, others"].low > n["1 x 1, others"].high
        and n["3 x 3, others"].low > n["5 x 5, others"].high
        and n["5 x 5, others"].low > n["7 x 7, others"].high
        and n["3 x 3, chose"].low > n["3 x 3, others"].high
        and 0.3 < n["5 x 5, new"].low < n["7 x 7, new"].high < 0.6
    ),
    show=".0%",
)
def a_view():
    """On the other half, without levels that the first one has too, the rule is right
    in {1 x 1, others:.0%} of the moments if it sees its own cell alone, in
    {3 x 3, others:.0%} with 3 x 3 cells, in {5 x 5, others:.0%} with 5 x 5, and in
    {7 x 7, others:.0%} with 7 x 7, where {7 x 7, new:.0%} of the views are new to it.
    On the moments that chose it, the rule with 3 x 3 cells is right in
    {3 x 3, chose:.0%}.
    """
    found = {}
    for size in (1, 3, 5, 7):
        world = seen.BoxWorld(**seen.TINY, viewport=size, levels=5000, seed=0)
        boards = seen.boards(world)
        for start in range(0, 1200, 300):
            half = range(start, start + 150)
            known = {boards[k] for k in half}
            rest = [
                k for k in range(start + 150, start + 300) if boards[k] not in known
            ]
            chose, others = (seen.walks(world, numbers)[:2] for numbers in (half, rest))
            values = {
                "chose": seen.right_share(*chose, *chose),
                "others": seen.right_share(*chose, *others),
                "new": np.mean([view not in {*chose[0]} for view in others[0]]),
            }
            for name, value in values.items():
                found.setdefault(f"{size} x {size}, {name}", []).append(value)
    return found


@claim(
    lambda n: (
        max(abs(x - 25 / 3) for x in n["V-trace"]) < 0.05
        and max(abs(x - 5) for x in n["plain returns"]) < 0.1
        and n["full products, spread"].low > 1
        and n["V-trace, spread"].high < 0.1
        and n["full products, highest rise"].low > 3
        and n["V-trace, highest rise"].high < 0.1
    ),
    show=".2f",
)
def targets():
    """Three seeds, the second half of the updates: plain returns settle at
    {plain returns:.2f}; V-trace at {V-trace:.2f}, with a standard deviation of
    {V-trace, spread:.2f} over these updates; the full products have a mean of
    {full products:.2f} and a standard deviation of {full products, spread:.2f}. In one
    update they raised the value by up to {full products, highest rise:.1f}, V-trace by
    {V-trace, highest rise:.2f}.
    """
    found = {}
    for kind in chapter.KINDS:
        late = [np.array(chapter.learnt_values(kind, seed))[200:] for seed in SEEDS]
        found[kind] = [each.mean() for each in late]
        found[f"{kind}, spread"] = [each.std() for each in late]
        found[f"{kind}, highest rise"] = [np.diff(each).max() for each in late]
    return found


def of_slots(film, kind):
    """How far slots are apart, and what became of the difference, steps 3 to 10."""
    found = {}
    for step in (5, 10, 20):
        running, _, trace = film[step - 1]
        found[f"{kind} after {step}"] = chapter.apart(trace["state"][running])
    parts = chapter.parts_of_a_step(film, range(2, 10)).mean(axis=0)
    names = "gate", "left", "kept", "new"
    return found | {f"{kind} {k}": x for k, x in zip(names, parts, strict=True)}


def one(seed, name):
    """All that is measured of one agent: numbers by their names."""
    training, found = chapter.Training(chapter.CORES[name], seed), {}
    if name == "RMC":
        film = chapter.play(training.agent)[2]
        found |= of_slots(film, "untrained")
    training.go(training.updates)
    solved, steps, film = chapter.play(training.agent)
    size = training.agent.num_parameters
    found |= {
        name: solved.mean(),
        f"{name}, steps": steps.mean(),
        f"{name}, size": size,
    }
    if name == "RMC":
        found |= of_slots(film, "trained")
        for what, change in chapter.changes_of(film).items():
            solved, steps, _ = chapter.play(training.agent, change)
            found |= {what: solved.mean(), f"{what}, steps": steps.mean()}
    return found


HARMLESS = "exchanged once", "fresh every 10 steps", "mean of its slots"
COSTLY = "one other's, as it was", "exchanged in every step", "fresh every 2 steps"


@claim(
    lambda n: (
        n["shared"].mean == 0
        and abs(n["RMC, size"].mean - n["no memory, size"].mean) < 100
        and ahead(n, "RMC", "no memory")
        and ahead(n, "no memory, steps", "RMC, steps")
        and n["trained after 10"].high < 0.1 < n["untrained after 10"].low
        and n["trained after 20"].high < 0.05
        and n["trained gate"].high < n["untrained gate"].low
        and n["trained left"].high < 0.9 < n["untrained left"].low
        and n["trained kept"].high < n["untrained kept"].low
        and n["trained new"].high < 0.5
        and not any(ahead(n, "its own memory", each) for each in HARMLESS)
        and all(abs(n["its own memory"].mean - n[x].mean) < 0.02 for x in HARMLESS)
        and all(
            own < changed
            for each in ("exchanged once", "fresh every 10 steps")
            for own, changed in zip(n["RMC, steps"], n[f"{each}, steps"], strict=True)
        )
        and all(a > b for a, b in zip(n["RMC"], n["fresh every 5 steps"], strict=True))
        and ahead(n, "its own memory", *COSTLY)
        and all(n[each].high < n["no memory"].low for each in COSTLY)
    ),
    show=".3g",
)
def agents():
    """Three seeds of each at this one rate, on boards that no training had: agents with
    the RMC solve {RMC:.1%} of the levels, in {RMC, steps:.1f} steps; agents without a
    memory, which have as many weights, {no memory:.1%}, in {no memory, steps:.1f}.

    Of three trained RMCs the slots are {trained after 5:.1%} apart after five steps,
    {trained after 10:.1%} after ten and {trained after 20:.1%} after twenty; of the
    same three untrained, {untrained after 5:.0%}, {untrained after 10:.0%} and
    {untrained after 20:.0%}.

    Three seeds at this rate: from the third step to the tenth the forget gates keep
    {trained gate:.2f} of the memory, untrained {untrained gate:.2f}. Of the difference
    before a step {trained left:.2f} is left after it, untrained {untrained left:.2f}.
    The part of it that is kept is {trained kept:.2f}, untrained {untrained kept:.2f};
    the part that is new is {trained new:.2f}, untrained {untrained new:.2f}.

    | its own | {its own memory:.1%} | {its own memory, steps:.1f} |
    | exchanged once, after step 8 | {exchanged once:.1%} | {exchanged once, steps:.1f} |
    | exchanged in every step | {exchanged in every step:.1%} | {exchanged in every step, steps:.1f} |
    | one other's, as it was | {one other's, as it was:.1%} | {one other's, as it was, steps:.1f} |
    | fresh every 10 steps | {fresh every 10 steps:.1%} | {fresh every 10 steps, steps:.1f} |
    | fresh every 5 steps | {fresh every 5 steps:.1%} | {fresh every 5 steps, steps:.1f} |
    | fresh every 2 steps | {fresh every 2 steps:.1%} | {fresh every 2 steps, steps:.1f} |
    | fresh in every step | {fresh in every step:.1%} | {fresh in every step, steps:.1f} |
    | mean of its slots | {mean of its slots:.1%} | {mean of its slots, steps:.1f} |
    """  # noqa: E501, a row of a table stands on one line
    old, new = {*chapter.boards(chapter.world)}, chapter.boards(chapter.unseen)
    found = {"shared": [sum(new[k] in old for k in chapter.PLAYED)]}
    for name in ("RMC", "no memory"):
        runs = [one(seed, name) for seed in SEEDS]
        found |= {each: [run[each] for run in runs] for each in runs[0]}
    return found


NAMES = {"rmc": "RMC", "lstm": "LSTM", "conv_lstm": "ConvLSTM", "feedforward": "none"}


def ends(name, metric):
    """The test results of each core's runs, and the references beside them."""
    groups = course.summary(name)["groups"]
    found = {
        NAMES[group["config"]["model"]["core"]]: [run[metric] for run in group["runs"]]
        for group in groups
    }
    return found, groups[0]["references"][metric]


@claim(
    lambda n: (
        n["none"].high + 0.06 < min(n["RMC"].low, n["LSTM"].low, n["ConvLSTM"].low)
        and n["RMC"].mean - n["any box"].mean < 0.03
        and n["LSTM"].mean - n["any box"].mean < 0.03
        and n["LSTM, convolutions"].mean - n["RMC, convolutions"].mean < 0.06
        and n["script"].mean == 1
    ),
    show=".1%",
)
def box_world():
    """| RMC | 98 % | {RMC:.1%} | {RMC, convolutions:.1%} |
    | LSTM | | {LSTM:.1%} | {LSTM, convolutions:.1%} |
    | ConvLSTM | 73 % | | {ConvLSTM:.1%} |
    | no memory | | {none:.1%} | |

    A player who opens whatever box fits has {any box:.1%}. A script that sees the same
    5 x 5 cells, forgets nothing and goes the shortest ways has {script:.0%}
    """
    found, floors = ends("box_world_full", "test_solved")
    same, _ = ends("box_world_full_conv", "test_solved")
    found |= {f"{core}, convolutions": runs for core, runs in same.items()}
    found["script"] = floors["a script that forgets nothing"]
    return found | {"any box": floors["opening any box"]}


@claim(
    lambda n: (
        abs(n["LSTM"].mean - n["none"].mean) < 14 and n["RMC"].mean < n["none"].mean
    ),
    show=".0f",
)
def mini_pacman():
    """| RMC | 677 | {RMC:.0f} |
    | LSTM | 550 | {LSTM:.0f} |
    | no memory | | {none:.0f} |

    Each run of ours is uncertain by 14 (two standard errors, over its 256 games): at 31
    million steps, these runs do not show that a memory is worth anything there.
    """
    return ends("mini_pacman", "test_score")[0]
