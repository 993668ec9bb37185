"""Train a task from the command line.

    python -m tinyrmc.train                        list tasks and presets
    python -m tinyrmc.train nth_farthest           train the first preset
    python -m tinyrmc.train nth_farthest ladder --seed 1 --max-minutes 120
    python -m tinyrmc.train nth_farthest --help    the flags of a task
    python -m tinyrmc.train --resume runs/nth_farthest-quick-1
    python -m tinyrmc.train --resume runs/nth_farthest-quick-1 --train.steps 20000
                                                   as a run of so many steps
    python -m tinyrmc.train nth_farthest --init runs/nth_farthest-quick-1
                                                   a new run from these weights
    mpiexec -n 4 python -m mpi4py -m tinyrmc.train nth_farthest
                                                   four ranks share each batch

A run writes everything it knows into its directory (see training/run.py). Ctrl-C and
SIGTERM save first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

from .. import __version__
from ..backend import describe_gpu, has_tf32, use_tf32
from ..config import require_same, to_json, value_at, words_of
from ..errors import RunError, UsageError, counted, in_words
from ..fused import bodies, held_compiled, plain
from ..results.progress import Progress
from ..results.text import duration, is_share, number, results_table, terminal_width
from ..training import discovery
from ..training.loop import Interrupt, run_training
from ..training.machine import checksummed, code_changes, environment, own_code
from ..training.networks import warm_start
from ..training.run import Run, extended, load_checkpoint, task_from_dict
from ..training.task import Task
from ..training.telling import idle_fields
from ..training.trainer import Trainer, check_workers
from ..training.workers import LAUNCHERS
from .commands import (
    Options,
    Parser,
    add_core,
    leading_names,
    parse_words,
    program,
    python,
    task_and_preset,
)

# what a resumed run takes from its environment.json
PLACES = "device", "graph", "tf32", "plain", "compiled", "log"
USAGE = f"""\
usage: {program("train")} TASK [PRESET] [--flags]     (TASK --help: its flags)
       {program("train")} --resume RUN [--train.steps N] [--max-minutes M]"""


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print(f"{USAGE}\n\n{listing()}")
        return 0
    if "mpi4py.run" in sys.modules or LAUNCHERS.keys() & os.environ.keys():
        from ..training.ranks import launched

        if ranks := launched():
            with ranks:
                return _train(words, ranks)
    return _train(words)


def _train(words: list[str], ranks: Any = None) -> int:
    """Begin a run, or go on with one; `ranks` that train together all do the same.

    A run is locked until the end, so that its checkpoint stays what it is.
    """
    with contextlib.ExitStack() as held:
        first = Parser(program("train"), "", add_help=False)
        first.add_argument("--resume", metavar="RUN")
        add_core(first)
        asked, words = first.parse_known_args(words)
        names, flags = leading_names(words)
        run: Run | None = None
        arrays: dict[str, Any] = {}
        state: dict[str, Any] = {}
        if asked.resume is None:
            kind, preset = task_and_preset(names)
            usual = kind.presets[preset][1]
            config, options = parse_words(names[0], preset, usual, Options(), flags)
            own = {"preset": preset, "seed": options.seed, **to_json(config)}
            task = kind(config)
            described = discovery.stored(names[0]) | own
            described |= discovery.cores_of(config)
            described = checksummed(described)
        else:
            run = (ranks.run if ranks else Run).open(asked.resume)
            task, described, options = _resume_request(run, names, flags)
            for each in code_changes(run.config, run):
                print(f"note: {each}", file=sys.stderr)
            held.enter_context(run.writing())
            arrays, state = load_checkpoint(run)
            run.require_metrics(state)
            if not isinstance(state.get("lines"), int):
                raise RunError(
                    f"{run.checkpoint} holds the weights alone, which can be evaluated "
                    "but not resumed; put the checkpoint there"
                )
            longer = described.get("extended") != run.config.get("extended")
            if longer and task.finished(state["step"]):
                steps = task.config.train.steps
                done = state["step"]
                raise UsageError(f"--train.steps {steps}: {run.path} has done {done}")
        logs = options.log == "tensorboard"
        if logs and not importlib.util.find_spec("tensorboardX"):
            raise UsageError(
                "--log tensorboard needs tensorboardX; pip install "
                "'tinyrmc[tensorboard]', or say --log metrics"
            )
        if options.plain:
            held.enter_context(plain())
        on_cpu = options.device == "cpu" and not options.plain
        held.enter_context(held_compiled(options.compiled and on_cpu))
        trainer = _trainer(task, options, arrays, state, ranks)
        if run is None and options.init is not None:
            print(f"init: {warm_start(trainer.model, options.init, described)}")
        interrupt = held.enter_context(Interrupt(alone=ranks is None))
        if run is None:
            _announce(trainer, described, options)
            run = _new_run(trainer, described, options, ranks)
            held.enter_context(run.writing())
            _note_unused(task, usual)
            _note_shares(task)
        else:
            lines = run.metrics()
            last = (lines or [{}])[-1]
            # else it was killed while its last checkpoint was written
            answered = state.get("metrics", [len(lines)])[0] >= len(lines)
            whole = last.get("step") == trainer.step and task.result in last
            if trainer.finished and answered and whole:
                again = f"-m tinyrmc evaluate {run.word}"
                done = f"{run.path} has finished already ({trainer.step:,} steps)"
                print(f"{done}; see {python()} {again}")
                return 0
            run = _resumed(run, described, trainer, arrays, state)
            _announce(trainer, described, options)
        return _run(trainer, run, options, interrupt)


def listing() -> str:
    """All tasks with their presets, as text."""
    lines = []
    for name in discovery.task_files():
        try:
            module = discovery.load_task(name)
        except discovery.UnknownTask as error:
            lines += [name, f"    ({error})"]
            continue
        lines.append(f"{name}  {(module.__doc__ or '').strip().splitlines()[0]}")
        presets = module.Task.presets
        width = max(map(len, presets))
        default = next(iter(presets))
        for preset, (text, _) in presets.items():
            note = "  (default)" if preset == default else ""
            lines.append(f"    {preset:{width}}  {text}{note}")
    return "\n".join(lines)


# --- What the words ask for -----------------------------------------------------------


def _resume_request(
    run: Run, names: list[str], flags: list[str]
) -> tuple[Task, dict, Options]:
    """(the task of a run to go on with, what config.json says of it, how and where to
    run). Words beside --resume may repeat what it is, and must then be right.
    """
    have = run.config
    if "grid" in have:
        raise RunError(
            f"{run.path} is a sweep; go on with it by {python()} -m tinyrmc sweep "
            f"--resume {run.word}"
        )
    task = task_from_dict(have)
    if have["preset"] not in task.presets:
        raise RunError(
            f"{run.path} is a run of the preset {have['preset']!r}, which its task "
            f"no longer has; it has {', '.join(task.presets)}"
        )
    before = {k: run.environment[k] for k in PLACES if k in run.environment}
    before.setdefault("compiled", False)  # before there were any
    try:
        options = Options(seed=have.get("seed", 0), **before)
    except ValueError as error:
        path = run.path / "environment.json"
        raise RunError(f"{path} is not as it was written: {error}") from error
    usual = task.config
    config, options = parse_words(have["task"], have["preset"], usual, options, flags)
    if config.train.steps != usual.train.steps:
        have = extended(have, config.train.steps)
        longer = dataclasses.replace(usual.train, steps=config.train.steps)
        usual = dataclasses.replace(usual, train=longer)
    asked = have | {"seed": options.seed} | to_json(config)
    for key, name in zip(("task", "preset"), names, strict=False):
        asked[key] = Path(name).stem
    # an older run lacks the fields that came later, and places may change
    places = {key: asked[key] for key in ("places",) if key in asked}
    require_same(have | to_json(usual) | places, asked, str(run.path))
    for flag, given in ("--run", options.run), ("--init", options.init):
        if given is not None:
            raise UsageError(f"{flag} {given} goes with a new run, not with --resume")
    described = have | places | discovery.cores_of(task.config)
    return task_from_dict(described), described, options


# --- Training -------------------------------------------------------------------------


def _trainer(task: Task, options: Options, arrays, state, ranks: Any) -> Trainer:
    """A Trainer, which goes on from the checkpoint if there is one.

    It has as many workers as before, unless told otherwise. UsageError if none is
    possible.
    """
    size = ranks.size if ranks else 1
    alike = options.device == "cpu" and state.get("ranks", 1) == size
    workers = options.workers or (state.get("workers") if alike else None)
    batch = task.config.train.batch_size
    if (workers or 1) * size > batch:
        on = f" on each of {size} ranks" if size > 1 else ""
        raise UsageError(
            f"--workers {workers or 1}{on} are more than the "
            f"{counted(batch, task.row)} of a batch; use fewer"
        )
    try:
        check_workers(workers, options.device)
    except ValueError as error:
        raise UsageError(f"--{error}") from error
    settings = task, options.seed, workers, options.device
    kind = ranks.trainer if ranks else Trainer
    try:
        trainer = kind(*settings, graph=options.graph)
        if options.tf32:
            if not has_tf32(trainer.xp):
                raise UsageError(
                    "--tf32 needs a GPU of compute capability 8.0 or more; leave "
                    "--tf32 out, or say --no-tf32"
                )
            use_tf32(trainer.xp, True)
        if state:
            trainer.restore(arrays, state)
        trainer.try_out()  # refused before there is a run
    except MemoryError as error:
        raise _too_large(task, error) from error
    return trainer


def _too_large(task: Task, error: MemoryError) -> UsageError:
    """The error for too little memory."""
    what = str(error).rstrip(".")
    return UsageError(
        f"out of memory{what and ': '}{what}; choose a smaller network, or fewer "
        f"{task.row}s at a time (--train.micro-batch-size)"
    )


def _new_run(trainer: Trainer, described: dict, options: Options, ranks: Any) -> Run:
    """The run's directory."""
    machine = environment(__version__)
    machine["workers"], machine["ranks"] = trainer.workers.count, trainer.ranks
    machine |= {"device": options.device, "compiled": options.compiled}
    machine |= {"bodies": bodies(), "log": options.log}
    if options.plain:
        machine["plain"] = True
    if options.device == "cuda":
        machine |= {"tf32": options.tf32, "graph": options.graph}
        machine |= describe_gpu(trainer.xp)
    if ranks:
        launch = f"mpiexec -n {ranks.size} python -m mpi4py -m"
        command = machine["command"].replace("python -m", launch, 1)
        machine |= {"mpi": ranks.name, "command": command}
    name = f"{described['task']}-{described['preset']}"
    kind = ranks.run if ranks else Run
    return kind.create("runs", name, described, machine, options.run)


