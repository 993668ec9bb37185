"""Any world as a Gymnasium environment: one level at a time, or many.

    import gymnasium
    import tinyrmc.environments

    env = gymnasium.make("tinyrmc/BoxWorld-v0")
    envs = gymnasium.make_vec("tinyrmc/BoxWorld-v0", num_envs=256)

Training does not come through here: this is for the agents of other libraries.
Gymnasium comes with the extra `rl`. With Stable-Baselines3, for example:

    import tinyrmc.environments
    from sb3_contrib import RecurrentPPO

    agent = RecurrentPPO("MlpLstmPolicy", "tinyrmc/BoxWorld-v0")
    agent.learn(10_000)
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from . import drawing
from .world import Outcome, State, World, WorldError, check_count

OBSERVATIONS = ("pixels", "codes")
CELL = 16  # pixels along a side of a cell in `rgb_array`
METADATA: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 8}


class _Played:
    """What both kinds of environment do: B levels of a world, from start to close."""

    def __init__(
        self,
        world: str | World,
        levels: int,
        observation: str,
        render_mode: str | None,
        render_whole: bool,
        arguments: dict[str, Any],
    ):
        if observation not in OBSERVATIONS:
            raise WorldError(
                f"observation must be pixels or codes, not {observation!r}"
            )
        modes = METADATA["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise WorldError(
                f"render_mode must be {' or '.join(modes)}, not {render_mode!r}"
            )
        self.world, self.levels = _world(world, arguments), levels
        self.observation, self.render_mode = observation, render_mode
        self.render_whole, self.closed = render_whole, False
        self.state: State | None = None
        self.shown: State | None = None  # what a picture is of

    def space(self) -> spaces.Space:
        """The observations of one level."""
        if self.observation == "pixels":
            state = self.world.start(np.zeros((1, self.world.start_noise), np.float32))
            return spaces.Box(0, 255, self.observe(state).shape[1:], np.uint8)
        return spaces.Dict(
            {
                name: spaces.Box(0, codes.highest, codes.shape, np.uint8)
                for name, codes in self.world.observation.items()
            }
        )

    def observe(self, state: State) -> Any:
        """What is seen of all levels, in the chosen form."""
        seen = self.world.observe(state)
        return self.world.pixels(seen) if self.observation == "pixels" else seen

    def start(self, rng: np.random.Generator) -> Any:
        if self.closed:
            raise WorldError("reset: the environment is closed; make a new one")
        shape = self.levels, self.world.start_noise
        self.state = self.shown = self.world.start(rng.random(shape, np.float32))
        return self.observe(self.state)

    def step(self, actions: np.ndarray, rng: np.random.Generator) -> Outcome:
        """One step of all levels, with the state in which some of them ended."""
        if self.closed:
            raise WorldError("step: the environment is closed; make a new one")
        if self.state is None:
            raise WorldError("step: no level has begun; call reset() first")
        self.world.check_actions(actions, self.levels)
        noise = rng.random((self.levels, self.world.noise), np.float32)
        outcome = self.world.step(self.state, actions, noise, keep_final=True)
        self.shown = self.state
        return outcome

    def render(self) -> list[Any] | None:
        """A picture or a text of each level; None without a render mode."""
        if self.render_mode is None:
            return None
        if self.shown is None:
            raise WorldError("render: no level has begun; call reset() first")
        if self.render_mode == "ansi":
            rows = range(self.levels)
            return [self.world.text(self.shown, k, self.render_whole) for k in rows]
        pictures = self.world.rgb(self.shown, self.render_whole)
        return [*drawing.enlarge(pictures, CELL)]


class LevelEnv(gymnasium.Env):
    """One level of a world.

    Args:
        world: a World, or "module:Class" to make one with the other arguments.
        observation: "pixels", uint8 planes, or "codes", a dict of small arrays.
        render_mode: "rgb_array", "ansi" or None.
        render_whole: draw the whole board, not only what the player sees.

    WorldError for arguments that do not fit, and for a step before `reset`, after the
    level is over or after `close`.
    """

    metadata: ClassVar[dict[str, Any]] = METADATA  # type: ignore[misc]

    def __init__(
        self,
        world: str | World,
        observation: str = "pixels",
        render_mode: str | None = None,
        render_whole: bool = True,
        **arguments: Any,
    ):
        self._played = _Played(
            world, 1, observation, render_mode, render_whole, arguments
        )
        self._over = False
        self.render_mode = render_mode
        self.observation_space = self._played.space()
        self.action_space = spaces.Discrete(self._played.world.actions)

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """(observation, {}) of a new level. `options` has no meaning here."""
        super().reset(seed=seed)
        self._over = False
        return _only(self._played.start(self.np_random)), {}

    def step(self, action):
        """(observation, reward, terminated, truncated, {})."""
        if self._over and not self._played.closed:
            raise WorldError("step: the level is over; call reset() first")
        actions = np.asarray(action)
        if actions.shape or actions.dtype.kind not in "iu":
            raise WorldError(f"an action is one integer, not {action!r}")
        outcome = self._played.step(actions[None], self.np_random)
        reward, terminated, truncated = (x.item() for x in outcome[:3])
        self._over = terminated or truncated
        self._played.shown = outcome.final  # of a level that is over, its end
        seen = _only(self._played.observe(outcome.final))
        return seen, reward, terminated, truncated, {}

    def render(self):
        """A picture (h, w, 3) uint8, a text, or None, by `render_mode`."""
        rendered = self._played.render()
        return None if rendered is None else rendered[0]

    def close(self):
        """The end; a second call does nothing."""
        self._played.closed = True


class LevelsEnv(VectorEnv):
    """Many levels of a world at once, as one array program.

    Levels that end are replaced in the same step (AutoresetMode.SAME_STEP): what comes
    back is the next level's first observation, and `info["final_obs"]` has the last one
    of those where `info["_final_obs"]` holds. Arguments as for `LevelEnv`.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        **METADATA,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        world: str | World,
        num_envs: int = 1,
        observation: str = "pixels",
        render_mode: str | None = None,
        render_whole: bool = True,
        **arguments: Any,
    ):
        check_count("num_envs", num_envs)
        self._played = _Played(
            world, num_envs, observation, render_mode, render_whole, arguments
        )
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_observation_space = self._played.space()
        self.single_action_space = spaces.Discrete(self._played.world.actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """(observations, {}) of new levels. `options` has no meaning here."""
        super().reset(seed=seed)
        return self._played.start(self.np_random), {}

    def step(self, actions):
        """(observations, rewards, terminations, truncations, info)."""
        outcome = self._played.step(np.asarray(actions), self.np_random)
        ended, info = outcome.ended, {}
        if ended.any():
            info = self._final(outcome.final, ended)
        seen = self._played.observe(self._played.state)
        return seen, outcome.reward, outcome.terminated, outcome.truncated, info

    def _final(self, state: State, ended: np.ndarray) -> dict[str, Any]:
        """The last observations of levels that ended, as Gymnasium's own VectorEnvs
        give them: an array of objects, and a mask.
        """
        rows = np.flatnonzero(ended)
        seen = self._played.observe({name: x[rows] for name, x in state.items()})
        last = np.full(self.num_envs, None, dtype=object)
        for k, row in enumerate(rows):
            last[row] = _row(seen, k)
        return {
            "final_obs": last,
            "_final_obs": ended,
            "final_info": {},
            "_final_info": ended.copy(),
        }

    def render(self):
        """A tuple with one picture or text for each level, or None."""
        rendered = self._played.render()
        return None if rendered is None else tuple(rendered)

    def close_extras(self, **kwargs: Any):
        self._played.closed = True


def _world(world: str | World, arguments: Mapping[str, Any]) -> World:
    if isinstance(world, World):
        if arguments:
            raise WorldError(
                f"{', '.join(arguments)}: the world is already made; give them to it"
            )
        return world
    module, _, name = str(world).partition(":")
    try:
        kind = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise WorldError(
            f"world must be a World or the text 'module:Class', not {world!r}: {error}"
        ) from error
    signature = inspect.signature(kind)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        if "max_episode_steps" in arguments:  # make_vec hands it on
            raise WorldError(
                f"{name} counts its steps itself; give limit instead of "
                "max_episode_steps"
            ) from error
        known = ", ".join(signature.parameters)
        raise WorldError(f"{name} {error}; its arguments are {known}") from error
    return kind(**arguments)


def _row(seen: Any, row: int) -> Any:
    """One level of an observation."""
    if isinstance(seen, dict):
        return {name: x[row, ...] for name, x in seen.items()}
    return seen[row]


def _only(seen: Any) -> Any:
    return _row(seen, 0)
