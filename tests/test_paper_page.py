"""The page with the paper's results and ours: it is that of the committed summaries,
and each place says what the paper reports and what was run.
"""

import json
import re

import paper
import pytest

from tinyrmc.training.discovery import load_task


def test_the_committed_page_is_that_of_the_committed_results():
    committed = (paper.RESULTS / "paper.md").read_text(encoding="utf-8")
    assert committed == paper.page(), "run python benchmarks/paper.py"


def group(task="program_evaluation", cell=None, steps=10, core="rmc", **more):
    """A group as summaries have it, of two seeds; `data` changes its configuration."""
    config = {
        "train": {"steps": 10},
        "model": {"core": core},
        "data": {"kind": "control", "length": 3, "nesting": 1, "style": "release"},
    }
    config["data"] |= more.pop("data", {})
    run = {"step": steps, "ended_on": more.pop("ended_on", None)}
    mean = more.pop("mean", {"test_accuracy": 0.5, "test_exact_match_accuracy": 0.25})
    metric = more.pop("result", "test_accuracy")
    paper = more.pop("paper", "79.0 %")
    return {
        "task": task,
        "label": "quick",
        "config": config,
        "cell": cell,
        "paper": paper if cell else None,
        "cells": {cell: {"paper": paper, "metric": metric}} if cell else {},
        "references": {"test_accuracy": {"constant answer": 0.1, "paper (RMC)": 0.9}},
        "runs": [{"seed": seed, **run} for seed in (0, 1)],
        "mean": mean,
        "curve_of": metric,
        "result": metric,
        "lower": False,
        **more,
    }


TWICE = f"{paper.TIMES}2"  # of the two seeds of each group


def write(folder, name, *groups, **more):
    summary = {"groups": list(groups), "not_run": [], **more}
    (folder / f"{name}.json").write_text(json.dumps(summary))


def rows(text, title):
    """{first cell: {column: cell}} of the first table after a title."""
    lines = text.split(title, 1)[1].splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("|"))
    found = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    head, _, *body = found
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in body}


def test_nothing_was_run_at_first(tmp_path):
    text = paper.page(tmp_path)
    table = rows(text, "## Table 1")
    scores = load_task("program_evaluation").TABLE_1
    assert len(table) == 6 and table["Program"]["RMC"] == "79.0<br>*not run*"
    for core, row in scores.items():
        for kind, score in row.items():
            said = table[kind.capitalize()][core]
            assert float(said.split("<br>")[0]) == pytest.approx(100 * score)
    assert rows(text, "## Table 2")["WikiText-103"] == {
        "RMC": "31.6<br>*not run*",
        "LSTM": "34.3<br>*not run*",
    }
    assert rows(text, "## Worlds")["MiniPacman, whole"]["LSTM"] == "598<br>*not run*"
    assert {row["ours"] for row in rows(text, "## Figures").values()} == {"*not run*"}
    assert "**" not in text.split("## Table 1")[1]
    run = {part: row["run"] for part, row in rows(text, "# The paper").items()}
    assert run["table 1: programs"] == "0 of 24 cells"
    assert run["table 2: texts"] == "0 of 6 cells"
    assert run["worlds"] == "0 of 6 cells"
    assert run["figures 4, 5, 8, 10, 11, 12"] == "0 of 6"


def test_ours_stand_below_with_whole_answers_and_seeds(tmp_path):
    cell = "program, RMC"
    write(tmp_path, "results", group(cell=cell), task="program_evaluation")
    text = paper.page(tmp_path)
    row = rows(text, "## Table 1")["Program<br>floor 10.0"]
    assert row["RMC"] == f"79.0<br>**50.0** {TWICE}<br>whole: 25.0"
    assert row["LSTM"] == "66.1<br>*not run*"
    assert "| table 1: programs | 1 of 24 cells |" in text