def _resumed(run: Run, described: dict, trainer: Trainer, arrays, state) -> Run:
    """The run, with its metrics cut to the lines of the checkpoint; tells what will be
    different.
    """
    lines = state["lines"]
    if lines and not run.has_metrics:
        gone = f"{run.path / 'metrics.jsonl'} is gone, and its {counted(lines, 'line')}"
        print(f"note: {gone}; the curve begins here", file=sys.stderr)
        lines = 0
    if lines != state.get("metrics", [lines])[0]:
        # it no longer answers for the others: the next one may never be saved
        answers = {"lines": lines, "metrics": [lines, run.checksum(lines)]}
        run.save(arrays, state | answers, instead=True)
    run.truncate_metrics(lines)
    now = trainer.ranks, trainer.workers.count
    before = state.get("ranks", 1), state["workers"]
    changed = []
    if before != now:
        was, has = (f" on {n} ranks" if n > 1 else "" for n, _ in (before, now))
        changed.append(f"had {counted(before[1], 'worker')}{was}, now {now[1]}{has}")
    if (used := run.environment.get("bodies", "numpy")) != bodies():
        changed.append(f"was computed by {used}, now by {bodies()}")
    for each in changed:
        says = "it goes on, but not bit for bit as it would have"
        print(f"note: the run {each}; {says}")
    if described.get("extended") != run.config.get("extended"):
        rate = task_from_dict(run.config).learning_rate(max(trainer.step - 1, 0))
        last = f", the last one was {rate:.3g}" if trainer.step else ""
        print(
            f"note: {trainer.task.config.train.steps:,} steps instead of "
            f"{run.config['config']['train']['steps']:,}; schedules are those of such "
            f"a run: the next learning rate is {trainer.rate():.3g}{last}"
        )
    code, ran = own_code().get("own_code", {}), run.last_code
    machine = run.environment
    moved = described.get("core_files") != run.config.get("core_files") and code != ran
    if moved or any(digest != code.get(name, digest) for name, digest in ran.items()):
        earlier = machine.get("later_code", {}).items()
        kept = {k: x for k, x in earlier if k.isdecimal() and int(k) < trainer.step}
        machine = {**machine, "later_code": kept | {str(trainer.step): code}}
    return run.moved(described, machine)


