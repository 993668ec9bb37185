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


class Player:
    """One player of one level, which forgets nothing: all it saw, in a dict by cell."""

    def __init__(self, grid, viewport=5):
        self.reach, edge = viewport // 2, (0, grid - 1)
        cells = [(r, c) for r in range(grid) for c in range(grid)]
        self.seen = {x: "wall" for x in cells if x[0] in edge or x[1] in edge}
        self.within = set(cells)

    def look(self, level):
        row, column = level.player
        for r in range(row - self.reach, row + self.reach + 1):
            for c in range(column - self.reach, column + self.reach + 1):
                if (r, c) in self.within:
                    self.seen[r, c] = level.look(r, c)

    def goals(self, held, sweep=False):
        """The cells it would like to reach, any of them."""
        things = {x: s for x, s in self.seen.items() if s not in ("wall", "floor")}
        boxes = {}  # content -> (lock, where that is)
        for (r, c), content in things.items():
            if (r, c + 1) in things and (r, c - 1) not in things:
                boxes[content] = things[r, c + 1], (r, c + 1)
            beside = [self.seen.get((r, c + side)) for side in (-1, 1)]
            if held is None and all(s in ("wall", "floor") for s in beside):
                return {(r, c)}
        content = "gem"
        while content in boxes:
            lock, where = boxes[content]
            if lock == held:
                return {where}
            content = lock
        unknown = {
            cell
            for cell in self.within - self.seen.keys()
            if any(self.seen.get(near) == "floor" for near in beside_cell(cell))
        }
        return set(sorted(unknown, key=self.place_in_sweep)[:1]) if sweep else unknown

    def place_in_sweep(self, cell):
        row, column = cell
        band = (row - 1) // (2 * self.reach + 1)
        return band, column if band % 2 == 0 else -column, row

    def first_steps(self, player, held, sweep=False):
        """For each move, whether it is on a shortest way to one of the goals."""
        goals = self.goals(held, sweep)
        lengths = [self.steps(cell, goals) for cell in beside_cell(player)]
        return [
            x is not None and x == min(y for y in lengths if y is not None)
            for x in lengths
        ]

    def steps(self, cell, goals):
        """How many steps from a cell to the nearest goal over what may be floor."""
        ways, queue = {cell: 0}, deque([cell])
        while queue:
            cell = queue.popleft()
            if cell in goals:
                return ways[cell]
            if self.seen.get(cell, "floor") == "floor":
                for near in beside_cell(cell):
                    if near in self.within and near not in ways:
                        ways[near] = ways[cell] + 1
                        queue.append(near)
        return None


def beside_cell(cell):
    return [(cell[0] + down, cell[1] + right) for down, right in MOVES]


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
