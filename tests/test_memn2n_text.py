"""The memory network as a language model, on a text of a few hundred words.

The oracle looks at one word and one memory at a time, as the paper writes it. Under
HIPS autograd it gives the gradients too.
"""

import dataclasses

import autograd
import autograd.numpy as hips
import fakecupy
import numpy as np
import pytest
from test_language_modeling import TEXTS, Task
from tinytasks import assert_goes_on, changed
from turns import in_turn

from tasks import language_modeling as lm
from tinyrmc import Tape, corpora, optim, training
from tinyrmc import primitives as p
from tinyrmc.autograd.gradcheck import gradcheck
from tinyrmc.backend import to_host
from tinyrmc.cores.memn2n import TextMemN2N
from tinyrmc.errors import UserError
from tinyrmc.fused import plain

V, D, N, HOPS = 13, 6, 7, 3


WORDS = len(TEXTS.vocabulary)
TRAIN = {"steps": 24, "batch_size": 6, "log_every": 4, "evaluate_every": 8}
CONFIG = changed(
    dataclasses.replace(lm.MEMN2N, data=lm.DataConfig(window=5, lanes=3)),
    model={"embedding_size": D, "hops": HOPS, "memories": N},
    train={**TRAIN, "checkpoint_minutes": 0},
)


def task_of(**parts):
    return Task(changed(CONFIG, **parts))


def built(task, seed=0):
    """With larger weights, so that hops tell memories apart."""
    model = task.build(np.random.SeedSequence(seed))
    for parameter in model.parameters():
        parameter.data = parameter.data * 12
    return model


def network(dtype=np.float64, seed=3, **how):
    sizes = {"words": V, "size": D, "slots": N, "hops": HOPS, "std": 0.6} | how
    return TextMemN2N(**sizes, dtype=dtype, seed=seed)


def ids(*shape, seed=0):
    return np.random.default_rng(seed).integers(V, size=shape)


# --- The equations --------------------------------------------------------------------


def hop_by_hop(P, words, hops, relu=0.5):
    """(u, [p of each hop]) after the last of these words, which may be fewer than N.

    The newest word is in the last of the N places.
    """
    words = words[-len(P["T_A"]) :]
    first = len(P["T_A"]) - len(words)
    u, seen, cut = 0.1 * np.ones(len(P["H"])), [], len(P["H"])
    cut -= round(relu * cut)
    for _ in range(hops):
        scores, contents = [], []
        for i, word in enumerate(words, start=first):
            scores.append(hips.dot(u, P["A"][word] + P["T_A"][i]))
            contents.append(P["C"][word] + P["T_C"][i])
        shares = [hips.exp(score) for score in scores]
        weights = [share / sum(shares) for share in shares]
        o = sum(w * c for w, c in zip(weights, contents, strict=True))
        u = hips.dot(u, P["H"]) + o
        u = hips.concatenate([u[:cut], hips.maximum(u[cut:], 0)])
        seen.append(weights)
    return u, seen


def surprise(P, words, target, hops=HOPS, relu=0.5):
    """-log p of a target after these words."""
    z = hips.dot(P["W"], hop_by_hop(P, words, hops, relu)[0])
    return hips.log(hips.sum(hips.exp(z))) - z[target]


def arrays_of(model):
    return {name: x.data.astype(float) for name, x in model.named_parameters()}


def surprises(model, text, before):
    """-log p of each id of a text, each after all that stand before it."""
    P, read = arrays_of(model), [before, *text]
    return np.array(
        [surprise(P, read[: k + 1], target) for k, target in enumerate(text)]
    )


# --- The network ----------------------------------------------------------------------


