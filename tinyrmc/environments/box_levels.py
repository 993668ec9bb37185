"""Levels of BoxWorld, made by the thousand.

A level is a tree of keys and locks in a room (Santoro et al. 2018, appendix A.3). Its
trunk is the solution: a loose key opens a lock, whose box holds the key of the next
lock, and so on to the gem. A distractor is a branch: its lock takes a key of the
solution, and what its box holds leads nowhere.

On the board a box is two cells, its content on the left and its lock on the right. A
cell is one byte. The low six bits say what you see: floor, wall, the gem, or a colour;
a key and a lock of one colour look alike. Two bits above say whether it is a lock, and
whether opening it is the mistake that ends the level.

The rules follow DeepMind's public original (pycolab, `box_world`), with three
exceptions. Boxes may lie in every cell with room around it. A level that does not fit
is placed anew rather than replaced by an easier one. And a distractor may hold any
colour that the solution does not use; the original leaves one of them out.
"""

from __future__ import annotations

import collections
import functools
from dataclasses import dataclass

import numpy as np

from ..errors import check_sizes
from .world import WorldError

FLOOR = 0
WALL = 1
GEM = 2
COLOUR = 2  # colour c, from 1 on, is seen as COLOUR + c
SEEN = 63  # the bits of what you see
LOCK, TRAP = 64, 128  # a lock of the solution, a lock of a distractor
MOST_COLOURS = SEEN - COLOUR - 1  # the code after the last colour is you, as seen

_AT_ONCE = 1024  # levels; what placing them needs stays in a second-level cache
_ATTEMPTS = 400  # at placing a level, the second half of them in the largest room

Range = tuple[int, int]


@dataclass(frozen=True)
class Problem:
    """The least and the most of what is drawn for each level, uniformly. Where a level
    does not fit into its room, another room is drawn.
    """

    solution_length: Range = (1, 5)  # locks, the gem's own included
    distractors: Range = (0, 5)  # branches that lead nowhere
    distractor_length: Range = (1, 1)  # boxes in each branch of a level
    room: Range = (12, 12)  # cells along a side, without the wall: the paper's 14 x 14
    colours: int = 20

    @property
    def boxes(self) -> int:
        """The most boxes a level can have."""
        return self.solution_length[1] + self.distractors[1] * self.distractor_length[1]

    def check(self) -> None:
        """WorldError if there are no such levels."""
        least = {"solution_length": 1, "distractors": 0, "distractor_length": 1}
        for name, bottom in {**least, "room": 5}.items():
            low, high = getattr(self, name)
            if high < low:
                raise WorldError(
                    f"{name} is (least, most): ({high}, {low}), not ({low}, {high})"
                )
            if low < bottom:
                asked = f"{low} to {high}" if low != high else f"{low}"
                raise WorldError(f"{name} must begin at {bottom} or more, not {asked}")
        side = self.room[1]
        if side > 60:
            raise WorldError(f"room must be at most 60, not {side}")
        needed = self.solution_length[1]
        if self.distractors[1]:
            needed += min(self.distractor_length[1], 2)
        if not needed <= self.colours <= MOST_COLOURS:
            raise WorldError(
                f"colours must be {needed} (what these solutions and distractors need) "
                f"to {MOST_COLOURS}, not {self.colours}"
            )
        # A box keeps others off 2 x 3 cells: its own, a column and a row beside them.
        if self.boxes > (side - 1) // 2 * ((side - 1) // 3):
            raise _no_room(self.boxes, side)


def _no_room(boxes: int, side: int) -> WorldError:
    return WorldError(
        f"{boxes} boxes do not fit into a room of {side} x {side} cells; ask for a "
        "shorter solution, fewer or shorter distractors, or a larger room"
    )


