"""Public calls with None, NaN, truth values and numbers that cannot be: seeds, counts,
rates.
"""

import numpy as np
import pytest

from tinyrmc import load, nn
from tinyrmc import primitives as p
from tinyrmc.autograd.gradcheck import gradcheck
from tinyrmc.backend.seeds import generator
from tinyrmc.cli.play import Game
from tinyrmc.cores import CoreConfig, build_core
from tinyrmc.cores.memn2n import MemN2N, TextMemN2N
from tinyrmc.corpora.sampling import draw
from tinyrmc.environments.pacman import MiniPacman
from tinyrmc.errors import check_sizes, is_integer, is_number
from tinyrmc.training import Epochs, Samples, Trainer
from tinyrmc.training.discovery import load_task

NAN, INF = float("nan"), float("inf")


def test_what_is_an_integer_and_what_a_number():
    for value in 3, np.int8(3), 10**400:
        assert is_integer(value)
    for value in 3, 0.5, np.float32(1), INF:
        assert is_number(value)
    for value in True, np.True_, None, "3", 2.0, NAN, np.ones(1), [3]:
        assert not is_integer(value)
    for value in True, np.False_, None, "3", NAN, np.float32(NAN), 10**400, np.ones(1):
        assert not is_number(value)
    check_sizes("Owner", least=0, a=0)
    with pytest.raises(ValueError, match="Owner: b must be an integer of at least 1"):
        check_sizes("Owner", a=1, b=0)


# --- Seeds ----------------------------------------------------------------------------


def test_a_seed_gives_the_same_numbers_again():
    for seed in 3, np.random.SeedSequence(3):
        assert generator(seed).random() == np.random.default_rng(3).random()
    rng = np.random.default_rng(3)
    assert generator(rng) is rng
    of_place = np.random.SeedSequence(3, spawn_key=(5, 0))
    assert generator(3, 5, 0).random() == np.random.default_rng(of_place).random()


def samples(seed):
    return Samples(lambda rng, count: {"x": rng.random(count)}, seed).batch(0, 0, 2)


def trainer(seed):
    kind = load_task("nth_farthest").Task
    return Trainer(kind(kind.presets["quick"][1]), seed=seed)


def core_of(name):
    return lambda seed: build_core(CoreConfig(name, hidden_size=4), 3, seed)


SEEDED = {
    "Linear": lambda seed: nn.Linear(2, 3, seed=seed),
    "Conv2d": lambda seed: nn.Conv2d(2, 3, seed=seed),
    "Embedding": lambda seed: nn.Embedding(2, 3, seed=seed),
    "MLP": lambda seed: nn.MLP(2, [3], seed=seed),
    "MemN2N": lambda seed: MemN2N(5, 3, 2, seed=seed),
    "TextMemN2N": lambda seed: TextMemN2N(5, 3, 2, 1, seed=seed),
    **{name: core_of(name) for name in ("rmc", "rmc_paper", "lstm", "rnn", "dnc")},
    "gradcheck": lambda seed: gradcheck(lambda x: p.sum(x * x), np.ones(3), seed=seed),
    "Samples": samples,
    "Epochs": lambda seed: Epochs({"x": np.arange(9)}, 2, seed).batch(0, 0, 2),
    "Game": lambda seed: Game(MiniPacman(), seed),
    "Trainer": trainer,
}


def test_nothing_is_drawn_from_no_seed():
    for call in SEEDED.values():
        for seed in None, True:
            with pytest.raises(TypeError, match=f"seed must be an integer, .* {seed}"):
                call(seed)
    for name in "nth_farthest", "program_evaluation", "box_world", "mini_pacman":
        kind = load_task(name).Task
        config = next(iter(kind.presets.values()))[1]
        with pytest.raises(TypeError, match="seed"):
            kind(config).build(None)


# --- Counts and rates -----------------------------------------------------------------

CALLS = {
    "MLP's output_sizes": lambda _: nn.MLP(3, [], seed=0),
    "slots": lambda bad: MemN2N(5, 3, bad, seed=0),
    "batch_size": lambda bad: Epochs({"x": np.arange(9)}, bad, last="fill"),
    "shuffle": lambda bad: Epochs({"x": np.arange(9)}, 2, shuffle=bad or None),
    "top_k": lambda bad: draw(np.ones(3), np.random.default_rng(0), top_k=bad or 0.5),
    "temperature": lambda bad: draw(np.ones(3), np.random.default_rng(0), bad or -1),
}


def test_what_is_no_number_is_none():
    for name, call in CALLS.items():
        for bad in None, NAN, True, 0:
            if name == "slots" and bad == 0 and bad is not False:
                continue
            if name == "shuffle" and bad is True:
                continue
            with pytest.raises((TypeError, ValueError), match=name.replace("'s", ".*")):
                call(bad)


def test_a_run_is_opened_by_its_path():
    for bad in None, True, 10**30, 1.5, frozenset():
        with pytest.raises(TypeError, match="str"):  # a number is no open file either
            load(bad)