@in_turn("how", [{}, {"hops": 1}, {"relu": 0.0}, {"relu": 1.0}, {"slots": 1}])
@in_turn("start", [True, False])
def test_losses_and_gradients_are_those_of_the_equations(how, start):
    """At the start of a text, and after as many words as there are memories."""
    model = network(**how)
    words, slots = ids(2, N + 4), model.slots
    first = 0 if start else slots - 1
    state = model.initial_state(2) if start else words[:, :first]
    read, targets = words[:, first:-1], words[:, first + 1 :]
    weights = np.random.default_rng(5).random(targets.shape)
    with Tape() as tape:
        losses, after = model(read, targets, state)
        loss = p.sum(losses * weights)
    found = tape.gradient(loss, model.parameters())
    assert after.shape == (2, slots - 1)

    def each(P):
        return [
            [
                surprise(P, row[: k + 1], row[k + 1], model.hops, how.get("relu", 0.5))
                for k in range(first, len(row) - 1)
            ]
            for row in words
        ]

    def total(P):
        pairs = zip(each(P), weights, strict=True)
        return sum(w * x for row, ws in pairs for x, w in zip(row, ws, strict=True))

    P = arrays_of(model)
    np.testing.assert_allclose(losses.data, each(P), rtol=1e-9)
    expected = autograd.grad(total)(P)
    for (name, _), g in zip(model.named_parameters(), found, strict=True):
        np.testing.assert_allclose(g, expected[name], atol=1e-9, err_msg=name)


def test_gradients_by_complex_step_fused_and_composed():
    model, words = network(), ids(2, N + 3)

    def losses():
        return model(words[:, N - 1 : -1], words[:, N:], words[:, : N - 1])[0]

    gradcheck(losses, parameters=dict(model.named_parameters()))
    with plain():
        gradcheck(losses, parameters=dict(model.named_parameters()))


def test_hops_and_places_share_arrays_and_the_answers_do_not():
    names = [name for name, _ in network(hops=9).named_parameters()]
    assert names == ["A", "T_A", "C", "T_C", "H", "W"]
    for hops in (1, 7):
        model = TextMemN2N(10_000, 150, 200, hops, seed=0)
        assert model.num_parameters == 4_582_500  # 3 V d + 2 N d + d d
    deviations = [x.data.std() for x in model.parameters()]
    np.testing.assert_allclose(deviations, 0.05, rtol=0.02)


def test_words_in_a_row_are_words_one_by_one():
    model, words = network(), ids(3, 12)
    together, ended = model(words[:, :-1], words[:, 1:], model.initial_state(3))
    state, apart = model.initial_state(3), []
    for k in range(11):
        losses, state = model(words[:, k, None], words[:, k + 1, None], state)
        apart.append(losses.data)
    np.testing.assert_allclose(np.concatenate(apart, axis=1), together.data, rtol=1e-12)
    np.testing.assert_array_equal(state, ended)
    np.testing.assert_array_equal(state, words[:, -N:-1])


def test_attention_is_over_the_words_there_are_and_ages_put_them_in_order():
    model, words, trace = network(), ids(1, N + 2), []
    model.unroll(words, model.initial_state(1), trace)
    P = arrays_of(model)
    for k in range(N + 2):
        _, seen = hop_by_hop(P, words[0, : k + 1], HOPS)
        for hop, weights in zip(trace, seen, strict=True):
            p = hop["weights"][0, k]
            np.testing.assert_allclose(p[N - len(weights) :], weights, rtol=1e-9)
            assert (p[: N - len(weights)] == 0).all()
    turned = words[:, ::-1].copy()
    same, _ = model.logits(words[:, -N:], model.initial_state(1))
    for ages, alike in ((0.0, True), (1.0, False)):
        for T in (model.T_A, model.T_C):
            T.data = T.data * ages
        one, other = (model.logits(x, model.initial_state(1))[0].data
                      for x in (words[:, :N], turned[:, 2:]))  # fmt: skip
        assert np.allclose(one, other) == alike
        model = network()
    assert same.shape == (1, V)


def test_on_a_device_nothing_waits_and_single_precision_stays():
    xp, here = fakecupy.cupy, network(np.float32)
    there = network(np.float32).to(xp)
    optimizer = optim.SGD(there.parameters())
    words = ids(3, N + 4)
    read, targets = xp.asarray(words[:, :-1]), xp.asarray(words[:, 1:])
    with fakecupy.only(np.float32):
        there(read, targets, there.initial_state(3))  # constants go up once
        with fakecupy.no_sync():
            with Tape() as tape:
                losses, _ = there(read, targets, there.initial_state(3))
                loss = p.sum(losses)
            tape.backward(loss)
            optimizer.step(max_norm=0.1)
    expected, _ = here(words[:, :-1], words[:, 1:], here.initial_state(3))
    assert expected.dtype == np.float32
    np.testing.assert_allclose(to_host(losses.data), expected.data, rtol=1e-4)


