"""Chapter 4: checking gradients."""

from register import Chapter, ahead, claim

chapter = Chapter("04", "learn wrong_tanh zero_tanh")
RATES = {"rate 1/100": 0.01, "rate 1/60": 0.05 / 3, "rate 1/20": 0.05}


@claim(
    lambda n: (
        all(
            ahead(n, f"{worse}, {rate}", f"{better}, {rate}")
            for better, worse in (("right", "alone"), ("alone", "wrong"))
            for rate in ("rate 1/60", "rate 1/20")
        )
        and all(
            n[f"right, {r}"].mean < n[f"alone, {r}"].mean < n[f"wrong, {r}"].mean
            for r in RATES
        )
        and n["alone, rate 1/100"].high > n["wrong, rate 1/100"].low
        and max(n[f"wrong, {rate}"].high for rate in RATES) < 0.5 * n["first loss"].low
    ),
    show=".1e",
)
def slow_learning():
    """From three starts, at a rate of 0.05, the loss falls to
    {right, rate 1/20.mean:.4f} on average with the right derivative, to
    {alone, rate 1/20.mean:.3f} where the hidden layer is left alone, and to
    {wrong, rate 1/20.mean:.3f} with the wrong derivative. At a third of that rate these
    are {right, rate 1/60.mean:.3f}, {alone, rate 1/60.mean:.3f} and
    {wrong, rate 1/60.mean:.3f}. (At 0.01 the means stand in the same order,
    {right, rate 1/100.mean:.3f}, {alone, rate 1/100.mean:.3f} and
    {wrong, rate 1/100.mean:.3f}, but the three starts overlap.) So here, after 2,000
    steps at two rates, a wrong derivative is worse than none
    """
    kinds = {
        "right": lambda x: x.tanh(),
        "wrong": chapter.wrong_tanh,
        "alone": chapter.zero_tanh,
    }
    found = {}
    for name, tanh in kinds.items():
        for words, rate in RATES.items():
            losses = [chapter.learn(tanh, rate, seed)[0] for seed in (5, 0, 1)]
            found["first loss"] = [each[0] for each in losses]
            found[f"{name}, {words}"] = [each[-1] for each in losses]
    return found
