r"""BoxWorld, taught by a script that forgets nothing: which core can hold enough?

    python -m tinyrmc.train benchmarks/box_taught.py --model.core lstm
    python -m tinyrmc report runs/box_taught-* --out summary.json
    python -m tinyrmc.train box_world full --model.head-size 16 --model.encoder conv \
        --init RUN

The network sees what agents of `box_world` see, but no reward has to teach it what to
do: a script (`environments/box_player.py`), which has seen no more than it has, names
every action that is the first of a shortest way, and the network learns to take one of
them. So what is missing in the end is missing in memory, in thinking or in training,
not in trying.

In most levels the network acts, so that it learns what to do where it gets to itself
(DAgger, Ross et al. 2011); in some the script leads, so that it sees how levels end.
`agreement` is the share of moments in which the network's likeliest action is one that
the script names, `solved` that of levels that it solves by itself; both on held-out
levels. Values are learnt as in `box_world`, so the third command goes on by reward.

Reward may teach as well, or instead (`--teach.reward 1 --teach.script 0 --teach.period
0`). And so may questions to the memory, which need no script: of a thing that was seen
in this level and is out of sight, how does its lock look, and where is it from here?
`recall` is the share of such locks that it tells right; by chance, one in twenty, but
in one run a network without a memory had a quarter (benchmarks/worlds_tried.md).

What an agent lacks, one can tell it: with `--teach.goal` it sees where to go next, as
far as what it has seen tells that. Then it need not remember which box is next, nor
where it is; what is left is to get there, and to explore. With `--teach.which` it sees
which thing is next, but not where: so it need not think back from the gem, but has to
remember the place. With `--world.view remembered --model.encoder attention` it need
remember nothing, but nobody tells it what is next; what of that helps, `--teach.forget`
asks: the list of what was seen, the maps beside it, or both then show no more than the
window does.
"""

from __future__ import annotations

import functools
import typing
from dataclasses import dataclass, field, replace

import numpy as np

from tinyrmc.autograd import primitives as p
from tinyrmc.autograd.engine import Tensor
from tinyrmc.backend import namespace
from tinyrmc.backend.seeds import generator
from tinyrmc.config import check_values, check_within
from tinyrmc.cores.core import state_of
from tinyrmc.environments.box_player import Exploration, first_steps, wanted
from tinyrmc.environments.box_world import BoxWorld, things
from tinyrmc.environments.world import Codes
from tinyrmc.fused import categorical, softmax_cross_entropy
from tinyrmc.nn import MLP
from tinyrmc.training.discovery import load_task
from tinyrmc.training.pieces import MetricAccumulator, micro_batches
from tinyrmc.training.rl import vtrace
from tinyrmc.training.rl.actors import TESTED, one_hot

box_world: typing.Any = load_task("box_world")


class ShownWorld(BoxWorld):
    """BoxWorld that shows more: the script's first `steps`; whether it has `led`, in
    one of `period` levels, in none if that is 0; where to go next, row and column from
    you, from 1 on (`goal_row`, `goal_column`, 0: that is not known yet), and how what
    lies there looks, of a box what is in it (`goal_look`); and a question about a thing
    that was seen, and is out of sight: how it looks (`asked`, 0: there is none), and
    the `answer`, how its lock looks, and its row and column from you, from 0 on.
    """

    exploration: Exploration = "nearest"
    period = 0
    forgets: tuple[str, ...] = ()  # observations that show no more than the window

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.keeps = self.view != "whole"
        self.width = 2 * self.grid - 5  # rows from you: as many up as down
        self.observation |= {
            "steps": Codes((self.actions,), 1),
            "led": Codes((), 1),
            "goal_row": Codes((), self.width),
            "goal_column": Codes((), self.width),
            "goal_look": Codes((), self.you),
            "asked": Codes((), self.you),
            "answer": Codes((3,), max(self.you, self.width - 1)),
        }

    def observe(self, state):
        steps = first_steps(self, state, self.exploration)
        led = (state["level"] % max(self.period, 1) == 0) * (self.period > 0)
        known, reach = self.known(state), self.width // 2
        asked, answer = self.question(state, known)
        goals = wanted(self, known, state["held"])
        goal, found = goals.argmax(axis=1), goals.any(axis=1)
        rows, columns = self.away(state, goal[:, None])
        shown = {"steps": steps, "led": led, "asked": asked, "answer": answer}
        for name, away in (("goal_row", rows), ("goal_column", columns)):
            shown[name] = (away[:, 0] + reach + 1) * found
        # the lock of a box, the goal, lies to the right of what is in it
        each = namespace(known).arange(len(known))
        thing = things(known)[0][each, goal]
        shown["goal_look"] = known[each, goal - ~thing] * found
        shown = {name: x.astype(np.uint8) for name, x in shown.items()}
        if self.forgets:
            xp = namespace(known)
            walls = self.on(xp)["walls"]  # known from the start
            seen = xp.broadcast_to(walls, state["seen"].shape).copy()
            now = state | {"seen": seen}
            self._look(now)
            found = super().observe(now)
            shown |= {name: found[name] for name in self.forgets}
        return super().observe(state) | shown

    def away(self, state, cells):
        """Rows down and columns to the right of you (B, K), of cells (K,) or (B, K)."""
        side, here = self._side, state["place"][:, None]
        return cells // side - here // side, cells % side - here % side

    def question(self, state, known):
        """The look of a thing out of sight (B,), and what is known of it (B, 3)."""
        xp, reach = namespace(known), self.width // 2
        thing, lock = things(known)
        cells = xp.arange(known.shape[1])
        away = self.away(state, cells)
        thing &= xp.maximum(*(abs(x) for x in away)) > self.viewport // 2
        # any of them: which one, follows from level and step
        when = state["level"] * 7919 + state["steps"] * 104729
        cell = (thing * (1 + (cells + when[:, None]) * 40503 % 65521)).argmax(axis=1)
        rows = xp.arange(len(cell))
        asked = (known * thing)[rows, cell]
        found = [lock, *(x + reach for x in away)]
        answer = xp.stack([x[rows, cell] for x in found], axis=1)
        return asked, answer * (asked > 0)[:, None]


