"""Scores of agents by `evaluate`, and how sure."""

import re
import statistics

import numpy as np
import pytest
from boxreference import boxes_of
from tinyagents import LEVELS, restored
from tinyruns import evaluated

from tinyrmc.cli import evaluate
from tinyrmc.training.discovery import load_task
from tinyrmc.training.rl import scores

# --- How sure figures are -------------------------------------------------------------


@pytest.mark.parametrize(
    "hits, count, low, high",
    [  # Newcombe 1998, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_intervals_of_shares_are_those_published(hits, count, low, high):
    found = scores.of_share(np.arange(count) < hits)
    np.testing.assert_allclose(found, (hits / count, low, high), atol=5e-5)
    turned = scores.of_share(np.arange(count) >= hits)
    np.testing.assert_allclose(turned[1:], (1 - found[2], 1 - found[1]))


def test_intervals_of_means():
    values = np.random.default_rng(0).normal(3, 2, 50)
    mean, low, high = scores.of_mean(values)
    spread = statistics.NormalDist().inv_cdf(0.975) * statistics.stdev(values) / 50**0.5
    assert mean == pytest.approx(statistics.mean(values))
    assert (low, high) == (pytest.approx(mean - spread), pytest.approx(mean + spread))
    assert scores.of_mean(np.ones(1)) == (1.0, None, None)


# --- What evaluate prints -------------------------------------------------------------


@pytest.mark.slow
def test_evaluate_prints_sampled_greedy_and_floors(agents, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert evaluate.main([str(agents / "rmc")]) == 0
    text = capsys.readouterr().out
    assert "; 40 examples\n" in text
    task, model = restored(agents / "rmc")
    found = evaluated(capsys, agents / "rmc")
    tables = found["examinations"]
    for greedy, player in enumerate(("sampled", "greedy")):
        results = task.results(model, 0, LEVELS, likeliest=bool(greedy))
        for name, metric, interval in (
            ("levels solved", "solved", scores.of_share),
            ("score", "score", scores.of_mean),
            ("steps until a level ended", "length", scores.of_mean),
        ):
            assert tables[name]["rows"][greedy] == [player, *interval(results[metric])]
            assert tables[name]["columns"] == ["player", metric, "95 % from", "to"]
        share, low, high = (
            f"{100 * x:.1f} %" for x in scores.of_share(results["solved"])
        )
        assert re.search(rf"^{player} +{share} +{low} +{high}$", text, re.M)
    others = [row[0] for row in tables["score"]["rows"]][2:]
    assert others == ["at random", "a script that forgets nothing"]
    assert found["test_solved"] == tables["levels solved"]["rows"][0][1]
    assert (
        task.references()["test_score"]["at random"] == (tables["score"]["rows"][2][1])
    )


def test_levels_are_told_apart_by_their_trees(agents):
    task, model = restored(agents / "rmc")
    tables = dict(task.analyses(model))
    solved = task.results(model, 0, LEVELS)["solved"]
    trees = [boxes_of(task.held_out_world.levels, k) for k in range(LEVELS)]
    for name, count in (
        (
            "solution length",
            lambda boxes: sum(not b.trap and b.lock > 0 for b in boxes),
        ),
        ("distractors", lambda boxes: sum(b.trap for b in boxes)),
    ):
        kinds = np.array([count(boxes) for boxes in trees])
        rows = tables[f"solved by {name}"].rows
        assert [row[0] for row in rows] == sorted({*kinds.tolist()})
        assert len(rows) == 2 and sum(row[1] for row in rows) == LEVELS
        for kind, levels, share, *_ in rows:
            assert levels == (kinds == kind).sum()
            assert share == solved[kinds == kind].mean()
    quick = load_task("box_world").Task(load_task("box_world").QUICK)
    assert [*quick.kinds()] == ["solution length"]  # there are no distractors
