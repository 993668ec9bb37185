"""The training step of the Relational Memory Core on a CPU, beside other libraries and
beside SGEMM: python benchmarks/cpu.py

Every candidate (candidates.py, peers.py) runs in a process of its own, on as many cores
as it may use. Its loss and gradient are compared before it is timed, and one that
differs stops everything. First each is tried on all cores, then on ..., 4, 2, 1, until
that is much slower than its best. What remains is timed in turn, over several rounds,
so that a disturbance hits all. A round's time is the median of its steps, a candidate's
the median of its rounds at its best setting. What NumPy's BLAS reaches in matrix
products, SGEMM, has a turn in every round at every size, and is the median of them all.

Results go to a JSON file and a picture beside it. The tables that a document shows are
printed, and are `markdown` of the file (report.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import peers
from candidates import APART, THREADS, TOGETHER, Work
from report import cells, markdown, milliseconds

from tinyrmc.commands import Parser, run_main
from tinyrmc.errors import RunError, UsageError
from tinyrmc.training.workers import CAN_FORK, available_cores

HERE = Path(__file__).resolve().parent
CPUS = Path("/sys/devices/system/cpu")
RESULTS = HERE / "results" / "cpu.json"

WORKS = {
    "large": Work(1600, 8, 256),
    "small": Work(128, 8, 64),
    "quick": Work(256, 4, 64, 4),
    "dnc": Work(128, 80, 64, 8, 4, "dnc"),
}
OVER_NUMPY = ("HIPS autograd", "MyGrad")  # timed on `small` alone, for orientation
COMPILED = (
    "torch.compile",
    "JAX jit",
)  # not timed on `dnc`: they take minutes to compile its eight steps
MIDDLE = Work(256, 8, 128)  # of the sweeps
SWEEPS = {
    "batch": (32, 64, 128, 256, 512, 1024),
    "slots": (2, 4, 8, 16, 32),
    "width": (32, 64, 128, 256, 512),
    "steps": (2, 4, 8, 16),
}
PARTS = (*WORKS, "sweeps", "sharing", "engine", "ranks")

ROUNDS, ROUND_SECONDS = 5, 1.0
# settings slower than a candidate's best by this factor, at the first try, are given
# up, and smaller ones not tried
NEAR = 1.3
# relative; float32 comes to about 1e-6, but to more than this in sequences of 32
LARGEST_ERROR = 1e-5

# What a shell may hold that makes BLAS or a library faster or slower: none of it reaches
# a candidate.
TUNING = (
    "OPENBLAS_",
    "GOTO_",
    "BLIS_",
    "MKL_",
    "VECLIB_",
    "OMP_",
    "GOMP_",
    "KMP_",
    "XLA_",
    "JAX_",
    "TORCH",
)


class Differs(RunError):
    """A candidate does not compute what the others do."""


class Broken(Exception):
    """A candidate's process ended; the text is the last line it said."""


def leave_out(name: str, cores: int, broken: Broken) -> None:
    """Say that a peer fails on so many cores.

    RunError if the name is none of theirs: without ours or SGEMM there is nothing to
    compare.
    """
    fails = f"{name} fails on {cores} core{'s' * (cores > 1)}"
    if name not in peers.PEERS:
        raise RunError(f"{fails}: {broken}; nothing is written") from None
    say(f"  {fails}, which is left out: {broken}")


def say(text: str) -> None:
    """Progress goes to stderr, so that stdout is the tables alone."""
    print(text, file=sys.stderr, flush=True)


# --- processes ------------------------------------------------------------------------


def tuning_variables() -> list[str]:
    """The environment variables that are set here and kept from the candidates."""
    return sorted(name for name in os.environ if name.startswith(TUNING))


def surroundings(folder: str) -> dict[str, str]:
    """The environment of a process.

    What torch.compile makes goes to `folder`: shared, code made for one thread would
    serve four.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in tuning_variables()
    }
    path = os.pathsep.join([str(HERE.parent), *filter(None, [kept.get("PYTHONPATH")])])
    return kept | {
        "PYTHONPATH": path,
        "JAX_PLATFORMS": "cpu",
        "TORCHINDUCTOR_CACHE_DIR": folder,
    }


def run_python(*arguments, python: str = sys.executable) -> str:
    """What a new Python prints. RunError with its last line, if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, *map(str, arguments)],
            env=surroundings(folder),
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RunError(
            f"python {Path(arguments[0]).name} failed: "
            f"{(done.stderr.strip().splitlines() or ['it was killed'])[-1]}"
        )
    return done.stdout


