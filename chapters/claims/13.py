"""Chapter 13: nth farthest. Its runs took hours; the numbers are of results kept."""

import numpy as np
from register import Chapter, claim

from tinyrmc import course
from tinyrmc.training.discovery import load_task

chapter = Chapter("13", "nth by_signs")


def ends(groups):
    """The held-out accuracy of each seed, for each core."""
    return {
        group["config"]["model"]["core"]: [
            run["test_accuracy"] for run in group["runs"]
        ]
        for group in groups
    }


@claim(
    lambda n: (
        0.29 < n["self query"].low
        and n["self query"].high < 0.31
        and n["own norm"].low > 0.35
    ),
    show=".1%",
)
def best_batch():
    """the best batch reaches {self query:.1%} with the self query alone, by luck, and
    {own norm:.1%} with ranking by norm.
    """
    by_norm, _ = load_task("nth_farthest").own_norm_accuracy((8, 16))
    return {
        name: [
            np.random.default_rng(seed).binomial(1600, accuracy, 100_000).max() / 1600
            for seed in range(10)
        ]
        for name, accuracy in (("self query", 2 / 8), ("own norm", by_norm))
    }


@claim(
    lambda n: (
        0.83 < n["3 x 2, one"].low
        and 0.9 < n["3 x 2, both"].low
        and n["4 x 4, all"].high < 0.83
        and n["8 x 16, all"].high < 0.55
    ),
    show=".1%",
)
def signs():
    """at 3 x 2 one sign gives {3 x 2, one:.1%}, and both give {3 x 2, both:.1%}. At 4 x
    4 all four signs give {4 x 4, all:.1%}, and at 8 x 16 all sixteen give
    {8 x 16, all:.1%}.
    """
    found = {}
    for name, k, D, known in (
        ("3 x 2, one", 3, 2, 1),
        ("3 x 2, both", 3, 2, 2),
        ("4 x 4, all", 4, 4, 4),
        ("8 x 16, all", 8, 16, 16),
    ):
        drawn = chapter.nth.draw(np.random.default_rng(2), 40_000, k, D, (k, D))
        question = chapter.nth.decode(drawn["inputs"], (k, D))
        answers = chapter.by_signs(drawn["inputs"][..., :D], *question, known)
        found[name] = np.mean(answers == drawn["target"])
    return found


@claim(
    lambda n: n["likeliest"].high < 0.83 and 0.88 < n["quarters"].low < 0.92,
    show=".1%",
)
def more_than_signs():
    """At 4 x 4 we drew a hundred references with the four signs for each question, and
    took the answer that came most often: {likeliest:.1%}, hardly more.

    90 % at 4 x 4 show that it uses more of the reference than its signs. But not much
    more: the middle of the quarters of $[-1, 1]$ in which its four coordinates lie
    gives {quarters:.1%}.
    """
    drawn = chapter.nth.draw(np.random.default_rng(2), 40_000, 4, 4, (4, 4))
    labels, n, m = chapter.nth.decode(drawn["inputs"], (4, 4))
    x, is_m, rows = drawn["inputs"][..., :4], labels == m[:, None], np.arange(len(n))
    reference, rng = x[is_m], np.random.default_rng(3)  # (B, D)

    def answers(middle):
        distance = np.linalg.norm(x - middle[:, None], axis=-1)
        order = np.argsort(np.where(is_m, -1.0, distance), axis=1)
        return labels[rows, order[rows, n]]

    votes = np.zeros((len(n), 4))
    for _ in range(100):
        alike = np.sign(reference) * rng.uniform(size=reference.shape)
        votes[rows, answers(alike)] += 1
    found = {
        "likeliest": votes.argmax(axis=1),
        "quarters": answers((np.floor(2 * reference) + 0.5) / 2),
    }
    return {name: np.mean(each == drawn["target"]) for name, each in found.items()}


@claim(
    lambda n: (
        n["with the norm"].low > 0.95
        and n["without it"].high < 0.51
        and n["stages passed without it"].high == 0
    ),
    show=".1%",
)
def row_decides():
    """In 12,000 steps, three seeds each, the paper's equations with it end at
    {with the norm:.1%}, without it the released form stays on the first stage.
    """
    found = {}
    for group in course.summary("nth_farthest_forms")["groups"]:
        paper = group["config"]["model"]["core"] == "rmc_paper"
        name = "with the norm" if paper else "without it"
        for run in group["runs"]:
            found.setdefault(name, []).append(run["test_accuracy"])
            passed = float(run["curve"][-1][2] != "3x1")
            found.setdefault(f"stages passed {name}", []).append(passed)
    return found


