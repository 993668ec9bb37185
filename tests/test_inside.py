"""What benchmarks/inside.py says of a memory while it learns: against loops, and
against differences instead of derivatives.
"""

import json
import math
from dataclasses import replace

import inside
import numpy as np
import pytest
import report

from tinyrmc.errors import RunError, UsageError


def by_loops(scores):
    """(size, entropy) of scores (rows, R), from their definitions."""
    sizes, entropies = [], []
    for row in scores.tolist():
        mean = sum(row) / len(row)
        sizes.append(math.sqrt(sum((s - mean) ** 2 for s in row) / len(row)))
        total = sum(math.exp(s) for s in row)
        weights = [math.exp(s) / total for s in row]
        bits = -sum(w * math.log(w) for w in weights)
        entropies.append(bits / math.log(len(row)))
    return sum(sizes) / len(sizes), sum(entropies) / len(entropies)


@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0, 30.0])
def test_sizes_of_scores_come_back_from_attention(scale):
    scores = scale * np.random.default_rng(1).standard_normal((6, 5)) + 7
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    found = inside.size_and_entropy(weights.reshape(2, 3, 5))
    np.testing.assert_allclose(found, by_loops(scores), rtol=1e-9, atol=1e-12)


def test_attention_to_one_thing_alone_is_measured_too():
    size, entropy = inside.size_and_entropy(np.array([[1.0, 0.0, 0.0]]))
    assert entropy == 0 and 300 < size < 400  # 700 below, a third of the places


@pytest.fixture
def small(monkeypatch):
    """Networks of a few units on two numbers, tested on a few examples."""
    fair = inside.nth_farthest.FAIR
    model = replace(fair.model, mem_slots=2, head_size=2, num_heads=2)
    data = inside.nth_farthest.DataConfig(
        3, 2, rungs=((3, 1),), rung_shares=(0.5,), rehearsal=0.0
    )
    train = replace(fair.train, batch_size=8)
    config = replace(fair, model=model, data=data, head_units=8, train=train)
    monkeypatch.setattr(inside.nth_farthest, "FAIR", config)
    monkeypatch.setattr(inside.nth_farthest.Task, "test_examples", 50)
    monkeypatch.setattr(inside, "EXAMPLES", 4)


@pytest.mark.parametrize("form", inside.FORMS)
def test_the_early_gradient_is_that_of_differences(form, small):
    task = inside.task_of(form, 6)
    model = task.build(np.random.SeedSequence(2))
    batch = task.draw(np.random.default_rng(0), 3)
    exact, h = model.astype(np.float64), 1e-5

    def losses(inputs):
        logits = exact(inputs).data
        shifted = np.exp(logits - logits.max(-1, keepdims=True))
        chances = shifted / shifted.sum(-1, keepdims=True)
        return -np.log(chances[np.arange(3), batch["target"]])  # (B,)

    inputs = batch["inputs"].astype(np.float64)
    sizes = np.zeros((3, 3))  # (B, T)
    for t, column in np.ndindex(inputs.shape[1:]):
        step = np.zeros_like(inputs)
        step[:, t, column] = h
        sizes[:, t] += ((losses(inputs + step) - losses(inputs - step)) / (2 * h)) ** 2
    sizes = np.sqrt(sizes).mean(0)
    found = inside.measure(model, batch)
    assert found["early_gradient"] == pytest.approx(sizes[0] / sizes[-1], rel=1e-4)
    assert 0 <= found["accuracy"] <= 1 and 0 < found["entropy"] <= 1


def test_a_form_is_what_it_says(small):
    for form, (core, norm) in inside.FORMS.items():
        model = inside.task_of(form, 6).config.model
        assert (model.core, model.qkv_norm) == (core, norm)
        names = [
            name
            for name, _ in inside.task_of(form, 6)
            .build(np.random.SeedSequence(0))
            .named_parameters()
        ]
        has = any("qkv_norm" in name for name in names)
        assert has == (form in ("released", "paper, with the norm"))


def fresh(form, seed=3):
    """The core that such a network begins with, in float64."""
    begun_as, change = inside.CHANGED.get(form, (form, None))
    model = inside.task_of(begun_as, 6).build(np.random.SeedSequence(seed))
    if change is not None:
        change(model.core)
    return model.core.astype(np.float64)


