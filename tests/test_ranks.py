"""Ranks that train together, as threads: what one process would give, and no rank left
waiting for another that is gone.
"""

import itertools
import os
import re
import sys
import types

import fakecupy
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from rankhelp import ALONE, all_well, assert_close, on_ranks
from tinytasks import (
    Config,
    Larger,
    RunningSum,
    assert_same_arrays,
    poisoned,
    relations,
    steps,
    timeless,
)

from tinyrmc.cli import sweep, train
from tinyrmc.cli.commands import run_main
from tinyrmc.errors import RunError
from tinyrmc.training.ranks import Onlooker, launched
from tinyrmc.training.run import Run
from tinyrmc.training.trainer import NonFinite, Trainer

pytestmark = pytest.mark.usefixtures("empty_directory")


# --- Ranks that are threads -----------------------------------------------------------


def test_sums_and_neighbours(monkeypatch):
    numbers = np.random.default_rng(0).standard_normal((3, 1000)).astype(np.float32)

    def total(ranks):
        ranks.add_up(mine := numbers[ranks.rank].copy())
        return mine

    for found in all_well(on_ranks(3, total)):
        assert_array_equal(found, numbers[0] + numbers[1] + numbers[2])
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(7)))
    machines = ["a", "b", "a", "a", "b"]
    places = on_ranks(5, lambda ranks: (ranks.local_rank, ranks.cores), machines)
    # of seven cores for three on a
    assert places == [(0, 2), (0, 2), (1, 2), (2, 2), (1, 2)]


def trained(trainer, count=6):
    """A run's final arrays, and a line with what is held out."""
    steps(trainer, count)
    line = trainer.read() | trainer.evaluate()
    return trainer.arrays(), timeless([line]), trainer.state()


def test_three_ranks_are_three_workers_to_the_last_bit():
    for core in ("rmc", "lstm"):
        alone = trained(Trainer(relations(core), seed=4, workers=3, processes=False))
        for arrays, line, state in all_well(
            on_ranks(3, lambda ranks: trained(ranks.trainer(relations(core), seed=4)))
        ):
            assert_same_arrays(arrays, alone[0])
            assert line == alone[1] and state["task"] == alone[2]["task"]
            assert (state["ranks"], state["workers"]) == (3, 1)


def test_the_gradient_of_ranks_of_several_workers_is_that_of_one_process():
    for core in ("rmc", "rmc_paper", "lstm"):

        def gradient(ranks, workers=1):
            task = relations(core, clip_norm=None)
            trainer = ranks.trainer(task, 4, workers, processes=False)
            trainer.advance()
            return trainer.optimizer.gradient

        alone = gradient(ALONE)
        near = {"rtol": 1e-5, "atol": 1e-6 * np.abs(alone).max()}
        for ours in all_well(on_ranks(3, lambda ranks: gradient(ranks, workers=2))):
            assert_allclose(ours, alone, **near)


def test_a_step_costs_one_allreduce_of_the_gradient_and_one_message():
    for workers in (1, 2):

        def calls(ranks):
            trainer = ranks.trainer(relations(), 4, workers, processes=False)
            steps(trainer, 3)
            # of three steps, after which nobody calls
            made = ranks.comm.world.calls[-6:]
            return made, trainer.optimizer.gradient.size

        made, size = all_well(on_ranks(3, calls))[0]
        step = ["allgather", "Allreduce"]
        assert [name for name, _ in made] == step * 3
        assert [count for name, count in made if name == "Allreduce"] == [size] * 3


def test_all_stop_at_the_time_and_the_signal_of_one():
    found = on_ranks(
        3,
        lambda ranks: ranks.trainer(relations()).agreed(float(ranks.rank), -ranks.rank),
    )
    assert found == [[2.0, 0]] * 3
    assert [*Trainer(relations()).agreed(3.0, 15)] == [3.0, 15]