# --- Reading --------------------------------------------------------------------------


def test_an_epoch_brings_each_word_with_all_that_comes_before_it_once():
    text = np.arange(100, 203)
    stream = lm.stretches(text, lanes=4, window=6, before=9, seed=1)
    assert stream.count == 16  # of 93 words, the last 3 with 3 that are there already
    epochs = []
    for epoch in range(2):
        batches = [stream.batch(4 * epoch + k, 0, 4) for k in range(4)]
        rows = {x: np.concatenate([b[x] for b in batches]) for x in batches[0]}
        whole = np.concatenate([rows["before"], rows["tokens"]], axis=1)
        assert (np.diff(whole, axis=1) == 1).all() and whole.shape == (16, 15)
        np.testing.assert_array_equal(rows["targets"], rows["tokens"] + 1)
        counts = np.bincount(rows["targets"].ravel(), minlength=203)[100:]
        assert (counts[:10] == 0).all() and (counts[10:-6] == 1).all()
        assert counts[-6:].tolist() == [2, 2, 2, 1, 1, 1]
        epochs.append(rows["tokens"][:, 0].tolist())
    assert epochs[0] != epochs[1] and sorted(epochs[0]) == sorted(epochs[1])
    part = stream.batch(2, 1, 3)
    for name, x in stream.batch(2, 0, 4).items():
        np.testing.assert_array_equal(part[name], x[1:3])


def test_a_stretch_has_the_gradient_of_its_words_alone():
    task = task_of()
    model, batch = built(task), task.stream(None, 0).batch(0, 0, 6)
    whole = np.concatenate([batch["before"], batch["tokens"]], axis=1)
    alone = {
        "before": np.concatenate([whole[:, k : k + N - 1] for k in range(5)]),
        "tokens": batch["tokens"].T.reshape(-1, 1),
        "targets": batch["targets"].T.reshape(-1, 1),
    }
    found = []
    for each in (batch, alone):
        with Tape() as tape:
            total, count, _, carry = task.loss(model, each, None)
        assert count == 30 and carry is None
        found.append([total.data, *tape.gradient(total, model.parameters())])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_a_text_without_room_for_a_stretch_is_refused():
    with pytest.raises(UserError, match=r"11 tokens, too few for stretches of 12"):
        lm.stretches(np.zeros(11, np.int32), 1, window=5, before=6, seed=0)
    assert (
        lm.stretches(np.zeros(12, np.int32), 1, window=5, before=6, seed=0).count == 1
    )


# --- The task -------------------------------------------------------------------------


@in_turn("lanes", [1, 3, 7])
def test_every_word_counts_once_with_the_memories_that_it_has(lanes):
    task = task_of(data={"lanes": lanes})
    model, text = built(task), TEXTS.texts["test"]
    expected = surprises(model, text, TEXTS.vocabulary.eos)
    total, count = task.evaluate(model, split="test")["loss"]
    assert count == len(text)
    assert total / count == pytest.approx(expected.mean(), rel=1e-5)
    shared = [task.evaluate(model, k, 2, split="test")["loss"] for k in range(2)]
    assert sum(float(total) for total, _ in shared) == pytest.approx(total, rel=1e-6)
    ((_, whole),) = dict(task.analyses(model))["as one text"].rows
    assert whole == pytest.approx(np.exp(expected.mean()), rel=1e-4)


def test_it_learns_what_follows_what_and_writes(make_trainer, new_run):
    train = {"steps": 400, "evaluate_every": 400, "checkpoint_minutes": 2.0}
    task = task_of(train=train | {"learning_rate": 0.05})
    saying = "the cat sat on a mat and so did we\n"
    task.corpus = corpora.from_texts(
        train=saying * 20, validation=saying * 40, test=saying * 3
    )
    trainer, run = make_trainer(task), new_run()
    training.run_training(trainer, run)
    # the first words are read with fewer memories than there ever are in training
    assert run.metrics()[-1]["validation_perplexity"] < 2
    words = task.generate(
        trainer.model, "the cat sat on a mat and", np.random.default_rng(0), 4, 0.0
    )
    assert [*words] == ["so", "did", "we", "\n"]