def _run(trainer: Trainer, run: Run, options: Options, interrupt: Interrupt) -> int:
    """Train, report."""
    task = trainer.task
    print(f"  run       {run.path}", flush=True)
    events = run.path if options.log == "tensorboard" and trainer.rank == 0 else None
    progress = Progress(task, trainer.step, events)
    if trainer.step:
        progress.recall(run.metrics())
    if sys.stderr.isatty() and trainer.rank == 0:
        progress.show_bar()
    if options.max_minutes:
        _ = progress.marks  # what they take once, such as counting, is no training
    try:
        how = options.max_minutes, progress, interrupt, options.final_evaluation
        end = run_training(trainer, run, *how)
    except MemoryError as error:
        raise _too_large(task, error) from error
    finally:
        progress.close()
        trainer.close()
    launch = python()
    if trainer.ranks > 1:
        launch = f"mpiexec -n {trainer.ranks} {launch} -m mpi4py"
    resume = f"{launch} -m tinyrmc.train --resume {run.word}"
    if end.startswith("SIG"):
        said = f"{end} at step {trainer.step:,}: saved."
        try:
            print(f"\n{said} Go on with\n    {resume}", flush=True)
        except OSError as error:
            error.add_note(f"({said} Go on with {resume})")
            raise
        return 128 + signal.Signals[end]
    if trainer.rank == 0:
        _report(trainer, run, end, resume)
    return 0


