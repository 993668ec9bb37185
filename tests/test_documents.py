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
import pages
import pytest
from tinyruns import ROOT, read

import tinyrmc
from tinyrmc.cli import train
from tinyrmc.results import tables, text

RESULTS = ROOT / "benchmarks" / "results"
WRITTEN = [*make_site.DOCUMENTS, ".github/pull_request_template.md"]


def test_the_twenty_lines_print_what_is_said_of_them():
    library = read("tinyrmc/README.md")
    code = re.search(r"```python\n(.*?)```", library, re.DOTALL).group(1)
    line = re.compile(r"^step (\d+): loss ([\d.]+), accuracy (\d+)%$", re.MULTILINE)
    said, printed = line.findall(library), io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    shown = line.findall(printed.getvalue())
    assert len(said) == 4
    assert [step for step, *_ in shown] == [step for step, *_ in said]
    for (_, loss, accuracy), (_, loss_said, accuracy_said) in zip(
        shown, said, strict=True
    ):
        # other BLAS, other rounding
        assert abs(float(loss) - float(loss_said)) <= 0.1
        assert abs(int(accuracy) - int(accuracy_said)) <= 5
    assert int(shown[-1][2]) >= 90


@pytest.mark.slow
@pytest.mark.weekly
def test_four_more_networks_learn(tmp_path, monkeypatch, capsys):
    """Each of the tour's examples is short, and does better than its floor."""
    monkeypatch.chdir(tmp_path)
    _, _, text = read("tinyrmc/README.md").partition("## Four more networks")
    text, _, _ = text.partition("## Keeping what was learnt")
    codes = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(codes) == 4
    for code in codes:
        assert len([line for line in code.splitlines() if line]) < 25
        assert max(map(len, code.splitlines())) <= 88
        if "Fading" in code:
            Path("fading.py").write_text(code)
            assert train.main(["fading.py"]) == 0
            keep = tinyrmc.load("runs/fading-quick-1").keep.weight.data
            assert keep[0] == pytest.approx(0.8, abs=0.01)
            continue
        exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    error, guess = map(
        float, re.search(r"error ([\d.]+); .* ([\d.]+)", printed).groups()
    )
    assert error < 0.1 * guess
    (comparing, yes), (asked, _) = re.findall(r"accuracy (\d+)%, .* (\d+)%", printed)
    assert int(comparing) > 80 > int(yes) and int(asked) > 60


def test_the_readme_fits_on_a_page():
    """On two screens, with the ten lines of code on the first one, ahead of speed."""
    text = read("README.md")
    assert len(text.splitlines()) <= 145
    first, _, rest = text.partition("\n## Install")
    assert "```python" in first and "PyTorch" not in first + rest.partition("\n## ")[0]


