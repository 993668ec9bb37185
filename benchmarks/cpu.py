"""The training step of the Relational Memory Core on a CPU, beside other libraries and beside SGEMM: python benchmarks/cpu.py

Every candidate (candidates.py, peers.py) runs in a process of its own, on as many cores as it may use. Its loss and gradient are compared
before it is timed, and one that differs stops everything. First each is tried on all cores, then on ..., 4, 2, 1, until that is much
slower than its best. What remains is timed in turn, over several rounds, so that a disturbance hits all. A round's time is the median of
its steps, a candidate's the median of its rounds at its best setting. What NumPy's BLAS reaches in matrix products, SGEMM, is one more
candidate, measured in the same rounds.

Results go to a JSON file and a picture beside it. The tables that a document shows are printed, and are `markdown` of the file (report.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import peers
from candidates import APART, TOGETHER, Work
from report import cells, markdown, milliseconds

from tinyrmc.commands import Parser, UsageError, run_main
from tinyrmc.parallel import available_cores
from tinyrmc.runs import RunError

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "cpu.json"

WORKS = {"large": Work(1600, 8, 256), "small": Work(128, 8, 64), "quick": Work(256, 4, 64, 4)}
OVER_NUMPY = ("HIPS autograd", "MyGrad")  # timed on `small` alone, for orientation
MIDDLE = Work(256, 8, 128)  # of the sweeps
SWEEPS = {"batch": (32, 64, 128, 256, 512, 1024), "slots": (2, 4, 8, 16, 32), "width": (32, 64, 128, 256, 512), "steps": (2, 4, 8, 16)}
PARTS = (*WORKS, "sweeps", "engine", "ranks")

ROUNDS, ROUND_SECONDS = 5, 1.0
NEAR = 1.3  # settings slower than a candidate's best by this factor, at the first try, are given up, and smaller ones not tried
LARGEST_ERROR = 1e-5  # relative; float32 comes to about 1e-6, but to more than this in sequences of 32

# What a shell may hold that makes BLAS or a library faster or slower: none of it reaches a candidate.
TUNING = ("OPENBLAS_", "GOTO_", "BLIS_", "MKL_", "VECLIB_", "OMP_", "GOMP_", "KMP_", "XLA_", "JAX_", "TORCH")


class Differs(RunError):
    """A candidate does not compute what the others do."""


class Broken(Exception):
    """A candidate's process ended; the text is the last line it said."""


def say(text: str) -> None:
    """Progress goes to stderr, so that stdout is the tables alone."""
    print(text, file=sys.stderr, flush=True)


# --- processes ----------------------------------------------------------------------------------------------------------------------------


def tuning_variables() -> list[str]:
    """The environment variables that are set here and kept from the candidates."""
    return sorted(name for name in os.environ if name.startswith(TUNING))


def surroundings(folder: str) -> dict[str, str]:
    """The environment of a process. What torch.compile makes goes to `folder`: shared, code made for one thread would serve four."""
    kept = {name: value for name, value in os.environ.items() if name not in tuning_variables()}
    path = os.pathsep.join([str(HERE.parent), *filter(None, [kept.get("PYTHONPATH")])])
    return kept | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "TORCHINDUCTOR_CACHE_DIR": folder}


def run_python(*arguments) -> str:
    """What a new Python prints. RunError with its last line, if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, *map(str, arguments)], env=surroundings(folder), capture_output=True, text=True)
    if done.returncode:
        raise RunError(f"{Path(arguments[0]).name} failed: {(done.stderr.strip().splitlines() or ['it was killed'])[-1]}")
    return done.stdout


@contextlib.contextmanager
def limited_to(cores: int):
    """Processes started in here get so many cores, where the system can say so (Linux)."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Candidate:
    """A candidate's process on `cores` cores. `hello` is what it reported when it was ready, `rounds` the times so far, in seconds."""

    def __init__(self, name: str, cores: int, problem: Path):
        self.name, self.cores, self.rounds = name, cores, []
        self._folder = tempfile.TemporaryDirectory()
        self._said = Path(self._folder.name) / "said.txt"
        command = [sys.executable, HERE / "candidates.py", name, problem]
        with limited_to(cores), open(self._said, "w") as said:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, env=surroundings(self._folder.name)
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
        if not line:
            raise Broken((self._said.read_text().strip().splitlines() or ["it was killed, or out of memory"])[-1])
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


# --- measuring ----------------------------------------------------------------------------------------------------------------------------


def core_counts(cores: int) -> list[int]:
    """All cores and the powers of two below, the largest first."""
    return [cores, *reversed([2**k for k in range(cores.bit_length()) if 2**k < cores])]