@contextlib.contextmanager
def limited_to(cores: int):
    """Processes started in here get so many cores, where the system can say so (Linux)."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, spread_out(before)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def spread_out(cpus: set[int]) -> list[int]:
    """CPU numbers, one of each physical core first: two threads of one core are no two
    cores. In order where Linux does not tell.
    """
    threads: dict = {}  # those of each core
    for cpu in sorted(cpus):
        try:
            core = (
                CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list"
            ).read_text()
        except OSError:
            core = cpu
        threads.setdefault(core, []).append(cpu)
    return [
        cpu
        for turn in itertools.zip_longest(*threads.values())
        for cpu in turn
        if cpu is not None
    ]


class Candidate:
    """A candidate's process on `cores` cores.

    `hello` is what it reported when it was ready, `rounds` the times so far, in
    seconds.
    """

    def __init__(
        self,
        name: str,
        cores: int,
        problem: Path | None = None,
        python: str = sys.executable,
    ):
        self.name, self.cores, self.rounds = name, cores, []
        self._folder = tempfile.TemporaryDirectory()
        self._said = Path(self._folder.name) / "said.txt"
        command = [python, HERE / "candidates.py", name, *filter(None, [problem])]
        with limited_to(cores), open(self._said, "w") as said:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                env=surroundings(self._folder.name),
            )
        try:
            self.hello = self._reply()
        except BaseException:
            self.close()
            raise

    def time(self, seconds: float) -> None:
        """Measure one round of about so many seconds. Broken if the process has ended."""
        with contextlib.suppress(BrokenPipeError):  # then there is no reply either
            print(seconds, file=self._process.stdin, flush=True)
        self.rounds.append(self._reply())

    @property
    def seconds(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.rounds)

    def _reply(self):
        line = self._process.stdout.readline()
        if not line.endswith("\n"):  # it may have ended in the middle of one
            raise Broken(
                (
                    self._said.read_text().strip().splitlines()
                    or ["it was killed, or out of memory"]
                )[-1]
            )
        return json.loads(line)

    def close(self) -> None:
        """End the process. A second call does nothing."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


# --- measuring ------------------------------------------------------------------------


def core_counts(cores: int) -> list[int]:
    """All cores and the powers of two below, the largest first."""
    return [cores, *reversed([2**k for k in range(cores.bit_length()) if 2**k < cores])]


def make_problem(stack: contextlib.ExitStack, work: Work) -> Path:
    """The file of a problem (candidates.py), which the stack removes."""
    problem = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "problem.npz"
    run_python(
        HERE / "candidates.py",
        "problem",
        json.dumps(dataclasses.astuple(work)),
        problem,
    )
    return problem


