"""Results of language models' runs: tables, curves, examinations, texts."""

import contextlib
import io
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import tinylanguage
from matplotlib.image import imread
from test_figures import assert_words_are_apart_and_inside, figure_of
from tinyruns import cut_short

from tinyrmc import training
from tinyrmc.cli import evaluate, generate, plot, report, train
from tinyrmc.results import figures, findings
from tinyrmc.training.run import Run

FILE = tinylanguage.__file__


LEARNING_CURVE = figures.learning_curve


def curve_of(*args, **named):
    return figure_of(LEARNING_CURVE, *args, **named)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two seeds of one core and one of another, trained."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(None):
        patch.setattr("tinyrmc.results.plotting.draw_run", lambda run: [])
        for core, seed in (("rmc", 0), ("rmc", 1), ("lstm", 0)):
            words = ["--model.core", core, "--seed", str(seed)]
            path = folder / f"{core}-{seed}"
            assert train.main([FILE, *words, "--run", str(path)]) == 0
    return folder


@pytest.fixture
def runs(made, empty_directory):
    """Copies of the runs in the current directory."""
    shutil.copytree(made, "runs")
    return [f"runs/{name}" for name in ("rmc-0", "rmc-1", "lstm-0")]


# --- Tables ---------------------------------------------------------------------------


def test_the_report_is_of_the_test_text_and_the_top_is_the_lowest(runs, capsys):
    assert report.main(["runs", "--out", "results.md"]) == 0
    last = [Run.open(path).metrics()[-1] for path in runs]
    tests = [line["test_perplexity"] for line in last]
    found = json.loads(Path("results.json").read_text())
    _, rmc = found["groups"]
    assert rmc["top"]["test_perplexity"] == min(tests[:2])
    assert rmc["top"]["test_loss"] == min(line["test_loss"] for line in last[:2])
    assert rmc["curve_of"] == "validation_perplexity"
    head, _, *rows = Path("results.md").read_text().splitlines()[:4]
    cells = [cell.strip() for cell in rows[1].strip("|").split("|")]
    row = dict(zip([c.strip() for c in head.strip("|").split("|")], cells, strict=True))
    assert row["paper"] == "2.5 (tiny, RMC)"
    assert row["test perplexity, mean"] == f"{np.mean(tests[:2]):.2f}"
    assert row["lowest"] == f"{min(tests[:2]):.2f}"
    assert row["floor: guessing"] == "7.00"
    mean = np.mean([line["validation_perplexity"] for line in last[:2]])
    assert row["mean validation perplexity"] == f"{mean:.2f}"
    reached = sum(value <= 3 for value in tests[:2])
    assert row["success: at most 3.00"] == f"{reached} of 2"
    assert "best batch" not in row and "%" not in "".join(cells)
    assert "2.75 (tiny, LSTM)" in rows[0]


def test_a_run_not_judged_yet_has_no_result(runs, capsys):
    cut_short(Run.open(runs[2]), 2)
    assert report.main([runs[2], "--out", "results.md"]) == 0
    (group,) = json.loads(Path("results.json").read_text())["groups"]
    assert [*group["mean"]] == ["validation_loss", "validation_perplexity"]
    assert "| test perplexity, mean |" not in Path("results.md").read_text()


# --- Curves ---------------------------------------------------------------------------


