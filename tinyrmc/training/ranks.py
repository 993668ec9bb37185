"""Ranks that train together: the processes that `mpiexec` has started, on one machine
or on several.

    mpiexec -n 4 python -m mpi4py -m tinyrmc.train nth_farthest

Every rank holds the whole network and takes every step. Each draws and differentiates
its own pieces of a batch; one Allreduce adds up the flat gradients, and the same update
follows everywhere. All ranks read the same files; rank 0 alone writes and prints. An
error on one rank ends all of them: that is what `-m mpi4py` is for.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
import zlib
from pathlib import Path
from typing import Any

from ..backend import namespace, to_host
from ..config import json_text
from ..errors import RunError
from .machine import usable_cores
from .run import Run
from .trainer import Trainer
from .workers import LaunchError, ranks_started


class Ranks:
    """All ranks of MPI's world, for a `with` block in which all of them do the same.

    run, trainer: the kinds of `Run` and `Trainer` that this rank has.
    """

    def __init__(self, mpi: Any):
        # what mpi4py would pickle is sent as JSON
        mpi.pickle.__init__(
            lambda value: json_text(value).encode(),
            lambda message: json.loads(bytes(message)),
        )
        self._mpi = mpi
        self.comm = mpi.COMM_WORLD
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self.run = Onlooker if self.rank else Run
        self.trainer = functools.partial(RankTrainer, self)
        name, version = mpi.get_vendor()
        self.name = f"{name} {'.'.join(map(str, version))}"
        places = self.comm.allgather([mpi.Get_processor_name(), usable_cores()])
        shares = [len(cores) // places.count([at, cores]) for at, cores in places]
        self.cores = max(1, min(shares))  # of a rank, where they have fewest
        machines = [machine for machine, _ in places]
        self.local_rank = machines[: self.rank].count(machines[self.rank])

    def add_up(self, array: Any) -> None:
        """Add up the ranks' arrays, in place; through the host if they lie on a GPU."""
        host = to_host(array)  # on NumPy the array itself
        self.comm.Allreduce(self._mpi.IN_PLACE, host)
        if host is not array:
            array[...] = namespace(array).asarray(host)

    def __enter__(self) -> Ranks:
        if self.rank > 0:
            sys.stdout = sys.stderr = open(os.devnull, "w")
        return self

    def __exit__(self, kind, error, traceback):
        if error is None:
            self._mpi.Finalize()  # waits for all
        elif self.rank > 0:
            time.sleep(3)  # if it went wrong on rank 0 too, that tells, and ends us all
            error.add_note(f"(on rank {self.rank} of {self.size})")
            sys.stderr = sys.__stderr__


class Onlooker(Run):
    """A run that rank 0 writes; here nothing is written."""

    @classmethod
    def create(cls, root, name, config, environment, path=None):
        """A run that is nowhere."""
        return cls(Path(root, name, "elsewhere"), dict(config), dict(environment))

    def writing(self):
        """Rank 0 has the lock."""
        return contextlib.nullcontext()

    def moved(self, config, environment=None):
        """The run as it is."""
        return self

    def save(self, *_, **__):
        """Rank 0 writes."""

    log = truncate_metrics = save_best = save


class RankTrainer(Trainer):
    """A Trainer on each of several ranks: all call every method, in the same order."""

    def __init__(self, together: Ranks, *arguments: Any, **options: Any):
        self.together = together
        self.comm = together.comm
        self.rank = together.rank
        self.ranks = together.size
        self.cores = together.cores
        self.local_rank = together.local_rank
        super().__init__(*arguments, **options)

    def agreed(self, *numbers):
        """The largest of all ranks' numbers: all must save and stop at one step."""
        return [*map(max, zip(*self.comm.allgather(numbers), strict=True))]

    def try_out(self):
        super().try_out()
        self.arrays()  # whether they begin alike

    def arrays(self):
        """Those of a `Trainer`, which must be the same on all ranks, to the last bit:
        MPI does not promise that they all get the same sums.
        """
        checksum = zlib.crc32(json_text([self.step, self.task.state()]).encode())
        for x in (self.optimizer.data, *self.optimizer.state().values()):
            checksum = zlib.crc32(to_host(x).tobytes(), checksum)
        if len({*self.comm.allgather(checksum)}) > 1:
            raise RunError(
                f"the ranks' parameters differ at step {self.step} (nothing was saved);"
                " give all ranks the same files, NumPy and kind of processor"
            )
        return super().arrays()

    def _ask(self, do, **more):
        replies = self.comm.allgather(super()._ask(do, **more))
        return [reply for of_rank in replies for reply in of_rank]

    def _plain(self, metrics):
        return metrics.plain()

    def _add_up_ranks(self):
        self.together.add_up(self.optimizer.gradient)

    def _line(self):
        # rank 0's for all: curricula must move in step, and rounding may differ
        return self.comm.allgather(super()._line())[0]

    def _whole_carry(self):
        whole = super()._whole_carry()
        for x in whole.values():
            # as bytes: where one rank has a byte all others have zero
            self.together.add_up(x.reshape(-1).view("u1"))
        return whole


def launched() -> Ranks | None:
    """The ranks that mpiexec or srun has started this program on; None if it is alone.

    LaunchError for ranks that do not know of each other, and would train the same
    network once each. They know through `-m mpi4py`, if its MPI is the launcher's.
    """
    if "mpi4py.run" in sys.modules:
        from mpi4py import MPI

        if MPI.COMM_WORLD.Get_size() > 1:
            return Ranks(MPI)
    if (size := ranks_started()) > 1:
        raise LaunchError(
            f"{size} ranks were started that do not know of each other; start them by "
            f"mpiexec -n {size} python -m mpi4py -m tinyrmc.train ..., with the "
            "mpiexec of mpi4py's own MPI (pip install 'tinyrmc[mpi]' brings both)"
        )
    return None
