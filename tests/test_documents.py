"""The documents say nothing that is not so: their example prints what they say, their
links lead somewhere, and their numbers are those of committed summaries.
"""

import contextlib
import io
import json
import re
import statistics
import tomllib
from pathlib import Path

import make_site
import pytest
import report as benchmark_report

from tinyrmc.results import tables, text

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
WRITTEN = [*make_site.DOCUMENTS, ".github/pull_request_template.md"]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


DOCUMENTS = [read("README.md"), read("benchmarks/README.md")]
DOCUMENTS += [path.read_text(encoding="utf-8") for path in sorted(RESULTS.glob("*.md"))]


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

    Of runs one table is enough, with every seed or of the means. What `evaluate --json`
    writes makes none: chapter 17 shows it.
    """
    found = json.loads(path.read_text(encoding="utf-8"))
    if "benchmark" in found:
        wanted = [[table] for table in benchmark_report.markdown(found).split("\n\n")]
    elif "not_run" in found:
        wanted = [[tables.by_seed(found), tables.markdown(found)]]
    elif "examinations" in found or "combinations" in found:  # sweeps before 0.4
        wanted = []
    else:
        wanted = [[tables.by_seed(found)]]
    assert all(form for forms in wanted for form in forms), "no table is no result"
    return [
        forms[0]
        for forms in wanted
        if not any(form in document for form in forms for document in documents)
    ]


def test_the_twenty_lines_print_what_is_said_of_them():
    library = read("tinyrmc/README.md")
    code = re.search(r"```python\n(.*?)```", library, re.DOTALL).group(1)
    said = re.findall(
        r"^step (\d+): loss ([\d.]+), accuracy (\d+)%$", library, re.MULTILINE
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


def test_the_readme_fits_on_a_page():
    assert len(read("README.md").splitlines()) <= 120


def test_while_there_is_no_address_no_document_leads_to_one():
    """Neither to a repository nor to the services that would open it."""
    project = tomllib.loads(read("pyproject.toml"))["project"]
    if project["urls"]:
        pytest.skip("there is an address")
    leads = re.compile(
        r"(github\.com/[\w.-]+|github\.io)/\S*tinyrmc|mybinder|badge\.svg"
    )
    notebooks = [
        f"chapters/{path.name}" for path in (ROOT / "chapters").glob("*.ipynb")
    ]
    names = [*make_site.DOCUMENTS, "CITATION.cff", *notebooks]
    assert len(notebooks) > 10
    assert [name for name in names if leads.search(read(name))] == []


def anchors(text):
    """What GitHub calls the headings of a document."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"(?s)```.*?```", "", text), re.MULTILINE)
    kept = [re.sub(r"[^\w -]", "", title.lower()) for title in titles]
    return {title.replace(" ", "-") for title in kept}


def dead_links(name, text):
    """The links of a document that lead to no file or no heading."""
    links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"(?s)```.*?```", "", text))
    links += re.findall(r'(?:src|srcset)="([^"]+)"', text)
    dead = []
    for link in links:
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        file = (ROOT / name).parent / path if path else ROOT / name
        if not file.exists():
            dead.append(link)
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
            dead.append(link)
    return dead


def test_every_link_of_a_document_leads_somewhere():
    there = [
        name for name in WRITTEN if (ROOT / name).exists()
    ]  # in an archive not all
    assert {
        name: dead for name in there if (dead := dead_links(name, read(name)))
    } == {}


def test_links_that_lead_nowhere_are_found():
    text = "[a](README.md#the-course) [b](README.md) [c](README.md#c) [d](../LICENSE)"
    assert dead_links("chapters/x.md", text + " [e](f)") == ["README.md#c", "f"]