def test_ranks_that_differ_in_the_last_bit_of_one_number_stop():
    for rank in (0, 2):
        for where in ("data", "first_moment", "second_moment", "updates"):

            def run(ranks):
                trainer = ranks.trainer(relations(), 4)
                steps(trainer, 2)
                trainer.arrays()
                if ranks.rank == rank:
                    one = getattr(trainer.optimizer, where).reshape(-1)[-1:]
                    one[...] = np.nextafter(one, np.float32(9))
                trainer.arrays()

            results = on_ranks(3, run)
            kinds = [type(result) for result in results]
            assert kinds == [RunError] * 3
            says = r"the ranks' parameters differ at step 2 \(nothing was saved\);"
            assert re.match(f"{says} give all ranks the same files", str(results[0]))


def test_curricula_move_in_step_although_clocks_differ():
    def observed(ranks):
        task, seen = Larger(Config()), []
        task.place = lambda step: {"stage": 1}
        task.observe = lambda step, line: seen.append(line)
        trainer = ranks.trainer(task)
        trainer.advance()
        trainer.seconds = 10.0 * ranks.rank
        return seen, trainer.read()

    results = all_well(on_ranks(3, observed))
    assert results == [results[0]] * 3
    assert results[0][1]["seconds"] == 0
    assert results[0][1]["stage"] == 1


def test_a_carry_is_gathered_and_cut_again():
    """Saved by five ranks, taken up by two with two workers each, and by one: the sum
    of all numbers is that of each example.
    """

    def run(ranks, saved=None, workers=1):
        trainer = ranks.trainer(RunningSum(Config()), 3, workers)
        if saved:
            trainer.restore(*saved)
        steps(trainer, 3)
        assert len(trainer.carry) < 50 / 16 + 2  # no other rank's
        return trainer.arrays(), trainer.state(), trainer.stream

    def numbers(steps):
        return sum(
            stream.batch(step, 0, 50)["x"].astype(np.float64) for step in range(steps)
        )

    five = all_well(on_ranks(5, run))
    stream = five[0][2]
    for arrays, *_ in five:
        assert_same_arrays(arrays, five[0][0])
        assert_allclose(arrays["carry/total"], numbers(3), rtol=1e-5, atol=1e-5)
    later = [
        *all_well(on_ranks(2, lambda ranks: run(ranks, five[0][:2], workers=2))),
        run(ALONE, five[0][:2]),
    ]
    for arrays, state, _ in later:
        assert state["step"] == 6 and arrays["carry/hidden"].shape == (50, 4)
        assert_allclose(arrays["carry/total"], numbers(6), rtol=1e-5, atol=1e-5)
        for name in arrays:
            assert_allclose(
                arrays[name], later[-1][0][name], rtol=1e-5, atol=1e-5, err_msg=name
            )


def test_a_step_that_is_not_finite_on_one_rank_is_skipped_on_all():
    def run(ranks):
        trainer = ranks.trainer(poisoned({2, 3}, nonfinite_limit=2))
        steps(trainer, 4)
        assert trainer.state()["skipped"] == [2, 2]
        trainer.read()

    results = on_ranks(3, run)
    assert [type(result) for result in results] == [NonFinite] * 3
    assert "first at step 2" in str(results[0])


