"""Agents, a maze, and how they play, for chapters 21 and 22."""

from __future__ import annotations

import collections

import numpy as np

from tinyrmc import fused, nn, primitives
from tinyrmc.environments.world import Codes, Outcome, World
from tinyrmc.training.rl.policy import log_probs, sample

from ..language import numbers_of


class Agent(nn.Module):
    """Logits of actions and a value from what is seen, step by step."""

    def __init__(self, make_core, seen, actions, width, seed=0):
        random = np.random.default_rng(seed)
        self.actions = actions
        self.look = nn.Linear(seen, width, relu=True, seed=random)
        self.core = make_core(width, random)
        both = self.core.output_size + width
        self.decide = nn.Linear(both, width, relu=True, seed=random)
        self.heads = nn.Linear(width, actions + 1, seed=random)
        self.heads.weight.data *= np.float32(0.1)  # at first, all actions are alike

    def __call__(self, seen, state, fresh=None, trace=None):
        """seen (B, T, n) -> logits (B, T, A), values (B, T), state.

        fresh (B, T): before these steps the state begins anew.
        """
        x = self.look(seen)
        outputs, state = self.core.unroll(x, state, trace, is_first=fresh)
        h = primitives.concatenate([primitives.stack(outputs, axis=1), x], axis=2)
        both = self.heads(self.decide(h))
        return both[..., : self.actions], both[..., self.actions], state


def act(agent, world, see, now, T, rng, begin_anew):
    """A trajectory of T steps, as arrays (B, T, ...), and where the next one begins.

    now: levels, the core's state and whether it is fresh (B,). What is seen and fresh
    has T + 1 moments, the last for what comes after.
    """
    levels, state, fresh = now
    B, found = len(fresh), collections.defaultdict(list)
    begin = agent.core.initial_state(B)
    for _ in range(T):
        seen = see(world.observe(levels))
        logits, _, state = agent(seen[:, None], state)
        z = logits.data[:, 0]
        taken = sample(z, rng.random(B, np.float32))
        outcome = world.step(levels, taken, rng.random((B, world.noise), np.float32))
        state = begin_anew(numbers_of(state), outcome.ended, begin)
        step = seen, fresh, taken, log_probs(z, taken), outcome.reward, outcome.ended
        names = "seen", "fresh", "taken", "log_mu", "rewards", "ended"
        for name, x in zip(names, step, strict=True):
            found[name].append(x)
        fresh = outcome.ended
    found["seen"].append(see(world.observe(levels)))
    found["fresh"].append(fresh)
    arrays = {name: np.stack(x, axis=1) for name, x in found.items()}
    return arrays, (levels, state, fresh)


def policy_loss(logits, actions, advantages):
    """-sum of A ln pi(a); advantages are constants."""
    log_pi, _ = fused.categorical(logits, actions)
    return -primitives.sum(log_pi * advantages)


def one_hot(codes, highest):
    """Codes (...) from 0 to the highest -> float32 (..., highest + 1)."""
    return (codes[..., None] == np.arange(highest + 1)).astype(np.float32)


def smooth(lines, window=20):
    """Of rows (steps, episodes ended, solved) for each update: steps so far, and, over
    `window` updates, the share of solved episodes and the steps of one.
    """
    sums = np.cumsum(np.array([(0, 0, 0), *lines], float), axis=0)
    window = min(window, len(lines))
    steps, ended, solved = (sums[window:] - sums[:-window]).T
    return sums[window:, 0], solved / ended, steps / ended


class Maze(World):
    """The view: 0 corridor, 1 junction, 2 a sign to the left, 3 to the right."""

    action_names = "forward", "left", "right"
    noise = start_noise = 1
    observation = {"view": Codes((), 3)}
    constants = {}

    def __init__(self, length=3, limit=12):
        self.length, self.limit = length, limit  # to the junction; until it is over

    def _start(self, noise):
        zeros = np.zeros(len(noise), np.int64)
        way = np.where(noise[:, 0] < 0.5, 1, 2)
        return {"place": zeros, "age": zeros.copy(), "way": way}

    def _step(self, state, actions, noise, keep_final):
        place, age, way = state["place"], state["age"], state["way"]
        turned = (place == self.length) & (actions > 0)
        right = turned & (actions == way)
        place += (actions == 0) & (place < self.length)
        age += 1
        outcome = Outcome(
            np.where(turned, np.where(right, 1, -1), 0).astype(np.float32),
            terminated=turned,
            truncated=(age == self.limit) & ~turned,
        )
        place[outcome.ended] = age[outcome.ended] = 0
        way[outcome.ended] = np.where(noise[outcome.ended, 0] < 0.5, 1, 2)
        return outcome

    def observe(self, state):
        sign = np.where(state["age"] == 0, 1 + state["way"], 0)
        view = np.where(state["place"] == self.length, 1, sign)
        return {"view": view.astype(np.uint8)}
