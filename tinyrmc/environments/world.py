"""A world: the rules of a game as an array program over many levels at once.

A world keeps no game and draws no random number. You hold the state of B levels, a dict
of arrays with one row a level, and hand in the random numbers that a step may need. So
a checkpoint resumes a game to the bit, and NumPy and CuPy take the same steps.

    world = BoxWorld()
    state = world.start(rng.random((B, world.start_noise), np.float32))
    seen = world.observe(state)
    outcome = world.step(state, actions, rng.random((B, world.noise), np.float32))

A level that ends is replaced by a new one in the same step, so what you observe after
it is already the start of the next level (Gymnasium calls this SAME_STEP).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from ..backend import Array, namespace
from ..errors import UserError, is_integer

# name -> array (B, ...); NumPy's or CuPy's, all of one kind
State: TypeAlias = dict[str, Array]

VIEWS = "viewport", "whole"  # what a player may see: a window around it, or all
LONGEST = 10_000  # steps of a level, before a test calls it endless


class WorldError(UserError, ValueError):
    """A world cannot be made, or cannot be played that way."""


class Codes(NamedTuple):
    """One array of an observation: uint8 (B, *shape), from 0 to `highest`."""

    shape: tuple[int, ...]
    highest: int

    @property
    def dtype(self) -> type:
        """uint8."""
        return np.uint8


class Numbers(NamedTuple):
    """One array of an observation: float32 (B, *shape), numbers of any size."""

    shape: tuple[int, ...]

    @property
    def highest(self) -> float:
        """Infinity."""
        return math.inf

    @property
    def dtype(self) -> type:
        """float32."""
        return np.float32


class Outcome(NamedTuple):
    """The outcome of a step in each of B levels."""

    reward: Array  # (B,) float32
    terminated: Array  # (B,) bool: the rules ended the level
    truncated: Array  # (B,) bool: it ran out of steps
    final: State | None = None  # all B rows before ended levels were replaced, if asked

    @property
    def ended(self) -> Array:
        """(B,) bool: this level is over, for one reason or the other."""
        return self.terminated | self.truncated


class World:
    """The contract of all worlds. A subclass writes the methods below `The rules`.

    Attributes:
        action_names: an action is the position of its name.
        signs: what the characters of `text` stand for.
        legend: what the colours of `rgb` stand for.
        noise: how many random numbers a level takes up in a step, those for a new
            level included.
        start_noise: how many it takes to start.
        observation: name -> shape and highest value of the codes that `observe` gives,
            or the shape of numbers.
        constants: tables the rules look up, on the host; `on(xp)` has them on xp.
    """

    action_names: tuple[str, ...]
    signs: ClassVar[str]
    legend: str = ""
    noise: int
    start_noise: int
    observation: dict[str, Codes | Numbers]
    constants: dict[str, np.ndarray]

    @property
    def actions(self) -> int:
        """The number of actions."""
        return len(self.action_names)

    def start(self, noise: Array) -> State:
        """Begin B levels. noise (B, start_noise): uniform in [0, 1), float32."""
        check_noise(noise, self.start_noise, "start")
        return self._start(noise)

    def step(
        self, state: State, actions: Array, noise: Array, keep_final: bool = False
    ) -> Outcome:
        """Play one step in all B levels. This CHANGES `state`, in place.

        actions: integers (B,), from 0 to `actions` - 1 (looked at on NumPy alone).
        noise (B, noise): uniform in [0, 1), float32.
        keep_final: also return the state before ended levels were replaced (a copy).

        Nothing waits for the device. WorldError for arguments that do not fit.
        """
        check_noise(noise, self.noise, "step")
        levels = len(next(iter(state.values()))) if state else 0
        if noise.shape[0] != levels:
            raise WorldError(
                f"step: the state has {levels} levels and noise {noise.shape[0]} rows"
            )
        self.check_actions(actions, levels)
        return self._step(state, actions, noise, keep_final)

    def check_actions(self, actions: Array, levels: int) -> None:
        """WorldError unless these are actions, one for each level."""
        dtype = getattr(actions, "dtype", np.dtype(object))  # of a list: no integers
        integers = dtype.kind in "iu" and dtype.isnative
        if not integers or actions.shape != (levels,):
            found = f"{dtype}{[*np.shape(actions)]}"
            wanted = f"integers[{levels}] in an array, one for each level"
            raise WorldError(f"actions must be {wanted}, not {found}")
        if namespace(actions) is not np:
            return
        # seen as unsigned, negative ones are the largest
        if actions.view(f"u{actions.itemsize}").max() >= self.actions:
            wrong = actions[(actions < 0) | (actions >= self.actions)][0]
            known = ", ".join(f"{k} {name}" for k, name in enumerate(self.action_names))
            raise WorldError(f"there is no action {wrong}; there are {known}")

    def lacks(self, *names: str) -> list[str]:
        """The methods, of these, that this world has not written."""
        return [n for n in names if getattr(type(self), n) is getattr(World, n)]

    def on(self, xp: ModuleType) -> dict[str, Array]:
        """The constants as arrays of `xp`; copied there once."""
        if xp is np:
            return self.constants
        copies: dict[str, dict[str, Array]] = self.__dict__.setdefault("_copies", {})
        if xp.__name__ not in copies:
            copies[xp.__name__] = {
                name: xp.asarray(array) for name, array in self.constants.items()
            }
        return copies[xp.__name__]

    # --- The rules --------------------------------------------------------------------

    def _start(self, noise: Array) -> State:
        """`start`, its argument checked."""
        raise NotImplementedError

    def _step(
        self, state: State, actions: Array, noise: Array, keep_final: bool
    ) -> Outcome:
        """`step`, its arguments checked. Every level must end at some point."""
        raise NotImplementedError

    def observe(self, state: State) -> dict[str, Array]:
        """The player's sight in compact codes, as `observation` describes them."""
        raise NotImplementedError

    def pixels(self, observed: dict[str, Array]) -> Array:
        """An observation as planes of pixels: uint8 (B, height, width, channels)."""
        raise NotImplementedError

    def position(self, state: State) -> Array:
        """Row and column of the player (B, 2), in pictures of the whole board."""
        raise NotImplementedError

    def rgb(self, state: State, whole: bool = False) -> Array:
        """Pictures for people, a pixel a cell: uint8 (B, height, width, 3), of what the
        player sees or, with `whole`, of the whole board.
        """
        raise NotImplementedError

    def text(self, state: State, row: int = 0, whole: bool = False) -> str:
        """One level as lines of characters with ANSI colours."""
        raise NotImplementedError

    def ending(self, outcome: Outcome, steps: str) -> str:
        """How a level went, in words, after "12 steps"; outcome: of its last step, for
        one level, with `final`.
        """
        return "out of steps" if outcome.truncated[0] else f"over after {steps}"