@pytest.mark.parametrize(
    "form, factor",
    [
        ("paper, larger queries and keys", 1.3),
        ("released, without the norm, larger queries and keys", 3.4),
    ],
)
def test_larger_queries_and_keys_are_all_that_is_larger(form, factor, small):
    larger, before = fresh(form), fresh(inside.CHANGED[form][0])
    theirs = dict(before.named_parameters())
    K, H = before.key_size, before.num_heads
    for name, parameter in larger.named_parameters():
        ratio = parameter.data / np.where(theirs[name].data == 0, 1, theirs[name].data)
        ratio = ratio[theirs[name].data != 0]
        if name in ("W_q", "W_k"):
            np.testing.assert_allclose(ratio, factor, rtol=1e-6)
        elif name.endswith("qkv.weight"):
            of_head = ratio.reshape(-1, H, ratio.size // (H * before.mem_size))
            np.testing.assert_allclose(of_head[..., : 2 * K], factor, rtol=1e-6)
            assert (of_head[..., 2 * K :] == 1).all()
        else:
            assert (ratio == 1).all()


@pytest.mark.parametrize("values", [False, True])
def test_a_part_of_the_norm_reaches_what_it_says(values, small):
    core = fresh(f"paper, the norm on {'values' if values else 'queries and keys'}")
    whole, K, H = core.qkv_norm.norm, core.key_size, core.num_heads
    x = np.random.default_rng(0).standard_normal((5, H * (2 * K + core.mem_size // H)))
    found, normed = core.qkv_norm(x).data, whole(x).data
    assert not np.isclose(normed, x).any()
    for head in range(H):
        start = head * (2 * K + core.mem_size // H)
        values_of = slice(start + 2 * K, start + 2 * K + core.mem_size // H)
        others_of = slice(start, start + 2 * K)
        reached, left = (values_of, others_of) if values else (others_of, values_of)
        np.testing.assert_array_equal(found[:, reached], normed[:, reached])
        np.testing.assert_array_equal(found[:, left], x[:, left])


def test_changed_networks_are_trained_as_changed(small):
    form = "paper, larger queries and keys"
    larger, before = (inside.train(name, 0, 61) for name in (form, "paper"))
    assert larger["form"] == form
    first, other = larger["points"][0], before["points"][0]
    assert first["score_size"] > 1.2 * other["score_size"]


def test_it_goes_on_with_what_is_missing(small, tmp_path, monkeypatch, capsys):
    out = tmp_path / "inside.json"
    words = ["--steps", "61", "--out", str(out)]
    here = {**report.heading("inside"), "git_commit": "c0ffee"}
    monkeypatch.setattr(report, "heading", lambda benchmark: here)
    trained, train = [], inside.train
    monkeypatch.setattr(
        inside, "train", lambda *of: trained.append(of[:2]) or train(*of)
    )
    forms = dict(list(inside.FORMS.items())[:2])
    with monkeypatch.context() as patch:
        patch.setattr(inside, "FORMS", forms)
        patch.setattr(inside, "CHANGED", {})
        assert inside.main(words) == 0
    found = json.loads(out.read_text())
    assert [row["form"] for row in found["inside"]] == list(forms)
    (first, _) = (row["points"] for row in found["inside"])
    # before training, 30 times while it trains, at the end
    assert [point["step"] for point in first][:3] == [0, 2, 4]
    assert first[-1]["step"] == 61 and len(first) == 32
    assert [point["rung"] for point in first] == ["3x1"] * 15 + ["3x2"] * 17
    assert inside.main([*words, "--seeds", "0,1"]) == 0
    assert (
        len(trained) == len(set(trained)) == 2 * len([*inside.FORMS, *inside.CHANGED])
    )
    said = capsys.readouterr().out
    assert str(out.with_suffix(".png")) in said
    rows = [row for row in json.loads(out.read_text())["inside"] if row["seed"] < 2]
    for form in inside.FORMS:
        of = [row for row in rows if row["form"] == form]
        accuracy = 100 * sum(row["test_accuracy"] for row in of) / 2
        begin, end = (
            sum(row["points"][at]["score_size"] for row in of) / 2 for at in (0, -1)
        )
        first = f"| {form} | 2 | {accuracy:.1f} % | {begin:.2f}, {end:.2f} |"
        assert first in said
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")

    with pytest.raises(UsageError, match="has 61 steps of each, not 90"):
        inside.main(["--steps", "90", "--out", str(out)])
    for commit in "decaf", "c0ffee-dirty":
        here["git_commit"] = commit
        with pytest.raises(UsageError, match="has rows of c0ffee on "):
            inside.main(words)
    out.write_text("[]")
    with pytest.raises(RunError, match=r"is no summary of inside\.py"):
        inside.main(words)
    with pytest.raises(UsageError, match="--seeds 'one' are no numbers"):
        inside.main([*words, "--seeds", "one"])
