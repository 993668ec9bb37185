"""The command lines as a user meets them: train, stop, resume, evaluate, and one line of complaint for anything that cannot be.

Most tests call `main` in this process, in an empty current directory; what must be true of real processes is asked of real processes.
"""

import contextlib
import errno
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import fakecupy
import numpy as np
import pytest

from tinyrmc import discovery, evaluate, load, train
from tinyrmc.commands import flags_of, run_main
from tinyrmc.loading import task_from_dict
from tinyrmc.parallel import CAN_FORK
from tinyrmc.runs import Run, RunError, load_arrays, save_arrays

ROOT = Path(__file__).resolve().parent.parent
nth_farthest = discovery.load_task("nth_farthest")
forks = pytest.mark.skipif(not CAN_FORK, reason="needs fork")

STEPS = 12
TINY = shlex.split(
    "nth_farthest --model.mem-slots 2 --model.head-size 2 --model.num-heads 1 "
    "--data.dimensions 2 --data.rungs 2 1 3 1 --data.passing 0.01 --workers 1 "
    f"--train.steps {STEPS} --train.batch-size 8 --train.log-every 5 --train.evaluate-every 10 --train.piece-size 2048"
)


@pytest.fixture(scope="module", autouse=True)
def few_held_out_examples():
    before, nth_farthest.Task.test_examples = nth_farthest.Task.test_examples, 200
    yield
    nth_farthest.Task.test_examples = before


@pytest.fixture(autouse=True)
def empty_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")  # nothing is wrapped
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run. Not to be changed: copy it."""
    path = tmp_path_factory.mktemp("trained") / "run"
    with contextlib.redirect_stdout(None):
        assert train.main([*TINY, "--seed", "5", "--run", str(path)]) == 0
    return Run.open(path)


@pytest.fixture
def copy(trained, empty_directory):
    """A finished run that may be changed."""
    shutil.copytree(trained.path, "copy")
    return Run.open("copy")


@pytest.fixture
def half(empty_directory):
    """A run that was stopped at step 7."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(None):
        stop_at(patch, 7)
        assert train.main([*TINY, "--seed", "5", "--run", "half"]) == 143
    return Run.open("half")


def stop_at(monkeypatch, step, number=signal.SIGTERM):
    """The process gets a signal while its `step`-th step is computed."""
    steps = itertools.count(1)
    monkeypatch.setattr(nth_farthest.Task, "after_update", lambda *_: os.kill(os.getpid(), number) if next(steps) == step else None)


def contents(folder="."):
    """Every file and folder below with its bytes and time of change."""
    return {path: (path.is_file() and path.read_bytes(), path.stat().st_mtime_ns) for path in Path(folder).rglob("*")}


@pytest.fixture
def refused(capsys):
    """Runs a command line that must be refused and gives its one line. Nothing in the current directory may have changed.

    Standard output is not looked at: an evaluation may have told its numbers before what follows is refused.
    """

    def run(main, *words):
        before = contents()
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            run_main(lambda: main([str(word) for word in words]))
        err = capsys.readouterr().err
        assert caught.value.code == 2
        assert err.startswith("error: ") and err.endswith("\n") and err.count("\n") == 1 and len(err) < 400
        assert not re.search("[\u2500-\u257f]|---", err)  # the frames that tyro draws
        assert contents() == before
        return err.removeprefix("error: ").rstrip("\n")

    return run


def timeless(run):
    return [{name: value for name, value in line.items() if name != "seconds"} for line in run.metrics()]


def assert_same_run(one, other):
    """The same checkpoint and the same lines, wall-clock fields aside."""
    (ours, our_state), (theirs, their_state) = one.load(), other.load()
    assert list(ours) == list(theirs)
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    assert {**our_state, "seconds": 0} == {**their_state, "seconds": 0}
    assert timeless(one) == timeless(other)


# --- What is printed ----------------------------------------------------------------------------------------------------------------------

def test_without_words_all_tasks_and_presets_are_listed(capsys):
    assert train.main([]) == 0
    listing = capsys.readouterr().out
    of_task = re.search(r"^nth_farthest  Nth farthest: .*\n(    .*\n)+", listing, re.M)[0]
    for preset, (text, _) in nth_farthest.Task.presets.items():
        (line,) = re.findall(rf"^    {preset} +(.*)$", of_task, re.M)
        assert line == text + ("  (default)" if preset == "quick" else "")
    for words in (["-h"], ["--help"]):
        assert train.main(words) == 0 and capsys.readouterr().out == listing


