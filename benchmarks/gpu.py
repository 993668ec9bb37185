"""The training step of the Relational Memory Core on a GPU, and an agent's update.

    python benchmarks/gpu.py --works 32 agents --minutes 8

First each kernel is compared, on the GPU itself, with its array body in float64 on
NumPy; a difference stops everything. Then steps are timed: ours with the array bodies
alone, with kernels, as a CUDA graph, and as one with freshly drawn data; PyTorch eager,
its whole step as a CUDA graph, through torch.compile, and through that with CUDA graphs
(what its mode "reduce-overhead" turns on). All but the first run in float32 and in
TF32. Before it is timed, each takes two steps of the problem of candidates.py: loss and
gradient must be those of float64. A row that is wrong, or does not run, is left out.

An agent's update is that of agents.py: it acts in all levels of its batch, then learns
from that. Ours is timed with kernels and as one CUDA graph, beside PyTorch eager with
the same worlds; their first losses must be those of NumPy.

All results go to results/gpu-<GPU's name>.json, each row as soon as it is measured.
What the file already holds stays, if it is of the same GPU, program and versions: so
you can measure each batch in a call of its own.
Without a GPU: one line, exit code 2.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import importlib.util
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import agents
import candidates
import numpy as np
import peers
from candidates import Work

import tinyrmc
from tinyrmc import Parameter, Tape, backend, fused, optim
from tinyrmc.autograd.primitives import sum as total
from tinyrmc.backend import gpu as kernels
from tinyrmc.cli.commands import Parser, run_main
from tinyrmc.errors import UsageError
from tinyrmc.training.machine import environment
from tinyrmc.training.trainer import Trainer

RESULTS = Path(__file__).resolve().parent / "results"
WORKS = [Work(batch, slots=8, width=256) for batch in (32, 128, 1600)]
CHECKED = 32  # levels in which an agent's losses are compared; NumPy acts there too
LEAST = 5  # steps in a row of times, at least
LARGEST_ERROR = 1e-5  # of loss and gradient, relative, as on a CPU
LARGEST_KERNEL_ERROR = 1e-4  # of the largest element
# NumPy with rounded operands comes to 0.03 in the gradient: rounding so coarse takes
# ReLUs across their kinks
LARGEST_ERROR_TF32 = 0.1


@dataclasses.dataclass(frozen=True)
class AgentWork:
    """An agent of `box_world`, with a preset's network, in so many levels at once."""

    preset: str
    levels: int

    def __str__(self) -> str:
        return f"an agent, {self.preset}, {self.levels:,} levels"

    def make_task(self, levels: int | None = None) -> Any:
        """The task with its levels, or with others."""
        return agents.make_task(self.preset, levels or self.levels)


AGENTS = [
    AgentWork("quick", 256),
    AgentWork("quick", 4096),
    AgentWork("paper", 32),
    AgentWork("paper", 4096),
]


class Wrong(Exception):
    """The GPU computes something that it should not."""


# --- Correctness ----------------------------------------------------------------------


Case = tuple[fused.Fused, list[np.ndarray], dict[str, Any]]


def kernel_cases(work: Work) -> list[Case]:
    """(fused primitive, float64 arrays, static arguments) at the sizes of the training
    step and at awkward ones.
    """
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.standard_normal(shape)

    cases = [
        *_norm_cases(work, normal),
        *_attention_cases(work, normal),
        *_gate_cases(work, normal),
    ]
    for count, classes in (work.batch, work.steps), (5, 100):
        logits, targets = normal(count, classes), rng.integers(classes, size=count)
        cases.append((fused.softmax_cross_entropy, [logits, targets], {}))
    return cases


def _norm_cases(work, normal):
    B, N, F = work.batch, work.slots, work.width
    for shape in ((B, N + 1, 3 * F), (B, N, F), (1, 1), (7, 33), (5, 1536)):
        arrays = [normal(*shape), normal(shape[-1]), normal(shape[-1])]
        yield fused.layer_norm, arrays, {}
        yield fused.layer_norm, [*arrays, normal(*shape)], {}  # with a residual


