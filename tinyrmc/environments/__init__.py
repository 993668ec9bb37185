"""Worlds as array programs: thousands of levels at once, on NumPy and CuPy alike.

Where Gymnasium is installed (the extra `rl`), importing this registers them with it.
"""

import warnings
from importlib.util import find_spec
from typing import Any

# What `tinyrmc play` calls a world -> (module and class, a script that plays it, the
# arguments with which the script sees enough).
WORLDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "box_world": (
        f"{__name__}.box_world:BoxWorld",
        f"{__name__}.box_player:scripted",
        {"view": "remembered"},
    ),
    "mini_pacman": (
        f"{__name__}.pacman:MiniPacman",
        f"{__name__}.pacman:MiniPacman.scripted",
        {},
    ),
}
# Gymnasium's id -> (module and class, arguments)
IDS: dict[str, tuple[str, dict[str, Any]]] = {
    "tinyrmc/BoxWorld-v1": (f"{__name__}.box_world:BoxWorld", {}),
    "tinyrmc/MiniPacman-v1": (f"{__name__}.pacman:MiniPacman", {}),
    "tinyrmc/MiniPacmanFull-v1": (f"{__name__}.pacman:MiniPacman", {"view": "whole"}),
}


if find_spec("gymnasium"):
    try:
        import gymnasium

        for id, (world, arguments) in IDS.items():
            if id not in gymnasium.registry:
                # without max_episode_steps: worlds truncate by themselves
                gymnasium.register(
                    id,
                    entry_point=f"{__name__}.gym:LevelEnv",
                    vector_entry_point=f"{__name__}.gym:LevelsEnv",
                    kwargs={"world": world, **arguments},
                )
    except (ImportError, AttributeError, TypeError) as error:
        # training does not need it, so a broken or old one must not stop it
        warnings.warn(
            f"the worlds are not registered with Gymnasium ({error}); install one that "
            "suits: pip install 'tinyrmc[rl]'",
            stacklevel=2,
        )
