"""Ranks that train together, as threads: what one process would give, and no rank left
waiting for another that is gone.
"""

import importlib.util
import os
import re
import sys
import types

import fakecupy
import numpy as np
import pytest
from rankhelp import all_well, assert_close, on_ranks
from tinytasks import (
    Config,
    Larger,
    RunningSum,
    assert_same_arrays,
    poisoned,
    relations,
    timeless,
)

from tinyrmc.cli import evaluate, plot, train
from tinyrmc.cli.commands import run_main
from tinyrmc.errors import RunError
from tinyrmc.runs.run import Onlooker, Run
from tinyrmc.training.ranks import LaunchError, Ranks, launched
from tinyrmc.training.trainer import NonFinite, Trainer

pytestmark = pytest.mark.usefixtures("empty_directory")


# --- Ranks that are threads -----------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5])
def test_each_hears_what_all_have_computed(size):
    values = [0.1 + 0.2, 1e-320, float("inf"), 2**60 + 1, "\u03b1", None, {"a": [1]}]
    heard = all_well(
        on_ranks(
            size, lambda ranks: ranks.each(lambda: [ranks.rank, values * ranks.rank])
        )
    )
    assert heard == [[[rank, values * rank] for rank in range(size)]] * size
    assert all_well(
        on_ranks(size, lambda ranks: ranks.together(lambda: {ranks.rank}))
    ) == [{rank} for rank in range(size)]
    assert (
        all_well(on_ranks(size, lambda ranks: ranks.largest(-((ranks.rank - 1) ** 2))))
        == [0 if size > 1 else -1] * size
    )
    assert (
        Ranks().each(lambda: 3) == [3]
        and Ranks().together(set) == set()
        and Ranks().largest(2) == 2
    )


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
    assert [type(result) for result in results] == [
        ZeroDivisionError if rank == first else SystemExit for rank in range(3)
    ]
    assert str(results[first]) == f"rank {first}"
    assert all(result.code == 0 for rank, result in enumerate(results) if rank != first)
    assert getattr(results[first], "__notes__", []) == (
        [f"(on rank {first} of 3)"] if len(which) < 3 else []
    )


def test_what_json_cannot_hold_stops_all():
    results = on_ranks(2, lambda ranks: ranks.each(lambda: {1} if ranks.rank else 1))
    assert type(results[0]) is SystemExit and "not JSON serializable" in str(results[1])


def test_leaving_is_no_failure_if_all_leave():
    assert [
        error.code
        for error in on_ranks(3, lambda ranks: ranks.each(lambda: sys.exit(0)))
    ] == [0, 0, 0]
    results = on_ranks(
        3, lambda ranks: ranks.each(lambda: sys.exit(0) if ranks.rank == 1 else 0)
    )
    assert type(results[1]) is LaunchError and "sys.exit(0)" in str(results[1])


def test_sums_and_parts():
    numbers = np.random.default_rng(0).standard_normal((3, 1000)).astype(np.float32)
    for total in all_well(
        on_ranks(
            3, lambda ranks: (ranks.sum(mine := numbers[ranks.rank].copy()), mine)[1]
        )
    ):
        np.testing.assert_array_equal(total, numbers[0] + numbers[1] + numbers[2])

    for whole in (
        np.array([[-0.0, np.nan], [1e-320, 2], [3, 4]]),
        np.array([True, False, True]),
        np.array([-1, 2**60, 3]),
    ):

        def merged(ranks, whole=whole):
            part = np.zeros_like(whole)
            part[ranks.rank] = whole[ranks.rank]
            ranks.merge(part)
            return part

        for found in all_well(on_ranks(3, merged)):
            assert found.tobytes() == whole.tobytes()


def test_ranks_know_their_neighbours():
    places = all_well(
        on_ranks(5, lambda ranks: ranks.local_rank, ["a", "b", "a", "a", "b"])
    )
    assert places == [0, 0, 1, 2, 1]
    assert Ranks().local_rank == 0


def test_ranks_divide_the_cores_of_a_machine(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(7)))
    assert (
        all_well(on_ranks(5, lambda ranks: ranks.cores, ["a", "b", "a", "a", "b"]))
        == [2] * 5
    )  # of seven for three on a
    assert Ranks().cores == 7


def trained(trainer, steps=6):
    """What a run has come to: its arrays, and a line with what is held out."""
    for _ in range(steps):
        trainer.advance()
    line = trainer.read() | trainer.evaluate()
    return trainer.arrays(), timeless([line]), trainer.state()


