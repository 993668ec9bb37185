"""Any world as a Gymnasium environment: one level at a time, or many.

    import gymnasium
    import tinyrmc.environments

    env = gymnasium.make("tinyrmc/BoxWorld-v1")
    envs = gymnasium.make_vec("tinyrmc/BoxWorld-v1", num_envs=256)

Training does not come through here: this is for the agents of other libraries.
Gymnasium comes with the extra `rl`. With Stable-Baselines3, for example:

    import tinyrmc.environments
    from sb3_contrib import RecurrentPPO

    agent = RecurrentPPO("MlpLstmPolicy", "tinyrmc/BoxWorld-v1")
    agent.learn(10_000)

Its CnnPolicy needs pictures of 36 x 36 pixels or more: `scale=8` makes 40 x 40 of what
5 x 5 cells show. MultiInputPolicy takes `observation="codes"`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ..errors import check_choice, check_sizes
from . import drawing
from .world import Numbers, State, World, WorldError, check_world

CELL = 16  # pixels along a side of a cell in `rgb_array`
METADATA: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 8}


class LevelsEnv(VectorEnv):
    """Many levels of a world at once, as one array program.

    Args:
        world: a World, or "module:Class" to make one with the other arguments.
        num_envs: how many levels.
        observation: "pixels", uint8 planes, or "codes", a dict of small arrays.
        scale: pixels along a side of a cell, in "pixels".
        autoreset_mode: when a level that is over gives way to a new one, as in
            Gymnasium's own vectors: NEXT_STEP, in the step after its last; SAME_STEP,
            in its last (`info["final_obs"]` then has its last observation where
            `info["_final_obs"]` holds); DISABLED, when you reset it.
        render_mode: "rgb_array", "ansi" or None.
        render_whole: draw the whole board, not only what the player sees.

    ValueError for arguments that do not fit; a WorldError, which is one, for a step
    before `reset`, after a level is over (DISABLED) or after `close`.
    """

    metadata: ClassVar[dict[str, Any]] = METADATA  # type: ignore[misc]

    def __init__(
        self,
        world: str | World,
        num_envs: int = 1,
        observation: str = "pixels",
        scale: int = 1,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        render_whole: bool = True,
        **arguments: Any,
    ):
        check_sizes("LevelsEnv", num_envs=num_envs, scale=scale)
        check_choice("LevelsEnv", "observation", observation, "pixels", "codes")
        if render_mode is not None:
            known = METADATA["render_modes"]
            check_choice("LevelsEnv", "render_mode", render_mode, *known)
        self.world = _world(world, arguments)
        check_world(self.world)
        if observation == "pixels" and self.world.lacks("pixels"):
            raise WorldError(f"{type(self.world).__name__} has no pixels; give codes")
        needs = {"ansi": "text", "rgb_array": "rgb"}.get(render_mode or "")
        if needs and self.world.lacks(needs):
            name = type(self.world).__name__
            raise WorldError(f"{name} has no {needs}; leave render_mode out")
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = METADATA | {"autoreset_mode": self.autoreset_mode}  # type: ignore
        self.num_envs = num_envs
        self.observation = observation
        self.scale = scale
        self.render_mode, self.render_whole = render_mode, render_whole
        self._state: State = {}
        self._over = np.zeros(num_envs, bool)
        start = self.world.start(np.zeros((1, self.world.start_noise), np.float32))
        seen = self._observe(start)
        space: spaces.Space
        if observation == "pixels":
            space = spaces.Box(0, 255, seen.shape[1:], np.uint8)
        else:
            boxes: dict[str, spaces.Space] = {
                name: spaces.Box(
                    -part.highest if isinstance(part, Numbers) else 0,
                    part.highest,
                    seen[name].shape[1:],
                    part.dtype,
                )
                for name, part in self.world.observation.items()
            }
            space = spaces.Dict(boxes)
        self.single_observation_space = space
        self.single_action_space = spaces.Discrete(self.world.actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def _observe(self, state: State) -> Any:
        """All levels in the chosen form. A single code is a row of one."""
        seen = self.world.observe(state)
        if self.observation == "pixels":
            return drawing.enlarge(self.world.pixels(seen), self.scale)
        return {
            name: x.reshape(len(x), *(x.shape[1:] or (1,))).copy()
            for name, x in seen.items()
        }

    def _begin(self, rows: np.ndarray) -> None:
        """Begin new levels in these rows, a mask."""
        shape = np.count_nonzero(rows), self.world.start_noise
        new = self.world.start(self.np_random.random(shape, np.float32))
        for name, x in new.items():
            self._state.setdefault(name, x.copy())[rows] = x
        self._over &= ~rows

    def _require_open(self, what: str, begun: bool = True) -> None:
        if self.closed:
            raise WorldError(f"{what}: the environment is closed; make a new one")
        if begun and not self._state:
            raise WorldError(f"{what}: no level has begun; call reset() first")

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """(observations, {}) of new levels.

        options: {"reset_mask": (num_envs,) bool} begins only those anew
        """
        super().reset(seed=seed)
        self._require_open("reset", begun=bool(options))
        if unknown := {*(options or {})} - {"reset_mask"}:
            raise WorldError(f"reset has no option {unknown.pop()!r}, but reset_mask")
        rows = np.ones(self.num_envs, bool)
        if options:
            rows = options["reset_mask"]
            fits = isinstance(rows, np.ndarray) and rows.dtype == bool
            if not (fits and rows.shape == self._over.shape and rows.any()):
                raise WorldError(
                    f"reset_mask must be an array bool[{self.num_envs}] that is True "
                    f"somewhere, not {rows!r}"
                )
        self._begin(rows)
        return self._observe(self._state), {}

    def step(self, actions):
        """(observations, rewards, terminations, truncations, info)."""
        self._require_open("step")
        actions = np.asarray(actions)
        self.world.check_actions(actions, self.num_envs)
        waiting = self._over.copy()
        if self.autoreset_mode is AutoresetMode.DISABLED and waiting.any():
            raise WorldError("step: the level is over; call reset() first")
        reward = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), bool)
        if not waiting.all():
            rows = np.flatnonzero(~waiting) if waiting.any() else slice(None)
            levels = {name: x[rows] for name, x in self._state.items()}
            shape = self.num_envs - np.count_nonzero(waiting), self.world.noise
            noise = self.np_random.random(shape, np.float32)
            outcome = self.world.step(levels, actions[rows], noise, keep_final=True)
            if outcome.final is None:
                name = type(self.world).__name__
                raise WorldError(
                    f"{name}._step must give `final` if keep_final is True"
                )
            reward[rows], terminated[rows], truncated[rows] = outcome[:3]
            for name, x in outcome.final.items():
                self._state[name][rows] = x
        if waiting.any():
            self._begin(waiting)
        ended = terminated | truncated
        info = {}
        self._over = ended
        seen = self._observe(self._state)
        if self.autoreset_mode is AutoresetMode.SAME_STEP and ended.any():
            for k in np.flatnonzero(ended):
                last = {"final_obs": _row(seen, k), "final_info": {}}
                info = self._add_info(info, last, k)
            self._begin(ended.copy())
            seen = self._observe(self._state)
        return seen, reward, terminated, truncated, info

    def render(self):
        """A tuple with one picture or text for each level; None without a mode."""
        if self.render_mode is None:
            return None
        self._require_open("render")
        whole = self.render_whole
        rows = range(self.num_envs)
        if self.render_mode == "ansi":
            return tuple(self.world.text(self._state, k, whole) for k in rows)
        return tuple(drawing.enlarge(self.world.rgb(self._state, whole), CELL))


class LevelEnv(gymnasium.Env):
    """One level of a world. Arguments and errors are those of `LevelsEnv`, but for
    `num_envs` and `autoreset_mode`.
    """

    metadata: ClassVar[dict[str, Any]] = METADATA  # type: ignore[misc]

    def __init__(
        self, world: str | World, render_mode: str | None = None, **arguments: Any
    ):
        alone: Any = {"num_envs": 1, "autoreset_mode": AutoresetMode.DISABLED}
        self._one = LevelsEnv(world, render_mode=render_mode, **alone, **arguments)
        self.render_mode = render_mode
        self.observation_space = self._one.single_observation_space
        self.action_space = self._one.single_action_space

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """(observation, {}) of a new level. There are no options."""
        super().reset(seed=seed)
        if options:
            raise WorldError(f"reset has no option {next(iter(options))!r}")
        self._one.np_random = self.np_random
        return _row(self._one.reset()[0], 0), {}

    def step(self, action):
        """(observation, reward, terminated, truncated, {})."""
        actions = np.asarray(action)
        if actions.shape or actions.dtype.kind not in "iu":
            raise WorldError(f"an action is one integer, not {action!r}")
        seen, *rest, info = self._one.step(actions[None])
        return _row(seen, 0), *(x.item() for x in rest), info

    def render(self):
        """A picture (h, w, 3) uint8, a text, or None, by `render_mode`."""
        rendered = self._one.render()
        return None if rendered is None else rendered[0]

    def close(self):
        """The end; a second call does nothing."""
        self._one.close()


def _world(world: str | World, arguments: Mapping[str, Any]) -> World:
    if isinstance(world, World):
        if arguments:
            raise WorldError(
                f"{', '.join(arguments)}: the world is already made; give them to it"
            )
        return world
    if "max_episode_steps" in arguments:  # make_vec hands it on
        raise WorldError("give limit instead of max_episode_steps")
    return pkgutil.resolve_name(world)(**arguments)


def _row(seen: Any, row: int) -> Any:
    """One level of an observation."""
    if isinstance(seen, dict):
        return {name: x[row] for name, x in seen.items()}
    return seen[row]
