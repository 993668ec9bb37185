"""The library without its GPU code: that may be deleted, and nothing misses it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tinyrmc

pytestmark = pytest.mark.slow

GPU = "backend/gpu", "training/gpu"
WORDS = (
    *"-m tinyrmc.train nth_farthest --train.steps 3 --train.batch-size 16".split(),
    *"--train.evaluate-every 3 --train.log-every 3 --run run --workers".split(),
)


def test_a_copy_without_gpu_code_trains(tmp_path):
    package = Path(tinyrmc.__file__).parent
    shutil.copytree(package, tmp_path / "tinyrmc")
    for folder in GPU:
        shutil.rmtree(tmp_path / "tinyrmc" / folder)
    tasks = "tinyrmc/tasks"  # as a wheel has them
    shutil.copytree(package.parent / "tasks", tmp_path / tasks, dirs_exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = [sys.executable, *WORDS, "2"]
    done = subprocess.run(
        run, cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


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
