"""Ranks that train together: what one process would give, one voice, and no rank left waiting for another that is gone.

Three ranks and more are threads that share a communicator of lists and NumPy sums; two ranks are real ones, under mpiexec. Where waiting
ranks spin, two are as many as two cores can bear.
"""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import types
from pathlib import Path

import fakecupy
import numpy as np
import pytest
from test_training import Config, Larger, RunningSum, assert_same_arrays, poisoned, relations, timeless

from tinyrmc import discovery, evaluate, plot, train
from tinyrmc.commands import run_main
from tinyrmc.parallel import CAN_FORK
from tinyrmc.ranks import LaunchError, MpiRanks, Ranks, launched
from tinyrmc.runs import Onlooker, Run, RunError
from tinyrmc.training import NonFinite, Trainer

ROOT = Path(__file__).resolve().parent.parent


# --- Ranks that are threads ---------------------------------------------------------------------------------------------------------------


class World:
    """The part of MPI that MpiRanks uses, for the threads of one process; `machines` names where each rank runs."""

    def __init__(self, machines):
        self.calls = []  # (name, numbers) of everything that rank 0 has taken part in
        self.machines, self.meeting, self.slots = machines, threading.Barrier(len(machines), timeout=60), [None] * len(machines)

    def of(self, rank):
        """What the module mpi4py.MPI is to this rank."""
        return types.SimpleNamespace(
            COMM_WORLD=Communicator(self, rank),
            IN_PLACE="in place",
            get_vendor=lambda: ("Threads", (1, 0)),
            Get_processor_name=lambda: self.machines[rank],
        )


class Communicator:
    def __init__(self, world, rank):
        self.world, self.rank = world, rank

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return len(self.world.slots)

    def _meet(self, name, array):
        if self.rank == 0:
            self.world.calls.append((name, array.size))
        assert type(array) is np.ndarray and array.flags.c_contiguous
        self.world.slots[self.rank] = array.copy()
        self.world.meeting.wait()
        everybodys = list(self.world.slots)
        self.world.meeting.wait()
        assert len({(other.shape, other.dtype) for other in everybodys}) == 1
        return everybodys

    def Allgather(self, own, gathered):
        own = gathered[self.rank] if own == "in place" else own
        gathered[...] = np.reshape(self._meet("Allgather", np.ascontiguousarray(own)), gathered.shape)

    def Allreduce(self, own, total):
        assert own == "in place"
        first, *others = self._meet("Allreduce", total)
        total[...] = first
        for other in others:
            total += other


def on_ranks(size, function, machines=None):
    """[function(ranks) or what it raised, for each rank], run side by side."""
    world, results = World(machines or ["here"] * size), [None] * size

    def live(rank):
        try:
            results[rank] = function(MpiRanks(world.of(rank)))
        except BaseException as error:
            results[rank] = error

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


@pytest.mark.parametrize("size", [1, 2, 5])
def test_each_hears_what_all_have_computed(size):
    values = [0.1 + 0.2, 1e-320, float("inf"), 2**60 + 1, "\u03b1", None, {"a": [1]}]
    heard = all_well(on_ranks(size, lambda ranks: ranks.each(lambda: [ranks.rank, values * ranks.rank])))
    assert heard == [[[rank, values * rank] for rank in range(size)]] * size
    assert all_well(on_ranks(size, lambda ranks: ranks.together(lambda: {ranks.rank}))) == [{rank} for rank in range(size)]
    assert all_well(on_ranks(size, lambda ranks: ranks.largest(-((ranks.rank - 1) ** 2)))) == [0 if size > 1 else -1] * size
    assert Ranks().each(lambda: 3) == [3] and Ranks().together(set) == set() and Ranks().largest(2) == 2


def fails_on(which, error):
    def compute(ranks):
        if ranks.rank in which:
            raise error(f"rank {ranks.rank}")
        return ranks.rank

    return on_ranks(3, lambda ranks: ranks.each(lambda: compute(ranks)))


