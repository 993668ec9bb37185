"""Probes of attention: every measurement against loops, and every interference against
a network that was never given the thing.
"""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from fakecupy import cupy, installed
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tinyrmc import PaperRelationalMemory, RelationalMemory, nn
from tinyrmc.results import probes
from tinyrmc.results.probes import Questions
from tinyrmc.training.discovery import TaskError

B, T, INPUT, CLASSES = 7, 4, 5, 3


class Network(nn.Module):
    """The least that can be analysed."""

    def __init__(self, core, seed=1):
        self.core, self.head = core, nn.Linear(core.output_size, CLASSES, seed=seed)

    def __call__(self, inputs):
        outputs, _ = self.core.unroll(inputs, self.core.initial_state(inputs.shape[0]))
        return self.head(outputs[-1])


def released(slots=3, **setting):
    return Network(
        RelationalMemory(INPUT, slots, head_size=4, num_heads=2, **setting, seed=0)
    )


def paper(slots=3):
    return Network(
        PaperRelationalMemory(INPUT, slots, head_size=4, num_heads=2, seed=2)
    )


NETWORKS = [
    released,
    lambda: released(num_blocks=2, gate_style="memory"),
    lambda: released(gate_style=None),
    lambda: released(input_rows=2),
    paper,
]


def questions(network, count=B, steps=T, seed=0):
    random = np.random.default_rng(seed)
    rows = () if network.core.input_rows is None else (network.core.input_rows,)
    inputs = random.standard_normal((count, steps, *rows, INPUT)).astype(np.float32)
    kinds = {
        "accuracy": np.ones(count, bool),
        "accuracy_of_some": random.random(count) < 0.6,
    }
    return Questions(
        inputs,
        random.integers(steps, size=count),
        random.integers(CLASSES, size=count),
        kinds,
        lambda row: ("?", [{}]),
    )


def holders(network, asked):
    seen = probes.traces(network, asked.inputs)
    return probes.holders(probes.shares(seen, asked.marked))


# --- What is observed -----------------------------------------------------------------


def test_read_step_by_step_the_network_answers_as_ever():
    for make in NETWORKS:
        network = make()
        inputs = questions(network).inputs
        stepwise = probes.answer(network, probes.read(network, inputs))
        for logits in stepwise, probes.traces(network, inputs).logits:
            assert_allclose(logits, network(inputs).data, rtol=1e-5, atol=1e-6)


def test_shares_are_input_gate_times_attention_to_the_input():
    for make in NETWORKS:
        network = make()
        asked = questions(network)
        found = probes.shares(probes.traces(network, asked.inputs), asked.marked)
        for b in range(B):
            trace = []
            network.core.unroll(
                asked.inputs[b : b + 1], network.core.initial_state(1), trace
            )
            seen = trace[asked.marked[b]]
            taken = []
            for slot in range(3):
                each = [float(head[slot, 3:].sum()) for head in seen["attention"][0]]
                gate = 1.0
                if "input_gate" in seen:
                    gate = float(np.mean(seen["input_gate"][0, slot]))
                taken.append(gate * sum(each) / 2)
            assert_allclose(found[b], np.array(taken) / sum(taken), rtol=1e-4)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6).filter(any))
def test_holders_are_the_fewest_slots_with_half_of_the_intake(taken):
    taken = np.array(taken) / sum(taken)
    chosen = probes.holders(taken[None])[0]
    enough = [
        k
        for k in range(1, len(taken) + 1)
        if max(sum(some) for some in itertools.combinations(taken, k)) >= 0.5 - 1e-9
    ]
    assert chosen.sum() == enough[0] and taken[chosen].sum() >= 0.5 - 1e-9
    assert taken[chosen].min() >= taken[~chosen].max(initial=0)


@given(st.integers(1, 6), st.integers(0, 99))
def test_controls_are_as_many_others_where_there_are_any(slots, seed):
    held = np.random.default_rng(seed).random((50, slots)) < 0.4
    spared = probes.controls(held)
    assert not (spared & held).any()
    assert_array_equal(spared.sum(1), np.minimum(held.sum(1), slots - held.sum(1)))
    assert_array_equal(spared, probes.controls(held))


def test_controls_are_drawn_evenly():
    held = np.zeros((9000, 4), bool)
    held[:, 2] = True
    assert_allclose(probes.controls(held).mean(0), [1 / 3, 1 / 3, 0, 1 / 3], atol=0.02)


def in_loops(network, asked):
    """{(row of the table, place, period): mean}, number by number."""
    core, found = network.core, {}
    held = holders(network, asked)
    for b in range(len(asked.marked)):
        trace = []
        core.unroll(asked.inputs[b : b + 1], core.initial_state(1), trace)
        for t, seen in enumerate(trace):
            period = probes.PERIODS[1 + np.sign(t - asked.marked[b])]
            heads, columns = seen["attention"][0], seen["attention"].shape[-1]
            for column in range(columns):
                if column >= core.mem_slots:
                    place = "input"
                else:
                    place = "holders" if held[b, column] else "others"
                each = [float(head[:, column].mean()) for head in heads]
                rows = {
                    "uniform": 1 / columns,
                    "mean": sum(each) / len(each),
                    **{f"head {h + 1}": w for h, w in enumerate(each)},
                }
                for name, w in rows.items():
                    found[name, place, period] = found.get((name, place, period), 0) + w
    when = probes.periods(asked.marked, asked.inputs.shape[1]).sum((1, 2))
    return {
        key: total / when[probes.PERIODS.index(key[2])] for key, total in found.items()
    }