def test_the_better_of_several_counts_and_no_trial(tmp_path):
    better = {"test_accuracy": 0.75}
    cell = "program, RMC"
    write(tmp_path, "a", group(cell=cell))
    write(tmp_path, "b", group(cell=cell, mean=better), group(cell=cell))
    best = {"test_accuracy": 1.0}
    write(tmp_path, "control_trials", group(cell=cell, mean=best))
    write(tmp_path, "broken_off", group(cell=cell, mean=best, steps=9))
    (tmp_path / "cpu.json").write_text('{"benchmark": "cpu"}')
    row = rows(paper.page(tmp_path), "## Table 1")["Program<br>floor 10.0"]
    assert row["RMC"] == f"79.0<br>**75.0** {TWICE}"


def test_of_one_setting_the_most_seeds_count_and_runs_that_ended_by_themselves(
    tmp_path,
):
    cell, title = "program, RMC", "## Table 1"
    alone = group(cell=cell, mean={"test_accuracy": 0.75})
    alone["runs"] = alone["runs"][:1]
    write(tmp_path, "before", alone, group(cell=cell))
    write(tmp_path, "z", alone)
    row = rows(paper.page(tmp_path), title)["Program<br>floor 10.0"]
    assert row["RMC"].startswith(f"79.0<br>**50.0** {TWICE}")
    early = group(cell=cell, steps=9)
    folder = tmp_path / "early"
    folder.mkdir()
    write(folder, "results", early)
    assert "79.0<br>*not run*" in paper.page(folder)
    for run in early["runs"]:
        run["finished"] = True
    write(folder, "results", early)
    row = rows(paper.page(folder), title)["Program<br>floor 10.0"]
    assert row["RMC"].startswith("79.0<br>**50.0**")


def test_where_less_is_better_the_lowest_counts(tmp_path):
    words = {"task": "language_modeling", "cell": "gutenberg, LSTM", "lower": True}
    more = {"paper": "45.5", "result": "test_perplexity"}
    for name, value in ("a", 60.0), ("b", 50.0), ("c", 70.0):
        mean = {"test_perplexity": value}
        write(tmp_path, name, group(**words, **more, mean=mean))
    row = rows(paper.page(tmp_path), "## Table 2")["Project Gutenberg"]
    assert row["LSTM"].startswith("45.5<br>**50.0")


def test_smaller_programs_have_a_table_of_their_own(tmp_path):
    reversed_ = {"answers": "reversed", "nesting": 2}
    words = group(core="dnc", label="control3 --model.core dnc --model.mem-slots 16")
    own = [group(), group(core="lstm", data=reversed_), group(core="entnet"), words]
    write(tmp_path, "results", *own)
    table = rows(paper.page(tmp_path), "Smaller or easier")
    names = (
        "Control, 3 digits, 1 operation",
        "Control, 3 digits, 2 operations, answers ",
    )
    assert list(table) == [names[0], f"{names[1]}reversed"]
    assert table[names[0]]["RMC"].startswith("**50.0**")
    assert table[names[0]]["DNC"].startswith("**50.0**")  # slots are words there
    assert table[names[0]]["LSTM"] == ""


def test_nth_farthest_says_its_floors_and_who_never_met_the_task(tmp_path):
    data = {"objects": 4, "dimensions": 4, "rungs": [[3, 1]]}
    mean = {"test_accuracy": 0.4}
    of = {"task": "nth_farthest", "mean": mean}
    write(
        tmp_path,
        "results",
        group(**of, data=data, ended_on="3x1"),
        group(**of, data={**data, "rung_shares": [0.5]}, core="dnc"),
        group(**of, data={**data, "rungs": []}, core="lstm"),
    )
    table = rows(paper.page(tmp_path), "## Nth farthest")
    floor, ours = "<br>floor 10.0", f"**40.0** {TWICE}"
    assert table[f"4 x 4{floor}"]["RMC"] == f"{ours}†"
    assert table[f"4 x 4, the same steps on each rung{floor}"]["DNC"] == ours
    assert table[f"4 x 4, without a ladder{floor}"]["LSTM"] == ours
    assert table["8 x 16"]["DNC"] == "< 30<br>*not run*"
    size = {"objects": 8, "dimensions": 16}
    write(
        tmp_path,
        "shorter",
        group(**of, data=data | size, label="ladder --train.steps 5"),
    )
    table = rows(paper.page(tmp_path), "## Nth farthest")
    assert table[f"8 x 16, `--train.steps 5`{floor}"]["RMC"] == ours
    assert table["8 x 16"]["RMC"] == "91<br>*not run*"
    cell = group(**of, cell="8 x 16, RMC", paper="91 %", data=data)
    write(tmp_path, "cell", cell)
    row = f"8 x 16, ours by a ladder of easier tasks, with smaller slots{floor}"
    assert rows(paper.page(tmp_path), "## Nth farthest")[row]["RMC"] == f"91<br>{ours}"


