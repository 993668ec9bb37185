"""Stories made up on the spot, like those of bAbI's tasks 1, 2, 6, 15 and 16.

    told = corpora.GeneratedStories(questions=1000)
    told.stories(1, "train")[0]

Words, rules and supporting facts are those of the published files, and so, nearly, are
lengths and frequencies.

    1   people walk between rooms. Where is one of them?
    2   they also take things along and leave them. Where is a thing?
    6   as 2. Is somebody in this room?
    15  mice are afraid of wolves, and Gertrude is a mouse. What is she afraid of?
    16  Lily is a swan, Lily is white, and Greg is a swan. What colour is Greg?
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from .stories import PARTS, Story

GENERATED_TASKS = 1, 2, 6, 15, 16  # the tasks

PEOPLE = "john", "mary", "sandra", "daniel"
ROOMS = "bedroom", "kitchen", "garden", "hallway", "bathroom", "office"
THINGS = "apple", "football", "milk"
WALKED = "went to", "journeyed to", "travelled to", "moved to", "went back to"
TOOK = "got", "grabbed", "took", "picked up"
LEFT = "dropped", "left", "discarded", "put down"

AFRAID = "gertrude", "winona", "emily", "jessica"
KINDS = {"mouse": "mice", "wolf": "wolves", "cat": "cats", "sheep": "sheep"}

COLOURED = "lily", "bernhard", "brian", "julius", "greg"
ANIMALS = "frog", "lion", "rhino", "swan"
COLOURS = "gray", "green", "white", "yellow"
# How many of the five names share each animal, beginning with that of the name asked
# for; and how often, in the published task 16 of version 1.2.
SHARED = {
    (2, 2, 1): 0.598,
    (2, 1, 1, 1): 0.197,
    (4, 1): 0.096,
    (2, 3): 0.096,
    (5,): 0.013,
}
ALIKE = 0.55  # how often two of them, a pair, share a colour; else each has any
DECIDED = 0.85  # how often, if several have that animal, the answer's colour is last

QUESTIONS = 5  # of a story of tasks 1, 2 and 6, which could go on; of others fewer
DO = {"walk": 1.0, "take": 1.5, "leave": 1.2}  # weights, among what is possible
RECENT = 5  # last sentences; what is asked for was said, or done to the thing, there
CARRIED = 0.5  # how often a carried thing is among those that task 2 may ask for
THERE = 0.21  # how often it says "left the milk there"


@dataclass(frozen=True)
class GeneratedStories:
    """This many questions for each task, from a seed; `stories` is as in `Babi`."""

    questions: int = 1000
    seed: int = 0
    complete: list[int] = field(default_factory=lambda: [*GENERATED_TASKS], hash=False)

    def stories(self, task: int, part: str) -> list[Story]:
        """The questions of a task, in order; training and test text have other seeds.
        ValueError for a task that is not made up here.
        """
        if task not in GENERATED_TASKS:
            raise ValueError(
                f"stories of task {task} are not made up; {GENERATED_TASKS} are"
            )
        rng = np.random.default_rng([self.seed, task, PARTS.index(part)])
        told = (_TELL[task](rng, number) for number in itertools.count())
        each = (itertools.islice(story, QUESTIONS) for story in told)
        return [*itertools.islice(itertools.chain.from_iterable(each), self.questions)]


def _one(rng, things):
    return things[rng.integers(len(things))]


def _other(rng, things, than):
    return _one(rng, [thing for thing in things if thing != than])


# --- Tasks 1, 2 and 6: people, rooms and things ---------------------------------------


class _World:
    """Who is where, what has been said, and which sentence said so. People and things
    are in rooms from the start, but nobody is told which.
    """

    def __init__(self, rng):
        self.rng = rng
        self.said = []
        self.room = {each: _one(rng, ROOMS) for each in (*PEOPLE, *THINGS)}
        self.holder: dict[str, str] = {}  # of things
        self.walked: dict[str, int] = {}  # person -> the sentence of the last walk
        # thing -> the sentences that say where it is: what was done to it last, and the
        # last walk of the one who left it; None: it is not known
        self.left: dict[str, tuple[int, int] | None] = {}
        self.taken: dict[str, int] = {}

    def walk(self, who):
        self.room[who] = _other(self.rng, ROOMS, self.room[who])
        self.walked[who] = len(self.said)
        self._say(who, _one(self.rng, WALKED), "the", self.room[who])

    def act(self):
        """Somebody walks, takes or leaves something."""
        who = _one(self.rng, PEOPLE)
        rng = self.rng
        free = [thing for thing in THINGS if thing not in self.holder]
        here = [thing for thing in free if self.room[thing] == self.room[who]]
        held = [thing for thing in THINGS if self.holder.get(thing) == who]
        weights = DO["walk"], DO["take"] * bool(here), DO["leave"] * bool(held)
        do = [*DO][rng.choice(3, p=np.array(weights) / sum(weights))]
        if do == "walk":
            self.walk(who)
        elif do == "take":
            thing = _one(rng, here)
            self.holder[thing], self.taken[thing] = who, len(self.said)
            self.left.pop(thing, None)
            self._say(who, _one(rng, TOOK), "the", thing, "there")
        else:
            thing = _one(rng, held)
            del self.holder[thing], self.taken[thing]
            self.room[thing] = self.room[who]
            known = self.walked.get(who)
            self.left[thing] = None if known is None else (len(self.said), known)
            there = "there" * (rng.random() < THERE)
            self._say(who, _one(rng, LEFT), "the", thing, there)

    def _say(self, *parts):
        self.said.append(tuple(" ".join(parts).split()))

    def is_recent(self, fact):
        return fact >= len(self.said) - RECENT

    def somebody(self):
        """Somebody of whom a walk has just been told, or None."""
        known = [who for who, fact in self.walked.items() if self.is_recent(fact)]
        return _one(self.rng, known) if known else None

    def story(self, number, question, answer, *supporting):
        words = tuple(question.split())
        return Story(tuple(self.said), words, answer, supporting, number)


def _where_is_who(rng, number):
    world = _World(rng)
    while True:
        world.walk(_one(rng, PEOPLE))
        world.walk(_one(rng, PEOPLE))
        who = world.somebody()
        fact = world.walked[who]
        yield world.story(number, f"where is {who}", world.room[who], fact)


def _where_is_what(rng, number):
    world = _World(rng)
    while True:
        world.act()
        world.act()
        facts = {thing: facts for thing, facts in world.left.items() if facts}
        for thing, fact in world.taken.items():
            if world.holder[thing] in world.walked and rng.random() < CARRIED:
                facts[thing] = fact, world.walked[world.holder[thing]]
        if known := [thing for thing in facts if world.is_recent(facts[thing][0])]:
            thing = _one(rng, known)
            room = world.room[world.holder.get(thing, thing)]
            yield world.story(number, f"where is the {thing}", room, *facts[thing])


def _is_who_there(rng, number):
    world = _World(rng)
    while True:
        world.act()
        world.act()
        if (who := world.somebody()) is None:
            continue
        room = world.room[who]
        yes = rng.random() < 0.5
        if not yes:
            room = _other(rng, ROOMS, room)
        question = f"is {who} in the {room}"
        answer = "yes" if yes else "no"
        yield world.story(number, question, answer, world.walked[who])


# --- Tasks 15 and 16: what follows from what ------------------------------------------


def _what_is_feared(rng, number):
    kinds = [*KINDS]
    fears = {kind: _other(rng, kinds, kind) for kind in kinds}
    being = {name: _one(rng, kinds) for name in AFRAID}
    said: list[tuple[str, ...]] = []
    waiting = [*being, *kinds]
    while waiting:
        what = _one(rng, waiting)
        kind = being.get(what, what)
        fact = KINDS[kind], "are", "afraid", "of", KINDS[fears[kind]]
        if fact not in said:  # what a kind fears is told before who is of that kind
            said.append(fact)
            waiting.remove(kind)
        elif what in being:
            said.append((what, "is", "a", kind))
            waiting.remove(what)
    for _ in range(4):
        name = _one(rng, AFRAID)
        kind = being[name]
        supporting = (
            said.index((name, "is", "a", kind)),
            next(k for k, words in enumerate(said) if words[0] == KINDS[kind]),
        )
        question = "what", "is", name, "afraid", "of"
        yield Story(tuple(said), question, fears[kind], supporting, number)


def _which_colour(rng, number):
    shares = [*SHARED][rng.choice(len(SHARED), p=[*SHARED.values()])]
    while True:
        said, asked, facts = _induction(rng, shares)
        fact, _, colour = facts
        # others that share the animal, but have another colour, which is said later
        like = {words[0] for words in said if words[3:] == said[fact][3:]}
        later = any(
            words[0] in like and words[2] not in ("a", said[colour][2])
            for words in said[colour:]
        )
        if not later or rng.random() > DECIDED:
            break
    question = "what", "color", "is", asked
    yield Story(tuple(said), question, said[colour][2], facts, number)


def _induction(rng, shares):
    """(the nine sentences, the name that is asked for, which sentences answer it)."""
    order, unsaid = [], [*COLOURED] * 2  # of each name its animal, then its colour
    while unsaid:
        order.append(_one(rng, sorted(set(unsaid))))
        unsaid.remove(order[-1])
    asked = order.pop()  # the last sentence would be the answer
    others = [name for name in COLOURED if name != asked]
    names = [asked, *rng.permutation(others).tolist()]
    animals = np.repeat(rng.permutation(ANIMALS)[: len(shares)], shares).tolist()
    being = dict(zip(names, animals, strict=True))
    colours = {name: _one(rng, COLOURS) for name in names}
    if rng.random() < ALIKE:
        colours[names[2]] = colours[names[3]]
    said: list[tuple[str, ...]] = []
    for name in order:
        animal = name, "is", "a", being[name]
        said.append((name, "is", colours[name]) if animal in said else animal)
    fact = said.index((asked, "is", "a", being[asked]))
    # among those that share the animal, the one of whom it is said last
    like = [k for k, words in enumerate(said) if words[3:] == (being[asked],)]
    other = max(k for k in like if k != fact)
    name = said[other][0]
    return said, asked, (fact, other, said.index((name, "is", colours[name])))


_TELL = {
    1: _where_is_who,
    2: _where_is_what,
    6: _is_who_there,
    15: _what_is_feared,
    16: _which_colour,
}
