"""Flags without effect: each task knows its own, and `train` tells you of them."""

from tinyrmc.cli import train
from tinyrmc.cli.commands import Options, parse_words
from tinyrmc.training.discovery import load_task


def check(task, preset, words, says, capsys):
    kind = load_task(task).Task
    usual = kind.presets[preset][1]
    config, _ = parse_words(task, preset, usual, Options(), words.split())
    train._note_unused(kind(config), usual)
    told = capsys.readouterr().err
    assert told.startswith(f"note: without effect {says}") if says else not told


def test_box_world(capsys):
    for words, says in [
        ("--world.view whole --world.viewport 7", "where all is seen: world.viewport"),
        ("--world.viewport 7", ""),
        ("--world.distractor-length 1 2", "without distractors: world.distractor_"),
        ("--world.distractors 0 1 --world.distractor-length 1 2", ""),
        (
            "--world.stages --world.promotion-threshold 0.5",
            "without stages: world.promotion_threshold",
        ),
        ("--model.coordinates", "with the encoder linear: model.coordinates"),
        ("--model.coordinates --model.encoder conv", ""),
        ("--model.rounds 2", "with the encoder linear: model.rounds"),
        ("--model.core lstm --model.mem-slots 2", "on the core lstm: model.mem_slots"),
    ]:
        check("box_world", "quick", words, says, capsys)
    words = "--world.view whole --world.viewport 3"
    check("mini_pacman", "quick", words, "where all is seen: world.viewport", capsys)


def test_language_modeling(capsys):
    for words, says in [
        ("--model.core rnn --model.layers 3", ""),
        ("--model.core dnc --model.layers 3", "on the core dnc: model.layers"),
        (
            "--model.hops 2 --model.layers 3",
            "on the core rmc: model.layers, model.hops",
        ),
        (
            "--model.core memn2n --model.no-tied --model.scaled "
            "--model.dropout-output 0.5 --data.context 3",
            "on the core memn2n: model.tied, model.scaled, model.dropout_output, "
            "data.context",
        ),
        ("--model.core lstm --model.dropout-between 0.5", ""),
        ("--model.dropout-between 0.5", "in a network of one layer: model.dropout_b"),
        (
            "--model.dropout-embedding 0 --model.dropout-output 0 "
            "--model.dropout-shared --model.dropout-between 0 --model.core lstm",
            "without dropout: model.dropout_shared",
        ),
        ("--plateau.patience 9", "without plateau.factor: plateau.patience"),
        ("--plateau.patience 9 --plateau.factor 0.5", ""),
        ("--data.tokens words", "without data.text: data.tokens"),
    ]:
        check("language_modeling", "quick", words, says, capsys)


def test_nth_farthest(capsys):
    for preset, words, says in [
        (
            "fair",
            "--data.promotion-threshold 0.2",
            "where stages open by steps: data.promotion_threshold",
        ),
        ("fair", "--data.replay-fraction 0.5", ""),
        ("quick", "--data.promotion-threshold 0.2", ""),
        (
            "direct",
            "--data.promotion-threshold 0.2 --data.replay-fraction 0.1",
            "without stages: data.promotion_threshold, data.replay_fraction",
        ),
    ]:
        check("nth_farthest", preset, words, says, capsys)