def test_a_figure_is_shown_when_its_picture_is_there(tmp_path):
    (tmp_path / "mini_pacman.png").write_bytes(b"")
    (tmp_path / "nth_farthest_ladder.png").write_bytes(b"")
    text = paper.page(tmp_path)
    table = rows(text, "## Figures")
    assert table["10"]["ours"].endswith("](mini_pacman.png)")
    assert table["5"]["ours"] == "[8 x 16, by the ladder](nth_farthest_ladder.png)"
    assert table["8"]["ours"] == "*not run*"
    pictures = re.findall(r"^!\[(.+)\]\((.+)\)$", text, re.MULTILINE)
    assert [file for _, file in pictures] == [
        "nth_farthest_ladder.png",
        "mini_pacman.png",
    ]
    assert "| figures 4, 5, 8, 10, 11, 12 | 2 of 6 | not run: 4, 8, 11, 12 |" in text


KINDS_OF_ROWS = {
    "box_world": ({"result": "test_solved"}, "BoxWorld, `quick%s`"),
    "language_modeling": (
        {"data": {"corpus": "ptb"}, "result": "test_perplexity", "lower": True},
        "Penn Treebank, `quick%s`",
    ),
    "program_evaluation": ({}, "Control, 3 digits, 1 operation%s"),
    "nth_farthest": (
        {"data": {"objects": 4, "dimensions": 4, "rungs": [[3, 1]]}},
        "4 x 4%s",
    ),
}


def test_no_row_holds_two_different_tasks(tmp_path):
    """But sizes of a core, of which the best is shown."""
    for task, (more, usual) in KINDS_OF_ROWS.items():
        flag = f"--{'world' if task == 'box_world' else 'data'}.other 1 2"
        metric, own = more.get("result", "test_accuracy"), []
        for words in "", f" {flag} --model.core lstm", " --model.head-size 9":
            more |= {"preset": "quick", "references": {}, "mean": {metric: 0.5}}
            own.append(group(task, **more) | {"label": f"quick{words}"})
        write(tmp_path, "results", *own)
        lines = paper.page(tmp_path).splitlines()
        names = [line.split(" | ")[0][2:] for line in lines if "| **" in line]
        added = f" {flag}" if "`" in usual else f", `{flag}`"
        wanted = [usual % "", usual % added]
        if task == "program_evaluation":  # another network of ours would hide the first
            wanted.append(usual % ", `--model.head-size 9`")
        assert names == wanted


def test_table_3_shows_what_was_examined(tmp_path):
    assert "so its table is *not run*" in " ".join(paper.page(tmp_path).split())
    for core, value in ("rmc", 4000.0), ("lstm", 6000.0):
        found = {"by frequency": {"rows": [["0 to 99", 150, "18.7 %", value]]}}
        path = tmp_path / f"language_modeling_{core}.json"
        path.write_text(json.dumps({"examinations": found}))
    row = rows(paper.page(tmp_path), "## Table 3")["0 to 99"]
    assert row == {"share": "18.7 %", "RMC": "4,000.0", "LSTM": "6,000.0"}
