"""Chapter 19: one hop."""

import numpy as np
from register import Chapter, claim, rates, shared

from tinyrmc.course.exercises import one_hop

chapter = Chapter(
    "19",
    "look_vjp train told ex newest_first OneHop Bags wrong of_the_newest",
)
RATE = 0.005
HELD_OUT = {("mary", "garden"), ("john", "kitchen"), ("sandra", "office")}


def rows(arrays):
    """Each question with its story, as one row of numbers."""
    return np.concatenate([x.reshape(len(x), -1) for x in arrays[:4]], axis=1)


def ageless(reading):
    W = reading.arrays["train"][0].shape[-1]
    return chapter.OneHop(W, np.arange(W) < len(reading.words))


@claim(
    lambda n: (
        n["with ages"].high < 0.01
        and min(n[k].low for k in n if k.startswith("without")) > 0.25
        and n["bags, with ages"].high < 0.01
        and n["questions seen before"].high < 0.01
    ),
    show=".1%",
)
def ages():
    """With ages the three copies end at {with ages:.1%} wrong. Without ages they end at
    {without, usual:.1%}, at a third of the rate at {without, a third:.1%}, at three
    times the rate at {without, three times:.1%}: hardly better than naming any room to
    which this person went.

    Hardly any question of the test stood in training as it is
    ({questions seen before:.1%}).

    It goes wrong when the last move of that person is lost: with the newest six
    memories {newest 6:.1%} are wrong, with four {newest 4:.1%}, with two
    {newest 2:.1%}.

    It does not: three copies that read bags of words end at {bags, with ages:.1%}
    wrong.
    """
    reading = chapter.ex.Reading(chapter.told, 1, chapter.newest_first)
    W = reading.arrays["train"][0].shape[-1]
    network = chapter.OneHop(W)
    found = {
        "with ages": chapter.train(reading, network)[-1],
        "bags, with ages": chapter.train(reading, chapter.Bags(chapter.OneHop(W)))[-1],
        "questions seen before": shared(*map(rows, reading.arrays.values())) / 1000,
    }
    for name, rate in zip(
        ("a third", "usual", "three times"), rates(RATE), strict=True
    ):
        found[f"without, {name}"] = chapter.train(reading, ageless(reading), rate)[-1]
    for count in (6, 4, 2):
        newest = chapter.of_the_newest(count, network, reading.arrays["test"])
        found[f"newest {count}"] = newest
    return found


@claim(
    lambda n: (
        n["share of the fact"].high < 0.9
        and n["right"].low > 0.99
        and n["untrained, share"].high < n["share of the fact"].low - 0.2
    ),
    show=".0%",
)
def sharp():
    """Over the whole test the three copies give the sentence with the answer
    {share of the fact:.0%} of their attention (untrained {untrained, share:.0%}), and
    have {right:.1%} of the answers right: a softmax need not be sharp.
    """
    reading = chapter.ex.Reading(chapter.told, 1, chapter.newest_first)
    network = chapter.OneHop(reading.arrays["train"][0].shape[-1])
    untrained = shares_of_the_facts(reading, network)
    errors = chapter.train(reading, network)[-1]
    trained = shares_of_the_facts(reading, network)
    return {
        "share of the fact": trained,
        "untrained, share": untrained,
        "right": 1 - errors,
    }


def shares_of_the_facts(reading, network):
    """For each copy, the share of attention on the fact, in the mean of the test."""
    once, weighted, asked, asked_weighted, _ = reading.arrays["test"]
    m, c = (
        chapter.remembered(2 * once, 2 * weighted, table).data
        for table in (network.A, network.C)
    )
    u = chapter.remembered(asked[:, None], asked_weighted[:, None], network.A).data
    shares = chapter.hop(u[:, :, 0], m, c)[0]  # (copies, questions, memories)
    stories = reading.stories["test"]
    places = [len(s.sentences) - 1 - s.supporting[0] for s in stories]
    return shares[:, np.arange(len(stories)), places].mean(axis=1)


class Without:
    """Stories to learn from in which nobody goes to certain places, and questions of a
    test whose answers are just these.
    """

    def stories(self, task, part):
        every = chapter.told.stories(task, part)
        if part == "test":
            return [s for s in every if (s.question[-1], s.answer) in HELD_OUT]
        return [s for s in every if not pairs(s) & HELD_OUT]


class AsMany(Without):
    """The same questions, and as many stories to learn from, of all kinds."""

    def stories(self, task, part):
        found = super().stories(task, part)
        if part == "train":
            return chapter.told.stories(task, part)[: len(found)]
        return found


def pairs(story):
    """Who goes where in a story."""
    return {(text[0], text[-1]) for text in story.sentences}


@claim(
    lambda n: (
        n["new pairs, pairs seen before"].high == 0
        and n["new pairs, stories"] == n["control, stories"]
        and min(n[k].low for k in n if k.startswith("new pairs, wrong")) > 35
        and n["new pairs, wrong"].high < 65
        and n["new pairs, wrong, three times the rate"].high < 65
        and n["control, wrong"].high < 5
        and n["control, wrong, three times the rate"].high < 5
        and n["control, wrong, a third the rate"].low > 35
    ),
    show=".0f",
)
def new_pairs():
    """In {new pairs, stories:.0f} stories to learn from, Mary never goes to the garden,
    John never to the kitchen and Sandra never to the office. Asked for these pairs,
    three copies are wrong in {new pairs, wrong:.0f} of 100 questions; after as many
    stories in which they do go there, in {control, wrong:.0f}. At three times the rate
    it is {new pairs, wrong, three times the rate:.0f} and
    {control, wrong, three times the rate:.0f}, at a third of the rate
    {new pairs, wrong, a third the rate:.0f} and
    {control, wrong, a third the rate:.0f}, for there the control learns too slowly as
    well.

    So it has read each name and each place, and still gets, at the two rates at which
    the control learns, four to six of ten questions about new pairs wrong.
    """
    found = {}
    for name, stories in (("new pairs", Without()), ("control", AsMany())):
        reading = chapter.ex.Reading(stories, 1, chapter.newest_first)
        seen = {pair for s in reading.stories["train"] for pair in pairs(s)}
        network = chapter.OneHop(reading.arrays["train"][0].shape[-1])
        found |= {
            f"{name}, stories": len(reading.stories["train"]),
            f"{name}, questions": len(reading.stories["test"]),
            f"{name}, pairs seen before": len(seen & HELD_OUT),
            f"{name}, wrong": 100 * chapter.train(reading, network)[-1],
        }
        for which, rate in (("a third", RATE / 3), ("three times", 3 * RATE)):
            network = chapter.OneHop(reading.arrays["train"][0].shape[-1])
            errors = chapter.train(reading, network, rate)[-1]
            found[f"{name}, wrong, {which} the rate"] = 100 * errors
    return found


@claim(
    lambda n: n["of 3"].high < n["of 10"].low and n["of 10"].high < n["of 30"].low,
    show=".1f",
)
def long_enough():
    """The share passes nine tenths at a length of {of 3:.1f} with three memories,
    {of 10:.1f} with ten and {of 30:.1f} with thirty, with each of three seeds.
    """
    lengths = np.linspace(0.5, 6, 56)
    found = {}
    for N in (3, 10, 30):
        shares = [one_hop.share_of_the_first(N, lengths, seed) for seed in range(3)]
        found[f"of {N}"] = [lengths[np.argmax(each >= 0.9)] for each in shares]
    return found