def test_the_help_names_every_field_with_its_unit_and_default(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")  # with more room it is laid out in several columns
    with pytest.raises(SystemExit) as caught:
        train.main(["nth_farthest", "ladder", "--help"])
    assert caught.value.code == 0
    text = " ".join(re.sub("[\u2500-\u257f]+", " ", capsys.readouterr().out).split())
    assert "python -m tinyrmc.train nth_farthest ladder" in text
    for kind, default in ((train.Options, train.Options()), (nth_farthest.Config, nth_farthest.LADDER)):
        for flag in (flag for flag in flags_of(kind) if not re.search(r"[.-]no-", flag)):
            value = default
            for name in flag.removeprefix("--").replace("-", "_").split("."):
                value = getattr(value, name)
            if flag == "--data.rungs":
                value = " ".join(f"{k} {d}" for k, d in value)
            entry = re.search(rf"{flag}[ ,](?:(?! --(?!(model.)?no-)).)*?\(default: {re.escape(str(value))}\)", text)  # up to the next flag
            assert entry and len(entry[0].split()) >= 6, flag  # says what it is
    for section in ("section 3.1", "section 3.2", "section 3.3", "equation 7", "section 4.1"):
        assert section in text


def test_a_run_tells_what_it_is_how_it_goes_and_what_to_do_next(capsys):
    assert train.main([*TINY, "--seed", "5"]) == 0
    out, err = capsys.readouterr()
    assert "\r" not in out + err and err == ""
    run = Run.open("runs/nth_farthest-quick-1")
    model = load(run.path)
    assert f"nth_farthest quick, seed 5: {nth_farthest.Task.presets['quick'][0]}" in out
    assert "rmc, 2 slots x 2 units, 1 head" in out and f"{model.num_parameters:,} parameters" in out
    assert re.search(r"step +10/12 .*loss \d.*test accuracy \d+\.\d %.*rung \dx\d.*steps/s .*ETA 0:00", out)
    assert re.search(r"test accuracy +\d+\.\d % +50\.0 %", out) and "ranking by own norm" in out and "only the self query" in out
    last = run.metrics()[-1]
    assert f"{100 * last['test_accuracy']:.1f} %" in out
    assert f"run       {run.path}  (12 steps in 0:0" in out
    for name in ("evaluate", "plot"):
        assert re.search(rf"^{name} +\S*python\S* -m tinyrmc\.{name} {run.path}$", out, re.M)
    pictures = re.findall(r"picture +(.*)", out)
    assert sorted(Path(path).name for path in pictures) == ["attention.png", "learning_curve.png"]
    assert all(Path(path).read_bytes().startswith(b"\x89PNG") for path in pictures)
    assert train.main([*TINY, "--seed", "5"]) == 0
    assert_same_run(run, Run.open("runs/nth_farthest-quick-2"))


def test_a_finished_run_directory_is_complete(trained):
    assert {path.name for path in trained.path.iterdir()} == {
        *("config.json", "environment.json", "metrics.jsonl", "checkpoint.npz", "checkpoint.previous.npz"),
        *("learning_curve.png", "attention.png"),
    }
    assert trained.config["task"] == "nth_farthest" and trained.config["preset"] == "quick" and trained.config["seed"] == 5
    assert trained.config["config"]["model"]["mem_slots"] == 2 and trained.config["config"]["data"]["rungs"] == [[2, 1], [3, 1]]
    assert {"numpy", "python", "cores", "processor"} <= trained.environment.keys()
    assert isinstance(task_from_dict(trained.config), nth_farthest.Task)
    last = trained.metrics()[-1]
    assert last["step"] == STEPS and 0 <= last["test_accuracy"] <= 1 and 0 <= last["test_accuracy_without_self"] <= 1


def test_the_lstm_has_no_attention_to_draw(capsys):
    assert train.main([*TINY, "--model.core", "lstm", "--model.hidden-size", "3"]) == 0
    out = capsys.readouterr().out
    assert "lstm of 3 units" in out and "learning_curve.png" in out and "attention.png" not in out


# --- Words that cannot be -----------------------------------------------------------------------------------------------------------------

BAD_WORDS = [
    ("nth_fartest", "unknown task 'nth_fartest' (tasks: nth_farthest, program_evaluation); did you mean 'nth_farthest'?"),
    ("zzz", "unknown task 'zzz' (tasks: nth_farthest, program_evaluation)"),
    ("nth_farthest quik", "paper32, paper_lstm, paper_dnc, paper_entnet); did you mean 'quick'?"),
    ("nth_farthest quick extra", "Unrecognized options: extra"),
    ("--train.steps 3", "the first word must be a task"),
    ("nth_farthest --train.stpes 5", "unknown flag '--train.stpes'; did you mean '--train.steps'?"),
    ("nth_farthest --mem-slots=5", "unknown flag '--mem-slots=5'; did you mean '--model.mem-slots'?"),
    ("nth_farthest --train.steps a", "--train.steps takes INT, not 'a'"),
    ("nth_farthest --train.steps=1.5", "--train.steps takes INT, not '1.5'"),
    ("nth_farthest --train.steps", "'--train.steps'"),
    ("nth_farthest --train.steps -5", "train.steps must be positive, not -5"),
    ("nth_farthest --train.batch_size 0", "train.batch_size must be positive, not 0"),
    ("nth_farthest --train.learning-rate nan", "train.learning_rate must be positive, not nan"),
    ("nth_farthest --train.learning-rate inf", "train.learning_rate must be positive, not inf"),
    ("nth_farthest --train.checkpoint-minutes nan", "train.checkpoint_minutes must not be negative, not nan"),
    ("nth_farthest --train.clip-norm x", "--train.clip-norm takes FLOAT, not 'x'"),
    ("nth_farthest --train.decay 2", "train.decay must be in [0, 1]"),
    ("nth_farthest --train.log-every 7", "train.evaluate_every (500) must be a multiple of train.log_every (7)"),
    ("nth_farthest --data.objects 1", "data.objects must be at least 2"),
    ("nth_farthest --data.rungs 3", "--data.rungs takes [INT INT [INT INT ...]], not '3'"),
    ("nth_farthest --data.rungs 9 9", "data.rungs holds 9 x 9, outside 2 x 1 to 4 x 4"),
    ("nth_farthest --model.gate-style unt", "--model.gate-style is one of unit, memory, none, not 'unt'; did you mean 'unit'?"),
    ("nth_farthest --model.core lstn", "--model.core is one of rmc, rmc_paper, lstm, dnc, entnet, entnet_bank, not 'lstn'"),
    ("nth_farthest --model.num-heads 0", "num_heads must be an integer of at least 1, not 0"),
    ("nth_farthest --model.num-heads -2", "num_heads must be an integer of at least 1, not -2"),
    ("nth_farthest --model.mem-slots -1", "mem_slots must be an integer of at least 1, not -1"),
    ("nth_farthest --model.head-size 0", "head_size must be an integer of at least 1, not 0"),
    ("nth_farthest --model.key-size 0", "key_size must be an integer of at least 1, not 0"),
    ("nth_farthest --model.num-blocks 0", "num_blocks must be an integer of at least 1, not 0"),
    ("nth_farthest --model.core lstm --model.hidden-size 0", "hidden_size must be an integer of at least 1, not 0"),
    ("nth_farthest --model.core rmc_paper --model.num-blocks 2", "model.core rmc_paper is the paper's text: one block"),
    ("nth_farthest --model.no-such", "unknown flag '--model.no-such'"),
    ("nth_farthest --seed -1", "--seed must not be negative, got -1"),
    ("nth_farthest --workers 0", "--workers must be at least 1, got 0"),
    ("nth_farthest --workers 300", "--workers 300 is more than the 256 examples of a batch; use at most 256"),
    ("nth_farthest --workers 2 --device cuda", "a GPU is fed by one worker; leave workers out"),
    ("nth_farthest --max-minutes 0", "--max-minutes must be positive, got 0"),
    ("nth_farthest --device gpu", "--device is one of cpu, cuda, not 'gpu'"),
    ("nth_farthest --device cuda", "pip install 'tinyrmc[cuda12]' or 'tinyrmc[cuda13]'"),
    ("nth_farthest --device cuda --tf32", "pip install 'tinyrmc[cuda12]' or 'tinyrmc[cuda13]'"),
    ("nth_farthest --tf32", "--tf32 goes with --device cuda, and the device is cpu; leave --tf32 out"),
    ("nth_farthest --tf3", "unknown flag '--tf3'; did you mean '--tf32'?"),
    ("program_evaluation --data.length 0", "data.length must be from 1 to 18 digits, not 0"),
    ("program_evaluation --data.kind program --data.nesting 0", "data.nesting must be at least 1 operation, not 0"),
    ("program_evaluation --data.kind copy --data.nesting 2", "data.kind copy is one number to be remembered"),
    ("program_evaluation --data.kind programm", "--data.kind is one of addition, control, program, copy, reverse, double, not 'programm'"),
    ("program_evaluation paper --data.operations add devide", "data.operations holds 'devide'; style release has add, subtract, multiply"),
    ("program_evaluation --data.curriculum combined", "--data.curriculum is one of baseline, naive, mix, combine, not 'combined'"),
    ("program_evaluation --data.length 1 --data.curriculum combine", "data.curriculum combine has no level to climb"),
    ("program_evaluation --model.decoder own", "--model.decoder is one of zeros, teacher, own_predictions, not 'own'"),
    ("--resume", "--resume needs a run directory"),
    ("--resume --workers 2", "--resume needs a run directory"),
    ("--resume nowhere", "cannot read nowhere/config.json: No such file or directory"),
    ("--resume=nowhere", "cannot read nowhere/config.json"),
]  # fmt: skip


@pytest.mark.parametrize("words, says", BAD_WORDS, ids=[words for words, _ in BAD_WORDS])
def test_words_that_cannot_be_get_one_line(words, says, refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)  # as if it were not installed
    assert says in refused(train.main, *words.split())
    assert contents() == {}


def test_one_line_also_from_a_real_process(tmp_path):
    for words in ("nth_fartest", "nth_farthest --train.steps a", "nth_farthest --model.num-heads 0", "--resume nowhere"):
        done = python("-m", "tinyrmc.train", *words.split())
        assert done.returncode == 2 and done.stdout == "" and re.fullmatch(r"error: [^\n]+\n", done.stderr)
    done = python("-m", "tinyrmc.evaluate", "nowhere")
    assert done.returncode == 2 and done.stdout == "" and re.fullmatch(r"error: [^\n]*nowhere[^\n]*\n", done.stderr)
    assert contents() == {}


def test_an_existing_run_directory_is_never_written_into(copy, refused):
    assert "copy exists already; choose another --run or resume it with --resume copy" in refused(train.main, *TINY, "--run", "copy")
    Path("empty").mkdir()
    Path("file").touch()
    assert "empty exists already" in refused(train.main, *TINY, "--run", "empty")
    assert "file exists already" in refused(train.main, *TINY, "--run", "file")


def test_a_place_that_cannot_be_written_is_named(refused):
    Path("file").touch()
    assert "cannot make a run directory in file" in refused(train.main, *TINY, "--run", "file/run")
    Path("runs").touch()
    assert "cannot make a run directory in runs" in refused(train.main, *TINY)


# --- Checkpoints that cannot be -----------------------------------------------------------------------------------------------------------

def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def newer(path):
    from tinyrmc import runs

    arrays, state = load_arrays(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "VERSION", runs.VERSION + 1)
        save_arrays(path, arrays, state)


DAMAGES = {
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-100]), "is cut short"),
    "bit-flipped": (flip_a_bit, "is damaged"),
    "empty": (lambda path: path.write_bytes(b""), "is cut short (0 bytes)"),
    "text": (lambda path: path.write_text("hello"), "is not an npz file"),
    "foreign": (lambda path: np.savez(path, weight=np.ones(3)), "is an npz file, but not one of tinyrmc's"),
    "newer": (newer, "has format version 2, this tinyrmc reads 1; upgrade tinyrmc"),
    "of no run": (lambda path: save_arrays(path, {"weight": np.ones(3)}, {"notes": 1}), "not of a training run"),
    "of nothing": (lambda path: save_arrays(path, {}, None), "not of a training run"),
    "a directory": (lambda path: (path.unlink(), path.mkdir()), "cannot read"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("command", ["resume", "evaluate", "evaluate the file", "load"])
def test_a_checkpoint_that_cannot_be_trusted_is_refused(command, damage, copy, refused):
    spoil, says = DAMAGES[damage]
    spoil(copy.checkpoint)
    if command == "evaluate the file" and damage == "a directory":
        says = "cannot read copy/checkpoint.npz/config.json"
    if command == "load":
        with pytest.raises(RunError) as caught:
            load(copy.path)
        said = str(caught.value)
    elif command == "resume":
        said = refused(train.main, "--resume", copy.path)
    else:
        said = refused(evaluate.main, copy.path if command == "evaluate" else copy.checkpoint)
    assert says in said and "copy" in said and "\n" not in said


def test_a_checkpoint_of_another_configuration_names_the_first_field(copy, refused):
    other = json.loads((copy.path / "config.json").read_text())
    other["config"]["model"]["mem_slots"] = 3
    (copy.path / "config.json").write_text(json.dumps(other))
    says = "copy/checkpoint.npz has another configuration: config.model.mem_slots: 2 in the checkpoint, 3 asked for"
    assert says in refused(train.main, "--resume", "copy")
    assert says in refused(evaluate.main, "copy")


@pytest.mark.parametrize(
    "words, says",
    [
        ("--model.mem-slots 3", "copy has another configuration: config.model.mem_slots: 2 in the checkpoint, 3 asked for"),
        ("--run other", "--run other goes with a new run; --resume copy goes on in its own directory"),
        ("--seed 6", "seed: 5 in the checkpoint, 6 asked for"),
        ("--train.steps 13", "config.train.steps: 12 in the checkpoint, 13 asked for"),
        ("--train.stpes 13", "did you mean '--train.steps'?"),
    ],
)
def test_a_run_cannot_be_resumed_as_another(words, says, copy, refused):
    assert says in refused(train.main, "--resume", "copy", *words.split())


def test_a_run_cannot_be_resumed_as_another_task(copy, refused):
    assert "copy is a run of 'nth_farthest', not 'other'" in refused(train.main, "other", "--resume", "copy")


def test_the_weights_alone_cannot_be_resumed(copy, refused):
    with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
        evaluate.main(["copy", "--export", "weights.npz"])
    shutil.copy("weights.npz", copy.checkpoint)
    assert "weights" in refused(train.main, "--resume", "copy")


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda config: config.clear(), "has no 'task'"),
        (lambda config: config.pop("preset"), "has no 'preset'"),
        (
            lambda config: config.update(task="nth_fartest"),
            "unknown task 'nth_fartest' (tasks: nth_farthest, program_evaluation); did you mean 'nth_farthest'?",
        ),
        (lambda config: config["config"]["train"].pop("steps"), "config.train.steps is missing"),
        (lambda config: config["config"].update(more=1), "config.more is unknown"),
        (lambda config: config["config"]["train"].update(steps=-1), "config.train cannot be used: train.steps must be positive"),
    ],
)
def test_a_spoilt_configuration_is_refused(change, says, copy, refused):
    config = json.loads((copy.path / "config.json").read_text())
    change(config)
    (copy.path / "config.json").write_text(json.dumps(config))
    assert says in refused(train.main, "--resume", "copy")


