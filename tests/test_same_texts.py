"""A run goes on with the texts that it learnt from, and is tested on no others."""

import numpy as np
import pytest
from babistories import STORIES, texts

from tasks import babi, language_modeling
from tinyrmc import corpora
from tinyrmc.corpora import CorpusError
from tinyrmc.training.checkpoints import restore_model

SAYS = "the texts here are not those that the run learnt from; say with --data-dir"
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