@pytest.mark.parametrize("core", ["rmc", "lstm"])
def test_three_ranks_are_three_workers_to_the_last_bit(core):
    alone = trained(Trainer(relations(core), seed=4, workers=3, processes=False))
    for arrays, line, state in all_well(
        on_ranks(
            3, lambda ranks: trained(Trainer(relations(core), seed=4, ranks=ranks))
        )
    ):
        assert_same_arrays(arrays, alone[0])
        assert (
            line == alone[1]
            and state["task"] == alone[2]["task"]
            and (state["ranks"], state["workers"]) == (3, 1)
        )


@pytest.mark.parametrize("core", ["rmc", "rmc_paper", "lstm"])
def test_the_gradient_of_ranks_of_several_workers_is_that_of_one_process(core):
    def gradient(ranks=None, workers=1):
        trainer = Trainer(
            relations(core, clip_norm=None), 4, workers, processes=False, ranks=ranks
        )
        trainer.advance()
        return trainer.optimizer.gradient

    alone = gradient()
    for ours in all_well(on_ranks(3, lambda ranks: gradient(ranks, workers=2))):
        np.testing.assert_allclose(
            ours, alone, rtol=1e-5, atol=1e-6 * np.abs(alone).max()
        )


def test_steps_of_ranks_of_several_workers_are_those_of_one_process():
    arrays, (line,), _ = trained(Trainer(Larger(Config()), seed=4), 12)
    found = all_well(
        on_ranks(
            3,
            lambda ranks: trained(
                Trainer(Larger(Config()), 4, 2, processes=False, ranks=ranks), 12
            ),
        )
    )
    for ours, (our_line,), _ in found:
        assert_same_arrays(ours, found[0][0])
        assert_close(our_line, line, 1e-5)
        for name in arrays:
            np.testing.assert_allclose(
                ours[name], arrays[name], rtol=1e-5, atol=1e-5, err_msg=name
            )


@pytest.mark.parametrize("workers", [1, 2])
def test_a_step_costs_one_allreduce_of_the_gradient_and_one_exchange(workers):
    def calls(ranks):
        trainer = Trainer(relations(), 4, workers, processes=False, ranks=ranks)
        for step in range(3):
            assert trainer.advance(lambda step=step: [ranks.rank, step]) == [
                [0, step],
                [1, step],
                [2, step],
            ]
        return ranks._comm.world.calls[
            -9:
        ], trainer.optimizer.gradient.size  # of three steps, after which nobody calls

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
    assert re.match(
        r"the ranks' parameters differ at step 2 \(nothing was saved\): .*; give all "
        r"ranks the same files",
        str(results[0]),
    )


def test_curricula_move_in_step_although_clocks_differ():
    def observed(ranks):
        task, seen = Larger(Config()), []
        task.place = lambda step: {"rung": 1}
        task.observe = lambda step, line: seen.append(line)
        trainer = Trainer(task, ranks=ranks)
        trainer.advance()
        trainer.seconds = 10.0 * ranks.rank
        return seen, trainer.read()

    results = all_well(on_ranks(3, observed))
    assert (
        results == [results[0]] * 3
        and results[0][1]["seconds"] == 0
        and results[0][1]["rung"] == 1
    )


def test_a_carry_is_gathered_and_cut_again():
    """Saved by five ranks, taken up by two with two workers each, and by one: the sum
    of all numbers is that of each example.
    """

    def run(ranks, saved=None, steps=3, workers=1):
        trainer = Trainer(RunningSum(Config()), 3, workers, ranks=ranks)
        if saved:
            trainer.restore(*saved)
        for _ in range(steps):
            trainer.advance()
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
        np.testing.assert_allclose(
            arrays["carry/total"], numbers(3), rtol=1e-5, atol=1e-5
        )
    later = [
        *all_well(on_ranks(2, lambda ranks: run(ranks, five[0][:2], workers=2))),
        run(Ranks(), five[0][:2]),
    ]
    for arrays, state, _ in later:
        assert state["step"] == 6 and arrays["carry/hidden"].shape == (50, 4)
        np.testing.assert_allclose(
            arrays["carry/total"], numbers(6), rtol=1e-5, atol=1e-5
        )
        for name in arrays:
            np.testing.assert_allclose(
                arrays[name], later[-1][0][name], rtol=1e-5, atol=1e-5, err_msg=name
            )


