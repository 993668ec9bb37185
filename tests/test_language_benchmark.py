"""benchmarks/language.py: one network in both libraries, and what is made of times."""

import json

import language
import pytest
from language import THREADS, Work

from tinyrmc.errors import UsageError
from tinyrmc.training.workers import CAN_FORK

pytestmark = [pytest.mark.slow, pytest.mark.weekly]

LSTM, RMC = Work("lstm", 8, 4, 5, 30), Work("rmc", 8, 4, 5, 30)
MEMN2N = Work("memn2n", 7, 4, 5, 30, hops=3, memories=6)


def losses(step, count=3):
    """The losses of the first steps."""
    return [float(step()) for _ in range(count)]


def test_pytorch_trains_the_same_network():
    """The forget bias, the gates' order, the carried state, clipping, Adam and SGD."""
    pytest.importorskip("torch")
    for work in LSTM, RMC, MEMN2N:
        expected = losses(language.ours(work, 1), 5)
        found = losses(language.torch_trainer(work), 5)
        assert found == pytest.approx(expected, rel=1e-5)
        assert len(set(expected)) == 5


@pytest.mark.skipif(not CAN_FORK, reason="no safe fork here")
def test_processes_train_the_same_network():
    """Of ours and of PyTorch: each has its lanes, and gradients are added up."""
    pytest.importorskip("torch")
    for work in (LSTM, MEMN2N):
        expected = losses(language.ours(work, 1))
        assert losses(language.ours(work, 2)) == pytest.approx(expected, rel=1e-5)
    expected = losses(language.ours(LSTM, 1))
    assert losses(language.torch_processes(LSTM)) == pytest.approx(expected, rel=1e-5)


def test_ours_alone_is_measured_in_processes_of_its_own(monkeypatch):
    monkeypatch.setattr(language, "NAMES", (THREADS,))
    monkeypatch.setattr(language, "usable_cores", lambda: range(1))
    row = language.measure("tiny", LSTM, rounds=2, seconds=0.001)
    (found,) = row["candidates"]
    assert (found["name"], found["cores"], len(found["rounds"])) == (THREADS, 1, 2)
    median = sum(found["rounds"]) / 2
    assert found["tokens_per_second"] == pytest.approx(LSTM.tokens / median)
    assert row["ratios"] == {"1": None} and row["width"] == 8
    assert 0 < row["products"]["share_of_step"] < 1


def test_the_command_writes_what_it_measured(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(language, "measure", lambda name, *_: {"work": name, **ROW})
    out = tmp_path / "language.json"
    words = ["--works", "rmc 1024", "--rounds", "1", "--out", str(out)]
    assert language.main(words) == 0
    found = json.loads(out.read_text())
    assert {"benchmark", "processor", "load_before", "versions"} <= {*found}
    assert found["language"][0]["work"] == "rmc 1024"
    assert "| rmc 1024 (1) |" in capsys.readouterr().out
    for words, says in (
        ("--out nowhere/x.json", "must be a .json file in a folder that exists"),
        ("--rounds 0", "--rounds must be at least 1, not 0"),
    ):
        with pytest.raises(UsageError, match=says):
            language.main(words.split())


ROW = {
    "candidates": [{"name": THREADS, "cores": 1, "tokens_per_second": 1.0}],
    "ratios": {"1": None},
    "products": dict.fromkeys(("share_of_step", "few_rows", "many_rows", "sgemm"), 0.5),
}
