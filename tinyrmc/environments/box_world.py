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
UNSEEN = SEEN + 1  # beside the codes of what you see


def palette(colours: int) -> np.ndarray:
    """RGB of what you see, uint8 (65, 3), in the hues of the original."""
    rgb = np.zeros((UNSEEN + 1, 3), np.uint8)
    you = COLOUR + colours + 1
    rgb[FLOOR] = 204
    rgb[WALL] = 0
    rgb[GEM] = 255
    rgb[you] = 127
    rgb[UNSEEN] = 64
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
        view: "viewport" shows a window around you, "whole" the board; "remembered",
            in that window's place, a list of all that it has shown in this level.
        viewport: side of that window, an odd number.
        levels: how many levels there are. Each new one is drawn from among these.
        seed: which levels. Two seeds have none in common except by chance.
        keeps: the state keeps what you saw, for players that forget nothing, also where
            the view is the viewport.

    An observation has `view`, (V, V) of what you see (`box_levels` has the codes; lock
    and key look alike, and you are shown only on the whole board), `held`, the colour
    of your key or 0, and `position`, your row and column on the board. If all is
    remembered, `view` is a list (K, 4) of things, in the order of the board: how a
    thing looks, how its lock looks (0: it has none, or none was seen), and its row and
    column from you, from 0 on; rows of zeros fill it up. `around` (2, A, A) are two
    maps with you in their middle, of what was not seen yet and of what is in the way.

    The state has `board` (B, S, S), with walls added around for the viewport, `place`
    (B,), your cell on it, `held` and `steps` (B,), and `level` (B,), the number of the
    level among the `levels`; and `seen` (B, S, S), where that is kept.

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
        keeps: bool = False,
    ):
        check_sizes("BoxWorld", limit=limit, colours=colours, viewport=viewport)
        self.problem = Problem(
            _as_range("solution_length", solution_length),
            _as_range("distractors", distractors),
            _as_range("distractor_length", distractor_length),
            _as_range("room", room),
            colours,
        )
        self.limit = limit
        self.view = view
        self.viewport = viewport
        self.keeps = view != "whole" and (keeps or view == "remembered")
        self.grid = self.problem.room[1] + 2
        check_choice("BoxWorld", "view", view, "viewport", "whole", "remembered")
        self.levels = box_levels.make(self.problem, levels, seed)
        if viewport % 2 == 0 or viewport > self.grid:
            raise WorldError(f"viewport must be odd, up to {self.grid}, not {viewport}")
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
        if view == "remembered":
            self._reach = self.grid - 3  # cells between two ends of the room
            width, things = 2 * self._reach + 1, self.problem.boxes + 1
            self.observation["view"] = Codes((things, 4), max(highest, width - 1))
            self.observation["around"] = Codes((2, width, width), 1)
            away = np.arange(-self._reach, width - self._reach)
            places = np.arange(self._side)[:, None] + away
            places = places.clip(0, self._side - 1)  # beyond there are walls
            rows, columns = places[:, None, :, None], places[None, :, None]
            around = (rows * self._side + columns).reshape(self._side**2, -1)
            self.constants["around"] = around  # cells by the cell where you are
            self.legend += " Darker grey: not seen yet."

    def _constants(self) -> dict[str, np.ndarray]:
        side = self._side
        margin = self._margin
        reach = self.viewport // 2
        around = ((0, 0), (margin, margin), (margin, margin))
        board = np.pad(self.levels.board, around, constant_values=WALL)
        row, column = np.divmod(self.levels.start, self.grid)
        near = np.arange(-reach, reach + 1)
        cells = np.indices((side, side)).reshape(2, -1).T - margin
        inside = np.clip(cells, 0, self.grid - 1).astype(np.uint8, order="C")
        walls = np.ones((side, side), bool)
        down, across = np.indices((side, side)).reshape(2, -1)
        band = (down - margin - 1) // self.viewport
        across = np.where(band % 2, -across, across)
        walls[margin + 1 : -margin - 1, margin + 1 : -margin - 1] = False
        return {
            "walls": walls,  # around the largest room
            "sweep": np.lexsort((down, across, band)),  # cells, to and fro in bands
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
        state = {
            "board": constants["board"][numbers],
            "place": constants["start"][numbers],
            "held": xp.zeros(levels, np.uint8),
            "steps": xp.zeros(levels, np.int32),
            "level": numbers,
        }
        if self.keeps:
            walls = constants["walls"]
            state["seen"] = xp.broadcast_to(walls, state["board"].shape).copy()
            self._look(state)
        return state

    def _step(
        self, state: State, actions: Array, noise: Array, keep_final: bool
    ) -> Outcome:
        xp = namespace(noise)
        board = self._flat(state)
        place = state["place"]
        steps = state["steps"]
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
        found = found[rows]
        there = there[rows]
        held = state["held"][rows]
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
        if self.keeps:
            self._look(state)
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
        beside = {"held": state["held"].copy(), "position": self.position(state)}
        if self.view == "remembered":
            return self._remembered(state) | beside
        if self.view == "whole":
            return {"view": self._whole(state, state["board"] & SEEN)} | beside
        return {"view": self._window(state)} | beside

    def _look(self, state: State) -> None:
        """Note what the window shows as seen."""
        xp = namespace(state["place"])
        seen = state["seen"].reshape(-1)
        place = xp.arange(0, seen.size, self._side**2) + state["place"]
        seen[place[:, None, None] + self.on(xp)["window"]] = True

    def known(self, state: State) -> Array:
        """The board (B, S * S) as far as you saw it, in codes; elsewhere UNSEEN.

        What you saw stays as it was until you change it, so nothing needs updating.
        WorldError where only the window is seen.
        """
        xp = namespace(state["board"])
        board = state["board"] & SEEN
        if self.view == "viewport" and not self.keeps:
            raise WorldError("to know what you saw, make a BoxWorld that keeps it")
        if self.view != "whole":
            board = xp.where(state["seen"], board, np.uint8(UNSEEN))
        return board.reshape(len(board), -1)

    def _remembered(self, state: State) -> dict[str, Array]:
        xp = namespace(state["place"])
        known = self.known(state)
        side = self._side
        reach, (count, _) = self._reach, self.observation["view"].shape
        thing, lock = things(known)
        # those cells first, in the order of the board
        cells = xp.argsort(~thing, axis=1, kind="stable")[:, :count]
        here = state["place"][:, None]
        looks = [xp.take_along_axis(x, cells, axis=1) for x in (known, lock)]
        away = [cells // side - here // side, cells % side - here % side]
        view = xp.stack([*looks, *(x + reach for x in away)], axis=2)
        view *= xp.take_along_axis(thing, cells, axis=1)[..., None]
        codes = xp.take_along_axis(known, self.on(xp)["around"][state["place"]], axis=1)
        maps = xp.stack([codes == UNSEEN, (codes != FLOOR) & (codes != UNSEEN)], axis=1)
        around = maps.reshape(len(view), *self.observation["around"].shape)
        return {"view": view.astype(np.uint8), "around": around.astype(np.uint8)}

    def _window(self, state: State) -> Array:
        """The window around you (B, V, V), without you."""
        xp = namespace(state["place"])
        board = self._flat(state)
        size = self.viewport
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

    def _whole(self, state: State, board: Array) -> Array:
        """A board of codes with you on it, without the walls beyond the wall."""
        xp = namespace(state["place"])
        place = state["place"]
        view = board.reshape(len(place), -1)
        view[xp.arange(len(place)), place] = self.you
        inside = slice(self._margin, self._side - self._margin)
        return view.reshape(-1, self._side, self._side)[:, inside, inside]

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
        shown = self._shown(state, whole)
        if self.view == "viewport" and not whole:
            above = xp.full_like(shown[:, :1], WALL)
            shown = xp.concatenate([above, shown], axis=1)
        picture = colours[shown]
        picture[:, 0, 0] = self._key(state["held"])
        return picture

    def _shown(self, state: State, whole: bool) -> Array:
        """The part of the board that you see, with you in it, or the whole board."""
        if self.view == "remembered" and not whole:
            return self._whole(state, self.known(state))
        if self.view == "whole" or whole:
            return self._whole(state, state["board"] & SEEN)
        view = self._window(state)
        centre = self.viewport // 2
        view[:, centre, centre] = self.you
        return view

    def text(self, state: State, row: int = 0, whole: bool = False) -> str:
        """One level for a terminal, and a line that names your key."""
        one = {name: x[row : row + 1] for name, x in state.items()}
        codes = to_host(self._shown(one, whole))[0]
        held = int(to_host(one["held"])[0])
        key = LETTERS[COLOUR + held] if held else "none"
        signs = f"{LETTERS[: self.you]}@".ljust(UNSEEN) + "?"
        lines = ["".join(signs[code] for code in line) for line in codes]
        colours = self.constants["palette"]
        return f"{drawing.ansi(colours[codes], lines)}\nkey: {key}"

    def ending(self, outcome: Outcome, steps: str) -> str:
        if outcome.truncated[0]:
            return f"not solved, out of steps ({self.limit}, and one more)"
        return f"{'solved' if outcome.reward[0] == 10 else 'not solved'} after {steps}"


def things(known: Array) -> tuple[Array, Array]:
    """Where things lie on boards (B, S * S) of codes, and the looks of their locks.

    (B, S * S) each: a box counts where its content lies, and where only its lock was
    seen, there; 0 where there is no lock.
    """
    xp = namespace(known)
    something = (known >= GEM) & (known != UNSEEN)
    boxed, lock = xp.zeros_like(something), xp.zeros_like(known)
    boxed[:, 1:] = something[:, :-1] & something[:, 1:]  # the right one of two
    lock[:, :-1] = known[:, 1:] * boxed[:, 1:]
    return something & ~boxed, lock


def _as_range(name: str, value: Any) -> tuple[int, int]:
    """The least and the most. WorldError for anything but integers."""
    bounds = [value] * 2 if np.ndim(value) == 0 else [*value]
    if len(bounds) != 2 or not all(map(is_integer, bounds)):
        raise WorldError(
            f"{name} must be an integer or two, such as (1, 5), not {value!r}"
        )
    return int(bounds[0]), int(bounds[1])
