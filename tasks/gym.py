"""Gymnasium: an agent with a memory learns in an environment of Gymnasium's, or yours.

`--world.id` names it as `gymnasium.make` takes it: `my_file:MyEnv-v0` imports
`my_file.py`, which registers it, from the current folder. Actions must be discrete. In
`quick` the pole on a cart is shown without its velocities (`--world.keep 0 2`: the
cart's place and the pole's angle), so what to do does not follow from what is seen.

*How it is learnt.* As the worlds of the paper are (`training/rl/actors.py`). This task
is none of the paper's. The environments are played on the host, one after the other.

*How it is tested.* On levels whose seeds training never draws: one set while it goes
on, another at its end. The floor is a player who moves at random.
"""

from __future__ import annotations

import functools
import os
import sys
import typing
from dataclasses import dataclass, field, replace

from tinyrmc import training
from tinyrmc.config import check_least
from tinyrmc.environments.from_gymnasium import GymnasiumWorld
from tinyrmc.errors import UsageError
from tinyrmc.training.rl.actors import A2C, SMALL, ActingConfig, ActingTask

# --- What can be set ------------------------------------------------------------------


@dataclass(frozen=True)
class WorldConfig:
    """The environment, and what the agent sees of it."""

    common: typing.ClassVar = ("id", "keep")

    id: str = "CartPole-v1"
    """its name, as gymnasium.make takes it: my_file:MyEnv-v0 imports my_file first"""
    keep: tuple[int, ...] = ()
    """which numbers of a flat observation the agent sees, from 0; none: all that there
    is
    """
    limit: int | None = None
    """steps after which a level is cut off; None: the environment's own limit"""

    goal: typing.Literal["reward", "limit"] = "reward"
    """a level is solved where its last step brings a reward, or where it lasts to the
    limit
    """

    def __post_init__(self):
        if self.limit is not None:
            check_least("world", self, "limit")

    def make(self, held_out: bool) -> GymnasiumWorld:
        """The world of these settings. UsageError if there can be none."""
        try:
            import gymnasium
        except ModuleNotFoundError:
            raise UsageError(
                "this task needs Gymnasium: pip install 'tinyrmc[rl]'"
            ) from None
        if ":" in self.id and os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())  # as for `python -m`
        try:
            make = functools.partial(gymnasium.make, self.id)
            if self.keep:
                make = functools.partial(_keeping, make, [*self.keep])
            return GymnasiumWorld(make, self.limit, held_out=held_out)
        except (gymnasium.error.Error, ImportError, IndexError, TypeError) as error:
            says = "; `file:Name-v0` imports file.py, of this folder or of PYTHONPATH"
            raise UsageError(f"--world.id {self.id}: {error}{says}") from error


def _keeping(make, keep):
    """An environment that shows only some of its numbers."""
    from gymnasium.spaces import Box
    from gymnasium.wrappers import TransformObservation

    env = make()
    space = env.observation_space
    if not isinstance(space, Box) or len(space.shape) != 1:
        raise UsageError(f"world.keep is for flat observations, not for {space}")
    kept = Box(space.low[keep], space.high[keep], dtype=space.dtype)
    return TransformObservation(env, lambda seen: seen[keep], kept)


@dataclass(frozen=True)
class Config(ActingConfig):
    """Everything that decides a run's result, together with the seed."""

    world: WorldConfig = field(default_factory=WorldConfig)


QUICK = Config(
    model=replace(SMALL, mem_slots=2, num_heads=2, features=64),
    agent=A2C,
    world=WorldConfig(keep=(0, 2), goal="limit"),
    train=training.TrainConfig(
        steps=1500,
        batch_size=64,
        learning_rate=1e-3,
        warmup_steps=0,
        cosine_fraction=1.0,
        clip_norm=0.5,
        log_every=50,
        evaluate_every=250,
    ),
)

OWN = replace(QUICK, world=WorldConfig())

# --- The task -------------------------------------------------------------------------


class Task(ActingTask):
    """An environment of Gymnasium's; see the module's text."""

    presets = {
        "quick": ("CartPole without its velocities", QUICK),
        "own": ("an environment of yours: --world.id my_file:MyEnv-v0", OWN),
    }
    headline = "score"
    success = None
    splits = ("validation", "test")
    test_examples = 128

    @functools.cached_property
    def world(self):
        return self.config.world.make(held_out=False)

    def notes(self):
        return self.world.notes

    @functools.cached_property
    def held_out_world(self):
        return self.config.world.make(held_out=True)

    def succeeds(self, outcome, levels):
        if self.config.world.goal == "limit":
            return outcome.truncated
        return outcome.terminated & (outcome.reward > 0)