@dataclass(frozen=True)
class TeachConfig:
    """Who teaches, and how."""

    exploration: Exploration = "nearest"
    """where the script looks for what it does not know yet: nearest, in the nearest
    cell that it has not seen; sweep, to and fro through the room
    """
    period: int = 4
    """the script leads in one of so many levels; 0: in none"""
    script: float = 1.0
    """weight of what the script says"""
    reward: float = 0.0
    """weight of what the agent learns from reward"""
    recall: float = 0.0
    """weight of the questions to the memory, one at each step"""
    goal: bool = False
    """the agent is told where to go next, as far as what it has seen tells that"""
    which: bool = False
    """the agent is told which thing is next, as far as what it has seen tells that"""
    forget: typing.Literal["nothing", "list", "maps", "both"] = "nothing"
    """of world.view remembered: what is to show no more than the window"""

    def __post_init__(self):
        check_values(self, "teach")
        weights = "script", "reward", "recall"
        check_within("teach", self, "[0, 1e30]", "period", *weights)


@dataclass(frozen=True)
class WorldConfig(box_world.WorldConfig):
    """The levels, and what the agent sees of them."""

    kind: typing.ClassVar = ShownWorld


@dataclass(frozen=True)
class Config(box_world.Config):
    """Everything that decides a run's result, together with the seed."""

    world: WorldConfig = field(default_factory=WorldConfig)
    teach: TeachConfig = field(default_factory=TeachConfig)

    def __post_init__(self):
        super().__post_init__()
        if self.teach.forget != "nothing" and self.world.view != "remembered":
            raise ValueError(
                f"teach.forget {self.teach.forget} needs world.view remembered, "
                f"not {self.world.view}, which shows nothing to forget"
            )


FORGET = {
    "nothing": (),
    "list": ("view",),
    "maps": ("around",),
    "both": ("view", "around"),
}

FULL = Config(
    model=replace(box_world.FULL.model, head_size=16, encoder="conv"),
    agent=box_world.FULL.agent,
    train=replace(box_world.FULL.train, steps=8000, learning_rate=1e-3, clip_norm=1.0),
)