def test_the_list_of_chapters_is_that_of_the_notebooks():
    """And chapter 0 lists the same."""
    wanted = []
    for path in sorted((ROOT / "chapters").glob("[0-9][0-9]_*.ipynb")):
        title = re.search(r'"# (\d+)\. ([^:"\\]+)', path.read_text(encoding="utf-8"))
        wanted.append((*title.groups(), path.name))
    rows = re.findall(
        r"^\| (\d+) \| \[(.+?)\]\((\w+\.ipynb)\) \| \S",
        read("chapters/README.md"),
        re.M,
    )
    assert rows == wanted
    first = (ROOT / "chapters/source/00_first_look.py").read_text(encoding="utf-8")
    listed = re.findall(r"^# \| \[(\d+)\. .+?\]\((\w+\.ipynb)\) \|", first, re.M)
    assert listed == [(number, name) for number, _, name in wanted]


def cells(line):
    """The cells of a row of a Markdown table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_the_results_of_a_document_are_those_of_the_summaries():
    """Each row is a group of runs."""
    known = {}
    for path in sorted(RESULTS.glob("*.json")):
        summary = json.loads(path.read_text(encoding="utf-8"))
        for group in summary.get("groups", ()):
            of = f"{group['task']} {group['label']}"
            if of not in known or len(known[of]["runs"]) <= len(group["runs"]):
                known[of] = group
    for name, fewest in ("README.md", 3), ("benchmarks/README.md", 8):
        table = re.search(
            r"^\| `python -m tinyrmc.train` \|.*\n\| ---.*\n((?:\|.*\n)+)",
            read(name),
            re.MULTILINE,
        )[1]
        rows = [cells(line) for line in table.splitlines()]
        assert len(rows) >= fewest
        for command, *row in rows:
            check_row(command, known[command.split("`")[1]], *row)


def check_row(command, group, ours, seeds, paper, floors, parameters):
    """A row of the table of results against its group."""
    assert (ours, seeds, parameters) == (
        text.number("test_accuracy", group["mean"]["test_accuracy"]),
        tables.ranges(run["seed"] for run in group["runs"]),
        f"{group['parameters']:,}",
    ), command
    assert floors == ", ".join(
        text.number("test_accuracy", value)
        for label, value in group["references"]["test_accuracy"].items()
        if not label.startswith("paper")
    ), command
    reported = group["paper"] or ""
    assert reported.startswith(paper) and bool(paper) == bool(reported), command


def test_the_means_of_babi_are_those_of_the_summary():
    """Each published column has its row, ours and the paper's beside each other."""
    found = json.loads((RESULTS / "babi.json").read_text(encoding="utf-8"))
    page = read("benchmarks/README.md")
    table = page.partition("| wrong answers, mean of twenty tasks |")[2]
    rows = [cells(line)[1:] for line in table.partition("\n\n")[0].splitlines()[2:]]
    wanted = [
        [text.number("test_error", group["mean"]["test_error"]), group["paper"]]
        for group in found["groups"]
    ]
    assert sorted(rows) == sorted(wanted)


@pytest.mark.parametrize(
    "world, examination, metric, head",
    [
        ("box_world", "levels solved", "test_solved", "levels of `box_world` solved"),
        ("mini_pacman", "score", "test_score", "score in `mini_pacman`"),
    ],
)
def test_what_drawn_and_likeliest_actions_reach_is_as_measured(
    world, examination, metric, head
):
    """A row for each core: means over the seeds, those of the summary among them."""
    files = (RESULTS / f"{world}{which}.json" for which in ("_played", ""))
    played, summary = (json.loads(f.read_text(encoding="utf-8")) for f in files)
    ours = {group["label"]: group["mean"] for group in summary["groups"]}
    table = read("benchmarks/README.md").partition(f"| {head} |")[2]
    shown = [cells(line) for line in table.partition("\n\n")[0].splitlines()[2:]]
    wanted = []
    for label, runs in played["examinations"].items():
        tables_of = [run["examinations"][examination]["rows"] for run in runs]
        found = [{player: value for player, value, *_ in rows} for rows in tables_of]
        means = [
            statistics.fmean(each[player] for each in found)
            for player in ("sampled", "greedy")
        ]
        assert means[0] == pytest.approx(ours[label][metric])
        said = [text.number(metric, mean) for mean in means]
        seeds = tables.ranges(run["seed"] for run in runs)
        wanted.append([f"`{label}`", *said, seeds])
    assert shown == wanted


