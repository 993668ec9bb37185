"""The library without its GPU code, or without worlds and agents: either may be
deleted, and nothing else misses it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tinyruns import TINY

import tinyrmc

pytestmark = pytest.mark.slow

GPU = "backend/gpu", "training/gpu"
# worlds, agents that learn in them, and what shows them
AGENTS = *("environments", "training/rl", "training/actors.py", "cores/agent.py"), *(
    "results/episodes.py", "results/episodes.html", "cli/play.py"
)  # fmt: skip
WORDS = ("-m", "tinyrmc.train", *TINY, "--train.steps=3", "--run=run", "--workers")


def copied(place, *without):
    """A copy of the package that lacks these; runs Python's words in it."""
    package = Path(tinyrmc.__file__).parent
    shutil.copytree(package, place / "tinyrmc")
    for name in without:
        path = place / "tinyrmc" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    tasks = "tinyrmc/tasks"  # as a wheel has them
    shutil.copytree(package.parent / "tasks", place / tasks, dirs_exist_ok=True)

    def run(*words):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(place)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_copy_without_gpu_code_trains(tmp_path):
    copied(tmp_path, *GPU)(*WORDS, "2")


def test_a_copy_without_worlds_and_agents_trains_tells_and_draws(tmp_path):
    run = copied(tmp_path, *AGENTS)
    run(*WORDS, "1")
    assert "accuracy" in run(*"-m tinyrmc evaluate run".split())
    assert "learning_curve.png" in run(*"-m tinyrmc plot run".split())
    told = run("-m", "tinyrmc.train")  # which lists the tasks; those with worlds fail
    assert "nth_farthest" in told and "No module named 'tinyrmc.environments" in told


def test_training_on_numpy_imports_none_of_it(tmp_path):
    program = (
        "import sys; from tinyrmc.cli import train; "
        f"train.main({[*WORDS[2:], '1']!r}); "
        "assert not [m for m in sys.modules if 'gpu' in m.split('.')], sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(tinyrmc.__file__).parents[1])}
    run = [sys.executable, "-c", program]
    done = subprocess.run(
        run, cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
