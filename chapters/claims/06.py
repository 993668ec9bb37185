"""Chapter 6: attention."""

from register import Chapter, claim, rates

chapter = Chapter("06", "learnt three one_for_both none")


@claim(
    lambda n: (
        n["three matrices, the best rate"].low > 0.99
        and max(x.high for name, x in n.items() if "one for both" in name) < 0.99
        and [f"{x:.0%}" for x in sorted(n["one for both, the best rate"])]
        == ["46%", "88%", "88%"]
        and max(x.high for name, x in n.items() if "none" in name) < 0.6
    ),
    show=".0%",
)
def three_matrices():
    """from three starts at three rates, three matrices get to
    {three matrices, the best rate:.0%} at the best of these. One for both gets to 88 %
    from two starts and to 46 % from the third, none to {none, the best rate:.0%}.
    """
    looks, brings = (7 + 6, 16), (7 + 6, 6)  # days and numbers
    networks = {
        "three matrices": (chapter.three, looks, looks, brings),
        "one for both": (chapter.one_for_both, looks, brings),
        "none": (chapter.none, brings),
    }
    found = {}
    for name, network in networks.items():
        tried = [
            [chapter.learnt(*network, seed=seed, rate=rate) for seed in range(3)]
            for rate in rates(0.03)
        ]
        for words, right in zip(("1/100", "3/100", "9/100"), tried, strict=True):
            found[f"{name}, rate {words}"] = right
        found[f"{name}, the best rate"] = max(tried, key=sum)
    return found
