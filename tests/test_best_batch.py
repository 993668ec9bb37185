"""The accuracy of the best single training batch.

Which one it is, on any worker or rank, and that a run goes on with it.
"""

import json

import fakecupy
import numpy as np
import pytest
from fakecupy import no_sync, only
from rankhelp import ALONE, all_well, on_ranks
from tinytasks import KINDS, TRAIN, relations, steps

from tinyrmc.backend import to_host
from tinyrmc.training import MetricAccumulator


def best_of(pairs):
    """The largest mean of (sum, count) pairs, those of nothing aside."""
    return max((total / count for total, count in pairs if count), default=np.nan)


def test_the_largest_mean_is_kept_on_the_device_and_through_a_checkpoint(xp):
    for pairs in [
        [(3, 10), (5, 10), (4, 10)],
        [(0, 0), (1, 3), (0, 0), (33, 100)],
        [(0, 7), (0, 0)],
        [(2**40, 2**41), (2**40 + 1, 2**41)],
    ]:
        totals, again = MetricAccumulator(), MetricAccumulator()
        for total, count in pairs:
            if xp is fakecupy.cupy:
                with no_sync(), only(np.float32):
                    totals.keep_largest(
                        "best", xp.asarray(total), xp.asarray(count), xp
                    )
            else:
                totals.keep_largest("best", xp.asarray(total), xp.asarray(count), xp)
            # as a checkpoint after every step would
            again = MetricAccumulator(json.loads(json.dumps(again.plain())))
            again.keep_largest("best", total, count, np)
        assert totals.means() == again.means() == {"best": best_of(pairs)}
        assert totals.plain() == again.plain()
        assert type(to_host(totals.sums["best"][0]).item()) is int


def test_each_line_has_the_best_batch_since_the_line_before(make_trainer):
    for processes in KINDS:
        task = relations()
        trainer, seen = make_trainer(task, seed=3, workers=2, processes=processes), []
        for window in range(12):
            task.stage = len(task.stages) - 1 if window == 6 else task.stage
            pairs = []
            for _ in range(3):
                batch = trainer.stream.batch(trainer.step, 0, TRAIN.batch_size)
                right = (
                    trainer.model(batch["inputs"]).data.argmax(-1) == batch["target"]
                )
                counts = batch["current"]  # rehearsals do not count
                pairs.append((int(right[counts].sum()), int(counts.sum())))
                trainer.advance()
            line = trainer.read()
            best = line["best_batch_accuracy"]
            assert best == pytest.approx(best_of(pairs), nan_ok=True)
            seen.append((task.is_final(line), best > line["accuracy"]))
        assert {(False, True), (True, True)} <= {*seen}  # on the way up, at the top


def test_ranks_agree_on_the_best_batch_of_all_of_them():
    def line(ranks, workers=1):
        trainer = ranks.trainer(relations(), 4, workers, processes=False)
        return steps(trainer, 5).read()["best_batch_accuracy"]

    alone = line(ALONE, workers=3)
    assert all_well(on_ranks(3, line)) == [alone] * 3 and 0 < line(ALONE) <= 1
