"""End-To-End Memory Networks against their equations.

The oracle embeds every word by itself, one story at a time, as the paper writes it.
Under HIPS autograd it gives the gradients too.
"""

import dataclasses

import autograd
import autograd.numpy as hips
import fakecupy
import numpy as np
import pytest
from turns import in_turn

from tinyrmc import Tape, optim
from tinyrmc.autograd.gradcheck import gradcheck
from tinyrmc.backend import to_host
from tinyrmc.cores.memn2n import Encoding, MemN2N
from tinyrmc.fused import softmax_cross_entropy

V, D, SLOTS, LONGEST = 9, 6, 4, 5
# sentences, the latest first, and a question: word ids
STORIES = [
    ([[1, 2, 3], [4, 2, 3, 5, 5], [0, 8]], [7, 1]),
    ([[6, 2]], [7, 4, 3]),
    ([[1, 2, 8, 0], [3, 3], [2], [5, 6, 7]], [8]),
]
AGES = [[1, 2, 4], [3], [1, 2, 3, 4]]  # the first two have forgotten something
ANSWERS = np.array([3, 0, 8])


# --- The equations --------------------------------------------------------------------


def place(kind, scale, j, J, d):
    """l_j (d,) of word j = 1 .. J; of the program, J counts the age too."""
    if kind == "bag":
        return np.ones(d)
    k = np.arange(1, d + 1)
    if kind == "printed":
        return scale * ((1 - j / J) - (k / d) * (1 - 2 * j / J))
    J = LONGEST + 1
    whole = 1 + 4 * (k - (d + 1) / 2) * (j - (J + 1) / 2) / (d * J)
    return scale / 2 * whole


def embedded(table, words, kind, scale):
    """sum_j l_j * A x_j."""
    total = np.zeros(D)
    for j, word in enumerate(words, start=1):
        total = total + place(kind, scale, j, len(words), D) * table[word]
    return total


def logits(P, story, ages, *, hops, tying, kind, scale, relu, linear, masked, temporal):
    sentences, question = story
    adjacent = tying == "adjacent"
    u = embedded(P["tables"][0] if adjacent else P["questions"], question, kind, scale)
    of_age = place(kind, scale, LONGEST + 1, 0, D) if kind == "released" else 1.0
    for hop in range(hops):
        A, C = P["tables"][hop : hop + 2] if adjacent else P["tables"]
        memories, contents = [], []
        for sentence, age in zip(sentences, ages, strict=True):
            for table, kept in ((A, memories), (C, contents)):
                T = of_age * table[V + age - 1] if temporal else 0.0
                kept.append(embedded(table, sentence, kind, scale) + T)
        scores = [hips.dot(u, m) for m in memories]
        if not linear:
            shares = [hips.exp(score) for score in scores]
            nothing = 0 if masked else SLOTS - len(sentences)  # exp(0) each
            total = sum(shares) + nothing
            scores = [share / total for share in shares]
        o = sum(score * c for score, c in zip(scores, contents, strict=True))
        u = (u if adjacent else hips.dot(u, P["H"])) + o
        cut = D - round(relu * D)
        u = hips.concatenate([u[:cut], hips.maximum(u[cut:], 0)])
    return hips.dot(P["tables"][hops][:V] if adjacent else P["answers"], u)


# --- The network ----------------------------------------------------------------------

VARIANTS = {
    "as published": {},
    "one hop": {"hops": 1},
    "five hops": {"hops": 5},
    "linear start": {"linear": True},
    "bag of words": {"kind": "bag"},
    "printed encoding": {"kind": "printed", "scale": 1.0},
    "printed encoding, twice": {"kind": "printed"},
    "another scale": {"scale": 1.5},
    "no ages": {"temporal": False},
    "masked": {"masked": True},
    "masked, linear": {"masked": True, "linear": True},
    "ReLUs": {"relu": 1.0},
    "half of them": {"relu": 0.5, "hops": 2},
    "layerwise": {"tying": "layerwise"},
    "layerwise, linear, bag, ReLUs": {
        "tying": "layerwise", "linear": True, "kind": "bag", "relu": 0.5,
    },
}  # fmt: skip
USUAL = {
    "hops": 3, "tying": "adjacent", "kind": "released", "scale": 2.0, "relu": 0.0,
    "linear": False, "masked": False, "temporal": True,
}  # fmt: skip


