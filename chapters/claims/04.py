"""Chapter 4: checking gradients."""

from register import Chapter, by_chance, claim

chapter = Chapter("04", "learn wrong_tanh zero_tanh")


@claim(
    lambda n: (
        by_chance(n["alone, last loss"], n["right, last loss"]) <= 0.05
        and by_chance(n["wrong, last loss"], n["alone, last loss"]) <= 0.05
        and n["wrong, last loss"].high < 0.5 * n["wrong, first loss"].low
    ),
    show=".1e",
)
def slow_learning():
    """From three starts, at a rate of 0.05, the loss falls to
    {right, last loss.mean:.4f} on average with the right derivative, to
    {alone, last loss.mean:.3f} where the hidden layer is left alone, and to
    {wrong, last loss.mean:.3f} with the wrong derivative.
    """
    kinds = {
        "right": lambda x: x.tanh(),
        "wrong": chapter.wrong_tanh,
        "alone": chapter.zero_tanh,
    }
    found = {}
    for name, tanh in kinds.items():
        losses = [chapter.learn(tanh, seed=seed)[0] for seed in (5, 0, 1)]
        found[f"{name}, first loss"] = [each[0] for each in losses]
        found[f"{name}, last loss"] = [each[-1] for each in losses]
    return found