def test_how_many_locks_agents_open_is_as_measured():
    """Shares of solved levels, actions drawn, the mean of the runs of each `full`."""
    played = json.loads((RESULTS / "box_world_full_played.json").read_text("utf-8"))
    head = "| levels of `box_world` solved, by locks on the way |"
    table = read("benchmarks/README.md").partition(head)[2]
    shown = [cells(line) for line in table.partition("\n\n")[0].splitlines()[2:]]
    wanted = []
    for label, runs in played["examinations"].items():
        each = [
            run["examinations"]["solved by solution length"]["rows"] for run in runs
        ]
        shares = [[share for _, _, share, *_ in rows] for rows in each]
        means = map(statistics.fmean, zip(*shares, strict=True))
        said = [text.number("test_solved", mean) for mean in means]
        wanted.append([f"`{label}`", *said])
    assert shown == wanted


def test_which_operations_programs_are_answered_rightly_is_as_measured():
    """Shares of whole answers by the last operation: a row for each run, a table for
    each set of operations.
    """
    path = RESULTS / "program_evaluation_small_examined.json"
    examined = json.loads(path.read_text("utf-8"))["examinations"]
    wanted: dict[str, list] = {}  # head of the table -> rows
    for label, runs in examined.items():
        for run in runs:
            if found := run["examinations"].get("by operation"):
                head = f"| {' | '.join(row[0] for row in found['rows'])} | seeds |"
                whole = [text.number("test_accuracy", row[-1]) for row in found["rows"]]
                row = [f"`{label}`", *whole, str(run["seed"])]
                wanted.setdefault(head, []).append(row)
    for head, rows in wanted.items():
        head = f"| answers right as a whole, by the last operation {head}"
        table = read("benchmarks/README.md").partition(head)[2]
        shown = [cells(line) for line in table.partition("\n\n")[0].splitlines()[2:]]
        assert shown == rows


def test_the_other_results_of_the_readme_are_those_of_the_summaries():
    """Each row has the mean of a group of runs and, beside it, what that is set by."""
    known = {}
    for path in RESULTS.glob("*.json"):
        summary = json.loads(path.read_text(encoding="utf-8"))
        for group in summary.get("groups", ()):
            known[f"{group['task']} {group['label']}"] = group
    table = re.search(
        r"^\| `python -m tinyrmc.train` \| measured .*\n\| ---.*\n((?:\|.*\n)+)",
        read("README.md"),
        re.MULTILINE,
    )[1]
    rows = [cells(line) for line in table.splitlines()]
    assert len(rows) >= 4
    for command, _, ours, seeds, beside in rows:
        group = known[command.split("`")[1]]
        metric = group["result"]
        assert ours == text.number(metric, group["mean"][metric]), command
        assert seeds == tables.ranges(run["seed"] for run in group["runs"]), command
        values = group["references"].get(metric, {}).values()
        reported = group["paper"] or ""
        assert beside.split()[:1] == reported.split()[:1] or any(
            beside.startswith(text.number(metric, value)) for value in values
        ), command


def test_tables_are_those_of_the_committed_results():
    missing = {
        path.name: missing_tables(path, DOCUMENTS) for path in committed(RESULTS)
    }
    assert not any(missing.values()), "put these tables into a document"


def test_results_of_another_benchmark_would_be_missed(tmp_path):
    engine = {
        "overhead_microseconds": 4.04,
        "backward_to_forward_peak": 1.004,
        "growth_mib": 0.0,
        "growth_steps": 10_000,
    }
    kept = [[["ranks", "efficiency"], ["1", "100 %"]]]
    found = {"benchmark": "cpu", "engine": engine, "tables": kept}
    (tmp_path / "cpu.json").write_text(json.dumps(found))
    (tmp_path / "gpu-a.json").write_text("{}")
    (path,) = committed(tmp_path)
    first, second = benchmark_report.markdown(found).split("\n\n")
    assert missing_tables(path, DOCUMENTS) == [first, second]
    inside = [f"Before.\n\n{first}\n\nBetween.\n\n{second}After.\n"]
    assert missing_tables(path, inside) == []
    assert missing_tables(path, [first, second.replace("100 %", "99 %")]) == [second]
