"""A level as an agent plays it: a film strip, and a film."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from ...environments.episode import CAVEAT, Episode
from .style import COLOURS, GREY, MARK, save, style, wrap

SHOWN = 8  # moments of a film strip
FRAMES = 300  # of a film; of a longer episode some steps are left out
DURATION = 200  # milliseconds a frame
LABELS = 12  # of rewards; for more, only their sum is drawn
CLOSE = 20  # labels nearer than this part of the width become one
PAUSE = 8  # frames by which the end lasts longer

# --- A film strip ---------------------------------------------------------------------


def film_strip(episode: Episode, path: str | Path, title: str = "") -> Path:
    """Draw moments of an episode side by side into the PNG file `path`; returns it.

    Board, view and attention below each other, and all values at the bottom.
    """
    with style():
        return save(_draw_strip(episode, title), path)


def _draw_strip(episode: Episode, title: str) -> Figure:
    shown = moments(episode, SHOWN)
    rows = 2 + (episode.attention is not None)
    heights = [1.35, 0.9, 0.7][:rows]
    width = 0.6 + 1.45 * len(shown)
    figure = Figure(figsize=(width, 3.1 + sum(heights)), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[sum(heights) + 0.7, 1.7])
    above, below = parts
    panels = above.subplots(
        rows, len(shown), squeeze=False, height_ratios=heights, sharex="row"
    )
    for column, moment in enumerate(shown):
        _draw_board(panels[0, column], episode, moment)
        panels[0, column].set_title(f"{moment}\n{episode.action(moment)}", fontsize=9)
        _draw_view(panels[1, column], episode, moment)
        if episode.attention is not None:
            _draw_attention(panels[2, column], episode, moment)
    for panel, name in zip(
        panels[:, 0], ("board", "what it sees", "attention"), strict=False
    ):
        panel.set_ylabel(name, fontsize=9)
    _draw_values(below.subplots(), episode, shown)
    figure.suptitle(_heading(episode, title, 11 * width), fontsize=10)
    notes = [
        "Above each picture: the steps taken before it, the action that follows, and "
        "what that brings.",
        episode.legend,
        "Value: the score that it still expects, later rewards counting less. Red: "
        + ("the score so far." if _many_rewards(episode) else "rewards."),
    ]
    if _shows_a_key(episode):
        notes[1] += " Above what it sees: that key too."
    if episode.attention is not None:
        notes.append(
            "Attention: a row is a slot that asks, a column what it listens to, right "
            f"of the line the input; mean of the heads. {CAVEAT}"
        )
    figure.supxlabel("\n".join(notes), fontsize=8, color=GREY)
    return figure


def moments(episode: Episode, count: int) -> list[int]:
    """`count` of the moments 0 .. T to show: the first and the last, those before a
    reward, or some of these, and others where the gaps between them are widest.
    """
    last, rewarded = len(episode), np.flatnonzero(episode.rewards)
    if len(rewarded) > count - 2:
        some = np.linspace(0, len(rewarded) - 1, count - 2)
        rewarded = rewarded[np.round(some).astype(int)]
    chosen = {0, last, *rewarded.tolist()}
    while len(chosen) < min(count, last + 1):
        ordered = sorted(chosen)
        gap, start = max((b - a, -a) for a, b in itertools.pairwise(ordered))
        chosen.add(gap // 2 - start)
    return sorted(chosen)


def _heading(episode: Episode, title: str, characters: float) -> str:
    """Which agent, and how it went. A command with many flags takes several lines."""
    return wrap(f"{title}\n{episode.says}".strip(), characters)


def _draw_board(panel: Axes, episode: Episode, moment: int) -> list[Any]:
    """The board, and a frame around what is seen of it: [picture, frame]."""
    picture = panel.imshow(episode.boards[moment])
    _bare(panel)
    if episode.corners is None:
        return [picture]
    frame = Rectangle(
        _corner(episode, moment),
        episode.window,
        episode.window,
        fill=False,
        color=MARK,
        linewidth=1.5,
    )
    panel.add_patch(frame)
    return [picture, frame]


def _corner(episode: Episode, moment: int) -> tuple[float, float]:
    assert episode.corners is not None
    row, column = episode.corners[moment].tolist()
    return column - 0.5, row - 0.5


def _draw_view(panel: Axes, episode: Episode, moment: int) -> list[Any]:
    """What is seen, and a line below the key, if there is one: [picture, line]."""
    drawn: list[Any] = [panel.imshow(episode.views[moment])]
    if _shows_a_key(episode):
        drawn.append(panel.axhline(0.5, color="white", linewidth=2))
    _bare(panel)
    return drawn


def _shows_a_key(episode: Episode) -> bool:
    """Whether the view has a row more than the window: that of the key."""
    return episode.views.shape[1] > episode.window


def _draw_attention(panel: Axes, episode: Episode, moment: int) -> list[Any]:
    """Slots by slots and input, and a line between these: [picture, line].

    At the end there is no attention.
    """
    if moment == len(episode):
        panel.set_axis_off()
        return []
    weights = _mean_attention(episode, moment)
    picture = panel.imshow(weights, cmap="Blues", vmin=0, vmax=1)
    _bare(panel)
    return [picture, panel.axvline(len(weights) - 0.5, color="black", linewidth=0.9)]


def _show_attention(drawn: list[Any], episode: Episode, moment: int) -> None:
    """Take what `_draw_attention` has drawn to another moment; hidden at the end."""
    thinks = moment < len(episode)
    for artist in drawn:
        artist.set_visible(thinks)
    if drawn and thinks:
        drawn[0].set_data(_mean_attention(episode, moment))


def _mean_attention(episode: Episode, moment: int) -> np.ndarray:
    """The mean of the heads (N, N + n)."""
    assert episode.attention is not None
    return episode.attention[moment].mean(axis=0)


def _bare(panel: Axes) -> None:
    panel.set(xticks=[], yticks=[])
    panel.spines[:].set(visible=True, color=GREY, linewidth=0.5)


def _draw_values(panel: Axes, episode: Episode, shown: list[int]) -> None:
    """The values over time, and rewards where they came, or their sum."""
    for moment in shown:
        panel.axvline(moment, color="#E6E6E6", linewidth=0.8, zorder=0)
    panel.plot(episode.values, color=COLOURS[0], linewidth=1.4)
    low, high = panel.get_ylim()
    panel.set(ylim=(min(low, 0), high + 0.25 * (high - min(low, 0))))
    panel.set(xlim=(-0.5, len(episode) + 0.5), xlabel="steps taken")
    panel.set_ylabel("value", fontsize=9)
    if _many_rewards(episode):
        beside = panel.twinx()
        beside.plot(np.cumsum([0, *episode.rewards]), color=MARK, linewidth=1)
        beside.set_ylabel("score so far", fontsize=9, color=MARK)
        beside.tick_params(colors=MARK)
        beside.spines["right"].set(visible=True, color=MARK)
        return
    top = panel.get_xaxis_transform()
    for steps in _close_together(np.flatnonzero(episode.rewards), len(episode.rewards)):
        for step in steps:
            panel.axvline(step, color=MARK, linewidth=1, alpha=0.6)
        words = ", ".join(f"{float(episode.rewards[step]):+g}" for step in steps)
        middle = (steps[0] + steps[-1]) / 2
        panel.text(
            middle, 1.02, words, color=MARK, fontsize=8, transform=top, ha="center"
        )


def _close_together(steps: np.ndarray, length: int) -> list[list[int]]:
    """The steps, in order, in groups whose labels would touch."""
    groups: list[list[int]] = []
    for step in steps.tolist():
        if groups and step - groups[-1][-1] < length / CLOSE:
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def _many_rewards(episode: Episode) -> bool:
    """Whether lines for rewards would hide the values."""
    return bool(np.count_nonzero(episode.rewards) > LABELS)


# --- A film ---------------------------------------------------------------------------


def film(episode: Episode, path: str | Path, title: str = "") -> Path:
    """Write an episode as an animated GIF, a frame a step; returns its path."""
    with style():
        show = _stage(episode, title)
        frames = [show(moment) for moment in _frames(len(episode))]
    first, *others = (
        Image.fromarray(frame).quantize(
            255, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
        )
        for frame in frames
    )
    durations = [DURATION] * len(others) + [(1 + PAUSE) * DURATION]
    first.save(
        path,
        format="gif",
        save_all=True,
        append_images=others,
        duration=durations,
        loop=0,
    )
    return Path(path)


def _frames(last: int) -> list[int]:
    every = -(-last // FRAMES)
    return [*range(0, last, every), last]


def _stage(episode: Episode, title: str) -> Callable[[int], np.ndarray]:
    """show(moment): a picture of a moment, uint8 (height, width, 3).

    Only what changes is drawn anew, which takes a tenth of the time.
    """
    figure, changing, change = _set_up(episode, title)
    canvas = FigureCanvasAgg(figure)
    for artist in changing:
        artist.set_animated(True)
    canvas.draw()
    background = canvas.copy_from_bbox(figure.bbox)

    def show(moment: int) -> np.ndarray:
        canvas.restore_region(background)
        change(moment)
        for artist in changing:
            figure.draw_artist(artist)
        return np.array(canvas.buffer_rgba())[..., :3]

    return show


def _set_up(
    episode: Episode, title: str
) -> tuple[Figure, list[Artist], Callable[[int], None]]:
    """(figure, what changes in it, change(moment))."""
    attends = episode.attention is not None
    figure = Figure(figsize=(6.4, 5.4), dpi=100, layout="constrained")
    figure.suptitle(_heading(episode, title, 12 * 6.4), fontsize=9)
    grid = figure.add_gridspec(
        3, 2, height_ratios=[1.6, 1.2, 0.9], width_ratios=[1.6, 1]
    )
    left = figure.add_subplot(grid[:2, 0])
    board, *frame = _draw_board(left, episode, 0)
    said = left.set_title(" \n ", fontsize=10)
    right = figure.add_subplot(grid[0 if attends else slice(2), 1])
    right.set_title("what it sees", fontsize=9)
    view, *line = _draw_view(right, episode, 0)
    changing = [board, *frame, said, view, *line]
    attention: list[Any] = []
    if attends:
        lower = figure.add_subplot(grid[1, 1])
        lower.set_title("what its slots attend to,\nlast the input", fontsize=9)
        attention = _draw_attention(lower, episode, 0)
        changing += attention
    values = figure.add_subplot(grid[2, :])
    _draw_values(values, episode, [])
    now = values.axvline(0, color="black", linewidth=1)

    def change(moment: int) -> None:
        board.set_data(episode.boards[moment])
        for each in frame:
            each.set_xy(_corner(episode, moment))
        view.set_data(episode.views[moment])
        _show_attention(attention, episode, moment)
        now.set_xdata([moment, moment])
        said.set_text(f"{moment} of {len(episode)} steps\n{episode.action(moment)}")

    return figure, [*changing, now], change
