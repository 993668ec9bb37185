"""Rivals of a language model: floors that counting reaches, and published numbers."""

import dataclasses
import os
from pathlib import Path

import pytest
from test_language_modeling import CONFIG, TEXTS

from tasks import language_modeling as lm
from tinyrmc import corpora
from tinyrmc.cli.commands import Options, parse_words

# --- Floors ---------------------------------------------------------------------------


def test_floors_are_counted_once_and_kept_beside_the_integers(
    few_words, tmp_path, monkeypatch, capsys
):
    own = tmp_path / "cache"
    monkeypatch.setenv("TINYRMC_CACHE", str(own))
    monkeypatch.setattr(lm, "ANNOUNCED", 100)
    config = dataclasses.replace(CONFIG, data_dir=Path(os.environ["TINYRMC_DATA"]))
    counted = lm.Task(config).references()
    assert capsys.readouterr().err.startswith("counting 2,800 tokens for the floors")
    (path,) = own.glob("texts/*/floors-1.json")
    with monkeypatch.context() as patch:
        patch.setattr(lm.ngrams, "KneserNey", None)
        assert lm.Task(config).references() == counted
    assert capsys.readouterr().err == ""
    path.write_text('{"test_perp')  # broken off: counted anew
    assert lm.Task(config).references() == counted
    assert {file.name for file in path.parent.iterdir()} == {
        "corpus.json",
        "floors-1.json",
        "source.txt",
        *(f"{part}.int32" for part in corpora.PARTS),
    }


def test_floors_that_cannot_be_kept_are_counted_each_time(monkeypatch, tmp_path):
    corpus = dataclasses.replace(TEXTS, folder=tmp_path / "nowhere")
    assert [corpora.kept(corpus, "a", lambda k=k: k) for k in (1, 2)] == [1, 2]
    assert [corpora.kept(TEXTS, "a", lambda k=k: k) for k in (1, 2)] == [1, 2]


# --- Published results ---------------------------------------------------------------


CELLS = [(words, cell) for cell, (_, words) in lm.Task.published.items() if words]
CELLS += [
    ("wikitext2 --train.batch-size 20 --data.lanes 5", "wikitext-2, RMC"),
    ("wikitext2 --model.core rmc_paper --train.steps 40000", "wikitext-2, RMC"),
    ("wikitext2 --model.hidden-size 20", "wikitext-2, RMC"),  # of no effect
    ("wikitext2 --model.head-size 20", None),
    ("wikitext2 --model.core lstm", None),  # the port's embeddings are wider
    ("wikitext2 --model.core rnn", None),
    ("wikitext2 --data.vocabulary-size 100", None),
    ("wikitext2 --train.steps 100", None),
    ("quick", None),
    ("quick --data.corpus wikitext-2", None),
    ("paper --data.corpus text8", None),
    ("memn2n --model.relu 1", None),
    ("memn2n --model.embedding-size 500", None),
    ("memn2n --model.hops 9", None),
]


def test_only_a_network_of_the_published_size_has_a_cell():
    for words, cell in CELLS:
        preset, *flags = words.split()
        usual = lm.Task.presets[preset][1]
        config, _ = parse_words("language_modeling", preset, usual, Options(), flags)
        task = lm.Task(dataclasses.replace(config, data_dir=Path("nowhere")))
        if corpora.CORPORA[config.data.corpus].hashes:
            task.corpus = TEXTS
        assert task.cell() == cell, words


def test_another_text_than_the_published_one_has_no_cell():
    task = lm.Task(lm.WIKITEXT2)
    for notes, cell in [
        ((), "wikitext-2, RMC"),
        (("other files of the same books, and left out: 1.txt",), "wikitext-2, RMC"),
        (("wiki.test.tokens is not the published text (9 bytes, not 12)",), None),
    ]:
        task.corpus = dataclasses.replace(TEXTS, notes=notes)
        assert task.cell() == cell


def test_a_plateau_that_would_end_a_run_at_once_is_refused():
    slow = dataclasses.replace(lm.MEMN2N.train, learning_rate=5e-6)
    with pytest.raises(ValueError, match="stop_below 1e-05 is more than train"):
        dataclasses.replace(lm.MEMN2N, train=slow)