class Task(box_world.Task):
    """BoxWorld, taught; see the module's text."""

    presets = {"full": ("the paper's levels, each step named by a script", FULL)}
    grids: typing.ClassVar[dict] = {}
    published: typing.ClassVar[dict] = {}

    @property
    def world(self):
        world, teach = super().world, self.config.teach
        world.exploration, world.period = teach.exploration, teach.period
        world.forgets = FORGET[teach.forget]
        return world

    @functools.cached_property
    def held_out_world(self):
        world = super().held_out_world
        world.exploration = self.config.teach.exploration
        world.forgets = FORGET[self.config.teach.forget]
        return world

    def build(self, seed):
        agent, world = super().build(seed), self.held_out_world
        if self.config.teach.recall:  # what answers the questions
            asked = agent.core.output_size + world.you + 1
            answers = world.you + 1 + 2 * world.width
            agent.recall = MLP(asked, [128, answers], seed=generator(seed.spawn(1)[0]))
        return agent

    @property
    def besides_view(self):
        teach = self.config.teach
        place = ["goal_row", "goal_column"] * teach.goal
        return [*super().besides_view, *place, *["goal_look"] * teach.which]

    def cell(self):
        return None

    def references(self):
        """Those of `box_world`, and of the questions chance."""
        chance = {"by chance": 1 / self.config.world.colours}
        asked = self.splits if self.config.teach.recall else ()
        return super().references() | {f"{x}_recall": chance for x in asked}

    def _call(self, model, trajectory, state, moment=None):
        """The network; or where it acts and the script leads, what that would do."""
        logits, values, state = super()._call(model, trajectory, state, moment)
        if moment is not None:
            now = slice(moment, moment + 1)
            steps, led = (trajectory[f"seen/{x}"][:, now] for x in ("steps", "led"))
            script = (steps.astype(np.float32) - 1) * np.float32(1e9)
            taken = namespace(steps).where(led[..., None] > 0, script, logits.data)
            logits = Tensor(taken)
        return logits, values, state

    def loss(self, model, batch, carry):
        """The weighted sum of what teaches: the script, minus the log of how likely a
        step is that it names; reward, as in `box_world`, in the levels that the agent
        leads; and the questions. With the values' loss.

        Long because it is one formula after the other.
        """
        c, teach, taken = self.config.agent, self.config.teach, batch["taken"]
        xp, (B, T) = namespace(taken), taken.shape
        named = batch["seen/steps"][:, :T].astype(np.float32)  # (B, T, A)
        own = 1 - batch["seen/led"][:, :T].astype(np.float32)  # (B, T)
        x = model.encode(*self.planes(batch))
        state = state_of(batch, model.initial_state(B))
        outputs, _ = model.core.unroll(x, state, is_first=batch["is_first"])
        h = p.stack(outputs, axis=1)
        logits, values = model.decide(h, x)  # (B, T + 1, A), (B, T + 1)
        likely = p.sum(p.softmax(logits[:, :T]) * named, axis=2)
        known = xp.any(named > 0, axis=2)
        script = p.sum(p.log(likely + np.float32(1e-9)) * -known.astype(np.float32))
        vs, advantages = vtrace.targets(
            xp.zeros((T, B), np.float32),  # as if the agent did what the script does
            (np.float32(c.discount) * ~batch["ended"]).T,
            (batch["gained"] * np.float32(c.reward_scale)).T,
            values.data[:, :T].T,
            values.data[:, T],
            lambda_=c.gae_lambda,
        )
        value = 0.5 * p.sum(p.square(values[:, :T] - vs.T))
        log_pi, entropies = categorical(logits[:, :T], taken)
        actor = p.sum(log_pi * (-advantages.T * own))
        actor = actor - c.entropy_cost * p.sum(entropies * own)
        total = teach.script * script + teach.reward * actor + c.value_cost * value
        best = logits.data[:, :T].argmax(axis=-1)
        agreed = xp.take_along_axis(named, best[..., None], axis=2)
        ended, steps = xp.sum(batch["ended"] * own), B * T
        metrics = {
            "agreement": (xp.sum(agreed), xp.sum(known)),
            "score": (xp.sum(batch["score"] * own), ended),
            "solved": (xp.sum(batch["solved"] * own), ended),
            "entropy": (xp.sum(entropies.data), steps),
            "value_loss": (value.data, steps),
        }
        if teach.recall:
            wrong, right, asked = self.recalled(model, h, batch)
            total = total + teach.recall * wrong
            metrics["recall"] = right, asked
        return total, steps, metrics, carry

    def recalled(self, model, h, batch):
        """(the loss of the answers, how many locks are told right, of how many)."""
        xp, world = namespace(batch["taken"]), self.held_out_world
        asked, answer = batch["seen/asked"], batch["seen/answer"].astype(np.intp)
        question = p.concatenate([h, one_hot(asked, world.you + 1)], axis=2)
        told, counts = model.recall(question), (asked > 0).astype(np.float32)
        wrong, start = 0.0, 0
        for k, width in enumerate((world.you + 1, world.width, world.width)):
            logits, start = told[..., start : start + width], start + width
            loss = softmax_cross_entropy(logits, answer[..., k])
            wrong = wrong + p.sum(loss * counts)
            if k == 0:
                locked = answer[..., 0] > 0
                right = locked & (logits.data.argmax(axis=-1) == answer[..., 0])
        return wrong, xp.sum(right), xp.sum(locked)

    def evaluate(self, model, worker=0, workers=1, xp=np, split=None):
        """With the agreement, in the levels' first `limit` steps."""
        sums = MetricAccumulator(super().evaluate(model, worker, workers, xp, split))
        first, world = self.first_level(split or self.splits[0]), self.held_out_world
        size = self.config.train.micro_batch(xp)
        pieces = micro_batches(self.test_examples, size, workers)
        for start, stop in pieces[worker::workers]:
            levels = first + start, first + stop
            carry = None
            for chunk in range(-(-world.limit // TESTED)):
                noise = xp.asarray(self.held_out_noise(chunk, *levels))
                carry = carry or self.begin_held_out(model, noise, *levels)
                played, carry = self.act(model, world, carry, noise[:, 1:])
                found = self.loss(model, played, None)[2]
                told = "agreement", "recall"
                sums.add({name: found[name] for name in told if name in found})
        return sums.sums
