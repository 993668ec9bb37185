"""The settings of training, the same for every task."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal

import numpy as np

from ..config import ADDED, check_least, check_values, check_within

# Examples that one worker takes at a time on a CPU: more are no faster, and take more
# memory.
MICRO_BATCH = 256

LARGEST = 3.4e38  # parameters are float32
# metadata of the settings that one optimizer, or two, make use of
SGD, ADAM, ADAMW, RMSPROP, EITHER = (
    ADDED | {"of": owners}
    for owners in ("sgd", "adam adamw", "adamw", "rmsprop", "adam adamw rmsprop")
)


@dataclass(frozen=True)
class TrainConfig:
    """The settings of training; the same fields for every task.

    Training is measured in steps, even where the examples are a finite set: for 100
    epochs a preset says steps=100 * 28 (see `Epochs.steps_per_epoch`).
    """

    common: ClassVar = ("steps", "batch_size", "learning_rate")

    steps: int = 10_000
    """optimizer steps"""
    batch_size: int = 256
    """examples a step: for a language model lanes of the text, for an agent levels side
    by side
    """
    optimizer: Literal["adam", "adamw", "sgd", "rmsprop"] = field(
        default="adam", metadata=ADDED
    )
    """what turns gradients into updates"""
    learning_rate: float = 1e-3
    """peak learning rate"""
    warmup_steps: int = 200
    """steps over which the rate rises linearly to its peak"""
    cosine_fraction: float = 0.0
    """fraction of all steps, at the end, over which the rate falls to zero along a
    cosine
    """
    momentum: float = field(default=0.0, metadata=SGD)
    """for sgd: v = momentum * v + gradient, and an update is the rate times v"""
    beta1: float = field(default=0.9, metadata=ADAM)
    """for adam: decay of the running mean of gradients, per step"""
    beta2: float = field(default=0.999, metadata=ADAM)
    """for adam: decay of the running mean of squared gradients, per step"""
    weight_decay: float = field(default=0.01, metadata=ADAMW)
    """for adamw: the learning rate times this is the part of each weight that a step
    takes away; biases, and what else is no matrix, keep theirs
    """
    rms_decay: float = field(default=0.9, metadata=RMSPROP)
    """for rmsprop: decay of the running mean of squared gradients, per step"""
    rms_variant: Literal["keras", "tensorflow", "pytorch"] = field(
        default="keras", metadata=RMSPROP
    )
    """for rmsprop: keras divides by sqrt(v + epsilon), where the mean v starts at 0; in
    tensorflow (1.x) v starts at 1; pytorch divides by sqrt(v) + epsilon
    """
    epsilon: float | None = field(default=None, metadata=EITHER)
    """keeps the divisor from zero: added to the root by adam (None: 1e-8), to the mean
    under it by rmsprop (None: 1e-10; but see rms_variant)
    """
    objective: Literal["mean", "sum"] = field(default="mean", metadata=ADDED)
    """what is minimised: the mean of a batch's losses, or their sum"""
    clip_norm: float | None = 1.0
    """largest L2 norm of the gradient; None: not clipped"""
    clip_by: Literal["whole", "matrix"] = field(default="whole", metadata=ADDED)
    """what is clipped to that norm: the whole gradient, or each matrix of it"""
    micro_batch_size: int | None = None
    """at most this many examples go through the network at once, in pieces that the
    workers share; None: 256, on a GPU the batch
    """
    log_every: int = 100
    """steps between lines of metrics.jsonl; a task's curriculum looks at each line"""
    evaluate_every: int = 500
    """steps between evaluations on the held-out set"""
    keep_best: bool = field(default=True, metadata=ADDED)
    """keep the weights that did best on the validation set, where there is one, in
    best.npz, which `tinyrmc evaluate` measures if you ask for the best
    """
    patience: int | None = field(default=None, metadata=ADDED)
    """the run ends after so many evaluations in a row without a better one; None: it
    takes all its steps
    """
    checkpoint_minutes: float = 2.0
    """minutes between checkpoints"""
    nonfinite_limit: int = 10
    """the run stops after this many updates skipped for a loss or gradient that is not
    finite
    """

    def __post_init__(self):
        check_values(self, "train")
        check_least("train", self, "steps", "batch_size", "log_every", "evaluate_every")
        check_least("train", self, "nonfinite_limit", "micro_batch_size", "patience")
        check_within("train", self, "[0, inf]", "warmup_steps", "checkpoint_minutes")
        of_float32 = f"[{np.finfo(np.float32).tiny:.2g}, {LARGEST}]"
        check_within("train", self, of_float32, "learning_rate", "clip_norm", "epsilon")
        decays = "momentum", "beta1", "beta2", "rms_decay", "weight_decay"
        check_within("train", self, "[0, 1)", *decays)
        check_within("train", self, "[0, 1]", "cosine_fraction")
        if self.evaluate_every % self.log_every:
            raise ValueError(
                f"train.evaluate_every ({self.evaluate_every}) must be a multiple of "
                f"train.log_every ({self.log_every}); give that, too"
            )
        # a setting of an optimizer that is not the one asked for
        for each in fields(self):
            owners = each.metadata.get("of", self.optimizer).split()
            given = getattr(self, each.name) != each.default
            if given and self.optimizer not in owners:
                of = " and ".join(owners)
                raise ValueError(
                    f"train.{each.name} is a setting of {of}, and train.optimizer "
                    f"is {self.optimizer}; leave one of them out"
                )

    def micro_batch(self, xp) -> int:
        """The number of examples of `xp` that may go through the network at once."""
        return self.micro_batch_size or (MICRO_BATCH if xp is np else self.batch_size)
