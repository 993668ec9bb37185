"""BoxWorld as an array program: keys, locks, and a gem in the innermost box.

Santoro et al. 2018, section 4.2 and appendix A.3; the rules are those of DeepMind's
public original (pycolab, `box_world`), levels those of `box_levels`. You walk up, down,
left and right through a room. Walking onto a loose key takes it, and the one you held
is gone for good. Walking onto a lock opens it, if you hold its key: lock and key are
gone, and the content of the box, to the left of the lock, lies loose. The gem ends the
level, and so does opening a distractor.

What happens in a step, in this order:

    the steps of the level go up by one
    you walk, unless a wall, a closed box or a lock without its key is in the way
    +1 for opening a lock of the solution, -1 for one of a distractor, +10 for the gem
    after the gem or a distractor the level is over (terminated)
    else it is over when its steps are more than the limit (truncated)

So with a limit of 120 a level has up to 121 steps, as in the original.
"""

from __future__ import annotations

import colorsys
import string
from typing import Any

import numpy as np

from ..backend import Array, namespace, to_host
from ..errors import check_choice, check_sizes, is_integer
from . import box_levels, drawing
from .box_levels import COLOUR, FLOOR, GEM, LOCK, SEEN, TRAP, WALL, Problem
from .world import Codes, Outcome, State, World, WorldError, affected, pick, renew

LETTERS = ".#*" + string.ascii_letters + string.digits  # of what you see


def palette(colours: int) -> np.ndarray:
    """RGB of what you see, uint8 (64, 3), in the hues of the original."""
    rgb = np.zeros((SEEN + 1, 3), np.uint8)
    you = COLOUR + colours + 1
    rgb[FLOOR], rgb[WALL], rgb[GEM], rgb[you] = 204, 0, 255, 127
    circle = [colorsys.hsv_to_rgb(k / colours, 0.5, 0.7) for k in range(colours)]
    rgb[COLOUR + 1 : you] = np.round(255 * np.array(circle))
    return rgb