@pytest.mark.parametrize("which", [{0}, {1}, {2}, {1, 2}, {0, 1, 2}])
def test_what_fails_anywhere_stops_all_and_is_told_once(which):
    results = fails_on(which, ZeroDivisionError)
    first = min(which)
    assert [type(result) for result in results] == [ZeroDivisionError if rank == first else SystemExit for rank in range(3)]
    assert str(results[first]) == f"rank {first}"
    assert all(result.code == 0 for rank, result in enumerate(results) if rank != first)
    assert getattr(results[first], "__notes__", []) == ([f"(on rank {first} of 3)"] if len(which) < 3 else [])


def test_what_json_cannot_hold_stops_all():
    results = on_ranks(2, lambda ranks: ranks.each(lambda: {1} if ranks.rank else 1))
    assert type(results[0]) is SystemExit and "not JSON serializable" in str(results[1])


def test_leaving_is_no_failure_if_all_leave():
    assert [error.code for error in on_ranks(3, lambda ranks: ranks.each(lambda: sys.exit(0)))] == [0, 0, 0]
    results = on_ranks(3, lambda ranks: ranks.each(lambda: sys.exit(0) if ranks.rank == 1 else 0))
    assert type(results[1]) is LaunchError and "sys.exit(0)" in str(results[1])


def test_sums_and_parts():
    numbers = np.random.default_rng(0).standard_normal((3, 1000)).astype(np.float32)
    for total in all_well(on_ranks(3, lambda ranks: (ranks.sum(mine := numbers[ranks.rank].copy()), mine)[1])):
        np.testing.assert_array_equal(total, numbers[0] + numbers[1] + numbers[2])

    for whole in (np.array([[-0.0, np.nan], [1e-320, 2], [3, 4]]), np.array([True, False, True]), np.array([-1, 2**60, 3])):

        def merged(ranks, whole=whole):
            part = np.zeros_like(whole)
            part[ranks.rank] = whole[ranks.rank]
            ranks.merge(part)
            return part

        for found in all_well(on_ranks(3, merged)):
            assert found.tobytes() == whole.tobytes()


def test_ranks_know_their_neighbours():
    places = all_well(on_ranks(5, lambda ranks: ranks.local_rank, ["a", "b", "a", "a", "b"]))
    assert places == [0, 0, 1, 2, 1]
    assert Ranks().local_rank == 0


def test_ranks_divide_the_cores_of_a_machine(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(7)))
    assert all_well(on_ranks(5, lambda ranks: ranks.cores, ["a", "b", "a", "a", "b"])) == [2] * 5  # of seven for three on a
    assert Ranks().cores == 7


def assert_close(line, other, tolerance):
    """Two lines of metrics have the same names, texts, and numbers within a relative tolerance."""
    assert line == {name: value if isinstance(value, str) else pytest.approx(value, rel=tolerance, abs=0) for name, value in other.items()}


def trained(trainer, steps=6):
    """What a run has come to: its arrays, and a line with what is held out."""
    for _ in range(steps):
        trainer.advance()
    line = trainer.read() | trainer.evaluate()
    return trainer.arrays(), timeless([line]), trainer.state()


@pytest.mark.parametrize("core", ["rmc", "lstm"])
def test_three_ranks_are_three_workers_to_the_last_bit(core):
    alone = trained(Trainer(relations(core), seed=4, workers=3, processes=False))
    for arrays, line, state in all_well(on_ranks(3, lambda ranks: trained(Trainer(relations(core), seed=4, ranks=ranks)))):
        assert_same_arrays(arrays, alone[0])
        assert line == alone[1] and state["task"] == alone[2]["task"] and (state["ranks"], state["workers"]) == (3, 1)


@pytest.mark.parametrize("core", ["rmc", "rmc_paper", "lstm"])
def test_the_gradient_of_ranks_of_several_workers_is_that_of_one_process(core):
    def gradient(ranks=None, workers=1):
        trainer = Trainer(relations(core, clip_norm=None), 4, workers, processes=False, ranks=ranks)
        trainer.advance()
        return trainer.optimizer.gradient

    alone = gradient()
    for ours in all_well(on_ranks(3, lambda ranks: gradient(ranks, workers=2))):
        np.testing.assert_allclose(ours, alone, rtol=1e-5, atol=1e-6 * np.abs(alone).max())