def test_without_a_temperature_the_likeliest_word_comes_next():
    task = task_of()
    model, words = built(task), TEXTS.vocabulary
    read, P = [words.eos, *words.encode("the cat")], arrays_of(model)
    rng = np.random.default_rng(0)
    for word in task.generate(model, "the cat", rng, 12, temperature=0):
        read.append(int(np.argmin([surprise(P, read, k) for k in range(WORDS)])))
        assert word == words.words[read[-1]].replace("<eos>", "\n")


@pytest.mark.parametrize("stop", [7, 18])
def test_a_resumed_run_has_the_same_bits(stop, make_trainer, new_run):
    """In the middle of an epoch, and after the rate has fallen; nothing is carried."""

    def make():
        return make_trainer(task_of(plateau={"factor": 0.5, "threshold": 0.9}), 3, 2)

    _, again, whole, _ = assert_goes_on(make, new_run, stop)
    rates = [line["learning_rate"] for line in whole.metrics()]
    assert rates == [0.01, 0.01, 0.01, 0.01, 0.005, 0.005]
    assert not any(name.startswith("carry") for name in again.arrays())


def test_the_rate_falls_against_the_last_loss_and_ends_the_run():
    task = task_of(plateau={"stop_below": 0.005})
    losses = [5.0, 5.2, 5.1, 5.09, 5.0896]
    falls = [0, 1, 1, 1, 2]  # 5.1 is worse than 5.0, but better than the last
    for loss, fallen in zip(losses, falls, strict=True):
        task.observe(0, {"validation_loss": loss})
        assert task.learning_rate(0) == pytest.approx(0.01 / 1.5**fallen)
        assert task.finished(1) == (fallen == 2)
    assert task_of().finished(24) and not task_of().finished(23)


# --- What is found out ----------------------------------------------------------------


def test_mean_weights_by_hop_are_those_of_a_count_by_hand():
    task = task_of()
    model, text = built(task), TEXTS.texts["validation"]
    tables = dict(task.analyses(model))
    assert [*tables] == [*task.analysis_titles]
    table = tables["weights by hop"]
    P, read = arrays_of(model), [TEXTS.vocabulary.eos, *text]
    sums = np.zeros((HOPS, N))
    for k in range(len(text)):
        for hop, weights in enumerate(hop_by_hop(P, read[: k + 1], HOPS)[1]):
            sums[hop, N - len(weights) :] += weights
    assert table.columns == ("words ago", "hop 1", "hop 2", "hop 3")
    found = np.array(table.rows)
    assert found[:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7]
    np.testing.assert_allclose(found[:, 1:].T, sums[:, ::-1] / len(text), rtol=1e-4)


# --- What it is set beside ------------------------------------------------------------


@in_turn(
    "preset, hops, memories, size, published",
    [
        ("memn2n", 6, 100, 150, "115"),
        ("memn2n_large", 7, 200, 150, "111"),
        ("memn2n_text8", 7, 200, 500, "147"),
    ],
)
def test_presets_are_the_papers_networks(preset, hops, memories, size, published):
    _, config = lm.Task.presets[preset]
    task, t = Task(config), config.train
    model = task.build(np.random.SeedSequence(0))
    assert (model.hops, model.slots, model.A.shape) == (hops, memories, (WORDS, size))
    assert lm.Task.published[task.cell()][0] == published
    assert t.batch_size * config.data.window == 128 and not task.carries
    assert (t.optimizer, t.learning_rate, t.objective) == ("sgd", 0.01, "sum")
    assert (t.clip_norm, t.clip_by) == (50, "whole")
    assert t.warmup_steps == t.cosine_fraction == 0
    assert t.steps == 100 * t.evaluate_every
    assert f"memn2n, {hops} hops, {memories} memories" in task.describe(model)
    single = Task(changed(config, model={"hops": 1}))
    assert "memn2n, 1 hop, " in single.describe(model)
