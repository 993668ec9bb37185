"""Agents in worlds: reinforcement learning by the one training loop.

A batch is plain random numbers. Levels, the core's state, and what the agent last did
and got are the carry: they stay with the worker whose rows they are, and a checkpoint
keeps them. In each step the policy first acts T times in its levels (`prepare`), then
learns from what came of it (`loss`):

    noise (B, T + 1, K)  ->  act: a trajectory of T steps  ->  V-trace  ->  the loss

So everything that holds for other tasks holds here: the same bits from threads and
processes, runs that go on as if never stopped, ranks that add up their gradients.

A level that runs out of steps counts as ended, as in the released programs: nothing is
expected of what might have come after. The agent sees no clock, so it cannot tell that
this end is near.

IMPALA's actors run behind its learner. With `agent.lag` L you learn from what was acted
L updates ago: a queue of trajectories is part of the carry. V-trace corrects for it.
Before the first update L trajectories are acted to fill the queue, so that none is
learnt from twice.
"""

from __future__ import annotations

import abc
import functools
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from ...autograd import primitives as p
from ...backend import Array, namespace, to_host
from ...config import check_least, check_values, check_within
from ...cores.agent import CHANNELS, Agent, AgentConfig
from ...cores.config import describe
from ...cores.core import State, state_arrays, state_of
from ...environments.world import Codes, Outcome, World, check_world, pick, require_end
from ...fused import categorical
from ...nn import Module
from ..discovery import TaskError
from ..pieces import MetricAccumulator, micro_batches
from ..run import under
from ..streams import Batch, Samples
from ..task import Task
from ..testing import HELD_OUT_SEED
from ..train_config import TrainConfig
from . import scores, vtrace
from .policy import log_probs, sample

# player(world, levels, u): actions for these levels, from their state and a random
# number each, uniform in [0, 1). They become fewer as levels end.
Player: TypeAlias = Callable[[World, Batch, Array], Array]

TESTED = 20  # steps that are played at once when testing
# Levels are tested in multiples of this many: BLAS takes so many rows at a time, and
# may round those that are left over differently.
TOGETHER = 16
GOLDEN = (math.sqrt(5) - 1) / 2  # multiples of it, modulo 1, lie well apart


@dataclass(frozen=True)
class LearningConfig:
    """The settings of how an agent acts and learns."""

    common: ClassVar[tuple[str, ...]] = ("algorithm", "unroll", "entropy_cost")

    algorithm: Literal["impala", "a2c"] = "impala"
    """impala: V-trace corrects for actions that an older policy chose; a2c: takes them
    as its own, without a correction
    """
    unroll: int = 40
    """steps in the world that a trajectory has, T (appendix A.3)"""
    lag: int = 0
    """an update learns from what was acted this many updates before"""
    discount: float = 0.99
    """what a reward is worth one step later, gamma"""
    gae_lambda: float = 1.0
    """how far a return looks: 1, over all steps; 0, over one and the value after it"""
    entropy_cost: float = 0.005
    """weight of the policy's entropy, which keeps it trying"""
    value_cost: float = 0.5
    """weight of the values' loss"""
    reward_scale: float = 1.0
    """rewards are multiplied by it, for learning; scores are not"""

    def __post_init__(self):
        check_values(self, "agent")
        check_least("agent", self, "unroll")
        costs = "lag", "entropy_cost", "value_cost", "reward_scale"
        check_within("agent", self, "[0, 1e30]", *costs)
        check_within("agent", self, "[0, 1]", "discount", "gae_lambda")
        if self.algorithm == "a2c" and self.lag:
            raise ValueError(
                f"agent.lag {self.lag} needs a correction, and agent.algorithm a2c "
                "has none; take impala, or a lag of 0"
            )


