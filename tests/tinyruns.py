"""The smallest runs of the train command, and what tests of the command lines ask of
runs and refusals.
"""

import contextlib
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tinyrmc.cli import evaluate
from tinyrmc.errors import RunError
from tinyrmc.training import discovery

ROOT = Path(__file__).resolve().parent.parent
nth_farthest = discovery.load_task("nth_farthest")


STEPS = 12
TINY = shlex.split(
    "nth_farthest --model.mem-slots 2 --model.head-size 2 --model.num-heads 1 "
    "--data.dimensions 2 --data.stages 2 1 3 1 --data.promotion-threshold 0.01 "
    f"--workers 1 --train.steps {STEPS} --train.batch-size 8 --train.log-every 5 "
    "--train.evaluate-every 10 --train.micro-batch-size 2048"
)


AT_ONCE = ["--max-minutes", "1e-9"]  # a run stops after its first step
LAST = 153
LONG = f"--train.steps {LAST} --train.evaluate-every 90 --train.log-every 6"
LONG = [*TINY, *LONG.split()]


SURROUNDINGS = os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}


def read(name):
    """The text of a file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def python(*words, **keywords):
    """A finished process of this interpreter."""
    usual = {"env": SURROUNDINGS, "capture_output": True, "text": True, "timeout": 100}
    return subprocess.run([sys.executable, *map(str, words)], **usual | keywords)


def output(*words, **keywords):
    """The output of a Python process, which must not fail."""
    done = python(*words, **keywords)
    assert done.returncode == 0, done.stderr
    return done.stdout


def stop_at(monkeypatch, step, number=signal.SIGTERM):
    """The process gets a signal while its `step`-th step is computed."""
    steps = itertools.count(1)
    monkeypatch.setattr(
        nth_farthest.Task,
        "after_update",
        lambda *_: os.kill(os.getpid(), number) if next(steps) == step else None,
    )


def contents(folder="."):
    """Every file below with its bytes and time of change, and every folder; but a lock
    is no content.
    """
    return {
        path: path.is_file() and (path.read_bytes(), path.stat().st_mtime_ns)
        for path in Path(folder).rglob("*")
        if path.name != ".lock"
    }


@contextlib.contextmanager
def fresh_directory():
    """A current directory for one turn of a loop."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        yield Path(folder)


def timeless(run):
    return [
        {name: value for name, value in line.items() if name != "seconds"}
        for line in run.metrics()
    ]


def assert_same_run(one, other):
    """The same checkpoint and the same lines, wall-clock fields aside."""
    (ours, our_state), (theirs, their_state) = one.load(), other.load()
    assert list(ours) == list(theirs)
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    timed = {"seconds": 0, "metrics": 0}  # whose lines have seconds too
    assert our_state | timed == their_state | timed
    assert timeless(one) == timeless(other)


def cut_short(run, lines):
    """A run becomes one that stopped after so many lines, before what came next."""
    run.truncate_metrics(lines)
    arrays, state = run.load()
    answers = {"lines": lines, "metrics": [lines, run.checksum(lines)]}
    run.save(arrays, state | answers, instead=True)


def resume_command(out):
    """The words after `python -m tinyrmc.train` of the command that was printed."""
    (command,) = re.findall(
        r"^ +\S*(python\S* -m tinyrmc\.train --resume .*)$", out, re.M
    )
    return shlex.split(command)[3:]


def evaluated(capsys, *words):
    assert evaluate.main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def error_of(function, *args, **kwargs):
    """The text of the RunError that the call raises: always one line."""
    with pytest.raises(RunError) as caught:
        function(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)
