"""A small world to act in, that of `tinyrmc new --world`, and how tests learn there."""

import tempfile
from pathlib import Path

from tinyrmc import training
from tinyrmc.cli.new import write_example
from tinyrmc.cores.agent import AgentConfig
from tinyrmc.training.discovery import load_task
from tinyrmc.training.rl.actors import LearningConfig

with tempfile.TemporaryDirectory() as folder:
    junction = load_task(str(write_example("junction", Path(folder), kind="world")))

CONFIG = junction.Config(
    model=AgentConfig(core="lstm", hidden_size=16, features=16, encoder="linear"),
    agent=LearningConfig(unroll=8, entropy_cost=0.01),
    length=2,
    train=training.TrainConfig(
        steps=150,
        batch_size=64,
        micro_batch_size=16,
        learning_rate=0.01,
        warmup_steps=0,
        log_every=25,
        evaluate_every=75,
    ),
)


class Task(junction.Task):
    test_examples = 128