def start(name: str, counts: list[int], problem: Path, seconds: float) -> list[Candidate]:
    """A candidate on each number of cores that is not much slower than its best one; nothing is in their rounds yet.

    Differs if its first step is not the problem's, Broken if it does not run.
    """
    tried: list[Candidate] = []
    try:
        for cores in counts:
            tried.append(Candidate(name, cores, problem))
            check(tried[-1])
            tried[-1].time(seconds)
            say(f"  {name}, {cores} core{'s' * (cores > 1)}, first try: {milliseconds(tried[-1].seconds)} ms")
            limit = NEAR * min(candidate.seconds for candidate in tried)
            if tried[-1].seconds > limit:
                break
    except BaseException:
        for candidate in tried:
            candidate.close()
        raise
    for slow in [candidate for candidate in tried if candidate.seconds > limit]:
        slow.close()
        tried.remove(slow)
    for candidate in tried:
        candidate.rounds.clear()
    return tried


def check(candidate: Candidate) -> None:
    """Differs if a candidate's first step is not the problem's."""
    for what, error in candidate.hello.get("errors", {}).items():
        if not error <= LARGEST_ERROR:
            raise Differs(f"{candidate.name}: its {what} is off by {error:.1e} of its value; nothing was measured")


def measure(work: Work, names: list[str], rounds: int, seconds: float) -> dict:
    """One row of the results: ours and the peers in `names` at one size, in rounds of about so many seconds each.

    A peer that does not run is left out. Differs as in `start`.
    """
    counts, running = core_counts(available_cores()), {}
    with contextlib.ExitStack() as stack:
        problem = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "problem.npz"
        run_python(HERE / "candidates.py", "problem", json.dumps(dataclasses.astuple(work)), problem)
        for name in ("ours", *names, TOGETHER, APART):
            try:
                running[name] = start(name, counts[:1] if name in (TOGETHER, APART) else counts, problem, seconds / 2)
            except Broken as broken:
                if name not in names:
                    raise RunError(f"{name} failed at {work}: {broken}") from None
                say(f"{name} fails at {work} and is left out: {broken}")
                continue
            for candidate in running[name]:
                stack.callback(candidate.close)
        for _ in range(rounds):
            for candidate in [candidate for settings in running.values() for candidate in settings]:
                candidate.time(seconds)
    best = {name: min(settings, key=lambda candidate: candidate.seconds) for name, settings in running.items()}
    sgemm = max(candidate.hello["flops"] / candidate.seconds for candidate in (best.pop(TOGETHER), best.pop(APART)))
    return row_of(work, best, sgemm)


def row_of(work: Work, best: dict[str, Candidate], sgemm: float) -> dict:
    """What the results keep of the candidates at their best settings; `sgemm` in floating-point operations a second."""
    ours = best["ours"].seconds
    others = {name: candidate.seconds for name, candidate in best.items() if name != "ours"}
    return {
        "size": str(work),
        **dataclasses.asdict(work),
        "ours_seconds": ours,
        "peers": others,
        "ratio_to_fastest": ours / min(others.values()) if others else None,
        "flops": work.flops,
        "sgemm": sgemm,
        "sgemm_fraction": work.flops / ours / sgemm,
        "cores": {name: candidate.cores for name, candidate in best.items()},
        "rounds": {name: candidate.rounds for name, candidate in best.items()},
        "gradient_errors": {name: candidate.hello["errors"]["gradient"] for name, candidate in best.items()},
    }


def installed_peers() -> list[str]:
    """The peers that can be tried here; says which are missing."""
    found = [name for name, (_, module) in peers.PEERS.items() if importlib.util.find_spec(module)]
    if missing := [name for name in peers.PEERS if name not in found]:
        say(f"not installed, left out: {', '.join(missing)}; pip install -e '.[bench]'")
    return found


def sweep_works() -> list[tuple[str, Work]]:
    """(what changes, size) of every point of the sweeps."""
    return [(name, dataclasses.replace(MIDDLE, **{name: value})) for name, values in SWEEPS.items() for value in values]


def engine_costs(steps: int) -> dict:
    """What costs.py measures, memory over so many steps."""
    measured = {name: json.loads(run_python(HERE / "costs.py", name)) for name in ("overhead", "unroll")}
    return {
        "overhead_microseconds": measured["overhead"],
        "backward_to_forward_peak": measured["unroll"],
        "growth_mib": json.loads(run_python(HERE / "costs.py", "growth", steps)),
        "growth_steps": steps,
    }


