"""A level as an agent played it: what it saw, did and expected, as arrays.

`results/episodes.py` records one, `figures/films.py` draws it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# to be said wherever attention is shown
CAVEAT = "Attention shows where a slot looks, not what decided the action."


@dataclass(frozen=True)
class Episode:
    """A held-out level as an agent played it: T steps between T + 1 moments.

    level: its number.
    names: what the actions are called.
    legend: what the colours stand for.
    boards: (T + 1, h, w, 3) uint8, the whole board, a pixel a cell.
    views: (T + 1, v, v, 3) what the agent saw of it.
    corners: (T + 1, 2) row and column on the board where the square window around the
        agent begins; None where the agent sees all of the board.
    window: side of that window.
    actions, rewards: (T,)
    policy: (T, A) how likely each action was.
    values: (T,) the score that it still expected, discounted.
    attention: (T, H, N, N + n) of its memory's slots, to the slots and to n rows of
        input; None where no slots attend.
    solved: whether the agent solved the level.
    ending: how it ended, in words.
    """

    level: int
    names: tuple[str, ...]
    legend: str
    boards: np.ndarray
    views: np.ndarray
    corners: np.ndarray | None
    window: int
    actions: np.ndarray
    rewards: np.ndarray
    policy: np.ndarray
    values: np.ndarray
    attention: np.ndarray | None
    solved: bool
    ending: str

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def says(self) -> str:
        """How it went, in words."""
        return f"Episode {self.level}: {self.ending}, score {self.rewards.sum():g}"

    def action(self, step: int) -> str:
        """The action of a step, and its reward, in words."""
        if step == len(self):
            return "the end"
        reward = float(self.rewards[step])
        brought = f", {reward:+g}" if reward else ""
        return f"{self.names[self.actions[step]]}{brought}"