# --- What is told ---------------------------------------------------------------------


def _announce(trainer: Trainer, described: dict, options: Options) -> None:
    task = trainer.task
    model = trainer.model
    t = trainer.task.config.train
    promise, preset = task.presets[described["preset"]]
    changed = words_of(task.config, preset)
    says = "" if changed else f": {promise}"
    words = shlex.join([described["preset"], *changed])
    print(f"{described['task']} {words}, seed {options.seed}{says}")
    print(f"  network   {task.describe(model)}, {model.num_parameters:,} parameters")
    kind = "processes" if trainer.workers.processes else "threads"
    count, ranks = trainer.workers.count, trainer.ranks
    how = "1 worker" if count == 1 else f"{count} {kind}"
    how = f"{ranks} ranks x {how}" if ranks > 1 else how
    where = f"{options.device} in TF32" if options.tf32 else options.device
    where = f"{where}, plain" if options.plain else where
    where = where if bodies() == "numpy" else f"{where} ({bodies()})"
    steps = counted(t.steps - trainer.step, "step")
    rows = counted(t.batch_size, task.row)
    print(f"  training  {steps} of {rows} on {where}, {how}")
    better = " (lower is better)" if task.lower_is_better(task.headline) else ""
    every = f"every {counted(t.evaluate_every, 'step')}"
    print(f"  measured  {in_words(task.watched)}{better}, {every}")
    notes = [*task.notes(), *trainer.notes]
    if t.patience is not None and len(task.splits) == 1:
        says = f"--train.patience looks at the {task.splits[0]} set, which is the only"
        notes.append(f"{says} one; its result is then a little too good")
    if trainer.without_graphs:
        notes.append(f"no CUDA graphs: --graph {trainer.without_graphs}")
    for note in notes:
        print(f"  note      {note}")
    print(end="", flush=True)  # if this fails, there is no run yet


