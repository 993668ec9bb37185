"""A short real training.

It goes red when the whole no longer learns, though each part may still keep its
promises.
"""

import pytest

from tinyrmc.backend import blas_threads
from tinyrmc.training import TrainConfig
from tinyrmc.training.discovery import load_task
from tinyrmc.training.trainer import Trainer

nth_farthest = load_task("nth_farthest")
OFTEN = {"log_every": 50, "evaluate_every": 250}


@pytest.mark.slow
@pytest.mark.weekly
def test_a_relational_memory_core_learns_which_of_three_points_is_the_nth_farthest():
    """3 objects in 2 dimensions, after 3 x 1.

    Ranking by length gives 77 %, comparing distances in one dimension 83 %: 85 % takes
    both.

    Seeds 0, 1 and 2 came to 85 % after 2,000 to 2,500 steps and to 88 % by 2,750; the
    test gives up at 3,500.
    """
    config = nth_farthest.Config(
        nth_farthest.CoreConfig(mem_slots=3, head_size=8, num_heads=4),
        nth_farthest.DataConfig(objects=3, dimensions=2, stages=((3, 1),)),
        train=TrainConfig(3500, 128, learning_rate=7e-4, warmup_steps=100, **OFTEN),
    )
    trainer = Trainer(nth_farthest.Task(config), seed=1)
    floors = trainer.task.references()["test_accuracy"]
    accuracy = trainer.evaluate()["test_accuracy"]
    assert accuracy < 0.5
    with blas_threads(1):
        while accuracy < 0.85 and trainer.step < config.train.steps:
            trainer.advance()
            if trainer.step % config.train.log_every == 0:
                trainer.read()  # moves the ladder
            if trainer.step % config.train.evaluate_every == 0:
                accuracy = trainer.evaluate()["test_accuracy"]
    assert accuracy >= 0.85 > max(floors.values()), (
        f"{accuracy:.1%} after {trainer.step} steps, on stage {trainer.task.stage}"
    )