def affected(mask: Array) -> Array | slice:
    """An index of the levels where `mask` (B,) holds.

    On NumPy it is fastest to look at the few levels in which something happens. A GPU
    would have to wait to learn how many these are, so there the index is of all levels,
    and `mask[affected(mask)]` tells them apart.
    """
    xp = namespace(mask)
    return xp.flatnonzero(mask) if xp is np else slice(None)


def renew(state: State, ended: Array, begin: Callable[[Array | slice], State]) -> None:
    """Put new levels in place of those that have `ended` (B,), in `state` itself.

    begin: an index as `affected` gives it -> the new state of these levels.
    """
    xp, rows = namespace(ended), affected(ended)
    if not isinstance(rows, slice) and not len(rows):
        return
    for name, new in begin(rows).items():
        x = state[name]
        if xp is np:
            x[rows] = new
        else:
            xp.copyto(x, new, where=ended.reshape(-1, *[1] * (x.ndim - 1)))


def pick(noise: Array, count: Array | int) -> Array:
    """Uniform in [0, 1) -> one of the integers 0 .. count - 1, each equally likely."""
    xp = namespace(noise)
    scale = count if isinstance(count, int) else count.astype(np.float32)
    # rounding may bring the product up to count
    return xp.minimum((noise * scale).astype(np.intp), count - 1)