def test_a_step_that_is_not_finite_on_one_rank_is_skipped_on_all_and_told_once():
    def run(ranks):
        trainer = Trainer(poisoned({2, 3}, nonfinite_limit=2), ranks=ranks)
        for _ in range(4):
            trainer.advance()
        assert trainer.state()["skipped"] == [2, 2]
        trainer.read()

    results = on_ranks(3, run)
    assert [type(result) for result in results] == [
        NonFinite,
        SystemExit,
        SystemExit,
    ] and "first at step 2" in str(results[0])


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
    host = all_well(
        on_ranks(
            4, lambda ranks: trained(Trainer(relations(), 4, ranks=ranks), 3), machines
        )
    )
    there = all_well(
        on_ranks(
            4,
            lambda ranks: trained(
                Trainer(relations(), 4, device="cuda", ranks=ranks), 3
            ),
            machines,
        )
    )
    assert sorted(used) == [
        0,
        1,
    ]  # ranks 2 and 1; the first of a machine keeps the GPU it finds
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
    np.testing.assert_array_equal(
        host[0]["carry/seen"], run("cpu", Ranks())["carry/seen"]
    )


def test_an_onlooker_writes_nothing(tmp_path):
    run = Run.create(tmp_path, "run", {"task": "x"}, {})
    before = sorted(path.name for path in run.path.iterdir())
    other = Onlooker(run.path, run.config, run.environment)
    other.save({"x": np.zeros(1)}, {})
    other.log({"step": 1})
    other.truncate_metrics(0)
    assert sorted(
        path.name for path in run.path.iterdir()
    ) == before and other.config == {"task": "x"}
    run.log({"step": 1})
    assert run.metrics() == [{"step": 1}] and other.metrics() == []


# --- How a program learns that it is one of several -----------------------------------


LAUNCHERS = [
    ("PMI_SIZE", "PMI_RANK"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
]


@pytest.mark.parametrize("size, rank", LAUNCHERS)
@pytest.mark.parametrize("installed", [True, False])
def test_ranks_that_do_not_know_each_other_are_refused(
    size, rank, installed, monkeypatch, capsys
):
    monkeypatch.setenv(size, "3")
    monkeypatch.setenv(rank, "0")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: installed or None)
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: train.main(["no_such_task"]))  # which is not looked for
    err = capsys.readouterr().err
    assert caught.value.code == 2 and err.count("\n") == 1
    assert (
        err.startswith("error: 3 ranks")
        and "mpiexec -n 3 python -m mpi4py -m tinyrmc.train" in err
    )
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
    alone = types.SimpleNamespace(
        COMM_WORLD=world, get_vendor=lambda: ("MPICH", (4, 2, 0)), Finalize=lambda: None
    )
    monkeypatch.setattr(
        sys,
        "orig_argv",
        ["python", "-m", "mpi4py", "-m", "tinyrmc.train", "no_such_task"],
    )
    monkeypatch.setitem(sys.modules, "mpi4py", types.SimpleNamespace(MPI=alone))
    assert type(launched()) is Ranks
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: train.main(["no_such_task"]))  # which is not looked for
    err = capsys.readouterr().err
    assert caught.value.code == 2 and err.count("\n") == 1
    assert (
        err.startswith("error: 2 ranks that do not know each other: mpi4py uses MPICH")
        and "use its mpiexec" in err
    )


@pytest.mark.parametrize("module", [evaluate, plot])
@pytest.mark.parametrize("size, rank", LAUNCHERS)
def test_what_one_process_does_is_refused_by_several(
    module, size, rank, monkeypatch, capsys
):
    monkeypatch.setenv(size, "2")
    for number, code, lines in (("0", 2, 1), ("1", 0, 0)):
        monkeypatch.setenv(rank, number)
        with pytest.raises(SystemExit) as caught:
            run_main(lambda: module.main(["run"]))
        out, err = capsys.readouterr()
        assert (caught.value.code, out, err.count("\n")) == (code, "", lines)
        assert (
            number == "1"
            or err
            == f"error: 2 ranks would all do the same; start {module.__name__} "
            "without mpiexec or srun\n"
        )


def test_mpi4py_without_an_mpi_library_is_told_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(
        sys,
        "orig_argv",
        ["python", "-m", "mpi4py", "-m", "tinyrmc.train", "no_such_task"],
    )
    monkeypatch.setitem(
        sys.modules, "mpi4py", types.ModuleType("mpi4py")
    )  # from which no MPI can be imported
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: train.main(["no_such_task"]))  # which is not looked for
    err = capsys.readouterr().err
    assert (
        caught.value.code == 2
        and err.count("\n") == 1
        and "MPI library" in err
        and "pip install 'tinyrmc[mpi]'" in err
    )