def test_steps_of_ranks_of_several_workers_are_those_of_one_process():
    arrays, (line,), _ = trained(Trainer(Larger(Config()), seed=4), 12)
    found = all_well(on_ranks(3, lambda ranks: trained(Trainer(Larger(Config()), 4, 2, processes=False, ranks=ranks), 12)))
    for ours, (our_line,), _ in found:
        assert_same_arrays(ours, found[0][0])
        assert_close(our_line, line, 1e-5)
        for name in arrays:
            np.testing.assert_allclose(ours[name], arrays[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_step_costs_one_allreduce_of_the_gradient_and_one_exchange(workers):
    def calls(ranks):
        trainer = Trainer(relations(), 4, workers, processes=False, ranks=ranks)
        made = ranks._comm.world.calls
        made.clear()
        for step in range(3):
            assert trainer.advance(lambda step=step: [ranks.rank, step]) == [[0, step], [1, step], [2, step]]
        return list(made), trainer.optimizer.gradient.size

    made, size = all_well(on_ranks(3, calls))[0]
    assert [name for name, _ in made] == ["Allgather", "Allgather", "Allreduce"] * 3
    assert [numbers for name, numbers in made if name == "Allreduce"] == [size] * 3


@pytest.mark.parametrize("where", ["data", "first_moment", "second_moment", "updates"])
@pytest.mark.parametrize("rank", [0, 2])
def test_ranks_that_differ_in_the_last_bit_of_one_number_stop(rank, where):
    def run(ranks):
        trainer = Trainer(relations(), 4, ranks=ranks)
        for _ in range(2):
            trainer.advance()
        trainer.require_agreement()
        if ranks.rank == rank:
            one = getattr(trainer.optimizer, where).reshape(-1)[-1:]
            one[...] = np.nextafter(one, np.float32(9))
        trainer.require_agreement()

    results = on_ranks(3, run)
    assert [type(result) for result in results] == [RunError, SystemExit, SystemExit]
    assert re.match(r"the ranks' parameters differ at step 2 \(nothing was saved\): .*; give all ranks the same files", str(results[0]))


def test_curricula_move_in_step_although_clocks_differ():
    def observed(ranks):
        task, seen = Larger(Config()), []
        task.observe = lambda step, line: seen.append(line) or {"rung": 1}
        trainer = Trainer(task, ranks=ranks)
        trainer.advance()
        trainer.seconds = 10.0 * ranks.rank
        return seen, trainer.read()

    results = all_well(on_ranks(3, observed))
    assert results == [results[0]] * 3 and results[0][1]["seconds"] == 0 and results[0][1]["rung"] == 1


def test_a_carry_is_gathered_and_cut_again():
    """Saved by five ranks, taken up by two with two workers each, and by one: the sum of all numbers is that of each example."""

    def run(ranks, saved=None, steps=3, workers=1):
        trainer = Trainer(RunningSum(Config()), 3, workers, ranks=ranks)
        if saved:
            trainer.restore(*saved)
        for _ in range(steps):
            trainer.advance()
        assert len(trainer.carry) < 50 / 16 + 2  # no other rank's
        return trainer.arrays(), trainer.state(), trainer.stream

    def numbers(steps):
        return sum(stream.batch(step, 0, 50)["x"].astype(np.float64) for step in range(steps))

    five = all_well(on_ranks(5, run))
    stream = five[0][2]
    for arrays, *_ in five:
        assert_same_arrays(arrays, five[0][0])
        np.testing.assert_allclose(arrays["carry/total"], numbers(3), rtol=1e-5, atol=1e-5)
    later = [*all_well(on_ranks(2, lambda ranks: run(ranks, five[0][:2], workers=2))), run(Ranks(), five[0][:2])]
    for arrays, state, _ in later:
        assert state["step"] == 6 and arrays["carry/hidden"].shape == (50, 4)
        np.testing.assert_allclose(arrays["carry/total"], numbers(6), rtol=1e-5, atol=1e-5)
        for name in arrays:
            np.testing.assert_allclose(arrays[name], later[-1][0][name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_a_step_that_is_not_finite_on_one_rank_is_skipped_on_all_and_told_once():
    def run(ranks):
        trainer = Trainer(poisoned({2, 3}, nonfinite_limit=2), ranks=ranks)
        for _ in range(4):
            trainer.advance()
        assert trainer.state()["skipped"] == [2, 2]
        trainer.read()

    results = on_ranks(3, run)
    assert [type(result) for result in results] == [NonFinite, SystemExit, SystemExit] and "first at step 2" in str(results[0])


def test_gradients_on_a_gpu_go_through_the_host_and_each_rank_has_its_own(monkeypatch):
    """The communicator takes NumPy arrays only, as MPI without CUDA does, and the stand-in refuses to mix the two."""
    cupy, used = fakecupy.installed(monkeypatch), []
    device = types.SimpleNamespace(runtime=types.SimpleNamespace(getDeviceCount=lambda: 2))
    device.Device = lambda number: types.SimpleNamespace(use=lambda: used.append(number))
    monkeypatch.setattr(cupy, "cuda", device, raising=False)
    machines = ["a", "a", "a", "b"]
    host = all_well(on_ranks(4, lambda ranks: trained(Trainer(relations(), 4, ranks=ranks), 3), machines))
    there = all_well(on_ranks(4, lambda ranks: trained(Trainer(relations(), 4, device="cuda", ranks=ranks), 3), machines))
    assert sorted(used) == [0, 1]  # ranks 2 and 1; the first of a machine keeps the GPU it finds
    for ours, numpys in zip(there, host, strict=True):
        assert_same_arrays(ours[0], numpys[0])
        assert_close(ours[1][0], numpys[1][0], 1e-6)


def test_a_carry_on_a_gpu_is_gathered_on_the_host(monkeypatch):
    cupy = fakecupy.installed(monkeypatch)

    class Count(Larger):
        carries = True

        def loss(self, model, batch, carry):
            seen = batch["inputs"] if carry is None else carry["seen"] + batch["inputs"]
            return *super().loss(model, batch, None)[:3], {"seen": seen}

    def run(device, ranks):
        trainer = Trainer(Count(Config()), 4, device=device, ranks=ranks)
        for _ in range(2):
            trainer.advance()
        again = Trainer(Count(Config()), 4, device=device, ranks=ranks)
        again.restore(trainer.arrays(), trainer.state())
        again.advance()
        assert {type(x) for carry in again.carry.values() for x in carry.values()} == {cupy.ndarray if device == "cuda" else np.ndarray}
        return again.arrays()

    machines = ["a", "b", "c"]
    host, there = (all_well(on_ranks(3, lambda ranks, device=device: run(device, ranks), machines)) for device in ("cpu", "cuda"))
    for ours, numpys in zip(there, host, strict=True):
        assert_same_arrays(ours, numpys)
    np.testing.assert_array_equal(host[0]["carry/seen"], run("cpu", Ranks())["carry/seen"])


def test_an_onlooker_writes_nothing(tmp_path):
    run = Run.create(tmp_path, "run", {"task": "x"}, {})
    before = sorted(path.name for path in run.path.iterdir())
    other = Onlooker(run.path, run.config, run.environment)
    other.save({"x": np.zeros(1)}, {})
    other.log({"step": 1})
    other.truncate_metrics(0)
    assert sorted(path.name for path in run.path.iterdir()) == before and other.config == {"task": "x"}
    run.log({"step": 1})
    assert run.metrics() == [{"step": 1}] and other.metrics() == []


# --- How a program learns that it is one of several ---------------------------------------------------------------------------------------


LAUNCHERS = [("PMI_SIZE", "PMI_RANK"), ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID")]


@pytest.mark.parametrize("size, rank", LAUNCHERS)
@pytest.mark.parametrize("installed", [True, False])
def test_ranks_that_do_not_know_each_other_are_refused(size, rank, installed, monkeypatch, capsys):
    monkeypatch.setenv(size, "3")
    monkeypatch.setenv(rank, "0")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: installed or None)
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: train.main(["no_such_task"]))  # which is not looked for
    err = capsys.readouterr().err
    assert caught.value.code == 2 and err.count("\n") == 1
    assert err.startswith("error: 3 ranks") and "mpiexec -n 3 python -m mpi4py -m tinyrmc.train" in err
    assert ("pip install 'tinyrmc[mpi]'" in err) is not installed
    monkeypatch.setenv(rank, "1")
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: train.main(["no_such_task"]))  # which is not looked for
    assert caught.value.code == 0 and capsys.readouterr() == ("", "")
    monkeypatch.setenv(size, "1")
    assert type(launched()) is Ranks


def test_an_mpi_that_is_not_the_launchers_is_refused(monkeypatch, capsys):
    """Then each process is the only rank of a world of its own."""
    world = types.SimpleNamespace(Get_size=lambda: 1)
    alone = types.SimpleNamespace(COMM_WORLD=world, get_vendor=lambda: ("MPICH", (4, 2, 0)), Finalize=lambda: None)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "mpi4py", "-m", "tinyrmc.train", "no_such_task"])
    monkeypatch.setitem(sys.modules, "mpi4py", types.SimpleNamespace(MPI=alone))
    assert type(launched()) is Ranks
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: train.main(["no_such_task"]))  # which is not looked for
    err = capsys.readouterr().err
    assert caught.value.code == 2 and err.count("\n") == 1
    assert err.startswith("error: 2 ranks that do not know each other: mpi4py uses MPICH") and "use its mpiexec" in err


