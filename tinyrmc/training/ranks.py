"""Ranks that train together: one process, or as many as `mpiexec` has started, on one
machine or on several.

    mpiexec -n 4 python -m mpi4py -m tinyrmc.train nth_farthest

Every rank holds the whole network and takes every step. Each draws and differentiates
its own pieces of a batch; one Allreduce adds up the flat gradients, and the same update
follows everywhere. So there is no master, and nothing is sent but gradients and short
messages. (Where a learner and actors part, in apart.py, rank 0 takes the updates and
sends its parameters.) Only files are the business of rank 0: it reads what there is to
go on from, tells the others (`from_first`, `share`), writes and prints.

MPI recommends, but does not promise, that all ranks get the same sums, and each
computes the gradient's norm with its own BLAS. So before training, and whenever a
checkpoint is saved, the ranks compare their parameters, to the last bit
(`Trainer.require_agreement`).

The training code talks to `Ranks`, which is a single process, for which all of this
does nothing. `MpiRanks` is the same over MPI: NumPy buffers and JSON, never pickle. An
exception on one rank must not leave the others waiting for it. Hence the rule: compute
what can fail on one rank alone inside `from_first`, `each` or `together`. Afterwards
either all ranks go on or all stop.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable

import numpy as np

from ..backend import namespace, to_device, to_host
from ..errors import UserError
from ..runs.machine import usable_cores
from .workers import available_cores

# The variables in which a launcher tells how many ranks it has started, and which one
# this is. PMIx tells only the latter.
LAUNCHERS = {
    "PMI_SIZE": "PMI_RANK",  # MPICH, Intel MPI, Microsoft MPI
    "OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK",  # Open MPI
    "SLURM_STEP_NUM_TASKS": "SLURM_PROCID",  # srun
}


class LaunchError(UserError, RuntimeError):
    """The program was started on several ranks that cannot work together."""


class Ranks:
    """The ranks of a run; here a single process.

    Every method is called by all of them, in the same order.

    rank, size: which one this is, and how many there are. Rank 0 writes and prints.
    local_rank: how many ranks before this one are on the same machine.
    cores: how many cores each rank has, on the machine where they have fewest; cores
        that several ranks may use are divided among them.
    mpi: name and version of the MPI library, if there is one.
    """

    rank, size, local_rank, mpi = 0, 1, 0, None

    def __init__(self):
        self.cores = available_cores()

    def each(self, compute: Callable[[], object]) -> list:
        """[compute() of each rank], in order of rank.

        What it returns must be what JSON can hold, and it must not talk to other ranks.

        If it raises an exception on some ranks, the first of them raises it here and
        all others leave with SystemExit: so it is told once. They leave with code 0,
        because some launchers end everybody at the first other code, perhaps before it
        is told.
        """
        return [compute()]

    def together(self, compute: Callable[[], object]):
        """compute() of this rank, whatever it returns, once those of all others have
        succeeded too; a failure is as in `each`.
        """
        kept = []
        self.each(lambda: kept.append(compute()))
        return kept[0]

    def from_first(self, compute: Callable[[], object]):
        """compute() of rank 0, for all ranks. The others do not call it.

        What it returns must be what JSON can hold. A failure is as in `each`.
        """
        return self.each(lambda: compute() if self.rank == 0 else None)[0]

    def share(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Rank 0's arrays, for all ranks; those that the others pass do not count."""
        return arrays

    def largest(self, number: float) -> float:
        """The largest of all ranks' numbers."""
        return max(self.each(lambda: number))

    def sum(self, array) -> None:
        """Add up the ranks' arrays, in place.

        Through the host (waits for the device) if they lie on a GPU.
        """

    def merge(self, array: np.ndarray) -> None:
        """Give every rank the whole of an array, in place: each has filled in a part of
        its own, and left the others' parts zero.
        """

    def gather(self, rows: np.ndarray, counts: list[int]) -> np.ndarray:
        """The rows of all ranks on rank 0, in order of rank; elsewhere those given.

        counts: how many each rank gives. They are alike in all other axes.
        """
        return rows

    def launch(self, python: str = "python") -> str:
        """What comes before the name of a module on a command line that starts it on as
        many ranks.
        """
        return f"{python} -m"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class MpiRanks(Ranks):
    """All ranks of MPI's world. `mpi` is the module mpi4py.MPI.

    As a context manager it lets only rank 0 print, and ends MPI if all ranks leave
    alike. A rank that leaves alone, with an exception the others know nothing of, does
    not wait for them: it tells why and `python -m mpi4py` then ends them all.
    """

    def __init__(self, mpi):
        self._mpi, self._comm = mpi, mpi.COMM_WORLD
        self._failed_alike, self._open = False, contextlib.ExitStack()
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()
        name, version = mpi.get_vendor()
        self.mpi = f"{name} {'.'.join(map(str, version))}"
        places = self.each(lambda: [mpi.Get_processor_name(), usable_cores()])
        shares = [len(cores) // places.count([at, cores]) for at, cores in places]
        self.cores = max(1, min(shares))
        machines = [machine for machine, _ in places]
        self.local_rank = machines[: self.rank].count(machines[self.rank])

    def each(self, compute):
        failure = None
        try:
            words = json.dumps({"value": compute()})
        except (Exception, SystemExit) as error:
            failure, words = error, json.dumps({"failed": True})
        replies = [json.loads(reply) for reply in self._exchange(words.encode())]
        failed = [rank for rank, reply in enumerate(replies) if "failed" in reply]
        if failed:
            self._failed_alike = True
            if failed[0] != self.rank:
                raise SystemExit(0)
            if len(failed) < self.size:
                if isinstance(failure, SystemExit):
                    failure = LaunchError(
                        f"the program called sys.exit({failure.code!r})"
                    )
                failure.add_note(f"(on rank {self.rank} of {self.size})")
            raise failure
        return [reply["value"] for reply in replies]

    def _exchange(self, message: bytes) -> list[bytes]:
        lengths = np.empty(self.size, np.int64)
        self._comm.Allgather(np.array([len(message)]), lengths)
        rows = np.zeros((self.size, lengths.max()), np.uint8)
        rows[self.rank, : len(message)] = np.frombuffer(message, np.uint8)
        self._comm.Allgather(self._mpi.IN_PLACE, rows)
        return [
            row[:length].tobytes() for row, length in zip(rows, lengths, strict=True)
        ]

    def share(self, arrays):
        shapes = self.from_first(
            lambda: [[name, x.dtype.str, x.shape] for name, x in arrays.items()]
        )
        if self.rank > 0:
            arrays = {name: np.empty(shape, dtype) for name, dtype, shape in shapes}
        for array in arrays.values():
            self._comm.Bcast(array.reshape(-1).view(np.uint8))
        return arrays

    def sum(self, array):
        host = to_host(array)  # on NumPy the array itself
        self._comm.Allreduce(self._mpi.IN_PLACE, host)
        if host is not array:
            array[...] = to_device(host, namespace(array))

    def merge(self, array):
        # as bytes: where one rank has a byte all others have zero
        self._comm.Allreduce(self._mpi.IN_PLACE, array.reshape(-1).view(np.uint8))

    def gather(self, rows, counts):
        own = np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
        if self.rank > 0:
            self._comm.Gatherv(own, None)
            return rows
        whole = np.empty((sum(counts), *rows.shape[1:]), rows.dtype)
        sizes = [count * (whole.nbytes // len(whole)) for count in counts]
        self._comm.Gatherv(own, [whole.reshape(-1).view(np.uint8), sizes])
        return whole

    def launch(self, python="python"):
        return f"mpiexec -n {self.size} {python} -m mpi4py -m"

    def __enter__(self):
        if self.rank > 0:
            nowhere = self._open.enter_context(open(os.devnull, "w"))
            self._open.enter_context(contextlib.redirect_stdout(nowhere))
        return self

    def __exit__(self, kind, error, traceback):
        self._open.close()
        if error is None or self._failed_alike:
            self._mpi.Finalize()  # waits for all
        elif isinstance(error, SystemExit) and not error.code:
            # mpi4py would wait for the others, in vain
            raise LaunchError(
                f"rank {self.rank} of {self.size} called sys.exit({error.code!r})"
            ) from error


def launched() -> Ranks:
    """The ranks that mpiexec or srun has started this program on; without them a single
    one, and mpi4py is not imported.

    LaunchError if there is no MPI library, and if one of LAUNCHERS has started ranks
    that do not know of each other: they would train the same network once each. They
    know through `-m mpi4py`, which also ends all ranks when one fails, and only if its
    MPI is the launcher's.
    """
    mpi = None
    if re.search(r" -m ?mpi4py(\.run)?\b", " ".join(sys.orig_argv)):
        MPI = mpi_library()
        if MPI.COMM_WORLD.Get_size() > 1:
            return MpiRanks(MPI)
        mpi = MPI.get_vendor()[0]
        MPI.Finalize()
    size = _started()
    if size > 1 and mpi:
        raise LaunchError(
            f"{size} ranks that do not know each other: mpi4py uses {mpi}, and "
            "something else started them; use its mpiexec"
        )
    if size > 1:
        there = importlib.util.find_spec("mpi4py")
        first = "" if there else "pip install 'tinyrmc[mpi]', then "
        raise LaunchError(
            f"{size} ranks that do not know each other; {first}mpiexec -n {size} "
            "python -m mpi4py -m tinyrmc.train ..."
        )
    return Ranks()


def mpi_library():
    """The module mpi4py.MPI. LaunchError, with the remedy, if it finds no MPI."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise LaunchError(
            f"mpi4py finds no MPI library: {error}; pip install 'tinyrmc[mpi]'"
        ) from error
    return MPI


def require_alone(
    program: str, remedy: str = "start {program} without mpiexec or srun"
) -> None:
    """LaunchError if one of LAUNCHERS has started several ranks of a program that has
    work for one.
    """
    size = _started()
    if size > 1:
        raise LaunchError(
            f"{size} ranks would all do the same; "
            f"{remedy.format(program=program, size=size)}"
        )


def _started():
    """How many ranks a launcher says it has started.

    If there are several, all but the first leave: the first says why.
    """
    size = max(int(os.environ.get(name, 0)) for name in LAUNCHERS)
    rank = max(int(os.environ.get(name, 0)) for name in LAUNCHERS.values())
    if size > 1 and rank > 0:
        raise SystemExit(0)
    return size