@dataclass(frozen=True)
class Levels:
    """P levels as arrays. K is the most items a level can have: the loose key, then the
    solution's boxes, then the distractors'. Cells are counted row by row.
    """

    problem: Problem
    # (P, G, G) uint8: the room in the upper left, walls around it; G = room + 2
    board: np.ndarray
    start: np.ndarray  # (P,) int64: the cell where the player begins
    room: np.ndarray  # (P,) int64: cells along a side of this level's room
    present: np.ndarray  # (P, K) bool
    lock: np.ndarray  # (P, K) uint8: its colour; 0 for the loose key
    content: np.ndarray  # (P, K) uint8: colour of the key inside; 0 for the gem
    place: np.ndarray  # (P, K) int64: cell of the content

    def __len__(self) -> int:
        return len(self.board)

    def guessed(self) -> np.ndarray:
        """The chance (P,) that a player solves a level by opening any of the boxes that
        the key in hand opens, each as likely as the others.
        """
        same = self.lock[:, :, None] == self.lock[:, None, :]  # (P, K, K)
        alike = (same & self.present[:, None, :]).sum(2)  # boxes with this lock
        solution = slice(1, 1 + self.problem.solution_length[1])
        passed = np.where(self.present, 1 / np.maximum(alike, 1), 1.0)
        return passed[:, solution].prod(1)

    def solution(self, row: int) -> list[int]:
        """The actions of a player who knows the tree: from lock to lock to the gem, the
        shortest way each time.
        """
        grid = self.board.shape[-1]
        board = self.board[row].reshape(-1).copy()
        cell = int(self.start[row])
        actions = []
        trunk = slice(1 + self.problem.solution_length[1])
        for k in np.flatnonzero(self.present[row, trunk]):
            key = int(self.place[row, k])
            for goal in (key + 1, key) if self.lock[row, k] else (key,):
                actions += _walk(board, cell, goal, grid)
                cell, board[goal] = goal, FLOOR
        return actions


def _walk(board: np.ndarray, start: int, goal: int, grid: int) -> list[int]:
    """The shortest way over floor, as actions. It may end on a key or a lock."""
    came: dict[int, tuple[int, int]] = {}
    queue = collections.deque([start])
    while goal not in came and start != goal:
        cell = queue.popleft()
        for action, move in enumerate((-grid, grid, -1, 1)):
            to = cell + move
            if to not in came and to != start and (board[to] == FLOOR or to == goal):
                came[to] = cell, action
                queue.append(to)
    actions = []
    while goal != start:
        goal, action = came[goal]
        actions.append(action)
    return actions[::-1]


