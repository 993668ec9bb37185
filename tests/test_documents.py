"""The README says nothing that is not so: its example runs and prints what it says, and
its numbers are those of committed summaries.
"""

import contextlib
import io
import json
import re
from pathlib import Path

import pytest
import report as benchmark_report

from tinyrmc.results import sweeps, tables

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENTS = [
    README,
    *(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "benchmarks" / "README.md", *sorted(RESULTS.glob("*.md")))
    ),
]


def committed(folder):
    """The files of results whose tables a document must show: all but those of gpu.py,
    which makes none.
    """
    return [
        path
        for path in sorted(folder.glob("*.json"))
        if not path.name.startswith("gpu-")
    ]


def missing_tables(path, documents):
    """The tables of a file of results that no document holds as they are.

    Of runs one table is enough, with every seed or of the means.
    """
    found = json.loads(path.read_text(encoding="utf-8"))
    if "benchmark" in found:
        wanted = [[table] for table in benchmark_report.markdown(found).split("\n\n")]
    elif "grid" in found:
        wanted = [[sweeps.markdown(found)]]
    elif "not_run" in found:
        wanted = [[tables.by_seed(found), tables.markdown(found)]]
    else:
        wanted = [[tables.by_seed(found)]]
    return [
        forms[0]
        for forms in wanted
        if not any(form in document for form in forms for document in documents)
    ]


def test_the_twenty_lines_print_what_the_readme_says():
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    said = re.findall(
        r"^step (\d+): loss ([\d.]+), accuracy (\d+)%$", README, re.MULTILINE
    )
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    shown = re.findall(
        r"^step (\d+): loss ([\d.]+), accuracy (\d+)%$",
        printed.getvalue(),
        re.MULTILINE,
    )
    assert len(said) == 4
    assert [step for step, *_ in shown] == [step for step, *_ in said]
    for (_, loss, accuracy), (_, loss_said, accuracy_said) in zip(
        shown, said, strict=True
    ):
        # other BLAS, other rounding
        assert abs(float(loss) - float(loss_said)) <= 0.1
        assert abs(int(accuracy) - int(accuracy_said)) <= 5
    assert int(shown[-1][2]) >= 90


def test_every_file_the_readme_links_exists():
    links = [
        link
        for link in re.findall(r"\]\(([^)#]+)\)", README)
        if not link.startswith("http")
    ]
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def cells(line):
    """The cells of a row of a Markdown table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_the_results_of_the_readme_are_those_of_the_one_table():
    """Each row is one of results.md, abridged."""
    known = {}  # command -> column -> what results.md says
    for line in (RESULTS / "results.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `python -m tinyrmc.train "):
            task, columns = line.split("`")[1].split()[-1], cells(line)
        elif line.startswith("| `"):
            known[f"{task} {line.split('`')[1]}"] = dict(
                zip(columns, cells(line), strict=True)
            )
    table = re.search(
        r"^\| `python -m tinyrmc.train` \|.*\n\| ---.*\n((?:\|.*\n)+)",
        README,
        re.MULTILINE,
    )[1]
    rows = [cells(line) for line in table.splitlines()]
    assert len(rows) > 5
    for command, ours, seeds, paper, floors, parameters in rows:
        row = known[command.split("`")[1]]
        assert (ours, seeds, parameters) == (
            row["test accuracy, mean"],
            row["seeds"],
            row["parameters"],
        ), command
        assert floors == ", ".join(
            value for column, value in row.items() if column.startswith("floor")
        ), command
        assert row["paper"].startswith(paper) and bool(paper) == bool(row["paper"]), (
            command
        )


@pytest.mark.parametrize("path", committed(RESULTS), ids=lambda path: path.stem)
def test_tables_are_those_of_the_committed_results(path):
    assert missing_tables(path, DOCUMENTS) == [], (
        f"put these tables of {path.name} into a document"
    )


def test_results_of_another_benchmark_would_be_missed(tmp_path):
    ranks = [{"ranks": 1, "seconds_per_step": 0.1, "efficiency": 1.0}]
    engine = {
        "overhead_microseconds": 4.04,
        "backward_to_forward_peak": 1.004,
        "growth_mib": 0.0,
        "growth_steps": 10_000,
    }
    found = {
        "benchmark": "cpu",
        "rows": [],
        "sweeps": [],
        "sharing": [],
        "engine": engine,
        "ranks": ranks,
    }
    (tmp_path / "cpu.json").write_text(json.dumps(found))
    (tmp_path / "gpu-a.json").write_text("{}")
    (path,) = committed(tmp_path)
    first, second = benchmark_report.markdown(found).split("\n\n")
    assert missing_tables(path, DOCUMENTS) == [first, second]
    assert (
        missing_tables(path, [f"Before.\n\n{first}\n\nBetween.\n\n{second}After.\n"])
        == []
    )
    assert missing_tables(path, [first, second.replace("100 %", "99 %")]) == [second]