# The paper's agent for BoxWorld (appendix A.3), which does not name an optimizer. Its
# RMSProp here is what we remember of a paper by the same team (Zambaldi et al. 2018).
# 781,250 steps are 1e9 in the world.
PAPER: dict[str, Any] = {
    "model": AgentConfig(
        mem_slots=4,
        num_heads=4,
        head_size=64,
        gate_style="memory",
        activate_final=False,
        encoder="conv",
        sight="rgb",
        last=False,
    ),
    "agent": LearningConfig(unroll=40, lag=1, entropy_cost=0.005),
    "train": TrainConfig(
        steps=781_250,
        batch_size=32,
        optimizer="rmsprop",
        rms_decay=0.99,
        epsilon=0.1,
        rms_variant="tensorflow",
        objective="sum",
        learning_rate=1e-4,
        warmup_steps=0,
        clip_norm=None,
    ),
}
# What trains in minutes here: a small memory that sees codes, and learns by a2c.
SMALL = AgentConfig(
    mem_slots=4, num_heads=4, head_size=16, encoder="linear", features=128, skip=True
)
A2C = LearningConfig(
    algorithm="a2c", unroll=20, gae_lambda=0.95, entropy_cost=0.01, reward_scale=0.1
)
RATES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "rates": (
        "the paper's sweep of learning rates",
        "paper",
        {"train.learning_rate": (1e-5, 2e-5, 5e-5, 1e-4, 2e-4)},
    )
}


@dataclass(frozen=True)
class ActingConfig:
    """Everything that decides a run's result, together with the seed. A task says what
    its `world` is.
    """

    model: AgentConfig = field(default_factory=AgentConfig)
    agent: LearningConfig = field(default_factory=LearningConfig)
    world: Any = None
    train: TrainConfig = field(default_factory=TrainConfig)