@pytest.mark.parametrize("module", [evaluate, plot])
@pytest.mark.parametrize("size, rank", LAUNCHERS)
def test_what_one_process_does_is_refused_by_several(module, size, rank, monkeypatch, capsys):
    monkeypatch.setenv(size, "2")
    for number, code, lines in (("0", 2, 1), ("1", 0, 0)):
        monkeypatch.setenv(rank, number)
        with pytest.raises(SystemExit) as caught:
            run_main(lambda: module.main(["run"]))
        out, err = capsys.readouterr()
        assert (caught.value.code, out, err.count("\n")) == (code, "", lines)
        assert number == "1" or err == f"error: 2 ranks would all do the same; start {module.__name__} without mpiexec or srun\n"


def test_mpi4py_without_an_mpi_library_is_told_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "mpi4py", "-m", "tinyrmc.train", "no_such_task"])
    monkeypatch.setitem(sys.modules, "mpi4py", types.ModuleType("mpi4py"))  # from which no MPI can be imported
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: train.main(["no_such_task"]))  # which is not looked for
    err = capsys.readouterr().err
    assert caught.value.code == 2 and err.count("\n") == 1 and "MPI library" in err and "pip install 'tinyrmc[mpi]'" in err


# --- Real ranks ---------------------------------------------------------------------------------------------------------------------------

