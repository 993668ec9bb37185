"""The cores that came after the RMC: what a training step takes as sequences grow.

    python benchmarks/after.py [--works CORE ...] [--rounds N] [--out FILE.json]

For each core, at sizes of about equally many parameters, the seconds and the memory of
a training step (forward and backward, 8 sequences of vectors of 32 numbers, one core of
the processor) at T = 32 to 2,048 steps; at the last of these also with
`core.recompute`, which keeps the state before every 64th step alone. Where PyTorch is
installed (the extra `bench`) it does the same with the same weights (after_torch.py),
after its loss has been compared. Seconds are medians of rounds in which all take turns.
Memory is the most that Python and NumPy have allocated during a step beyond what was
there before (tracemalloc, in a step that is not timed).

The page `after.md` has its tables from this and from summaries of runs: see pages.py.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import report
from candidates import seconds_of

from tinyrmc import Tape, optim
from tinyrmc import primitives as p
from tinyrmc.backend import blas_threads
from tinyrmc.cores import CoreConfig, build_core, describe
from tinyrmc.cores.stm import STMConfig

WIDTH, BATCH, EVERY = 32, 8, 64
LENGTHS = 32, 128, 512, 2048
CORES = {
    "rmc": CoreConfig("rmc"),
    "lstm": CoreConfig("lstm", hidden_size=88),
    "transformer": CoreConfig("transformer", hidden_size=160),
    "linear_attention": CoreConfig("linear_attention", hidden_size=160),
    "delta": CoreConfig("delta", hidden_size=160),
    "ssm": CoreConfig("ssm", hidden_size=140),
    "stm": CoreConfig("stm", settings={"stm": STMConfig(28, 24)}),
}
APART = 1e-4  # the most that two libraries' losses may be, relative


class Step:
    """A training step of a core over `length` steps; calling it gives the loss."""

    def __init__(self, name: str, length: int):
        self.core = build_core(CORES[name], WIDTH, seed=0)
        optim.Adam(self.core.parameters())  # one flat buffer, as in training
        rng = np.random.default_rng(0)
        self.inputs = rng.standard_normal((BATCH, length, WIDTH)).astype(np.float32)

    def __call__(self) -> float:
        with Tape() as tape:
            state = self.core.initial_state(BATCH)
            outputs, _ = self.core.unroll(self.inputs, state)
            loss = p.mean(p.square(p.stack(outputs)))
            del outputs, state
        tape.backward(loss)
        return float(loss.data)

    def theirs(self) -> Callable[[], float] | None:
        """The same step in PyTorch; None where it is not installed, or not written."""
        if importlib.util.find_spec("torch") is None:
            return None
        import after_torch

        after_torch.torch.set_num_threads(1)
        step = after_torch.step(self.core, self.inputs)
        if step is not None and not np.isclose(step(), self(), rtol=APART):
            raise ValueError(f"PyTorch's loss is {step()}, ours {self()}")
        return step

    def peak(self) -> int:
        """Bytes allocated at most, beyond those from before."""
        tracemalloc.start()
        self()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found


def measure(rounds: int, names: Any, lengths: tuple[int, ...] = LENGTHS) -> list[dict]:
    """A row for each core."""
    ways = [*((length, None) for length in lengths), (lengths[-1], EVERY)]
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        core = build_core(CORES[name], WIDTH, seed=0)
        about = {"core": name, "size": describe(CORES[name], core)}
        found[name] = {**about, "parameters": core.num_parameters, "lengths": []}
    with blas_threads(1):
        for length, every in ways:
            steps = {name: Step(name, length) for name in names}
            takers: dict[tuple[str, str], Callable[[], float]] = {}
            for name, step in steps.items():
                step.core.recompute(every)
                step()  # what is made once, at first use, does not count
                takers[name, "seconds"] = step
                if every is None and (theirs := step.theirs()) is not None:
                    takers[name, "torch_seconds"] = theirs
            times: dict[tuple[str, str], list[float]] = {taker: [] for taker in takers}
            for _ in range(rounds):
                for taker, run in takers.items():
                    times[taker].append(seconds_of(run))
            for name, step in steps.items():
                one: dict[str, Any] = {"steps": length, "every": every}
                one["bytes"] = step.peak()
                for (whose, what), each in times.items():
                    if whose == name:
                        one[what] = statistics.median(each)
                found[name]["lengths"].append(one)
    return [*found.values()]


def main(words: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    about = (__doc__ or "").partition("\n")[0]
    return report.command("after", about, [*CORES], 5, measure, words)


if __name__ == "__main__":
    sys.exit(main())
