"""A player of BoxWorld that forgets nothing: a script, for many levels at once.

It sees what an agent sees, the window around it, and keeps all of it. What it does next
follows from that alone:

    no key in hand          it takes the key, or the gem, that lies loose
    the gem's box known     back from there, box by box, to the one that its key opens:
                            it opens this one
    else                    it explores

In each case it goes the shortest way, by breadth-first search, on the assumption that
what it has not seen is floor. It never opens a box before it knows that the gem is at
the end. So what it solves within the limit shows what a memory that keeps everything
can reach at least.

    world = BoxWorld(keeps=True)
    state = world.start(rng.random((B, world.start_noise), np.float32))
    actions = scripted(world, state)
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..backend import Array, namespace
from ..errors import check_choice
from .box_levels import COLOUR, FLOOR, GEM
from .box_world import UNSEEN, BoxWorld, things
from .world import State

Exploration = Literal["nearest", "sweep"]


def scripted(
    world: BoxWorld, state: State, exploration: Exploration = "nearest"
) -> Array:
    """The player's action in each level (B,), the first of its `first_steps`."""
    return first_steps(world, state, exploration).argmax(axis=1)


def first_steps(
    world: BoxWorld, state: State, exploration: Exploration = "nearest"
) -> Array:
    """The actions that begin a shortest way to where the player wants to go.

    bool (B, actions); none in a level where there is nothing left to find. The world
    must be one that `keeps` what was seen, or shows the whole board.

    exploration: "nearest" goes to the nearest cell that was not seen; "sweep" to the
        first of them in a fixed order: to and fro through the room, in bands as high as
        the window.
    """
    check_choice("first_steps", "exploration", exploration, "nearest", "sweep")
    xp = namespace(state["place"])
    place = state["place"]
    known = world.known(state)  # (B, S * S)
    goals = wanted(world, known, state["held"])
    # the unknown cells that a known way leads to
    open_floor = _grown(known == FLOOR)
    unknown = (known == UNSEEN) & open_floor
    if exploration == "sweep":
        order = world.on(xp)["sweep"]
        first = order[unknown[:, order].argmax(axis=1)]
        unknown &= xp.arange(known.shape[1]) == first[:, None]
    goals = xp.where(goals.any(axis=1)[:, None], goals, unknown)
    return _toward(world, goals, (known == FLOOR) | (known == UNSEEN), place)


def wanted(world: BoxWorld, known: Array, held: Array) -> Array:
    """The one cell (B, S * S) to go to next; none where that is not known yet."""
    xp = namespace(known)
    rows = len(known)
    cells = known.shape[1]
    thing, lock = things(known)
    boxed = thing & (lock > 0)
    cell = xp.arange(cells)
    # loose is what has floor or wall on both sides; unseen, there could be a lock
    bare = xp.zeros_like(thing)
    bare[:, 1:-1] = (known[:, 2:] < GEM) & (known[:, :-2] < GEM)
    goals = thing & bare & (held == 0)[:, None]
    content = xp.full(rows, GEM, known.dtype)
    for _ in range(world.problem.solution_length[1]):  # back from the gem
        box = boxed & (known == content[:, None])
        at = box.argmax(axis=1)
        content = lock[xp.arange(rows), at] * box.any(axis=1)
        opens = (content == held + COLOUR) & (held > 0)
        goals |= opens[:, None] & (cell == at[:, None] + 1)
        content = xp.where(opens, FLOOR, content)
    return goals


def _toward(world: BoxWorld, goals: Array, free: Array, place: Array) -> Array:
    """The first steps (B, actions) of the shortest ways to the nearest goal.

    From the goals on, all cells one step further count as reached, until the player
    stands next to some that are. On a device, which nothing may wait for, as many times
    as any way round boxes could need.
    """
    xp = namespace(goals)
    cells = goals.shape[1]
    beside = xp.arange(0, goals.size, cells)[:, None] + place[:, None]
    beside = beside + world.on(xp)["move"]  # (B, actions)
    steps, reached = xp.zeros(beside.shape, bool), goals.copy()
    for _ in range(4 * world.grid):
        near = reached.reshape(-1)[beside]
        steps |= near & ~steps.any(axis=1)[:, None]
        further = _grown(reached) & free | goals
        if xp is np and (steps.any(axis=1).all() or (further == reached).all()):
            break
        reached = further
    return steps


def _grown(cells: Array) -> Array:
    """These cells (B, S * S), and those beside them."""
    side, flat = round(cells.shape[1] ** 0.5), cells.reshape(-1)
    grown = flat.copy()
    for step in (1, side):  # between two rows, and two boards, are walls
        grown[step:] |= flat[:-step]
        grown[:-step] |= flat[step:]
    return grown.reshape(cells.shape)
