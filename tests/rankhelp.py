"""Several ranks in a test.

Threads that share a communicator of lists and NumPy sums, or real ones, under mpiexec.
"""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest
import tinyruns

from tinyrmc.training.ranks import Ranks
from tinyrmc.training.trainer import Trainer


class World:
    """The part of MPI that Ranks uses, for the threads of one process.

    `machines` names where each rank runs.
    """

    def __init__(self, machines):
        self.calls = []  # (name, numbers) of everything that rank 0 has taken part in
        self.machines = machines
        self.meeting = threading.Barrier(len(machines), timeout=60)
        self.slots = [None] * len(machines)

    def of(self, rank):
        """This rank's module mpi4py.MPI."""
        return types.SimpleNamespace(
            COMM_WORLD=Communicator(self, rank),
            IN_PLACE="in place",
            pickle=types.SimpleNamespace(__init__=lambda dumps, loads: None),
            get_vendor=lambda: ("Threads", (1, 0)),
            Finalize=lambda: None,
            Get_processor_name=lambda: self.machines[rank],
        )


class Communicator:
    def __init__(self, world, rank):
        self.world, self.rank = world, rank

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return len(self.world.slots)

    def _meet(self, name, message, size):
        if self.rank == 0:
            self.world.calls.append((name, size))
        self.world.slots[self.rank] = message
        self.world.meeting.wait()
        everybodys = list(self.world.slots)
        self.world.meeting.wait()
        return everybodys

    def allgather(self, value):
        messages = self._meet("allgather", json.dumps(value), 1)
        return [json.loads(message) for message in messages]

    def Allreduce(self, own, total):
        assert own == "in place"
        assert type(total) is np.ndarray and total.flags.c_contiguous
        first, *others = self._meet("Allreduce", total.copy(), total.size)
        assert {(x.shape, x.dtype) for x in others} <= {(total.shape, total.dtype)}
        total[...] = first
        for other in others:
            total += other


class ThreadRanks(Ranks):
    """They share one standard output."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


ALONE = types.SimpleNamespace(trainer=Trainer, rank=0)


def on_ranks(size, function, machines=None):
    """[function(ranks) or what it raised, for each rank], run side by side."""
    world = World(machines or ["here"] * size)
    results = [None] * size

    def live(rank):
        try:
            with ThreadRanks(world.of(rank)) as ranks:
                results[rank] = function(ranks)
        except BaseException as error:
            results[rank] = error
            time.sleep(0.2)
            world.meeting.abort()  # a little later, as -m mpi4py does

    threads = [threading.Thread(target=live, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def all_well(results):
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def assert_close(line, other, tolerance):
    """Two lines of metrics have the same names and texts, and nearly the same numbers.

    `tolerance` is relative.
    """

    def near(value):
        if isinstance(value, str):
            return value
        return pytest.approx(value, rel=tolerance, abs=0)

    assert line == {name: near(value) for name, value in other.items()}


beside = Path(sys.executable).parent / "mpiexec"
MPIEXEC = str(beside) if beside.exists() else shutil.which("mpiexec")
MISSING = None
if importlib.util.find_spec("mpi4py") is None:
    MISSING = "mpi4py"
elif MPIEXEC is None:
    MISSING = "mpiexec"
real = pytest.mark.skipif(
    MISSING is not None, reason=f"needs {MISSING}: pip install 'tinyrmc[mpi]'"
)


SURROUNDINGS = tinyruns.SURROUNDINGS | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # Open MPI, where there are fewer cores than ranks
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
STEPS = 20
TINY = (
    "nth_farthest --model.mem-slots 2 --model.head-size 2 --model.num-heads 1 "
    "--data.dimensions 2 --data.stages 2 1 3 1 --data.promotion-threshold 0.01 "
    f"--train.steps {STEPS} --train.batch-size 50 --train.micro-batch-size 16 "
    "--train.log-every 5 --train.evaluate-every 10 --seed 5"
).split()

# The program, with fewer held-out examples, no pictures, and the trouble that the
# environment asks for: TROUBLE = "rank step what".
PROGRAM = """
import errno, os, signal, sys, time
import numpy as np
from mpi4py import MPI
from tinyrmc.training import discovery, ranks as ranks_module
from tinyrmc.errors import RunError
from tinyrmc.results import plotting as curves
from tinyrmc.training import run as run_module
from tinyrmc.cli import train
from tinyrmc.cli.commands import run_main

Task, rank = discovery.load_task("nth_farthest").Task, MPI.COMM_WORLD.Get_rank()
Task.test_examples, curves.draw_run = 200, lambda run: []
which, step, what = os.environ.get("TROUBLE", "-1 0 none").split(maxsplit=2)
calls = 0

def trouble(*args):
    global calls
    calls += 1
    if rank == int(which) and calls == int(step):
        exec(what)

def troubled(function):
    return lambda *args, **more: (trouble(*args), function(*args, **more))[1]

where = os.environ.get("WHERE", "Task.after_update").split(".")
owners = {"Task": Task, "Run": run_module.Run, "RankTrainer": ranks_module.RankTrainer}
owner = owners[where[0]]
setattr(owner, where[1], troubled(getattr(owner, where[1])))
if os.environ.get("SLOWLY"):
    Task.learning_rate = lambda self, step: time.sleep(0.05) or 1e-3
run_main(train.main)
"""


def mpiexec(*words, ranks=2, **surroundings):
    """A command line with the program on so many ranks."""
    command = [MPIEXEC, "-n", str(ranks), sys.executable, "-m", "mpi4py"]
    command += ["-c", PROGRAM, *map(str, words)]
    return {"args": command, "env": SURROUNDINGS | surroundings, "text": True}


def run_ranks(*words, **surroundings):
    """The finished process, without the frames in which Open MPI tells of exit codes.

    A run takes seconds, on busy cores a minute; one that hangs comes to an end, with
    its ranks: they would wait for each other for ever, on a whole core.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(**mpiexec(*words, **surroundings), **pipes) as process:
        try:
            out, err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.terminate()  # mpiexec ends its ranks; killed, it would leave them
            raise
    err = re.sub(r"-{20,}\n[^\n]*non-zero status.*?-{20,}\n", "", err, flags=re.DOTALL)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