# --- A disk that fails --------------------------------------------------------------------------------------------------------------------

def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_while_saving_leaves_a_run_that_can_go_on(trained, half, capsys):
    """The disk is full when the resumed run saves for the first time; what was saved before is untouched."""
    before = half.checkpoint.read_bytes()
    with pytest.MonkeyPatch.context() as disk, pytest.raises(SystemExit) as caught:
        disk.setattr(os, "fsync", full)
        disk.setattr(Run, "truncate_metrics", lambda run, lines: None)  # it, too, writes; here it shall be the checkpoint
        run_main(lambda: train.main(["--resume", "half"]))
    err = capsys.readouterr().err
    assert caught.value.code == 2 and err.count("\n") == 1
    assert err.startswith("error: cannot write half/checkpoint.npz: No space left on device; free some space")
    assert half.checkpoint.read_bytes() == before and not list(half.path.glob("*.partial"))

    assert train.main(["--resume", "half"]) == 0
    assert_same_run(half, trained)


def test_a_disk_that_is_full_from_the_beginning_costs_no_step(monkeypatch, capsys):
    fsync, calls = os.fsync, itertools.count()
    monkeypatch.setattr(os, "fsync", lambda file: fsync(file) if next(calls) < 2 else full())  # environment.json, config.json
    monkeypatch.setattr(nth_farthest.Task, "after_update", lambda *_: pytest.fail("a step was computed"))
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: train.main(TINY))
    assert caught.value.code == 2 and "checkpoint.npz: No space left on device" in capsys.readouterr().err