def network(networks=1, dtype=np.float64, seed=3, **variant):
    how = USUAL | variant
    return MemN2N(
        V, D, SLOTS * how["temporal"], how["hops"], how["tying"],
        Encoding(how["kind"], how["scale"], LONGEST), how["relu"],
        networks=networks, std=0.4, dtype=dtype, seed=seed,
    )  # fmt: skip


def rows(model, dtype=np.float64, stories=STORIES, ages=AGES):
    """(memories (B, M, W), questions (B, .), empty (B, M)) of the stories."""
    encoding = model.encoding
    memories = np.zeros((len(stories), SLOTS, model.columns), dtype)
    empty = np.ones((len(stories), SLOTS), bool)
    for b, (sentences, _) in enumerate(stories):
        counts = encoding.rows(sentences, V)
        memories[b, : len(sentences), : counts.shape[1]] = counts
        for i, age in enumerate(ages[b]):
            if model.slots:
                memories[b, i, counts.shape[1] + age - 1] = 1
            empty[b, i] = False
    questions = encoding.rows([question for _, question in stories], V)
    return memories, questions.astype(dtype), empty


def asked(model, linear=False, masked=False, trace=None, **_):
    memories, questions, empty = rows(model, model.dtype)
    return model(memories, questions, linear, empty if masked else None, trace)


def arrays_of(model, number):
    """The parameters of one of the networks, by name."""
    return {name: x.data[number] for name, x in model.named_parameters()}


@in_turn("variant", VARIANTS.values())
def test_logits_and_gradients_are_those_of_the_equations(variant):
    how = USUAL | variant
    model = network(networks=2, **variant)
    with Tape() as tape:
        found = asked(model, **how)
        answers = np.broadcast_to(ANSWERS, (2, 3))
        losses = softmax_cross_entropy(found, answers)
        loss = losses[0, 0] + losses[0, 1] + losses[0, 2] + 2 * losses[1, 2]
    gradients = tape.gradient(loss, model.parameters())

    def surprise(P, b):
        z = logits(P, STORIES[b], AGES[b], **how)
        return hips.log(hips.sum(hips.exp(z))) - z[ANSWERS[b]]

    weights = [(1, 1, 1), (0, 0, 2)]
    for number in range(2):
        P = arrays_of(model, number)
        for b in range(3):
            expected = logits(P, STORIES[b], AGES[b], **how)
            np.testing.assert_allclose(found.data[number, b], expected, atol=1e-6)
        weight = weights[number]

        def total(P, weight=weight):
            return sum(w * surprise(P, b) for b, w in enumerate(weight) if w)

        expected = autograd.grad(total)(P)
        for (name, _), g in zip(model.named_parameters(), gradients, strict=True):
            np.testing.assert_allclose(g[number], expected[name], atol=1e-6)


def test_gradients_by_complex_step():
    model = network(tying="layerwise", relu=0.5)
    parameters = dict(model.named_parameters())
    gradcheck(lambda: asked(model), parameters=parameters)


def test_as_many_parameters_as_published():
    adjacent = MemN2N(40, 20, 10, hops=3, seed=0)
    assert adjacent.num_parameters == 4 * (40 + 10) * 20
    assert MemN2N(40, 20, 10, hops=3, networks=7, seed=0).num_parameters == 7 * 4000


def test_tied_embeddings_are_one_array():
    assert [name for name, _ in network().named_parameters()] == ["tables"]
    layerwise = dict(network(tying="layerwise", hops=9).named_parameters())
    assert layerwise["tables"].shape == (1, 2, V + SLOTS, D)
    assert [*layerwise] == ["tables", "H", "questions", "answers"]


