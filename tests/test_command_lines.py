"""The command lines as a user meets them: train, evaluate, and one line of complaint
for anything that cannot be.

Most tests call `main` in this process, in an empty current directory; what must be true
of real processes is asked of real processes.
"""

import itertools
import os
import re
import sys
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pytest
from owntask import LARGER, dropped_in
from tinyruns import (
    AT_ONCE,
    ROOT,
    STEPS,
    TINY,
    assert_same_run,
    contents,
    evaluated,
    nth_farthest,
    output,
    python,
)
from tinytasks import changed

from tinyrmc import load
from tinyrmc.cli import commands, evaluate, plot, train
from tinyrmc.config import fields_of, flag_of, value_at
from tinyrmc.results.progress import Progress
from tinyrmc.training import discovery
from tinyrmc.training.run import Run, load_arrays, task_from_dict

pytestmark = pytest.mark.usefixtures("few_held_out_examples", "empty_directory")


# --- What is printed ------------------------------------------------------------------


def test_without_words_all_tasks_and_presets_are_listed(capsys):
    assert train.main([]) == 0
    listing = capsys.readouterr().out
    whole = r"^nth_farthest  Nth farthest: .*\n(    .*\n)+"
    of_task = re.search(whole, listing, re.M).group()
    for preset, (text, _) in nth_farthest.Task.presets.items():
        (line,) = re.findall(rf"^    {preset} +(.*)$", of_task, re.M)
        assert line == text + ("  (default)" if preset == "quick" else "")
    for words in (["-h"], ["--help"]):
        assert train.main(words) == 0 and capsys.readouterr().out == listing