def weak_scaling() -> list[dict]:
    """The rows {ranks, seconds_per_step, efficiency} of scaling.py; none, and a message, where mpi4py or mpiexec is missing."""
    try:
        return [json.loads(line) for line in run_python(HERE / "scaling.py").splitlines()]
    except RunError as failed:
        say(f"the rows of MPI ranks are left out: {failed}")
        return []


def machine() -> dict:
    """Where this is measured, as the candidates see it, and with which versions."""
    seen = json.loads(run_python("-c", "import json; from tinyrmc.runs import environment; print(json.dumps(environment()))"))
    versions = {name: seen[name] for name in ("tinyrmc", "python", "numpy")}
    for module in dict.fromkeys(module for _, module in peers.PEERS.values()):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[module] = importlib.metadata.version(module)
    return {
        **{name: seen[name] for name in ("date", "git_commit", "platform", "processor", "cores", "blas")},
        "versions": versions,
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "environment_removed": tuning_variables(),
    }


def measure_all(parts: list[str], rounds: int, quick: bool = False) -> dict:
    """What a results file holds; parts that were not asked for are empty."""
    found = {"benchmark": "cpu", **machine(), "rows": [], "sweeps": [], "engine": {}, "ranks": []}
    removed = f"; not passed on: {', '.join(found['environment_removed'])}" if found["environment_removed"] else ""
    say(f"{found['processor']}, {found['cores']} cores, load {found['load_before']}, {found['blas']}{removed}")
    installed = installed_peers() if set(parts) & set(WORKS) else []
    for work in [part for part in parts if part in WORKS]:
        names = [name for name in installed if (work == "small" or name not in OVER_NUMPY) and not (quick and name == "torch.compile")]
        found["rows"].append({"work": work, **measure(WORKS[work], names, rounds, ROUND_SECONDS)})
        say("  ".join(cells(found["rows"][-1])))
    measured = {}  # the middle is a point of every sweep
    for sweep, work in sweep_works() if "sweeps" in parts else []:
        if work not in measured:
            measured[work] = measure(work, [], min(rounds, 3), ROUND_SECONDS / 2)
        found["sweeps"].append({"sweep": sweep, **measured[work]})
        say("  ".join(cells(found["sweeps"][-1])))
    if "engine" in parts:
        found["engine"] = engine_costs(1000 if quick else 10_000)
    if "ranks" in parts:
        found["ranks"] = weak_scaling()
    return found


# --- the command line ---------------------------------------------------------------------------------------------------------------------


def write(found: dict, path: Path) -> None:
    """The JSON file and the picture beside it. RunError if that cannot be."""
    import picture

    try:
        path.write_text(json.dumps(found, indent=1) + "\n")
        picture.draw(found, path.with_suffix(".png"))
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}; choose another --out") from error


def read(path: Path) -> dict:
    """A results file. RunError if it is none."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path}: {error}; give a file that --out has written") from error
    if not isinstance(found, dict) or found.get("benchmark") != "cpu":
        raise RunError(f"{path} holds other results; give a file that --out has written")
    return found


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="python benchmarks/cpu.py", description=__doc__.splitlines()[0])
    parser.add_argument("--works", nargs="+", choices=PARTS, metavar="NAME", help=f"only these: {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"rounds in which candidates take turns (default: {ROUNDS}; 2 if --quick)")
    parser.add_argument("--quick", action="store_true", help="a first look: two works, fewer candidates and rounds, about a minute")
    parser.add_argument(
        "--out", type=Path, metavar="FILE.json",
        help=f"write the results here, and a .png beside it (default: {RESULTS.relative_to(HERE.parent)} for all works, else nowhere)",
    )  # fmt: skip
    parser.add_argument("--table", type=Path, metavar="FILE.json", help="measure nothing: print the tables of these results")
    options = parser.parse_args(argv)
    if options.table:
        print(markdown(read(options.table)), end="")
        return 0

    rounds = options.rounds if options.rounds is not None else (2 if options.quick else ROUNDS)
    parts = options.works or (["quick", "engine"] if options.quick else list(PARTS))
    out = options.out or (RESULTS if set(parts) == set(PARTS) and not options.quick else None)
    if rounds < 1:
        raise UsageError(f"--rounds must be at least 1, not {rounds}")
    if out and (out.suffix != ".json" or not os.access(out.parent, os.W_OK)):  # better now than after all the measuring
        raise UsageError(f"--out {out} must be a .json file in a folder that exists and can be written to")
    found = measure_all(parts, rounds, options.quick)
    if out:
        write(found, out)
        say(f"written: {out} and {out.with_suffix('.png').name}")
    print(markdown(found), end="")
    return 0


if __name__ == "__main__":
    run_main(main)
