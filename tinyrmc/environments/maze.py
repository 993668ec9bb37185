"""The maze of MiniPacman and the tables its rules look up, so that nothing searches for
a way while the game runs.

The 138 open cells are numbered row by row. Number 138 is nowhere, for ghosts that are
not there. A board has 17 x 21 places, one more wall all around than the maze, so that a
viewport does not leave it; on a board, nowhere is the corner.

A ghost's heading is one number, cell * 6 + direction, with directions 2 right, 3 up, 4
left, 5 down. Directions 0 and 1 are those of the released game, which draws a ghost's
first direction from 0..3: at a junction they forbid the same way back as left and down
do, but they never lead straight on.
"""

import functools

import numpy as np

MAZE = """
###################
#...#.........#...#
#.#.#.#######.#.#.#
#.................#
#.#.#.#######.#.#.#
#.#.............#.#
#.####.#####.####.#
#......#####......#
#.####.#####.####.#
#.#.............#.#
#.#.#.#######.#.#.#
#.................#
#.#.#.#######.#.#.#
#...#.........#...#
###################
""".split()
HEIGHT, WIDTH = len(MAZE), len(MAZE[0])
SIDES = HEIGHT + 2, WIDTH + 2  # of a board: a wall more all around
PLACES = [(r, c) for r in range(HEIGHT) for c in range(WIDTH) if MAZE[r][c] == "."]
NUMBER = {place: cell for cell, place in enumerate(PLACES)}
CELLS = len(PLACES)
NOWHERE = CELLS

MOVES = [(0, 1), (-1, 0), (0, -1), (1, 0)]  # right, up, left, down
DIRECTIONS = 6
FIRST = 2  # the direction that is called right
GONE = NOWHERE * DIRECTIONS  # the heading of a ghost that is not there
VIEWPORT = 5  # rows and columns of it at most, with Pacman in the centre
NEAR = 5  # ghosts begin a level at least so far from Pacman, in rows or in columns
FAR = 1000  # steps: farther than anything
CHANCES = 6  # equally likely, for a ghost that strays among two or three ways


def neighbour(cell: int, way: int) -> int:
    """The cell one step along `MOVES[way]`; the cell itself before a wall."""
    (row, column), (down, right) = PLACES[cell], MOVES[way]
    return NUMBER.get((row + down, column + right), cell)


def options(cell: int, direction: int) -> list[int]:
    """The ways in MOVES among which a ghost chooses; one in a corridor."""
    ahead = (direction - FIRST) % 4  # directions 0 and 1 stand for left and down
    back = (ahead + 2) % 4
    exits = [way for way in range(4) if neighbour(cell, way) != cell]
    if len(exits) > 2:
        return [way for way in exits if way != back]
    if direction >= FIRST and ahead in exits:
        return [ahead]
    return [next(way for way in exits if way != back)]


@functools.cache
def tables(viewport: int = VIEWPORT) -> dict[str, np.ndarray]:
    """All tables, flat; the axes of each are named beside it."""
    turns, wanders = _ghost_tables()
    places = np.array(PLACES)
    board = (places + 1) @ [SIDES[1], 1]
    steps = [[c, *(neighbour(c, way) for way in range(4))] for c in range(CELLS)]
    # a ghost begins some way off; one row or column fewer is kept free below and to the
    # right of Pacman, as in the released game
    off = places - places[:, None]  # (Pacman's cells, cells, 2)
    safe = ~((off >= -NEAR) & (off < NEAR)).all(axis=2)
    chosen = [
        [*row, *[row[0]] * (safe.sum(1).max() - len(row))]
        for row in map(np.flatnonzero, safe)
    ]
    # in the viewport, what is out of sight is on Pacman's own spot
    away = off.transpose(1, 0, 2) + viewport // 2  # (cells, Pacman's cells, 2)
    seen = ((away >= 0) & (away < viewport)).all(axis=2)
    spots = np.where(seen, away @ [viewport, 1], viewport**2 // 2)
    nowhere = np.full((1, CELLS), viewport**2 // 2)
    return {
        "place": np.append(board, 0),  # [cell or nowhere] -> position on a board
        "steps": np.array(steps).ravel(),  # [cell, action] -> cell
        "turns": turns.ravel(),  # [powered, heading, Pacman's cell] -> heading
        "wanders": wanders.ravel(),  # [heading, one of 6 equal chances] -> heading
        # [Pacman's cell, k] -> the k-th cell where a ghost may begin
        "safe": np.array(chosen).ravel(),
        "safe_count": safe.sum(axis=1),  # [Pacman's cell]
        # [cell or nowhere, Pacman's cell]
        "spots": np.append(spots, nowhere, axis=0).astype(np.uint8).ravel(),
        "distances": _distances(),  # [cell or nowhere, cell] -> steps
    }


def _ghost_tables() -> tuple[np.ndarray, np.ndarray]:
    """Where ghosts turn when they chase and flee (2, headings, cells), and at random:
    the way with the largest dot product with the vector to Pacman, or the smallest.
    """
    turns = np.full((2, GONE + DIRECTIONS, CELLS), GONE, np.int16)
    wanders = np.full((GONE + DIRECTIONS, CHANCES), GONE, np.int16)
    places, moves = np.array(PLACES), np.array(MOVES)
    for heading in range(GONE):
        cell, direction = divmod(heading, DIRECTIONS)
        ways = options(cell, direction)
        after = np.array(
            [neighbour(cell, way) * DIRECTIONS + way + FIRST for way in ways]
        )
        towards = (places - places[cell]) @ moves[ways].T  # (cells, ways)
        turns[0, heading] = after[towards.argmax(axis=1)]
        turns[1, heading] = after[towards.argmin(axis=1)]
        wanders[heading] = after[np.arange(CHANCES) * len(ways) // CHANCES]
        if len(ways) > 1:
            # On Pacman's own cell there is no way to him: the direction stays. The
            # released game looks the move up in (stay, right, up, left, down) by
            # direction - 1, so direction 1 stays, and 0, the list's last, goes down.
            way = (direction - FIRST) % 4 if direction else 3
            to = cell if direction == 1 else neighbour(cell, way)
            turns[:, heading, cell] = to * DIRECTIONS + direction
    return turns, wanders


def _distances() -> np.ndarray:
    """Steps between cells, int16 (139, 138); nowhere is far from everything."""
    found = np.full((CELLS + 1, CELLS), FAR, np.int16)
    for cell in range(CELLS):
        found[cell, cell], edge, steps = 0, {cell}, 0
        while edge:
            steps += 1
            near = {neighbour(each, way) for each in edge for way in range(4)}
            edge = {each for each in near if found[cell, each] == FAR}
            found[cell, list(edge)] = steps
    return found
