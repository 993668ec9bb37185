"""Flags without effect: each task knows its own, and `train` tells you of them."""

from tinyrmc.cli import train
from tinyrmc.cli.commands import Options, parse_words
from tinyrmc.training.discovery import load_task

# the flags after a task and its preset, and what they are without ("": nothing is told)
FLAGS = {
    "box_world quick": {
        "--world.view whole --world.viewport 7": "where all is seen: world.viewport",
        "--world.viewport 7": "",
        "--world.distractor-length 1 2": "without distractors: world.distractor_",
        "--world.distractors 0 1 --world.distractor-length 1 2": "",
        "--world.stages --world.promotion-threshold 0.5": "without stages: world.promo",
        "--model.coordinates": "with the encoder linear: model.coordinates",
        "--model.coordinates --model.encoder conv": "",
        "--model.rounds 2": "with the encoder linear: model.rounds",
        "--model.core lstm --model.mem-slots 2": "on the core lstm: model.mem_slots",
        "--model.core lstm --model.encoder attention --model.head-size 8": "",
        "--model.core lstm --model.encoder attention --model.mem-slots 2": "on",
    },
    "mini_pacman quick": {
        "--world.view whole --world.viewport 3": "where all is seen: world.viewport",
    },
    "language_modeling quick": {
        "--model.core rnn --model.layers 3": "",
        "--model.core dnc --model.layers 3": "on the core dnc: model.layers",
        "--model.hops 2 --model.layers 3": "on the core rmc: model.layers, model.hops",
        "--model.core memn2n --model.no-tied --model.scaled --model.dropout-output 0.5 "
        "--data.context 3": "on the core memn2n: model.tied, model.scaled, "
        "model.dropout_output, data.context",
        "--model.core lstm --model.dropout-between 0.5": "",
        "--model.dropout-between 0.5": "in a network of one layer: model.dropout_b",
        "--model.dropout-embedding 0 --model.dropout-output 0 --model.dropout-shared "
        "--model.dropout-between 0 --model.core lstm": "without dropout: model.dropout",
        "--plateau.patience 9": "without plateau.factor: plateau.patience",
        "--plateau.patience 9 --plateau.factor 0.5": "",
        "--data.tokens words": "without data.text: data.tokens",
    },
    "nth_farthest fair": {
        "--data.promotion-threshold 0.2": "where stages open by steps: data.promotion_",
        "--data.replay-fraction 0.5": "",
    },
    "nth_farthest quick": {"--data.promotion-threshold 0.2": ""},
    "nth_farthest direct": {
        "--data.promotion-threshold 0.2 --data.replay-fraction 0.1": "without stages: "
        "data.promotion_threshold, data.replay_fraction",
    },
}


def test_flags_without_effect_are_told_and_no_others(capsys):
    for names, table in FLAGS.items():
        task, preset = names.split()
        kind = load_task(task).Task
        usual = kind.presets[preset][1]
        for words, says in table.items():
            config, _ = parse_words(task, preset, usual, Options(), words.split())
            train._note_unused(kind(config), usual)
            told = capsys.readouterr().err
            assert told.startswith("note: without effect " + says if says else ""), told
            assert bool(told) == bool(says), words


def test_a_floor_in_percent_is_told(capsys, monkeypatch):
    kind = load_task("nth_farthest").Task
    task = kind(kind.presets["quick"][1])
    train._note_shares(task)
    assert not capsys.readouterr().err
    marks = {"test_accuracy": {"guessing": 50, "good": 0.5}, "test_loss": {"a": 7}}
    monkeypatch.setattr(kind, "references", lambda self: marks)
    train._note_shares(task)
    (told,) = capsys.readouterr().err.splitlines()
    assert (
        "test_accuracy of 'guessing' in references() is 50, which is shown as" in told
    )
