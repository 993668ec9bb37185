"""A Gymnasium environment as a world, for the agents of `training/rl`.

    world = GymnasiumWorld(lambda: gymnasium.make("CartPole-v1"))

Such an environment keeps its game to itself, a world does not. So here a level is its
seed and the actions taken in it, and an environment is an object that has played just
these: where none is at hand, because a run was resumed, say, a new one is given the
seed and plays them again. So a checkpoint resumes a game to the bit, if an environment
with the same seed and the same actions does the same, as Gymnasium's rules ask. That
costs a byte a step of the longest level. The environments are played one after the
other, on the host.
"""

from __future__ import annotations

import math
import os
import textwrap
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import namespace
from .world import Codes, Numbers, Outcome, State, World, WorldError, renew

SEEDS = 2**24  # as many as float32 has numbers in [0, 1) at equal distances


class GymnasiumWorld(World):
    """Levels of a Gymnasium environment with discrete actions.

    What it shows, alone as "seen" or as a flat dict by its own names: integers from 0
    to below 256 are codes, in two dimensions as "view", a picture; all else is numbers.

    Args:
        make: makes one environment. It is called as often as levels are played at once.
        limit: steps after which a level is cut off; None: the environment's own,
            `max_episode_steps`.
        action_names: a word for each action.
        held_out: whether its seeds are odd, so that no level is one of a world whose
            seeds are even.

    WorldError for an environment that cannot be a world.
    """

    signs = ""
    noise = start_noise = 1  # a random number for each level: its seed
    constants: dict[str, np.ndarray] = {}

    def __init__(
        self,
        make: Callable[[], Any],
        limit: int | None = None,
        action_names: Sequence[str] = (),
        held_out: bool = False,
    ):
        from gymnasium import spaces

        env = make()
        self._make, self._held_out = make, held_out
        actions = env.action_space
        own = getattr(env.spec, "max_episode_steps", None)
        if not isinstance(actions, spaces.Discrete) or actions.n > 256:
            raise WorldError(
                f"the actions of {env} are {actions}; an agent takes one of up to 256, "
                "a Discrete space, so wrap it: gymnasium.ActionWrapper"
            )
        self.limit = limit or own
        if not self.limit:
            raise WorldError(f"{env} has no max_episode_steps; give a limit of steps")
        self._first_action = int(actions.start)
        self.action_names = tuple(action_names or map(str, range(actions.n)))
        if len(self.action_names) != actions.n:
            raise WorldError(f"action_names: {env} has {actions.n} actions")
        space = env.observation_space
        self._named = isinstance(space, spaces.Dict)
        flat = isinstance(space, spaces.Box) and len(space.shape) == 2
        parts = space.items() if self._named else [("view" if flat else "seen", space)]
        self.observation = {name: _described(part, env) for name, part in parts}
        if isinstance(self.observation.get("view"), Numbers):
            self.observation["seen"] = self.observation.pop("view")
        self.notes = self._tried(env)
        # environments by the level that they have played, the one last used last
        self._live: dict[tuple[int, bytes], Any] = {}
        self._most, self._lock = 0, threading.Lock()

    def _tried(self, env: Any) -> list[str]:
        """Play a step of a level twice: a note, if that shows something else."""
        seen = []
        for _ in range(2):
            shown, _ = _asked(env, "reset", seed=0)
            moved, reward, *_ = _asked(env, "step", self._first_action)
            seen.append([*self._parts(env, shown), *self._parts(env, moved), reward])
        if all(map(np.array_equal, *seen)):
            return []
        says = f"{env}, played twice from reset(seed=0), differs: no run can be "
        return [f"{says}repeated or resumed exactly; draw from self.np_random alone"]

    def _start(self, noise):
        xp = namespace(noise)
        if xp is not np:
            raise WorldError("a Gymnasium environment plays on the host: --device cpu")
        B = len(noise)
        state = {
            "seed": 2 * (noise[:, 0] * SEEDS).astype(np.int64) + self._held_out,
            "steps": np.zeros(B, np.int64),
            "actions": np.zeros((B, self.limit), np.uint8),
        }
        for name, part in self.observation.items():
            state[f"saw/{name}"] = np.zeros((B, *part.shape), part.dtype)
        with self._lock:
            for row, seed in enumerate(state["seed"]):
                env = self._some_environment()
                seen, _ = _asked(env, "reset", seed=int(seed))
                self._write(env, state, row, seen)
                self._live[int(seed), b""] = env
        return state

    def _step(self, state, actions, noise, keep_final):
        B = len(actions)
        reward = np.zeros(B, np.float32)
        terminated, truncated = np.zeros((2, B), bool)
        with self._lock:
            self._most = max(self._most, 2 * B)
            for row, action in enumerate(actions):
                seed, taken = int(state["seed"][row]), int(state["steps"][row])
                played = state["actions"][row]
                env = self._environment_of(seed, played[:taken].tobytes())
                result = _asked(env, "step", self._first_action + int(action))
                seen, reward[row], terminated[row], truncated[row], _ = result
                self._write(env, state, row, seen)
                played[taken] = action
                self._live[seed, played[: taken + 1].tobytes()] = env
        state["steps"] += 1
        truncated |= state["steps"] == self.limit
        truncated &= ~terminated  # at the limit Gymnasium's own may say both
        final = {name: x.copy() for name, x in state.items()} if keep_final else None
        renew(state, terminated | truncated, lambda rows: self._start(noise[rows]))
        return Outcome(reward, terminated, truncated, final)

    def observe(self, state):
        return {name: state[f"saw/{name}"].copy() for name in self.observation}

    def _write(self, env: Any, state: State, row: int, seen: Any) -> None:
        for name, part in zip(self.observation, self._parts(env, seen), strict=True):
            state[f"saw/{name}"][row] = part

    def _parts(self, env: Any, seen: Any) -> list[np.ndarray]:
        """The arrays of an observation; WorldError unless its space has such."""
        try:
            parts = [seen[k] for k in self.observation] if self._named else [seen]
            arrays = [np.asarray(x, float) for x in parts]
        except (TypeError, ValueError, LookupError):
            arrays = []
        spaces = self.observation.values()
        if [x.shape for x in arrays] != [x.shape for x in spaces]:
            shown = textwrap.shorten(repr(seen), 60, placeholder=" ...")
            says = f"which its observation_space, {env.observation_space}, has not"
            raise WorldError(f"{env} shows {shown}, {says}")
        return arrays

    def _environment_of(self, seed: int, played: bytes) -> Any:
        """The environment that has played these actions after this seed."""
        env = self._live.pop((seed, played), None)
        if env is None:
            env = self._some_environment()
            _asked(env, "reset", seed=seed)
            for action in played:
                _asked(env, "step", self._first_action + action)
        return env

    def _some_environment(self) -> Any:
        """One whose level nobody has asked for in a long time, or a new one."""
        if self._live and len(self._live) >= self._most:
            return self._live.pop(next(iter(self._live)))
        return self._make()


