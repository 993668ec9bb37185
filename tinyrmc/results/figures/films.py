"""A level as an agent plays it: a film."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from ...environments.episode import Episode
from .style import COLOURS, GREY, MARK, Look, style, wrap

FRAMES = 300  # of a film; of a longer episode some steps are left out
DURATION = 200  # milliseconds a frame
PAUSE = 8  # frames by which the end lasts longer


def film(path: str | Path, episode: Episode, title: str = "") -> Path:
    """Write an episode as an animated GIF, a frame a step; returns its path. Only what
    changes is drawn anew, which takes a tenth of the time.
    """
    every = -(-len(episode) // FRAMES)
    shown = [*range(0, len(episode), every), len(episode)]
    frames = []
    with style():
        figure, changing, show = stage(episode, title)
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
    how: Look = {"format": "gif", "save_all": True, "loop": 0}
    first.save(path, append_images=others, duration=durations, **how)
    return Path(path)


def stage(
    episode: Episode, title: str
) -> tuple[Figure, list[Artist], Callable[[int], None]]:
    """(figure, the parts of it that change, show(moment)). The board with a frame
    around what is seen of it, that view, attention, and below them the values.
    """
    figure = Figure(figsize=(6.4, 5.4), dpi=100, layout="constrained")
    figure.suptitle(wrap(f"{title}\n{episode.says}".strip(), 12 * 6.4), fontsize=9)
    ratios: Look = {"height_ratios": [1.6, 1.2, 0.9], "width_ratios": [1.6, 1]}
    lower = "view" if episode.attention is None else "attention"
    panels = figure.subplot_mosaic(
        [["board", "view"], ["board", lower], ["values", "values"]], **ratios
    )
    said = panels["board"].set_title(" \n ", fontsize=10)
    panels["view"].set_title("what it sees", fontsize=9)
    board = panels["board"].imshow(episode.boards[0])
    view = panels["view"].imshow(episode.views[0])
    changing: list[Artist] = [board, view, said]
    side = episode.window
    frame = Rectangle((0, 0), side, side, fill=False, color=MARK, linewidth=1.5)
    if episode.corners is not None:
        changing.insert(1, panels["board"].add_patch(frame))
    if episode.views.shape[1] > side:  # a row more than the window, for the key
        changing.append(panels["view"].axhline(0.5, color="white", linewidth=2))
    attends: list[Artist] = []
    if episode.attention is not None:
        panel, slots = panels["attention"], episode.attention.shape[2]
        panel.set_title("what its slots attend to,\nlast the input", fontsize=9)
        mean = episode.attention.mean(axis=1)  # (T, N, N + n)
        image = panel.imshow(mean[0], cmap="Blues", vmin=0, vmax=1)
        attends = [image, panel.axvline(slots - 0.5, color="black", linewidth=0.9)]
    for name in {"board", "view", lower}:
        panels[name].set(xticks=[], yticks=[])
        panels[name].spines[:].set(visible=True, color=GREY, linewidth=0.5)
    draw_values(panels["values"], episode)
    now = panels["values"].axvline(0, color="black", linewidth=1)

    def show(moment: int) -> None:
        board.set_data(episode.boards[moment])
        view.set_data(episode.views[moment])
        if episode.corners is not None:
            row, column = episode.corners[moment].tolist()
            frame.set_xy((column - 0.5, row - 0.5))
        for artist in attends:  # at the end nothing is decided
            artist.set_visible(moment < len(episode))
        if attends and moment < len(episode):
            image.set_data(mean[moment])
        now.set_xdata([moment, moment])
        said.set_text(f"{moment} of {len(episode)} steps\n{episode.action(moment)}")

    show(0)
    return figure, [*changing, *attends, now], show


def draw_values(panel: Axes, episode: Episode) -> None:
    """The values over time, and in red the score."""
    panel.plot(episode.values, color=COLOURS[0], linewidth=1.4)
    panel.set(xlim=(-0.5, len(episode) + 0.5), xlabel="steps taken")
    panel.set_ylabel("value", fontsize=9)
    beside = panel.twinx()
    score = np.cumsum([0, *episode.rewards])
    beside.plot(score, color=MARK, linewidth=1, drawstyle="steps-pre")
    beside.set_ylabel("score so far", fontsize=9, color=MARK)
    beside.tick_params(colors=MARK)
    beside.spines["right"].set(visible=True, color=MARK)