@claim(
    lambda n: (
        min(n["paper, with the norm"].low, n["released, with the norm"].low) > 0.7
        and max(n["paper, without"].high, n["released, without"].high) < 0.53
    ),
    show=".1%",
)
def both_forms():
    """So at this rate, in 3,000 steps, [the same row
    decides](../benchmarks/nth_farthest_tried.md#paper-and-release) in both forms.

    One norm, on queries, keys and values, with a bias before it, took both forms off
    the plateau, at the one rate that was tried.
    """
    names = {
        "paper": "paper, without",
        "paper, with the norm": "paper, with the norm",
        "released, without the norm": "released, without",
        "released": "released, with the norm",
    }
    found = {name: [] for name in names.values()}
    for run in course.summary("inside")["inside"]:
        if name := names.get(run["form"]):
            found[name].append(run["test_accuracy"])
    return found


@claim(lambda n: n["rmc"].low > 0.9 and n["lstm"].high < 0.5, show=".0%")
def ladder():
    """With a ladder all five RMCs leave it, with {rmc:.0%}, and none of the LSTMs, with
    {lstm:.0%}.
    """
    return ends(course.summary("nth_farthest_longer")["groups"])


@claim(lambda n: n["rmc"].low > 0.9 and n["lstm"].high < 0.51, show=".1%")
def from_the_start():
    """at a third of the rate and in [twice the
    steps](../benchmarks/nth_farthest_tried.md#variations) together, from the start and
    with one seed, an RMC ends at {rmc:.1%} and an LSTM at {lstm:.1%}.
    """
    return ends(course.summary("nth_farthest_direct_longer")["groups"])


@claim(
    lambda n: (
        n["rmc"].low > 0.9
        and n["lstm"].high < 0.51
        and all(n[f"lstm at {rate}"].high < 0.51 for rate in ("3e-4", "1e-3", "3e-3"))
        and n["lstm at 1e-3"].mean > max(n["lstm at 3e-4"].mean, n["lstm at 3e-3"].mean)
        and 0.6 < n["rmc at 3e-4"].mean < n["rmc at 1e-3"].mean - 0.1
        and n["rmc at 3e-3"].mean < 0.51
    ),
    show=".1%",
)
def same_examples():
    """the LSTM gets {lstm:.1%} and the RMC {rmc:.1%}, three seeds each.

    None of these rates helps the LSTM. The RMC depends on its rate: at three times it,
    one seed, too, stays on the plateau, and at a third it has 75.6 %.
    """
    found = ends(course.summary("nth_farthest_fair")["groups"])
    found = {core: found[core] for core in ("lstm", "rmc")}
    names = {"0.0003": "3e-4", "0.001": "1e-3", "0.003": "3e-3"}
    for each in course.summary("nth_farthest_fair_rates")["combinations"]:
        if (core := each["values"]["model.core"]) in ("lstm", "rmc"):
            rate = names[each["values"]["train.learning_rate"]]
            found[f"{core} at {rate}"] = each["group"]["mean"]["test_accuracy"]
    return found


@claim(
    lambda n: (
        n["all three"].low > 0.7
        and max(n["none"].high, n["larger"].high, n["queries and keys"].high) < 0.53
        and n["larger, released"].high < 0.55
        and 0.85 < n["gradient"].low
        and n["gradient"].high < 1.1
        and sum(right > 0.7 for right in n["values"]) == 1
        and sum(right < 0.53 for right in n["values"]) == 2
    ),
    show=".0%",
)
def norm():
    """At that rate a norm on the *values* alone lifts one seed of three. Of those that
    were tried, only the norm on all three, with its bias, lifts every seed, to
    {all three:.0%}, beside {none:.0%} without it.

    they do, with the norm and without: from step 500 on, those of the first input are
    in the mean {gradient:.2f} times as large as those of the last

    without the norm the paper's form ends at {larger:.1%}, the released one at
    {larger, released:.1%}

    a norm on queries and keys alone prevents it, but with it the paper's form ends at
    {queries and keys:.1%}
    """
    names = {
        "paper": "none",
        "paper, with the norm": "all three",
        "paper, larger queries and keys": "larger",
        "released, without the norm, larger queries and keys": "larger, released",
        "paper, the norm on queries and keys": "queries and keys",
        "paper, the norm on values": "values",
    }
    found = {}
    for run in course.summary("inside")["inside"]:
        if name := names.get(run["form"]):
            found.setdefault(name, []).append(run["test_accuracy"])
        if "larger" not in run["form"] and " on " not in run["form"]:
            points = [p for p in run["points"] if p["step"] >= 500]
            shares = [p["early_gradient"] for p in points]
            found.setdefault("gradient", []).append(np.mean(shares))
    return found
