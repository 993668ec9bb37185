"""The README says nothing that is not so: its example runs and prints what it says, and its numbers are those of committed summaries."""

import contextlib
import io
import json
import re
from pathlib import Path

import pytest
import report
import summarise

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("nth_farthest*.json"))


def test_the_twenty_lines_print_what_the_readme_says():
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    said = re.findall(r"^step (\d+): loss ([\d.]+), accuracy (\d+)%$", README, re.MULTILINE)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    shown = re.findall(r"^step (\d+): loss ([\d.]+), accuracy (\d+)%$", printed.getvalue(), re.MULTILINE)
    assert len(said) == 4 and [step for step, *_ in shown] == [step for step, *_ in said]
    for (_, loss, accuracy), (_, loss_said, accuracy_said) in zip(shown, said, strict=True):
        assert abs(float(loss) - float(loss_said)) <= 0.1 and abs(int(accuracy) - int(accuracy_said)) <= 5  # other BLAS, other rounding
    assert int(shown[-1][2]) >= 90


def test_every_file_the_readme_links_exists():
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if not link.startswith("http")]
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("path", RESULTS, ids=[path.stem for path in RESULTS])
def test_tables_are_those_of_the_committed_summaries(path):
    found = json.loads(path.read_text(encoding="utf-8"))
    table = (report if "benchmark" in found else summarise).markdown(found)
    documents = [README, (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")]
    assert any(table in document for document in documents), f"put this table of {path.name} into a document:\n{table}"
