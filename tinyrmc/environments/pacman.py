"""MiniPacman: collect food in a maze, hunted by ghosts, and see 5 x 5 cells of it.

The game of Weber et al. (2017), "Imagination-augmented agents", by the rules of its
released program. The RMC's paper shows it through a viewport (section 4.2). A level
begins with food on all cells, two power pills and 1, 1, 2, 2, 3, ... ghosts. While a
pill works, 20 steps, the ghosts flee, slowly, and can be eaten.

Where the order of things matters, a step goes: power counts down; Pacman moves and eats
the food and one pill; then the ghosts in turn, each of which meets him before it moves
or after it. Passing each other does not count as meeting. Only one ghost can be eaten a
step, and those after it then wait. When a level is cleared the next one begins at once,
in the midst of the step.
"""

from __future__ import annotations

import functools
import operator

import numpy as np

from ..backend import Array, namespace, to_host
from ..errors import check_choice, check_sizes, counted
from . import drawing, maze
from .maze import CELLS, CHANCES, DIRECTIONS, FAR, GONE, HEIGHT, SIDES, VIEWPORT, WIDTH
from .world import VIEWS, Codes, Outcome, State, World, pick, renew

WALL, FLOOR, FOOD, PILL, GHOST, PACMAN = range(6)  # what `observe` shows of a cell
# A board's numbers hold the first four in two bits; two more tell what is beneath.
SEEN = 3
SECOND_PILL = 4
HIDDEN_FOOD = 8
COLOURS = [
    (255, 255, 255),
    (0, 0, 0),
    (0, 0, 255),
    (0, 255, 255),
    (255, 0, 0),  # and the more green, the more power is left
    (0, 255, 0),
]
_SIGNS = "#.·oMC"

GHOSTS = 12  # at most; see MiniPacman
POWER = 20  # steps, the one that eats the pill included
PILLS = 2
PILL_WORTH, GHOST_WORTH = 2, 5  # rewards; a food is worth 1
RANDOM_TURNS = 0.05
_STEADY = 16  # from this level on even fleeing ghosts move in every step

# the random numbers of a level: its pills, Pacman, its ghosts
_START = PILLS + 1 + GHOSTS


