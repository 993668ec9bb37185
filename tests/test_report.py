"""The table of results: which runs count, what is said of them, and what has not been
run.
"""

import csv
import dataclasses
import json
import shutil
import statistics
from pathlib import Path

import pytest
from owntask import dropped_in

from tinyrmc import corpora
from tinyrmc.cli import report
from tinyrmc.errors import RunError, UsageError
from tinyrmc.results import tables
from tinyrmc.results.groups import find_runs, parts
from tinyrmc.results.text import aligned, paragraph
from tinyrmc.training import discovery
from tinyrmc.training.run import Run

MACHINE = {"processor": "A processor", "cores": 4, "workers": 2, "date": "today"}
MACHINE |= {"python": "3", "numpy": "2", "blas": "b", "git_commit": "c0ffee"}


@pytest.fixture
def larger(monkeypatch, tmp_path):
    """The task, in an empty current directory."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return dropped_in(monkeypatch, tmp_path / "tasks")


def logged(
    larger,
    seed=0,
    values=(0.6, 0.7),
    best=(0.5, 0.75, 0.8, 0.6),
    seconds=60.0,
    rungs=(None,) * 4,
    path=None,
    preset="quick",
    **model,
):
    """A run of four lines of metrics, the second and the fourth with an evaluation.

    No training.
    """
    config = larger.Task.presets[preset][1]
    model = dataclasses.replace(config.model, **model)
    config = dataclasses.asdict(dataclasses.replace(config, model=model))
    described = {"task": "larger", "preset": preset, "seed": seed, "config": config}
    command = f"python -m tinyrmc.train larger --seed {seed} --run somewhere/else"
    machine = {**MACHINE, "command": f"{command} --max-minutes 3"}
    run = Run.create("runs", f"larger-{preset}", described, machine, path)
    for k in range(2 * len(values)):
        line = {"step": 5 * k + 5, "samples": 80 * k + 80}
        line |= {"seconds": seconds * (k + 1) / 4 + seed / 1000}
        line |= {"best_batch_accuracy": best[k]}
        line |= {"test_accuracy": values[k // 2], "test_loss": 0.5} if k % 2 else {}
        run.log(line | ({"stage": rungs[k]} if rungs[k] else {}))
    return run


def rows_of(found, number=0):
    """A table as a list of {column: cell}."""
    head, *rows = tables.tables(found)[number]
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_a_row_is_what_its_runs_have_come_to(larger):
    values, bests = {0: 0.7, 4: 0.9, 2: 0.85}, {0: 0.8, 4: 0.95, 2: 0.9}
    runs = [
        logged(larger, seed, (0.6, value), (0.1, bests[seed], 0.2, 0.3), 60.0 + seed)
        for seed, value in values.items()
    ]
    found = tables.summary(runs)
    (group,) = found["groups"]
    assert group["mean"]["test_accuracy"] == statistics.fmean(values.values())
    assert group["top"]["test_accuracy"] == 0.9
    assert group["mean"]["best_batch_accuracy"] == statistics.fmean(bests.values())
    assert group["top"]["best_batch_accuracy"] == 0.95
    assert group["runs"][0]["curve"] == [[10, 30.0, None, 0.6], [20, 60.0, None, 0.7]]
    row = rows_of(found)[0]
    assert row == {
        "`python -m tinyrmc.train larger`": "`quick`",
        "paper": "< 60 % on its best batch (2 numbers, narrow)",
        "test accuracy, mean": "81.7 %",
        "lowest": "70.0 %",
        "highest": "90.0 %",
        "deviation": "10.4 %",
        "best batch": "95.0 %",
        "floor: guessing": "50.0 %",
        "success: at least 80.0 %": "2 of 3",
        "steps": "20",
        "parameters": str(2 * 4 + 4 + 4 * 2 + 2),
        "seeds": "0, 2, 4",
        "time": "1:02",
    }
    assert tables.trained_on(found) == "Trained on A processor, 4 cores, 2 workers."


def test_a_run_that_was_cut_short_is_no_failure(larger):
    """A sweep that Ctrl-C stopped: the set that counts has not been measured."""
    runs = [logged(larger, seed, (0.6, 0.7 + seed)) for seed in range(3)]
    found = tables.summary(runs)["groups"][0]
    del found["runs"][0]["test_accuracy"]
    found["runs"][1]["test_accuracy"] = None  # it diverged
    assert tables._success(found)[1] == "1 of 2"


def test_other_accuracies_stand_beside_the_headline_and_the_commit_beside_the_run(
    larger,
):
    runs = [logged(larger), logged(larger, seed=1)]
    for run, value in zip(runs, (0.25, 0.75), strict=True):
        more = {"test_accuracy": 0.9, "test_exact_match_accuracy": value}
        run.log({**run.metrics()[-1], **more})
    found = tables.summary(runs)
    (row,) = rows_of(found)
    assert row["test accuracy, mean"] == "90.0 %"
    assert row["mean exact match accuracy"] == "50.0 %"
    assert "mean loss" not in row
    commits = [run["git_commit"] for run in found["groups"][0]["runs"]]
    assert commits == ["c0ffee", "c0ffee"]


def test_published_cells_stand_beside_ours_where_they_were_run(larger, monkeypatch):
    found = tables.summary([logged(larger, width=8), logged(larger, preset="three")])
    narrow = {
        "paper": "< 60 % on its best batch",
        "command": "python -m tinyrmc.train larger",
    }
    wide = {
        "paper": "90 %",
        "command": "python -m tinyrmc.train larger three --model.width 8",
    }
    assert found["not_run"] == [
        {"task": "larger", "cell": "2 numbers, narrow", **narrow},
        {"task": "larger", "cell": "3 numbers, wide", **wide},
    ]
    assert rows_of(found, 1) == [
        {
            "larger in the paper": "2 numbers",
            "wide": "99 %; ours 70.0 %",
            "narrow": "< 60 % on its best batch",
        },
        {"larger in the paper": "3 numbers", "wide": "90 %", "narrow": ""},
    ]
    monkeypatch.setattr(tables, "FEW", 1)
    assert [row["larger in the paper"] for row in rows_of(found, 1)] == ["2 numbers"]
    words = f"```\n{narrow['command']}\n{wide['command']}\n```\n"
    assert tables.commands(found) == f"\n{tables.OTHER_PLACES}\n\n{words}"
    monkeypatch.setattr(
        larger.Task, "published", {"2 numbers, wide": ("99 %", "--model.width 8")}
    )
    found = tables.summary([logged(larger, width=8)])
    assert len(tables.tables(found)) == 1 and tables.commands(found) == ""


def test_every_machine_is_named(larger, monkeypatch):
    one = logged(larger)
    monkeypatch.setitem(MACHINE, "workers", 1)
    runs = [one, logged(larger, seed=1), logged(larger, width=8)]
    says = "Trained on A processor, 4 cores, 2 workers; A processor, 4 cores, 1 worker."
    assert tables.trained_on(tables.summary(runs)) == says


def test_seeds_in_a_row_are_told_by_their_ends():
    for numbers, says in [
        ([4, 0, 1, 2], "0 to 2, 4"),
        ([3], "3"),
        ([1, 0, 7, 8], "0, 1, 7, 8"),
        (range(5), "0 to 4"),
    ]:
        assert tables.ranges(numbers) == says


def test_a_run_that_never_came_to_the_task_itself_says_where_it_stayed(
    larger, monkeypatch
):
    """And its batches there do not count as the best."""
    stayed, came = ("1", "1", "1", "1"), ("1", "1", "2", "2")
    best = (1.0, 0.9, 0.3, 0.4)
    runs = [logged(larger, k, best=best, rungs=r) for k, r in enumerate([stayed, came])]
    # all lines are of the task itself, by default
    found = tables.summary(runs)
    assert "ended on" not in rows_of(found)[0]
    assert found["groups"][0]["top"]["best_batch_accuracy"] == 1.0
    monkeypatch.setattr(larger.Task, "is_final", lambda _, line: line["stage"] == "2")
    assert rows_of(tables.summary(runs))[0]["ended on"] == "1"
    found = tables.summary(runs[1:])
    assert "ended on" not in rows_of(found)[0]
    assert found["groups"][0]["top"]["best_batch_accuracy"] == 0.4


def test_a_run_that_was_cut_says_how_far_it_came(larger):
    runs = [logged(larger, 0, values=(0.6,)), logged(larger, 1)]
    (row, *_) = rows_of(tables.summary(runs))
    assert row["steps"] == "10 to 20 of 20" and row["test accuracy, mean"] == "65.0 %"
    (row, *_) = rows_of(tables.summary(runs[:1]))
    assert row["steps"] == "10 of 20"


def test_a_run_that_ended_by_itself_was_not_cut(larger, monkeypatch):
    """As its newest checkpoint tells; a run beside it has none and was cut."""
    runs = [logged(larger, seed, values=(0.6,)) for seed in (0, 1)]
    monkeypatch.setattr(larger.Task, "ended", False, raising=False)
    monkeypatch.setattr(
        larger.Task, "load_state", lambda self, state: setattr(self, "ended", True)
    )
    monkeypatch.setattr(
        larger.Task, "finished", lambda self, step: self.ended or step >= 20
    )
    state = {"run": runs[0].config, "step": 10, "task": {}}
    runs[0].save({}, state)
    found = tables.summary(runs[:1])
    (row,), ((run,),) = rows_of(found), [each["runs"] for each in found["groups"]]
    assert row["steps"] == "10" and run["finished"] is True
    assert "--max-minutes" not in run["command"]  # which was not reached
    found = tables.summary(runs)
    assert rows_of(found)[0]["steps"] == "10 of 20"
    ended, cut = found["groups"][0]["runs"]
    assert ended["finished"] and "finished" not in cut
    assert "--max-minutes 3" in cut["command"]


def test_an_extended_run_has_a_row_of_its_own(larger):
    """Its schedules were others, for a while. Other runs of that seed count, too."""
    runs = [logged(larger, seed) for seed in (0, 1, 1)]
    path = runs[1].path / "config.json"
    path.write_text(json.dumps(runs[1].config | {"extended": [5, 1000]}))
    runs, left_out = find_runs([Path("runs")])
    assert len(runs) == 3 and not left_out
    rows = rows_of(tables.summary(runs))
    assert [(row["seeds"], next(iter(row.values()))) for row in rows] == [
        ("0, 1", "`quick`"),
        ("1", "`quick (extended from 5, 1,000 steps)`"),
    ]
    assert parts(runs[1].config) == ["quick", "(extended from 5, 1,000 steps)"]


def test_rows_name_their_cores_where_these_differ(larger):
    """And the file that has one by its name alone, wherever it lies."""
    (group,) = tables.summary([logged(larger, 0)])["groups"]
    labels = "quick --model.core gated --core '/tmp/my paper/core.py'", "quick"
    groups = [
        {
            **group,
            "task": "/tmp/a.py",
            "label": label,
            "config": {**group["config"], "model": {"core": core}},
        }
        for label, core in zip(labels, ("gated", "lstm"), strict=True)
    ]
    found = {"groups": groups, "not_run": []}
    assert [next(iter(row.values())) for row in rows_of(found)] == [
        "`quick --model.core gated --core core.py`",
        "`quick --model.core lstm`",
    ]
    groups[0]["notes"] = ["two words"]
    assert "/tmp" not in tables.markdown(found) + tables.by_seed(found)
    assert "Note on a.py quick --model.core gated --core core.py: two" in (
        tables.trained_on(found)
    )
    groups[0]["label"] = "quick --model.core gated"  # one of ours
    assert [next(iter(row.values())) for row in rows_of(found)][1] == (
        "`quick --model.core lstm`"
    )
    del groups[1]["config"]["model"]  # a network without a choice
    assert [next(iter(row.values())) for row in rows_of(found)][1] == "`quick`"


def test_the_legend_explains_what_is_there(larger):
    found = tables.summary([logged(larger, 0)])
    found |= {"not_run": []}
    (group,) = found["groups"]
    group |= {"paper": None, "cell": None, "cells": {}}
    assert "paper" not in tables.legend(found)
    assert "ended on" not in tables.legend(found)
    group["paper"], group["cell"] = "90 %", "a"
    group["runs"][0]["ended_on"] = "easy"
    found["not_run"] = [
        {"task": group["task"], "cell": "b", "paper": "9", "command": ""}
    ]
    for words in "*paper*", "*ended on*", "in a separate table":
        assert words in tables.legend(found)


def test_a_number_that_some_seed_lacks_has_no_mean(larger):
    runs = [logged(larger, 0, best=(None,) * 4), logged(larger, 1)]
    found = tables.summary(runs)
    (group,) = found["groups"]
    assert "best_batch_accuracy" not in group["mean"]
    assert group["mean"]["test_accuracy"] == 0.7
    assert "best batch" not in rows_of(found)[0]


def test_every_seed_has_a_column_in_the_other_table(larger):
    found = tables.summary(
        [
            logged(larger, 3, (0, 0.75)),
            logged(larger, 1, (0, 0.5)),
            logged(larger, 1, width=8, seconds=3661),
        ]
    )
    assert tables.by_seed(found) == (
        "|  | seed 1 | seed 3 | mean | guessing | paper (wide) |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| quick: test accuracy | 50.0 % | 75.0 % | 62.5 % | 50.0 % | 99.0 % |\n"
        "| quick: training time, [h:]mm:ss | 1:00 | 1:00 |  |  |  |\n"
        "| quick --model.width 8: test accuracy | 70.0 % | not run | 70.0 % | 50.0 % "
        "| 99.0 % |\n"
        "| quick --model.width 8: training time, [h:]mm:ss | 1:01:01 |  |  |  |  |\n"
    )


def test_the_numbers_can_be_read_by_other_programs(larger):
    values = {0: 0.5, 3: 0.75}
    for seed, value in values.items():
        logged(larger, seed, (0, value), path=f"narrow{seed}")
    logged(larger, 1, (0, 0.9), path="wide", width=8)
    words = ["narrow0", "narrow3", "wide", "--out", "table.csv"]
    assert report.main(words) == 0 and report.main(words) == 0  # ours is replaced
    with open("table.csv", newline="") as file:
        narrow, wide = csv.DictReader(file)
    assert narrow["task"] == "larger" and narrow["configuration"] == "quick"
    assert narrow["seeds"] == "0 3" and wide["seeds"] == "1"
    assert wide["configuration"] == "quick --model.width 8"
    assert float(narrow["test_accuracy_mean"]) == statistics.fmean(values.values())
    assert float(narrow["test_accuracy_highest"]) == 0.75
    deviation = float(narrow["test_accuracy_deviation"])
    assert deviation == statistics.stdev(values.values())
    assert wide["test_accuracy_deviation"] == ""
    assert int(narrow["parameters"]) == 2 * 4 + 4 + 4 * 2 + 2
    assert "groups" in json.loads(Path("table.json").read_text())
    assert report.main([*words, "--seeds"]) == 0
    with open("table.csv", newline="") as file:
        rows = [*csv.DictReader(file)]
    found = [(int(row["seed"]), float(row["test_accuracy"])) for row in rows]
    assert found == [*values.items(), (1, 0.9)]


# --- Which runs -----------------------------------------------------------------------


def test_a_folder_stands_for_its_runs_and_what_is_left_out_is_said(larger):
    short, _, other = (
        logged(larger, 0, values=(0.6,)),
        logged(larger, 1),
        logged(larger, 0),
    )
    never = logged(larger, 2, values=())
    Run.create(
        "runs",
        "zzz",
        {"task": "nothing_known", "preset": "p", "seed": 0, "config": {}},
        {},
    )
    sweep = Run.create("runs", "larger-sweep", {"grid": {}}, {})
    logged(larger, 7, path=sweep.path / "seed=7")
    (Path("runs") / "notes").mkdir()
    for k in range(3, 12):
        logged(larger, k)
    runs, left_out = find_runs([Path("runs")])
    # 10 and 11 come after 9
    assert [run.config["seed"] for run in runs] == [0, 1, *range(3, 12)]
    assert runs[0].path == other.path
    assert len(left_out) == 4 and any("nothing_known" in line for line in left_out)
    assert any(
        line == f"{short.path} has the configuration and seed of {other.path}"
        for line in left_out
    )
    resume = f"python -m tinyrmc.train --resume {never.path}"
    assert f"{never.path} has not been evaluated yet: {resume}" in left_out
    assert any(
        line == f"{sweep.path} is a sweep: give its own path" for line in left_out
    )
    Path("runs/a.png").touch()
    for also in [], [Path("runs/a.png")]:  # as of runs/*
        runs, left_out = find_runs([sweep.path, *also])
        assert left_out == [f"{path} is no run directory" for path in also]
    with pytest.raises(RunError, match=r"read runs/a\.png/config"):
        find_runs(also)
    assert [run.config["seed"] for run in runs] == [7]


def test_the_command_shows_the_tables_as_wide_as_the_terminal(
    larger, capsys, monkeypatch
):
    logged(larger, 0)
    logged(larger, 1, values=())
    found = tables.summary([Run.open("runs/larger-quick-1")])
    for width in (60, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        assert report.main(["runs"]) == 0
        out, err = capsys.readouterr()
        says = "runs/larger-quick-2 has not been evaluated yet: python -m tinyrmc.train"
        assert err == f"left out: {says} --resume runs/larger-quick-2\n"
        for rows in tables.tables(found):
            assert f"{aligned(rows, width)}\n\n" in out
        assert max(map(len, out.splitlines())) <= width
        assert out.endswith(f"{paragraph(tables.legend(found), width)}\n")
    assert report.main(["runs/larger-quick-1", "--seeds"]) == 0
    (rows,) = tables.seed_tables(found)
    assert capsys.readouterr().out.startswith(aligned(rows, 200))


def test_the_command_writes_the_table_and_its_numbers(larger, capsys):
    logged(larger, 0)
    words = tables.markdown(tables.summary([Run.open("runs/larger-quick-1")]))
    assert words.count("\n") == 3 + 1 + 4 + 1 + 1
    for folder in ("one", "two"):
        assert report.main(["runs", "--out", f"{folder}/results.md"]) == 0
        kinds = ".md", ".json"
        wrote = "".join(f"{Path(folder) / 'results'}{kind}\n" for kind in kinds)
        assert capsys.readouterr().out.endswith(wrote)
    first, second = (
        {path.name: path.read_bytes() for path in Path(folder).iterdir()}
        for folder in ("one", "two")
    )
    assert first == second
    assert sorted(first) == ["results.json", "results.md"]
    found = json.loads(first["results.json"])
    assert tables.markdown(found) == words
    whole = f"{words}\n{tables.legend(found)}\n{tables.commands(found)}"
    assert first["results.md"].decode() == whole
    assert report.main(["runs", "--seeds", "--out", "one/results.md"]) == 0
    assert Path("one/results.md").read_text() == tables.by_seed(found)


def test_what_was_written_by_hand_above_the_tables_stays(larger, capsys):
    logged(larger, 0)
    out = Path("results.md")
    assert report.main(["runs", "--out", "results.md"]) == 0
    first = out.read_text()
    heading = "# Everything\n\nRead this first.\n\n"
    out.write_text(heading + first)
    logged(larger, 1)
    assert report.main(["runs", "--out", "results.md"]) == 0
    second = out.read_text()
    assert second.startswith(f"{heading}| `python -m tinyrmc.train larger` |")
    assert second != heading + first and second.count("| `quick` |") == 1
    out.unlink()
    assert report.main(["runs", "--out", "results.md"]) == 0
    assert heading + out.read_text() == second


def test_files_of_somebody_elses_are_not_overwritten(larger, capsys):
    """A .md or .json that is there must belong to a table of ours."""
    logged(larger, 0)
    theirs = {"a.md": "| a |", "a.json": "{}", "b.json": "[1]"}
    for name, text in theirs.items():
        Path(name).write_text(text)
    for name in "ab":
        with pytest.raises(UsageError, match="is no table that this command wrote"):
            report.main(["runs", "--out", f"{name}.md"])
    assert {name: Path(name).read_text() for name in theirs} == theirs
    assert not Path("b.md").exists()


def test_a_table_of_every_seed_has_the_result_of_a_task_without_references(larger):
    found = tables.summary([logged(larger, 0)])
    (group,) = found["groups"]
    (rows,) = tables.seed_tables({**found, "groups": [{**group, "references": {}}]})
    assert rows[1] == ["quick: test accuracy", "70.0 %"]


def test_notes_on_texts_name_their_task(larger, monkeypatch):
    """Presets of two tasks may have one name."""
    found = tables.summary([logged(larger, 0)])
    (group,) = found["groups"]
    noted = {**group, "task": "other", "notes": ["its text is short"]}
    for groups in ([group, noted], [noted, group]):
        said = tables.trained_on({**found, "groups": groups})
        assert said.endswith(" Note on other quick: its text is short.")


def test_bad_words_get_one_line_and_exit_code_2(larger, refused):
    Path("empty").mkdir()
    Path("file").touch()
    Path("mine.md").write_text("mine")
    Path("mine.csv").write_text("a,b\n1,2\n")
    logged(larger, path="run")
    for words, says in [
        ("", "required: RUNS"),
        ("nowhere", "cannot read nowhere/config.json"),
        ("empty", "there is no evaluated run in empty; train one, or give other paths"),
        ("empty --out a.txt", "--out a.txt: give a name that ends in .md or .csv"),
        ("run --out mine.csv", "--out mine.csv: mine.csv exists and is no table"),
        ("run --out mine.md", "--out mine.md: mine.md exists and is no table"),
        ("run --out file/results.md", "cannot write file/results.md"),
        ("run --sead", "unknown flag '--sead'"),
    ]:
        assert says in refused(report.main, *words.split())


OURS_ALONE = {  # columns
    "babi": ("RMC", "EntNet"),
    "mini_pacman": ("no memory",),
    "box_world": ("LSTM", "no memory"),
}


@pytest.mark.slow
def test_every_tasks_published_cells_can_be_trained_and_are_recognised(
    monkeypatch, tmp_path
):
    """The words of each cell make a configuration that stands beside that very cell."""
    for name in discovery.task_files():
        from tinyrmc.cli.commands import Options, parse_words

        monkeypatch.setenv("TINYRMC_DATA", str(tmp_path))  # not the tests' few words
        kind = discovery.load_task(name).Task
        if name == "babi":  # all twenty tasks are there
            every = corpora.GeneratedStories(complete=[*range(1, 21)])
            monkeypatch.setattr(kind, "source", every)
        cells: dict = {}  # of the same words
        for cell, (paper, words) in kind.published.items():
            if words is not None:
                cells.setdefault(words, []).append(cell)
            column = cell.rpartition(", ")[2]
            assert bool(paper) == (column not in OURS_ALONE.get(name, ()))
        for words, own in cells.items():
            first, *rest = words.split() or [""]
            preset, flags = (
                (first, rest)
                if first in kind.presets
                else (next(iter(kind.presets)), words.split())
            )
            config, _ = parse_words(
                name, preset, kind.presets[preset][1], Options(), flags
            )
            assert {*own} <= {*kind(config).cells()}


def test_a_copied_run_is_no_seed(larger):
    """Even where its config.json was given another seed by hand."""
    for seed in (0, 1):
        logged(larger, seed)
    copied = shutil.copytree("runs/larger-quick-1", "runs/larger-quick-1 copy")
    config = Path(copied, "config.json")
    config.write_text(config.read_text().replace('"seed": 0', '"seed": 2'))
    found, left_out = find_runs([Path("runs")])
    assert sorted(run.config["seed"] for run in found) == [0, 1]
    (said,) = left_out
    assert "is a copy of" in said and "larger-quick-1 copy" in said
