"""A run goes on with the texts that it learnt from, and is tested on no others;
runs on different texts are not taken for seeds of one experiment.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from babistories import STORIES, texts

from tasks import babi, language_modeling
from tinyrmc import corpora
from tinyrmc.cli import report, train
from tinyrmc.corpora import CorpusError
from tinyrmc.errors import RunError
from tinyrmc.training.networks import restore_model

SAYS = "the data here are not those that the run learnt from; say with --data-dir"
LINES = ["the cat sat", "a cat saw the mat", "the mat saw a cat"]


def corpus(lines=LINES, test="the cat"):
    text = "".join(f"{line}\n" for line in lines)
    return corpora.from_texts(train=text, validation=text, test=f"{test}\n")


def of_text(text):
    task = language_modeling.Task(language_modeling.Task.presets["quick"][1])
    task.corpus = text
    return task


class Stories:
    complete = tuple(STORIES)

    def __init__(self, change=("", "")):
        self.change = change

    def stories(self, task, part):
        return corpora.stories.parse(texts(task).replace(*self.change), "a")


def of_stories(change=("", "")):
    config = babi.Config(data=babi.DataConfig(task="1"))
    task = babi.Task(config)
    task.source = Stories(change)
    return task


@pytest.mark.parametrize(
    "other",
    [
        corpus(LINES[::-1]),  # as many words, with other numbers
        corpus(test="the mat"),
        corpus([line.replace("cat", "dog") for line in LINES], "the dog"),
    ],
    ids=["order", "test", "words"],
)
def test_a_language_model_knows_its_text(other):
    task = of_text(corpus())
    state = task.state()
    of_text(corpus()).load_state(state)
    of_text(other).load_state({k: x for k, x in state.items() if k != "text"})  # older
    assert len(other.vocabulary) == len(task.corpus.vocabulary)
    with pytest.raises(CorpusError, match=SAYS):
        of_text(other).load_state(state)
    model = of_text(corpus()).build(np.random.SeedSequence(0))
    weights = {f"parameters/{n}": x.data for n, x in model.named_parameters()}
    with pytest.raises(CorpusError, match=SAYS):
        restore_model(of_text(other), weights, {"run": {"seed": 0}, "task": state})


def test_a_reader_of_stories_knows_them():
    task, word = of_stories(), sorted(of_stories().materials[0].vocabulary)[0]
    of_stories().load_state(task.state())
    with pytest.raises(CorpusError, match=SAYS):
        of_stories((word, f"{word}s")).load_state(task.state())


# --- Runs beside each other -----------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current directory, with two texts that are called the Penn Treebank."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(tmp_path)
    for name, word in (("one", "cat"), ("two", "dog sat and a cat")):
        Path(name).mkdir()
        for part in ("train", "valid", "test"):
            lines = (f"the {word} saw the mat and {number}\n" for number in range(9))
            Path(name, f"ptb.{part}.txt").write_text("".join(lines))
    return tmp_path


SMALL = (
    "--model.head-size=2 --model.num-heads=1 --model.embedding-size=4 --data.window=4 "
    "--data.lanes=2 --train.batch-size=2 --train.steps=4 --train.log-every=2 "
    "--train.evaluate-every=4 --train.warmup-steps=0"
).split()


def trained(text, run, seed=0):
    words = ["--data-dir", text, "--seed", str(seed), "--run", run, "--workers", "1"]
    assert train.main(["language_modeling", "quick", *SMALL, *words]) == 0


def reported(*words):
    assert report.main([*words, "--out", "results.md"]) == 0
    return json.loads(Path("results.json").read_text())["groups"]


def test_a_run_whose_text_is_another_by_now_or_gone_is_left_out(here, capsys):
    trained("one", "a")
    trained("two", "b")
    shutil.move("two", "moved")
    assert len(reported("a", "b")) == 1
    assert "left out: b: ptb is not in" in capsys.readouterr().err
    shutil.copytree("one", "two")
    assert len(reported("a", "b")) == 1
    assert f"left out: b: {SAYS}" in capsys.readouterr().err
    with pytest.raises(RunError, match=SAYS):
        report.main(["b"])
    assert len(reported("b", "--data-dir", "moved")) == 1


def test_resuming_with_another_text_names_the_text(here):
    trained("one", "a")
    with pytest.raises(CorpusError, match=SAYS):
        train.main(["--resume", "a", "--data-dir", "two"])