# --- Stopping and going on ----------------------------------------------------------------------------------------------------------------

def resume_command(out):
    """The words after `python -m tinyrmc.train` of the command that was printed."""
    (command,) = re.findall(r"^ +\S*(python\S* -m tinyrmc\.train --resume .*)$", out, re.M)
    return shlex.split(command)[3:]


@pytest.mark.parametrize("name, code", [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_saves_and_the_printed_command_goes_on(name, code, trained, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        stop_at(patch, 7, getattr(signal, name))
        assert train.main([*TINY, "--seed", "5", "--run", "a run's directory"]) == code
    out, err = capsys.readouterr()
    assert f"{name} at step 7: saved. Go on with" in out and err == ""
    words = resume_command(out)
    assert words == ["--resume", "a run's directory"]
    assert train.main(words) == 0
    out = capsys.readouterr().out
    assert "5 steps of 8 examples" in out and "note:" not in out
    assert_same_run(Run.open("a run's directory"), trained)


def test_the_task_may_be_named_again_and_its_flags_repeated(half, trained):
    assert train.main([*TINY, "--seed", "5", "--resume=half"]) == 0
    assert_same_run(half, trained)


def test_out_of_time_evaluates_and_can_go_on(trained, capsys):
    assert train.main([*TINY, "--seed", "5", "--run", "timed", "--max-minutes", "1e-9"]) == 0
    run, out = Run.open("timed"), capsys.readouterr().out
    assert "out of time; 11 steps to go" in out and "test accuracy" in out
    (line,) = run.metrics()
    assert line["step"] == 1 and 0 <= line["test_accuracy"] <= 1
    (command,) = re.findall(r"^resume +(.*)$", out, re.M)
    assert train.main(shlex.split(command)[3:]) == 0
    assert_same_run(run, trained)


def test_another_number_of_workers_is_allowed_and_told(half, capsys):
    assert train.main(["--resume", "half", "--workers", "2"]) == 0
    assert "note: the run had 1 workers, now 2; it goes on, but not bit for bit as it would have" in capsys.readouterr().out
    assert half.metrics()[-1]["step"] == STEPS


def test_a_run_on_a_gpu_records_which_and_goes_on_as_it_was(monkeypatch, capsys):
    cupy, modes = fakecupy.installed(monkeypatch), []
    monkeypatch.setattr(train, "use_tf32", lambda xp, on: modes.append((xp, on)))
    assert train.main([*TINY, "--device", "cuda", "--tf32", "--run", "run", "--max-minutes", "1e-9"]) == 0
    environment = Run.open("run").environment
    assert (environment["device"], environment["tf32"], environment["gpu"]) == ("cuda", True, "Some GPU")
    assert (environment["compute_capability"], environment["cuda_driver"], environment["cuda_runtime"]) == ("9.0", 13000, 12090)
    assert train.main(["--resume", "run"]) == 0
    assert modes == [(cupy, True)] * 2 and capsys.readouterr().out.count("on cuda in TF32, 1 worker") == 2


@pytest.mark.parametrize("major, minor, refused", [(7, 5, True), (8, 0, False)])
def test_tf32_on_a_gpu_that_has_none_is_refused(major, minor, refused, monkeypatch, capsys):
    cupy, modes = fakecupy.installed(monkeypatch), []
    properties = {"name": b"Some older GPU", "major": major, "minor": minor}
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceProperties", lambda device: properties)
    monkeypatch.setattr(train, "use_tf32", lambda xp, on: modes.append(on))
    words = [*TINY, "--device", "cuda", "--tf32", "--run", "run", "--max-minutes", "1e-9"]
    if not refused:
        assert train.main(words) == 0 and modes == [True]
        return
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: train.main(words))
    assert caught.value.code == 2 and modes == [] and not Path("run").exists()
    says = "--tf32: Some older GPU has compute capability 7.5, and TF32 needs 8.0 or more; leave --tf32 out, or say --no-tf32"
    assert capsys.readouterr().err == f"error: {says}\n"


@forks
def test_a_run_goes_on_with_as_many_workers_as_before(capsys):
    assert train.main([*TINY, "--workers", "2", "--run", "two", "--max-minutes", "1e-9"]) == 0
    assert train.main(["--resume", "two"]) == 0
    out = capsys.readouterr().out
    assert out.count("on cpu, 2 processes") == 2 and "note:" not in out
    assert (Run.open("two").environment["workers"], Run.open("two").environment["device"]) == (2, "cpu")


@forks
def test_a_run_of_several_workers_goes_on_with_one_on_a_gpu(monkeypatch, capsys):
    fakecupy.installed(monkeypatch)
    assert train.main([*TINY, "--workers", "2", "--run", "two", "--max-minutes", "1e-9"]) == 0
    assert train.main(["--resume", "two", "--device", "cuda"]) == 0
    assert "note: the run had 2 workers, now 1; " in capsys.readouterr().out


def test_a_run_that_died_before_its_last_evaluation_is_evaluated(copy, trained):
    last = copy.metrics()[-1]
    copy.truncate_metrics(2)
    assert train.main(["--resume", "copy"]) == 0
    assert {**copy.metrics()[-1], "seconds": 0} == {**last, "seconds": 0}
    assert_same_run(copy, trained)


def test_a_finished_run_is_left_as_it_is(copy, capsys):
    before = contents()
    assert train.main(["--resume", "copy"]) == 0
    assert re.search(r"copy has finished already \(12 steps\); see \S+ -m tinyrmc\.evaluate copy", capsys.readouterr().out)
    assert contents() == before


def test_a_learning_rate_that_is_too_large_ends_in_one_line(capsys):
    words = ["--train.learning-rate", "1e30", "--train.warmup-steps", "0", "--train.nonfinite-limit", "3", "--run", "wild"]
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: train.main([*TINY, *words]))
    err = capsys.readouterr().err
    assert caught.value.code == 2 and re.fullmatch(r"error: stopped at step \d+: .* first at step \d+; [^\n]*\n", err)
    arrays, _ = Run.open("wild").load()
    assert all(np.isfinite(x).all() for x in arrays.values())
    assert np.isfinite(load("wild")(np.zeros((1, 4, 14), np.float32)).data).all()


@forks
def test_a_killed_worker_ends_in_one_line(monkeypatch, capsys):
    parent, draw, steps = os.getpid(), nth_farthest.Task.draw, itertools.count()

    def fatal(*words):
        if os.getpid() != parent and next(steps) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return draw(*words)

    monkeypatch.setattr(nth_farthest.Task, "draw", fatal)
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: train.main([*TINY, "--workers", "2"]))
    err = capsys.readouterr().err
    assert caught.value.code == 2 and re.fullmatch(r"error: a worker process disappeared [^\n]*\n", err)


