"""BoxWorld in plain Python, one level at a time: slow, and easy to check by eye.

Nothing here comes from the world under test. A level is read from the picture a person
would draw: a dict from cell to what lies there. `boxes_of` reads a level's arrays.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

MOVES = [(-1, 0), (1, 0), (0, -1), (0, 1)]  # up, down, left, right


class Level:
    """One level being played.

    `things` has what lies on the floor: {(row, column): ("key", colour), ("gem",),
    ("lock", colour) or ("trap", colour)}; `side` cells of floor each way, walls around.
    """

    def __init__(self, side, things, player, limit=120):
        self.side, self.things, self.player = side, dict(things), player
        self.held, self.steps, self.limit = None, 0, limit

    def step(self, action):
        """(reward, terminated, truncated)"""
        self.steps += 1
        reward, over = self._walk(MOVES[action])
        return reward, over, not over and self.steps > self.limit

    def _walk(self, move):
        row, column = self.player[0] + move[0], self.player[1] + move[1]
        if not (1 <= row <= self.side and 1 <= column <= self.side):
            return 0, False
        thing = self.things.get((row, column))
        reward, over = 0, False
        if thing is not None:
            if thing[0] in ("lock", "trap"):
                if self.held != thing[1]:
                    return 0, False
                self.held = None
                reward, over = (1, False) if thing[0] == "lock" else (-1, True)
            else:
                right = self.things.get((row, column + 1))
                if right is not None and right[0] in ("lock", "trap"):
                    return 0, False
                if thing[0] == "gem":
                    reward, over, self.held = 10, True, None
                else:
                    self.held = thing[1]
            del self.things[row, column]
        self.player = row, column
        return reward, over

    def look(self, row, column):
        """The look of a cell: "wall", "floor", "gem" or a colour's number."""
        if not (1 <= row <= self.side and 1 <= column <= self.side):
            return "wall"
        thing = self.things.get((row, column), ("floor",))
        return thing[1] if len(thing) == 2 else thing[0]


def solve(level):
    """The fewest steps to the gem, without opening a distractor; None: there is no way.

    Searches over (where you are, what you hold, what is left), by walks from one thing
    to the next.
    """
    start = level.player, level.held, frozenset(level.things.items())
    best, queue = {start: 0}, deque([start])
    found = None
    while queue:
        state = queue.popleft()
        for steps, after, won in _next(level.side, state):
            steps += best[state]
            if won:
                found = steps if found is None else min(found, steps)
            elif steps < best.get(after, 10**9):
                best[after] = steps
                queue.append(after)
    return found


def _next(side, state):
    """(steps, state, won) for each thing that can be walked onto first from here."""
    player, held, left = state
    things = dict(left)
    seen, queue = {player: 0}, deque([player])
    while queue:
        cell = queue.popleft()
        for move in MOVES:
            to = cell[0] + move[0], cell[1] + move[1]
            if to in seen or not (1 <= to[0] <= side and 1 <= to[1] <= side):
                continue
            seen[to] = seen[cell] + 1
            if to not in things:
                queue.append(to)
                continue
            one = Level(side, things, cell)
            one.held = held
            reward, over = one._walk(move)
            if one.player == to and reward != -1:
                after = one.player, one.held, frozenset(one.things.items())
                yield seen[to], after, over


class Box(NamedTuple):
    """One box of a level, or the loose key."""

    lock: int  # colour; 0: none, this is the loose key
    content: int  # colour; 0: the gem
    row: int  # of the content, on the board; the lock is to its right
    column: int
    trap: bool  # of a distractor
    after: int  # where among the items its key lies; -1 for the loose key


def boxes_of(levels, row):
    """The items of one of `Levels`: its tree of keys and locks."""
    grid, trunk = levels.board.shape[-1], 1 + levels.problem.solution_length[1]
    found = []
    holders = {}  # key of the solution -> the item that holds it
    for k in np.flatnonzero(levels.present[row]).tolist():
        lock, content = int(levels.lock[row, k]), int(levels.content[row, k])
        deeper = k >= trunk and (k - trunk) % levels.problem.distractor_length[1]
        after = len(found) - 1 if deeper else holders.get(lock, -1)
        if k < trunk:
            holders[content] = len(found)
        at = divmod(int(levels.place[row, k]), grid)
        found.append(Box(lock, content, at[0], at[1], k >= trunk, after))
    return found
