"""Ranks that train together: the processes that `mpiexec` has started, on one machine
or on several.

    mpiexec -n 4 python -m mpi4py -m tinyrmc.train nth_farthest

Every rank holds the whole network and takes every step. Each draws and differentiates
its own pieces of a batch; one Allreduce adds up the flat gradients, and the same update
follows everywhere. So there is no master, and nothing is sent but gradients and short
messages. Only files are the business of rank 0: it reads what there is to go on from
and tells the others (`broadcast`), and it alone writes and prints.

All of that is here, around the path of a run on one machine: `RankTrainer` is a
`Trainer` whose steps end in a meeting. NumPy buffers and JSON pass between ranks, never
pickle.

An error on one rank must not leave the others waiting for it. So every exchange begins
with a meeting, in which each rank says how much it will send, or that it is leaving; a
rank that leaves with an error says so at the next meeting, from the end of the `with`
block of its ranks. Then all leave, and the first of those that failed tells why.

MPI recommends, but does not promise, that all ranks get the same sums, and each
computes the gradient's norm with its own BLAS. So before training, and whenever a
checkpoint is saved, the ranks compare their parameters, to the last bit.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import namespace, to_device, to_host
from ..errors import RunError, UserError
from ..runs.run import Run, usable_cores
from .trainer import Trainer

# The variables in which a launcher tells how many ranks it has started, and which one
# this is. PMIx tells only the latter.
LAUNCHERS = {
    "PMI_SIZE": "PMI_RANK",  # MPICH, Intel MPI, Microsoft MPI
    "OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK",  # Open MPI
    "SLURM_STEP_NUM_TASKS": "SLURM_PROCID",  # srun
}
LEAVING = -1  # in the place of a message's length


class LaunchError(UserError, RuntimeError):
    """The program was started on several ranks that cannot work together."""


class Ranks:
    """The ranks of a program; here a single process.

    rank, size: which one this is, and how many there are. Rank 0 writes and prints.
    mpi: name and version of the MPI library, if there is one.
    run: what the directory of a run is here.
    """

    rank, size, mpi = 0, 1, None
    run: type[Run] = Run

    def broadcast(self, read: Callable[[], tuple]) -> tuple:
        """(what JSON can hold, arrays by name): what `read` gives on rank 0."""
        return read()

    def trainer(self, *arguments: Any, **options: Any) -> Trainer:
        """A `Trainer`, which takes its steps together with those of all ranks."""
        return Trainer(*arguments, **options)

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
    """All ranks of MPI's world, for a `with` block in which all of them do the same.

    Only rank 0 prints there. `mpi` is the module mpi4py.MPI.

    local_rank: how many ranks before this one are on the same machine.
    cores: how many cores each rank has, on the machine where they have fewest; cores
        that several ranks may use are divided among them.
    """

    def __init__(self, mpi):
        self._mpi, self._comm = mpi, mpi.COMM_WORLD
        self._over, self._muted = False, contextlib.ExitStack()
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()
        name, version = mpi.get_vendor()
        self.mpi = f"{name} {'.'.join(map(str, version))}"
        places = self.allgather([mpi.Get_processor_name(), usable_cores()])
        shares = [len(cores) // places.count([at, cores]) for at, cores in places]
        self.cores = max(1, min(shares))
        machines = [machine for machine, _ in places]
        self.local_rank = machines[: self.rank].count(machines[self.rank])
        if self.rank > 0:
            self.run = Onlooker

    def _meet(self, length: int) -> np.ndarray:
        """What every rank says in a meeting."""
        lengths = np.empty(self.size, np.int64)
        self._comm.Allgather(np.array([length]), lengths)
        return lengths

    def _lengths(self, length: int) -> np.ndarray:
        """The lengths of all ranks' messages; SystemExit if one of them is leaving."""
        lengths = self._meet(length)
        if lengths.min() == LEAVING:
            self._over = True
            raise SystemExit(0)
        return lengths

    def allgather(self, value: Any) -> list:
        """[value of each rank], in order of rank; values are what JSON can hold."""
        message = json.dumps(value).encode()
        lengths = self._lengths(len(message))
        rows = np.zeros((self.size, lengths.max()), np.uint8)
        rows[self.rank, : len(message)] = np.frombuffer(message, np.uint8)
        self._comm.Allgather(self._mpi.IN_PLACE, rows)
        pairs = zip(rows, lengths, strict=True)
        return [json.loads(row[:length].tobytes()) for row, length in pairs]

    def broadcast(self, read):
        said, arrays = read() if self.rank == 0 else (None, {})
        about = [[name, x.dtype.str, x.shape] for name, x in arrays.items()]
        said, about = self.allgather([said, about])[0]
        if self.rank > 0:
            arrays = {name: np.empty(shape, dtype) for name, dtype, shape in about}
        for x in arrays.values():
            self._comm.Bcast(x.reshape(-1).view(np.uint8))
        return said, arrays

    def allreduce(self, array) -> None:
        """Add up the ranks' arrays, in place; through the host if they lie on a GPU."""
        host = to_host(array)  # on NumPy the array itself
        self._lengths(0)
        self._comm.Allreduce(self._mpi.IN_PLACE, host)
        if host is not array:
            array[...] = to_device(host, namespace(array))

    def trainer(self, *arguments, **options):
        return RankTrainer(self, *arguments, **options)

    def launch(self, python="python"):
        return f"mpiexec -n {self.size} {python} -m mpi4py -m"

    def __enter__(self):
        if self.rank > 0:
            nowhere = self._muted.enter_context(open(os.devnull, "w"))
            self._muted.enter_context(contextlib.redirect_stdout(nowhere))
            self._muted.enter_context(contextlib.redirect_stderr(nowhere))
        return self

    def __exit__(self, kind, error, traceback):
        self._muted.close()
        if self._over:
            self._mpi.Finalize()  # waits for all
            return
        said = self._meet(LEAVING if error is not None else 0)
        self._mpi.Finalize()
        leaving = np.flatnonzero(said == LEAVING).tolist()
        if leaving and leaving[0] != self.rank:
            # with code 0: some launchers end everybody at the first other code, perhaps
            # before the reason is told
            raise SystemExit(0) from None
        if 0 < len(leaving) < self.size:
            note = f"(on rank {self.rank} of {self.size})"
            if isinstance(error, SystemExit):
                raise LaunchError(
                    f"the program called sys.exit({error.code!r}) {note}"
                ) from error
            error.add_note(note)


