"""Chapter 15: six bugs that run."""

from register import Chapter, ahead, by_chance, claim, even

chapter = Chapter(
    "15",
    "train small_core zeros p double_softmax jointly shared_layer ends powers LAST",
)
BROKEN = {
    "right": {},
    "zeros": {"begin": chapter.zeros},
    "cut off": {"between": chapter.p.stop_gradient},
    "two softmaxes": {"loss_of": chapter.double_softmax},
    "joint norm": {"make": lambda seed: chapter.jointly(chapter.small_core(seed))},
    "shared layer": {
        "make": lambda seed: chapter.shared_layer(chapter.small_core(seed))
    },
}


def trained(name, seed, **more):
    broken = {"make": chapter.small_core, **BROKEN[name]}
    make = broken.pop("make")
    return chapter.train(make(seed), seed, **broken, **more)


@claim(
    lambda n: (
        ahead(n, "right", "zeros", "cut off", "two softmaxes")
        and even(n, "right", "joint norm")
        and even(n, "right", "shared layer")
        and even(n, "zeros", "cut off")
        and n["right, first"].low > max(0.99, n["right, worst"].high)
        and n["right, worst"].high < 0.9
        and max(n[f"{name}, loss left"].high for name in BROKEN) < 0.75
        and n["two softmaxes, loss left"].low > n["cut off, loss left"].high
    ),
    show=".0%",
)
def costs():
    """Three seeds: {right:.0%} of the symbols are right, of the first ones
    {right, first:.0%}, at each seed's worst place {right, worst:.0%}.

    Three seeds have {zeros:.0%} of the symbols right, and {zeros, worst:.0%} at their
    worst place.

    Three seeds have {cut off:.0%} of the symbols right: of the last ones
    {cut off, last:.0%}, where the right network has {right, last:.0%}, and of the first
    ones {cut off, first:.0%}, where it has {right, first:.0%}.

    Three seeds have {two softmaxes:.0%} of the symbols right.

    With a joint norm three seeds have {joint norm:.0%} of the symbols right, and the
    right network {right:.0%}: which of both is ahead can be chance.

    Three seeds have {shared layer:.0%} of the symbols right, beside {right:.0%} of the
    right network: that can be chance.

    At the end the right network has {right, loss left:.0%} of its first loss left, with
    the joint norm it is {joint norm, loss left:.0%}, with the shared layer
    {shared layer, loss left:.0%}, begun with zeros {zeros, loss left:.0%}, cut off
    {cut off, loss left:.0%}, with two softmaxes {two softmaxes, loss left:.0%}.

    By what is right at the end three seeds cannot tell two of the bugs from the right
    network, the joint norm and the shared layer
    """
    found = {}
    for name in BROKEN:
        for seed in range(3):
            right, losses = trained(name, seed)
            places = right[-chapter.LAST :].mean(axis=0)
            values = {
                f"{name}": places.mean(),
                f"{name}, first": places[0],
                f"{name}, worst": places.min(),
                f"{name}, last": places[-1],
                f"{name}, loss left": losses[-chapter.LAST :].mean() / losses[0],
            }
            for key, value in values.items():
                found.setdefault(key, []).append(value)
    return found


class Frozen:
    """A core that stays as it began; only what reads its memory learns."""

    def __init__(self, core):
        self.core, self.output_size = core, core.output_size
        self.initial_state = core.initial_state

    def __call__(self, inputs, memory):
        return self.core(inputs, memory)

    def parameters(self):
        return []


control = Chapter("15", "train small_core LAST")


@claim(
    lambda n: (
        n["frozen"].high < 0.6
        and n["frozen, last"].high < 0.5
        and n["frozen, first"].low > 0.5
    ),
    show=".0%",
)
def frozen():
    """A core that stays as it began, and whose readout alone learns, has {frozen:.0%}
    of the symbols right, of the first ones {frozen, first:.0%}, of the last ones
    {frozen, last:.0%}.
    """
    found = {}
    for seed in range(3):
        right, _ = control.train(Frozen(control.small_core(seed)), seed)
        places = right[-control.LAST :].mean(axis=0)
        values = {"": places.mean(), ", first": places[0], ", last": places[-1]}
        for key, value in values.items():
            found.setdefault(f"frozen{key}", []).append(value)
    return found


def shares_at(rate):
    """The share of right answers at the end, by bug and seed."""
    return {
        name: [
            trained(name, seed, rate=rate)[0][-chapter.LAST :].mean()
            for seed in range(3)
        ]
        for name in BROKEN
    }


@claim(lambda n: neither_shows(n), show=".0%")
def at_a_third_of_the_rate():
    """At 1e-3, a third of the rate, three seeds of the right network have {right:.0%}
    of the symbols right, with the joint norm {joint norm:.0%}, with the shared layer
    {shared layer:.0%}, begun with zeros {zeros:.0%}, cut off {cut off:.0%}, with two
    softmaxes {two softmaxes:.0%}.
    """
    return shares_at(1e-3)


@claim(
    lambda n: (
        neither_shows(n) and n["right"].low > 0.99 and ahead(n, "zeros", "cut off")
    ),
    show=".0%",
)
def at_three_times_the_rate():
    """At 1e-2, three times the rate, these are {right:.0%}, {joint norm:.0%},
    {shared layer:.0%}, {zeros:.0%}, {cut off:.0%} and {two softmaxes:.0%}.
    """
    return shares_at(1e-2)


def neither_shows(n):
    """Whether three seeds cannot tell two of the bugs from the right network."""
    return all(
        min(by_chance(n["right"], n[name]), by_chance(n[name], n["right"])) > 0.05
        for name in ("joint norm", "shared layer")
    )


@claim(
    lambda n: (
        not ahead(n, "divided by the root, 8 wide", "multiplied by the root, 8 wide")
        and ahead(n, "divided by the root, 64 wide", "multiplied by the root, 64 wide")
        and n["multiplied by the root, 8 wide"].low > 0.9
    ),
    show=".0%",
)
def scale():
    """With keys of 8 units three seeds have {divided by the root, 8 wide:.0%} right,
    with the wrong scale {multiplied by the root, 8 wide:.0%}; with keys of 64 units
    {divided by the root, 64 wide:.0%} and {multiplied by the root, 64 wide:.0%}. With
    narrow keys three seeds do not find the bug, with wide ones they do.
    """
    return {
        f"{name}, {width} wide": chapter.ends(width, chapter.powers[name], range(3))
        for width in (8, 64)
        for name in ("divided by the root", "multiplied by the root")
    }
