"""Names of configurations, and which runs are seeds of one."""

import dataclasses
import json
import shlex

from tinyrmc.cli.commands import Options, parse_words
from tinyrmc.results.groups import command_words, group_runs, parts
from tinyrmc.training import discovery
from tinyrmc.training.run import Run

TASKS = {
    name: discovery.load_task(name).Task
    for name in ("nth_farthest", "program_evaluation")
}


def trained_by(task, words, seed=0):
    """A run's config.json as `python -m tinyrmc.train TASK WORDS` writes it and Python
    reads it.
    """
    preset, *flags = shlex.split(words)
    config, _ = parse_words(
        task, preset, TASKS[task].presets[preset][1], Options(), flags
    )
    described = {"task": task, "preset": preset, "seed": seed}
    return json.loads(json.dumps(described | {"config": dataclasses.asdict(config)}))


def test_a_preset_is_called_by_its_name():
    for task, words in [
        (task, preset) for task, kind in TASKS.items() for preset in kind.presets
    ]:
        assert command_words(trained_by(task, words)) == words


def test_a_configuration_is_called_by_the_words_that_make_it():
    for task, words in [
        ("nth_farthest", "quick --model.core lstm"),
        (
            "nth_farthest",
            "quick --model.mem-slots 8 --model.total-units 256 --model.gate-style "
            "memory --train.steps 100",
        ),
        ("nth_farthest", "quick --model.no-activate-final"),
        (
            "nth_farthest",  # a pair a rung
            "paper --model.activate-final --data.stages 3 1 3 16 "
            "--train.learning-rate 1e-05",
        ),
        ("nth_farthest", "ladder --data.stages --train.clip-norm None"),  # no rung
        (
            "nth_farthest",
            "quick --model.core dnc --model.dnc.read-heads 2 --model.dnc.clip None",
        ),
        (
            "program_evaluation",
            "addition --model.no-share-core --data.length 5 --data.operations add "
            "subtract",
        ),
        (
            "program_evaluation",
            "quick --model.evaluation-decoder own_predictions --data.kind reverse",
        ),
    ]:
        assert command_words(trained_by(task, words)) == words
        again = trained_by(task, f"{words} --model.forget-bias 1.5")
        assert again["config"] != trained_by(task, words)["config"]
        assert command_words(again) != words


def test_an_older_run_is_called_by_what_its_configuration_says_today():
    run = trained_by("nth_farthest", "quick --model.core lstm")
    came_later = "total_units", "layers"
    for field in came_later:
        del run["config"]["model"][field]
    assert command_words(run) == "quick --model.core lstm"
    run["preset"] = "gone"
    assert command_words(run) == "quick --model.core lstm"


def test_seeds_of_other_code_make_another_group(tmp_path):
    a, b, c = ({"own.py": letter * 16} for letter in "abc")
    more = {"late.py": "e" * 16}
    found = [
        ([a, a], {"quick": 2}),
        ([a, a | more, {}, more], {"quick": 4}),  # imported late, or never
        ([a, b, a], {"quick (own.py aaaaaaaa)": 2, "quick (own.py bbbbbbbb)": 1}),
        ([a | more, b | more], {f"quick (own.py {k * 8})": 1 for k in "ab"}),
        ([[a, c]], {"quick (own.py aaaaaaaa, from step 20 cccccccc)": 1}),
        (
            [a, [a, c]],
            {
                "quick (own.py aaaaaaaa)": 1,
                "quick (own.py aaaaaaaa, from step 20 cccccccc)": 1,
            },
        ),
    ]
    for k, (codes, wanted) in enumerate(found):
        runs = []
        for seed, code in enumerate(codes):
            first, *later = code if isinstance(code, list) else [code]
            around = {
                "own_code": first,
                "later_code": dict(zip(["20"], later, strict=False)),
            }
            config = trained_by("nth_farthest", "quick", seed)
            runs.append(Run.create(tmp_path / str(k), "r", config, around))
        groups = group_runs(runs)
        assert {name: len(members) for name, members in groups.items()} == wanted
        assert all(parts(runs[0].config, name)[0] == "quick" for name in groups)


def test_seeds_make_one_group_and_anything_else_another(tmp_path):
    asked = [
        ("quick", 3),
        ("quick --model.core lstm", 3),
        ("quick", 1),
        ("quick --model.mem-slots 8", 1),
        ("ladder", 0),
        ("quick", 2),
    ]
    runs = [
        Run.create(tmp_path, "r", trained_by("nth_farthest", words, seed), {})
        for words, seed in asked
    ]
    groups = {
        words: [run.config["seed"] for run in members]
        for words, members in group_runs(runs).items()
    }
    expected = {
        "quick": [3, 1, 2],
        "quick --model.core lstm": [3],
        "quick --model.mem-slots 8": [1],
        "ladder": [0],
    }
    assert groups == expected and list(groups) == list(expected)
