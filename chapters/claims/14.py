"""Chapter 14: looking inside."""

import numpy as np
from register import Chapter, claim

chapter = Chapter("14", "beside_untrained")
compared = Chapter("14", "probes network questions labels n m x distance gap")


@claim(
    lambda n: (
        n["of the distances"].mean > n["of distances, untrained"].mean + 0.1
        and n["of slot 0"].mean > n["of slot 0, untrained"].mean + 0.1
        and n["of n"].mean < n["of n, untrained"].mean
    ),
    show=".0%",
)
def probes_beside_untrained():
    """From untrained cores, too, the probe reads {of distances, untrained:.0%} of the
    distances, where the trained one has {of the distances:.0%}. Of what the control
    leaves, the trained core explains {beyond, distances:.0%}:

    From slot 0 it reads {of slot 0:.0%} of a vector, untrained
    {of slot 0, untrained:.0%}; from all slots {of vectors:.0%}, untrained
    {of vectors, untrained:.0%}; and {of n:.0%} of $n$, untrained {of n, untrained:.0%}.
    """
    names = {
        "slot 0: vectors": "slot 0",
        "all slots: vectors": "vectors",
        "all slots: distances": "distances",
        "all slots: which n": "n",
    }
    found = {}
    for key, (share, control, beyond) in chapter.beside_untrained().items():
        name = names[key]
        found["of the distances" if name == "distances" else f"of {name}"] = share
        found[f"of {name}, untrained"] = control
        found[f"beyond, {name}"] = beyond
    return found


@claim(
    lambda n: (
        n["second group"].mean > n["second group, signs"].mean + 0.2
        and n["where signs are wrong"].mean > 0.8
        and n["where quarters are wrong"].mean > 0.75
        and n["farthest from errors of 3 %"].mean < 0.02
    ),
    show=".1%",
)
def beside_signs():
    """The third, sorting by the four signs of the reference, gets {signs:.1%} of these
    questions.

    do better in every group, with {last group, signs:.0%} in the last.

    In the second group from the left the network is right in {second group:.0%}, the
    four signs in {second group, signs:.0%}. And of the questions that the signs get
    wrong, it answers {where signs are wrong:.0%}. So it uses more of the reference than
    its signs.

    A rule that knows of each coordinate of the reference in which quarter of $[-1, 1]$
    it lies gets {quarters:.1%}. Where that rule is wrong, the network is right in
    {where quarters are wrong:.0%}. And in none of the eight groups is the network more
    than two points from a rule that knows each distance up to an error of 3 % (exercise
    4 of chapter 13), which gets {errors of 3 %:.1%}.
    """
    questions, labels, x = compared.questions, compared.labels, compared.x
    rows, targets, distance = np.arange(len(x)), questions.targets, compared.distance
    state = compared.probes.read(compared.network, questions.inputs)
    answers = compared.probes.answer(compared.network, state).argmax(axis=-1)
    reference = x[rows, questions.marked]  # (B, D)

    def ranked(distance):
        """Is the answer right that sorts by these numbers, the reference first?"""
        first = np.where(labels == compared.m[:, None], -1.0, distance)
        order = np.argsort(first, axis=1)
        return labels[rows, order[rows, compared.n]] == targets

    def from_middle(middle):
        return ranked(np.linalg.norm(x - middle[:, None], axis=-1))

    z = np.random.default_rng(5).normal(size=(10, *distance.shape))
    right = {
        "network": answers == targets,
        "signs": from_middle(np.sign(reference) / 2),
        "quarters": from_middle((np.floor(2 * reference) + 0.5) / 2),
        "errors of 3 %": np.mean([ranked(distance * (1 + 0.03 * e)) for e in z], 0),
    }
    others = compared.n != 0
    edges = np.quantile(compared.gap[others], np.linspace(0, 1, 9))
    group = np.where(others, np.searchsorted(edges[1:-1], compared.gap), -1)
    of_group = {
        name: np.array([each[group == k].mean() for k in range(8)])
        for name, each in right.items()
    }
    apart = abs(of_group["network"] - of_group["errors of 3 %"])
    return {name: each.mean() for name, each in right.items()} | {
        "second group": of_group["network"][1],
        "second group, signs": of_group["signs"][1],
        "last group, signs": of_group["signs"][-1],
        "where signs are wrong": right["network"][~right["signs"]].mean(),
        "where quarters are wrong": right["network"][~right["quarters"]].mean(),
        "farthest from errors of 3 %": apart.max(),
    }