# --- Real processes -----------------------------------------------------------------------------------------------------------------------

SURROUNDINGS = os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}


def python(*words, **keywords):
    """A finished process of this interpreter."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env=SURROUNDINGS, capture_output=True, text=True, timeout=100, **keywords)


LONG = [*TINY, "--train.steps", "603", "--train.evaluate-every", "300", "--train.log-every", "6"]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """LONG, with two workers, from a process that nobody disturbed."""
    folder = tmp_path_factory.mktemp("unbroken")
    workers = "2" if CAN_FORK else "1"
    done = python("-m", "tinyrmc.train", *LONG, "--workers", workers, "--run", "whole", cwd=folder)
    assert done.returncode == 0, done.stderr
    return Run.open(folder / "whole"), workers


@pytest.mark.skipif(os.name != "posix", reason="needs signals between processes")
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_process_is_stopped_and_another_goes_on(number, code, unbroken):
    whole, workers = unbroken
    words = ["-m", "tinyrmc.train", *LONG, "--workers", workers, "--run", "broken"]
    with subprocess.Popen([sys.executable, *words], env=SURROUNDINGS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        metrics = Path("broken/metrics.jsonl")
        while not metrics.exists() and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, ""), out
    broken = Run.open("broken")
    step = broken.load()[1]["step"]
    if number == signal.SIGKILL:
        assert step == 0
        words = ["--resume", "broken"]
    else:
        assert 6 <= step < 603 and f"{signal.Signals(number).name} at step {step}: saved" in out
        words = resume_command(out)
    done = python("-m", "tinyrmc.train", *words, "--workers", workers)
    assert (done.returncode, done.stderr) == (0, "")
    assert_same_run(broken, whole)


# --- Evaluating ---------------------------------------------------------------------------------------------------------------------------

def evaluated(capsys, *words):
    assert evaluate.main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_an_evaluation_gives_the_numbers_of_the_run_in_whatever_form_it_comes(trained, capsys, tmp_path):
    last = {name: value for name, value in trained.metrics()[-1].items() if name.startswith("test_")}
    assert evaluated(capsys, trained.path) == last
    assert evaluated(capsys, trained.checkpoint) == last

    assert evaluate.main([str(trained.path), "--export", "weights.npz"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("nth_farthest quick --model.mem-slots 2 ") and ", seed 5, step 12; 200 examples\n" in out
    assert err == "weights written to weights.npz\n"
    assert re.search(rf"test accuracy +{100 * last['test_accuracy']:.1f} % +50\.0 % +\d\d\.\d %", out)
    assert re.search(rf"test loss +{last['test_loss']:.4f}", out)
    assert evaluated(capsys, "weights.npz") == last
    assert evaluate.main(["weights.npz"]) == 0
    assert capsys.readouterr().out == out
    arrays, _ = load_arrays("weights.npz")
    assert all(name.startswith("parameters/") for name in arrays)
    assert Path("weights.npz").stat().st_size < trained.checkpoint.stat().st_size / 2

    inputs = nth_farthest.draw(np.random.default_rng(0), 5, 4, 2, (4, 2))["inputs"]
    for path in (trained.path, trained.checkpoint, "weights.npz"):
        np.testing.assert_array_equal(load(path)(inputs).data, load(trained.path)(inputs).data)


def test_an_export_overwrites_nothing(trained, refused):
    Path("weights.npz").write_text("mine")
    assert "weights.npz exists already; choose another --export" in refused(evaluate.main, trained.path, "--export", "weights.npz")
    assert "cannot write no/weights.npz" in refused(evaluate.main, trained.path, "--export", "no/weights.npz")


@pytest.mark.parametrize(
    "words, says", [("", "required: RUN"), ("nowhere", "cannot read nowhere"), ("a b", "unrecognized arguments: b"), (".", "config.json")]
)
def test_evaluate_refuses_in_one_line(words, says, refused):
    assert says in refused(evaluate.main, *words.split())


# --- A task of one's own ------------------------------------------------------------------------------------------------------------------

PARITY = '''"""Parity: is the number of ones odd? As short as a task can be."""

from dataclasses import dataclass

import numpy as np

from tinyrmc import nn, primitives
from tinyrmc.fused import softmax_cross_entropy
from tinyrmc.training import Task as BaseTask, TrainConfig


@dataclass(frozen=True)
class Config:
    """What the command line offers."""

    bits: int = 3
    """bits of an example"""
    train: TrainConfig = TrainConfig(steps=200, batch_size=64, learning_rate=1e-2, warmup_steps=0, log_every=50, evaluate_every=100)


class Task(BaseTask):
    """Parity of a few bits."""

    presets = {"quick": ("three bits", Config()), "four": ("four bits", Config(bits=4))}

    def build(self, seed):
        return nn.MLP(self.config.bits, [32, 2], seed=np.random.default_rng(seed))

    def draw(self, rng, count):
        bits = rng.integers(2, size=(count, self.config.bits))
        return {"bits": bits.astype(np.float32), "target": bits.sum(1) % 2}

    def loss(self, model, batch, carry):
        logits = model(batch["bits"])
        losses = softmax_cross_entropy(logits, batch["target"])
        right = (logits.data.argmax(1) == batch["target"]).sum()
        return primitives.sum(losses), losses.size, {"accuracy": (right, losses.size)}, None
'''


def test_a_file_dropped_in_is_trained_resumed_evaluated_and_loaded(monkeypatch, capsys, tmp_path):
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "parity.py").write_text(PARITY)
    (folder / "broken.py").write_text("import nothing_of_this_name\n")
    monkeypatch.setattr(discovery, "FOLDER", folder)
    try:
        assert train.main([]) == 0
        listing = capsys.readouterr().out
        assert "parity  Parity: is the number of ones odd?" in listing and "    four   four bits" in listing
        assert "broken\n" in listing and "No module named 'nothing_of_this_name'" in listing
        assert train.main(["parity"]) == 0
        run, out = Run.open("runs/parity-quick-1"), capsys.readouterr().out
        assert run.metrics()[-1]["test_accuracy"] > 0.95 and "MLP, 194 parameters" in out and "learning_curve.png" in out
        assert train.main(["parity", "four", "--bits", "2", "--max-minutes", "1e-9"]) == 0
        assert train.main(["--resume", "runs/parity-four-1"]) == 0
        assert Run.open("runs/parity-four-1").config["config"]["bits"] == 2
        capsys.readouterr()
        assert evaluated(capsys, run.path)["test_accuracy"] == run.metrics()[-1]["test_accuracy"]
        assert load(run.path)(np.zeros((1, 3), np.float32)).shape == (1, 2)
    finally:
        sys.modules.pop("tinyrmc_tasks.parity", None)


def test_the_package_itself_says_what_can_be_run():
    done = subprocess.run([sys.executable, "-m", "tinyrmc"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "nth_farthest" in done.stdout
