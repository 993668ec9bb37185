"""A small world to act in, that of `tinyrmc new --world`, and how tests learn there."""

from tinyrmc import training
from tinyrmc.cli import template_world
from tinyrmc.cli.template_world import Config
from tinyrmc.cores.agent import AgentConfig
from tinyrmc.training.rl.actors import LearningConfig

CONFIG = Config(
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


class Task(template_world.Task):
    test_examples = 128
