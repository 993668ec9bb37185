"""Chapter 14: looking inside."""

from register import Chapter, claim

chapter = Chapter("14", "beside_untrained")


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
    leaves that is {beyond, distances:.0%}. From slot 0 it reads {of slot 0:.0%} of a
    vector, untrained {of slot 0, untrained:.0%}; from all slots {of vectors:.0%},
    untrained {of vectors, untrained:.0%}; and {of n:.0%} of $n$, untrained
    {of n, untrained:.0%}.
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
