"""How fast worlds are on one core: steps a second of many levels at once.

    python benchmarks/worlds.py

A step is what an agent waits for: the actions go in, rewards, ends and the next
observation come out, and levels that ended are replaced. Actions and random numbers are
drawn beforehand. Each world has played 150 steps, by when MiniPacman's levels are at
different places. Of BoxWorld's, which hardly any of these actions solve, most run out
of time together, every 121 steps. The rows take turns; a round's time is processor
time, so that other work of the machine counts less, and the figure is the median of the
rounds. Results go to a JSON file with `--out`, and the tables to the screen.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import report

from tinyrmc.cli.commands import run_main
from tinyrmc.environments.box_levels import Problem, make
from tinyrmc.environments.box_world import BoxWorld
from tinyrmc.environments.pacman import MiniPacman
from tinyrmc.environments.world import World

LEVELS = 256, 1024, 4096
MADE = 8192  # levels in a round of making them


def worlds() -> dict[str, tuple[World, bool]]:
    """Name -> the world, and whether its observations are pixels."""
    box, whole = BoxWorld(), BoxWorld(view="whole")
    pacman, maze = MiniPacman(), MiniPacman(view="whole")
    return {
        "BoxWorld, codes of a 5 x 5 view": (box, False),
        "BoxWorld, pixels of a 5 x 5 view": (box, True),
        "BoxWorld, codes of the board": (whole, False),
        "MiniPacman, codes of a 5 x 5 view": (pacman, False),
        "MiniPacman, pixels of a 5 x 5 view": (pacman, True),
        "MiniPacman, codes of the maze": (maze, False),
    }


def player(world: World, pixels: bool, levels: int) -> Callable[[int], None]:
    """What plays so many steps."""
    rng = np.random.default_rng(0)
    state = world.start(rng.random((levels, world.start_noise), np.float32))
    drawn = 64
    actions = rng.integers(world.actions, size=(drawn, levels))
    noise = rng.random((drawn, levels, world.noise), np.float32)

    def play(steps: int) -> None:
        for step in range(steps):
            world.step(state, actions[step % drawn], noise[step % drawn])
            seen = world.observe(state)
            if pixels:
                world.pixels(seen)

    return play


def steps_per_second(names: list[str], rounds: int, seconds: float) -> list[dict]:
    """Rows of the table: {"world", "levels": {how many: steps a second}, "rounds"}."""
    players = {}
    for name in names:
        world, pixels = worlds()[name]
        for levels in LEVELS:
            players[name, levels] = player(world, pixels, levels)
    counts = {}
    for key, play in players.items():
        play(150)  # past BoxWorld's first replacement of nearly all levels
        counts[key] = max(1, int(20 * seconds / timed(play, 20)))
    speeds: dict[tuple[str, int], list[float]] = {key: [] for key in players}
    for _ in range(rounds):
        for key, play in players.items():
            steps = counts[key] * key[1]
            speeds[key].append(steps / timed(play, counts[key]))
    return [
        {
            "world": name,
            "levels": {n: statistics.median(speeds[name, n]) for n in LEVELS},
            "rounds": {n: speeds[name, n] for n in LEVELS},
        }
        for name in names
    ]


def levels_per_second(rounds: int) -> list[dict]:
    """The same for making levels, none of which was made before."""
    problems = {
        "lengths 1 to 5, 0 to 5 distractors": Problem(),
        "lengths 1 and 2 in rooms of 5 to 12": Problem((1, 2), (0, 0), room=(5, 12)),
    }
    speeds: dict[str, list[float]] = {name: [] for name in problems}
    for seed in range(rounds):
        for name, problem in problems.items():
            taken = timed(make, problem, MADE, seed)
            speeds[name].append(MADE / taken)
    return [
        {"levels": name, "per_second": statistics.median(rates), "rounds": rates}
        for name, rates in speeds.items()
    ]


def timed(function: Callable, *arguments) -> float:
    """Seconds of processor time that a call takes."""
    began = time.process_time()
    function(*arguments)
    return time.process_time() - began


def main(words=None) -> int:
    """The command line; returns the exit code."""
    about = "Measure how many steps a second one core plays in the worlds."
    parser = report.parser("worlds", about)
    add, rounds = parser.add_argument, report.at_least_one
    add("--rounds", type=rounds, default=9, help="of each row (default: %(default)s)")
    add("--seconds", type=float, default=0.2, help="of a round (default: %(default)s)")
    options = parser.parse_args(words)
    result = {
        **report.heading("worlds"),
        "worlds": steps_per_second([*worlds()], options.rounds, options.seconds),
        "levels": levels_per_second(options.rounds),
    }
    report.publish(result, options.out)
    return 0


if __name__ == "__main__":
    run_main(main)