class MiniPacman(World):
    """MiniPacman, seen through a viewport or as a whole.

    A food brings 1, a pill 2, a ghost that is eaten 5. A level is cleared when all food
    is eaten. (The released game calls this mode regular; its four others are not here.)

    Args:
        view: "viewport" shows the 5 x 5 cells around Pacman, "whole" the maze (15, 19).
        limit: steps after which an episode is truncated. Death terminates it.
        viewport: side of the window: 5, as in the paper, 3 or 1.

    An observation has `view`, the codes WALL .. PACMAN of the cells, where what is in
    front hides the rest and outside the maze all is wall; and `power`, the steps that
    are left of it. `pixels` turns them into colours.

    The state has `board` (B, 17 * 21), what lies on each place; `pacman` (B,), his
    cell; `ghosts` (B, 12), their headings; `food` (B,), how many are left; `level`,
    `power`, and `frame`, the steps of the episode. `maze` says how cells and headings
    are numbered.

    Random numbers of a step: one a ghost, then those of a level that may begin. A
    ghost's number u decides its whole turn: it moves if u is below its speed, and if u
    is below 5 % of its speed, and it does not flee, it takes a random way at a
    junction. Those of a level are the cells of two pills and of Pacman, then for each
    ghost one of its cells and directions. If a step both begins a level and ends the
    episode, the next episode begins with the same numbers.

    Unlike in the released game there are never more than 12 ghosts.
    """

    action_names = ("stay", "right", "up", "left", "down")
    signs = "C you   M ghost   · food   o pill   # wall"
    legend = (
        "Green: Pacman. Red: ghosts, yellower while they can be eaten. Blue: food. "
        "Light blue: pills. White: walls. Black: floor."
    )
    noise = GHOSTS + _START
    start_noise = _START

    def __init__(
        self,
        view: str = "viewport",
        limit: int = 3000,
        viewport: int = VIEWPORT,
    ):
        check_choice("MiniPacman", "viewport", viewport, 1, 3, VIEWPORT)
        check_choice("MiniPacman", "view", view, *VIEWS)
        check_sizes("MiniPacman", limit=limit)
        self.view = view
        self.limit = limit
        self.viewport = viewport
        shape = (HEIGHT, WIDTH) if view == "whole" else (viewport, viewport)
        self.observation = {"view": Codes(shape, PACMAN), "power": Codes((), POWER)}
        self.constants = maze.tables(viewport) | _tables(viewport)

    # --- The rules --------------------------------------------------------------------

    def _start(self, noise: Array) -> State:
        first = namespace(noise).ones(len(noise), np.int32)
        return {"frame": 0 * first, **self._level(noise, first)}

    def _level(self, noise: Array, level: Array) -> State:
        """All but the frame at the start of levels of these numbers (B,)."""
        xp = namespace(noise)
        tables, rows = self.on(xp), xp.arange(len(noise))
        cells = pick(noise[:, : PILLS + 1], CELLS)  # (B, 3): the pills, and Pacman
        board = tables["board"][0 * rows]
        for k in range(PILLS):  # one after the other: they may lie on one cell
            place = tables["place"].take(cells[:, k])
            board[rows, place] = tables["pill_laid"].take(board[rows, place])
        pacman = cells[:, PILLS]
        # a ghost takes one of the safe cells and one of four directions
        free = tables["safe_count"].take(pacman)[:, None]
        chosen = pick(noise[:, PILLS + 1 :], 4 * free)  # (B, 12)
        longest = tables["safe"].shape[0] // CELLS
        cells = tables["safe"].take(pacman[:, None] * longest + chosen // 4)
        there = xp.arange(GHOSTS) <= (level[:, None] - 1) // 2
        return {
            "board": board,
            "pacman": pacman,
            "ghosts": xp.where(there, cells * DIRECTIONS + chosen % 4, GONE),
            "food": xp.full_like(level, CELLS),
            "level": level,
            "power": xp.zeros_like(level),
        }

    def _step(
        self, state: State, actions: Array, noise: Array, keep_final: bool
    ) -> Outcome:
        state["frame"] += 1
        state["power"] -= state["power"] > 0
        ate, got = self._move_pacman(state, actions, noise)
        dead, caught = self._move_ghosts(state, noise)
        reward = (ate + PILL_WORTH * got + GHOST_WORTH * caught).astype(np.float32)
        truncated = (state["frame"] >= self.limit) & ~dead
        final = {k: x.copy() for k, x in state.items()} if keep_final else None
        renew(state, dead | truncated, lambda rows: self._start(noise[rows, GHOSTS:]))
        return Outcome(reward, dead, truncated, final)

    def _next_level(self, state: State, cleared: Array, noise: Array) -> None:
        """Begin the next level where the last one is cleared."""

        def level(rows):
            return self._level(noise[rows, GHOSTS:], state["level"][rows] + 1)

        renew(state, cleared, level)

    def _move_pacman(
        self, state: State, actions: Array, noise: Array
    ) -> tuple[Array, Array]:
        """Pacman moves and eats. Returns whether it was food, whether a pill (B,)."""
        xp = namespace(noise)
        tables, rows = self.on(xp), xp.arange(len(noise))
        board, pacman = state["board"], state["pacman"]
        pacman[...] = tables["steps"].take(pacman * 5 + actions.astype(np.intp))
        place = tables["place"].take(pacman)
        here = board[rows, place]
        after = tables["food_eaten"].take(here)
        ate = after != here
        state["food"] -= ate
        board[rows, place] = after
        self._next_level(state, ate & (state["food"] == 0), noise)
        place = tables["place"].take(pacman)  # in a new level he is elsewhere
        after = board[rows, place]
        got = (after & SEEN) == PILL
        board[rows, place] = tables["pill_eaten"].take(after)
        xp.copyto(state["power"], POWER, where=got)
        return ate, got

    def _move_ghosts(self, state: State, noise: Array) -> tuple[Array, Array]:
        """The ghosts move. Returns whether Pacman died, and caught one of them (B,)."""
        xp = namespace(noise)
        count = self._most_ghosts(state)
        ghosts = state["ghosts"][:, :count]  # (B, G), as are the next four
        pacman = state["pacman"][:, None]
        powered = state["power"][:, None] > 0
        met = ghosts // DIRECTIONS == pacman
        moves, moved = self._turns(state, ghosts, noise[:, :count], powered | met)
        reached = moves & (moved // DIRECTIONS == pacman)
        touched = met | reached

        def meet(at):
            prey, touches = powered[at], touched[at]
            after = xp.arange(count) - touches.argmax(axis=1)[:, None]
            waiting = xp.where(after == 0, GONE, ghosts[at])
            left = xp.where(prey & (after >= 0), waiting, moved[at])
            return {
                "ghosts": left,
                "dead": ~prey[:, 0],
                "caught": prey[:, 0],
            }

        new: State = {"ghosts": moved}
        new |= {name: xp.zeros(len(noise), bool) for name in ("dead", "caught")}
        renew(new, functools.reduce(operator.or_, touched.T), meet)
        ghosts[...] = new["ghosts"]
        return new["dead"], new["caught"]

    def _turns(
        self, state: State, ghosts: Array, u: Array, steady: Array
    ) -> tuple[Array, Array]:
        """Which ghosts move, and their headings (B, G); the `steady` do not stray."""
        xp, tables = namespace(u), self.on(namespace(u))
        pacman = state["pacman"][:, None]
        powered = state["power"][:, None] > 0
        heading = (powered * (GONE + DIRECTIONS) + ghosts) * CELLS + pacman
        turned = tables["turns"].take(heading)
        level = xp.minimum(state["level"], _STEADY)[:, None]
        astray = tables["astray"].take(level)

        def wander(at):
            chance = (u / astray).reshape(-1)[at]
            chosen = ghosts.reshape(-1)[at] * CHANCES + pick(chance, CHANCES)
            return {"turned": tables["wanders"].take(chosen)}

        strays = (u < astray) & ~steady
        renew({"turned": turned.reshape(-1)}, strays.reshape(-1), wander)
        moves = u < tables["speeds"].take(level * 2 + powered)
        return moves, xp.where(moves, turned, ghosts)

    def _most_ghosts(self, state: State) -> int:
        """The most ghosts that a level has or, on a device, may have."""
        levels = state["level"]
        if namespace(levels) is not np:
            return GHOSTS
        return min(GHOSTS, 1 + (int(levels.max()) - 1) // 2)

    # --- What is seen -----------------------------------------------------------------

    def observe(self, state: State) -> dict[str, Array]:
        return {
            "view": self._view(state, self.view == "whole"),
            "power": state["power"].astype(np.uint8),
        }

    def _view(self, state: State, whole: bool) -> Array:
        """The codes of what is seen, uint8 (B, 5, 5), say, or (B, 15, 19)."""
        xp = namespace(state["pacman"])
        pacman = state["pacman"]
        tables, rows = self.on(xp), xp.arange(len(pacman))
        ghosts = state["ghosts"][:, : self._most_ghosts(state)] // DIRECTIONS
        if whole:
            board = state["board"] & SEEN
            board[rows[:, None], tables["place"].take(ghosts)] = GHOST
            board[rows, tables["place"].take(pacman)] = PACMAN
            return board.reshape(-1, *SIDES)[:, 1:-1, 1:-1]
        centre = rows * (SIDES[0] * SIDES[1]) + tables["place"].take(pacman)
        view = state["board"].reshape(-1).take(centre[:, None] + tables["around"])
        view &= SEEN
        spots = tables["spots"].take(ghosts * CELLS + pacman[:, None])
        view[rows[:, None], spots] = GHOST
        side = self.viewport
        view[:, side**2 // 2] = PACMAN  # on the spot of ghosts that are not seen
        return view.reshape(-1, side, side)

    def pixels(self, observed: dict[str, Array]) -> Array:
        """The colours of the released game (B, h, w, 3)."""
        view = observed["view"]
        tables = self.on(namespace(observed["view"]))
        picture = tables["colours"].take(view, axis=0)
        green = tables["green"].take(observed["power"])
        picture[..., 1] += (view == GHOST) * green[:, None, None]
        return picture

    def position(self, state: State) -> Array:
        return self.on(namespace(state["pacman"]))["places"][state["pacman"]]

    def rgb(self, state: State, whole: bool = False) -> Array:
        view = self._view(state, whole or self.view == "whole")
        return self.pixels({"view": view, "power": state["power"]})

    def text(self, state: State, row: int = 0, whole: bool = False) -> str:
        """One level for a terminal, and a line that names the power left."""
        one = {name: x[row : row + 1] for name, x in state.items()}
        codes = to_host(self._view(one, whole or self.view == "whole"))[0]
        lines = ["".join(_SIGNS[code] for code in line) for line in codes]
        power = int(to_host(one["power"])[0])
        picture = to_host(self.rgb(one, whole))[0]
        return f"{drawing.ansi(picture, lines)}\npower: {power}"

    def ending(self, outcome: Outcome, steps: str) -> str:
        assert outcome.final is not None
        cleared = int(outcome.final["level"][0]) - 1
        levels = f"{counted(cleared, 'level')} cleared"
        if outcome.truncated[0]:
            return f"out of steps (limit {self.limit}), {levels}"
        return f"caught after {steps}, {levels}"

    # --- A player who sees it all -----------------------------------------------------

    def scripted(self, state: State) -> Array:
        """Actions (B,) of a simple player who sees the whole maze, as a yardstick.

        It goes for the nearest food, keeps 2 cells away from ghosts, and while a pill
        works hunts them.
        """
        xp = namespace(state["pacman"])
        pacman = state["pacman"]
        tables = self.on(xp)
        distances = tables["distances"]
        after = tables["steps"].reshape(CELLS, 5).take(pacman, axis=0)  # (B, 5)
        ghosts = state["ghosts"] // DIRECTIONS
        to_ghost = distances[ghosts[:, None, :], after[:, :, None]].min(axis=2)
        board = state["board"].take(tables["place"][:CELLS], axis=1)
        wanted = tables["wanted"].take(board)[:, None]
        steps = distances.take(after, axis=0)  # (B, 5, cells)
        to_goal = xp.where(wanted, steps, FAR).min(axis=2)
        danger = xp.where(to_ghost < 2, 2 * FAR - to_ghost, 0)
        hunts = (state["power"][:, None] > 0) & (to_ghost < FAR)
        return xp.where(hunts, to_ghost, to_goal + danger).argmin(axis=1)


@functools.cache
def _tables(viewport: int) -> dict[str, np.ndarray]:
    """Tables that belong to the rules, the maze aside."""
    speed = 0.4 + 0.1 * np.arange(_STEADY + 1)
    both = np.minimum(np.stack([speed, speed / 2], axis=1), 1)
    board = np.full(SIDES, WALL, np.uint8)
    board.reshape(-1)[maze.tables()["place"][:CELLS]] = FOOD
    pill_on_food = PILL | HIDDEN_FOOD
    laid, food_eaten, pill_eaten = (np.arange(16, dtype=np.uint8) for _ in range(3))
    laid[[FOOD, pill_on_food]] = pill_on_food, pill_on_food | SECOND_PILL
    food_eaten[FOOD], food_eaten[HIDDEN_FOOD:] = FLOOR, range(8)
    pill_eaten[PILL], pill_eaten[pill_on_food] = FLOOR, FOOD
    for pill in PILL, pill_on_food:
        pill_eaten[pill | SECOND_PILL] = pill
    reach = np.arange(viewport) - viewport // 2
    return {
        "pill_laid": laid,  # these three: [what is on a board] -> what is there then
        "food_eaten": food_eaten,
        "pill_eaten": pill_eaten,
        "around": (reach[:, None] * SIDES[1] + reach).ravel(),  # places from the centre
        "board": board.reshape(1, -1),  # at the start of a level, without pills
        "places": np.array(maze.PLACES, np.uint8),  # row and column of each cell
        "speeds": both.astype(np.float32).ravel(),  # [level, powered]
        "astray": (RANDOM_TURNS * both[:, 0]).astype(np.float32),  # [level]
        "colours": np.array(COLOURS, np.uint8),  # [code]
        "green": (np.arange(POWER + 1) * 255 // POWER).astype(np.uint8),  # [power]
        # [what is on a board] -> whether there is food
        "wanted": (np.arange(16) == FOOD) | (np.arange(16) >= HIDDEN_FOOD),
    }
