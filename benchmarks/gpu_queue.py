"""Runs the most valuable works first while a GPU is there, and goes on another time.

    python benchmarks/gpu_queue.py --minutes 14 --folder gpu

The list below is in the order of worth. First the speed of an agent's update is
measured, then each training goes on where it stopped, until it is done or the minutes
are over. Everything lies in the folder: runs with their checkpoints, what each command
printed, and the measured times. Copy it from one GPU to the next, and the next call
takes up the first that is not done. A training that fails is left for the next call.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

import gpu

from tinyrmc import backend
from tinyrmc.cli.commands import Parser, run_main
from tinyrmc.cli.sweep import Cell, run_logged
from tinyrmc.errors import UsageError

HERE = Path(__file__).resolve().parent
LEAST = 0.5  # minutes with which a training is worth going on
MEASURING = 4  # minutes for the speed of an agent

# 1e9 steps in the world, of 1,024 levels at once; the encoder of the paper's agents
BOXES = (
    "box_world full --model.encoder conv --train.batch-size 1024 --train.steps 48829 "
    "--train.learning-rate 1e-3"
)
# 3e8 steps
MAZES = "mini_pacman quick --train.batch-size 1024 --train.steps 14649"
WIDE = "nth_farthest ladder --data.dimensions 32 --tf32 --data.stages 3 1 3 2 3 4 3 8 "
WIDE += "3 16 3 32 4 32 5 32 6 32 7 32"
QUEUE = {
    "box_world-rmc": BOXES,
    "box_world-lstm": f"{BOXES} --model.core lstm",
    "pacman-rmc": MAZES,
    "pacman-lstm": f"{MAZES} --model.core lstm",
    "pacman-none": f"{MAZES} --model.core feedforward",
    "pacman-whole-rmc": f"{MAZES} --world.view whole --model.encoder conv",
    "pacman-whole-lstm": (
        f"{MAZES} --world.view whole --model.encoder conv --model.core lstm"
    ),
    "farthest-32": f"{WIDE} --train.steps 180000",
    "farthest-32-wide": f"{WIDE} --model.head-size 32 --train.steps 180000",
    "addition-5": "program_evaluation paper --data.kind addition --tf32",
    "addition-5-lstm": (
        "program_evaluation paper --data.kind addition --model.core lstm --tf32"
    ),
    "control-5": "program_evaluation paper --data.kind control --tf32",
    "control-5-lstm": (
        "program_evaluation paper --data.kind control --model.core lstm --tf32"
    ),
    "program-5": "program_evaluation paper --data.kind program --tf32",
    "program-5-lstm": (
        "program_evaluation paper --data.kind program --model.core lstm --tf32"
    ),
    "wikitext2": "language_modeling wikitext2 --tf32",
}


def measure(folder: Path, minutes: float) -> int:
    """Measure what the folder lacks of an agent's update; returns the exit code."""
    machine = backend.describe_gpu(backend.device_namespace("cuda"))
    path, known = gpu.result_path(machine, folder), {}
    if path.exists():
        for entry in json.loads(path.read_text("utf-8")).get("agents", ()):
            known[entry["preset"], entry["levels"]] = entry["rows"].keys()
    ours = {"ours, kernels", "ours, graph"}
    if all(ours <= known.get((x.preset, x.levels), set()) for x in gpu.AGENTS):
        return 0
    words = "--works", "agents", "--missing", "--out", folder, "--minutes", minutes
    return run_logged([*map(str, (HERE / "gpu.py", *words))], str(folder / "gpu.log"))


def main(
    argv: Sequence[str] | None = None,
    queue: dict[str, str] = QUEUE,
    device: str = "cuda",
) -> int:
    """The command line; returns the exit code: 1 if something failed."""
    about = "Take what is worth most next, for the minutes that a GPU is there."
    parser = Parser("python benchmarks/gpu_queue.py", about)
    says = "how long; nothing begins without half a minute left (default: 14)"
    parser.add_argument("--minutes", type=float, default=14.0, help=says)
    says = "where runs and results lie (default: gpu)"
    parser.add_argument("--folder", type=Path, default=Path("gpu"), help=says)
    says = "only say how far each has come"
    parser.add_argument("--list", action="store_true", help=says)
    options = parser.parse_args(argv)
    if not options.minutes > 0:
        raise UsageError(f"--minutes must be positive, not {options.minutes}")
    options.folder.mkdir(parents=True, exist_ok=True)
    cells = [
        Cell({}, 0, [*shlex.split(words), "--device", device], options.folder / name)
        for name, words in queue.items()
    ]
    if options.list:
        for cell in cells:
            print(f"{cell.path.name:20} {cell.state().says}")
        return 0
    end, failed = time.monotonic() + 60 * options.minutes, False
    if device == "cuda":
        failed |= bool(measure(options.folder, MEASURING))
    for cell in cells:
        left = (end - time.monotonic()) / 60
        if left < LEAST:
            break
        if not cell.state().whole:
            failed |= bool(cell.train(f"--max-minutes={left:.2f}"))
            print(f"{cell.path.name:20} {cell.state().says}", flush=True)
    return int(failed)


if __name__ == "__main__":
    run_main(main)