class Onlooker(Run):
    """A run that rank 0 writes and reads; here those methods do nothing."""

    has_metrics = False

    @classmethod
    def create(cls, root, name, config, environment, path=None):
        return cls(Path(), dict(config), dict(environment))

    def writing(self):
        return contextlib.nullcontext()

    def moved(self, config):
        return self

    def metrics(self):
        return []

    def _nothing(self, *_, **__):
        return None

    save = load_state = log = truncate_metrics = checksum = _nothing


class RankTrainer(Trainer):
    """A Trainer for each of several ranks, all made alike.

    All ranks call every method, in the same order.
    """

    def __init__(self, ranks: MpiRanks, *arguments: Any, **options: Any):
        self.together = ranks
        self.rank, self.ranks, self.cores = ranks.rank, ranks.size, ranks.cores
        self.local_rank = ranks.local_rank
        super().__init__(*arguments, **options)

    def agreed(self, *numbers):
        """The largest of all ranks' numbers: all must save and stop at one step."""
        return [*map(max, zip(*self.together.allgather(numbers), strict=True))]

    def try_out(self):
        super().try_out()
        self._require_agreement()

    def arrays(self):
        self._require_agreement()
        return super().arrays()

    def _ask(self, do, **more):
        replies = self.together.allgather(super()._ask(do, **more))
        return [reply for of_rank in replies for reply in of_rank]

    def _plain(self, metrics):
        return metrics.plain()

    def _add_up_ranks(self):
        whole = self.optimizer.packed(self.optimizer.gradient)
        self.together.allreduce(whole)
        self.optimizer.unpack(whole, self.optimizer.gradient)

    def _line(self):
        # rank 0's for all: curricula must move in step, and rounding may differ
        return self.together.allgather(super()._line())[0]

    def _whole_carry(self):
        whole = super()._whole_carry()
        for x in whole.values():
            # as bytes: where one rank has a byte all others have zero
            self.together.allreduce(x.reshape(-1).view(np.uint8))
        return whole

    def _require_agreement(self):
        """RunError unless all ranks have the same parameters, to the last bit.

        The same step and state of the optimizer too. Waits for the device.
        """
        optimizer = self.optimizer
        checksum = zlib.crc32(json.dumps([self.step, self.task.state()]).encode())
        for x in (optimizer.packed(optimizer.data), *optimizer.state().values()):
            checksum = zlib.crc32(to_host(x).tobytes(), checksum)
        if len({*self.together.allgather(checksum)}) > 1:
            raise RunError(
                f"the ranks' parameters differ at step {self.step} (nothing was "
                "saved): they read different checkpoints, or round differently; give "
                "all ranks the same files, NumPy and kind of processor, then resume or "
                "start again"
            )


# --- How a program learns that it is one of several -----------------------------------


def launched() -> Ranks:
    """The ranks that mpiexec or srun has started this program on; without them a single
    one, and mpi4py is not imported.

    LaunchError if there is no MPI library, and if one of LAUNCHERS has started ranks
    that do not know of each other: they would train the same network once each. They
    know through `-m mpi4py`, which also ends all ranks when one is killed, and only if
    its MPI is the launcher's.
    """
    mpi = "pip install 'tinyrmc[mpi]'"
    if re.search(r" -m ?mpi4py(\.run)?\b", " ".join(sys.orig_argv)):
        MPI = mpi_library()
        if MPI.COMM_WORLD.Get_size() > 1:
            return MpiRanks(MPI)
        mpi = f"use the mpiexec of {MPI.get_vendor()[0]}, as mpi4py does"
        MPI.Finalize()
    if (size := _started()) > 1:
        raise LaunchError(
            f"{size} ranks that do not know each other; mpiexec -n {size} python -m "
            f"mpi4py -m tinyrmc.train ... ({mpi})"
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