GIVES = {
    "reset": "observation, info",
    "step": "observation, reward, terminated, truncated, info",
}


def _asked(env: Any, method: str, *words: Any, **named: Any) -> tuple:
    """Call a method of an environment. An exception, and a result that Gymnasium does
    not allow, become a WorldError, with the place in the environment's file.
    """
    gives = GIVES[method]
    try:
        found = getattr(env, method)(*words, **named)
        if not isinstance(found, tuple) or len(found) != gives.count(",") + 1:
            raise TypeError(f"it gave {textwrap.shorten(repr(found), 60)}")
        if method == "step" and not math.isfinite(found[1]):
            raise TypeError(f"the reward is {found[1]!r}")
    except Exception as error:
        places = traceback.extract_tb(error.__traceback__)[1:]
        places = [each for each in places if "site-packages" not in each.filename]
        where = f"{method} of {env}"
        says = f"; it must give ({gives}), the reward a finite number"
        if places:  # in its own file
            file, line, function, _ = places[-1]
            where = f"{os.path.basename(file)}, line {line}, in {function}"
            says = ""
        raise WorldError(f"{where}: {type(error).__name__}: {error}{says}") from error
    return found


def _described(space: Any, env: Any) -> Codes | Numbers:
    """The codes or numbers that tell an agent a part of an observation."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete) and not space.start and space.n <= 256:
        return Codes((), int(space.n) - 1)
    if isinstance(space, spaces.MultiBinary):
        return Codes(tuple(space.shape), 1)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.max() <= 256:
        return Codes(tuple(space.shape), int(space.nvec.max()) - 1)
    if isinstance(space, spaces.Box):
        whole = space.dtype.kind in "iu" and space.low.min() >= 0
        if whole and space.high.max() < 256:
            return Codes(tuple(space.shape), int(space.high.max()))
        return Numbers(tuple(space.shape))
    raise WorldError(
        f"{env} shows {space}; an agent sees Box, Discrete, MultiDiscrete and "
        "MultiBinary spaces, or a flat Dict of these, so wrap it: "
        "gymnasium.wrappers.FlattenObservation"
    )
