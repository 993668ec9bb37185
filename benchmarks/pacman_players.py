"""How much is a memory worth in MiniPacman?

    python benchmarks/pacman_players.py [--out FILE.json]

The script that sees the whole maze (`MiniPacman.scripted`) goes for the nearest food
and keeps away from ghosts. Here it plays with less: of ghosts, or of food, it knows no
more than what lies in the window of 5 x 5 cells. It still knows the maze, and where it
is. A level begins with food everywhere, so who remembers where they have been knows
where all food is left. A player that knows of no food walks to a cell drawn at random,
until some is in sight.

And it plays with more: a player that looks ahead tries each action four times, in what
it knows of the game, as if the script went on for 19 steps more. It takes the action
that brings most: later points count less, and being caught costs 40. (Tesauro and
Galperin 1996, "On-line policy improvement using Monte-Carlo search".) It knows of all
food, and so of all pills, of which no memory tells before they were seen.

A game ends when a ghost catches Pacman, or after 3,000 steps; also counted is what it
has scored after 300.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import report

from tinyrmc import __version__
from tinyrmc.cli.commands import Parser, run_main
from tinyrmc.environments.maze import CELLS, DIRECTIONS, GONE, PLACES, VIEWPORT
from tinyrmc.environments.pacman import FLOOR, FOOD, MiniPacman
from tinyrmc.environments.world import State
from tinyrmc.training.machine import environment

EARLY = 300  # steps
AHEAD = 20  # steps that a player looks ahead
DISCOUNT = 0.97  # of what each step gains, for every step before it
CAUGHT = 40  # points that it takes being caught to cost
_AWAY = np.abs(np.array(PLACES)[:, None] - PLACES).max(axis=2)
# [cell or nowhere, Pacman's cell] -> whether it lies in the window
_SEEN = np.pad(_AWAY <= VIEWPORT // 2, ((0, 1), (0, 0)))


def known(world: MiniPacman, state: State, all_ghosts: bool, all_food: bool) -> State:
    """The games (B) as a player knows them, who sees the window and maybe more."""
    pacman, ghosts, board = state["pacman"], state["ghosts"], state["board"].copy()
    if not all_ghosts:
        seen = _SEEN[ghosts // DIRECTIONS, pacman[:, None]]
        ghosts = np.where(seen, ghosts, GONE)
    if not all_food:
        rows, cells = np.nonzero(~_SEEN[:CELLS].T[pacman])
        board[rows, world.constants["place"][cells]] = FLOOR
    return state | {"ghosts": ghosts, "board": board}


def walk(world: MiniPacman, mind: State, goals: np.ndarray, u: np.ndarray) -> None:
    """Put food at a random goal where a player knows of none, CHANGING `mind`; and
    `goals` (B,), cells: a new one, by u (B,), where the last has been reached.
    """
    places = world.constants["place"]
    lost = ~world.constants["wanted"][mind["board"][:, places[:CELLS]]].any(axis=1)
    there = goals == mind["pacman"]
    goals[there] = (u * CELLS).astype(goals.dtype)[there]
    mind["board"][lost, places[goals[lost]]] = FOOD


def look_ahead(world: MiniPacman, mind: State, rng: np.random.Generator) -> np.ndarray:
    """The actions (B,) with which the script then fares best."""
    actions, tries = len(world.action_names), 4
    state = {name: np.repeat(x, actions * tries, axis=0) for name, x in mind.items()}
    count = len(state["pacman"])
    taken = np.tile(np.repeat(np.arange(actions), tries), count // (actions * tries))
    worth, playing = np.zeros(count), np.ones(count, bool)
    for step in range(AHEAD):
        noise = rng.random((count, world.noise), np.float32)
        outcome = world.step(state, taken, noise)
        gained = outcome.reward - CAUGHT * outcome.terminated
        worth += DISCOUNT**step * gained * playing
        playing &= ~outcome.ended
        taken = world.scripted(state)
    means = worth.reshape(-1, actions, tries).mean(axis=2)
    # where all are as good, as far as it looks, it goes on as the script does
    means[np.arange(len(means)), world.scripted(mind)] += 1e-6
    return means.argmax(axis=1)


def play(all_ghosts: bool, all_food: bool, ahead: bool, games: int) -> dict[str, Any]:
    """How the games of one player end."""
    world, rng = MiniPacman(), np.random.default_rng(0)
    state = world.start(rng.random((games, world.start_noise), np.float32))
    goals, rows = state["pacman"].copy(), np.arange(games)  # of games that go on
    score, early, length, cleared = np.zeros((4, games))
    step = 0
    while len(rows):
        step += 1
        mind = known(world, state, all_ghosts, all_food)
        walk(world, mind, goals, rng.random(len(rows)))
        taken = look_ahead(world, mind, rng) if ahead else world.scripted(mind)
        length[rows], cleared[rows] = step, state["level"] - 1
        noise = rng.random((len(rows), world.noise), np.float32)
        outcome = world.step(state, taken, noise)
        score[rows] += outcome.reward
        if step <= EARLY:
            early[rows] = score[rows]
        on = ~outcome.ended
        rows, goals, state = rows[on], goals[on], {k: x[on] for k, x in state.items()}
    return {
        "ghosts": "all" if all_ghosts else "in the window",
        "food": "all" if all_food else "in the window",
        "ahead": AHEAD if ahead else 0,
        "games": games,
        **{f"score after {EARLY} steps": mean(early), "score": mean(score)},
        **{"steps": mean(length), "levels cleared": mean(cleared)},
    }


def mean(of: np.ndarray) -> list[float]:
    """A mean over games, and half the width of its 95 % confidence interval."""
    return [of.mean(), 1.96 * of.std() / len(of) ** 0.5]


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    about = "How much is a memory worth in MiniPacman?"
    parser = Parser("python benchmarks/pacman_players.py", about)
    also = "also write the results there"
    parser.add_argument("--out", help=also, type=report.json_file, metavar="FILE.json")
    options = parser.parse_args(argv)
    ways = [(ghosts, food) for ghosts in (True, False) for food in (True, False)]
    players = [play(*way, ahead=False, games=1024) for way in ways]
    players += [play(*way, ahead=True, games=64) for way in ways if way[1]]
    found: dict[str, Any] = {"benchmark": "pacman_players", "players": players}
    report.publish(found | {"environment": environment(__version__)}, options.out)
    return 0


if __name__ == "__main__":
    run_main(main)