def start(
    stack: contextlib.ExitStack,
    name: str,
    counts: list[int],
    problem: Path,
    seconds: float,
) -> list[Candidate]:
    """A candidate on each number of cores that is not much slower than its best one;
    nothing is in their rounds yet. The stack ends them.

    The trying ends where a peer breaks, which may leave none. Differs and RunError as
    in `started`.
    """
    tried, limit = [], math.inf
    for cores in counts:
        candidate = started(stack, name, cores, problem)
        if candidate is None or not take_turns([candidate], 1, seconds):
            break
        tried.append(candidate)
        say(
            f"  {name}, {cores} core{'s' * (cores > 1)}, first try: "
            f"{milliseconds(candidate.seconds)} ms"
        )
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

    RunError if it is another that does not run, Differs if its first step is not the
    problem's.
    """
    try:
        candidate = Candidate(name, cores, *arguments)
    except Broken as broken:
        leave_out(name, cores, broken)
        return None
    stack.callback(candidate.close)
    for what, error in candidate.hello.get("errors", {}).items():
        if not error <= LARGEST_ERROR:
            raise Differs(
                f"{name}: its {what} is off by {error:.1e} of its value; nothing is "
                "written"
            )
    return candidate


def take_turns(
    running: list[Candidate], rounds: int, seconds: float
) -> list[Candidate]:
    """Time all of them in each round.

    Returns those that still run: a peer that breaks is left out. RunError if it is
    another.
    """
    running = list(running)
    for _ in range(rounds):
        for candidate in list(running):
            try:
                candidate.time(seconds)
            except Broken as broken:
                leave_out(candidate.name, candidate.cores, broken)
                running.remove(candidate)
    return running


def measure(
    work: Work, names: list[str], products: list[Candidate], rounds: int, seconds: float
) -> dict:
    """One row of the results: ours and the peers in `names` at one size, in rounds in
    which SGEMM's `products` have their turn too.

    What is relative to SGEMM is for `relate`. Differs and RunError as in `started`.
    """
    with contextlib.ExitStack() as stack:
        problem, counts = make_problem(stack, work), core_counts(available_cores())
        running = [
            candidate
            for name in ("ours", *names)
            for candidate in start(stack, name, counts, problem, seconds / 2)
        ]
        remaining = take_turns([*running, *products], rounds, seconds)
    settings = {
        name: [candidate for candidate in remaining if candidate.name == name]
        for name in ("ours", *names)
    }
    return row_of(
        work,
        {
            name: min(found, key=lambda candidate: candidate.seconds)
            for name, found in settings.items()
            if found
        },
    )


def row_of(work: Work, best: dict[str, Candidate]) -> dict:
    """What the results keep of the candidates at their best settings."""
    ours = best["ours"].seconds
    others = {
        name: candidate.seconds for name, candidate in best.items() if name != "ours"
    }
    return {
        "size": str(work),
        **dataclasses.asdict(work),
        "ours_seconds": ours,
        "peers": others,
        "ratio_to_fastest": ours / min(others.values()) if others else None,
        "flops": work.flops,
        "cores": {name: candidate.cores for name, candidate in best.items()},
        "rounds": {name: candidate.rounds for name, candidate in best.items()},
        "gradient_errors": {
            name: candidate.hello["errors"]["gradient"]
            for name, candidate in best.items()
        },
    }


def relate(rows: list[dict], products: list[Candidate]) -> None:
    """Give each row SGEMM's speed in floating-point operations a second, the faster
    form's, and the fraction of it that ours reaches.
    """
    sgemm = max(candidate.hello["flops"] / candidate.seconds for candidate in products)
    for row in rows:
        row |= {
            "sgemm": sgemm,
            "sgemm_fraction": row["flops"]
            and row["flops"] / row["ours_seconds"] / sgemm,
        }


def installed_peers() -> list[str]:
    """The peers that can be tried here; says which are missing."""
    found = [
        name
        for name, (_, module) in peers.PEERS.items()
        if importlib.util.find_spec(module)
    ]
    if missing := [name for name in peers.PEERS if name not in found]:
        say(f"not installed, left out: {', '.join(missing)}; pip install -e '.[bench]'")
    return found


def sweep_works() -> list[tuple[str, Work]]:
    """(what changes, size) of every point of the sweeps."""
    return [
        (name, dataclasses.replace(MIDDLE, **{name: value}))
        for name, values in SWEEPS.items()
        for value in values
    ]


def engine_costs(steps: int) -> dict:
    """What costs.py measures, memory over so many steps."""
    measured = {
        name: json.loads(run_python(HERE / "costs.py", name))
        for name in ("overhead", "unroll")
    }
    return {
        "overhead_microseconds": measured["overhead"],
        "backward_to_forward_peak": measured["unroll"],
        "growth_mib": json.loads(run_python(HERE / "costs.py", "growth", steps)),
        "growth_steps": steps,
    }


def weak_scaling() -> list[dict]:
    """The rows {ranks, seconds_per_step, efficiency} of scaling.py; none, and a
    message, where mpi4py or mpiexec is missing.
    """
    try:
        return [
            json.loads(line) for line in run_python(HERE / "scaling.py").splitlines()
        ]
    except RunError as failed:
        say(f"the rows of MPI ranks are left out: {failed}")
        return []


def machine() -> dict:
    """Where this is measured, as the candidates see it, and with which versions."""
    seen = json.loads(
        run_python(
            "-c",
            "import json, tinyrmc; from tinyrmc.runs import environment; "
            "print(json.dumps(environment(tinyrmc.__version__)))",
        )
    )
    versions = {name: seen[name] for name in ("tinyrmc", "python", "numpy")}
    for module in dict.fromkeys(module for _, module in peers.PEERS.values()):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[module] = importlib.metadata.version(module)
    return {
        **{
            name: seen[name]
            for name in ("date", "git_commit", "platform", "processor", "cores", "blas")
        },
        "versions": versions,
        "load_before": round(os.getloadavg()[0], 2)
        if hasattr(os, "getloadavg")
        else None,
        "environment_removed": tuning_variables(),
    }


def share(free_threaded: str | None, rounds: int, seconds: float) -> list[dict]:
    """The rows {kind, workers, seconds, rounds} of ours on `small`, each worker on a
    core: processes, threads, and threads without the GIL.

    free_threaded: a Python for the last kind, or None.
    """
    kinds = {"processes": ("ours", sys.executable)} if CAN_FORK else {}
    kinds["threads"] = (THREADS, sys.executable)
    if free_threaded:
        kinds[f"threads, Python {free_threaded_version(free_threaded)} without GIL"] = (
            THREADS,
            free_threaded,
        )
    workers, found = sorted(core_counts(available_cores())), []
    with contextlib.ExitStack() as stack:
        problem = make_problem(stack, WORKS["small"])
        for kind, (name, python) in kinds.items():
            found += [
                (kind, started(stack, name, count, problem, python))
                for count in workers
            ]
        take_turns([candidate for _, candidate in found], rounds, seconds)
    return [
        {
            "kind": kind,
            "workers": candidate.cores,
            "seconds": candidate.seconds,
            "rounds": candidate.rounds,
        }
        for kind, candidate in found
    ]


def free_threaded_version(python: str) -> str:
    """Its version.

    UsageError if it is no Python that runs NumPy's threads without the GIL.
    """
    code = (
        "import platform, numpy, threadpoolctl, tinyrmc.parallel as p; "
        "print(platform.python_version(), p.GIL)"
    )
    remedy = (
        "give the path of a free-threaded Python that has numpy and threadpoolctl, "
        "such as python3.14t"
    )
    try:
        version, gil = run_python("-c", code, python=python).split()
    except (OSError, RunError, ValueError) as error:
        raise UsageError(
            f"--free-threaded {python} does not run ({error}); {remedy}"
        ) from None
    if gil == "True":
        raise UsageError(
            f"--free-threaded {python} is a Python {version} with the GIL; {remedy}"
        )
    return version


def measure_all(
    parts: list[str],
    rounds: int,
    quick: bool = False,
    free_threaded: str | None = None,
    wanted: Sequence[str] = tuple(peers.PEERS),
) -> dict:
    """What a results file holds; parts that were not asked for are empty. wanted: the
    peers that may run.
    """
    found = {
        "benchmark": "cpu",
        **machine(),
        "rows": [],
        "sweeps": [],
        "sharing": [],
        "engine": {},
        "ranks": [],
    }
    removed = (
        f"; not passed on: {', '.join(found['environment_removed'])}"
        if found["environment_removed"]
        else ""
    )
    say(
        f"{found['processor']}, {found['cores']} cores, load {found['load_before']}, "
        f"{found['blas']}{removed}"
    )
    works = [part for part in parts if part in WORKS]
    if works or "sweeps" in parts:
        found |= measure_sizes(works, "sweeps" in parts, rounds, quick, wanted)
    if "sharing" in parts:
        found["sharing"] = share(free_threaded, rounds, ROUND_SECONDS)
    if "engine" in parts:
        found["engine"] = engine_costs(1000 if quick else 10_000)
    if "ranks" in parts:
        found["ranks"] = weak_scaling()
    return found


def measure_sizes(
    works: list[str],
    sweeping: bool,
    rounds: int,
    quick: bool,
    wanted: Sequence[str] = tuple(peers.PEERS),
) -> dict:
    """{"rows": [...], "sweeps": [...], "sgemm_rounds": {...}}: the works by name, and
    the sweeps if they are wanted.
    """
    installed, rows, sweeps = (
        [name for name in installed_peers() if name in wanted] if works else [],
        [],
        [],
    )
    with contextlib.ExitStack() as stack:
        products = [
            started(stack, name, available_cores()) for name in (TOGETHER, APART)
        ]
        for work in works:
            left_out = {"torch.compile"} if quick else set()
            left_out |= set() if work == "small" else set(OVER_NUMPY)
            left_out |= set(COMPILED) if work == "dnc" else set()
            names = [name for name in installed if name not in left_out]
            rows.append(
                {
                    "work": work,
                    **measure(WORKS[work], names, products, rounds, ROUND_SECONDS),
                }
            )
            say("  ".join(cells(rows[-1])))
        measured = {}  # the middle is a point of every sweep
        for sweep, work in sweep_works() if sweeping else []:
            if work not in measured:
                measured[work] = measure(
                    work, [], products, min(rounds, 3), ROUND_SECONDS / 2
                )
            sweeps.append({"sweep": sweep, **measured[work]})
            say("  ".join(cells(sweeps[-1])))
    relate([*rows, *sweeps], products)
    return {
        "rows": rows,
        "sweeps": sweeps,
        "sgemm_rounds": {product.name: product.rounds for product in products},
    }


# --- the command line -----------------------------------------------------------------


def write(found: dict, path: Path) -> None:
    """The JSON file and the picture beside it. RunError if that cannot be."""
    import picture

    try:
        path.write_text(json.dumps(found, indent=1) + "\n")
        picture.draw(found, path.with_suffix(".png"))
    except OSError as error:
        raise RunError(
            f"cannot write {path}: {error.strerror}; choose another --out"
        ) from error


def read(path: Path) -> dict:
    """A results file. RunError if it is none."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RunError(
            f"cannot read {path}: {error}; give a file that --out has written"
        ) from error
    if not isinstance(found, dict) or found.get("benchmark") != "cpu":
        raise RunError(
            f"{path} holds other results; give a file that --out has written"
        )
    return found


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(
        prog="python benchmarks/cpu.py", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--works",
        nargs="+",
        choices=PARTS,
        metavar="NAME",
        help=f"only these: {', '.join(PARTS)}",
    )
    parser.add_argument(
        "--candidates",
        nargs="+",
        choices=peers.PEERS,
        metavar="NAME",
        help=f"beside ours only these: {', '.join(map(repr, peers.PEERS))}",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help=f"rounds in which candidates take turns (default: {ROUNDS}; 2 if --quick)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a first look: two works, fewer candidates and rounds, about a minute",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE.json",
        help="write the results here, and a .png beside it (default: "
        f"{RESULTS.relative_to(HERE.parent)} for all works, else nowhere)",
    )
    parser.add_argument(
        "--free-threaded",
        metavar="PYTHON",
        help="one without the GIL, for another column of `sharing`",
    )
    parser.add_argument(
        "--table",
        type=Path,
        metavar="FILE.json",
        help="measure nothing: print the tables of these results",
    )
    options = parser.parse_args(argv)
    if options.table:
        print(markdown(read(options.table)), end="")
        return 0

    rounds = (
        options.rounds
        if options.rounds is not None
        else (2 if options.quick else ROUNDS)
    )
    parts = options.works or (["quick", "engine"] if options.quick else list(PARTS))
    whole = set(parts) == set(PARTS) and not (options.quick or options.candidates)
    out = options.out or (RESULTS if whole else None)
    if rounds < 1:
        raise UsageError(f"--rounds must be at least 1, not {rounds}")
    if out and (
        out.suffix != ".json" or not os.access(out.parent, os.W_OK)
    ):  # better now than after all the measuring
        raise UsageError(
            f"--out {out} must be a .json file in a folder that exists and can be "
            "written to"
        )
    if options.free_threaded:
        if "sharing" not in parts:
            raise UsageError(
                "--free-threaded is for the part `sharing`; add it to --works"
            )
        free_threaded_version(options.free_threaded)
    found = measure_all(
        parts,
        rounds,
        options.quick,
        options.free_threaded,
        options.candidates or tuple(peers.PEERS),
    )
    if out:
        write(found, out)
        say(f"written: {out} and {out.with_suffix('.png').name}")
    print(markdown(found), end="")
    return 0


if __name__ == "__main__":
    run_main(main)