class BoxWorld(World):
    """Levels of keys, locks and distractors, seen through a window around you.

    Args:
        solution_length: locks from the loose key to the gem, its own included. Like the
            next three, a number, or the least and the most for each level to draw from.
        distractors: branches that lead nowhere.
        distractor_length: boxes in each of them.
        room: cells along a side of the room, without the wall. The board has the size
            of the largest one; a smaller room lies in its upper left.
        colours: of keys and locks.
        limit: steps after which one more ends the level.
        view: "viewport" shows a window around you, "whole" the board.
        viewport: side of that window, an odd number.
        levels: how many levels there are. Each new one is drawn from among these.
        seed: which levels. Two seeds have none in common except by chance.

    An observation has `view`, (V, V) of what you see (`box_levels` has the codes; lock
    and key look alike, and you are shown only on the whole board), `held`, the colour
    of your key or 0, and `position`, your row and column on the board.

    The state has `board` (B, S, S), with walls added around for the viewport, `place`
    (B,), your cell on it, `held` and `steps` (B,), and `level` (B,), the number of the
    level among the `levels`.

    ValueError for arguments that no level can have.
    """

    action_names = ("up", "down", "left", "right")
    signs = "@ you   # wall   * gem   a: a key   ab: key a in a box, which key b opens"
    legend = (
        "Dark grey: the player. White: the gem. A single colour: a key. Two side by "
        "side: a box, what is in it and its lock.\nIn the board's upper left corner: "
        "the key held."
    )
    noise = start_noise = 1  # which level

    def __init__(
        self,
        solution_length: int | tuple[int, int] = (1, 5),
        distractors: int | tuple[int, int] = (0, 5),
        distractor_length: int | tuple[int, int] = 1,
        room: int | tuple[int, int] = 12,
        colours: int = 20,
        limit: int = 120,
        view: str = "viewport",
        viewport: int = 5,
        levels: int = 20_000,
        seed: int = 0,
    ):
        check_sizes("BoxWorld", limit=limit, colours=colours, viewport=viewport)
        self.problem = Problem(
            _as_range("solution_length", solution_length),
            _as_range("distractors", distractors),
            _as_range("distractor_length", distractor_length),
            _as_range("room", room),
            colours,
        )
        self.limit, self.view, self.viewport = limit, view, viewport
        self.grid = self.problem.room[1] + 2
        check_choice("BoxWorld", "view", view, "viewport", "whole")
        if viewport % 2 == 0 or viewport > self.grid:
            raise WorldError(f"viewport must be odd, up to {self.grid}, not {viewport}")
        self.levels = box_levels.make(self.problem, levels, seed)
        self._margin = max(0, viewport // 2 - 1)  # walls beyond the wall
        self._side = self.grid + 2 * self._margin
        self.constants = self._constants()
        self.you = COLOUR + colours + 1  # how you look; the viewport leaves you out
        whole = view == "whole"
        width, highest = (self.grid, self.you) if whole else (viewport, self.you - 1)
        self.observation = {
            "view": Codes((width, width), highest),
            "held": Codes((), colours),
            "position": Codes((2,), self.grid - 2),
        }

    def _constants(self) -> dict[str, np.ndarray]:
        side, margin, reach = self._side, self._margin, self.viewport // 2
        around = ((0, 0), (margin, margin), (margin, margin))
        board = np.pad(self.levels.board, around, constant_values=WALL)
        row, column = np.divmod(self.levels.start, self.grid)
        near = np.arange(-reach, reach + 1)
        cells = np.indices((side, side)).reshape(2, -1).T - margin
        inside = np.clip(cells, 0, self.grid - 1).astype(np.uint8, order="C")
        return {
            "board": board,
            "start": (row + margin) * side + column + margin,
            "move": np.array([-side, side, -1, 1]),
            "window": near[:, None] * side + near,
            "position": inside.view(np.uint16)[:, 0],  # two bytes are looked up as one
            "palette": palette(self.problem.colours),
        }

    # --- The rules --------------------------------------------------------------------

    def start_levels(self, numbers: Array) -> State:
        """Begin the levels of these numbers (B,); what follows one of them is drawn."""
        if numbers.dtype.kind not in "iu":
            raise WorldError(f"levels are numbered by integers, not {numbers.dtype}")
        xp = namespace(numbers)
        if xp is np and not 0 <= numbers.min() <= numbers.max() < len(self.levels):
            raise WorldError(
                f"levels are numbered 0 to {len(self.levels) - 1}, and those asked for "
                f"are from {numbers.min()} to {numbers.max()}"
            )
        return self._begin(numbers.astype(np.int64))

    def _start(self, noise: Array) -> State:
        return self._begin(pick(noise[:, 0], len(self.levels)))

    def _begin(self, numbers: Array) -> State:
        xp = namespace(numbers)
        constants, levels = self.on(xp), len(numbers)
        return {
            "board": constants["board"][numbers],
            "place": constants["start"][numbers],
            "held": xp.zeros(levels, np.uint8),
            "steps": xp.zeros(levels, np.int32),
            "level": numbers,
        }

    def _step(
        self, state: State, actions: Array, noise: Array, keep_final: bool
    ) -> Outcome:
        xp = namespace(noise)
        board, place, steps = self._flat(state), state["place"], state["steps"]
        reward = xp.zeros(len(place), np.float32)
        terminated = xp.zeros(len(place), bool)
        target = self.on(xp)["move"][actions]
        target += place
        there = xp.arange(0, board.size, self._side**2)
        there += target
        found = board[there]  # what is in the way

        steps += 1
        walks = found == FLOOR
        rows = affected(found > WALL)  # content or a lock, in a few of the levels
        found, there, held = found[rows], there[rows], state["held"][rows]
        seen = held + COLOUR  # how a lock of the held key looks
        opens, springs = found == (seen | LOCK), found == (seen | TRAP)
        takes = (found > WALL) & (found < LOCK) & (board[there + 1] < LOCK)
        wins = takes & (found == GEM)
        reward[rows] = opens.astype(np.float32) - springs + wins * np.float32(10)
        terminated[rows] = springs | wins
        # a lock takes the key; after the gem nothing is held
        key = xp.where(takes, found - COLOUR, held)
        enters = opens | springs
        state["held"][rows] = key * ~enters
        enters |= takes
        board[there] = found * ~enters  # FLOOR where you walk
        walks[rows] = enters | (found == FLOOR)
        xp.copyto(place, target, where=walks)
        truncated = (steps > self.limit) & ~terminated

        final = {k: x.copy() for k, x in state.items()} if keep_final else None
        renew(state, terminated | truncated, lambda rows: self._start(noise[rows]))
        return Outcome(reward, terminated, truncated, final)

    def _flat(self, state: State) -> Array:
        """All boards in one row. Writing there changes the state."""
        board = state["board"]
        if not board.flags.c_contiguous:
            state["board"] = board = namespace(board).ascontiguousarray(board)
        return board.reshape(-1)

    # --- What you see -----------------------------------------------------------------

    def observe(self, state: State) -> dict[str, Array]:
        look = self._whole if self.view == "whole" else self._window
        return {
            "view": look(state),
            "held": state["held"].copy(),
            "position": self.position(state),
        }

    def _window(self, state: State) -> Array:
        """The window around you (B, V, V), without you."""
        xp, board, size = namespace(state["place"]), self._flat(state), self.viewport
        place = xp.arange(0, board.size, self._side**2)
        place += state["place"]
        if xp is np:  # twice as fast as one by one: whole rows of the window
            place -= size // 2 * (self._side + 1)
            corners = board.size - (size - 1) * (self._side + 1)
            shape, strides = (corners, size), (1, self._side)
            windows = np.ndarray(shape, f"V{size}", board, strides=strides)
            view = windows[place].view(np.uint8).reshape(-1, size, size)
        else:
            view = board[place[:, None, None] + self.on(xp)["window"]]
        view &= SEEN
        return view

    def position(self, state: State) -> Array:
        xp = namespace(state["place"])
        pairs = self.on(xp)["position"][state["place"]]
        return pairs.view(np.uint8).reshape(-1, 2)

    def _whole(self, state: State) -> Array:
        xp, board = namespace(state["place"]), state["board"]
        view = (board & SEEN).reshape(len(board), -1)
        view[xp.arange(len(board)), state["place"]] = self.you
        inside = slice(self._margin, self._side - self._margin)
        return view.reshape(board.shape)[:, inside, inside]

    def pixels(self, observed: dict[str, Array]) -> Array:
        """The paper's pixels of an observation: uint8 (B, V, V, 6), RGB with you in it
        and three more channels of your key's colour, black without one.
        """
        xp = namespace(observed["view"])
        colours, view = self.on(xp)["palette"], observed["view"]
        rgb = colours[view]
        if self.view == "viewport":
            centre = self.viewport // 2
            rgb[:, centre, centre] = colours[self.you]
        key = self._key(observed["held"])[:, None, None]
        return xp.concatenate([rgb, xp.broadcast_to(key, rgb.shape)], axis=-1)

    def _key(self, held: Array) -> Array:
        xp = namespace(held)
        seen = xp.where(held > 0, held + COLOUR, xp.full_like(held, WALL))
        return self.on(xp)["palette"][seen]

    def rgb(self, state: State, whole: bool = False) -> Array:
        """Pictures, a pixel a cell, with your key in the upper left corner: for what
        you see in a row of its own.
        """
        xp = namespace(state["place"])
        colours = self.on(xp)["palette"]
        if whole or self.view == "whole":
            picture = colours[self._whole(state)]
        else:
            seen = self._seen(state)
            above = xp.full_like(seen[:, :1], WALL)
            picture = colours[xp.concatenate([above, seen], axis=1)]
        picture[:, 0, 0] = self._key(state["held"])
        return picture

    def _seen(self, state: State) -> Array:
        """The window with you in it."""
        view, centre = self._window(state), self.viewport // 2
        view[:, centre, centre] = self.you
        return view

    def text(self, state: State, row: int = 0, whole: bool = False) -> str:
        """One level for a terminal, and a line that names your key."""
        one = {name: x[row : row + 1] for name, x in state.items()}
        look = self._whole if whole or self.view == "whole" else self._seen
        codes, held = to_host(look(one))[0], int(to_host(one["held"])[0])
        key = LETTERS[COLOUR + held] if held else "none"
        signs = LETTERS[: self.you] + "@"
        lines = ["".join(signs[code] for code in line) for line in codes]
        colours = self.constants["palette"]
        return f"{drawing.ansi(colours[codes], lines)}\nkey: {key}"

    def ending(self, outcome: Outcome, steps: str) -> str:
        if outcome.truncated[0]:
            return f"not solved, out of steps ({self.limit}, and one more)"
        return f"{'solved' if outcome.reward[0] == 10 else 'not solved'} after {steps}"


def _as_range(name: str, value: Any) -> tuple[int, int]:
    """The least and the most. WorldError for anything but integers."""
    bounds = [value] * 2 if np.ndim(value) == 0 else [*value]
    if len(bounds) != 2 or not all(map(is_integer, bounds)):
        raise WorldError(
            f"{name} must be an integer or two, such as (1, 5), not {value!r}"
        )
    return int(bounds[0]), int(bounds[1])
