"""Lessons of program_evaluation: levels that climb, mixtures, and batches that are the
same in whatever parts they are drawn.
"""

import itertools
import json

import numpy as np
from programhelp import Reader, programs, task_of, texts_of, within
from tinytasks import observed

from tinyrmc.training.trainer import Trainer


def sizes_of(texts):
    """(digits, operations) of release programs."""
    readers = [Reader(text) for text in texts]
    assert [reader.value() for reader in readers]
    return [(len(reader.numbers[0]), len(reader.operations)) for reader in readers]


def counted(task, count=6000):
    """How often each size is drawn for training."""
    batch = task.draw_training(np.random.default_rng(0), count)
    sizes = sizes_of(texts_of(batch, "release")[0])
    return {size: sizes.count(size) for size in sorted(set(sizes))}


def test_mix_draws_length_and_nesting_for_each_example():
    found = counted(task_of(kind="program", length=3, nesting=2, curriculum="mix"))
    assert list(found) == [*itertools.product((1, 2, 3), (1, 2))]
    within(list(found.values()), [1 / 6] * 6, 6000)


def test_levels_climb_length_first():
    for curriculum in ["naive", "combine"]:
        data = dict(curriculum=curriculum, patience=3, threshold=0.1)
        task = task_of(kind="program", length=3, nesting=2, **data)
        levels, step = [], 0
        while task.level != task.full:
            levels.append(task.level)
            found = counted(task, 300)
            length, nesting = task.level
            upto = [*itertools.product(range(1, length + 1), range(1, nesting + 1))]
            assert list(found) == ([task.level] if curriculum == "naive" else upto)
            for _ in range(3):  # a loss that does not fall: patience is what counts
                assert task.level == levels[-1]
                place = observed(task, step := step + 1, {"loss": 1.0})
                assert place == {"stage": f"{length}x{nesting}"}
        assert levels == [(1, 1), (2, 1), (3, 1)] and task.full == (3, 2)
        for _ in range(10):
            # there is no further one
            place = observed(task, step := step + 1, {"loss": 1.0})
            assert place == {"stage": "3x2"}
        # held out: always the task itself
        texts, _ = texts_of(task.draw(np.random.default_rng(0), 50), "release")
        assert set(sizes_of(texts)) == {(3, 2)}


def test_a_level_lasts_while_the_loss_falls():
    task = task_of(
        kind="addition", length=2, curriculum="naive", patience=4, threshold=0.1
    )
    loss = 1.0
    for step in range(20):
        task.observe(step, {"loss": loss})
        loss *= 0.8  # by a fifth of itself from line to line
    assert task.level == (1, 1)
    task.observe(21, {"loss": float("nan")})  # a line without a loss says nothing
    assert task.level == (1, 1) and len(task.losses) == 4
    for step in range(22, 26):
        assert task.level == (1, 1)
        task.observe(step, {"loss": loss})
        if task.level == (2, 1):
            break
    assert task.level == (2, 1) and task.losses == []


def test_threshold_is_the_mean_fall_over_the_mean_loss():
    """Losses 4, 3, 2: the mean fall is 1, the mean loss 3."""
    for threshold, level in ((0.33, (1, 1)), (0.34, (2, 1))):
        data = dict(curriculum="naive", patience=3, threshold=threshold)
        task = task_of(kind="addition", length=2, **data)
        for loss in (4.0, 3.0, 2.0):
            task.observe(0, {"loss": loss})
        assert task.level == level


def test_a_level_ends_by_either_sign():
    for losses, settled, released in [
        ([3.0, 2.0, 1.0], (1, 1), (2, 1)),  # it falls: as published, over
        ([2.0, 2.0, 2.0], (2, 1), (2, 1)),
        ([1.0, 1.1, 1.2], (2, 1), (2, 1)),  # it rises, by less than a tenth a line
        ([1.0, 2.0, 3.0], (2, 1), (1, 1)),
    ]:
        for level_ends, level in ("settled", settled), ("released", released):
            data = dict(curriculum="naive", patience=3, level_ends=level_ends)
            task = task_of(kind="addition", length=2, **data)
            for step, loss in enumerate(losses):
                task.observe(step, {"loss": loss})
            assert task.level == level, level_ends


def test_the_others_do_not_climb():
    for curriculum in ["baseline", "mix"]:
        task = task_of(kind="addition", length=2, curriculum=curriculum, patience=2)
        before = task.state()
        assert [observed(task, step, {"loss": 1.0}) for step in range(5)] == [{}] * 5
        assert task.state() == before


def test_only_batches_at_full_length_and_nesting_are_of_the_task_itself():
    """The held-out examples; for training's, see `test_levels_climb_length_first`."""
    lines = [{"stage": "2x1"}, {"stage": "3x1"}, {"stage": "3x2"}]
    for curriculum, final in {
        "naive": [False, False, True],
        "combine": [False] * 3,
        "mix": [False],
        "baseline": [True],
    }.items():
        task = task_of(kind="program", length=3, nesting=2, curriculum=curriculum)
        told = lines if task.config.data.climbs else [{}]
        assert [task.is_final(line) for line in told] == final
    # nothing to mix
    assert task_of(kind="copy", length=1, curriculum="mix").is_final({})


def test_a_checkpoint_keeps_the_level():
    train = {"log_every": 1, "evaluate_every": 10}
    data = dict(curriculum="combine", patience=2, threshold=5.0)
    task = task_of(train=train, kind="copy", length=3, **data)
    trainer = Trainer(task, seed=1)
    for _ in range(5):
        trainer.advance()
        trainer.read()
    assert task.level == (3, 1) and len(task.losses) == 1
    again = Trainer(programs.Task(task.config), seed=1)
    again.restore(trainer.arrays(), json.loads(json.dumps(trainer.state())))
    assert again.task.state() == task.state()
    for one in (trainer, again):
        one.advance()
    np.testing.assert_array_equal(again.optimizer.data, trainer.optimizer.data)


def test_a_batch_is_the_same_in_whatever_parts_it_is_drawn():
    for curriculum in ["mix", "combine"]:
        task = task_of(kind="program", length=3, nesting=2, curriculum=curriculum)
        task.level = (2, 2)
        stream = task.stream(None, seed=5)
        whole = task.stream(None, seed=5).batch(7, 0, 150)
        cuts = itertools.pairwise([0, 1, 70, 128, 150])
        parts = [stream.batch(7, start, stop) for start, stop in cuts]
        for name, array in whole.items():
            joined = np.concatenate([part[name] for part in parts])
            np.testing.assert_array_equal(array, joined)
        # blocks of 64 that repeat would show here
        texts, _ = texts_of(whole, "release")
        assert len({text for text in texts if len(text) > 8}) > 60
        other = task.stream(None, seed=6).batch(7, 0, 150)
        assert not np.array_equal(whole["inputs"], other["inputs"])
