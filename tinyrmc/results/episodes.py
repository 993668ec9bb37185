"""A level as an agent plays it: a page, and what goes on in the agent.

Levels and random numbers are those that `python -m tinyrmc evaluate` counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..autograd import primitives as p
from ..backend import Array
from ..cores.core import state_of
from ..environments.world import Outcome, World, require_end
from ..errors import UserError, counted
from ..training.rl.actors import ActingTask
from ..training.run import under
from ..training.streams import Batch
from ..training.task import Task
from . import pages
from .probes import has_attention

TEMPLATE = Path(__file__).with_suffix(".html")
CAVEAT = "Attention shows where a slot looks, not what decided the action."


@dataclass(frozen=True)
class Episode:
    """A held-out level as an agent played it: T steps between T + 1 moments."""

    level: int  # its number
    names: tuple[str, ...]  # of the actions
    legend: str  # what the colours stand for
    boards: np.ndarray  # (T + 1, h, w, 3) uint8, the whole board, a pixel a cell
    views: np.ndarray  # (T + 1, v, v, 3) what the agent saw of it
    # (T + 1, 2) row and column on the board where the square window around the agent
    # begins; None where the agent sees all of the board
    corners: np.ndarray | None
    window: int  # side of that window
    actions: np.ndarray  # (T,)
    rewards: np.ndarray  # (T,)
    policy: np.ndarray  # (T, A) how likely each action was
    values: np.ndarray  # (T,) the score that it still expected, discounted
    # (T, H, N, N + n) of its memory's slots, to the slots and to n rows of input; None
    # where no slots attend
    attention: np.ndarray | None
    solved: bool
    ending: str  # in words

    @property
    def says(self) -> str:
        """The outcome in words."""
        return f"Episode {self.level}: {self.ending}, score {self.rewards.sum():g}"


class EpisodeError(UserError):
    """An episode that was asked for does not exist."""


def require_world(task: Task, name: str, path: Path) -> ActingTask:
    """The task itself; EpisodeError unless it has a world for an agent to play in."""
    if not isinstance(task, ActingTask):
        raise EpisodeError(
            f"{path} is a run of {name!r}, which has no world to play in; give a run "
            "of an agent"
        )
    return task


# --- What goes on in an agent ---------------------------------------------------------


class Thoughts(NamedTuple):
    """The network's view of T moments of B levels; see `Episode`."""

    policy: np.ndarray  # (B, T, A)
    values: np.ndarray  # (B, T)
    attention: np.ndarray | None  # (B, T, H, N, N + n)


def think(task: ActingTask, model: Any, trajectory: Batch) -> Thoughts:
    """The network's view of the steps of a NumPy trajectory of `ActingTask.act`."""
    count, steps = trajectory["taken"].shape
    moments = {
        name: x[:, :steps]
        for name, x in trajectory.items()
        if name.startswith("seen/") or name in ("action", "reward", "is_first")
    }
    attends = has_attention(model)
    trace: list[dict[str, Array]] | None = [] if attends else None
    state = state_of(trajectory, model.initial_state(count))
    traced = {"trace": trace} if attends else {}
    logits, values, _ = model(
        *task.planes(moments), state, moments["is_first"], **traced
    )
    scale = task.config.agent.reward_scale
    return Thoughts(
        p.softmax(logits).data,
        values.data / np.float32(scale or 1),
        np.stack([step["attention"] for step in trace], axis=1) if trace else None,
    )


# --- A level --------------------------------------------------------------------------


def record(task: ActingTask, model: Any, level: int, greedy: bool = False) -> Episode:
    """Let an agent play a held-out level, and look on. EpisodeError if there is none.

    greedy: it takes the likeliest action, instead of drawing one from its policy.
    """
    if not 0 <= level < task.test_examples:
        raise EpisodeError(
            f"there is no level {level}; held-out levels are numbered 0 to "
            f"{task.test_examples - 1}"
        )
    world = task.held_out_world
    if lacks := world.lacks("rgb", "position"):
        raise EpisodeError(
            f"{type(world).__name__} cannot be drawn; write its {' and '.join(lacks)}, "
            "as tinyrmc/environments/world.py says"
        )
    steps = [*_steps(task, model, level, greedy)]
    frames = [_frame(world, levels) for levels, _, _ in steps]
    thoughts = [think(task, model, trajectory) for _, trajectory, _ in steps]
    outcome = once_more(world, *steps[-1])
    frames.append(_frame(world, outcome.final or {}))
    boards, views, corners = (np.stack(each) for each in zip(*frames, strict=True))
    attention = [x.attention[0, 0] for x in thoughts if x.attention is not None]
    (side, *_), sees_all = world.observation["view"].shape, boards.shape == views.shape
    return Episode(
        level=level,
        names=world.action_names,
        legend=world.legend,
        boards=boards,
        views=views,
        corners=None if sees_all else corners - side // 2,
        window=side,
        actions=np.array([each["taken"][0, 0] for _, each, _ in steps]),
        rewards=np.array([each["gained"][0, 0] for _, each, _ in steps]),
        policy=np.stack([each.policy[0, 0] for each in thoughts]),
        values=np.stack([each.values[0, 0] for each in thoughts]),
        attention=np.stack(attention) if attention else None,
        solved=bool(steps[-1][1]["solved"][0, 0]),
        ending=world.ending(outcome, counted(len(steps), "step")),
    )


