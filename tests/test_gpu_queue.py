"""benchmarks/gpu_queue.py, with small runs on the host in the place of its own."""

import json
import shlex

import fakecupy
import gpu
import gpu_queue
import pytest
from tinyruns import AT_ONCE, ROOT, TINY

from tinyrmc.cli import train
from tinyrmc.cli.commands import Options, parse_words, task_and_preset
from tinyrmc.errors import UsageError

SMALL = shlex.join(TINY)
QUEUE = {"first": SMALL, "wrong": f"{SMALL} --data.nth 1", "last": f"{SMALL} --seed 1"}


def test_its_words_are_understood():
    for name, line in gpu_queue.QUEUE.items():
        words = shlex.split(line)
        kind, preset = task_and_preset(words[:2])
        words = [*words[2:], "--device", "cuda"]
        config, _ = parse_words(name, preset, kind.presets[preset][1], Options(), words)
        assert kind(config).config.train.steps > 10_000, name


def test_an_agents_update_is_measured_until_all_of_it_is(tmp_path, monkeypatch):
    """One that was cut off, has failed or ran on another GPU does not count."""
    fakecupy.installed(monkeypatch)
    path, calls = tmp_path / "gpu-Some-GPU.json", []
    works = [gpu.AgentWork("quick", levels) for levels in (2, 3)]
    monkeypatch.setattr(gpu, "AGENTS", works)
    (tmp_path / "gpu-Another-GPU.json").write_text("{}")

    def run(words, log):
        calls.append(words)
        rows = [["ours, kernels"], ["ours, kernels", "ours, graph"]]
        kept = [[], [rows[1], rows[0]], [rows[1]] * 2][len(calls) - 1]
        agents = [
            {"preset": "quick", "levels": n, "rows": dict.fromkeys(names)}
            for n, names in zip((2, 3), kept, strict=False)
        ]
        path.write_text(json.dumps({"agents": agents}))
        return int(len(calls) == 1)

    monkeypatch.setattr(gpu_queue, "run_logged", run)
    assert [gpu_queue.measure(tmp_path, 4) for _ in range(5)] == [1, 0, 0, 0, 0]
    assert len(calls) == 3 and calls[0][1:] == calls[2][1:]
    options = gpu._parser().parse_args(calls[0][1:])
    assert options.missing and options.out == tmp_path and options.minutes == 4


@pytest.mark.slow
@pytest.mark.weekly
def test_it_goes_on_where_it_stopped(tmp_path, capsys, monkeypatch):
    """One training after the other; what failed is no obstacle, what is done stays."""
    monkeypatch.chdir(ROOT)  # where the package is
    queue, where = QUEUE.copy(), ["--folder", str(tmp_path / "gpu")]
    monkeypatch.setattr(gpu_queue, "LEAST", 0)
    stopped = ["--minutes", "1e-9"]
    assert gpu_queue.main([*where, *stopped], queue, "cpu") == 0
    assert [*(tmp_path / "gpu").iterdir()] == []
    run = ["--run", str(tmp_path / "gpu" / "first")]
    assert train.main([*TINY, *run, *AT_ONCE]) == 0  # one step of it
    assert gpu_queue.main(where, queue, "cpu") == 1
    said = capsys.readouterr().out
    assert "--data.nth" in said and said.count("12 steps in") == 2, said
    log = tmp_path / "gpu" / "first.log"
    before = log.read_text()
    assert "--resume" in before
    assert gpu_queue.main(where, {"first": SMALL}, "cpu") == 0
    assert log.read_text() == before
    gpu_queue.main([*where, "--list"], queue, "cpu")
    assert "not run" not in capsys.readouterr().out
    with pytest.raises(UsageError, match="--minutes must be positive, not 0"):
        gpu_queue.main(["--minutes", "0"], queue, "cpu")