def test_gradients_on_a_gpu_go_through_the_host_and_each_rank_has_its_own(monkeypatch):
    """The communicator takes NumPy arrays only, as MPI without CUDA does, and the
    stand-in refuses to mix the two.
    """
    cupy, used = fakecupy.installed(monkeypatch), []
    runtime = cupy.cuda.runtime
    monkeypatch.setattr(runtime, "getDeviceCount", lambda: 2, raising=False)
    monkeypatch.setattr(
        cupy.cuda,
        "Device",
        lambda number: types.SimpleNamespace(use=lambda: used.append(number)),
    )
    machines = ["a", "a", "a", "b"]
    host, there = (
        all_well(
            on_ranks(
                4,
                lambda ranks: trained(ranks.trainer(relations(), 4, device=where), 3),
                machines,
            )
        )
        for where in ("cpu", "cuda")
    )
    # ranks 2 and 1; the first of a machine keeps the GPU it finds
    assert sorted(used) == [0, 1]
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
        trainer = ranks.trainer(Count(Config()), 4, device=device)
        steps(trainer, 2)
        again = ranks.trainer(Count(Config()), 4, device=device)
        again.restore(trainer.arrays(), trainer.state())
        again.advance()
        assert {type(x) for carry in again.carry.values() for x in carry.values()} == {
            cupy.ndarray if device == "cuda" else np.ndarray
        }
        return again.arrays()

    machines = ["a", "b", "c"]
    host, there = (
        all_well(on_ranks(3, lambda ranks, device=device: run(device, ranks), machines))
        for device in ("cpu", "cuda")
    )
    for ours, numpys in zip(there, host, strict=True):
        assert_same_arrays(ours, numpys)
    assert_array_equal(host[0]["carry/seen"], run("cpu", ALONE)["carry/seen"])


def test_an_onlooker_writes_nothing(tmp_path):
    run = Run.create(tmp_path, "run", {"task": "x"}, {})
    before = sorted(path.name for path in run.path.iterdir())
    other = Onlooker(run.path, run.config, run.environment)
    with run.writing(), other.writing():
        other.save({"x": np.zeros(1)}, {})
        other.log({"step": 1})
        other.truncate_metrics(0)
        assert other.moved({"task": "y"}) is other
        assert Onlooker.create("runs", "y", {"task": "y"}, {}).config == {"task": "y"}
    left = {path.name for path in run.path.iterdir()}
    assert sorted(left) == before and not os.path.exists("runs")
    nowhere = Onlooker.create("runs", "y", {}, {})
    assert nowhere.metrics() == [] and nowhere.load_state() is None


# --- How a program learns that it is one of several -----------------------------------


LAUNCHERS = [
    ("PMI_SIZE", "PMI_RANK"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
]


def refused_by(main, words, capsys):
    """(the exit code, what was told) of a command line."""
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: main(words))
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == (1 if caught.value.code else 0)
    return caught.value.code, err


def test_ranks_that_do_not_know_each_other_are_refused(monkeypatch, capsys):
    """And several sweeps of the same. One of them says so, in one line."""
    grid = ["nth_farthest", "--grid", "model.mem_slots=1,2"]
    unknown = ["no_such_task"]  # which is not looked for
    for (size, rank), (main, words, says) in itertools.product(
        LAUNCHERS,
        (
            (train.main, unknown, "error: 3 ranks.* mpiexec -n 3 python -m mpi4py -m "),
            (sweep.main, grid, "error: 3 ranks would all do the same; "),
        ),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(size, "3")
            patch.setenv(rank, "0")
            code, err = refused_by(main, words, capsys)
            assert code == 2 and re.match(says, err), err
            patch.setenv(rank, "1")
            assert refused_by(main, words, capsys) == (0, "")
            patch.setenv(size, "1")
            assert launched() is None


def test_an_mpi_that_is_not_the_launchers_is_refused(monkeypatch, capsys):
    """Then each process is the only rank of a world of its own."""
    world = types.SimpleNamespace(Get_size=lambda: 1)
    alone = types.SimpleNamespace(
        COMM_WORLD=world, get_vendor=lambda: ("MPICH", (4, 2, 0)), Finalize=lambda: None
    )
    monkeypatch.setitem(sys.modules, "mpi4py.run", types.ModuleType("run"))
    monkeypatch.setitem(sys.modules, "mpi4py", types.SimpleNamespace(MPI=alone))
    assert launched() is None
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    code, err = refused_by(train.main, ["no_such_task"], capsys)
    assert code == 2 and "the mpiexec of mpi4py's own MPI" in err
    assert err.startswith("error: 2 ranks were started that do not know of ")
