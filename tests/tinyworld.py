"""A small world to act in, and the task of learning there: a T-maze.

The first view shows which way to turn at the end of the corridor; the others show
nothing but the place. So an agent without a memory turns right half of the time.
"""

import functools
from dataclasses import dataclass, field

import numpy as np

from tinyrmc import training
from tinyrmc.backend import namespace
from tinyrmc.cores.agent import AgentConfig
from tinyrmc.environments.world import Codes, Outcome, World
from tinyrmc.training.actors import ActingTask, LearningConfig

LENGTH = 2  # cells of the corridor before the junction
LIMIT = 12


class Maze(World):
    """Codes of what is seen: 0 corridor, 1 junction, 2 a sign left, 3 a sign right."""

    action_names = "forward", "left", "right"
    noise = start_noise = 1
    observation = {"view": Codes((1, 1), 3)}
    constants = {}

    def _start(self, noise):
        xp = namespace(noise)
        B = len(noise)
        zeros = xp.zeros(B, np.int64)
        return {"place": zeros, "age": zeros.copy(), "way": (noise[:, 0] < 0.5) * 1}

    def _step(self, state, actions, noise, keep_final):
        xp = namespace(actions)
        place, age, way = (state[name] for name in ("place", "age", "way"))
        turned = (place == LENGTH) & (actions > 0)
        right = turned & (actions == way + 1)
        place += (actions == 0) & (place < LENGTH)
        age += 1
        truncated = (age == LIMIT) & ~turned
        ended = turned | truncated
        final = {k: x.copy() for k, x in state.items()} if keep_final else None
        place[...] = xp.where(ended, 0, place)
        age[...] = xp.where(ended, 0, age)
        way[...] = xp.where(ended, noise[:, 0] < 0.5, way)
        reward = xp.where(right, 1, xp.where(turned, -1, 0)).astype(np.float32)
        return Outcome(reward, turned, truncated, final)

    def observe(self, state):
        xp = namespace(state["place"])
        start = (state["place"] == 0) & (state["age"] == 0)
        sign = xp.where(start, 2 + state["way"], state["place"] == LENGTH)
        return {"view": sign.astype(np.uint8).reshape(-1, 1, 1)}


@dataclass(frozen=True)
class Config:
    model: AgentConfig = field(
        default_factory=lambda: AgentConfig(
            core="lstm", hidden_size=16, features=16, encoder="linear"
        )
    )
    agent: LearningConfig = field(
        default_factory=lambda: LearningConfig(unroll=8, entropy_cost=0.01)
    )
    train: training.TrainConfig = field(
        default_factory=lambda: training.TrainConfig(
            steps=150,
            batch_size=64,
            piece_size=16,
            learning_rate=0.01,
            warmup_steps=0,
            log_every=25,
            evaluate_every=75,
        )
    )


class Task(ActingTask):
    presets = {"quick": ("a T-maze", Config())}
    test_examples = 128

    @functools.cached_property
    def world(self):
        return Maze()

    def succeeds(self, outcome, levels):
        return outcome.reward == 1
