"""Chapter 16: program evaluation."""

import numpy as np
from register import Chapter, ahead, claim, shared

chapter = Chapter(
    "16",
    "DECODERS compared CURRICULA with_curriculum places_of trainer_of after_stops",
)
SEEDS = range(3)


def learnt(at, accuracy, enough=0.9):
    """The first step at which an accuracy was enough."""
    return float(at[np.argmax(accuracy >= enough)] if accuracy.max() >= enough else 1e9)


@claim(
    lambda n: all(
        abs(x - y) < 1e-9
        for x, y in zip(
            n["teacher, by teacher, exact"],
            n["teacher, by own_predictions, exact"],
            strict=True,
        )
    ),
    show=".0%",
)
def decoders():
    """Three seeds: the network trained with `zeros` has {zeros, by zeros, exact:.0%} of
    the new answers wholly right, with its own predictions
    {own_predictions, by own_predictions, exact:.0%}, with a teacher
    {teacher, by own_predictions, exact:.0%}. Of the last one's characters
    {teacher, by teacher, accuracy:.0%} are right with the teacher there in the test,
    {teacher, by own_predictions, accuracy:.0%} without.
    """
    found = {}
    for decoder in chapter.DECODERS:
        for seed in SEEDS:
            for measured, scores in chapter.compared(decoder, seed).items():
                name = f"{decoder}, by {measured}"
                for what, value in zip(("accuracy", "exact"), scores[-1], strict=True):
                    found.setdefault(f"{name}, {what}", []).append(value)
    return found


@claim(
    lambda n: (
        n["new numbers seen before"].high == 0
        and n["reverse, place 3"].high < n["reverse, place 1"].low
        and n["copy, place 1"].high < n["copy, place 2"].low
        and n["copy, place 1"].high < n["copy, place 3"].low
        and n["reverse, place 1"].high < n["reverse, place 2"].low
        and len({*(np.sign(np.subtract(n["copy, place 3"], n["copy, place 2"])))}) == 2
        and sum(steps > 400 for steps in n["copy, place 3"]) == 1
    ),
    show=".0f",
)
def places():
    """In `copy`, too, three seeds learn first the digit that they read first: it is
    right in nine of ten new numbers after {copy, place 1:.0f} steps, the second digit
    after {copy, place 2:.0f}. (The third one is sooner than the second in one seed,
    later in another, and in the last not so far after 400 steps.) In `reverse` it is
    {reverse, place 3:.0f} steps for the digit read first, and {reverse, place 1:.0f}
    for the one read last. So at this one rate, 2e-3, the digit read first is learnt
    first in both tasks. The place may count as well: in `reverse` the one read last
    comes second.
    """
    found = {}
    for kind in ("reverse", "copy"):
        for seed in SEEDS:
            at, accuracies = chapter.places_of(kind, seed)
            for place, accuracy in enumerate(accuracies.T, 1):
                name = f"{kind}, place {place}"
                found.setdefault(name, []).append(learnt(at, accuracy))
    task = chapter.trainer_of("reverse", 3, 1).task
    rng = np.random.default_rng(0)
    shown, tested = (
        draw(rng, count)["inputs"][:, :3]
        for draw, count in ((task.draw_training, 20_000), (task.draw, 1000))
    )
    return found | {"new numbers seen before": shared(shown, tested)}


@claim(
    lambda n: (
        ahead(n, "baseline", "mix", "combine")
        and not ahead(n, "baseline", "naive")
        and n["naive"].mean < n["baseline"].mean
        and n["combine"].low > 0.1  # all four have begun to learn three digits
    ),
    show=".0%",
)
def curricula():
    """Three seeds each, new numbers wholly right after 300 steps: `baseline`
    {baseline:.0%}, `naive` {naive:.0%}, `mix` {mix:.0%}, `combine` {combine:.0%}.

    So at this rate, after 300 steps, none of the three is ahead of `baseline`: `mix`
    and `combine` are behind it, and of `naive`, behind in the mean, three seeds cannot
    tell.
    """
    found = {}
    for name in chapter.CURRICULA:
        for seed in SEEDS:
            _, exact, _ = chapter.with_curriculum(name, seed)
            found.setdefault(name, []).append(exact[-1])
    return found


@claim(lambda n: n["moved"].low > 1.5 and n["cosine"].high < 0.5)
def full_stops():
    """With three untrained cores, after forty full stops, they have moved by
    {moved:.1f} times their size, and the cosine with what they were is {cosine:.2f}.
    """
    found = {}
    for seed in SEEDS:
        moved, cosines = chapter.after_stops([40], seed)
        found.setdefault("moved", []).append(moved.mean())
        found.setdefault("cosine", []).append(cosines.mean())
    return found
