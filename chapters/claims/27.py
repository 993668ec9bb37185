"""Chapter 27: worlds and a memory. The last two claims are of committed results."""

import numpy as np
from register import Chapter, by_chance, claim

from tinyrmc import course

chapter = Chapter(
    "27",
    "Training CORES play CHANGES PLAYED boards world unseen apart attention_to_input "
    "parts_of_a_step learnt_values KINDS",
)
SEEDS = range(3)


@claim(
    lambda n: (
        max(abs(x - 25 / 3) for x in n["V-trace"]) < 0.05
        and max(abs(x - 5) for x in n["plain returns"]) < 0.1
        and n["full products, spread"].low > 1
        and n["V-trace, spread"].high < 0.1
    ),
    show=".2f",
)
def targets():
    """Three seeds, the second half of the updates: plain returns settle at
    {plain returns:.2f}; V-trace at {V-trace:.2f}, and moves by {V-trace, spread:.2f}
    from update to update; the full products have a mean of {full products:.2f}, and
    move by {full products, spread:.2f}.
    """
    found = {}
    for kind in chapter.KINDS:
        late = [np.array(chapter.learnt_values(kind, seed))[200:] for seed in SEEDS]
        found[kind] = [each.mean() for each in late]
        found[f"{kind}, spread"] = [each.std() for each in late]
    return found


def shares(film, kind):
    """The mean attention to the input, with and without something to see."""
    attention, coloured = chapter.attention_to_input(film)
    return {
        f"{kind} something": attention[coloured].mean(),
        f"{kind} nothing": attention[~coloured].mean(),
    }


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
        found |= shares(film, "untrained") | of_slots(film, "untrained")
    training.go(training.updates)
    solved, steps, film = chapter.play(training.agent)
    found |= {name: solved.mean(), f"{name}, steps": steps.mean()}
    if name == "RMC":
        found |= shares(film, "trained") | of_slots(film, "trained")
        for what, change in chapter.CHANGES.items():
            solved, steps, _ = chapter.play(training.agent, change)
            found |= {what: solved.mean(), f"{what}, steps": steps.mean()}
    return found


@claim(
    lambda n: (
        n["shared"].mean == 0
        and by_chance(n["RMC"], n["no memory"]) <= 0.05
        and by_chance(n["no memory, steps"], n["RMC, steps"]) <= 0.05
        and by_chance(n["trained something"], n["trained nothing"]) > 0.05
        and by_chance(n["trained nothing"], n["trained something"]) > 0.05
        and n["trained after 10"].high < 0.1 < n["untrained after 10"].low
        and n["trained after 20"].high < 0.05
        and n["trained gate"].high < n["untrained gate"].low
        and n["trained left"].high < 0.9 < n["untrained left"].low
        and n["trained kept"].high < n["untrained kept"].low
        and n["trained new"].high < 0.5
        and by_chance(n["its own memory"], n["another's"]) <= 0.05
        and n["no memory"].low > n["another's"].high > n["forgotten"].mean
        and abs(n["blended"].mean - n["its own memory"].mean) < 0.02
        and by_chance(n["its own memory"], n["blended"]) > 0.05
    ),
    show=".3g",
)
def agents():
    """Three seeds of each, on boards that no training had: agents with the RMC solve
    {RMC:.1%} of the levels, in {RMC, steps:.1f} steps; agents without a memory
    {no memory:.1%}, in {no memory, steps:.1f}.

    As far as three seeds tell, the slots do not turn to the input at the sight of
    something coloured. Three trained RMCs give the input {trained something:.0%} of
    their attention with something to see, and {trained nothing:.0%} without, which
    chance alone may give.

    Of three trained RMCs the slots are {trained after 5:.1%} apart after five steps,
    {trained after 10:.1%} after ten and {trained after 20:.1%} after twenty; of the
    same three untrained, {untrained after 5:.0%}, {untrained after 10:.0%} and
    {untrained after 20:.0%}.

    From the third step to the tenth the forget gates keep {trained gate:.2f} of the
    memory, untrained {untrained gate:.2f}. Of the difference before a step
    {trained left:.2f} is left after it, untrained {untrained left:.2f}. The part of it
    that is kept is {trained kept:.2f}, untrained {untrained kept:.2f}; the part that is
    new is {trained new:.2f}, untrained {untrained new:.2f}.

    Three seeds: with its own memory the agent solves {its own memory:.1%}; with that of
    another level {another's:.1%}; with a fresh one in every step {forgotten:.1%}; and
    with the mean of its slots in the place of each, {blended:.1%}.

    So the agent uses what it remembers of *this* level: a memory as good, of another
    level, costs it a quarter of the levels, and leaves it behind the agent that never
    had one and has learnt to roam. What tells its slots apart is not used: if all four
    get their mean in every step, nothing is lost that these seeds could show.
    """
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
    ),
    show=".1%",
)
def box_world():
    """In a thirteenth of these steps this project's agents, two seeds each, solve
    {RMC:.1%} with the RMC, {LSTM:.1%} with an LSTM, {ConvLSTM:.1%} with a ConvLSTM,
    which alone sees the board through convolutions, and {none:.1%} without a memory.
    (With the same convolutions, one run each: RMC {RMC, convolutions:.1%}, LSTM
    {LSTM, convolutions:.1%}.) But a player who opens whatever box fits has
    {any box:.1%}, and each number has an error of 3.
    """
    found, floors = ends("box_world_full", "test_solved")
    same, _ = ends("box_world_full_conv", "test_solved")
    found |= {f"{core}, convolutions": runs for core, runs in same.items()}
    return found | {"any box": floors["opening any box"]}


@claim(
    lambda n: (
        abs(n["LSTM"].mean - n["none"].mean) < 14 and n["RMC"].mean < n["none"].mean
    ),
    show=".0f",
)
def mini_pacman():
    """ours {RMC:.0f} and {LSTM:.0f}, and {none:.0f} without a memory, each with an
    error of 14: of a memory's worth there, at 31 million steps, these runs show
    nothing.
    """
    return ends("mini_pacman", "test_score")[0]
