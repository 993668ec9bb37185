"""The training step of the Relational Memory Core on a CPU, beside other libraries and
beside SGEMM.

    python benchmarks/cpu.py

Every candidate (candidates.py, peers.py) runs in a process of its own, on as many cores
as it may use. Its loss and gradient are compared before it is timed, and one that
differs stops everything. First each is tried on all cores, then on ..., 4, 2, 1, until
it is much slower than at its best. What remains is timed in turn, over several rounds,
so that a disturbance hits all. A round's time is the median of its steps, a candidate's
the median of its rounds at its best setting. SGEMM, what NumPy's BLAS reaches in matrix
products, has a turn in every round at every size; its figure is the median of them all.
So it is for the network of nth farthest in five sizes (`large` to `quick`) and for the
Differentiable Neural Computer (`dnc`).

The other parts are the `engine` alone, and `language`, which language.py measures
beside PyTorch.

Where Numba is (the extra `fast`), each is measured with compiled bodies as well.

Results go to a JSON file and a picture beside it. The tables that a document shows are
printed; `markdown` in report.py makes them from the file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import language
import peers
import report
from candidates import APART, TOGETHER, Work
from report import FAST, at_least_one, cells, json_file, markdown, milliseconds
from running import (
    CAN_LIMIT,
    Candidate,
    left_out,
    run_python,
    say,
    take_turns,
    tuning_variables,
)

import tinyrmc
from tinyrmc.cli.commands import Parser, run_main
from tinyrmc.errors import RunError, UsageError, counted
from tinyrmc.training.machine import environment, usable_cores

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "cpu.json"

WORKS = {
    "large": Work(1600, 8, 256),
    "wide": Work(256, 8, 256),
    "middle": Work(256, 8, 128),
    "small": Work(128, 8, 64),
    "quick": Work(256, 4, 64, 4),
    "dnc": Work(128, 80, 64, 8, 4, "dnc"),
}
OVER_NUMPY = ("HIPS autograd",)  # timed on `small` alone, for orientation
COMPILED = ("torch.compile", "JAX jit")  # take minutes to compile the steps of `dnc`
PARTS = (*WORKS, "engine", "language")

ROUNDS, ROUND_SECONDS = 5, 1.0
# settings slower than a candidate's best by this factor, at the first try, are given
# up, and smaller ones not tried
NEAR = 1.3
# relative; float32 comes to about 1e-6, but to more than this in sequences of 32
LARGEST_ERROR = 1e-5


class Differs(RunError):
    """A candidate does not compute what the others do."""


# --- measuring ------------------------------------------------------------------------


def core_counts(cores: int) -> list[int]:
    """All cores and the powers of two below, the largest first; all alone where the
    system holds no process to some of them.
    """
    if not CAN_LIMIT:
        return [cores]
    return [cores, *reversed([2**k for k in range(cores.bit_length()) if 2**k < cores])]


def make_problem(stack: contextlib.ExitStack, work: Work) -> Path:
    """The file of a problem (candidates.py), which the stack removes."""
    problem = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "problem.npz"
    size = json.dumps(dataclasses.astuple(work))
    run_python(HERE / "candidates.py", "problem", size, problem)
    return problem


def start(
    stack: contextlib.ExitStack,
    name: str,
    counts: list[int],
    problem: Path,
    seconds: float,
) -> list[Candidate]:
    """A candidate on each number of cores on which it is not much slower than at its
    best; their rounds are still empty. The stack ends them.

    The trying ends where a peer breaks, which may leave none. Differs and RunError as
    in `started`.
    """
    tried: list[Candidate] = []
    limit = math.inf
    for cores in counts:
        candidate = started(stack, name, cores, problem)
        if candidate is None or not take_turns([candidate], 1, seconds, peers.PEERS):
            break
        tried.append(candidate)
        took = f"{milliseconds(candidate.seconds)} ms"
        say(f"  {name}, {counted(cores, 'core')}, first try: {took}")
        limit = NEAR * min(other.seconds for other in tried)
        if candidate.seconds > limit:
            break
    near = [candidate for candidate in tried if candidate.seconds <= limit]
    for candidate in tried:
        candidate.rounds.clear()
        if candidate not in near:
            candidate.close()
    return near


def started(
    stack: contextlib.ExitStack, name: str, cores: int, *arguments
) -> Candidate | None:
    """A candidate that the stack ends; None if it is a peer that does not run.

    RunError if ours or SGEMM does not run, Differs if a first step is not the
    problem's.
    """
    with left_out(name, cores, peers.PEERS) as broken:
        candidate = Candidate(name, cores, *arguments)
    if broken:
        return None
    stack.callback(candidate.close)
    for what, error in candidate.hello.get("errors", {}).items():
        if not error <= LARGEST_ERROR:
            off = f"is off by {error:.1e} of its value"
            raise Differs(f"{name}: its {what} {off}; nothing is written")
    return candidate


def measure(
    work: Work, names: list[str], products: list[Candidate], rounds: int, seconds: float
) -> dict:
    """One row of the results: ours and the peers in `names` at one size. SGEMM's
    `products` have their turn in each round too.

    What is relative to SGEMM is left to `relate`. Differs and RunError as in `started`.
    """
    fast = [FAST] if importlib.util.find_spec("numba") else []
    everyone = ["ours", *fast, *names]
    with contextlib.ExitStack() as stack:
        problem, counts = make_problem(stack, work), core_counts(len(usable_cores()))
        running = [
            candidate
            for name in everyone
            for candidate in start(stack, name, counts, problem, seconds / 2)
        ]
        everything = [*running, *products]
        remaining = take_turns(everything, rounds, seconds, peers.PEERS)
    best = {}
    for name in everyone:
        settings = [candidate for candidate in remaining if candidate.name == name]
        if settings:
            best[name] = min(settings, key=lambda candidate: candidate.seconds)
    return row_of(work, best)


def row_of(work: Work, best: dict[str, Candidate]) -> dict:
    """Results to keep of the candidates at their best settings."""
    seconds = {name: candidate.seconds for name, candidate in best.items()}
    ours, fast = seconds.pop("ours"), seconds.pop(FAST, None)
    fastest = min(seconds.values(), default=None)
    return {
        "size": str(work),
        **dataclasses.asdict(work),
        "ours_seconds": ours,
        "compiled_seconds": fast,
        "peers": seconds,
        "ratio_to_fastest": fastest and ours / fastest,
        "compiled_to_fastest": fastest and fast and fast / fastest,
        "flops": work.flops,
        "cores": {name: candidate.cores for name, candidate in best.items()},
        "rounds": {name: candidate.rounds for name, candidate in best.items()},
        "gradient_errors": {
            name: candidate.hello["errors"]["gradient"]
            for name, candidate in best.items()
        },
    }


def relate(rows: list[dict], products: list[Candidate]) -> None:
    """Give each row SGEMM's speed (floating-point operations a second, in its faster
    form) and the fraction of it that ours reaches.
    """
    sgemm = max(candidate.hello["flops"] / candidate.seconds for candidate in products)
    for row in rows:
        flops = row["flops"]
        row["sgemm"] = sgemm
        row["sgemm_fraction"] = flops and flops / row["ours_seconds"] / sgemm


def installed_peers() -> list[str]:
    """The peers that can be tried here; says which are missing."""
    modules = {name: module for name, (_, module) in peers.PEERS.items()}
    found = [name for name in modules if importlib.util.find_spec(modules[name])]
    if missing := [name for name in modules if name not in found]:
        say(f"not installed, left out: {', '.join(missing)}; pip install -e '.[bench]'")
    return found


def engine_costs(steps: int) -> dict:
    """Costs by costs.py; the growth of memory over this many steps."""

    def cost(*words):
        return json.loads(run_python(HERE / "costs.py", *words))

    return {
        "overhead_microseconds": cost("overhead"),
        "backward_to_forward_peak": cost("unroll"),
        "growth_mib": cost("growth", steps),
        "growth_steps": steps,
    }


def machine() -> dict:
    """Where this is measured, and with which versions."""
    here = environment(tinyrmc.__version__)
    versions = {name: here[name] for name in ("tinyrmc", "python", "numpy")}
    kept = ("date", "git_commit", "platform", "processor", "cores", "blas")
    return {
        **{name: here[name] for name in kept},
        "versions": versions | report.versions(x for _, x in peers.PEERS.values()),
        "load_before": report.load(),
        "environment_removed": tuning_variables(),
    }


def measure_all(
    parts: list[str],
    rounds: int,
    quick: bool = False,
    wanted: Sequence[str] = tuple(peers.PEERS),
) -> dict:
    """A results file; parts that were not asked for are empty. wanted: the peers that
    may run.
    """
    found = {"benchmark": "cpu", **machine()}
    found |= {"rows": [], "engine": {}, "language": []}
    here = [found["processor"], f"{found['cores']} cores"]
    here += [f"load {found['load_before']}", found["blas"]]
    removed = ", ".join(found["environment_removed"])
    say(", ".join(here) + (f"; not passed on: {removed}" if removed else ""))
    works = [part for part in parts if part in WORKS]
    if works:
        found |= measure_sizes(works, rounds, quick, wanted)
    if "engine" in parts:
        found["engine"] = engine_costs(1000 if quick else 10_000)
    if "language" in parts:
        found["language"] = language.measure_all(rounds)
    return found


def measure_sizes(
    works: list[str],
    rounds: int,
    quick: bool,
    wanted: Sequence[str] = tuple(peers.PEERS),
) -> dict:
    """{"rows": [...], "sgemm_rounds": {...}}: the works by name."""
    available = [name for name in installed_peers() if name in wanted]
    rows: list[dict] = []
    with contextlib.ExitStack() as stack:
        products = []
        for name in (TOGETHER, APART):
            product = started(stack, name, len(usable_cores()))
            assert product is not None  # SGEMM raises if it does not run
            products.append(product)
        for work in works:
            names = [name for name in available if name not in not_timed(work, quick)]
            row = measure(WORKS[work], names, products, rounds, ROUND_SECONDS)
            rows.append({"work": work, **row})
            say("  ".join(cells(rows[-1])))
    relate(rows, products)
    times = {product.name: product.rounds for product in products}
    return {"rows": rows, "sgemm_rounds": times}


def not_timed(work: str, quick: bool) -> set[str]:
    """The peers that are not timed at one of the works."""
    names = {"torch.compile"} if quick else set()
    names |= set() if work == "small" else {*OVER_NUMPY}
    return names | {*COMPILED} if work == "dnc" else names


# --- the command line -----------------------------------------------------------------


def write(found: dict, path: Path) -> None:
    """The JSON file and the picture beside it. RunError if they cannot be written."""
    import picture

    try:
        path.write_text(json.dumps(found, indent=1) + "\n")
        picture.draw(found, path.with_suffix(".png"))
    except OSError as error:
        reason = f"cannot write {path}: {error.strerror}"
        raise RunError(f"{reason}; choose another --out") from error


def parser() -> Parser:
    """The flags."""
    about = "Measure training steps on a CPU, beside other libraries and beside SGEMM."
    found = Parser("python benchmarks/cpu.py", about)

    def flag(name, text, **keywords):
        found.add_argument(name, help=text, **keywords)

    names = {"nargs": "+", "metavar": "NAME"}
    flag("--works", f"only these: {', '.join(PARTS)}", choices=PARTS, **names)
    others = ", ".join(map(repr, peers.PEERS))
    beside = f"beside ours only {others}; for {', '.join(WORKS)}"
    flag("--candidates", beside, choices=peers.PEERS, **names)
    turns = f"rounds in which candidates take turns (default: {ROUNDS}; 2 if --quick)"
    flag("--rounds", turns, type=at_least_one, metavar="N")
    first = "a first look: `quick` and `engine`, fewer rounds, about a minute"
    flag("--quick", first, action="store_true")
    usual = f"{RESULTS.relative_to(HERE.parent)} for all works, else nowhere"
    out = f"write the results here, and a .png beside it (default: {usual})"
    flag("--out", out, type=json_file, metavar="FILE.json")
    return found


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    options = parser().parse_args(argv)
    rounds = (
        (2 if options.quick else ROUNDS) if options.rounds is None else options.rounds
    )
    usual = ["quick", "engine"] if options.quick else list(PARTS)
    if options.candidates:  # only these have candidates that one can choose
        usual = [part for part in usual if part in WORKS]
    parts = options.works or usual
    whole = set(parts) == set(PARTS) and not (options.quick or options.candidates)
    out = options.out or (RESULTS if whole else None)
    if options.candidates and not set(parts) & set(WORKS):
        works = ", ".join(WORKS)
        raise UsageError(f"--candidates is for {works}; add one of them to --works")
    wanted = options.candidates or tuple(peers.PEERS)
    found = measure_all(parts, rounds, options.quick, wanted)
    if out:
        write(found, out)
        say(f"written: {out}" + (f" and {out.stem}.png" if found["rows"] else ""))
    print(markdown(found), end="")
    return 0


if __name__ == "__main__":
    run_main(main)