def check_world(world: Any, name: str = "world") -> None:
    """WorldError unless a world gives what it must, in a step of two levels.

    name: of what gave it, for a message.
    """
    if not isinstance(world, World):
        raise WorldError(f"{name} must be a property that is a World, not {world!r}")
    kind = type(world).__name__
    given = "action_names", "observation", "noise", "start_noise"
    missing = [each for each in given if not hasattr(world, each)]
    if missing := missing + world.lacks("_start", "_step", "observe"):
        raise WorldError(
            f"{kind} lacks {', '.join(missing)}, which every world gives; "
            f"{World.__module__} says what they are"
        )

    def require(what: str, value: Any, wanted: str, fits: bool) -> None:
        if not fits:
            raise WorldError(f"{kind}.{what} must be {wanted}, not {value!r}")

    def require_array(what: str, x: Any, shape: tuple[int, ...], dtype: Any) -> None:
        wanted, found = f"{np.dtype(dtype)}{[2, *shape]}", type(x).__name__
        if hasattr(x, "dtype"):
            found = f"{x.dtype}{list(x.shape)}"
        if found != wanted:
            raise WorldError(f"{what} must be {wanted} for two levels, not {found}")

    names = world.action_names
    fits = isinstance(names, (tuple, list)) and bool(names)
    fits = fits and all(isinstance(name, str) for name in names)
    wanted = "a tuple of names, such as ('up', 'down')"
    require("action_names", names, wanted, fits)
    for what in "noise", "start_noise":
        value = getattr(world, what)
        require(what, value, "an integer from 0 on", is_integer(value) and value >= 0)
    fits = isinstance(world.observation, dict) and bool(world.observation)
    require("observation", world.observation, "a dict {name: Codes}", fits)
    for what, codes in world.observation.items():
        fits = isinstance(codes, Numbers) or (
            isinstance(codes, Codes)
            and is_integer(codes.highest)
            and codes.highest < 256
        )
        fits = fits and isinstance(codes.shape, tuple)
        wanted = "Codes of a tuple and a highest value, such as Codes((5, 5), 9), or "
        wanted += "Numbers of a tuple"
        require(f"observation[{what!r}]", codes, wanted, fits)
    state = world.start(np.zeros((2, world.start_noise), np.float32))
    pairs = itertools.combinations(state.values(), 2)
    alone = not any(np.shares_memory(*pair) for pair in pairs)
    require("_start()", [*state], "arrays that share no memory", alone)
    seen, noise = world.observe(state), np.zeros((2, world.noise), np.float32)
    outcome = world.step(state, np.zeros(2, np.int64), noise)
    require("_step()", outcome, "an Outcome", isinstance(outcome, Outcome))
    for what, codes in world.observation.items():
        told = f"{kind}.observe()[{what!r}]"
        require_array(told, seen.get(what), codes.shape, codes.dtype)
        if seen[what].max(initial=0) > codes.highest:
            said = f"its highest value is said to be {codes.highest}"
            raise WorldError(f"{told} has {seen[what].max()}, and {said}")
    fits = {*seen} <= {*world.observation}
    require("observe()", [*seen], "what `observation` names", fits)
    if not world.lacks("pixels"):
        x = world.pixels(seen)
        fits = x.dtype == np.uint8 and x.ndim == 4
        wanted = "uint8[levels, height, width, channels]"
        require("pixels()", f"{x.dtype}{[*x.shape]}", wanted, fits)
    kinds = {"reward": np.float32, "terminated": np.bool_, "truncated": np.bool_}
    for what, dtype in kinds.items():
        told = f"the {what} of {kind}._step()"
        require_array(told, getattr(outcome, what), (), dtype)
    _check_play(world)


def _check_play(world: World) -> None:
    """WorldError if random steps show a state that stays, or ended levels that do."""
    rng, rows = np.random.default_rng(0), np.ones(8, bool)
    state = world.start(rng.random((8, world.start_noise), np.float32))
    first = final = {name: x.copy() for name, x in state.items()}
    for _ in range(64):
        noise = rng.random((8, world.noise), np.float32)
        outcome = world.step(state, rng.integers(world.actions, size=8), noise, True)
        if over := bool(outcome.ended.any()):
            rows = outcome.ended
            final = outcome.final or first
            break
    now, last, began = (
        [each[name][rows].tobytes() for name in state] for each in (state, final, first)
    )
    if now == last and (now != began) == over:
        raise WorldError(
            f"{type(world).__name__}._step() must change the arrays of `state` in "
            "place, and begin levels anew where they end, by `renew`"
        )


def require_end(world: World, steps: int) -> None:
    """WorldError for a level that goes on after LONGEST steps, or a larger `limit`."""
    if steps > max(LONGEST, getattr(world, "limit", 0)):
        raise WorldError(
            f"a level of {type(world).__name__} goes on after {steps:,} steps; its "
            "_step must end each, such as after a limit of steps"
        )


def check_noise(noise: Array, width: int, method: str) -> None:
    """WorldError unless this is float32 (B, width) and, on NumPy, in [0, 1)."""
    shape: tuple[int, ...] = getattr(noise, "shape", ())
    if len(shape) != 2 or shape[1] != width or not shape[0]:
        raise WorldError(f"{method}: noise must be an array [levels, {width}]")
    if noise.dtype != np.float32:
        raise WorldError(f"{method}: noise must be float32, not {noise.dtype}")
    if namespace(noise) is not np or not noise.size:
        return
    # as integers, the bits of negative numbers and of NaN are above those of 1
    if noise.view(np.uint32).max() >= np.float32(1).view(np.uint32):
        raise WorldError(f"{method}: noise must be from 0 to below 1")
