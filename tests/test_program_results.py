"""Yardsticks of program_evaluation: floors and published numbers; and that it is
learnt.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from programhelp import mixed_batch, programs, task_of

from tinyrmc.training import HELD_OUT_SEED, Samples

# --- Floors and published numbers -----------------------------------------------------


def test_the_constant_answer_is_the_best_there_is():
    """Against all symbols at each place, counted by loops."""
    batch = mixed_batch(task_of(kind="control", length=3, nesting=2), 60)
    answer = programs.most_frequent(batch, 45)
    rows = [
        row[:size].tolist()
        for row, size in zip(batch["targets"], batch["target_lengths"], strict=True)
    ]
    for t, symbol in enumerate(answer):
        counts = [sum(row[t] == s for row in rows if len(row) > t) for s in range(45)]
        assert counts[symbol] == max(counts)
    right, counted = programs.judged(answer, batch)
    assert counted.sum() == sum(map(len, rows))
    assert right.sum() == sum(
        symbol == answer[t] for row in rows for t, symbol in enumerate(row)
    )


@pytest.mark.slow
def test_floors_and_published_numbers():
    for data, floor in [
        ({"kind": "addition", "nesting": 2}, 0.203),
        ({"kind": "control", "nesting": 2}, 0.135),
        ({"kind": "program", "nesting": 2, "operations": ("if", "for")}, 0.114),
        ({"kind": "program", "nesting": 2}, 0.128),
        ({"kind": "copy"}, (1 / 9 + 4 / 10) / 5),
        ({"kind": "double"}, (1 / 9 + 4 / 10) / 5),
    ]:
        task = task_of(**data)
        found = task.references()
        constant = found["test_accuracy"]["constant answer"]
        assert constant == pytest.approx(floor, abs=0.008)
        held_out = Samples(task.draw, HELD_OUT_SEED).batch(0, 0, task.test_examples)
        # chosen on the very examples it is judged by
        best = programs.judged(programs.most_frequent(held_out, 45), held_out)
        assert constant <= best[0].sum() / best[1].sum() + 1e-12
        assert found["test_exact_match_accuracy"]["constant answer"] < 0.01


PUBLISHED = {"kind": "copy", "length": 5}
WHOLE = {"steps": programs.QUICK.train.steps * programs.QUICK.train.batch_size // 10}


def test_no_trial_stands_beside_a_published_number():
    """Nor does what looks better than it is."""
    for model, train, cell in [
        ({}, WHOLE, "copy, RMC"),
        ({"core": "lstm", "decoder": "own_predictions"}, WHOLE, "copy, LSTM"),
        ({"decoder": "teacher", "evaluation_decoder": "zeros"}, WHOLE, "copy, RMC"),
        # it is told the right answer's characters
        ({"decoder": "teacher"}, WHOLE, None),
        ({"evaluation_decoder": "teacher"}, WHOLE, None),
        # a trial
        ({}, {"steps": WHOLE["steps"] - 1}, None),
    ]:
        assert task_of(model, train, **PUBLISHED).cell() == cell


def test_the_paper_s_dnc_memorises_without_a_memory_in_its_controller():
    for kind in programs.KINDS:
        _, words = programs.Task.published[f"{kind}, DNC"]
        feedforward = "--model.dnc.controller feedforward" in words
        assert feedforward == (kind in programs.MEMORY)


def test_the_constant_answer_is_not_chosen_on_what_it_is_tested_on():
    task = task_of(kind="copy")
    task.test_examples = 30
    held_out = Samples(task.draw, HELD_OUT_SEED).batch(0, 0, 30)
    # of so few it fits chance too
    best, counted = programs.judged(programs.most_frequent(held_out, 45), held_out)
    constant = task.references()["test_accuracy"]["constant answer"]
    assert constant < best.sum() / counted.sum() - 0.05


# --- Answers -------------------------------------------------------------------------


class Mixing:
    """Writes what depends on all that it is given about an example."""

    def parameters(self):
        return [SimpleNamespace(data=np.zeros(1))]

    def __call__(self, inputs, lengths, steps, decoder, targets):
        assert len(inputs) <= 256 and (steps, decoder) == (3, "teacher")
        return SimpleNamespace(data=np.eye(45)[self.written(inputs, lengths, targets)])

    def written(self, inputs, lengths, targets):
        return ((targets.T + inputs[:, 1] + lengths) % 45).astype(int)


def test_many_answers_are_asked_for_in_pieces():
    task = task_of({"decoder": "teacher"}, kind="control", length=2, nesting=2)
    batch = task._held_out(300)
    asked = (batch[name] for name in ("inputs", "lengths", "targets"))
    found = task._answers(Mixing(), batch)
    np.testing.assert_array_equal(found, Mixing().written(*asked).T)
