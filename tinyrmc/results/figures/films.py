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
from .style import COLOURS, GREY, MARK, PALE, Look, picture, style, wrap

SHOWN = 8  # moments of a film strip
FRAMES = 300  # of a film; of a longer episode some steps are left out
DURATION = 200  # milliseconds a frame
PAUSE = 8  # frames by which the end lasts longer
LABELS = 12  # of rewards; for more, only their sum is drawn
CLOSE = 20  # labels nearer than this part of the width become one

# --- A film strip ---------------------------------------------------------------------


@picture
def film_strip(episode: Episode, title: str = "") -> Figure:
    """Moments of an episode side by side: board, view and attention below each other,
    and all values at the bottom.
    """
    shown = moments(episode, SHOWN)
    names = ["board", "what it sees", "attention"]
    rows = 2 + (episode.attention is not None)
    heights = [1.35, 0.9, 0.7][:rows]
    width = 0.6 + 1.45 * len(shown)
    figure = Figure(figsize=(width, 3.1 + sum(heights)), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[sum(heights) + 0.7, 1.7])
    panels = parts[0].subplots(
        rows, len(shown), squeeze=False, height_ratios=heights, sharex="row"
    )
    for moment, column in zip(shown, panels.T, strict=True):
        column[0].set_title(f"{moment}\n{episode.action(moment)}", fontsize=9)
        _draw_moment(column, episode, moment)
    for panel, name in zip(panels[:, 0], names, strict=False):
        panel.set_ylabel(name, fontsize=9)
    _draw_values(parts[1].subplots(), episode, shown)
    figure.suptitle(wrap(f"{title}\n{episode.says}".strip(), 11 * width), fontsize=10)
    red = "the score so far." if _many_rewards(episode) else "rewards."
    key = " Above what it sees: that key too." if _shows_a_key(episode) else ""
    notes = [
        "Above each picture: the steps taken before it, the action that follows, and "
        "what that brings.",
        f"{episode.legend}{key}",
        "Value: the score that it still expects, later rewards counting less. Red: "
        f"{red}",
    ]
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


def _draw_moment(
    panels: Any, episode: Episode, moment: int
) -> tuple[list[Artist], Callable[[int], None]]:
    """The board with a frame around what is seen of it, that view, and attention, in
    two or three panels; ([what changes], show(moment), which takes them to another).

    A white line stands below the row for the key, if there is one, and a black one
    between the slots and the input. At the end there is no attention.
    """
    board = panels[0].imshow(episode.boards[moment])
    view = panels[1].imshow(episode.views[moment])
    drawn: list[Artist] = [board, view]
    side = episode.window
    frame = Rectangle((0, 0), side, side, fill=False, color=MARK, linewidth=1.5)
    if episode.corners is not None:
        drawn.insert(1, panels[0].add_patch(frame))
    if _shows_a_key(episode):
        drawn.append(panels[1].axhline(0.5, color="white", linewidth=2))
    attention, attends = [], episode.attention
    if attends is not None:
        slots = attends.shape[2]
        mean = attends.mean(axis=1)  # (T, N, N + n)
        image = panels[2].imshow(mean[0], cmap="Blues", vmin=0, vmax=1)
        line = panels[2].axvline(slots - 0.5, color="black", linewidth=0.9)
        attention = [image, line]
        panels[2].set_axis_on() if moment < len(episode) else panels[2].set_axis_off()
    for panel in panels:
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set(visible=True, color=GREY, linewidth=0.5)

    def show(moment: int) -> None:
        board.set_data(episode.boards[moment])
        view.set_data(episode.views[moment])
        if episode.corners is not None:
            row, column = episode.corners[moment].tolist()
            frame.set_xy((column - 0.5, row - 0.5))
        for artist in attention:
            artist.set_visible(moment < len(episode))
        if attention and moment < len(episode):
            image.set_data(mean[moment])

    show(moment)
    return [*drawn, *attention], show


