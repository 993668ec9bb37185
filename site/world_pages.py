"""The website's pages about the worlds: one for each of Gymnasium's ids, with what an
agent does, sees and earns, a picture, and a film strip.

The rules are told in the modules' own words. Tables are read from the worlds, and the
pictures are of levels that are played while the website is built.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from markup import rst, table
from matplotlib import image

from tinyrmc.environments import IDS, drawing
from tinyrmc.environments.box_world import BoxWorld
from tinyrmc.environments.pacman import GHOST_WORTH, PILL_WORTH, MiniPacman
from tinyrmc.environments.world import World

FRAMES, COLUMNS, CELL = 12, 4, 8  # of a film strip; pixels along a side of a cell

ENDS = {
    BoxWorld: "The gem terminates a level, and so does opening a distractor. The step "
    "after the `limit` truncates it.",
    MiniPacman: "A ghost that catches Pacman terminates an episode; its step number "
    "`limit` truncates it. A cleared level does neither; the next one begins.",
}
# what the pixels are, then each of the codes
SEEN = {
    BoxWorld: {
        "pixels": "RGB, and three more channels of one colour, that of the key you "
        "hold; black without one",
        "view": "0 floor, 1 wall, 2 the gem, 2 + c a key or lock of colour c",
        "held": "the colour of the key you hold, or 0",
        "position": "your row and column on the board",
    },
    MiniPacman: {
        "pixels": "RGB: white walls, blue food, light blue pills, green Pacman, red "
        "ghosts, yellower while they can be eaten",
        "view": "0 wall, 1 floor, 2 food, 3 pill, 4 ghost, 5 Pacman",
        "power": "steps for which the pill still works",
    },
}
VERSIONS = [  # of all ids
    ("v0", "the first one"),
    (
        "v1",
        "`held` and `power` have the shape (1,), as other libraries need it; a new "
        "level begins in the step after the last one, as in Gymnasium's own vectors",
    ),
]


def page_of(id: str) -> str:
    """The page's name, without .md: worlds/BoxWorld."""
    return f"worlds/{id.partition('/')[2].partition('-')[0]}"


def make(id: str) -> World:
    """The world of an id, with few levels, which are made quickly."""
    name, arguments = IDS[id]
    module, _, kind = name.partition(":")
    of_world = getattr(importlib.import_module(module), kind)
    few = {"levels": 16} if of_world is BoxWorld else {}
    return of_world(**arguments, **few)


def world_page(id: str) -> str:
    """All about one id, in Markdown."""
    world, short = make(id), page_of(id).partition("/")[2]
    module, kind = type(world).__module__, type(world).__name__
    arguments = ", ".join(f'{k}="{x}"' for k, x in IDS[id][1].items())
    made = f"{kind}({arguments})"
    return "\n".join(
        [
            f"# The world {short}\n",
            f"![A level of {short}, the whole of it]({short}.png)\n",
            rst(f".. automodule:: {module}", "   :no-members:", "   :no-index:"),
            "## Gymnasium\n",
            f"```python\nimport gymnasium\nimport tinyrmc.environments\n\n"
            f'env = gymnasium.make("{id}")\n'
            f'envs = gymnasium.make_vec("{id}", num_envs=256)\n```\n',
            f"`pip install 'tinyrmc[rl]'` brings Gymnasium. The world is `{made}`, and "
            "`make` takes the arguments below, too. With `render_mode` `rgb_array` or "
            "`ansi`, `render()` gives a picture or text of the whole board, and with "
            "`render_whole=False` of what the player sees.\n",
            "## Actions\n",
            table(["action", "what you do"], enumerate(world.action_names)),
            "## Observations\n",
            _observations(world),
            "## Rewards\n",
            _rewards(world),
            "## Ends\n",
            f"{ENDS[type(world)]} `make_vec` begins a new level in the next step, as "
            "Gymnasium's own vectors do. With `autoreset_mode` SAME_STEP it does so in "
            'the same step, and keeps the last observation in `info["final_obs"]`; '
            'with DISABLED you do it: `reset(options={"reset_mask": mask})`.\n',
            "## Arguments\n",
            rst(f".. autoclass:: {module}.{kind}", "   :no-members:", "   :no-index:"),
            "## Film\n",
            f"![Some moments of a level, played by somebody who knows all of it]"
            f"({short}_film.png)\n",
            "## Versions\n",
            table(["version", "what it changed"], VERSIONS),
        ]
    )


def _observations(world: World) -> str:
    seen = world.observe(world.start(np.zeros((1, world.start_noise), np.float32)))
    shape = " x ".join(map(str, world.pixels(seen).shape[1:]))
    says = SEEN[type(world)]
    rows = []
    for name, codes in world.observation.items():
        size = " x ".join(map(str, codes.shape)) or "()"
        rows.append((f"`{name}`", size, f"0 to {codes.highest}", says[name]))
    return (
        f'`observation="pixels"`, the default: {shape}, `uint8`. {says["pixels"]}.\n\n'
        '`observation="codes"`: a dict of small `uint8` arrays.\n\n'
        f"{table(['name', 'shape', 'values', 'what it is'], rows)}"
    )


def _rewards(world: World) -> str:
    if isinstance(world, MiniPacman):
        rows = [("a food", "+1"), ("a pill", f"+{PILL_WORTH}")]
        rows += [("a ghost eaten", f"+{GHOST_WORTH}")]
    else:
        rows = [
            ("a lock of the solution opened, the gem's own included", "+1"),
            ("a distractor opened", "-1"),
            ("the gem", "+10"),
        ]
    return table(["for", "reward"], rows)


# --- Pictures -------------------------------------------------------------------------


def draw(id: str, folder: Path) -> None:
    """The picture of a level and the film strip of a page, as PNG files."""
    world, short = make(id), page_of(id).partition("/")[2]
    frames = [*_play(world)]
    every = np.linspace(0, len(frames) - 1, FRAMES).astype(int)
    film = [drawing.enlarge(frames[k], CELL) for k in every]
    strip = drawing.strip(film, COLUMNS, gap=CELL, colour=128)
    image.imsave(folder / f"{short}.png", drawing.enlarge(frames[0], 3 * CELL))
    image.imsave(folder / f"{short}_film.png", strip)


def _play(world: World) -> Iterator[np.ndarray]:
    """Pictures of the whole board while it is played."""
    rng = np.random.default_rng(0)
    state = world.start(rng.random((1, world.start_noise), np.float32))
    plan: list[int] = []
    if isinstance(world, BoxWorld):
        plan = world.levels.solution(int(state["level"][0]))
    for step in range(len(plan) or 100):
        yield world.rgb(state, whole=True)[0]
        actions = np.array(plan[step : step + 1])
        if isinstance(world, MiniPacman):
            actions = world.scripted(state)
        noise = rng.random((1, world.noise), np.float32)
        final = world.step(state, actions, noise, keep_final=True).final
        if step == len(plan) - 1 and final is not None:
            yield world.rgb(final, whole=True)[0]