def _attention_cases(work, normal):
    B, N, F, H = work.batch, work.slots, work.width, work.heads
    sizes = {"num_heads": H, "key_size": F // H, "num_queries": N}
    yield fused.attention, [normal(B, N + 1, 3 * F)], sizes
    for rows in (1, 33, 64):
        sizes = {"num_heads": 3, "key_size": 4}
        yield fused.attention, [normal(2, rows, 3 * 13)], sizes


def _gate_cases(work, normal):
    B, N, F = work.batch, work.slots, work.width
    biases = {"input_bias": 0.25, "forget_bias": 1.0}
    # a gate for each unit, or one for each slot
    for batch, slots, width, columns in (
        (B, N, F, 2 * F),
        (B, N, F, 2),
        (3, 5, 33, 66),
        (3, 5, 33, 2),
    ):
        gates = [normal(batch, 1, columns), normal(batch, slots, columns)]
        memories = [normal(batch, slots, width), normal(batch, slots, width)]
        yield fused.rmc_gates, [*gates, *memories], biases


def value_and_gradients(op, arrays, static, weights):
    """The value of op(*arrays, **static), and the gradients of its sum weighted by
    `weights`.
    """
    with Tape() as tape:
        watched = [tape.watch(a) if a.dtype.kind == "f" else a for a in arrays]
        y = op(*watched, **static)
        loss = total(y * weights)
    return [y.data, *tape.gradient(loss, [a for a in watched if hasattr(a, "tape")])]


def difference(ours, exact) -> float:
    """The largest difference, relative to the largest element."""
    exact = backend.to_host(exact)
    largest = np.abs(backend.to_host(ours) - exact).max()
    return float(largest / max(1e-30, np.abs(exact).max()))


def check_kernels(xp, work: Work) -> dict[str, float]:
    """{kernel: largest difference from its array body in float64}.

    Wrong if a kernel is not used, or one differs by more than 1e-4.
    """
    found: dict[str, float] = {}
    for op, arrays, static in kernel_cases(work):
        shapes = [a.shape for a in arrays]
        worst = _kernel_difference(xp, op, arrays, static)
        if worst is None:
            raise Wrong(f"{op.name} runs no kernel at {shapes}")
        if not worst < LARGEST_KERNEL_ERROR:
            raise Wrong(f"{op.name} at {shapes} {_differs(worst)}")
        found[op.name] = max(found.get(op.name, 0.0), worst)
    return found | {"adam": check_adam(xp)}


def _kernel_difference(xp, op, arrays, static):
    """How far a kernel's value and gradients are off; None if it is not used."""

    def on_gpu(a):
        return xp.asarray(a.astype(np.float32) if a.dtype.kind == "f" else a)

    there = [on_gpu(a) for a in arrays]
    if op.override(xp, there, static) is op:
        return None
    weights = np.random.default_rng(1).standard_normal(op(*arrays, **static).shape)
    ours = value_and_gradients(op, there, static, on_gpu(weights))
    exact = value_and_gradients(op, arrays, static, weights)
    if arrays[0].shape[-1] == 1:
        # One column has no variance: its gradient is zero, and what rounding leaves of
        # it has no relative size.
        ours, exact = ours[:1], exact[:1]
    return max(map(difference, ours, exact))


def _differs(worst):
    return f"differs from its array body by {worst:.1e} of the largest element"


def check_adam(xp, count: int = 10_000, updates: int = 5) -> float:
    """How far Adam's kernel comes from its array body in float64 after some updates.

    Wrong as in `check_kernels`.
    """
    exact = optim.Adam([Parameter(np.zeros(count))], 1e-2)
    ours = optim.Adam([Parameter(xp.zeros(count, np.float32))], 1e-2)
    if not kernels.usable(ours.data):
        raise Wrong("adam runs no kernel")
    for g in np.random.default_rng(0).standard_normal((updates, count)):
        for optimizer, gradient in (exact, g), (ours, xp.asarray(g.astype(np.float32))):
            optimizer.gradient[...] = gradient
            optimizer.step()
    names = ("data", "first_moment", "second_moment")
    worst = max(difference(getattr(ours, name), getattr(exact, name)) for name in names)
    if not worst < LARGEST_KERNEL_ERROR:
        raise Wrong(f"adam {_differs(worst)} after {updates} updates")
    return worst


def make_problem(work: Work) -> dict:
    """The problem of this size (see candidates.py): weights, a batch, and in float64
    what the first step must find. Takes minutes, if large.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.npz"
        candidates.make_problem(work, file)
        _, problem = candidates.read_problem(file)
        return problem


def check_step(name: str, step, moments, problem: dict, tf32: bool) -> dict:
    """The errors of the first two steps. Wrong if one of them is too large."""
    errors = candidates.first_errors(step, moments, problem)
    largest = LARGEST_ERROR_TF32 if tf32 else LARGEST_ERROR
    for what, error in errors.items():
        if not error <= largest:
            raise Wrong(f"{name}: its {what} is off by {error:.1e} of its value")
    return errors


def check_graph(name: str, make: Callable[..., Trainer]) -> None:
    """Wrong unless some steps give the same bits with a graph and without.

    make: make(graph=...) gives a Trainer.
    """
    ends: list[np.ndarray] = []
    for graph in False, True:
        with make(graph=graph) as trainer:
            for _ in range(6):  # the first few are before any graph
                trainer.advance()
            ends.append(backend.to_host(trainer.optimizer.data))
    if not np.array_equal(ends[0], ends[1]):
        raise Wrong(f"{name}: its steps are not those without a graph")


def check_agent(name: str, candidate: str, work: AgentWork) -> dict:
    """How far a candidate's first losses on the GPU are off NumPy's, in part of the
    largest. Wrong if that is too far.
    """
    make = functools.partial(work.make_task, CHECKED)
    exact = np.array(agents.first_losses(agents.OURS, make))
    found = np.array(agents.first_losses(candidate, make, device="cuda"))
    error = float(np.abs(found - exact).max() / np.abs(exact).max())
    if not error <= agents.LARGEST_ERROR:
        raise Wrong(f"{name}: its losses are off by {error:.1e} of the largest")
    return {"losses": error}


# --- Time -----------------------------------------------------------------------------


def milliseconds(step, wait, seconds: float) -> dict:
    """Median and fastest of single steps, each waited for, and the mean of many in a
    row, waited for once: what training sees.
    """
    for _ in range(LEAST):
        step()
    wait()
    single: list[float] = []
    began = time.perf_counter()
    while len(single) < LEAST or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        step()
        wait()
        single.append(time.perf_counter() - start)
    start = time.perf_counter()
    for _ in single:
        step()
    wait()
    row = (time.perf_counter() - start) / len(single)
    return {
        "ms": 1e3 * row,
        "single_ms": 1e3 * statistics.median(single),
        "fastest_ms": 1e3 * min(single),
        "steps": len(single),
    }


class Plan:
    """Which rows are measured, until when, and what becomes of them.

    Args:
        rows: parts of names; a row whose name has one of them is measured. None: all.
        minutes: nothing is begun after these.
        write: called after each row.
        missing: only rows that are not there yet are measured.
    """

    def __init__(
        self,
        rows: Sequence[str] | None = None,
        minutes: float = math.inf,
        write: Callable[[], object] = lambda: None,
        missing: bool = False,
    ):
        self.rows, self.write, self.wrong = rows, write, False
        self.missing = missing
        self._end = time.monotonic() + 60 * minutes

    def over(self, name: str) -> bool:
        """Whether no time is left for this; says so if none is."""
        if time.monotonic() <= self._end:
            return False
        print(f"    {name:42} no time left", flush=True)
        return True

    def attempt(self, name: str, work: Callable[[], Any]) -> Any:
        """Result of `work`; None, and a message, if that is wrong or does not run.

        PyTorch's may fail: its compiler may be missing, or not know this GPU.
        """
        try:
            return work()
        except Wrong as error:
            print(f"error: {error}; it is left out", file=sys.stderr)
            self.wrong = True
        except Exception as error:
            said = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            print(f"{name} fails and is left out: {said}", file=sys.stderr)
            self.wrong |= not name.startswith("PyTorch")
        return None

    def take(self, rows: dict, name: str, measured: Callable[[], dict]) -> None:
        """Put a row among the others and write it, unless it is not to be measured.

        An earlier row of that name goes, even if the new one is left out.
        """
        if self.rows is not None and not any(part in name for part in self.rows):
            return
        if (self.missing and name in rows) or self.over(name):
            return
        rows.pop(name, None)
        row = self.attempt(name, measured)
        if row is not None:
            rows[name] = row
            single = f"(single {row['single_ms']:.2f})"
            print(f"    {name:42} {row['ms']:9.2f} ms a step  {single}", flush=True)
        self.write()


WAYS = "array bodies", "kernels", "graph", "graph, data drawn"


def time_ours(
    xp,
    work: Work,
    problem: dict,
    seconds: float,
    rows: dict | None = None,
    plan: Plan | None = None,
) -> dict:
    """Our step in four ways, added to `rows`; all but the first in TF32 too, where the
    GPU has it.
    """
    rows, plan = {} if rows is None else rows, plan or Plan()
    for tf32 in (False, True) if backend.has_tf32(xp) else (False,):
        for way in WAYS[tf32:]:
            name = f"ours, {way}{', TF32' * tf32}"
            backend.use_tf32(xp, tf32)
            measured = functools.partial(
                _time_ours_as, xp, way, name, work, problem, seconds, tf32
            )
            plan.take(rows, name, measured)
            xp.get_default_memory_pool().free_all_blocks()
    backend.use_tf32(xp, False)
    return rows


def _time_ours_as(xp, way, name, work, problem, seconds, tf32):
    """A row of ours: errors and times."""
    wait, errors = xp.cuda.Device().synchronize, {}
    here = kernels.off() if way == "array bodies" else contextlib.nullcontext()
    graph, drawn = way.startswith("graph"), way.endswith("drawn")
    more = {"device": "cuda", "drawn": drawn}
    make = functools.partial(candidates.make_trainer, work, problem, **more)
    if graph:
        check_graph(name, make)
    with here, make(graph=graph) as trainer:
        if not drawn:  # those examples are not the problem's
            step, moments = candidates.ours(trainer)
            errors = check_step(name, step, moments, problem, tf32)
        return {"errors": errors, **milliseconds(trainer.advance, wait, seconds)}


def torch_step(work: Work, problem: dict, compiled: bool):
    """PyTorch's step on the GPU: (step, moments) as in peers.py, but a step does not
    wait for the GPU.
    """
    batch, sizes = problem["batch"], candidates.sizes_of(work)
    targets = batch["target"].astype(np.int64)
    return peers.torch_eager(
        problem["weights"], batch["inputs"], targets, sizes, compiled, device="cuda"
    )


KINDS = (
    "eager",
    "torch.cuda.graph",
    "torch.compile",
    "torch.compile, CUDA graphs",
)


def time_torch(
    work: Work,
    problem: dict,
    seconds: float,
    tf32: bool,
    rows: dict | None = None,
    plan: Plan | None = None,
) -> dict:
    """PyTorch's step, as its users write it, as one CUDA graph, and compiled, added to
    `rows`; in TF32 too, if the GPU has it.
    """
    rows, plan = {} if rows is None else rows, plan or Plan()
    if not can_torch():
        return rows
    import torch

    for rounded in (False, True) if tf32 else (False,):
        torch.set_float32_matmul_precision("high" if rounded else "highest")
        for kind in KINDS:
            name = f"PyTorch {kind}{', TF32' * rounded}"
            torch.compiler.reset()
            measured = functools.partial(
                _time_torch_as, kind, name, work, problem, seconds, rounded
            )
            plan.take(rows, name, measured)
    return rows


def can_torch() -> bool:
    """Whether PyTorch can use the GPU; says so if it cannot."""
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: no rows of it")
        return False
    import torch

    if not torch.cuda.is_available():
        print("this PyTorch cannot use the GPU: no rows of it")
        return False
    return True


def _time_torch_as(kind, name, work, problem, seconds, tf32):
    """A row of PyTorch's: errors and times."""
    import torch
    import torch._inductor.config as inductor

    # what torch.compile(mode="reduce-overhead") sets
    with inductor.patch({"triton.cudagraphs": kind.endswith("CUDA graphs")}):
        step, moments = torch_step(work, problem, kind.startswith("torch.compile"))
        if kind == "torch.cuda.graph":
            step, moments = torch_graph(work, problem)
        errors = check_step(name, step, moments, problem, tf32)
        times = milliseconds(step, torch.cuda.synchronize, seconds)
    return {"errors": errors, **times}


def torch_graph(work: Work, problem: dict):
    """(step, moments) of PyTorch's whole step as one CUDA graph, the counterpart of
    ours.

    Adam counts its steps on the GPU. What the steps before the capture have changed is
    put back: the first step that is asked for is the first one.
    """
    import torch

    batch, sizes = problem["batch"], candidates.sizes_of(work)
    parts = peers._torch_parts(problem["weights"], sizes, "cuda", capturable=True)
    w, forward, optimizer, moments = parts
    x = torch.tensor(batch["inputs"], device="cuda")
    y = torch.tensor(batch["target"].astype(np.int64), device="cuda")
    first = {name: parameter.detach().clone() for name, parameter in w.items()}

    def step():
        optimizer.zero_grad()
        loss = forward(w, x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    with torch.no_grad():
        for name, parameter in w.items():
            parameter.copy_(first[name])
            for state in optimizer.state[parameter].values():
                state.zero_()

    def replay():
        graph.replay()
        return loss

    return replay, moments


# --- An agent's update ----------------------------------------------------------------


def time_agents(xp, work: AgentWork, seconds: float, rows: dict, plan: Plan) -> None:
    """An agent's update with kernels, as a graph and in PyTorch eager, added to `rows`.

    Its own rows say how many steps in the world it learns from a second.
    """
    c = work.make_task().config
    learnt = c.train.batch_size * c.agent.unroll

    def measured(name: str, time: Callable[..., dict]) -> dict:
        row = time(name, work, seconds)
        return row | {"steps_per_second": 1e3 * learnt / row["ms"]}

    for graph in False, True:
        name = f"ours, {'graph' if graph else 'kernels'}"
        ours = functools.partial(_time_agent, xp, graph)
        plan.take(rows, name, functools.partial(measured, name, ours))
        xp.get_default_memory_pool().free_all_blocks()
    if can_torch():
        name = "PyTorch eager"
        torch = functools.partial(_time_torch_agent, xp)
        plan.take(rows, name, functools.partial(measured, name, torch))


def _time_agent(xp, graph, name, work, seconds):
    """A row of ours: errors and times."""

    def make(graph, levels=None):
        return Trainer(work.make_task(levels), device="cuda", graph=graph)

    errors = check_agent(name, agents.OURS, work)
    if graph:
        check_graph(name, functools.partial(make, levels=CHECKED))
    with make(graph) as trainer:
        wait = xp.cuda.Device().synchronize
        return {"errors": errors, **milliseconds(trainer.advance, wait, seconds)}


def _time_torch_agent(xp, name, work, seconds):
    """A row of PyTorch's: errors and times. CuPy works on PyTorch's stream."""
    xp.cuda.Stream.null.use()
    errors = check_agent(name, agents.TORCH, work)
    step = agents.torch_trainer(work.make_task(), "cuda")
    wait = xp.cuda.Device().synchronize
    return {"errors": errors, **milliseconds(step, wait, seconds)}


# --- The command ----------------------------------------------------------------------

NAMES = *[f"ours, {way}" for way in WAYS], *[f"PyTorch {kind}" for kind in KINDS]


def measure(
    xp,
    works: Sequence[Work | AgentWork],
    seconds: float,
    plan: Plan,
    result: dict,
    folder: Path,
    checked: Work = WORKS[0],
) -> None:
    """Measure everything into `result`, as the file holds it: kernels are checked at
    one size, steps timed at all. Earlier rows of this program stay, unless they are
    measured again.
    """
    versions = {name: _version(name) for name in ("torch", "triton")}
    here = environment(tinyrmc.__version__) | backend.describe_gpu(xp) | versions
    errors = check_kernels(xp, checked)
    print(f"kernels are correct on {here['gpu']}: {json.dumps(errors)}", flush=True)
    earlier = earlier_result(here, folder)
    result |= earlier | {"machine": here, "kernel_errors": errors}
    timed = result.setdefault("works", [])
    for work in works:
        print(work, flush=True)
        if isinstance(work, AgentWork):
            rows = _rows_of(result.setdefault("agents", []), work)
            time_agents(xp, work, seconds, rows, plan)
            continue
        if plan.over("the problem"):
            return
        problem = plan.attempt("the problem", functools.partial(make_problem, work))
        if problem is None:
            continue
        rows = _rows_of(timed, work)
        time_ours(xp, work, problem, seconds, rows, plan)
        sizes = work, problem, seconds, backend.has_tf32(xp)
        plan.attempt("PyTorch", functools.partial(time_torch, *sizes, rows, plan))


def _rows_of(timed: list[dict], work: Work | AgentWork) -> dict[str, dict]:
    """The rows of this size; an entry for it is made where there is none."""
    sizes = {"size": str(work), **dataclasses.asdict(work)}
    for entry in timed:
        if entry | sizes == entry:
            return entry["rows"]
    timed.append(sizes | {"rows": {}})
    return timed[-1]["rows"]


def result_path(machine: dict, folder: Path) -> Path:
    """The file of this GPU's results."""
    return folder / f"gpu-{'-'.join(machine['gpu'].split())}.json"


def earlier_result(machine: dict, folder: Path) -> dict:
    """Results written here before by this program in these versions; else {}."""

    def lasting(machine):
        kept = {k: x for k, x in machine.items() if k not in ("date", "command")}
        # the file itself, once written, makes the tree "dirty"
        return kept | {"git_commit": (kept["git_commit"] or "").removesuffix("-dirty")}

    with contextlib.suppress(OSError, ValueError, LookupError):
        path = result_path(machine, folder)
        found = json.loads(path.read_text(encoding="utf-8"))
        if lasting(found["machine"]) == lasting(machine):
            return found
    return {}


def _version(name):
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None


def _parser() -> Parser:
    about = "Measure steps of the Relational Memory Core, and of agents, on a GPU."
    parser = Parser("python benchmarks/gpu.py", about)

    def flag(name, kind, says, **keywords):
        parser.add_argument(name, type=kind, help=says, **keywords)

    many = {"nargs": "+"}
    flag("--seconds", float, "how long each row is timed (default: 5)", default=5.0)
    sizes = "only the sizes with these batches, or agents (default: 32 128 1600 agents)"
    flag("--works", str, sizes, metavar="BATCH|agents", **many)
    rows = "only rows whose name has one of these parts, as in: ours eager. The rows: "
    rows += f"{'; '.join(NAMES)}; all but the first with ', TF32' too"
    flag("--rows", str, rows, metavar="PART", **many)
    minutes = (
        "begin nothing after so many minutes; what was measured is written. A row "
    )
    minutes += "takes twice --seconds, and more where something is compiled"
    flag("--minutes", float, minutes, default=math.inf)
    says = "measure only rows that the file of this GPU does not have yet"
    parser.add_argument("--missing", action="store_true", help=says)
    says = "folder of the results (default: benchmarks/results)"
    flag("--out", Path, says, default=RESULTS)
    return parser


def main(
    argv: list[str] | None = None,
    works: list[Work] = WORKS,
    acting: list[AgentWork] = AGENTS,
) -> int:
    """The command line; returns the exit code."""
    options = _parser().parse_args(argv)
    if not 0 <= options.seconds < math.inf:
        raise UsageError(
            f"--seconds must be finite and not negative, not {options.seconds}"
        )
    if not options.minutes >= 0:
        raise UsageError(f"--minutes must not be negative, not {options.minutes}")
    named: dict[str, list] = {str(work.batch): [work] for work in works}
    named["agents"] = [*acting]
    for name in options.works or ():
        if name not in named:
            raise UsageError(f"--works {name}: there are {', '.join(named)}")
    for part in options.rows or ():
        if not any(part in f"{name}, TF32" for name in NAMES):
            raise UsageError(f"--rows {part}: the rows are {'; '.join(NAMES)}")
    if not options.out.is_dir():
        raise UsageError(f"--out {options.out}: there is no such folder; make it first")
    chosen = [work for name in options.works or named for work in named[name]]
    xp = backend.device_namespace("cuda")
    result: dict[str, Any] = {}

    def write():
        path = result_path(result["machine"], options.out)
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        return path

    plan = Plan(options.rows, options.minutes, write, options.missing)
    try:
        measure(xp, chosen, options.seconds, plan, result, options.out, works[0])
    except Wrong as error:  # a kernel is wrong, and so is all that follows
        print(f"error: {error}; nothing was written", file=sys.stderr)
        return 1
    print(f"written to {write()}")
    return int(plan.wrong)


if __name__ == "__main__":
    run_main(main)
