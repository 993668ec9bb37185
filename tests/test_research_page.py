"""Every piece of the page "Your research, from start to end", in its order."""

import re
import shlex

import numpy as np
import pytest
from tinyruns import ROOT, SURROUNDINGS, output, read

import tinyrmc
from tinyrmc.training.run import Run

pytestmark = pytest.mark.slow
# Half of the steps that the page takes, and less where a table or a text says the same.
SHORT = [("steps=300", "steps=150"), ("--train.steps 400", "--train.steps 200")]
SHORT += [("--seeds 0,1,2 --run", "--seeds 0,1,2 --train.steps 30 --run")]
SHORT += [("--model.core lstm --run", "--model.core lstm --model.hidden-size 16 --run")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An empty folder, after all that the page tells you to do; what was printed."""
    folder, printed = tmp_path_factory.mktemp("research"), []
    around = SURROUNDINGS | {"PYTHONPATH": f"{ROOT}:."}
    page = read("tasks/research.md")
    for long, short in SHORT:
        assert page.count(long) == 1
        page = page.replace(long, short)
    for kind, code in re.findall(r"(?ms)^```(\w*)\n(.*?)^```", page):
        if name := re.match(r"# (\w+\.py)\n", code):
            (folder / name[1]).write_text(code.partition("\n")[2])
        elif kind == "python":
            assert max(map(len, code.splitlines())) <= 88
            printed.append(output("-c", code, cwd=folder, env=around))
        else:
            for line in code.replace("\\\n", " ").splitlines():
                python, *words = shlex.split(line)
                assert python == "python"
                printed.append(output(*words, cwd=folder, env=around))
    return folder, printed


def test_all_of_it_runs_and_learns(folder):
    _, printed = folder
    said = "\n".join(printed)
    accuracies = re.findall(r"test accuracy +(\d+(?:\.\d)?)(?: )?%", said)
    assert min(map(float, accuracies)) > 85
    error, mean = re.search(
        r"squared error ([\d.]+), of the mean ([\d.]+)", said
    ).groups()
    assert float(error) < 0.1 * float(mean)
    assert "--model.leaky.slowest FLOAT" in said  # in the help
    assert said.count("Linear(") == 1  # the new head
    assert "characters to train, validate and test" in said


def test_what_it_leaves_is_what_it_says(folder):
    path, _ = folder
    environment = Run.open(path / "runs/first").environment
    assert {"readings.py", "leaky.py"} <= {*environment["own_code"]}
    assert Run.open(path / "runs/first").config["extended"] == [150]
    assert len([*(path / "runs/paper").glob("*/config.json")]) == 6
    table = (path / "table.md").read_text()
    for head in "mean", "lowest", "highest", "deviation", "parameters":
        assert head in table
    assert (path / "figure.pdf").stat().st_size > 10_000
    assert len((path / "runs.csv").read_text().splitlines()) == 1 + 6
    weights = tinyrmc.load(path / "weights.npz").arrays()
    assert all(np.isfinite(x).all() for x in weights.values())


def test_it_is_found_from_the_front_page():
    assert "tasks/research.md" in read("README.md")
    assert "research.md" in read("tasks/README.md")
