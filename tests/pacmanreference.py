"""MiniPacman once more: one level at a time, in plain Python, slow and obvious.

It shares nothing with tinyrmc.environments but the meaning of the random numbers, which
MiniPacman's docstring states.
"""

from __future__ import annotations

import numpy as np

HEIGHT, WIDTH = 15, 19
# rows -> their open columns, ends included
OPEN = {
    (1, 13): [(1, 3), (5, 13), (15, 17)],
    (2, 4, 10, 12): [(1, 1), (3, 3), (5, 5), (13, 13), (15, 15), (17, 17)],
    (3, 11): [(1, 17)],
    (5, 9): [(1, 1), (3, 15), (17, 17)],
    (6, 8): [(1, 1), (6, 6), (12, 12), (17, 17)],
    (7,): [(1, 6), (12, 17)],
}
CELLS = sorted(
    (row, column)
    for rows, columns in OPEN.items()
    for row in rows
    for first, last in columns
    for column in range(first, last + 1)
)

OPEN_CELLS = set(CELLS)

# an action -> where it leads; ghosts' directions are one more than the action
MOVES = {0: (0, 0), 1: (0, 1), 2: (-1, 0), 3: (0, -1), 4: (1, 0)}
REVERSE = {2: 4, 3: 5, 4: 2, 5: 3, 0: 2, 1: 3}

WALL, FLOOR, FOOD, PILL, PACMAN = (1, 1, 1), (0, 0, 0), (0, 0, 1), (0, 1, 1), (0, 1, 0)


def choose(u, things):
    """One of the things; the product is rounded to float32, as u is."""
    return things[min(int(np.float32(u) * np.float32(len(things))), len(things) - 1)]


def step_from(cell, action):
    after = cell[0] + MOVES[action][0], cell[1] + MOVES[action][1]
    return after if after in OPEN_CELLS else cell


class Ghost:
    def __init__(self, number, cell, direction):
        self.number, self.cell, self.direction = number, cell, direction


class Game:
    """One game. `start` and `step` are given the random numbers of this game."""

    def __init__(self, frame_cap=3000):
        self.frame_cap = frame_cap

    def start(self, u, level=1):
        self.frame = 0
        self.begin_level(level, u)
        self.draw()

    def begin_level(self, level, u):
        self.level, self.power = level, 0
        self.food = set(CELLS)
        self.pills = [choose(u[0], CELLS), choose(u[1], CELLS)]
        self.pacman = row, column = choose(u[2], CELLS)
        # the box around Pacman, in which no ghost begins, is a bit lopsided
        box = [(row + r, column + c) for r in range(-5, 5) for c in range(-5, 5)]
        safe = [cell for cell in CELLS if cell not in box]
        begins = [(cell, direction) for cell in safe for direction in range(4)]
        self.ghosts = [
            Ghost(k, *choose(u[3 + k], begins))
            for k in range(min(12, (level + 1) // 2))
        ]

    def step(self, action, u):
        """Returns the reward, and whether Pacman died and whether time is up.

        u holds 12 numbers for ghosts and then those of a level that may begin.
        """
        self.reward, self.dead, self.after = 0, False, u[12:]
        self.frame += 1
        self.power = max(0, self.power - 1)
        self.move_pacman(action)
        for ghost in list(self.ghosts):
            if self.ghost_catches_or_is_caught(ghost):
                break
            if u[ghost.number] < self.speed():
                self.move_ghost(ghost, u[ghost.number])
                if self.ghost_catches_or_is_caught(ghost):
                    break
        self.draw()
        return self.reward, self.dead, self.frame >= self.frame_cap and not self.dead

    def move_pacman(self, action):
        self.pacman = step_from(self.pacman, action)
        if self.pacman in self.food:
            self.food.remove(self.pacman)
            self.reward += 1
            if not self.food:
                self.begin_level(self.level + 1, self.after)
        if self.pacman in self.pills:
            self.pills.remove(self.pacman)  # one of them
            self.reward += 2
            self.power = 20

    def ghost_catches_or_is_caught(self, ghost):
        """Whether this ghost was caught. If it catches Pacman all goes on."""
        if ghost.cell != self.pacman:
            return False
        if not self.power:
            self.dead = True
            return False
        self.reward += 5
        self.ghosts.remove(ghost)
        return True

    def speed(self):
        speed = 0.5 + 0.1 * (self.level - 1)
        return np.float32(min(1, speed / 2 if self.power else speed))

    def move_ghost(self, ghost, u):
        exits = [d for d in (2, 3, 4, 5) if step_from(ghost.cell, d - 1) != ghost.cell]
        back = REVERSE[ghost.direction]
        if len(exits) == 2:
            if ghost.direction not in exits:
                ghost.direction = exits[1] if exits[0] == back else exits[0]
        elif ghost.cell != self.pacman:
            exits = [d for d in exits if d != back]
            ghost.direction = self.direction_at_junction(ghost.cell, exits, u)
        # directions 0 and 1 are the end and the beginning of a list of moves
        action = 4 if ghost.direction == 0 else ghost.direction - 1
        ghost.cell = step_from(ghost.cell, action)

    def direction_at_junction(self, cell, exits, u):
        rows, columns = self.pacman[0] - cell[0], self.pacman[1] - cell[1]
        nearing = {d: MOVES[d - 1][0] * rows + MOVES[d - 1][1] * columns for d in exits}
        if self.power:
            return min(exits, key=nearing.get)  # the first of equal ones
        # 5 % of the moves, where it moves at all
        astray = np.float32(0.05 * min(1, 0.5 + 0.1 * (self.level - 1)))
        if u < astray:
            return exits[int(u / astray * np.float32(6)) * len(exits) // 6]
        return max(exits, key=nearing.get)

    # --- The picture ------------------------------------------------------------------

    def draw(self):
        """The picture: colours from 0 to 1 of (row, column); outside it is all wall."""
        self.image = dict.fromkeys(CELLS, FLOOR)
        self.image |= dict.fromkeys(self.food, FOOD)
        self.image |= dict.fromkeys(self.pills, PILL)
        self.image |= {g.cell: (1, self.power / 20, 0) for g in self.ghosts}
        self.image[self.pacman], self.drawn_at = PACMAN, self.pacman

    def picture(self, whole):
        """Rows of colours: the whole maze, or 5 x 5 cells around Pacman as drawn."""
        row, column = self.drawn_at
        rows = range(HEIGHT) if whole else range(row - 2, row + 3)
        columns = range(WIDTH) if whole else range(column - 2, column + 3)
        return [[self.image.get((r, c), WALL) for c in columns] for r in rows]