def test_the_table_of_attention_is_that_of_the_loops(monkeypatch):
    for make in NETWORKS:
        network = make()
        monkeypatch.setattr(probes, "MICRO_BATCH", 3)
        asked = questions(network)
        table = probes.analyse(network, asked)["attention"]
        assert list(table) == ["uniform", "head 1", "head 2", "mean"]
        expected = in_loops(network, asked)
        for name, places in table.items():
            for place, values in places.items():
                for period, value in values.items():
                    assert value == pytest.approx(
                        expected.get((name, place, period), 0), rel=1e-4, abs=1e-7
                    ), (name, place, period)
            for period in probes.PERIODS:
                assert sum(
                    places[place][period] for place in probes.PLACES
                ) == pytest.approx(1)


def test_attention_to_everything_alike_is_what_the_uniform_row_says():
    network = released()
    gain = network.core.blocks[0]["qkv_norm"].gain
    gain.data = 0 * gain.data  # so that queries and keys are all equal
    table = probes.analyse(network, questions(network, 20))["attention"]
    for name in "head 1", "head 2", "mean":
        for place in probes.PLACES:
            assert table[name][place] == pytest.approx(
                table["uniform"][place], rel=1e-5
            )


def test_where_nothing_was_before_or_after_there_is_no_number():
    network = released()
    table = probes.analyse(network, questions(network, steps=1))["attention"]
    to_input = table["mean"]["input"]
    assert to_input["before"] is to_input["after"] is None
    assert 0 < to_input["at"] < 1


# --- What is cut ----------------------------------------------------------------------


def masks(slots=3, rows=1, seed=0):
    held = probes.holders(np.random.default_rng(seed).random((B, slots)))
    spared = probes.controls(held)
    return probes.cuts(slots, rows, held, spared), held, spared


def test_a_cut_forbids_what_it_says_and_nothing_else():
    for rows in [1, 2]:
        found, held, spared = masks(rows=rows)
        forbids = {
            "all": lambda b, i, j: True,
            "slots": lambda b, i, j: j < 3,
            "input": lambda b, i, j: j >= 3,
            "holders": lambda b, i, j, held=held: j < 3 and held[b, j],
            "controls": lambda b, i, j, spared=spared: j < 3 and spared[b, j],
        }
        assert list(found) == list(forbids)
        for name, mask in found.items():
            whole = np.broadcast_to(mask, (B, 1, 3 + rows, 3 + rows))
            for b, i, j in np.ndindex(B, 3 + rows, 3 + rows):
                wanted = i == j or not forbids[name](b, i, j)
                assert whole[b, 0, i, j] == wanted, (name, b, i, j)


def test_nothing_reaches_a_slot_from_one_that_it_may_not_hear():
    """Another row in a slot: the next memory of the others is the same bit for bit
    where attention to it is cut, and only there.
    """
    for blocks in [1, 2]:
        for cut in ["all", "slots", "holders", "controls", None]:
            core = released(num_blocks=blocks).core
            found, held, spared = masks()
            every = np.ones((B, 3), bool)
            silent = {"all": every, "slots": every, None: ~every}
            silent |= {"holders": held, "controls": spared}
            random = np.random.default_rng(0)
            inputs = random.standard_normal((B, INPUT)).astype(np.float32)
            memory = random.standard_normal((B, 3, 8)).astype(np.float32)
            mask = None if cut is None else found[cut]
            for slot in range(3):
                other = memory.copy()
                other[:, slot] += 1
                before, after = (
                    core(inputs, state, mask=mask)[1].data for state in (memory, other)
                )
                for b, listener in itertools.product(range(B), range(3)):
                    same = np.array_equal(before[b, listener], after[b, listener])
                    wanted = listener != slot and bool(silent[cut][b, slot])
                    assert same == wanted, (cut, b, slot, listener)


def test_cuts_are_made_before_or_after_the_marked_step_and_not_at_it():
    """One by one: each example is read with the mask at exactly these steps, and
    answered the same.
    """
    network = released()
    asked = questions(network, 100)
    asked.inputs[...] *= 10  # so that the answers differ
    held = holders(network, asked)
    right = probes._right(network, asked, held, probes.controls(held))
    cut = {key[1:]: hits for key, hits in right.items() if key[0] == "cut"}
    assert len(cut) == 10
    assert all(
        (hits != right["intact", "", ""]).any()
        for (name, _), hits in cut.items()
        if name in ("all", "input")
    )
    for name, period in itertools.product(("all", "input"), ("before", "after")):
        mask = masks()[0][name][0]
        for inputs, marked, target, hit in zip(
            asked.inputs, asked.marked, asked.targets, cut[name, period], strict=True
        ):
            state = network.core.initial_state(1)
            for t, x in enumerate(inputs):
                forbidden = t < marked if period == "before" else t > marked
                _, state = network.core(
                    x[None], state, mask=mask[None] if forbidden else None
                )
            assert hit == (
                probes.answer(network, probes._arrays(state)).argmax() == target
            ), (name, period)