def once_more(world: World, levels: Batch, trajectory: Batch, noise: Array) -> Outcome:
    """The outcome of the last step of a level, after which the next level is already
    there. CHANGES `levels`.
    """
    taken, noise = trajectory["taken"][:, 0], noise[:, 0, 1 : 1 + world.noise]
    return world.step(levels, taken, noise, keep_final=True)


def _steps(
    task: ActingTask, model: Any, level: int, greedy: bool
) -> Iterator[tuple[Batch, Batch, np.ndarray]]:
    """For each step: (the world before it, its trajectory, its random numbers)."""
    carry: Batch = {}
    for chunk in itertools.count():
        noise = task.held_out_noise(chunk, level, level + 1)
        carry = carry or task.begin_held_out(model, noise, level, level + 1)
        for t in range(1, noise.shape[1]):
            require_end(task.held_out_world, chunk * (noise.shape[1] - 1) + t)
            levels = under("levels/", carry)
            now = noise[:, t : t + 1]
            trajectory, carry = task.act(model, task.held_out_world, carry, now, greedy)
            yield levels, trajectory, now
            if trajectory["ended"][0, 0]:
                return


def _frame(world: World, levels: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the board, what is seen of it, where the agent is) of one level."""
    position = world.position(levels)[0].astype(int)
    return world.rgb(levels, whole=True)[0], world.rgb(levels)[0], position


def failed(task: ActingTask, model: Any, greedy: bool = False) -> Episode:
    """The first held-out level that an agent fails. EpisodeError if there is none."""
    results = task.results(model, 0, task.test_examples, likeliest=greedy)
    for level in np.flatnonzero(results["solved"] == 0).tolist():
        episode = record(task, model, level, greedy)
        if not episode.solved:  # played alone it may be rounded differently
            return episode
    raise EpisodeError(
        f"it solves all {task.test_examples:,} held-out levels, so there is none to "
        "show; leave --wrong out"
    )


# --- The page -------------------------------------------------------------------------


def page(title: str, episode: Episode) -> str:
    """One HTML page that holds an episode, with a slider for its steps."""
    pictures = episode.boards, episode.views
    flat = np.concatenate([x.reshape(-1, 3) for x in pictures])
    palette, codes = np.unique(flat, axis=0, return_inverse=True)
    codes = codes.reshape(-1).astype(np.uint8)  # worlds have some dozen colours
    boards, views = np.split(codes, [pictures[0].size // 3])
    weights: dict[str, Any] | None = None
    if episode.attention is not None:
        _, heads, slots, columns = episode.attention.shape  # (T, H, N, N + n)
        weights = {"heads": heads, "slots": slots, "columns": columns}
        weights["bytes"] = pages.attention(episode.attention)
    data = {
        "title": title,
        "says": episode.says + ".",
        "legend": episode.legend,
        "caveat": CAVEAT,
        "names": episode.names,
        "palette": palette.tolist(),
        "boards": _coded(boards, episode.boards),
        "views": _coded(views, episode.views),
        "corners": None if episode.corners is None else episode.corners.tolist(),
        "window": episode.window,
        "actions": episode.actions.tolist(),
        "attention": weights,
    }
    for name in ("rewards", "values", "policy"):
        data[name] = pages.rounded(getattr(episode, name), 4)
    return pages.filled(TEMPLATE, data)


def _coded(codes: np.ndarray, pictures: np.ndarray) -> dict[str, Any]:
    """Pictures (T + 1, h, w, 3) for the page, by the numbers of their colours."""
    _, height, width, _ = pictures.shape
    return {"height": height, "width": width, "bytes": pages.coded(codes)}