class ActingTask(Task):
    """A world to act in, and an agent that learns there.

    A task gives `world`, `succeeds` and what else it has of its own; its config has the
    fields `model`, an `AgentConfig`, and `agent`, a `LearningConfig`. The network is an
    `Agent`, or is called like one.

    Metrics: score, the sum of rewards of a level that has ended; solved, the share of
    such levels that ended as they should, or got as far (`succeeds`).

    reported: {cell: the paper's value of the headline}, where it has one. A cell's name
        ends with its network's, after a comma.
    """

    reported: Mapping[str, float] = {}
    carries = True
    row = "level"
    headline = "solved"
    lower = ("loss",)

    # --- What a task gives ------------------------------------------------------------

    @property
    @abc.abstractmethod
    def world(self) -> World:
        """Where the agent learns."""

    @property
    def held_out_world(self) -> World:
        """Where it is tested."""
        return self.world

    @abc.abstractmethod
    def succeeds(self, outcome: Outcome, levels: Batch) -> Array:
        """Whether a step with this outcome solves its level, (B,) bool.

        levels: the state of the world after it.
        """

    def start_held_out(self, noise: Array, start: int, stop: int) -> Batch:
        """The first state of levels start .. stop - 1 to be tested on."""
        return self.held_out_world.start(noise)

    # --- The network ------------------------------------------------------------------

    def build(self, seed):
        """An agent for what `planes` gives of the held-out world.

        A world without a "view" has no picture: the agent sees its numbers alone.
        """
        world = self.held_out_world
        check_world(world, f"{type(self).__name__}.world")
        view = world.observation.get("view", Codes((0, 0), 0))
        shape, sight = view.shape, self.config.model.sight
        if (
            len(shape) != 2
            or not isinstance(view, Codes)
            or (sight == "rgb" and world.lacks("pixels"))
        ):
            raise TaskError(
                f"an agent sees {type(world).__name__}'s view as h x w codes, not "
                f"{shape}, or by model.sight rgb as its pixels(); write those"
            )
        if self.config.model.encoder == "conv" and min(shape) <= len(CHANNELS):
            raise TaskError(
                f"model.encoder conv needs a view of at least {len(CHANNELS) + 1} "
                f"cells a side, not {shape[0]} x {shape[1]}; take the encoder linear"
            )
        levels = world.start(np.zeros((1, world.start_noise), np.float32))
        seen = {f"seen/{k}": x[:, None] for k, x in world.observe(levels).items()}
        last = {"action": np.zeros((1, 1), np.int64), "reward": np.zeros((1, 1))}
        picture, numbers = self.planes(seen | last)
        sizes = picture.shape[2:], numbers.shape[2]
        return Agent(self.config.model, *sizes, world.actions, seed=seed)

    def planes(self, seen: Batch) -> tuple[Array, Array]:
        """Codes (B, T, ...) -> a picture (B, T, h, w, c) and numbers (B, T, n).

        Both in float32. What a world shows besides its view comes as numbers: a code by
        itself one-hot, several as fractions of the highest, numbers as they are.
        """
        world, model = self.held_out_world, self.config.model
        xp = namespace(seen["action"])
        shown = under("seen/", seen)
        codes = {k: x for k, x in world.observation.items() if isinstance(x, Codes)}
        highest = {name: x.highest for name, x in codes.items()}
        numbers = [xp.zeros((*seen["action"].shape, 0), np.float32)]
        if "view" not in shown:
            picture = xp.zeros((*seen["action"].shape, 1, 1, 0), np.float32)
        elif model.sight == "codes":
            picture = one_hot(shown["view"], highest["view"] + 1)
        else:
            moments = {k: x.reshape(-1, *x.shape[2:]) for k, x in shown.items()}
            picture = world.pixels(moments).astype(np.float32)
            picture /= np.float32(255)
            picture = picture.reshape(*shown["view"].shape, -1)
        for name in self.besides_view:
            if name not in codes:
                numbers.append(shown[name].reshape(*seen["action"].shape, -1))
            elif shown[name].ndim > 2:
                several = shown[name].reshape(*seen["action"].shape, -1)
                numbers.append(several * np.float32(1 / highest[name]))
            elif model.sight == "codes":
                numbers.append(one_hot(shown[name], highest[name] + 1))
        if model.last:
            reward = seen["reward"] * np.float32(self.config.agent.reward_scale)
            numbers += [one_hot(seen["action"], world.actions), reward[..., None]]
        return picture, xp.concatenate(numbers, axis=2)

    @property
    def besides_view(self) -> list[str]:
        """Which parts of an observation the agent is told besides its view."""
        return [name for name in self.held_out_world.observation if name != "view"]

    # --- What comes with it -----------------------------------------------------------

    def summary(self, means):
        """Without score and share solved as long as no level has ended."""
        counted = {"score", "solved"}
        return {k: x for k, x in means.items() if k not in counted or not math.isnan(x)}

    def place(self, step):
        """Says how many steps in the world were learnt from so far."""
        lag = self.config.agent.lag
        said = {"world_steps": world_steps(self.config, step)}
        return said | ({"lag": lag} if lag else {})

    @functools.cached_property
    def unit(self):
        """A row of a batch: T steps in the world."""
        return "world_steps", self.config.agent.unroll

    def draw(self, rng, count):
        """The random numbers of T steps, after those of a start."""
        return self._noise(self.config.agent.unroll, rng, count)

    def _noise(self, steps, rng, count):
        world = self.held_out_world  # it needs as many as the other
        width = max(1 + world.noise, world.start_noise)
        return {"noise": rng.random((count, steps + 1, width), np.float32)}

    def begin(self, model, levels: Batch) -> Batch:
        """The carry of an agent at the start of these levels."""
        first = next(iter(levels.values()))
        B = len(first)
        xp = namespace(first)
        return {
            **{f"levels/{name}": x for name, x in levels.items()},
            **state_arrays(_initial_state(model, B)),
            "action": xp.full(B, self.held_out_world.actions, np.int64),
            "reward": xp.zeros(B, np.float32),
            "is_first": xp.ones(B, bool),
            "score": xp.zeros(B, np.float32),
            "solved": xp.zeros(B, bool),
        }

    def carried(self, model):
        """The carry of an agent at the start of a level."""
        noise = np.zeros((1, self.world.start_noise), np.float32)
        return self.begin(model, self.world.start(noise))

    def act(
        self, model, world: World, carry: Batch, noise: Array, likeliest: bool = False
    ) -> tuple[Batch, Batch]:
        """Acts for the T steps of the noise (B, T, K): a trajectory, and the next
        carry.

        The trajectory has T + 1 moments, (B, T + 1, ...): what is seen, and in "action"
        and "reward" what the step before did and brought, unless it "is_first" in its
        level. Its T steps, (B, T), have what was "taken", with which probability (its
        log, "behaviour"), what was "gained", and whether the level "ended", with which
        "score" and whether "solved". The core's state at its beginning is part of it.

        model: the network; or another `Player`, of whose state nothing is kept.
        likeliest: take the likeliest action each time, instead of drawing one.

        Long because it is one loop, in the order in which things happen.
        """
        B, T = noise.shape[:2]
        carry = dict(carry)
        trajectory = Trajectory(B, namespace(noise))
        levels = {name: x.copy() for name, x in under("levels/", carry).items()}
        begin = _initial_state(model, B)
        state = state_of(carry, begin)
        trajectory |= {name: carry[name] for name in state_arrays(begin)}
        for t in range(T + 1):
            seen = {f"seen/{name}": x for name, x in world.observe(levels).items()}
            last = {name: carry[name] for name in ("action", "reward", "is_first")}
            trajectory.note(t, T + 1, seen | last)
            if t == T:
                break
            u = noise[:, t, 0]
            if isinstance(model, Module):
                logits, _, state = self._call(model, trajectory, state, t)
                logits = logits.data[:, 0]
                taken = logits.argmax(axis=-1) if likeliest else sample(logits, u)
                trajectory.note(t, T, {"logits": logits})
            else:
                taken = model(world, levels, u)
            outcome = world.step(levels, taken, noise[:, t, 1 : 1 + world.noise])
            score = carry["score"] + outcome.reward
            reached = self.succeeds(outcome, levels)
            if getattr(reached, "dtype", None) != np.dtype(bool):
                raise TaskError(
                    f"{type(self).__name__}.succeeds() must give an array of truth "
                    f"values, one for each level, not {reached!r}"
                )
            solved = carry["solved"] | reached
            ended = outcome.ended
            xp = namespace(taken)
            zero = np.float32(0)
            came = {
                "taken": taken,
                "gained": outcome.reward,
                "ended": ended,
                "score": score * ended,
                "solved": solved & ended,
            }
            trajectory.note(t, T, came)
            carry |= {
                "action": xp.where(ended, world.actions, taken),
                "reward": xp.where(ended, zero, outcome.reward),
                "score": xp.where(ended, zero, score),
                "solved": solved & ~ended,
                "is_first": ended,
            }
        if "logits" in trajectory:
            logits = trajectory.pop("logits")
            trajectory["behaviour"] = log_probs(logits, trajectory["taken"])
        levels = {f"levels/{name}": x for name, x in levels.items()}
        return trajectory, carry | levels | state_arrays(state)

    def _call(self, model, trajectory, state, moment=None):
        """The network at a moment of a trajectory; None: at all of them."""
        moments = slice(None) if moment is None else slice(moment, moment + 1)
        batch = {name: x[:, moments] for name, x in trajectory.items()}
        picture, numbers = self.planes(batch)
        return model(picture, numbers, state, batch["is_first"])

    # --- Learning ---------------------------------------------------------------------

    def prepare(self, model, batch, carry):
        """Acts, to learn from that or, with a lag, from what was acted before it.

        The learner goes through the trajectory again, encoder and heads for all moments
        at once. Recording while acting would save the repetition, but not the time.
        """
        carry = dict(carry or {})
        queue = under("queue/", carry)
        carry = {k: x for k, x in carry.items() if not k.startswith("queue/")}
        lag = self.config.agent.lag
        if lag and not queue:
            first = []
            for ahead in range(lag, 0, -1):
                trajectory, carry = self.play(model, batch, carry, ahead)
                first.append(trajectory)
            xp = namespace(batch["noise"])
            names = first[0]
            queue = {k: xp.stack([each[k] for each in first], axis=1) for k in names}
        trajectory, carry = self.play(model, batch, carry)
        if not lag:
            return trajectory, carry
        # the oldest of the queue (B, L, ...) is learnt from, the newest goes in
        xp = namespace(batch["noise"])
        oldest = {}
        for name, x in queue.items():
            oldest[name] = x[:, 0]
            newest = trajectory[name][:, None]
            carry[f"queue/{name}"] = xp.concatenate([x[:, 1:], newest], axis=1)
        return oldest, carry

    def play(
        self, model, batch: Batch, carry: Batch | None, ahead: int = 0
    ) -> tuple[Batch, Batch]:
        """The trajectory of a step, and the carry; levels begin where there is none.

        ahead: for the trajectories with which a queue begins: how many steps before
            this step's own.
        """
        noise = batch["noise"]
        if ahead:  # other numbers in [0, 1): all shifted, wrapping around at 1
            noise = (noise + np.float32(ahead * GOLDEN % 1)) % 1
        if not carry:
            levels = self.world.start(noise[:, 0, : self.world.start_noise])
            carry = self.begin(model, levels)
        return self.act(model, self.world, carry, noise[:, 1:])

    def loss(self, model, batch, carry):
        """The actor-critic loss of a trajectory, a sum over its B x T steps.

        Long because it is one formula after the other.
        """
        c = self.config.agent
        taken = batch["taken"]
        xp = namespace(taken)
        B, T = taken.shape
        state = state_of(batch, model.initial_state(B))
        logits, values, _ = self._call(model, batch, state)  # (B, T + 1, A), (B, T + 1)
        log_pi, entropies = categorical(logits[:, :T], taken)
        log_rhos = log_pi.data - batch["behaviour"]
        vs, advantages = vtrace.targets(
            (xp.zeros_like(log_rhos) if c.algorithm == "a2c" else log_rhos).T,
            (np.float32(c.discount) * ~batch["ended"]).T,
            (batch["gained"] * np.float32(c.reward_scale)).T,
            values.data[:, :T].T,
            values.data[:, T],
            lambda_=c.gae_lambda,
        )
        policy = p.sum(log_pi * -advantages.T)
        value = 0.5 * p.sum(p.square(values[:, :T] - vs.T))
        entropy = p.sum(entropies)
        total = policy + c.value_cost * value - c.entropy_cost * entropy
        ended = xp.sum(batch["ended"])
        steps = B * T
        metrics = {
            "score": (xp.sum(batch["score"]), ended),
            "solved": (xp.sum(batch["solved"]), ended),
            "entropy": (entropy.data, steps),
            "value_loss": (value.data, steps),
            # how far behind the actor is: 1 where it is the learner itself
            "ratio": (xp.sum(xp.exp(log_rhos)), steps),
        }
        return total, steps, metrics, carry

    # --- Testing ----------------------------------------------------------------------

    def evaluate(self, model, worker=0, workers=1, xp=np, split=None):
        """Plays each held-out level once; waits for the device now and then."""
        sums = MetricAccumulator()
        first = self.first_level(split or self.splits[0])
        size = self.config.train.micro_batch(xp)
        pieces = micro_batches(self.test_examples, size, workers)
        for start, stop in pieces[worker::workers]:
            found = self.results(model, first + start, first + stop, xp)
            sums.add({name: (x.sum(), len(x)) for name, x in found.items()})
        return sums.sums

    def effort(self, split):
        """Levels of up to 500 steps, the longest count; an example has `unroll`."""
        steps = min(500, getattr(self.held_out_world, "limit", 500))
        return self.test_examples * steps / self.config.agent.unroll

    def first_level(self, split: str) -> int:
        """The number of a set's first level; the last set has the lowest numbers."""
        after = self.splits[self.splits.index(split) + 1 :]
        return len(after) * self.test_examples

    def results(
        self, model, start: int, stop: int, xp=np, likeliest: bool = False
    ) -> dict[str, np.ndarray]:
        """Score, solved and length of held-out levels start .. stop - 1, each (B,).

        Arguments as for `act`. One level may last many times as long as most of them,
        so those that are over drop out, by `still_played`. On a device none do: there a
        step takes about as long for one level as for all.
        """
        found = np.zeros((3, stop - start))
        rows = np.arange(stop - start)  # the levels that are played on, by number
        running = np.ones(len(rows), bool)  # which of these have not ended yet
        carry: Any = None
        world = self.held_out_world
        for chunk in itertools.count():
            require_end(world, chunk * TESTED)
            noise = xp.asarray(self.held_out_noise(chunk, start, stop)[rows])
            if carry is None:
                carry = self.begin_held_out(model, noise, start, stop)
            trajectory, carry = self.act(model, world, carry, noise[:, 1:], likeliest)
            ended, score, solved = (
                to_host(trajectory[name]) for name in ("ended", "score", "solved")
            )
            # each level counts only until it ends for the first time
            over = np.logical_or.accumulate(ended, axis=1)[:, :-1]
            alive = running[:, None] & ~np.pad(over, ((0, 0), (1, 0)))
            found[:, rows] += [np.sum(x * alive, axis=1) for x in (score, solved, 1)]
            running &= ~ended.any(axis=1)
            if not running.any():
                break
            if xp is np and len(kept := still_played(running)) < len(rows):
                carry = {name: x[kept] for name, x in carry.items()}
                rows, running = rows[kept], running[kept]
        return dict(zip(("score", "solved", "length"), found, strict=True))

    def held_out_noise(self, chunk: int, start: int, stop: int) -> np.ndarray:
        """The random numbers with which held-out levels start .. stop - 1 are played.

        (B, 1 + TESTED, K): for a start, and then for the next TESTED steps. They depend
        on the level and the step alone: all agents play the same levels, whatever their
        own unroll is.
        """
        stream = Samples(functools.partial(self._noise, TESTED), HELD_OUT_SEED)
        return stream.batch(chunk, start, stop)["noise"]

    def begin_held_out(self, model, noise: Array, start: int, stop: int) -> Batch:
        """The carry at the start of held-out levels; noise: that of chunk 0."""
        first = noise[:, 0, : self.held_out_world.start_noise]
        return self.begin(model, self.start_held_out(first, start, stop))

    # --- What results are compared with -----------------------------------------------

    def describe(self, model):
        c = self.config.model
        return f"{describe(c, model.core)}, {c.encoder} encoder"

    @property
    def players(self) -> dict[str, Player]:
        """Players who learnt nothing, by name."""
        return {"at random": at_random}

    @functools.cached_property
    def baselines_on(self) -> dict[str, dict[str, dict[str, np.ndarray]]]:
        """{set: the `results` of the `players` on its levels}: by chance alone, one
        set's levels are easier.
        """
        firsts = {split: self.first_level(split) for split in self.splits}
        return {
            split: {
                name: self.results(player, first, first + self.test_examples)
                for name, player in self.players.items()
            }
            for split, first in firsts.items()
        }

    def references(self):
        found = self.baseline_means()
        cell = self.cell()
        if cell in self.reported:
            network = cell.rpartition(", ")[2]
            for split in self.splits:
                beside = found[f"{split}_{self.headline}"]
                beside[f"paper, {network}"] = self.reported[cell]
        return found

    def baseline_means(self) -> dict[str, dict[str, float]]:
        """The part of `references` that one can reach without learning."""
        return {
            f"{split}_{metric}": {
                name: float(each[metric].mean()) for name, each in found.items()
            }
            for split, found in self.baselines_on.items()
            for metric in ("score", "solved")
        }

    def idle(self):
        encoder = self.config.model.encoder
        found = ["model.rounds"] * (encoder != "attention")
        found += ["model.coordinates"] * (encoder == "linear")
        return {f"with the encoder {encoder}": found} if found else {}

    @property
    def is_trial(self) -> bool:
        """Whether it learns from fewer steps in the world than the first preset.

        Then no published result stands beside it.
        """
        config = self.config
        usual = next(iter(self.presets.values()))[1]
        steps, enough = (world_steps(c, c.train.steps) for c in (config, usual))
        return steps < enough

    def kinds(self) -> dict[str, np.ndarray]:
        """The kinds of held-out levels, as numbers: {its name: (levels,)}."""
        return {}

    def analyses(self, model):
        """The agent's results, beside the floors, with 95 % confidence intervals.

        Sampled: its actions are drawn from its policy, as in training; greedy: it takes
        the likeliest.
        """
        count = self.test_examples
        agent = {
            "sampled": self.results(model, 0, count),
            "greedy": self.results(model, 0, count, likeliest=True),
        }
        yield from scores.compared(agent | self.baselines_on[self.splits[-1]], self.row)
        for name, kinds in self.kinds().items():
            yield f"solved by {name}", scores.apart(agent, name, kinds)