# --- What is wiped --------------------------------------------------------------------


def test_a_reset_slot_is_one_that_begins_after_the_marked_step():
    """With one slot, a memory that is reset has heard only what came since; and swapped
    ones give the answers of the sequence before.
    """
    for make in [released, paper]:
        network = make(slots=1)
        asked = questions(network, 40)
        asked.inputs[...] *= 10  # so that the answers differ
        held = np.ones((40, 1), bool)
        right = probes._right(network, asked, held, ~held)
        since = []
        for inputs, marked in zip(asked.inputs, asked.marked, strict=True):
            state = network.core.initial_state(1)
            for x in inputs[marked + 1 :]:
                _, state = network.core(x[None], state)
            since.append(int(probes.answer(network, probes._arrays(state)).argmax()))
        assert_array_equal(right["wiped", "slot 1", "reset"], since == asked.targets)
        answers = network(asked.inputs).data.argmax(-1)
        assert_array_equal(
            right["wiped", "slot 1", "swapped"], np.roll(answers, 1) == asked.targets
        )
        for how in "reset", "swapped":
            assert_array_equal(
                right["wiped", "holders", how], right["wiped", "slot 1", how]
            )
            # there are no others
            assert_array_equal(right["wiped", "controls", how], right["intact", "", ""])
        assert (np.array(since) != answers).any()
        assert (np.roll(answers, 1) != answers).any()


def test_only_the_named_slots_are_wiped():
    for make in [released, paper]:
        state = probes.read(make(), questions(make()).inputs)
        first = probes._arrays(make().core.initial_state(B))
        slots = np.random.default_rng(3).random((B, 3)) < 0.5
        for now, begun, mixed in zip(
            state, first, probes.put(state, slots, first), strict=True
        ):
            for b, slot in np.ndindex(B, 3):
                assert_array_equal(
                    mixed[b, slot], (begun if slots[b, slot] else now)[b, slot]
                )


def test_accuracies_count_the_examples_of_their_kind(monkeypatch):
    for make in NETWORKS:
        network = make()
        asked = questions(network, 50)
        found = probes.analyse(network, asked)
        right = network(asked.inputs).data.argmax(-1) == asked.targets
        some = asked.kinds["accuracy_of_some"]
        assert found["intact"] == {
            "accuracy": right.mean(),
            "accuracy_of_some": right[some].mean(),
        }
        held = holders(network, asked)
        wiped = probes._right(network, asked, held, probes.controls(held))
        hits = wiped["wiped", "slot 2", "reset"]
        assert found["wiped"]["slot 2"]["reset"] == {
            "accuracy": hits.mean(),
            "accuracy_of_some": hits[some].mean(),
        }
        slots = ["slot 1", "slot 2", "slot 3"]
        assert list(found["wiped"]) == [*slots, "holders", "controls"]
        assert found["holders"]["mean number"] == held.sum(1).mean()
        assert json.loads(json.dumps(found, allow_nan=False)) == found


# --- The rest -------------------------------------------------------------------------


def test_on_a_device_everything_is_as_on_the_host(monkeypatch):
    installed(monkeypatch)
    for make in NETWORKS:
        host, there = make(), make().to(cupy)
        asked = questions(host, 20)
        ours, numpys = probes.analyse(there, asked), probes.analyse(host, asked)
        assert {name: ours[name] for name in ours if name != "attention"} == {
            name: numpys[name] for name in numpys if name != "attention"
        }
        for name, places in numpys["attention"].items():
            for place, values in places.items():
                assert ours["attention"][name][place] == pytest.approx(values, rel=1e-5)


def test_the_three_cases_are_first_middle_and_last():
    network = released()
    asked = questions(network, 100)
    rows = probes.cases(asked)
    assert asked.marked[rows].tolist() == [0, 2, 3]
    assert asked.kinds["accuracy_of_some"][rows].all()
    few = asked.take(np.flatnonzero(asked.marked == 2))
    assert few.marked[probes.cases(few)].tolist() == [2]


def test_questions_that_cannot_be_are_named():
    for field, wrong, says in [
        ("marked", lambda x: x * 1.0, r"marked must be integers \[\d+\].*float64"),
        ("marked", lambda x: x - T, "marked must name steps from 0 to"),
        ("targets", lambda x: x[:, None], r"targets must be integers.*, 1\]$"),
        ("kinds", lambda x: {"accuracy": 1}, "accuracy must be bools .*, not <class"),
        ("kinds", lambda x: {}, "kinds names no accuracy to measure"),
    ]:
        asked = questions(released())
        with pytest.raises(TaskError, match=says):
            dataclasses.replace(asked, **{field: wrong(getattr(asked, field))})