def test_a_network_is_the_same_however_many_stand_beside_it():
    for tying in ("adjacent", "layerwise"):
        one, three = (network(networks=n, tying=tying) for n in (1, 3))
        first = arrays_of(three, 0)
        for name, x in arrays_of(one, 0).items():
            np.testing.assert_array_equal(first[name], x)
    np.testing.assert_allclose(
        asked(one).data[0], asked(three).data[0], rtol=1e-12, atol=1e-12
    )
    tables = three.tables.data
    assert len({x.tobytes() for x in tables}) == 3
    assert abs(tables).mean() == pytest.approx(0.4 * (2 / np.pi) ** 0.5, rel=0.1)


# --- Attention ------------------------------------------------------------------------


def test_attention_sums_to_one_and_empty_memories_take_their_share():
    model, trace, masked = network(networks=2), [], []
    asked(model, trace=trace)
    asked(model, masked=True, trace=masked)
    assert len(trace) == len(masked) == 3
    for free, shut in zip(trace, masked, strict=True):
        assert free["weights"].shape == (3, 2, SLOTS)
        np.testing.assert_allclose(free["weights"].sum(axis=-1), 1)
        np.testing.assert_allclose(shut["weights"].sum(axis=-1), 1)
        for b, ages in enumerate(AGES):
            nothing = slice(len(ages), None)
            assert (free["weights"][b, :, nothing] > 0).all()
            assert (shut["weights"][b, :, nothing] == 0).all()


def test_memories_are_a_set_that_only_ages_put_in_order():
    order, ages = [2, 0, 1], [[1, 2, 3]]
    sentences, question = STORIES[0]
    turned = [([sentences[k] for k in order], question)]

    def answer(model, stories, ages):
        memories, questions, _ = rows(model, stories=stories, ages=ages)
        return model(memories, questions).data

    for model in (network(), network(temporal=False)):
        same = answer(model, [STORIES[0]], ages)
        along = answer(model, turned, [[ages[0][k] for k in order]])
        np.testing.assert_allclose(same, along, atol=1e-12)
        anew = answer(model, turned, ages)
        assert np.allclose(same, anew, atol=1e-6) == (model.slots == 0)


def test_words_have_places_unless_it_is_a_bag():
    for kind, alike in (("bag", True), ("printed", False), ("released", False)):
        one, other = Encoding(kind, 2.0, 3).rows([[0, 1, 2], [2, 0, 1]], 3)
        assert np.allclose(one, other) == alike


# --- Elsewhere ------------------------------------------------------------------------


def test_on_a_device_nothing_waits_and_single_precision_stays():
    variant = {"tying": "layerwise", "relu": 0.5}
    xp, here = fakecupy.cupy, network(networks=2, dtype=np.float32, **variant)
    there = network(networks=2, dtype=np.float32, **variant).to(xp)
    optimizer = optim.SGD(there.parameters())
    optimizer.clip_by = "matrix"
    inputs = [xp.asarray(x) for x in rows(here, np.float32)]
    targets = xp.asarray(np.broadcast_to(ANSWERS, (2, 3)).copy())
    with fakecupy.only(np.float32):
        there(*inputs[:2], False, inputs[2])  # constants go up once
        with fakecupy.no_sync():
            with Tape() as tape:
                found = there(*inputs[:2], False, inputs[2])
                losses = softmax_cross_entropy(found, targets)
                loss = losses[0, 0] + losses[1, 1]
            tape.backward(loss)
            optimizer.step(max_norm=0.1)
    expected = asked(here, masked=True).data
    assert expected.dtype == np.float32
    np.testing.assert_allclose(to_host(found.data), expected, rtol=1e-4, atol=1e-5)


def test_an_encoding_cannot_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Encoding().scale = 1.0
    with pytest.raises(ValueError, match="a sentence has 4 words, the longest was to"):
        Encoding("released", 2.0, 3).rows([[0, 1, 2, 0]], 3)
    assert Encoding("printed", 2.0, 3).rows([[0, 1, 2, 0]], 3).shape == (1, 6)