def _note_unused(task: Task, usual: Any) -> None:
    """Tell of settings that were given and make no difference."""
    for where, idle in idle_fields(task).items():
        given = [k for k in idle if value_at(task.config, k) != value_at(usual, k)]
        if given:
            print(f"note: without effect {where}: {', '.join(given)}", file=sys.stderr)


def _note_shares(task: Task) -> None:
    """Tell of floors that were given in percent."""
    for metric, marks in task.references().items():
        for label, value in marks.items() if is_share(metric) else ():
            if not 0 <= value <= 1:
                print(
                    f"note: {metric} of {label!r} in references() is {value}, which is "
                    f"shown as {number(metric, value)}; a share is from 0 to 1",
                    file=sys.stderr,
                )


def _report(trainer: Trainer, run: Run, end: str, resume: str) -> None:
    """The table, where things are, and what to do next."""
    from ..results.plotting import draw_run  # with a library of figures

    task, path = trainer.task, run.word
    lines = run.metrics() or [{}]
    left = counted(task.config.train.steps - trainer.step, "step")
    why = end if end == "finished" else f"out of time; {left} to go"
    if end == "finished" and not task.finished(trainer.step):
        why = f"no better in {counted(trainer.stale, 'evaluation')}; {left} left out"
    took = f"{counted(trainer.step, 'step')} in {duration(trainer.seconds)}"
    reached = task.held_out_metrics(lines[-1])
    table = "not measured at the end"
    if reached:
        table = results_table(reached, task.references(), terminal_width())
    print(f"\n{table}\n")
    print(f"run       {run.path}  ({took}, {why})")
    if drawn := any(line.get(task.watched) is not None for line in lines):
        for picture in draw_run(run):
            print(f"picture   {picture}")
    else:  # it diverged, or was too short
        print(f"picture   none: there is no finite {in_words(task.watched)}")
    if end != "finished" or not reached:
        print(f"resume    {resume}")
    print(f"evaluate  {python()} -m tinyrmc evaluate {path}")
    if run.best.exists() and trainer.best and trainer.best[0] < trainer.step:
        step, value = trainer.best
        best = f"{in_words(task.watched)} {number(task.watched, value)}, step {step:,}"
        print(f"best      {python()} -m tinyrmc evaluate {path} --best  ({best})")
    if drawn:
        print(f"plot      {python()} -m tinyrmc plot {path}")
    core = getattr(getattr(task.config, "model", None), "core", "memn2n")
    if hasattr(task, "readings") and core == "memn2n":
        print(f"hops      {python()} -m tinyrmc plot hops {path}")
    world = getattr(task, "held_out_world", None)
    if world is not None and not world.lacks("rgb", "position"):
        print(f"episode   {python()} -m tinyrmc plot episode {path}")
        from ..environments import WORLDS

        place = f"{type(world).__module__}:{type(world).__name__}"
        for name, (each, *_) in WORLDS.items():
            if each == place:
                print(f"watch     {python()} -m tinyrmc play {name} --agent {path}")
    if hasattr(task, "generate"):
        prompt = shlex.quote(getattr(task, "prompt", "The"))
        print(f"generate  {python()} -m tinyrmc generate {path} {prompt}")
