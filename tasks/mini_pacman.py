"""MiniPacman: collect food while ghosts hunt you, and see 5 x 5 cells of the maze.

The task of section 4.2 of Santoro et al. 2018. A level is cleared when all food is
eaten; the next has more and faster ghosts. Through the viewport the agent does not see
what food is left elsewhere. The paper reports scores: 677 for the RMC against 550 for
an LSTM with the viewport, 1159 against 598 with full observation. Its text has neither
the network's sizes nor the number of steps. `tinyrmc/environments/pacman.py` has the
rules.

*How it is learnt.* As BoxWorld is: the policy acts for `unroll` steps in all games of a
batch, then learns from that (`training/rl/actors.py`). An episode lasts until a ghost
catches Pacman, or 3,000 steps.

*How it is tested.* Each held-out game is played once, with the actions drawn from the
policy: one set of games during training, another at its end. Beside the score: how many
cleared at least one level (`solved`), and what players reach who learnt nothing: one
who moves at random, and a script that sees the whole maze.

*Where this departs from the paper*, as far as it tells: in `quick` a memory of 4 slots
of 64 units with a gate for each unit and a ReLU also after the attention MLP, codes of
cells instead of RGB through convolutions; the agent is told what it did, what that
brought and how long its power lasts, and policy and value see the encoder's output
beside the memory's; a2c without a lag, 256 games in unrolls of 20 steps, rewards times
0.1, lambda 0.95, entropy cost 0.01, Adam at 1e-3 with clipped gradients.
"""

from __future__ import annotations

import functools
import typing
from dataclasses import dataclass, field

from tinyrmc import training
from tinyrmc.config import ADDED, check_least
from tinyrmc.environments.pacman import MiniPacman
from tinyrmc.training.rl import actors
from tinyrmc.training.rl.actors import A2C, SMALL, ActingConfig, ActingTask

# --- What can be set ------------------------------------------------------------------


@dataclass(frozen=True)
class WorldConfig:
    """The game, and what the agent sees of it."""

    common: typing.ClassVar = ("view",)
    gone: typing.ClassVar = {"mode": "regular"}  # runs of 0.3 say it

    view: typing.Literal["viewport", "whole"] = "viewport"
    """a window around Pacman, or the whole maze"""
    viewport: int = field(default=5, metadata=ADDED)
    """side of that window: 5, 3, or 1, his own cell"""
    limit: int = 3000
    """steps after which an episode ends"""

    def __post_init__(self):
        check_least("world", self, "limit")
        self.make()

    def make(self) -> MiniPacman:
        """The world of these settings."""
        return MiniPacman(self.view, self.limit, self.viewport)


@dataclass(frozen=True)
class Config(ActingConfig):
    """Everything that decides a run's result, together with the seed."""

    world: WorldConfig = field(default_factory=WorldConfig)


QUICK = Config(
    model=SMALL,
    agent=A2C,
    train=training.TrainConfig(
        steps=6000,
        batch_size=256,
        learning_rate=1e-3,
        beta2=0.99,
        warmup_steps=0,
        cosine_fraction=1.0,
        clip_norm=0.5,
        log_every=50,
        evaluate_every=500,
    ),
)
PAPER = Config(**actors.PAPER)

# --- What was published ---------------------------------------------------------------

# Scores, section 5.3.
REPORTED = {
    "viewport, RMC": 677,
    "viewport, LSTM": 550,
    "whole, RMC": 1159,
    "whole, LSTM": 598,
}
TRAINED_BY = {
    "viewport, RMC": "quick",
    "viewport, LSTM": "quick --model.core lstm",
    "whole, RMC": "quick --world.view whole",
    "whole, LSTM": "quick --world.view whole --model.core lstm",
    # ours alone: whether the game asks for a memory
    "viewport, no memory": "quick --model.core feedforward",
}
CORES = {"rmc": "RMC", "lstm": "LSTM", "feedforward": "no memory"}

# --- The task -------------------------------------------------------------------------


class Task(ActingTask):
    """MiniPacman; see the module's text."""

    presets = {
        "quick": ("5 x 5 cells of the maze, a memory of 4 x 64", QUICK),
        "paper": ("the network and recipe of the paper's agents; not run here", PAPER),
    }
    grids = actors.RATES
    reported = REPORTED
    published = {
        cell: (str(REPORTED.get(cell, "")), words) for cell, words in TRAINED_BY.items()
    }
    headline = "score"
    row = "game"
    success = None
    splits = ("validation", "test")
    test_examples = 256

    @functools.cached_property
    def world(self):
        return self.config.world.make()

    def succeeds(self, outcome, levels):
        """A level was cleared; if in a game's very last step, it does not count."""
        return levels["level"] > 1

    # --- What to compare it with

    def idle(self):
        whole = self.config.world.view == "whole"
        seen = {"where all is seen": ["world.viewport"]} if whole else {}
        return super().idle() | seen

    def cell(self):
        world, core = self.config.world, self.config.model.core
        usual = (world.limit, world.viewport) == (3000, 5)
        cell = f"{world.view}, {CORES.get(core)}"
        return cell if usual and not self.is_trial and cell in self.published else None

    @property
    def players(self):
        script = {
            "a script that sees all": lambda world, levels, u: world.scripted(levels)
        }
        return super().players | script

    def analyses(self, model):
        """The analyses of all agents, and what "solved" means here."""
        says = {"levels solved": "solved: at least one level cleared"}
        for name, table in super().analyses(model):
            yield says.get(name, name), table
