"""Train a task from the command line.

    python -m tinyrmc.train                        list tasks and presets
    python -m tinyrmc.train nth_farthest           train the first preset
    python -m tinyrmc.train nth_farthest ladder --seed 1 --max-minutes 120
    python -m tinyrmc.train nth_farthest --help    the flags of a task
    python -m tinyrmc.train --resume runs/nth_farthest-quick-1
    mpiexec -n 4 python -m mpi4py -m tinyrmc.train nth_farthest
                                                   four ranks share each batch

A run writes everything it knows into its directory (see runs/run.py). Ctrl-C and
SIGTERM save first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import shlex
import signal
import sys
from pathlib import Path

from .. import __version__
from ..backend import describe_gpu, has_tf32, use_tf32
from ..config import from_json, require_same, to_json, words_of
from ..cores.config import CoreConfig, sizes
from ..errors import RunError, UsageError, UserError, counted, nearest
from ..fused import plain
from ..results.plotting import draw_run
from ..results.progress import Progress
from ..runs.machine import environment
from ..runs.run import Onlooker, Run
from ..text import duration, in_words, results_table, terminal_width
from ..training import discovery
from ..training.apart import Apart
from ..training.checkpoints import load_checkpoint, require_metrics, task_from_dict
from ..training.loop import Interrupt, run_training
from ..training.presentation import idle_fields
from ..training.ranks import Ranks, launched
from ..training.task import Task
from ..training.trainer import Trainer, most_workers
from .commands import Options, leading_names, parse_words, program, python


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    with launched() as ranks:
        if not words or words[0] in ("-h", "--help"):
            print(f"{USAGE}\n\n{listing()}")
            return 0
        return _train(words, ranks)


# what a resumed run takes from its environment.json
PLACES = "device", "graph", "tf32", "plain"
USAGE = f"""\
usage: {program("train")} TASK [PRESET] [--flags]     (TASK --help: its flags)
       {program("train")} --resume RUN [--workers N] [--max-minutes M]"""


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
        width, default = max(map(len, presets)), next(iter(presets))
        for preset, (text, _) in presets.items():
            note = "  (default)" if preset == default else ""
            lines.append(f"    {preset:{width}}  {text}{note}")
    return "\n".join(lines)


# --- What the words ask for -----------------------------------------------------------


def requested(words: list[str]) -> tuple[dict, Options, Run | None]:
    """(what config.json says, the options, the run to go on with or None).

    UsageError or RunError for a request that cannot be met.
    """
    resumed, words = _take_resumed(words)
    names, words = leading_names(words)
    if resumed is None:
        described, options = _new_request(names, words)
        return described, options, None
    run = Run.open(resumed)
    if "grid" in run.config:
        raise RunError(
            f"{resumed} is a sweep; go on with it by {python()} -m tinyrmc sweep "
            f"--resume {shlex.quote(resumed)}"
        )
    described, options = _resume_request(run, names, words)
    return described, options, run


def _take_resumed(words):
    """(the run after --resume or None, the other words)."""
    flags = [word.partition("=")[0] for word in words]
    if flags.count("--resume") > 1:
        raise UsageError("--resume is given twice; one run goes on at a time")
    for k, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag == "--resume":
            after = k + 1 if equals else k + 2
            resumed = value if equals else "".join(words[k + 1 : k + 2])
            if not resumed or resumed.startswith("--"):
                raise UsageError(
                    "--resume needs a run directory, as in "
                    "--resume runs/nth_farthest-quick-1"
                )
            return resumed, words[:k] + words[after:]
    return None, list(words)


def _new_request(names, words):
    if not names:
        raise UsageError(
            f"the first word must be a task; `{program('train')}` lists them"
        )
    word, presets = names[0], discovery.load_task(names[0]).Task.presets
    preset = names[1] if len(names) > 1 else next(iter(presets))
    if preset not in presets:
        raise UsageError(
            f"unknown preset {preset!r} of {word} ({', '.join(presets)})"
            f"{nearest(preset, presets)}"
        )
    config, options = parse_words(word, preset, presets[preset][1], Options(), words)
    described = {
        **discovery.stored(word),
        "preset": preset,
        "seed": options.seed,
        **to_json(config),
    }
    return described, options


def _resume_request(run, names, words):
    """Words beside --resume may repeat what the run is, and must then be right."""
    usual, have = task_from_dict(run.config).config, run.config
    known = discovery.load_task_of(have).Task.presets
    if have["preset"] not in known:
        raise RunError(
            f"{run.path} is a run of the preset {have['preset']!r}, which its task "
            f"no longer has; it has {', '.join(known)}"
        )
    said = [discovery.task_name(names[0]), *names[1:]] if names else []
    for key, asked in zip(("task", "preset"), said, strict=False):
        if asked != have[key]:
            kind = "the preset " if key == "preset" else ""
            raise UsageError(
                f"{run.path} is a run of {kind}{have[key]!r}, not {asked!r}; give "
                f"--resume {run.path} alone"
            )
    before = {k: run.environment[k] for k in PLACES if k in run.environment}
    try:
        options = Options(seed=have.get("seed", 0), **before)
    except ValueError as error:
        raise RunError(
            f"{run.path / 'environment.json'} is not as it was written: {error}"
        ) from error
    config, options = parse_words(have["task"], have["preset"], usual, options, words)
    asked = have | {"seed": options.seed} | to_json(config)
    # an older run lacks the fields that came later, and places may change
    places = {key: asked[key] for key in ("places",) if key in asked}
    require_same(have | to_json(usual) | places, asked, str(run.path))
    if options.run is not None:
        raise UsageError(
            f"--run {options.run} goes with a new run; --resume {run.path} goes on in "
            "its own directory"
        )
    return have | places, options


def _checkpoint(run):
    """The arrays and the state to go on from."""
    arrays, state = load_checkpoint(run)
    require_metrics(run, state)
    if "lines" not in state:
        raise RunError(
            f"{run.checkpoint} holds the weights alone, which can be evaluated but "
            "not resumed; put the checkpoint there"
        )
    return arrays, state


# --- Training -------------------------------------------------------------------------


def _train(words: list[str], ranks: Ranks) -> int:
    """Build, announce, train, report. Nothing is written before everything has been
    accepted, and by all ranks.
    """
    with contextlib.ExitStack() as held:
        described, options, run, arrays, state = _everybody(words, ranks, held)
        if options.plain:
            held.enter_context(plain())
        task = task_from_dict(described)
        trainer = ranks.together(lambda: _trainer(task, options, arrays, state, ranks))
        trainer.require_agreement()
        ranks.together(trainer.workers.try_out)  # refused before there is a run
        interrupt = held.enter_context(Interrupt(ranks))
        if run is None:
            _announce(trainer, described, options)
            run = _new_run(described, options, trainer)
            ranks.together(lambda: held.enter_context(run.writing()))
            _note_unused(task, described["preset"], ranks)
        elif ranks.from_first(lambda: _finished(trainer, run)):
            again = f"{python()} -m tinyrmc evaluate {shlex.quote(str(run.path))}"
            done = f"{run.path} has finished already ({trainer.step:,} steps)"
            print(f"{done}; see {again}")
            return 0
        else:
            ranks.from_first(lambda: _cut_back(run, arrays, state))
            run = ranks.together(lambda: run.moved(described))
            _note_roundings(trainer, state)
            _announce(trainer, described, options)
        return _run(trainer, run, options, interrupt)


def _everybody(words, ranks, held):
    """What rank 0 reads off the words and the files, passed on to all ranks.

    (config.json's content, the options, the run to go on with or None, the arrays and
    the state of its checkpoint). Rank 0 keeps the run locked until `held` is closed, so
    that its checkpoint stays what it is.
    """
    said, found, mine = ranks.each(lambda: words), {}, None

    def read():
        nonlocal mine
        if any(words != said[0] for words in said):
            raise UsageError(
                "the ranks were started with different words; start all of them alike"
            )
        described, options, mine = requested(words)
        state = {}
        if mine is not None:
            held.enter_context(mine.writing())
            arrays, state = _checkpoint(mine)
            found.update(arrays)
        where = mine and [str(mine.path), mine.environment]
        path = options.run and str(options.run)
        return described, {**dataclasses.asdict(options), "run": path}, where, state

    described, options, where, state = ranks.from_first(read)
    run = mine
    if where and ranks.rank > 0:
        run = Onlooker(Path(where[0]), described, where[1])
    return described, from_json(Options, options), run, ranks.share(found), state


def _trainer(task: Task, options: Options, arrays, state, ranks: Ranks) -> Trainer:
    """A Trainer, which goes on from the checkpoint if there is one.

    It has as many workers as before, unless told otherwise. UsageError if none is
    possible.
    """
    alike = options.device == "cpu" and state.get("ranks", 1) == ranks.size
    workers = options.workers or (state.get("workers") if alike else None)
    rows = counted(task.config.train.batch_size, task.row)
    _check_workers(workers, rows, task.config.train.batch_size, options.device, ranks)
    try:
        kind: type[Trainer] = Apart if ranks.size > 1 and task.apart else Trainer
        trainer = kind(
            *(task, options.seed, workers, options.device),
            ranks=ranks,
            graph=options.graph,
        )
        trainer.require_metrics()
    except MemoryError as error:
        raise _too_large(task, error) from error
    if options.tf32:
        _switch_to_tf32(trainer.xp)
    if state:
        trainer.restore(arrays, state)
    return trainer


def _check_workers(workers, rows, batch, device, ranks):
    """UsageError for more workers than a batch has rows (`rows`, in words)."""
    if workers not in (None, 1) and device == "cuda":
        raise UsageError(
            f"--workers {workers} with --device cuda: a GPU is fed by one worker; "
            "leave --workers out"
        )
    if (workers or 1) > batch:
        raise UsageError(
            f"--workers {workers} is more than the {rows} of a batch; use at most "
            f"{batch}"
        )
    if (workers or 1) * ranks.size > batch:
        each = f" with --workers {workers} each" if workers else ""
        raise UsageError(
            f"{ranks.size} ranks{each} are more than the {rows} of a batch; use fewer"
        )
    if (workers or 1) > most_workers():
        raise UsageError(
            f"--workers {workers} is more than any machine gains from; use at most "
            f"{most_workers()}"
        )


def _switch_to_tf32(xp):
    if not has_tf32(xp):
        gpu = describe_gpu(xp)
        raise UsageError(
            f"--tf32: {gpu['gpu']} has compute capability {gpu['compute_capability']}, "
            "and TF32 needs 8.0 or more; leave --tf32 out, or say --no-tf32"
        )
    use_tf32(xp, True)


def _too_large(task: Task, error: MemoryError) -> UserError:
    """The error for too little memory; it names the flags that ask for less."""
    model, what = getattr(task.config, "model", None), str(error).rstrip(".")
    size = sizes(model) if isinstance(model, CoreConfig) else ""
    return UsageError(
        f"out of memory{what and ': '}{what}; choose a smaller network"
        f"{size and f' ({size})'}, or fewer {task.row}s at a time (--train.piece-size)"
    )


def _new_run(described: dict, options: Options, trainer: Trainer) -> Run:
    """The directory, which rank 0 makes."""
    ranks, machine = trainer.ranks, environment(__version__)
    machine["workers"], machine["ranks"] = trainer.workers.count, ranks.size
    machine["device"] = options.device
    if options.plain:
        machine["plain"] = True
    if options.device == "cuda":
        machine |= {"tf32": options.tf32, "graph": options.graph}
        machine |= describe_gpu(trainer.xp)
    if ranks.mpi:
        command = machine["command"].replace("python -m", ranks.launch(), 1)
        machine |= {"mpi": ranks.mpi, "command": command}
    name = f"{described['task']}-{described['preset']}"
    run = None

    def create():
        nonlocal run
        run = Run.create("runs", name, described, machine, options.run)
        return str(run.path)

    path = ranks.from_first(create)
    return run or Onlooker(Path(path), described, machine)


def _finished(trainer: Trainer, run: Run) -> bool:
    """Whether all steps are done and the last evaluation too."""
    last = (run.metrics() or [{}])[-1]
    tested = trainer.task.result in last
    return tested and last["step"] == trainer.step and trainer.finished


def _cut_back(run: Run, arrays: dict, state: dict) -> None:
    """Cut the metrics to the lines of the checkpoint; say so if they are gone.

    Before that, it no longer answers for the others: the next one may never be saved.
    """
    lines = state["lines"]
    if lines and not run.has_metrics:
        gone = f"{run.path / 'metrics.jsonl'} is gone, and its {counted(lines, 'line')}"
        print(f"note: {gone}; the curve begins here", file=sys.stderr)
        lines = 0
    if lines != state.get("metrics", [lines])[0]:
        answers = {"lines": lines, "metrics": [lines, run.checksum(lines)]}
        run.save(arrays, state | answers, instead=True)
    run.truncate_metrics(lines)


def _run(trainer: Trainer, run: Run, options: Options, interrupt: Interrupt) -> int:
    """Train, report."""
    task, ranks = trainer.task, trainer.ranks
    print(f"  run       {run.path}", flush=True)
    progress = Progress(task, trainer.step)
    progress.recall(ranks.from_first(run.metrics))
    if sys.stderr.isatty() and ranks.rank == 0:
        progress.show_bar()
    try:
        end = run_training(trainer, run, options.max_minutes, progress, interrupt)
    except MemoryError as error:
        raise _too_large(task, error) from error
    finally:
        progress.close()
        trainer.close()
    launch = f"{ranks.launch(python())} tinyrmc.train"
    resume = f"{launch} --resume {shlex.quote(str(run.path))}"
    if end.startswith("SIG"):
        said = f"{end} at step {trainer.step:,}: saved."
        try:
            print(f"\n{said} Go on with\n    {resume}", flush=True)
        except OSError as error:
            error.add_note(f"({said} Go on with {resume})")
            raise
        return 128 + signal.Signals[end]
    if ranks.rank == 0:
        _report(trainer, run, end, resume)
    return 0


# --- What is told ---------------------------------------------------------------------


def _note_unused(task: Task, preset: str, ranks: Ranks) -> None:
    """Tell of settings that were given and make no difference."""
    usual = task.presets[preset][1]
    for where, idle in idle_fields(task).items():
        given = [name for name in idle if _at(task.config, name) != _at(usual, name)]
        if given and ranks.rank == 0:
            said = f"without effect {where}: {', '.join(given)}"
            print(f"note: {said}", file=sys.stderr)


def _at(config, name):
    """The value of a field by its dotted name."""
    return functools.reduce(getattr, name.split("."), config)


def _note_roundings(trainer: Trainer, state: dict) -> None:
    """Tell if the batches are shared by another number of processes than before."""
    now = trainer.ranks.size, trainer.workers.count
    before = state.get("ranks", 1), state["workers"]
    if before != now:
        was, has = (f" on {n} ranks" if n > 1 else "" for n, _ in (before, now))
        print(
            f"note: the run had {counted(before[1], 'worker')}{was}, now "
            f"{now[1]}{has}; it goes on, but not bit for bit as it would have"
        )


def _announce(trainer: Trainer, described: dict, options: Options) -> None:
    t, model = trainer.task.config.train, trainer.model
    promise, preset = trainer.task.presets[described["preset"]]
    configs = trainer.task.config, preset
    own, usual = (to_json(config)["config"] for config in configs)
    says = f": {promise}" if own == usual else ""
    words = shlex.join([described["preset"], *words_of(*configs)])
    print(f"{described['task']} {words}, seed {options.seed}{says}")
    network = trainer.task.describe(model)
    print(f"  network   {network}, {model.num_parameters:,} parameters")
    kind = "processes" if trainer.workers.processes else "threads"
    count, ranks = trainer.workers.count, trainer.ranks.size
    how = "1 worker" if count == 1 else f"{count} {kind}"
    how = f"{ranks} ranks x {how}" if ranks > 1 else how
    if isinstance(trainer, Apart):
        others = f"ranks 1 to {ranks - 1} act" if ranks > 2 else "rank 1 acts"
        how = f"{how}; rank 0 learns, {others}"
    where = f"{options.device} in TF32" if options.tf32 else options.device
    where = f"{where}, plain" if options.plain else where
    steps = counted(t.steps - trainer.step, "step")
    rows = counted(t.batch_size, trainer.task.row)
    print(f"  training  {steps} of {rows} on {where}, {how}")
    lower = trainer.task.lower_is_better(trainer.task.headline)
    better = " (lower is better)" if lower else ""
    every = f"every {counted(t.evaluate_every, 'step')}"
    print(f"  measured  {in_words(trainer.task.watched)}{better}, {every}")
    notes = [*trainer.task.notes()]
    if trainer.without_graphs:
        notes.append(f"no CUDA graphs: --graph {trainer.without_graphs}")
    for note in notes:
        print(f"  note      {note}")
    print(end="", flush=True)  # if this fails, there is no run yet


def _report(trainer: Trainer, run: Run, end: str, resume: str) -> None:
    """The table, where things are, and what to do next."""
    task, last, path = trainer.task, run.metrics()[-1], shlex.quote(str(run.path))
    left = counted(task.config.train.steps - trainer.step, "step")
    why = "finished" if end == "finished" else f"out of time; {left} to go"
    took = f"{counted(trainer.step, 'step')} in {duration(trainer.seconds)}"
    reached = task.held_out_metrics(last)
    print(f"\n{results_table(reached, task.references(), terminal_width())}\n")
    print(f"run       {run.path}  ({took}, {why})")
    if any(line.get(task.watched) is not None for line in run.metrics()):
        for picture in draw_run(run):
            print(f"picture   {picture}")
    else:  # it diverged
        print(f"picture   none: no {in_words(task.watched)} was finite")
    if end != "finished":
        print(f"resume    {resume}")
    print(f"evaluate  {python()} -m tinyrmc evaluate {path}")
    print(f"plot      {python()} -m tinyrmc plot {path}")
    if type(task).generate is not Task.generate:
        print(f'generate  {python()} -m tinyrmc generate {path} "The"')
