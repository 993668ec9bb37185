"""The smallest runs of agents, tested on few levels."""

import contextlib
from unittest import mock

from tinyruns import TINY

from tinyrmc.cli import train
from tinyrmc.training.discovery import load_task
from tinyrmc.training.networks import open_checkpoint, restore_model

LEVELS = 40
_SMALL = (
    "--train.steps 3 --train.batch-size 8 --agent.unroll 4 --train.log-every 3 "
    "--train.evaluate-every 3 --workers 1 --model.features 8 --model.hidden-size 8 "
    "--model.mem-slots 2 --model.num-heads 2 --model.head-size 4 "
)
_BOX = (
    f"box_world quick {_SMALL} --world.room 7 --world.stages 5 1 0 "
    "--world.solution 1 2 --world.distractors 0 1 --world.pool 64 --world.limit 50"
)
RUNS = {
    "rmc": _BOX,
    "lstm": f"{_BOX} --model.core lstm",
    "whole": f"{_BOX} --world.view whole",
    "pacman": f"mini_pacman quick {_SMALL} --world.limit 40",
    "nth": " ".join(TINY),  # which has no agent
}


@contextlib.contextmanager
def few_levels():
    """Tasks are tested on LEVELS levels."""
    with contextlib.ExitStack() as stack:
        for name in ("box_world", "mini_pacman", "nth_farthest"):
            kind = load_task(name).Task
            stack.enter_context(mock.patch.object(kind, "test_examples", LEVELS))
        yield


def train_all(folder):
    """Train the RUNS, in a folder for each."""
    with few_levels(), contextlib.redirect_stdout(None):
        for name, words in RUNS.items():
            assert train.main([*words.split(), "--run", str(folder / name)]) == 0


def restored(path):
    """(task, network) of a run."""
    task, arrays, state = open_checkpoint(path)
    return task, restore_model(task, arrays, state)