def test_the_help_names_every_field_with_its_unit_and_default(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")  # with more room there are several columns
    with pytest.raises(SystemExit) as caught:
        train.main(["nth_farthest", "ladder", "--help-all"])
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "python -m tinyrmc.train nth_farthest ladder" in text
    for kind, default in (
        (commands.Options, commands.Options()),
        (nth_farthest.Config, nth_farthest.LADDER),
    ):
        for flag in map(flag_of, fields_of(kind)):
            value = value_at(default, flag.removeprefix("--").replace("-", "_"))
            if flag == "--data.stages":
                value = " ".join(f"{k} {d}" for k, d in value)
            value = "none" if value == () else value
            until = r"(?:(?! --(?![\w.-]*no-)).)*?"  # not into the next flag
            given = re.escape(str(value))
            entry = re.search(rf" {flag}[ ,]{until}\(default: {given}\)", text)
            assert entry and len(entry[0].split()) >= 6, flag  # says what it is
    for section in ("section 3.1", "section 3.2", "section 3.3", "equation 7"):
        assert section in text


def test_a_run_tells_what_it_is_how_it_goes_and_what_to_do_next(pictures, capsys):
    assert train.main([*TINY, "--seed", "5"]) == 0
    out, err = capsys.readouterr()
    assert "\r" not in out + err and err == ""
    run = Run.open("runs/nth_farthest-quick-1")
    model = load(run.path)
    # with its flags; the preset's promise is of its own settings
    assert re.match(r"nth_farthest quick --model\.mem-slots 2 .*, seed 5\n", out)
    assert "rmc, 2 slots x 2 units, 1 head" in out
    assert f"{model.num_parameters:,} parameters" in out
    assert re.search(
        r"step +10/12  held-out \d+\.\d %  (stage \dx\d|batches) \d+\.\d %  "
        r"loss \d\.\d+  \d+\.\d steps/s  ETA ",
        out,
    )
    assert re.search(r"test accuracy +\d+\.\d % +50\.0 %", out)
    assert "ranking by own norm" in out
    assert "only the self query" in out
    last = run.metrics()[-1]
    assert f"{100 * last['test_accuracy']:.1f} %" in out
    assert f"run       {run.path}  (12 steps in 0:0" in out
    for name in ("evaluate", "plot"):
        assert re.search(
            rf"^{name} +\S*python\S* -m tinyrmc {name} {run.path}$", out, re.M
        )
    drawn = re.findall(r"picture +(.*)", out)
    names = sorted(Path(path).name for path in drawn)
    assert names == ["attention.png", "learning_curve.png"]
    assert all(Path(path).read_bytes().startswith(b"\x89PNG") for path in drawn)
    assert train.main([*TINY, "--seed", "5"]) == 0
    assert_same_run(run, Run.open("runs/nth_farthest-quick-2"))


def test_a_finished_run_directory_is_complete(trained):
    files = "config.json environment.json metrics.jsonl checkpoint.npz "
    files += "checkpoint.previous.npz learning_curve.png attention.png"
    assert {path.name for path in trained.path.iterdir()} == {*files.split()}
    said, config = trained.config, trained.config["config"]
    assert (said["task"], said["preset"], said["seed"]) == ("nth_farthest", "quick", 5)
    assert config["model"]["mem_slots"] == 2
    assert config["data"]["stages"] == [[2, 1], [3, 1]]
    assert {"numpy", "python", "cores", "processor"} <= trained.environment.keys()
    assert isinstance(task_from_dict(trained.config), nth_farthest.Task)
    last = trained.metrics()[-1]
    assert last["step"] == STEPS
    assert 0 <= last["test_accuracy"] <= 1
    assert 0 <= last["test_accuracy_without_self"] <= 1


def test_passing_a_rung_a_floor_or_a_result_is_told_once(capsys):
    preset = nth_farthest.Task.presets["quick"][1]
    task = nth_farthest.Task(changed(preset, train={"steps": 30}))
    task.references = lambda: {"test_accuracy": {"guessing": 0.25, "paper": 0.9}}
    task.test_examples = 10_240
    progress = Progress(task)
    progress.recall([{"step": 5, "stage": "3x1", "test_accuracy": 0.2}])
    assert capsys.readouterr().out == ""
    # 0.262 might be chance: of 10,240 examples its standard error is 0.43 %
    for step, rung, accuracy in (
        (8, "3x1", 0.262),
        (10, "3x1", 0.3),
        (20, "4x4", 0.3),
        (30, "4x4", 0.95),
    ):
        progress.step(step)
        line = {"step": step, "stage": rung, "accuracy": 0.5}
        progress.line(line | {"test_accuracy": accuracy})
    said = [line for line in capsys.readouterr().out.splitlines() if "/30" not in line]
    assert said == [
        "step      10  held-out accuracy 30.0 %: past the floor 'guessing', 25.0 %",
        "step      20  stage 3x1 passed; now 4x4",
        "step      30  held-out accuracy 95.0 %: past the result 'paper', 90.0 %",
    ]


def test_without_a_terminal_there_is_a_line_at_least_every_minute(capsys, monkeypatch):
    """Steps that take 25 seconds, and no line of metrics for hours."""
    preset = nth_farthest.Task.presets["quick"][1]
    clock = itertools.count(0.0, 25.0)
    monkeypatch.setattr("time.monotonic", lambda: now)
    now = next(clock)
    progress = Progress(nth_farthest.Task(changed(preset, train={"steps": 30})))
    for step in range(1, 9):
        now = next(clock)
        progress.step(step)
    assert capsys.readouterr().out.splitlines() == [
        "step       3/30  25.0 s a step  ETA 11:15",
        "step       6/30  25.0 s a step  ETA 10:00",
    ]


def test_flags_may_be_spelt_as_fields_are():
    _, preset = nth_farthest.Task.presets["quick"]
    for words, field, value in (
        (["--train.learning_rate", "0.1"], "train.learning_rate", 0.1),
        (["--model.head_size=16"], "model.head_size", 16),
        (["--model.head-size=16"], "model.head_size", 16),
        (["--model.no_activate_final"], "model.activate_final", False),
        (["--model.activate-final=False"], "model.activate_final", False),
        (["--model.activate_final=true"], "model.activate_final", True),
        (["--data.stages=2 1 3 1"], "data.stages", ((2, 1), (3, 1))),
        (["--model.dnc.word_size=3"], "model.dnc.word_size", 3),
    ):
        found, _ = commands.parse_words(
            "nth_farthest", "quick", preset, commands.Options(), words
        )
        assert value_at(found, field) == value, words


def test_the_lstm_has_no_attention_to_draw(pictures, capsys):
    assert train.main([*TINY, "--model.core", "lstm", "--model.hidden-size", "3"]) == 0
    out = capsys.readouterr().out
    assert "lstm of 3 units" in out
    assert "learning_curve.png" in out
    assert "attention.png" not in out


def test_settings_that_the_core_does_not_use_are_told_once(capsys):
    for words, says in (
        ("", ""),
        (
            "--model.core lstm --model.layers 2",
            "on the core lstm: model.mem_slots, model.head_size, model.num_heads",
        ),
        (
            "--model.layers 2 --model.dnc.clip 3",
            "on the core rmc: model.layers, model.dnc",
        ),
    ):
        line = [*TINY, *words.split(), "--run", f"run{words}", *AT_ONCE]
        assert train.main(line) == 0
        assert capsys.readouterr().err == (
            f"note: without effect {says}\n" if says else ""
        )
        assert train.main(["--resume", f"run{words}"]) == 0
        assert capsys.readouterr().err == ""


# --- Words that cannot be -------------------------------------------------------------

TASKS = ", ".join(discovery.task_files())  # somebody's own files too
BAD_WORDS = [
    ("nth_fartest", f"(tasks: {TASKS}); did you mean 'nth_farthest'?"),
    ("nth_farthest quik", "did you mean 'quick'?"),
    ("nth_farthest quick extra", "unexpected 'extra'"),
    ("--train.steps 3", "the first word must be a task"),
    ("nth_farthest --train.stpes 5", "; did you mean '--train.steps'?"),
    ("nth_farthest --nosuch", "'--nosuch' (python -m tinyrmc.train nth_farth"),
    ("nth_farthest --train.steps a", "--train.steps takes INT, not 'a'"),
    ("nth_farthest --train.steps -5", "train.steps must be an integer of at least 1"),
    ("nth_farthest --train.learning-rate nan", "train.learning_rate must be in"),
    ("nth_farthest --train.log-every 7", "train.evaluate_every (300) must be a"),
    ("nth_farthest --data.stages 3", "--data.stages takes [INT INT ...], not '3'"),
    ("nth_farthest --model.gate-style unt", "'unt'; did you mean 'unit'?"),
    ("nth_farthest --model.core lstn", "not 'lstn'; did you mean 'lstm'?"),
    (
        "nth_farthest --model.core rmc_paper --model.num-blocks 2",
        "model.core rmc_paper is the paper's text: one block",
    ),
    ("nth_farthest --model.mem-slots 100000000000", "choose a smaller network, or"),
    ("nth_farthest --seed -1", "--seed must not be negative, got -1"),
    ("nth_farthest --workers 0", "--workers must be at least 1, got 0"),
    ("nth_farthest --workers 200 --train.batch-size 100", "--workers 200 are more"),
    ("nth_farthest --workers 2 --device cuda", "a GPU is fed by one worker; give 1"),
    ("nth_farthest --max-minutes 0", "--max-minutes must be positive, got 0"),
    ("nth_farthest --device gpu", "--device is one of cpu, cuda, not 'gpu'"),
    ("nth_farthest --device cuda", "pip install 'tinyrmc[cuda12]' or"),
    ("nth_farthest --tf32", "--tf32 goes with --device cuda, and the device is cpu"),
    ("--resume", "--resume expected one argument"),
    ("--resume nowhere", "cannot read nowhere/config.json: No such file or directory"),
]


def test_words_that_cannot_be_get_one_line(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)  # as if it were not installed
    for words, says in BAD_WORDS:
        assert says in refused(train.main, *words.split()), words
    for words, says in BAD_RUNS.items():
        assert says in refused(evaluate.main, *words.split()), words
    assert contents() == {}


BAD_RUNS = {
    "": "required: RUN",
    "nowhere": "cannot read nowhere",
    "a b": "unexpected 'b'",
    ".": "cannot read ./config.json: No such file or directory; give the path of",
}


def test_one_line_also_from_a_real_process(tmp_path):
    done = python("-m", "tinyrmc.train", "nth_farthest", "--model.num-heads", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: [^\n]+\n", done.stderr)
    done = python("-m", "tinyrmc", "evaluate", "nowhere")
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(r"error: [^\n]*nowhere[^\n]*\n", done.stderr)
    assert contents() == {}


def test_a_reader_that_has_seen_enough_is_no_mistake():
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as pipe:
        done = python(
            "-m", "tinyrmc", "--help", capture_output=False, stdout=pipe, stderr=PIPE
        )
    assert (done.returncode, done.stderr) == (128 + 13, "")  # as SIGPIPE would end it


def test_an_existing_run_directory_is_never_written_into(copy, refused):
    assert "copy exists already; choose" in refused(train.main, *TINY, "--run", "copy")
    Path("empty").mkdir()
    Path("file").touch()
    for what in ("empty", "file"):  # nothing that could be resumed
        says = f"{what} exists already; choose another --run"
        assert refused(train.main, *TINY, "--run", what) == says


# --- Evaluating -----------------------------------------------------------------------


def test_an_evaluation_gives_the_numbers_of_the_run_in_whatever_form_it_comes(
    trained, capsys, tmp_path
):
    last = {k: x for k, x in trained.metrics()[-1].items() if k.startswith("test_")}
    assert evaluated(capsys, trained.path) == last
    assert evaluated(capsys, trained.checkpoint) == last

    assert evaluate.main([str(trained.path), "--export", "weights.npz"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("nth_farthest quick --model.mem-slots 2 ")
    assert ", seed 5, step 12; 200 examples\n" in out
    assert err == "weights written to weights.npz\n"
    assert re.search(
        rf"test accuracy +{100 * last['test_accuracy']:.1f} % +50\.0 % +\d\d\.\d %", out
    )
    assert re.search(rf"test loss +{last['test_loss']:.4f}", out)
    assert evaluated(capsys, "weights.npz") == last
    assert evaluate.main(["weights.npz"]) == 0
    assert capsys.readouterr().out == out
    arrays, _ = load_arrays("weights.npz")
    assert all(name.startswith("parameters/") for name in arrays)
    assert Path("weights.npz").stat().st_size < trained.checkpoint.stat().st_size / 2

    inputs = nth_farthest.draw(np.random.default_rng(0), 5, 4, 2, (4, 2))["inputs"]
    for path in (trained.path, trained.checkpoint, "weights.npz"):
        np.testing.assert_array_equal(
            load(path)(inputs).data, load(trained.path)(inputs).data
        )


def test_an_export_overwrites_nothing(trained, refused, monkeypatch):
    """And is refused before the evaluation, which may take an hour."""
    monkeypatch.setattr(evaluate, "_evaluate", None)
    Path("weights.npz").write_text("mine")
    assert "weights.npz: it exists already; choose another --export" in refused(
        evaluate.main, trained.path, "--export", "weights.npz"
    )
    assert "cannot write no/weights.npz: no is no folder" in refused(
        evaluate.main, trained.path, "--export", "no/weights.npz"
    )
    for name in "weights", "weights.npy", ".":
        says = f"--export {name}: give a name that ends in .npz"
        assert says in refused(evaluate.main, trained.path, "--export", name)


# --- A task of one's own --------------------------------------------------------------


def test_a_file_dropped_in_is_trained_resumed_evaluated_and_loaded(
    pictures, monkeypatch, capsys, tmp_path
):
    dropped_in(monkeypatch, tmp_path / "tasks")
    (discovery.FOLDER / "broken.py").write_text("import nothing_of_this_name\n")
    assert train.main([]) == 0
    listing = capsys.readouterr().out
    assert "larger  Larger: which of some numbers is the largest?" in listing
    assert "    three  three numbers" in listing
    assert "broken\n" in listing and "No module named 'nothing_of_this_name'" in listing
    assert train.main(["larger"]) == 0
    run, out = Run.open("runs/larger-quick-1"), capsys.readouterr().out
    assert out.startswith("larger quick, seed 0: two numbers\n")
    assert run.metrics()[-1]["test_accuracy"] > 0.55
    assert "MLP, 22 parameters" in out
    assert "learning_curve.png" in out
    assert train.main(["larger", "three", "--numbers", "4", *AT_ONCE]) == 0
    assert train.main(["--resume", "runs/larger-three-1"]) == 0
    assert Run.open("runs/larger-three-1").config["config"]["numbers"] == 4
    assert capsys.readouterr().out.count("larger three --numbers 4, seed 0\n") == 2
    capsys.readouterr()
    last = run.metrics()[-1]["test_accuracy"]
    assert evaluated(capsys, run.path)["test_accuracy"] == last
    assert load(run.path)(np.zeros((1, 2), np.float32)).shape == (1, 2)


def test_a_file_that_has_changed_since_is_told(tmp_path, capsys):
    file, said = tmp_path / "changing.py", []
    file.write_text(LARGER)
    assert train.main([str(file), "--run", "run"]) == 0
    for text in LARGER, f"{LARGER}# other\n":
        file.write_text(text)
        assert evaluate.main(["run"]) == train.main(["--resume", "run"]) == 0
        said.append(capsys.readouterr().err)
    assert said == ["", 2 * "note: changing.py has changed since this run began\n"]


def test_a_run_whose_name_begins_with_a_hyphen_has_commands_that_work(capsys):
    assert train.main([*TINY, "--run=-x", *AT_ONCE]) == 0
    told = re.findall(r"-m (tinyrmc.*) (\S*-x)$", capsys.readouterr().out, re.M)
    assert len(told) >= 3 and {path for _, path in told} == {"./-x"}
    assert train.main(["--resume", "./-x"]) == 0


def test_a_folder_that_cannot_be_is_found_before_anything_is_measured(
    refused, monkeypatch
):
    monkeypatch.setattr(plot.probes, "analyse", None)
    Path("runs").touch()
    says = "cannot write into runs/nth_farthest_4x4-attention: Not a directory; choose"
    assert says in refused(plot.main, "attention", "nth_farthest_4x4")


def test_the_package_itself_says_what_can_be_run():
    assert "nth_farthest" in output("-m", "tinyrmc", cwd=ROOT)
