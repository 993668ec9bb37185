"""Junction: a sign says where to turn, and is out of sight when you have to."""

import functools
from dataclasses import dataclass, field

import numpy as np

from tinyrmc import training
from tinyrmc.backend import namespace
from tinyrmc.cores.agent import AgentConfig
from tinyrmc.environments.world import Codes, Outcome, World, renew
from tinyrmc.training.actors import ActingTask, LearningConfig


class Junction(World):
    """A corridor, and a junction at its end. The sign is seen from the start alone."""

    action_names = "forward", "left", "right"
    observation = {"view": Codes((1, 1), 3)}  # one cell: floor, junction, left, right
    noise = start_noise = 1  # a random number for each level: what its sign says
    constants = {}

    def __init__(self, length):
        self.length, self.limit = length, 4 * length + 4

    def _start(self, noise):  # (B, 1) in [0, 1) -> B levels, as arrays (B, ...)
        xp = namespace(noise)  # NumPy, or CuPy on a GPU
        nothing = xp.zeros(len(noise), np.int64)
        return {
            "place": nothing,
            "age": nothing.copy(),
            "sign": 1 + (noise[:, 0] < 0.5),
        }

    def _step(self, state, actions, noise, keep_final):
        """One step in all levels, in place; levels that end are replaced at once."""
        xp, place, age = namespace(actions), state["place"], state["age"]
        turned = (place == self.length) & (actions > 0)
        right = turned & (actions == state["sign"])
        place += (actions == 0) & (place < self.length)
        age += 1
        late = (age == self.limit) & ~turned
        final = {name: x.copy() for name, x in state.items()} if keep_final else None
        renew(state, turned | late, lambda rows: self._start(noise[rows]))
        reward = xp.where(right, 1, xp.where(turned, -1, 0)).astype(np.float32)
        return Outcome(reward, turned, late, final)

    def observe(self, state):
        xp, place = namespace(state["place"]), state["place"]
        start = (place == 0) & (state["age"] == 0)
        seen = xp.where(start, 1 + state["sign"], place == self.length)
        return {"view": seen.astype(np.uint8)[:, None, None]}  # (B, 1, 1)


@dataclass(frozen=True)
class Config:
    """Each field is a flag, and the text below it is the flag's help."""

    model: AgentConfig = field(default_factory=AgentConfig)
    agent: LearningConfig = field(default_factory=LearningConfig)
    length: int = 3
    """cells from the start to the junction"""
    train: training.TrainConfig = field(default_factory=training.TrainConfig)

    def __post_init__(self):
        if self.length < 1:
            raise ValueError(f"length must be at least 1, not {self.length}")


QUICK = Config(
    model=AgentConfig(
        mem_slots=2, num_heads=2, head_size=8, encoder="linear", features=16
    ),
    agent=LearningConfig(algorithm="a2c", unroll=16, entropy_cost=0.01),
    train=training.TrainConfig(
        steps=400,
        batch_size=64,
        learning_rate=5e-3,
        warmup_steps=0,
        cosine_fraction=0.5,
        evaluate_every=100,
    ),
)


class Task(ActingTask):
    """The answers to the training loop: a world, when a level is solved, a floor."""

    presets = {"quick": ("three steps to the junction; ten seconds", QUICK)}
    test_examples = 1024

    @functools.cached_property
    def world(self):
        return Junction(self.config.length)

    def succeeds(self, outcome, levels):
        return outcome.reward == 1

    def references(self):
        """A floor: walk to the junction, and turn without having read the sign."""
        return {"test_solved": {"any turn": 0.5, **super().references()["test_solved"]}}