def test_the_front_pages_memory_learns(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", read("README.md"), re.DOTALL)
    inside = code.partition("\n\n")[2].partition("print(")[0]
    assert len(inside.splitlines()) == 10  # as the text says
    exec(compile(code, "README.md", "exec"), {})
    error, guess = map(float, re.findall(r"\d\.\d+", capsys.readouterr().out))
    assert error < 0.2 * guess


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
    """GitHub's names for a document's headings."""
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
    there = [name for name in WRITTEN if (ROOT / name).exists()]  # in archives not all
    dead = {name: dead_links(name, read(name)) for name in there}
    assert {name: links for name, links in dead.items() if links} == {}


def test_links_that_lead_nowhere_are_found():
    text = "[a](README.md#the-course) [b](README.md) [c](README.md#c) [d](../LICENSE)"
    assert dead_links("chapters/x.md", text + " [e](f)") == ["README.md#c", "f"]


def run_together(text):
    """Tables, lists and code whose lines were wrapped like prose."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", text)
    found = re.findall(r".*```.*", text)
    for part in re.split(r"\n\s*\n", re.sub(r"\$\$?[^$]+\$|`[^`\n]+`", "x", text)):
        lines = [line.strip() for line in part.strip().splitlines()]
        if re.search(r"(?m)^\s*\||\| *:?-{3}", part):
            rows = [re.fullmatch(r"\|.*\|", line) for line in lines]
            rules = [bool(re.fullmatch(r"[: |]*-[-: |]*", x)) for x in lines[:2]]
            columns = {line.count("|") for line in lines}
            if not all(rows) or len(columns) > 1 or rules != [False, True]:
                found.append(lines[0])
        elif re.match(r"\s*[-*] ", part):
            found += re.findall(r"(?<=\S )[-*] .*", part)
        elif re.match(r"\s*1\. ", part):
            found += re.findall(r"(?<=[.,:;] )2\. .*", part)
    return found


def test_no_table_list_or_block_of_code_is_wrapped_like_prose():
    texts = {name: [read(name)] for name in WRITTEN if (ROOT / name).exists()}
    for path in (ROOT / "chapters").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        cells = [each for each in cells if each["cell_type"] == "markdown"]
        texts[path.name] = ["".join(each["source"]) for each in cells]
    for name, parts in texts.items():
        assert [each for part in parts for each in run_together(part)] == [], name

    for fine in ("| a | b |\n|---|---|\n| c | `d|e` |", "- a\n- b, c\n  d", "a - b"):
        assert run_together(f"text\n\n{fine}\n\n```\n- a - b\n```\n") == []
    for wrong in (
        "| a | b | |---|---| | c | d |",
        "| a | b |\n|---|---|\n| c |\nd |",
        "| a | b |\n|---|---|\n| c |",
        "| a | b |\n| c | d |",
        "- a - b\n- c",
        "1. a, 2. b",
        "so: ``` python -m x ```",
    ):
        assert run_together(wrong), wrong


def test_the_list_of_chapters_is_that_of_the_notebooks():
    """(Where one is read stands in the order of rows.)"""
    wanted = []
    for path in sorted((ROOT / "chapters").glob("[0-9][0-9]_*.ipynb")):
        title = re.search(r'"# (\d+)\. ([^:"\\]+)', path.read_text(encoding="utf-8"))
        wanted.append((*title.groups(), path.name))
    rows = re.findall(
        r"^ *- (?:\*\*)?\[(\d+)\. (.+?)\]\((\w+\.ipynb)\)(?:\*\*)?, .+:\n +\S",
        read("chapters/README.md"),
        re.M,
    )
    assert sorted(rows, key=lambda row: row[2]) == wanted
    assert [int(number) for number, *_ in wanted] == [*range(len(wanted))]


def test_the_tables_of_the_pages_are_those_of_the_summaries():
    assert pages.main(["--check"]) == 0, "run python benchmarks/pages.py"


def test_the_pages_of_results_can_be_taken_in():
    """An index in two or three screens, a task on a page."""
    limits = {"README": 150, "claims": 60} | {
        task: 250
        for task in (
            "nth_farthest program_evaluation language_modeling worlds stories checks"
        ).split()
    }
    lengths = {page: len(read(f"benchmarks/{page}.md").splitlines()) for page in limits}
    assert {page: n for page, n in lengths.items() if n > limits[page]} == {}


def test_every_summary_has_a_table_or_a_link():
    """A committed result that no page shows would be lost."""
    pages_of = [*(ROOT / "benchmarks").glob("*.md"), *RESULTS.glob("*_seeds.md")]
    text = "".join(path.read_text("utf-8") for path in pages_of)
    shown = set(re.findall(r"results/([\w-]+)\.\w+", text))  # or a picture
    shown |= set(re.findall(r"^## (\w+)$", text, re.M))  # every seed
    for words in re.findall(r"<!-- (?:runs|measured)((?: \w+)+) -->", text):
        shown |= set(words.split())
    code = (ROOT / "benchmarks/pages.py").read_text("utf-8")
    shown |= set(re.findall(r'"(\w+)"', code))
    assert {path.stem for path in RESULTS.glob("*.json")} - shown == set()


@pytest.mark.parametrize(
    "paper, value, lower, mark",
    [
        ("91 %", 0.952, False, "✔"),
        ("91 %", 0.9049, False, "◐"),
        ("91 %", 0.81, False, "✘"),
        ("100.0 %", 0.9996, False, "✔"),
        ("< 30 % on its best batch", 0.198, False, "◐"),
        ("< 30 % on its best batch", 0.33, False, "✘"),
        ("like 8 x 16, few seeds", 0.797, False, "◐"),
        ("111", 112.62, True, "◐"),
        ("111", 122.2, True, "✘"),
        ("13.9 %", 0.134, True, "✔"),
    ],
)
def test_how_near_ours_comes_to_the_papers(paper, value, lower, mark):
    metric = "test_accuracy" if "%" in paper or "like" in paper else "test_perplexity"
    group = {"mean": {metric: value}, "lower": lower}
    assert f">{mark}<" in pages.mark(group, metric, paper)


def test_a_row_leaves_out_the_long_words_of_a_command():
    told = "full --model.core conv_lstm --model.conv-lstm.kernel 3 --model.encoder conv"
    assert pages.short(f"{told} --x 1") == "full --model.core conv_lstm … --x 1"
    told = pages.short("ladder --data.stages 3 1 3 2 --x 1")
    assert told == "ladder --data.stages … --x 1"


def rows(page, head):
    """The cells below a head of a table in a page of results."""
    text = read(f"benchmarks/{page}.md").partition(head)[2].partition("\n\n")[0]
    lines = [line.strip("|").split("|") for line in text.splitlines()[2:]]
    return [[cell.strip(" *") for cell in line] for line in lines]


def test_the_table_of_the_gpu_is_that_of_the_results():
    file = RESULTS / "gpu-NVIDIA-H100-80GB-HBM3.json"
    works = [work["rows"] for work in json.loads(file.read_text("utf-8"))["works"]]
    *steps, _, _ = rows("speed", "| a step, ms |")
    assert len(steps) > 3
    for name, *said in steps:
        assert said == [f"{work[name]['ms']:.2f}" for work in works]


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
        wanted.append([f"`{pages.short(label)}`", *said, seeds])
    assert rows("worlds", f"| {head} |") == wanted


def test_how_many_locks_agents_open_is_as_measured():
    """Shares of solved levels, actions drawn, the mean of the runs of each `full`."""
    played = json.loads((RESULTS / "box_world_full_played.json").read_text("utf-8"))
    head, wanted = "| levels of `box_world` solved, by locks on the way |", []
    for label, runs in played["examinations"].items():
        each = [
            run["examinations"]["solved by solution length"]["rows"] for run in runs
        ]
        shares = [[share for _, _, share, *_ in rows] for rows in each]
        means = map(statistics.fmean, zip(*shares, strict=True))
        said = [text.number("test_solved", mean) for mean in means]
        wanted.append([f"`{pages.short(label)}`", *said])
    assert rows("worlds", head) == wanted


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
                row = [f"`{pages.short(label)}`", *whole, str(run["seed"])]
                wanted.setdefault(head, []).append(row)
    for head, found in wanted.items():
        head = f"| answers right as a whole, by the last operation {head}"
        assert rows("program_evaluation_tried", head) == found


def test_cores_by_tasks_are_a_table_of_what_has_been_run(tmp_path, monkeypatch):
    """Without the search, which has a table of its own."""

    def group(rate, **runs):
        return {
            "task": "recall",
            "preset": "quick",
            "label": "quick",
            "parameters": 1000,
            "result": "test_accuracy",
            "references": {"test_accuracy": {"keeping the last value": 0.25}},
            "config": {
                "model": {"core": "delta", "delta": {"gated": True, "conv": 1}},
                "train": {"learning_rate": rate},
            },
            "runs": [
                {"seed": int(seed[1:]), "test_accuracy": value}
                for seed, value in runs.items()
            ],
        }

    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    assert pages.after() == pages.searched() == "Nothing has been run yet.\n"
    tried = [
        group(0.006, s10=0.25),
        group(0.002, s0=0.5, s1=0.75, s10=1.0),
        group(0.0007, s0=0.5),  # a second rate, for a closer look
    ]
    swept = {"combinations": [{"group": tried.pop(0)}]}
    (tmp_path / "nth_farthest_fair_rates.json").write_text(json.dumps(swept))
    (tmp_path / "after.json").write_text(json.dumps({"groups": tried}))
    told = {
        pages.after: "62.5 % (50.0 to 75.0) at 0.002, 2 seeds"
        "<br>50.0 % at 0.0007, 1 seed<br>1,000 parameters",
        pages.searched: "0.002: 100.0 %<br>0.006: 25.0 %",
    }
    for page, words in told.items():
        head, _, row, floor = page().splitlines()
        assert head == "|  | recall |"
        assert row == f"| delta gated without convolution | {words} |"
        assert floor == "| floors | 25.0 % |"
