"""Train a task from the command line.

    python -m tinyrmc.train                                    list tasks and presets
    python -m tinyrmc.train nth_farthest                       train the first preset
    python -m tinyrmc.train nth_farthest ladder --seed 1 --max-minutes 120
    python -m tinyrmc.train nth_farthest --help                every flag of a task
    python -m tinyrmc.train --resume runs/nth_farthest-quick-1
    mpiexec -n 4 python -m mpi4py -m tinyrmc.train nth_farthest     four ranks share each batch, on one machine or several (see ranks.py)

A run writes everything it knows into its directory (see runs.py). Ctrl-C and SIGTERM
save first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import signal
import sys
import time
from pathlib import Path

from . import __version__
from .backend import describe_gpu, has_tf32, use_tf32
from .commands import Options, parse_words, python, run_main
from .config import require_same
from .cores.config import CoreConfig, SettingsError, sizes, without_effect
from .errors import RunError, UsageError, nearest
from .results.curves import draw_run
from .results.text import counted, duration, percent, results_table
from .runs.machine import environment
from .runs.run import Onlooker, Run
from .training import discovery
from .training.checkpoints import open_checkpoint, task_from_dict
from .training.discovery import place_of
from .training.loop import Listener, run_training
from .training.ranks import Ranks, launched
from .training.task import Task
from .training.trainer import Trainer


def listing() -> str:
    """All tasks with their presets, as text."""
    lines = []
    for name in discovery.task_files():
        try:
            module = discovery.load_task(name)
        except discovery.UnknownTask as error:
            lines += [f"{name}", f"    ({error})"]
            continue
        lines.append(f"{name}  {(module.__doc__ or '').strip().splitlines()[0]}")
        width = max(map(len, module.Task.presets))
        lines += [
            f"    {preset:{width}}  {text}{'  (default)' if k == 0 else ''}"
            for k, (preset, (text, _)) in enumerate(module.Task.presets.items())
        ]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    with launched() as ranks:
        return _main(list(sys.argv[1:] if argv is None else argv), ranks)


def _main(args: list[str], ranks: Ranks) -> int:
    if not args or args[0] in ("-h", "--help"):
        print(
            "usage: python -m tinyrmc.train TASK [PRESET] [--flags]     (TASK "
            "--help: its flags)"
        )
        print(
            "       python -m tinyrmc.train --resume RUN [--workers N] "
            "[--max-minutes M]\n"
        )
        print(listing())
        return 0
    return _train(*ranks.together(lambda: _asked(args)), ranks)


def _asked(args: list[str]) -> tuple[Task, Options, dict, Run | None]:
    """What the words ask for: the task, the options, what a run's config.json says, and
    the run to resume.
    """
    run, options = _resumed(args)
    words = [args.pop(0) for _ in range(2) if args and not args[0].startswith("-")]
    if run is not None:
        resumed = task_from_dict(
            run.config
        )  # an error if the run's configuration is not what it should be
        if words and words[0] != run.config["task"]:
            raise UsageError(
                f"{run.path} is a run of {run.config['task']!r}, not {words[0]!r}; "
                f"give --resume {run.path} alone"
            )
        if len(words) > 1 and words[1] != run.config["preset"]:
            raise UsageError(
                f"{run.path} is a run of the preset {run.config['preset']!r}, not "
                f"{words[1]!r}; give --resume {run.path} alone"
            )
        words = [run.config["task"], run.config["preset"]]
    if not words:
        raise UsageError(
            "the first word must be a task; `python -m tinyrmc.train` lists them"
        )
    kind = discovery.load_task(words[0]).Task
    preset = words[1] if len(words) > 1 else next(iter(kind.presets))
    if preset not in kind.presets:
        raise UsageError(
            f"unknown preset {preset!r} of {words[0]} "
            f"({', '.join(kind.presets)}){nearest(preset, kind.presets)}"
        )
    default = kind.presets[preset][1] if run is None else resumed.config
    config, options = parse_words(words[0], preset, default, options, args)
    described = {
        "task": words[0],
        "preset": preset,
        "seed": options.seed,
        "config": dataclasses.asdict(config),
    }
    if run is not None:
        # of an older run with the fields that have come since
        whole = run.config | {"config": dataclasses.asdict(resumed.config)}
        require_same(whole, described, str(run.path))
        if options.run is not None:
            raise UsageError(
                f"--run {options.run} goes with a new run; --resume {run.path} goes "
                "on in its own directory"
            )
    return kind(config), options, described, run


def _resumed(args: list[str]) -> tuple[Run | None, Options]:
    """Take --resume RUN out of the words; the run, and options that start from its
    seed.
    """
    for k, word in enumerate(args):
        if word == "--resume" or word.startswith("--resume="):
            rest = word.partition("=")[2] or (args[k + 1] if k + 1 < len(args) else "")
            if not rest or rest.startswith("--"):
                raise UsageError(
                    "--resume needs a run directory, as in --resume "
                    "runs/nth_farthest-quick-1"
                )
            del args[k : k + (1 if "=" in word else 2)]
            run = Run.open(rest)
            before = {
                name: run.environment[name]
                for name in ("device", "tf32")
                if name in run.environment
            }
            return run, Options(seed=run.config.get("seed", 0), **before)
    return None, Options()


def _train(
    task: Task, options: Options, described: dict, run: Run | None, ranks: Ranks
) -> int:
    """Build, announce, train, report.

    Nothing is written before everything has been accepted, and by all ranks.
    """
    with contextlib.ExitStack() as held:
        if run is not None:
            run = (
                run
                if ranks.rank == 0
                else Onlooker(run.path, run.config, run.environment)
            )
            ranks.together(
                lambda: held.enter_context(run.writing())
            )  # from here on its checkpoint stays what it is
        arrays, state = ranks.together(lambda: _checkpoint(run))
        asked = ranks.each(lambda: [described, repr(options)])
        trainer = ranks.together(
            lambda: _trainer(task, options, arrays, state, ranks, asked)
        )
        trainer.require_agreement()
        if run is None:
            run = _new_run(described, options, trainer)
            ranks.together(lambda: held.enter_context(run.writing()))
            _note_unused(trainer, described["preset"])
        elif ranks.each(lambda: ranks.rank == 0 and _finished(trainer, run))[
            0
        ]:  # the others may see an older file, or none
            again = f"{python()} -m tinyrmc.evaluate {shlex.quote(str(run.path))}"
            print(
                f"{run.path} has finished already ({trainer.step:,} steps); see {again}"
            )
            return 0
        else:
            ranks.together(lambda: run.truncate_metrics(state["lines"]))
            _note_roundings(trainer, state)
        return _run(trainer, run, described, options)


def _note_unused(trainer: Trainer, preset: str) -> None:
    """Tell of settings that were given and make no difference."""
    model = getattr(trainer.task.config, "model", None)
    if isinstance(model, CoreConfig) and trainer.ranks.rank == 0:
        unused = without_effect(model, trainer.task.presets[preset][1].model)
        if unused:
            print(
                f"note: without effect on the core {model.core}: "
                f"{', '.join(f'model.{name}' for name in unused)}",
                file=sys.stderr,
            )


def _note_roundings(trainer: Trainer, state: dict) -> None:
    """Tell if other processes than at the run's beginning share the batches, which
    rounds otherwise.
    """
    ranks, workers = trainer.ranks, trainer.workers.count
    if (state.get("ranks", 1), state["workers"]) != (ranks.size, workers):
        of_ranks = [
            f" on {size} ranks" if size > 1 else ""
            for size in (state.get("ranks", 1), ranks.size)
        ]
        print(
            f"note: the run had {counted(state['workers'], 'worker')}{of_ranks[0]}, "
            f"now {workers}{of_ranks[1]}; "
            "it goes on, but not bit for bit as it would have"
        )


def _run(trainer: Trainer, run: Run, described: dict, options: Options) -> int:
    """Announce, train, report."""
    _announce(trainer, run, described, options)
    progress = Progress(trainer)
    try:
        end = run_training(trainer, run, options.max_minutes, progress)
    except MemoryError as error:
        raise _too_large(trainer.task, error) from error
    finally:
        progress.close()
        trainer.close()
    resume = (
        f"{trainer.ranks.launch(python())} tinyrmc.train --resume "
        f"{shlex.quote(str(run.path))}"
    )
    if end.startswith("SIG"):
        print(
            f"\n{end} at step {trainer.step:,}: saved. Go on with\n    {resume}",
            flush=True,
        )
        return 128 + signal.Signals[end]
    if trainer.ranks.rank == 0:
        _report(trainer, run, end, resume)
    return 0


def _checkpoint(run: Run | None) -> tuple[dict, dict]:
    """The arrays and the state to go on from; empty for a new run."""
    if run is None:
        return {}, {}
    _, arrays, state = open_checkpoint(run.path)
    if "lines" not in state:
        raise RunError(
            f"{run.checkpoint} holds the weights alone, which can be evaluated but "
            "not resumed; put the checkpoint there"
        )
    return arrays, state


def _trainer(
    task: Task, options: Options, arrays: dict, state: dict, ranks: Ranks, asked: list
) -> Trainer:
    """A Trainer, which goes on from the checkpoint if there is one, with as many
    workers as before unless told otherwise.

    UsageError if it cannot be, or if the ranks were `asked` for different things.
    """
    before = (
        state.get("workers")
        if options.device == "cpu" and state.get("ranks", 1) == ranks.size
        else None
    )
    workers, batch = options.workers or before, task.config.train.batch_size
    if any(words != asked[0] for words in asked):
        raise UsageError(
            "the ranks were started with different words; start all of them alike"
        )
    least = workers or 1
    if least > batch:
        raise UsageError(
            f"--workers {workers} is more than the {counted(batch, 'example')} of a "
            f"batch; use at most {batch}"
        )
    if least * ranks.size > batch:
        each = f" with --workers {workers} each" if workers else ""
        raise UsageError(
            f"{ranks.size} ranks{each} are more than the {counted(batch, 'example')} "
            "of a batch; use fewer"
        )
    try:
        trainer = Trainer(task, options.seed, workers, options.device, ranks=ranks)
        trainer.require_metrics()
    except (ValueError, MemoryError) as error:
        if isinstance(error, MemoryError) or str(error).startswith(
            "array is too big"
        ):  # NumPy's ValueError for what no address can reach
            raise _too_large(task, error) from error
        if place_of(error) and not isinstance(error, SettingsError):
            raise
        raise UsageError(str(error)) from error
    if options.tf32:
        if not has_tf32(trainer.xp):
            gpu = describe_gpu(trainer.xp)
            raise UsageError(
                f"--tf32: {gpu['gpu']} has compute capability "
                f"{gpu['compute_capability']}, and TF32 needs 8.0 or more; "
                "leave --tf32 out, or say --no-tf32"
            )
        use_tf32(trainer.xp, True)
    if state:
        trainer.restore(arrays, state)
    return trainer


def _too_large(task: Task, error: Exception) -> UsageError:
    """What to say when memory does not suffice: for what, and which flags would ask for
    less.
    """
    model, what = getattr(task.config, "model", None), str(error).rstrip(".")
    network = f" ({sizes(model)})" if isinstance(model, CoreConfig) else ""
    return UsageError(
        f"out of memory: {what}; choose a smaller network{network}, or fewer "
        "examples at a time (--train.piece-size)"
    )


def _new_run(described: dict, options: Options, trainer: Trainer) -> Run:
    """The directory, which rank 0 makes."""
    ranks, machine = trainer.ranks, environment(__version__)
    machine |= {
        "workers": trainer.workers.count,
        "device": options.device,
        "ranks": ranks.size,
    }
    machine |= (
        {"tf32": options.tf32, **describe_gpu(trainer.xp)}
        if options.device == "cuda"
        else {}
    )
    machine |= (
        {
            "mpi": ranks.mpi,
            "command": machine["command"].replace("python -m", ranks.launch(), 1),
        }
        if ranks.mpi
        else {}
    )

    def create():
        name = f"{described['task']}-{described['preset']}"
        return (
            str(Run.create("runs", name, described, machine, options.run).path)
            if ranks.rank == 0
            else None
        )

    path = ranks.each(create)[0]
    return (
        Run.open(path) if ranks.rank == 0 else Onlooker(Path(path), described, machine)
    )


def _finished(trainer: Trainer, run: Run) -> bool:
    """Whether all steps are done and the last evaluation too."""
    tested = any(
        line["step"] == trainer.step and f"test_{trainer.task.headline}" in line
        for line in run.metrics()[-1:]
    )
    return tested and trainer.finished


def _announce(trainer, run, described, options):
    t, model = trainer.task.config.train, trainer.model
    promise, preset = trainer.task.presets[described["preset"]]
    print(
        f"{described['task']} {described['preset']}, seed "
        f"{options.seed}{f': {promise}' if trainer.task.config == preset else ''}"
    )
    print(
        f"  network   {trainer.task.describe(model)}, {model.num_parameters:,} "
        "parameters"
    )
    kind = "processes" if trainer.workers.processes else "threads"
    how = (
        "1 worker" if trainer.workers.count == 1 else f"{trainer.workers.count} {kind}"
    )
    how = f"{trainer.ranks.size} ranks x {how}" if trainer.ranks.size > 1 else how
    where = f"{options.device} in TF32" if options.tf32 else options.device
    print(
        f"  training  {counted(t.steps - trainer.step, 'step')} of "
        f"{counted(t.batch_size, 'example')} on {where}, {how}"
    )
    print(f"  run       {run.path}", flush=True)


class Progress(Listener):
    """A bar on a terminal; elsewhere a line for each evaluation, and for others when
    half a minute has passed.
    """

    def __init__(self, trainer: Trainer):
        self.trainer, self.first, self.bar, self.tested = (
            trainer,
            trainer.step,
            None,
            {},
        )
        self.began = self.printed = time.monotonic()
        if sys.stderr.isatty() and trainer.ranks.rank == 0:
            from tqdm import tqdm

            tqdm.monitor_interval = 0  # no thread of its own: the workers are forked
            self.bar = tqdm(
                total=trainer.task.config.train.steps,
                initial=trainer.step,
                unit="step",
                dynamic_ncols=True,
            )

    def line(self, line: dict) -> None:
        """Take notice of a line of metrics."""
        steps, done, now = (
            self.trainer.task.config.train.steps,
            self.trainer.step,
            time.monotonic(),
        )
        rate, test = (
            (done - self.first) / max(now - self.began, 1e-9),
            f"test_{self.trainer.task.headline}",
        )
        self.tested = {test: line[test]} if test in line else self.tested
        told = {
            name: line[name]
            for name in ("loss", self.trainer.task.headline)
            if name in line
        } | self.tested
        words = [
            f"{name.replace('_', ' ')} "
            f"{percent(v) if 'accuracy' in name else f'{v:.4f}'}"
            for name, v in told.items()
        ]
        words += [f"rung {line['rung']}"] if "rung" in line else []
        if self.bar is not None:
            self.bar.set_postfix_str("  ".join(words), refresh=False)
            self.bar.update(done - self.bar.n)
        elif test in line or now - self.printed > 30:
            self.printed = now
            eta = duration((steps - done) / rate) if rate else "?"
            print(
                f"step {done:>7,}/{steps:,}  {'  '.join(words)}  {rate:.1f} steps/s  "
                f"ETA {eta}",
                flush=True,
            )

    def close(self) -> None:
        """Leave the terminal in order."""
        if self.bar is not None:
            self.bar.close()


def _report(trainer, run, end, resume):
    """The table, where things are, and what to do next."""
    task, last = trainer.task, run.metrics()[-1]
    print(f"\n{results_table(last, task.references())}\n")
    why = (
        "finished"
        if end == "finished"
        else f"out of time; {counted(task.config.train.steps - trainer.step, 'step')} "
        "to go"
    )
    print(
        f"run       {run.path}  ({counted(trainer.step, 'step')} in "
        f"{duration(trainer.seconds)}, {why})"
    )
    for path in draw_run(run):
        print(f"picture   {path}")
    print(
        f"resume    {resume}{'  (nothing is left to do)' if end == 'finished' else ''}"
    )
    print(f"evaluate  {python()} -m tinyrmc.evaluate {shlex.quote(str(run.path))}")
    print(f"plot      {python()} -m tinyrmc.plot {shlex.quote(str(run.path))}")


if __name__ == "__main__":
    run_main(main)