def world_steps(config: Any, steps: int) -> int:
    """The number of steps in the world that `steps` updates learn from."""
    return steps * config.train.batch_size * config.agent.unroll


class Trajectory(dict[str, Array]):
    """Arrays (B, moments, ...) by name, written moment by moment."""

    def __init__(self, examples: int, xp):
        super().__init__()
        self.examples, self.xp = examples, xp

    def note(self, moment: int, moments: int, arrays: Batch) -> None:
        """Write arrays (B, ...) at a moment, one of `moments`."""
        for name, x in arrays.items():
            if name not in self:
                shape = self.examples, moments, *x.shape[1:]
                self[name] = self.xp.empty(shape, x.dtype)
            self[name][:, moment] = x


def still_played(running: np.ndarray) -> np.ndarray:
    """Which of the levels (B,) to play on: places among them, those running first.

    All, or as soon as half are enough, those still `running` and some of the others to
    make the number a multiple of TOGETHER.
    """
    number = -(-np.count_nonzero(running) // TOGETHER) * TOGETHER
    if 2 * number > len(running):
        return np.arange(len(running))
    return np.argsort(~running, kind="stable")[:number]


def at_random(world: World, levels: Batch, u: Array) -> Array:
    """A player who takes each action as often as any other."""
    return pick(u, world.actions)


def _initial_state(model: Any, examples: int) -> State:
    """The core's state for a network, nothing for another player."""
    starts = getattr(model, "initial_state", None)
    return starts(examples) if starts else ()


def one_hot(codes: Array, count: int) -> Array:
    """Codes (...) from 0 to count -> float32 (..., count); zeros for `count` itself."""
    xp = namespace(codes)
    codes = codes.astype(np.intp, copy=False)
    return xp.take(xp.eye(count + 1, count, dtype=np.float32), codes, axis=0)