@functools.lru_cache(maxsize=4, typed=True)  # True is no number, though equal to 1
def make(problem: Problem, count: int, seed: int = 0) -> Levels:
    """`count` levels. Those of a smaller count are the first of a larger one.
    WorldError if there can be no such level, or too rarely.
    """
    problem.check()
    check_sizes("BoxWorld", levels=count)
    check_sizes("BoxWorld", least=0, seed=seed)
    blocks = range(-(-count // _AT_ONCE))
    parts = [_make_some(problem, np.random.default_rng([seed, k])) for k in blocks]
    arrays = [np.concatenate(each)[:count] for each in zip(*parts, strict=True)]
    for array in arrays:
        array.flags.writeable = False  # several worlds may share them
    return Levels(problem, *arrays)


def _make_some(problem: Problem, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """The arrays of the levels that are made at once, in the order of `Levels`."""
    present, lock, content = _trees(problem, rng, _AT_ONCE)
    place, start, room = _places(problem, rng, present)
    grid = problem.room[1] + 2
    inside = np.arange(1, grid - 1) <= room[:, None]
    board = np.full((_AT_ONCE, grid, grid), WALL, np.uint8)
    floor = inside[:, :, None] & inside[:, None]
    board[:, 1:-1, 1:-1] = np.where(floor, np.uint8(FLOOR), np.uint8(WALL))
    trunk = 1 + problem.solution_length[1]
    kind = np.where(np.arange(present.shape[1]) < trunk, LOCK, TRAP)
    level, item = np.nonzero(present)
    cells = board.reshape(_AT_ONCE, -1)
    of_key, of_lock = content[level, item], lock[level, item]
    cells[level, place[level, item]] = np.where(of_key, COLOUR + of_key, GEM)
    boxed = of_lock > 0
    level, item = level[boxed], item[boxed]
    cells[level, place[level, item] + 1] = kind[item] | (COLOUR + of_lock[boxed])
    return board, start, room, present, lock, content, place


def _trees(
    problem: Problem, rng: np.random.Generator, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Who opens what: present, lock and content (count, K), see `Levels`. Keys are
    numbered along the solution, n of them; then each number is dealt a colour.
    """
    longest, most = problem.solution_length[1], problem.distractors[1]
    deepest = problem.distractor_length[1]

    def drawn(bounds: Range) -> np.ndarray:
        return rng.integers(bounds[0], bounds[1] + 1, (count, 1))

    n = drawn(problem.solution_length)
    branches, depth = drawn(problem.distractors), drawn(problem.distractor_length)
    trunk = np.arange(longest + 1)
    keys = np.where(trunk < n, trunk, -1)  # the gem has no number
    there = [trunk <= n]
    locks = [trunk - 1 + 0 * n]
    contents = [keys]
    others = problem.colours - n
    for branch in range(most):
        lock = rng.integers(0, n)
        for level in range(deepest):
            # any key but those of the solution and, deeper down, this lock's own
            content = n + rng.integers(0, others if level == 0 else others - 1)
            content += (level > 0) & (content >= lock)
            there.append((branch < branches) & (level < depth))
            locks.append(lock)
            contents.append(content)
            lock = content
    colours = np.zeros((count, problem.colours + 1), np.uint8)  # the last for number -1
    colours[:, :-1] = rng.random((count, problem.colours), np.float32).argsort(1) + 1
    present, of_lock, of_key = (np.hstack(each) for each in (there, locks, contents))
    return (
        present,
        np.take_along_axis(colours, of_lock, 1) * present,
        np.take_along_axis(colours, of_key, 1) * present,
    )


def _places(
    problem: Problem, rng: np.random.Generator, present: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the items lie (count, K), where the player starts and the rooms (count,).

    Each item gets a cell drawn uniformly among those where a box has floor all around,
    so all floor is connected. A level with no such cell left is placed again.
    """
    (smallest, largest), (count, items) = problem.room, present.shape
    place = np.zeros((count, items), np.int64)
    start, room = np.zeros((2, count), np.int64)
    row, column = np.divmod(np.arange((largest + 2) ** 2), largest + 2)
    todo = np.arange(count)
    for attempt in range(_ATTEMPTS):
        low = smallest if attempt < _ATTEMPTS // 2 else largest
        sides = rng.integers(low, largest + 1, len(todo))
        priority = rng.random((len(todo), (largest + 2) ** 2), np.float32)
        found, cells = _place(priority, sides, present[todo], largest + 2)
        done = todo[found]
        place[done], room[done] = cells[found], sides[found]
        # the player begins on the floor, each cell of it equally likely
        side = room[done, None]
        free = (row >= 1) & (row <= side) & (column >= 1) & (column <= side)
        level, item = np.nonzero(present[done])
        cell = place[done[level], item]
        free[level, cell] = free[level, cell + (item > 0)] = False
        start[done] = np.where(free, rng.random(free.shape, np.float32), -1).argmax(1)
        todo = todo[~found]
        if not len(todo):
            return place, start, room
    raise _no_room(int(present[todo].sum(1).max()) - 1, largest)


def _place(
    priority: np.ndarray, sides: np.ndarray, present: np.ndarray, grid: int
) -> tuple[np.ndarray, np.ndarray]:
    """Whether all items of a level found a place (count,), and the places (count, K).

    priority (count, G * G): random numbers, OVERWRITTEN. An item takes the free cell
    with the highest one.
    """
    count, items = present.shape
    row, column = np.divmod(np.arange(grid * grid), grid)
    side = sides[:, None]
    # the content's cell: floor on its left, above, below, and right of its lock. The
    # loose key's too: it has none, but pycolab gives it a cell where a box would fit.
    free = (row >= 2) & (row <= side - 1) & (column >= 2) & (column <= side - 2)
    priority[~free] = -1
    # Too near is a row or less above or below, and two columns or less to a side.
    near = (np.arange(-1, 2)[:, None] * grid + np.arange(-2, 3)).reshape(-1)
    every, found = np.arange(count), np.ones(count, bool)
    place = np.zeros((count, items), np.int64)
    for item in range(items):
        place[:, item] = cell = priority.argmax(1)
        fits = priority[every, cell] >= 0
        found &= fits | ~present[:, item]
        rows = np.flatnonzero(fits & present[:, item])
        # the loose key has no lock, and so does not reach as far to its right
        around = near if item else near[near % grid != 2]
        priority[rows[:, None], cell[rows, None] + around] = -1
    return found, place * present
