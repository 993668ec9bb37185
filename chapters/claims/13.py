"""Chapter 13: nth farthest. Its runs took hours; the numbers are of results kept."""

from register import claim

from tinyrmc import course


def ends(groups):
    """The held-out accuracy of each seed, for each core."""
    return {
        group["config"]["model"]["core"]: [
            run["test_accuracy"] for run in group["runs"]
        ]
        for group in groups
    }


@claim(lambda n: n["rmc"].low > 0.9 and n["lstm"].high < 0.5, show=".0%")
def ladder():
    """With a ladder all five RMCs leave it, with {rmc:.0%}, and none of the LSTMs, with
    {lstm:.0%}.
    """
    return ends(course.summary("nth_farthest_longer")["groups"])


@claim(
    lambda n: (
        n["rmc"].low > 0.9
        and n["lstm"].high < 0.51
        and all(n[f"lstm at {rate}"].high < 0.51 for rate in ("3e-4", "1e-3", "3e-3"))
    ),
    show=".1%",
)
def same_examples():
    """the LSTM gets {lstm:.1%} and the RMC {rmc:.1%}, three seeds each."""
    found = ends(course.summary("nth_farthest_fair")["groups"])
    found = {core: found[core] for core in ("lstm", "rmc")}
    names = {"0.0003": "3e-4", "0.001": "1e-3", "0.003": "3e-3"}
    for each in course.summary("nth_farthest_fair_rates")["combinations"]:
        if each["values"]["model.core"] == "lstm":
            rate = names[each["values"]["train.learning_rate"]]
            found[f"lstm at {rate}"] = each["group"]["mean"]["test_accuracy"]
    return found


@claim(
    lambda n: (
        n["all three"].low > 0.7
        and max(n["none"].high, n["larger"].high, n["queries and keys"].high) < 0.53
        and n["values"].low < 0.53
    ),
    show=".0%",
)
def norm():
    """Only the norm on all three lifts every seed, to {all three:.0%}, beside
    {none:.0%} without it.
    """
    names = {
        "paper": "none",
        "paper, with the norm": "all three",
        "paper, larger queries and keys": "larger",
        "paper, the norm on queries and keys": "queries and keys",
        "paper, the norm on values": "values",
    }
    found = {}
    for run in course.summary("inside")["inside"]:
        if name := names.get(run["form"]):
            found.setdefault(name, []).append(run["test_accuracy"])
    return found
