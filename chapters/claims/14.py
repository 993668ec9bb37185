"""Chapter 14: looking inside."""

import numpy as np
from register import Chapter, claim

chapter = Chapter("14", "beside_untrained whole of_distances others_than EVERY")
compared = Chapter("14", "probes network questions labels n m x distance gap")


@claim(
    lambda n: (
        abs(n["m"].mean - n["untrained, all labels"].mean) < 0.05
        and n["memory"].mean > n["m"].mean + 0.15
        and max(n["m, others"].mean, n["vectors and m, others"].mean) < 0.01
        and n["squares, others"].mean > 0.1
        and n["memory, others"].mean > n["squares, others"].mean + 0.5
    ),
    show=".0%",
)
def which_label_is_m():
    """Most of the variance was not *how far* a label's vector is, but *whether the
    label is $m$*, and that the input says.

    Their squares tell {squares, others:.0%}: a long vector is far from most. From the
    memory {memory, others:.0%} can be read.

    an untrained core would seem to hold {untrained, all labels:.0%} of the distances,
    no more than the one-hot $m$ by itself, {m:.0%}.
    """
    names = {
        "m, one-hot": "m",
        "vectors, and m": "vectors and m",
        "vectors, squares": "squares",
        "memory": "memory",
    }

    def all_of(label):
        return chapter.EVERY

    found = {}
    for key, numbers in chapter.whole.items():
        found[names[key]] = chapter.of_distances(numbers, all_of)
        seen = chapter.of_distances(numbers, chapter.others_than)
        found[f"{names[key]}, others"] = seen
    fresh = chapter.task.build(0)
    (end,) = chapter.probes.read(fresh, chapter.questions.inputs)
    end = end.reshape(len(end), -1)
    found["untrained, all labels"] = chapter.of_distances(end, all_of)
    return found


@claim(
    lambda n: (
        n["of the distances"].mean > n["of distances, untrained"].mean + 0.7
        and abs(n["of distances, untrained"].mean) < 0.02
        and n["of slot 0"].mean > n["of slot 0, untrained"].mean + 0.1
        and n["of n"].mean < n["of n, untrained"].mean
    ),
    show=".0%",
)
def probes_beside_untrained():
    """Where the label is not $m$, the probe reads {of the distances:.0%} of the
    distances from the trained core, and from untrained ones
    {of distances, untrained:.0%}: nothing.

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
        and n["farthest from errors of 2 %"].mean > 0.02
        and n["farthest from errors of 5 %"].mean > 0.02
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
    {where quarters are wrong:.0%}.

    With an error of 3 % it gets {errors of 3 %:.1%}, and in none of the eight groups do
    the two differ by more than {farthest from errors of 3 %:.1%}.

    With 2 % the rule gets {errors of 2 %:.1%}, and in one group the two differ by
    {farthest from errors of 2 %:.1%}; with 5 % it gets {errors of 5 %:.1%}, and they
    differ by up to {farthest from errors of 5 %:.1%}.
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
    }
    for error in (2, 3, 5):
        felt = [ranked(distance * (1 + error / 100 * e)) for e in z]
        right[f"errors of {error} %"] = np.mean(felt, axis=0)
    others = compared.n != 0
    edges = np.quantile(compared.gap[others], np.linspace(0, 1, 9))
    group = np.where(others, np.searchsorted(edges[1:-1], compared.gap), -1)
    of_group = {
        name: np.array([each[group == k].mean() for k in range(8)])
        for name, each in right.items()
    }
    apart = {
        f"farthest from {name}": abs(of_group["network"] - each).max()
        for name, each in of_group.items()
        if name.startswith("errors")
    }
    return (
        {name: each.mean() for name, each in right.items()}
        | {
            "second group": of_group["network"][1],
            "second group, signs": of_group["signs"][1],
            "last group, signs": of_group["signs"][-1],
            "where signs are wrong": right["network"][~right["signs"]].mean(),
            "where quarters are wrong": right["network"][~right["quarters"]].mean(),
        }
        | apart
    )