beside = Path(sys.executable).parent / "mpiexec"
MPIEXEC = str(beside) if beside.exists() else shutil.which("mpiexec")
MISSING = "mpi4py" if importlib.util.find_spec("mpi4py") is None else "mpiexec" if MPIEXEC is None else None
real = pytest.mark.skipif(MISSING is not None, reason=f"needs {MISSING}: pip install 'tinyrmc[mpi]'")
forks = pytest.mark.skipif(not CAN_FORK, reason="needs fork")

SURROUNDINGS = os.environ | {
    **{name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")},
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # Open MPI, where there are fewer cores than ranks
    "PYTHONPATH": str(ROOT),
}
STEPS = 20
TINY = [
    *"nth_farthest --model.mem-slots 2 --model.head-size 2 --model.num-heads 1 --data.dimensions 2 --data.rungs 2 1 3 1".split(),
    *f"--data.passing 0.01 --train.steps {STEPS} --train.batch-size 50 --train.piece-size 16 --train.log-every 5".split(),
    *"--train.evaluate-every 10 --seed 5".split(),
]

# The program, with fewer held-out examples, no pictures, and whatever trouble the environment asks for: TROUBLE = "rank step what".
PROGRAM = """
import errno, os, signal, sys, time
import numpy as np
from mpi4py import MPI
from tinyrmc import discovery, plot, runs, train, training
from tinyrmc.commands import run_main

Task, rank = discovery.load_task("nth_farthest").Task, MPI.COMM_WORLD.Get_rank()
Task.test_examples, plot.draw_run = 200, lambda run: []
which, step, what = os.environ.get("TROUBLE", "-1 0 none").split(maxsplit=2)
calls = 0

def trouble(*args):
    global calls
    calls += 1
    if rank == int(which) and calls == int(step):
        exec(what)

def troubled(function):
    return lambda *args: (trouble(*args), function(*args))[1]

where = os.environ.get("WHERE", "Task.after_update").split(".")
owner = {"Task": Task, "Run": runs.Run, "Trainer": training.Trainer}[where[0]]
setattr(owner, where[1], troubled(getattr(owner, where[1])))
if os.environ.get("SLOWLY"):
    Task.learning_rate = lambda self, step: time.sleep(0.05) or 1e-3
run_main(train.main)
"""


def fewer(monkeypatch):
    """The same for a single process, which is this one."""
    monkeypatch.setattr(discovery.load_task("nth_farthest").Task, "test_examples", 200)
    monkeypatch.setattr(plot, "draw_run", lambda run: [])


def mpiexec(*words, ranks=2, **surroundings):
    """A command line with the program on so many ranks."""
    command = [MPIEXEC, "-n", str(ranks), sys.executable, "-m", "mpi4py", "-c", PROGRAM, *map(str, words)]
    return {"args": command, "env": SURROUNDINGS | surroundings, "text": True}


def run_ranks(*words, **surroundings):
    """The finished process, without the frames in which Open MPI tells of exit codes. A run takes seconds; one that hangs is ended."""
    done = subprocess.run(**mpiexec(*words, **surroundings), capture_output=True, timeout=30)
    done.stderr = re.sub(r"-{20,}\n[^\n]*non-zero status.*?-{20,}\n", "", done.stderr, flags=re.DOTALL)
    return done


@pytest.fixture(autouse=True)
def empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """(run, what was printed) of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("two_ranks")
    done = subprocess.run(**mpiexec(*TINY, "--workers", 1), cwd=folder, capture_output=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = (folder / "runs").iterdir()
    return Run.open(path), done.stdout


def assert_same_run(one, other, tolerance=None):
    """The same checkpoint and the same lines: to the last bit, or within a tolerance."""
    (ours, our_state), (theirs, their_state) = one.load(), other.load()
    assert list(ours) == list(theirs) and our_state["step"] == their_state["step"] and our_state["task"] == their_state["task"]
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=tolerance or 0, atol=tolerance or 0, err_msg=name)
    assert len(one.metrics()) == len(other.metrics())
    for our_line, their_line in zip(timeless(one.metrics()), timeless(other.metrics()), strict=True):
        assert_close(our_line, their_line, tolerance or 0)


@real
def test_two_ranks_train_what_one_process_trains(two_ranks, monkeypatch):
    run, _ = two_ranks
    fewer(monkeypatch)
    for workers in (1, 2):
        assert train.main([*TINY, "--workers", str(workers), "--run", f"{workers}"]) == 0
        assert_same_run(run, Run.open(f"{workers}"), 1e-5)
    assert [line["step"] for line in run.metrics()] == [5, 10, 15, 20] and "test_accuracy" in run.metrics()[-1]


@real
def test_ranks_speak_with_one_voice(two_ranks):
    run, printed = two_ranks
    for once in ("nth_farthest quick, seed 5", "2 ranks x 1 worker", "step      10/20", "step      20/20", "this run", "evaluate  "):
        assert printed.count(once) == 1
    assert re.search(rf"^resume    mpiexec -n 2 \S+ -m mpi4py -m tinyrmc.train --resume runs/{run.path.name} ", printed, re.M)
    assert sorted(path.name for path in run.path.iterdir()) == [
        "checkpoint.npz", "checkpoint.previous.npz", "config.json", "environment.json", "metrics.jsonl",
    ]  # fmt: skip
    assert (run.environment["ranks"], run.environment["workers"]) == (2, 1)
    assert re.match(r"(MPICH|Open MPI|Intel MPI|MVAPICH|Microsoft MPI) [\d.]+$", run.environment["mpi"])


@real
def test_the_command_as_one_types_it():
    command = [MPIEXEC, "-n", "2", sys.executable, "-m", "mpi4py", "-m", "tinyrmc.train", *TINY, "--max-minutes", "1e-9"]
    done = subprocess.run(command, env=SURROUNDINGS, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.count("picture   ") == 2
    (path,) = Path("runs").iterdir()
    assert Run.open(path).environment["command"].startswith("mpiexec -n 2 python -m mpi4py -m tinyrmc.train nth_farthest --model")


@real
@forks
def test_ranks_of_two_processes_each(two_ranks):
    done = run_ranks(*TINY, "--workers", 2, "--run", "four")
    assert (done.returncode, done.stderr) == (0, "") and "2 ranks x 2 processes" in done.stdout
    assert_same_run(Run.open("four"), two_ranks[0], 1e-5)


@real
def test_a_signal_on_one_rank_stops_all_and_any_number_of_ranks_goes_on(two_ranks, monkeypatch, capsys):
    # As a launcher may, twice: the second does no harm. After the exchange of step 6, so that the others hear of it in step 7.
    twice = "1 6 [os.kill(os.getpid(), signal.SIGTERM) for _ in range(2)]"
    done = run_ranks(*TINY, "--workers", 1, "--run", "half", TROUBLE=twice)
    assert (done.returncode, done.stderr) == (143, "")
    assert done.stdout.count("SIGTERM at step 7: saved.") == 1 and "mpiexec -n 2 " in done.stdout
    assert Run.open("half").load()[1]["step"] == 7
    for copy in ("alone", "two"):
        shutil.copytree("half", copy)

    done = run_ranks("--resume", "two")
    assert (done.returncode, done.stderr) == (0, "") and "note" not in done.stdout
    assert_same_run(Run.open("two"), two_ranks[0])

    fewer(monkeypatch)
    assert train.main(["--resume", "alone", "--workers", "1"]) == 0
    assert "note: the run had 1 workers on 2 ranks, now 1; it goes on, but not bit for bit" in capsys.readouterr().out
    assert_same_run(Run.open("alone"), two_ranks[0], 1e-5)


@real
def test_a_run_of_one_process_goes_on_with_two_and_stops_when_time_is_over(two_ranks, monkeypatch):
    fewer(monkeypatch)
    assert train.main([*TINY, "--workers", "1", "--run", "run", "--max-minutes", "1e-9"]) == 0
    assert Run.open("run").load()[1]["step"] == 1
    done = run_ranks("--resume", "run", "--workers", 1, "--max-minutes", 1e-9)
    assert (done.returncode, done.stderr) == (0, "") and "out of time; 18 steps to go" in done.stdout
    assert "note: the run had 1 workers, now 1 on 2 ranks" in done.stdout and Run.open("run").load()[1]["step"] == 2
    assert run_ranks("--resume", "run").returncode == 0
    assert_same_run(Run.open("run"), two_ranks[0], 1e-5)
    unreadable = {"TROUBLE": "1 1 raise runs.RunError('a stale file')", "WHERE": "Run.metrics"}
    done = run_ranks("--resume", "run", **unreadable)  # rank 0 decides
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.count("has finished already (20 steps)") == 1


@real
def test_time_is_over_for_all_when_it_is_for_one():
    later = "1 2 time.monotonic = lambda real=time.monotonic: real() + 3600"  # of which all hear in step 3
    done = run_ranks(*TINY, "--run", "run", "--max-minutes", 50, TROUBLE=later)
    assert (done.returncode, done.stderr) == (0, "") and Run.open("run").load()[1]["step"] == 3


@real
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_mpiexec_saves(number, code, two_ranks):
    with subprocess.Popen(**mpiexec(*TINY, "--run", "run", SLOWLY="1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not process.stdout.readline().startswith("step"):
            assert process.poll() is None
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    if two_ranks[0].environment["mpi"].startswith("MPICH"):  # Open MPI's mpiexec passes the signal on, but listens no more
        assert process.returncode == code and out.count(f"{signal.Signals(number).name} at step ") == 1
    assert 10 <= Run.open("run").load()[1]["step"] < STEPS


@real
@pytest.mark.parametrize(
    "trouble, where, says",
    [
        ("1 3 raise ZeroDivisionError('nothing')", "Task.loss", r"ZeroDivisionError: nothing\n\(on rank 1 of 2\)"),
        ("1 3 raise ZeroDivisionError('nothing')", "Task.after_update", "ZeroDivisionError: nothing"),
        ("0 3 raise ZeroDivisionError('nothing')", "Task.after_update", "ZeroDivisionError: nothing"),
        ("1 3 sys.exit(0)", "Task.loss", r"^error: the program called sys.exit\(0\) \(on rank 1 of 2\)$"),
        ("1 3 sys.exit(0)", "Task.after_update", r"^error: rank 1 of 2 called sys.exit\(0\)$"),
        ("1 3 os.kill(os.getpid(), signal.SIGKILL)", "Task.after_update", "(?i)killed|signal"),
        ("0 1 raise runs.RunError('the disk is full')", "Run.save", r"^error: the disk is full \(on rank 0 of 2\)$"),
        ("0 1 raise runs.RunError('the disk is full')", "Run.log", r"^error: the disk is full \(on rank 0 of 2\)$"),
        ("1 3 args[1].parameters()[0].data[...] += 1e-6", "Task.after_update", "^error: .* parameters differ at step 20 "),
    ],
)
def test_a_rank_that_dies_takes_all_with_it(trouble, where, says):
    done = run_ranks(*TINY, "--workers", 1, "--run", "run", TROUBLE=trouble, WHERE=where)
    told = done.stdout + done.stderr  # MPICH tells of a kill on standard output
    assert done.returncode != 0 and len(re.findall(says, told, re.M)) >= 1 and told.count("ZeroDivisionError: ") <= 1


@real
@pytest.mark.parametrize(
    "words, says",
    [
        (["nth_farthest", "--sed", "1"], "unknown flag '--sed'; did you mean '--seed'?"),
        ([*TINY, "--train.batch-size", "3", "--workers", "2"], "2 ranks with --workers 2 each are more than the 3 examples of a batch"),
        ([*TINY, "--train.batch-size", "1"], "2 ranks are more than the 1 examples of a batch"),
        ([*TINY, "--run", "."], "exists already"),
        ([*TINY, "--train.learning-rate", "1e30", "--train.warmup-steps", "0"], "stopped at step"),
        ([*TINY, ":", "-n", "1", sys.executable, "-m", "mpi4py", "-m", "tinyrmc.train", *TINY[:-1], "6"], "started with different words"),
    ],
)
def test_what_cannot_be_is_told_once(words, says):
    done = run_ranks(*words, ranks=1 if ":" in words else 2)
    assert done.returncode == 2 and says in done.stderr
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


@real
@pytest.mark.parametrize("resumed", [False, True])
def test_ranks_that_start_from_different_parameters_write_nothing(resumed, two_ranks):
    """As from different files, or different versions of what draws the first weights."""
    words = [*TINY, "--run", "run"]
    if resumed:
        shutil.copytree(two_ranks[0].path, "run")
        words = ["--resume", "run"]
    before = {path.name: path.read_bytes() for path in Path("run").glob("*")}
    done = run_ranks(*words, TROUBLE="1 1 args[0].optimizer.data[-1] += 1", WHERE="Trainer.require_agreement")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"error: the ranks' parameters differ at step {20 if resumed else 0} ")
    assert {path.name: path.read_bytes() for path in Path("run").glob("*")} == before and Path("run").exists() == resumed


@real
def test_mpiexec_without_mpi4py_is_refused():
    command = [MPIEXEC, "-n", "2", sys.executable, "-m", "tinyrmc.train", *TINY]
    done = subprocess.run(command, env=SURROUNDINGS, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and done.stdout == "" and not Path("runs").exists()
    assert done.stderr.count("error: 2 ranks that do not know each other; mpiexec -n 2 python -m mpi4py -m tinyrmc.train ...") == 1


@real
def test_the_scaling_benchmark_measures_steps(monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import scaling

    for name, value in SURROUNDINGS.items():
        monkeypatch.setenv(name, value)
    rows = scaling.scaling([1, 2], steps=1)
    assert [row["ranks"] for row in rows] == [1, 2] and rows[0]["efficiency"] == 1
    assert all(0 < row["seconds_per_step"] < 10 for row in rows)
    assert rows[1]["efficiency"] == rows[0]["seconds_per_step"] / rows[1]["seconds_per_step"]
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: scaling.main(["--ranks", "0"]))
    assert caught.value.code == 2 and capsys.readouterr().err == "error: --steps and --ranks must be at least 1\n"
