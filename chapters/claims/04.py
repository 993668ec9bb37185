"""Chapter 4: checking gradients."""

from register import Chapter, by_chance, claim

chapter = Chapter("04", "learn wrong_tanh")


@claim(
    lambda n: (
        by_chance(n["wrong, last loss"], n["right, last loss"]) <= 0.05
        and n["wrong, last loss"].high < 0.5 * n["wrong, first loss"].low
    ),
    show=".1e",
)
def slow_learning():
    """from three starts, at a rate of 0.05, the loss falls to
    {wrong, last loss.mean:.3f} on average with the wrong derivative, to
    {right, last loss.mean:.4f} with the right one.
    """
    found = {}
    for name, tanh in (("right", lambda x: x.tanh()), ("wrong", chapter.wrong_tanh)):
        losses = [chapter.learn(tanh, seed=seed)[0] for seed in (5, 0, 1)]
        found[f"{name}, first loss"] = [each[0] for each in losses]
        found[f"{name}, last loss"] = [each[-1] for each in losses]
    return found