def _shows_a_key(episode: Episode) -> bool:
    """Whether the view has a row more than the window: that of the key."""
    return episode.views.shape[1] > episode.window


def _many_rewards(episode: Episode) -> bool:
    """Whether lines for rewards would hide the values."""
    return bool(np.count_nonzero(episode.rewards) > LABELS)


def _draw_values(panel: Axes, episode: Episode, shown: list[int]) -> None:
    """The values over time, and rewards where they came, or their sum."""
    for moment in shown:
        panel.axvline(moment, zorder=0, **PALE)
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
    close: list[list[int]] = []  # steps whose labels would touch
    for step in np.flatnonzero(episode.rewards).tolist():
        panel.axvline(step, color=MARK, linewidth=1, alpha=0.6)
        if close and step - close[-1][-1] < len(episode) / CLOSE:
            close[-1].append(step)
        else:
            close.append([step])
    place: Look = {"transform": panel.get_xaxis_transform(), "ha": "center"}
    for steps in close:
        words = ", ".join(f"{float(episode.rewards[step]):+g}" for step in steps)
        middle = (steps[0] + steps[-1]) / 2
        panel.text(middle, 1.02, words, color=MARK, fontsize=8, **place)


# --- A film ---------------------------------------------------------------------------


def film(path: str | Path, episode: Episode, title: str = "") -> Path:
    """Write an episode as an animated GIF, a frame a step; returns its path.

    Only what changes is drawn anew, which takes a tenth of the time.
    """
    every = -(-len(episode) // FRAMES)
    shown = [*range(0, len(episode), every), len(episode)]
    frames = []
    with style():
        figure, changing, show = _stage(episode, title)
        canvas = FigureCanvasAgg(figure)
        for artist in changing:
            artist.set_animated(True)
        canvas.draw()
        background = canvas.copy_from_bbox(figure.bbox)
        for moment in shown:
            canvas.restore_region(background)
            show(moment)
            for artist in changing:
                figure.draw_artist(artist)
            rgb = np.array(canvas.buffer_rgba())[..., :3]
            few = Image.Quantize.FASTOCTREE
            frame = Image.fromarray(rgb).quantize(255, few, dither=Image.Dither.NONE)
            frames.append(frame)
    durations = [DURATION] * (len(frames) - 1) + [(1 + PAUSE) * DURATION]
    first, *others = frames
    first.save(
        path,
        format="gif",
        save_all=True,
        append_images=others,
        duration=durations,
        loop=0,
    )
    return Path(path)


def _stage(
    episode: Episode, title: str
) -> tuple[Figure, list[Artist], Callable[[int], None]]:
    """(figure, what changes in it, show(moment))."""
    attends = episode.attention is not None
    figure = Figure(figsize=(6.4, 5.4), dpi=100, layout="constrained")
    figure.suptitle(wrap(f"{title}\n{episode.says}".strip(), 12 * 6.4), fontsize=9)
    ratios: Look = {"height_ratios": [1.6, 1.2, 0.9], "width_ratios": [1.6, 1]}
    lower = "attention" if attends else "view"
    panels = figure.subplot_mosaic(
        [["board", "view"], ["board", lower], ["values", "values"]], **ratios
    )
    said = panels["board"].set_title(" \n ", fontsize=10)
    panels["view"].set_title("what it sees", fontsize=9)
    if attends:
        says = "what its slots attend to,\nlast the input"
        panels["attention"].set_title(says, fontsize=9)
    own = [panels[name] for name in ("board", "view", "attention") if name in panels]
    changing, show_moment = _draw_moment(own, episode, 0)
    _draw_values(panels["values"], episode, [])
    now = panels["values"].axvline(0, color="black", linewidth=1)

    def show(moment: int) -> None:
        show_moment(moment)
        now.set_xdata([moment, moment])
        said.set_text(f"{moment} of {len(episode)} steps\n{episode.action(moment)}")

    return figure, [*changing, said, now], show
