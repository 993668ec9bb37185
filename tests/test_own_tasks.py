"""A task in a folder of one's own: the files beside it, what a run keeps of them, and
mistakes that would go unnoticed.
"""

import csv
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tinyruns import output, python, read

from tinyrmc import load
from tinyrmc.cli import evaluate, report, train
from tinyrmc.errors import RunError, UsageError, UserError
from tinyrmc.training import Trainer, discovery
from tinyrmc.training.discovery import TaskError
from tinyrmc.training.run import Run, is_over, load_arrays, task_from_dict

TASK = '''"""Sums: the sum of three numbers."""

from dataclasses import dataclass, field

import numpy as np

from tinyrmc import nn, primitives as p, training
from numbers_of import draw_numbers


@dataclass(frozen=True)
class Config:
    train: training.TrainConfig = training.TrainConfig(
        steps=8, batch_size=4, log_every=4, evaluate_every=4, micro_batch_size=2
    )


class Net(nn.Module):
    def __init__(self, seed):
        self.first = nn.Linear(3, 4, seed=seed)
        self.last = nn.Linear(4, 1, seed=seed)

    def __call__(self, x):
        return self.last(p.tanh(self.first(x)))


class Task(training.Task):
    presets, headline, test_examples = {"quick": ("", Config())}, "loss", 16
    build = staticmethod(Net)

    def draw(self, rng, count):
        import scaling  # late, as scripts do

        x = draw_numbers(rng, count) * scaling.BY
        return {"x": x, "y": x.sum(axis=1, keepdims=True)}

    def loss(self, model, batch, carry):
        error = p.sum(p.square(model(batch["x"]) - batch["y"]))
        return error, len(batch["x"]), {}, None
'''
BESIDE = """def draw_numbers(rng, count):
    return rng.normal(size=(count, 3)).astype("float32")
"""
NAMES = "numbers_of", "scaling"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the task and two files beside it; tests run in another one."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "sums.py").write_text(TASK)
    (folder / "numbers_of.py").write_text(BESIDE)
    (folder / "scaling.py").write_text("BY = 1\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # else edits may go unseen
    forget()
    yield folder
    forget()


def forget():
    """As if a new process had begun."""
    for name in [*sys.modules]:
        own = re.match(rf"{discovery.PACKAGE}\.(sums|filed)_", name)
        if own or name.partition(".")[0] in NAMES:
            del sys.modules[name]


def trained(folder, *words):
    assert train.main([str(folder / "sums.py"), *words]) == 0


@pytest.mark.slow
def test_files_beside_a_task_are_found_in_workers_and_when_it_goes_on(folder):
    program = "import sys; from tinyrmc.__main__ import run; run()"
    words = "train", str(folder / "sums.py"), "--workers", "2", "--run", "run"
    output("-c", program, *words)  # as `tinyrmc`, whose path has no current folder
    output("-c", program, "train", "--resume", "run", "--train.steps", "16")
    found = json.loads(output("-c", program, "evaluate", "run", "--json"))
    assert found["test_loss"] > 0


def test_two_tasks_have_each_their_own_files(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "sums.py").write_text(TASK)
    (other / "scaling.py").write_text("BY = 1\n")
    (other / "numbers_of.py").write_text(BESIDE.replace("normal", "uniform"))
    one = discovery.load_task(str(folder / "sums.py"))
    two = discovery.load_task(str(other / "sums.py"))
    assert one.draw_numbers is not two.draw_numbers
    assert str(other) in two.draw_numbers.__code__.co_filename


def test_a_run_keeps_what_code_ran_and_tells_what_has_changed(folder, capsys):
    git = ["git", "-C", str(folder), "-c", "user.name=me", "-c", "user.email=me@here"]
    for words in ["init", "-q"], ["add", "."], ["commit", "-qm", "First"]:
        subprocess.run([*git, *words], check=True)
    trained(folder, "--run", "one")
    kept = json.loads(Path("one/environment.json").read_text())
    assert {"sums.py", "numbers_of.py", "scaling.py"} <= {*kept["own_code"]}
    head = [*git, "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True).stdout.strip()
    assert kept["own_commit"] == commit
    capsys.readouterr()
    assert evaluate.main(["one"]) == 0 and capsys.readouterr().err == ""

    (folder / "numbers_of.py").write_text(BESIDE.replace("normal", "uniform"))
    (folder / "scaling.py").write_text("BY = 2\n")
    forget()
    assert evaluate.main(["one"]) == 0
    says = "note: {} has changed since this run began"
    told = capsys.readouterr().err.splitlines()
    assert sorted(told) == [says.format(f"{name}.py") for name in NAMES]
    forget()
    with pytest.warns(UserWarning, match="scaling.py has changed since this run began"):
        load("one")
    forget()
    trained(folder, "--run", "two", "--init", "one")
    assert "scaling.py has changed since this run began" in capsys.readouterr().out
    kept = json.loads(Path("two/environment.json").read_text())
    assert kept["own_commit"] == f"{commit}-dirty"

    forget()
    for steps in 16, 20:  # the second time with the same code
        words = "--resume", "one", "--train.steps", str(steps)
        assert train.main([*words]) == 0
        assert says.format("scaling.py") in capsys.readouterr().err or steps == 20
        later = json.loads(Path("one/environment.json").read_text())["later_code"]
        assert [*later] == ["8"] and later["8"] == kept["own_code"]
    (folder / "scaling.py").write_text("BY = 1\n")
    forget()
    assert evaluate.main(["one"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "note: from step 8 on it ran other code, in numbers_of.py, scaling.py",
        says.format("scaling.py"),
    ]
    trained(folder, "--run", "three", "--init", "one")
    capsys.readouterr()
    assert report.main(["two", "three"]) == 0
    out = capsys.readouterr().out
    two, three = (
        hashlib.sha256(f"BY = {k}\n".encode()).hexdigest()[:8] for k in (2, 1)
    )
    assert f"(scaling.py {two})" in out and f"(scaling.py {three})" in out
    apart = "Runs between which a file of yours had changed stand apart"
    assert apart in " ".join(out.split())


def test_a_change_is_told_before_what_it_breaks(folder, capsys):
    (folder / "sums.py").write_text(TASK.replace("    def loss(", GIVEN.format("")))
    trained(folder, "--run", "one")
    capsys.readouterr()
    for old, new, says in [
        (
            "Linear(4, 1, seed",
            "Linear(4, 1, bias=False, seed",
            "'last.bias' is unknown",
        ),
        (
            "x.sum(axis=1",
            "x.max(axis=1",
            "; restore the file that it reads (or does `d",
        ),
    ]:
        text = TASK.replace("    def loss(", GIVEN.format(""))
        (folder / "sums.py").write_text(text.replace(old, new))
        for words in (evaluate.main, "one"), (train.main, "--resume", "one"):
            forget()
            with pytest.raises(UserError, match=re.escape(says)):
                words[0]([*words[1:]])
            told = capsys.readouterr().err
            assert told == "note: sums.py has changed since this run began\n"


def with_loss(folder, text, draw=None):
    changed = TASK.replace("return error, len(batch", text + "return error, len(batch")
    (folder / "sums.py").write_text(changed)
    if draw:
        (folder / "numbers_of.py").write_text(draw)
    forget()


def test_a_mean_beside_a_count_is_refused(folder):
    with_loss(folder, "error = error / len(batch['x'])\n        ")
    with pytest.raises(TaskError, match=r"gives the loss as a mean beside a count: \d"):
        trained(folder)
    metric = TASK.replace(
        "{}, None",
        '{"far": (error.data / len(batch["x"]), 2.0 * len(batch["x"]))}, None',
    )
    (folder / "sums.py").write_text(metric)
    forget()
    with pytest.raises(TaskError, match=r"gives the metric 'far' as a mean beside a"):
        trained(folder)
    right = TASK.replace('error, len(batch["x"])', 'error / len(batch["x"]), 1')
    (folder / "sums.py").write_text(right)  # the mean over the pieces of a batch
    forget()
    trained(folder)


OWN = "import numpy as np\n" + BESIDE.replace("rng.normal", "{}.normal")
GIVEN = """    def data(self, part):
        x = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
        y = x.sum(axis=1, keepdims=True)
        {}
        return {{"x": x, "y": y}}

    def loss("""
DOUBTFUL = [  # (a file, its text, another in its place, the note on it)
    ("numbers_of.py", BESIDE, OWN.format("np.random"), "the first batch, drawn twice,"),
    (
        "numbers_of.py",
        BESIDE,
        OWN.format("np.random.default_rng(0)"),
        "x, y of the first batch comes again in the next, row by row: all batches are",
    ),
    (
        "numbers_of.py",
        BESIDE,
        OWN.format("np.random.default_rng(0)"),
        "of 16 examples of test 16 are in the first two training batches, too: there",
    ),
    (
        "sums.py",
        "p.tanh(self.first(x))",
        "p.tanh(self.first(x)).data",
        "2 parameters get no gradient from the loss, and will not learn: first.weight, "
        "first.bias; was something detached",
    ),
    (
        "sums.py",
        "p.tanh(self.first(x))",
        "p.softmax(self.first(x), axis=0)",
        "something mixes the examples of a batch, such as a softmax over its axis 0",
    ),
    (
        "sums.py",
        "    def loss(",
        GIVEN.format(""),
        "of 20 examples of test 20 are in the training part, too: there it measures",
    ),
    (
        "sums.py",
        "    def loss(",
        GIVEN.format("if part != 'train': x[2:] += 1"),
        "of 20 examples of test 2 are in the training part, too",
    ),
    (
        "sums.py",
        "    def loss(",
        GIVEN.format("if part == 'train': x[3, 1] = y[4:6] = np.nan"),
        "'y' of data('train') holds NaN or infinity in 2 rows, first in row 4",
    ),
]


def test_what_may_be_meant_so_is_told_before_the_first_step(folder, capsys):
    for name, old, new, says in [("sums.py", "", "", None), *DOUBTFUL]:
        (folder / "sums.py").write_text(TASK)
        (folder / "numbers_of.py").write_text(BESIDE)
        text = (folder / name).read_text()
        assert text.count(old) == 1 or not old
        (folder / name).write_text(text.replace(old, new) if old else text)
        forget()
        kind = discovery.load_task(str(folder / "sums.py")).Task
        with Trainer(kind(kind.presets["quick"][1])) as trainer:
            trainer.try_out()
        found = trainer.notes
        assert any(says in x for x in found) if says else not found, (says, found)
    trained(folder)  # the last one
    assert f"  note      {says}" in capsys.readouterr().out


def test_numbers_that_are_not_finite_are_named_where_they_stop_a_run(folder):
    nan = "    x[1, 2] = float('nan')\n    return x\n"
    broken = BESIDE.replace("return", "x =") + nan
    (folder / "numbers_of.py").write_text(broken)
    forget()
    says = "are to blame: 'x' of the batch of step 1 holds NaN or infinity in 1 row, f"
    with pytest.raises(RunError, match=f"The data {says}irst in row 1"):
        trained(folder, "--train.nonfinite-limit", "1")


def test_an_error_in_a_file_beside_is_one_line_with_its_place(folder):
    broken = BESIDE.replace("return", "return 1 / 0 *")
    (folder / "numbers_of.py").write_text(broken)
    words = "-m", "tinyrmc.train", str(folder / "sums.py")
    done = python(*words)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert (
        "mine/numbers_of.py, line 2, in draw_numbers: ZeroDivisionError" in done.stderr
    )


VALIDATED = TASK.replace(
    'headline, test_examples = {"quick": ("", Config())}, "loss", 16',
    """headline = {"quick": ("", Config())}, "loss"
    splits, test_examples = ("validation", "test"), 16
    losses = iter([0.0, 5.0, 3.0, 4.0, 2.0, 6.0, 7.0, 8.0, 9.0])

    def named(self, split, sums):
        found = super().named(split, sums)
        if split == "validation":
            found["validation_loss"] = next(Task.losses)
        return found""",
)


@pytest.fixture
def validated(folder):
    """The task with a validation set, whose losses are told beforehand; the first is
    that of the one example with which a run tries itself out.
    """
    (folder / "sums.py").write_text(VALIDATED)
    forget()
    return [str(folder / "sums.py"), "--train.log-every", "2", "--train.evaluate-every"]


def test_the_best_weights_on_the_validation_set_are_kept(validated, capsys):
    assert train.main([*validated, "2", "--train.steps", "10", "--run", "run"]) == 0
    run, out = Run.open("run"), capsys.readouterr().out
    _, state = load_arrays(run.best)
    assert state["step"] == 8  # after 5, 3, 4 came 2, then only worse ones
    line = "best      .* -m tinyrmc evaluate run --best  .held-out loss 2.0000, step 8"
    assert re.search(line.replace("held-out", "validation"), out)
    best, last = load("run/best.npz"), load("run")
    assert (best.first.weight.data != last.first.weight.data).any()
    Task = discovery.load_task(validated[0]).Task
    Task.losses = iter([1.0] * 9)
    assert evaluate.main(["run", "--best", "--splits", "test", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["test_loss"]
    assert evaluate.main(["run", "--splits", "test", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test_loss"] != found
    Task.losses = iter([1.0] * 9)
    assert report.main(["run", "--best", "--out", "best.csv"]) == 0
    assert "weights that did best on the val" in capsys.readouterr().out
    (row,) = csv.DictReader(Path("best.csv").read_text().splitlines())
    assert float(row["test_loss_mean"]) == found
    Task.losses = iter([1.0] * 9)
    assert train.main([*validated, "2", "--run", "none", "--train.no-keep-best"]) == 0
    with pytest.raises(RunError, match=r"--best: none has no best\.npz; runs have one"):
        report.main(["none", "--best"])
    assert not Run.open("none").best.exists()
    with pytest.raises(UsageError, match=r"none has no best\.npz; runs have one"):
        evaluate.main(["none", "--best"])


def test_what_is_best_is_remembered_when_a_run_goes_on(validated):
    words = [*validated, "2", "--train.steps"]
    assert train.main([*words, "6", "--run", "run"]) == 0
    _, state = Run.open("run").load()
    assert state["best"] == [[4, 3.0], 1]
    Task = discovery.load_task(validated[0]).Task
    Task.losses = iter([0.0, 3.5, 9.0])
    assert train.main(["--resume", "run", "--train.steps", "10"]) == 0
    assert load_arrays(Run.open("run").best)[1]["step"] == 4
    _, state = Run.open("run").load()
    assert state["best"] == [[4, 3.0], 3]


def test_a_run_ends_when_its_patience_does(validated, capsys):
    words = [*validated, "2", "--train.steps", "40", "--train.patience", "2"]
    assert train.main([*words, "--run", "run"]) == 0
    lines = Run.open("run").metrics()
    assert lines[-1]["step"] == 12  # 2.0 at step 8, then 6.0 and 7.0
    assert "test_loss" in lines[-1]
    out = capsys.readouterr().out
    assert "12 steps in" in out
    assert ", no better in 2 evaluations; 28 steps left out)" in out
    assert train.main(["--resume", "run"]) == 0
    assert "has finished already (12 steps)" in capsys.readouterr().out
    task = task_from_dict(Run.open("run").config)
    assert is_over(Run.open("run"), task, 12)
    # the checkpoint tells of its own step alone; of a later line it knows nothing
    assert not is_over(Run.open("run"), task, 16)


def test_patience_with_one_set_is_told(folder, capsys):
    trained(folder, "--train.patience", "50")
    assert "note      --train.patience looks at the test set, which is the only" in (
        capsys.readouterr().out
    )


# --- Examples from a file -------------------------------------------------------------


def test_a_data_file_with_splits(tmp_path, monkeypatch, capsys, refused):
    """The documents' task, with the documents' `data` in the place of its `draw`."""
    monkeypatch.chdir(tmp_path)
    page = read("tasks/README.md")
    (whole,) = re.findall(r'(?ms)^```python\n("""Lookup.*?)^```', page)
    (lines,) = re.findall(r"(?ms)^```python\n(LINES = .*?)^```", page)
    assert len(lines.split("\n\n\n")[1].split("\n")) < 10
    constants, methods = re.split(r"class Task\(training.Task\):\n", lines)
    code = whole.replace("class Task(", f"{constants}class Task(")
    code, times = re.subn(r"    def draw.*?\n\n", f"{methods}\n", code, flags=re.S)
    assert times == 1
    Path("filed.py").write_text(
        code.replace("import numpy", "from pathlib import Path\nimport numpy", 1)
    )
    rng = np.random.default_rng(0)
    table = rng.integers(8, size=(10_000, 4))
    place = rng.integers(4, size=len(table))
    table = np.column_stack([table, place, table[np.arange(len(table)), place]])
    np.savetxt("lines.csv", table, "%d", ",")
    words = "--train.steps 12 --train.evaluate-every 6 --train.log-every 6 --workers 1"
    assert train.main(["filed.py", *words.split(), "--run", "run"]) == 0
    run = Run.open("run")
    last = run.metrics()[-1]
    assert {"validation_accuracy", "test_accuracy"} <= {*last}
    task = task_from_dict(run.config)
    assert [task.examples(split) for split in task.splits] == [1000, 1000]
    batch = task.held_out("test").batch(0, 0, 1000)
    np.testing.assert_array_equal(batch["target"], table[9000:, 5])
    np.testing.assert_array_equal(batch["inputs"].argmax(-1)[:, :4], table[9000:, :4])
    stream = task.stream(None, 3)
    for epoch in (0, 1):  # the whole training part, in another order
        rows = [stream.batch(125 * epoch + k, 0, 64)["target"] for k in range(125)]
        assert sorted(np.concatenate(rows)) == sorted(table[:8000, 5])
    assert evaluate.main(["run", "--metrics-only"]) == 0
    table[0, 0] += 1  # one number of the training part
    np.savetxt("lines.csv", table, "%d", ",")
    forget()  # as in a new process
    assert "the data here are not those" in refused(evaluate.main, "run")
    resume = "--resume", "run", "--train.steps", "14"
    assert "the data here are not those" in refused(train.main, *resume)
    for wrong, says in [
        ('"target": target[1:, 0]', "must give arrays of as many rows as there are"),
        ('"target": target[:0, 0]', "must give arrays of as many rows as there are"),
        ('"target": 3', "must give arrays of as many rows as there are"),
    ]:
        text = Path("filed.py").read_text().replace('"target": target[:, 0]', wrong)
        Path("other.py").write_text(text)
        assert says in refused(train.main, "other.py", "--run", "other")