def test_perplexity_against_tokens_and_hours(runs, monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(figures, "learning_curve", lambda *w: seen.append(w) or w[0])
    assert plot.main(["runs", "--against", "tokens,hours"]) == 0
    ((_, lines, references, metrics, title, axes, cores, training_lines),) = seen
    assert title == "tinylanguage quick" and training_lines == []
    assert {*lines} == {"rmc", "lstm"}
    assert sorted(cores) == ["lstm", "rmc"]
    assert metrics == ["validation_perplexity"] and axes == ["tokens", "hours"]
    first = lines["rmc"][0]
    assert [line["tokens"] for line in first] == [5 * line["samples"] for line in first]
    assert references["validation_perplexity"] == {"guessing": 7.0, "paper's RMC": 2.5}
    figure = curve_of(lines, references, metrics, axes=axes)
    tokens, hours = figure.axes
    assert tokens.get_xlabel() == "tokens"
    assert tokens.get_title() == hours.get_title() == "validation perplexity"
    assert tokens.get_yscale() == hours.get_yscale() == "log"
    named = {text.get_text() for text in tokens.texts}
    assert named == {"guessing 7.00", "paper's RMC 2.50"}


def test_a_curve_has_the_training_batches_beside_the_watched_text(runs, monkeypatch):
    seen = []
    monkeypatch.setattr(figures, "learning_curve", lambda *w: seen.append(w) or w[0])
    assert plot.main([runs[0], "--out", "a.png"]) == 0
    ((_, lines, references, metrics, *_, training_lines),) = seen
    figure = curve_of(lines, references, metrics, training=training_lines)
    drawn = {line.get_label(): line for line in figure.axes[0].get_lines()}
    _, y = drawn["on training batches of the task itself"].get_data()
    assert y.tolist() == [line["perplexity"] for line in training_lines]


# --- Examinations ---------------------------------------------------------------------


def test_evaluation_prints_all_texts_and_what_was_examined(runs, capsys):
    assert evaluate.main([runs[0]]) == 0
    said = capsys.readouterr().out
    last = Run.open(runs[0]).metrics()[-1]
    assert "36 tokens of validation, 52 tokens of test" in said
    for split in ("validation", "test"):
        value = last[f"{split}_perplexity"]
        assert re.search(
            rf"^{split} perplexity +{value:.2f} +7\.00 +2\.50$", said, re.M
        )
    assert re.search(r"^By word frequency\n\nthe word comes  tokens  perpl", said, re.M)
    assert re.search(r"^ +10 +\d\.\d\d +2\.50$", said, re.M)


def test_examinations_can_be_left_out(runs, capsys):
    assert evaluate.main([runs[0], "--metrics-only"]) == 0
    assert "By word" not in capsys.readouterr().out
    assert evaluate.main([runs[0], "--metrics-only", "--json"]) == 0
    assert "examinations" not in json.loads(capsys.readouterr().out)


def test_as_json_all_numbers_are_exact(runs, capsys):
    assert evaluate.main([runs[0], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    table = found["examinations"]["By word frequency"]
    assert table["columns"] == ["the word comes", "tokens", "perplexity"]
    (_, often, here), (_, rarely, there) = table["rows"]
    whole = (often * np.log(here) + rarely * np.log(there)) / (often + rarely)
    assert often + rarely == 52
    assert np.exp(whole) == pytest.approx(found["test_perplexity"], rel=1e-5)


def test_examinations_of_several_networks_are_drawn_together(runs, monkeypatch, capsys):
    seen = []
    draw = figures.examined
    monkeypatch.setattr(figures, "examined", lambda *w: seen.append(w) or draw(*w))
    Path("out").mkdir()
    shutil.copytree(runs[0], "runs/other")
    other = "runs/other"
    assert plot.main(["analyses", runs[0], runs[2], other, "--out", "out"]) == 0
    path, out = Path("out/by_unroll_length.png"), capsys.readouterr().out
    assert out.splitlines()[-1] == str(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert out.count("\nlstm ") > 1 and out.startswith("By word frequency: quick, seed")
    ((_, found, title, cores, common),) = seen
    assert [*found] == ["rmc (runs/rmc-0)", "lstm", "rmc (runs/other)"]
    assert common == "quick, seed 0, step 20"
    assert cores == ["rmc", "lstm", "rmc"] and title == "By unroll length"


def heat_map(rows, hops=2):
    heads = "words ago", *(f"hop {k + 1}" for k in range(hops))
    return training.HeatMap("weight", heads, rows)


def test_a_heat_map_is_drawn_with_each_rows_largest_in_white(tmp_path):
    one = heat_map([(1, 0.5, 0.1), (2, 0.25, 0.2), (3, 0.0, 0.4), (4, 0.0, 0.3)])
    figure = figure_of(figures.heat_maps, {"a": one, "b": one}, "title")
    panel, other, bar = figure.axes
    assert (panel.get_title(), other.get_title()) == ("a", "b")
    assert [text.get_text() for text in panel.get_yticklabels()] == ["hop 1", "hop 2"]
    assert bar.get_ylabel() == "weight, as a part of the row's largest"
    shades = panel.images[0].get_array()  # the oldest word to the left
    expected = [[0, 0, 0.5, 1], [0.75, 1, 0.5, 0.25]]
    np.testing.assert_allclose(shades, expected)
    assert panel.images[0].get_extent() == [4.5, 0.5, 2.5, 0.5]
    few = heat_map([(1, 0.5), (2, 0.25)], hops=1)
    words = " ".join(f"--model.hops {k}," for k in range(13))
    drawn = figure_of(figures.heat_maps, {"a": few}, "title", words)
    assert_words_are_apart_and_inside(drawn)
    path = findings.draw("By hop", {"a": one}, tmp_path)
    assert path.name == "by_hop.png" and imread(path).ndim == 3
    nothing = heat_map([(1, 0.0, 0.0)])
    assert figures.heat_maps(tmp_path / "b.png", {"a": nothing}).is_file()


# --- Texts ----------------------------------------------------------------------------


def written(capsys, *words):
    capsys.readouterr()
    assert generate.main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_text_is_the_prompt_and_the_words_drawn(runs, capsys):
    text = written(capsys, runs[0], "the cat", "--words", "40", "--seed", "3")
    assert text == written(capsys, runs[0], "the cat", "--words", "40", "--seed", "3")
    assert text != written(capsys, runs[0], "the cat", "--words", "40", "--seed", "4")
    assert text.startswith("the cat ") and text.endswith("\n")
    assert "\n" in text[:-1] and " \n" not in text and "\n " not in text
    words = re.findall(r"\w+|\n", text)
    assert len(words) in (42, 43)  # the last line break is ours, unless it was drawn


def test_temperature_0_takes_the_likeliest_word(runs, capsys):
    text = written(capsys, runs[0], "cat", "--words", 5, "--temperature", 0)
    assert text == "cat sat on a mat\n"
    assert text == written(capsys, runs[0], "cat", "--words", 5, "--top-k", 1)
    assert text == written(capsys, runs[0], " cat ", "--words", 5, "--top-k", 1)


def test_words_come_as_they_are_drawn(runs, monkeypatch):
    class Pipe(io.StringIO):
        """A log of what was sent."""

        def flush(self):
            sent.append(self.getvalue())

    def one_by_one(self, model, prompt, *settings):
        for word in "abc":
            before.append(sent[-1] if sent else "")
            yield word

    sent, before = [], []
    task = training.discovery.load_task(FILE).Task
    monkeypatch.setattr(task, "generate", one_by_one)
    monkeypatch.setattr(sys, "stdout", Pipe())
    assert generate.main([runs[0], "the"]) == 0
    assert before == ["", "the a", "the a b"] and sent[-1] == "the a b c\n"


def test_an_untrained_network_says_so(runs, capsys, monkeypatch):
    task, arrays, state = generate.open_checkpoint(runs[0])
    read = task, arrays, state | {"step": 0}
    monkeypatch.setattr(generate, "open_checkpoint", lambda *_: read)
    assert generate.main([str(runs[0]), "the"]) == 0
    assert f"note: {runs[0]} is at step 0: untrained" in capsys.readouterr().err
