"""The task of language modelling, on a text of a few hundred words.

The oracle is a network in plain NumPy, one word at a time.
"""

import dataclasses
import functools

import numpy as np
import pytest
from tinytasks import assert_goes_on, assert_same_arrays, forks, steps

from tasks import language_modeling as lm
from tinyrmc import Tape, corpora, training
from tinyrmc.corpora import ngrams

WORDS = "the cat sat on a mat and saw some other cats there".split()


def sentences(count, seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 9, count)
    return "\n".join(" ".join(rng.choice(WORDS, n)) for n in lengths) + "\n"


TEXTS = corpora.from_texts(
    train=sentences(80, 0), validation=sentences(12, 1), test=sentences(17, 2)
)
MODEL = lm.ModelConfig(
    core="lstm", hidden_size=6, layers=2, embedding_size=5, head_size=2, num_heads=2,
    mem_slots=2,
)  # fmt: skip
TRAIN = training.TrainConfig(
    steps=12, batch_size=6, learning_rate=0.02, log_every=4, evaluate_every=4,
    warmup_steps=0, checkpoint_minutes=0,
)  # fmt: skip
CONFIG = lm.Config(model=MODEL, data=lm.DataConfig(window=5, lanes=3), train=TRAIN)
DROPPING = dataclasses.replace(
    MODEL, dropout_embedding=0.3, dropout_between=0.4, dropout_output=0.2
)
CORES = ["lstm", "rnn", "rmc", "rmc_paper"]


class Task(lm.Task):
    """The task, on the few words of this file."""

    corpus = TEXTS


def task_of(config=CONFIG, **model):
    return Task(dataclasses.replace(config, model=dataclasses.replace(MODEL, **model)))


def built(task, seed=0):
    model = task.build(np.random.SeedSequence(seed))
    for parameter in model.parameters():  # biases too
        noise = np.random.default_rng(1).standard_normal(parameter.shape)
        parameter.data = (parameter.data + 0.3 * noise).astype(np.float32)
    return model


def surprises(model, ids, before):
    """-log p of each id by the LSTM, in plain NumPy and float64, a word at a time."""
    own = {name: x.data.astype(float) for name, x in model.named_parameters()}
    E, total = own["embedding.weight"], []
    states = [(np.zeros(6), np.zeros(6)) for _ in model.layers]
    for word, target in zip([before, *ids], ids, strict=False):
        x = E[word]
        for k, (h, c) in enumerate(states):
            W, b = own[f"layers.{k}.gates.weight"], own[f"layers.{k}.gates.bias"]
            i, j, f, o = np.split(np.concatenate([x, h]) @ W + b, 4)
            c = c / (1 + np.exp(-f - 1)) + np.tanh(j) / (1 + np.exp(-i))
            x = np.tanh(c) / (1 + np.exp(-o))
            states[k] = x, c
        x = x @ own["projection.weight"] + own["projection.bias"]
        logits = x @ E.T + own["bias"]
        total.append(np.log(np.exp(logits).sum()) - logits[target])
    return np.array(total)


def perplexity(task, model, split="test"):
    total, count = task.evaluate(model, split=split)["loss"]
    return task.summary({"loss": total / count})["perplexity"], count


# --- Perplexity -----------------------------------------------------------------------


def test_the_perplexity_is_that_of_a_count_by_hand_in_one_lane_or_several():
    ids, end = TEXTS.texts["test"], TEXTS.vocabulary.eos
    for lanes, context in [(1, 0), (1, 100), (3, 10_000), (7, 10_000)]:
        data = lm.DataConfig(window=5, lanes=lanes, context=context)
        task = task_of(dataclasses.replace(CONFIG, data=data))
        model = built(task)
        expected = np.exp(surprises(model, ids, end).mean())
        found, count = perplexity(task, model)
        assert count == len(ids)  # every word once, the first one too
        assert found == pytest.approx(expected, rel=1e-5)


def test_lanes_begin_with_the_words_before_them_and_workers_share_them():
    task = task_of()
    model = built(task)
    alone = task.evaluate(model)["loss"]
    shared = [task.evaluate(model, k, 2)["loss"] for k in range(2)]
    assert sum(count for _, count in shared) == alone[1]
    np.testing.assert_allclose(sum(total for total, _ in shared), alone[0], rtol=1e-6)
    ids, end = TEXTS.texts["test"], TEXTS.vocabulary.eos
    without = dataclasses.replace(CONFIG.data, context=0)
    cold, _ = perplexity(task_of(dataclasses.replace(CONFIG, data=without)), model)
    warm, _ = perplexity(task, model)
    exact = np.exp(surprises(model, ids, end).mean())
    assert abs(warm - exact) < abs(cold - exact)


def test_workers_without_a_lane_have_nothing_to_add():
    data = lm.DataConfig(window=5, lanes=1)
    for core in ("lstm", "rmc", "memn2n"):
        task = task_of(dataclasses.replace(CONFIG, data=data), core=core)
        model = built(task)
        assert task.evaluate(model, 1, 2)["loss"] == (0, 0)
        assert task.evaluate(model, 0, 2) == task.evaluate(model)


def test_a_text_without_sentences_has_one_word_less_to_predict():
    text = lm.Text.of(np.array([3, 1, 2]), None)
    assert text.tokens.tolist() == [3, 1]
    assert text.targets.tolist() == [1, 2]


# --- Training -------------------------------------------------------------------------


def window(first, last):
    """A batch (2, last - first) of two lanes of the training text."""
    rows = np.array([[0], [50]]) + np.arange(first, last)
    text = TEXTS.texts["train"]
    return {
        "tokens": text[rows],
        "targets": text[rows + 1],
        "is_first": np.full(2, first == 0),
        "noise": np.arange(2),
    }


def test_carried_windows_are_one_long_unroll():
    for core in CORES:
        task = task_of(core=core)
        model = built(task)
        whole, count, _, _ = task.loss(model, window(0, 12), None)
        carry, parts = None, 0.0
        for first in range(0, 12, 4):
            total, _, _, carry = task.loss(model, window(first, first + 4), carry)
            parts += float(total.data)
        assert count == 24
        assert parts == pytest.approx(float(whole.data), rel=1e-5)


def test_a_lane_that_begins_anew_forgets_what_was_carried():
    for core in CORES:
        task = task_of(core=core)
        model = built(task)
        *_, carry = task.loss(model, window(0, 4), None)

        def loss(fresh, carry):
            batch = window(4, 8) | {"is_first": np.array(fresh)}
            return float(task.loss(model, batch, carry)[0].data)

        both, first = loss([True, True], carry), loss([True, False], carry)
        assert both == loss([False, False], None)
        assert first not in (both, loss([False, False], carry))


def test_gradients_are_those_of_the_long_unroll_where_the_window_covers_it():
    """A loss of the last window alone, whose state is a constant."""
    for core in CORES:
        task = task_of(core=core)
        model = built(task).astype(np.float64)
        _, _, _, carry = task.loss(model, window(0, 8), None)
        with Tape() as tape:
            total, *_ = task.loss(model, window(8, 12), carry)
        found = tape.gradient(total, model.parameters(), strict=False)
        with Tape() as tape:
            state = lm.state_of(carry, like=model.initial_state(2))
            for t in range(8, 12):
                seen = window(t, t + 1)
                losses, state = model(seen["tokens"], seen["targets"], state)
                total = losses if t == 8 else total + losses
            total = lm.p.sum(total)
        expected = tape.gradient(total, model.parameters(), strict=False)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        assert any(np.abs(one).max() > 1e-3 for one in found)


def test_tied_weights_are_one_array_and_count_once():
    tied, untied = built(task_of()), built(task_of(tied=False))
    V, names = len(TEXTS.vocabulary), dict(tied.named_parameters())
    assert "softmax.weight" not in names
    assert tied._weight is tied.embedding.weight
    assert "projection.weight" in names  # from 6 units to 5
    assert "projection.weight" not in dict(untied.named_parameters())
    difference = untied.num_parameters - tied.num_parameters
    assert difference == V * 6 - (6 * 5 + 5)
    with Tape() as tape:
        total, *_ = Task(CONFIG).loss(tied, window(0, 5), None)
    tape.backward(total)
    unread = np.setdiff1d(np.arange(V), window(0, 5)["tokens"])
    assert np.abs(tied.embedding.weight.grad[unread]).min() > 0  # as output weights


def test_lanes_go_through_the_text_and_begin_anew():
    text = np.arange(100, 203)
    lanes = lm.BPTTBatches(text, lanes=4, window=6, seed=1)
    assert (lanes.length, lanes.windows) == (25, 4)
    starts = set()
    for epoch in range(12):
        batches = [lanes.batch(4 * epoch + k, 0, 4) for k in range(4)]
        tokens = np.concatenate([batch["tokens"] for batch in batches], axis=1)
        over = tokens[0, 0] - 100
        starts.add(int(over))
        expected = 100 + over + 25 * np.arange(4)[:, None] + np.arange(24)
        np.testing.assert_array_equal(tokens, expected)
        for batch in batches:
            np.testing.assert_array_equal(batch["targets"], batch["tokens"] + 1)
        assert [bool(batch["is_first"].all()) for batch in batches] == [True] + [
            False
        ] * 3
    assert starts == {0, 1}
    whole, part = lanes.batch(5, 0, 4), lanes.batch(5, 1, 3)
    for name, x in whole.items():
        np.testing.assert_array_equal(part[name], x[1:3])
    assert len(set(whole["noise"].tolist())) == 4
    assert (whole["noise"] != lanes.batch(6, 0, 4)["noise"]).all()


def test_dropout_is_for_training_alone():
    task = Task(dataclasses.replace(CONFIG, model=DROPPING))
    model, batch = built(task), window(0, 12)

    def loss(**other):
        return float(task.loss(model, batch | other, None)[0].data)

    assert loss() == loss()  # the seeds decide
    assert len({loss(), loss(noise=np.array([7, 8]))}) == 2
    plain, _ = model(batch["tokens"], batch["targets"], model.initial_state(2))
    without = built(Task(CONFIG)).__call__
    expected, _ = without(batch["tokens"], batch["targets"], model.initial_state(2))
    np.testing.assert_array_equal(plain.data, expected.data)
    assert abs(loss() - float(plain.data.sum())) > 0.1


def test_dropout_falls_on_each_place():
    for place in ["embedding", "between", "output"]:
        task = task_of(**{f"dropout_{place}": 0.5})
        model = built(task)
        trained = float(task.loss(model, window(0, 12), None)[0].data)
        plain = float(Task(CONFIG).loss(built(task_of()), window(0, 12), None)[0].data)
        assert abs(trained - plain) > 1e-3


def test_dropout_may_leave_out_the_same_units_of_a_window():
    model = built(
        task_of(dropout_output=0.5, dropout_shared=True, core="rnn", layers=1)
    )
    model.projection = None
    tokens = window(0, 12)["tokens"]
    seen, _ = model.unroll(tokens, model.initial_state(2), lm.nn.Noise(np.arange(2)))
    gone = (seen.data == 0).any(axis=1)  # (B, F)
    assert gone.any() and not gone.all()
    assert (gone == (seen.data == 0).all(axis=1)).all()


@forks
def test_workers_agree_and_each_number_of_them_has_its_own_bits(make_trainer):
    task = Task(dataclasses.replace(CONFIG, model=DROPPING))
    alone = steps(make_trainer(task, seed=5), 12)
    for workers in (2, 3):
        pair = [
            steps(make_trainer(task, 5, workers, processes=kind), 12)
            for kind in (False, True)
        ]
        assert pair[1].workers.processes
        assert_same_arrays(*(trainer.arrays() for trainer in pair))
        for name, x in alone.arrays().items():
            np.testing.assert_allclose(
                pair[0].arrays()[name], x, rtol=1e-2, atol=1e-4, err_msg=name
            )


def test_a_resumed_run_has_the_same_bits(make_trainer, new_run):
    for core in ["lstm", "rmc"]:
        model = dataclasses.replace(DROPPING, core=core)
        rate = lm.PlateauConfig(factor=0.5)
        config = dataclasses.replace(CONFIG, model=model, plateau=rate)
        task = functools.partial(Task, config)
        assert_goes_on(lambda task=task: make_trainer(task(), 3, 2), new_run, 7)


def test_a_run_learns_and_ends_with_both_perplexities(make_trainer, new_run):
    run = new_run()
    trainer = make_trainer(Task(CONFIG))
    before = trainer.evaluate()
    training.run_training(trainer, run)
    lines = run.metrics()
    last = lines[-1]
    assert last["test_perplexity"] < before["test_perplexity"]
    for split in ("validation", "test"):
        assert last[f"{split}_perplexity"] == np.exp(last[f"{split}_loss"])
    assert "validation_perplexity" in lines[0] and "test_perplexity" not in lines[0]
    assert lines[0]["perplexity"] == np.exp(lines[0]["loss"])


def test_the_rate_falls_when_validation_stalls():
    task = Task(dataclasses.replace(CONFIG, plateau=lm.PlateauConfig(0.5, 2)))
    usual = Task(CONFIG).learning_rate(0)
    for loss, scale in [(3, 1), (2, 1), (2.5, 1), (2.4, 0.5), (2.3, 0.5), (2.2, 0.25)]:
        task.observe(0, {"loss": 9.0, "validation_loss": loss})
        assert task.learning_rate(0) == scale * usual
    other = Task(task.config)
    other.load_state(task.state())
    assert other.learning_rate(0) == 0.25 * usual


# --- What is found out about a trained network ----------------------------------------


def found(task, model):
    return dict(task.analyses(model))


def test_the_ranges_of_frequency_make_up_the_whole(monkeypatch):
    monkeypatch.setattr(lm, "FREQUENCIES", (0, 32, 37, np.inf))
    task, ids = task_of(), TEXTS.texts["test"]
    model = built(task)
    table = found(task, model)["by frequency"]
    losses = surprises(model, ids, TEXTS.vocabulary.eos)
    counts = np.bincount(TEXTS.texts["train"])[ids]
    for (_, words, share, value), low, high in zip(
        table.rows, (0, 32, 37), (32, 37, 10**9), strict=True
    ):
        inside = (counts >= low) & (counts < high)
        assert (words, share) == (inside.sum(), f"{100 * inside.mean():.1f} %")
        assert value == pytest.approx(np.exp(losses[inside].mean()), rel=1e-4)
    assert [row[0] for row in table.rows] == ["0 to 31", "32 to 36", "37 and more"]
    logs = [words * np.log(value) for _, words, _, value in table.rows]
    assert sum(logs) / len(ids) == pytest.approx(losses.mean(), rel=1e-5)


def test_a_network_that_forgets_reads_each_stretch_anew(monkeypatch):
    monkeypatch.setattr(lm, "AT_ONCE", 12)  # several rounds
    monkeypatch.setattr(lm, "UNROLLS", (1, 3, 1000))
    task, ids = task_of(), TEXTS.texts["test"]
    model, end = built(task), TEXTS.vocabulary.eos
    tables = found(task, model)
    expected = []
    for size in (1, 3, 1000):
        read = [end, *ids[:-1]]
        parts = [
            surprises(model, ids[k : k + size], read[k])
            for k in range(0, len(ids), size)
        ]
        expected.append((size, np.exp(np.concatenate(parts).mean())))
    np.testing.assert_allclose(tables["by words read"].rows, expected, rtol=1e-4)
    assert [*task.analysis_titles] == [*tables]
    assert task.analysis_titles["by words read"].endswith("in 3 readings of the text")
    ((lanes, whole),) = tables["as one text"].rows
    assert (lanes, whole) == (1, pytest.approx(expected[-1][1], rel=1e-5))


def test_floors_are_what_counting_reaches():
    task, ids = task_of(), TEXTS.texts["test"]
    counts = np.bincount(TEXTS.texts["train"], minlength=len(TEXTS.vocabulary))
    unigram = np.exp(-np.log(counts / counts.sum())[ids].mean())
    floors = task.references()["test_perplexity"]
    assert floors["unigram"] == pytest.approx(unigram)
    words = TEXTS.vocabulary
    counted = ngrams.KneserNey(TEXTS.texts["train"], len(words), 5, words.eos)
    assert floors["5-gram Kneser-Ney"] == counted.perplexity(ids)
    assert set(task.references()) == {"validation_perplexity", "test_perplexity"}


# --- Writing --------------------------------------------------------------------------


def written(task, model, prompt="the cat", seed=0, **how):
    return [*task.generate(model, prompt, np.random.default_rng(seed), 12, **how)]


def test_without_a_temperature_the_likeliest_word_comes_next():
    task = task_of()
    model, words = built(task), TEXTS.vocabulary
    read = [words.eos, *words.encode("the cat")]
    for word in written(task, model, temperature=0):
        chances = [surprises(model, [*read[1:], k], read[0])[-1] for k in range(13)]
        read.append(int(np.argmin(chances)))
        assert word == words.words[read[-1]].replace("<eos>", "\n")


def test_a_seed_decides_what_is_written():
    task = task_of()
    model = built(task)
    assert written(task, model) == written(task, model)
    assert written(task, model) != written(task, model, seed=1)
    assert written(task, model, top_k=1) == written(task, model, temperature=0)
    assert written(task, model, "The CAT") == written(task, model)  # in lower case


def test_unknown_words_can_be_left_out():
    unknown = corpora.from_texts(
        train=sentences(80, 0),
        validation=sentences(12, 1),
        test=sentences(17, 2),
        vocabulary_size=6,
    )
    task = task_of()
    task.corpus = unknown
    model = built(task)
    model.bias.data[unknown.vocabulary.unk] += 3
    prompt = unknown.vocabulary.words[1]
    with_unk = written(task, model, prompt)
    without = written(task, model, prompt, unk=False)
    assert with_unk.count("<unk>") > 3 and "<unk>" not in without
    likeliest = written(task, model, prompt, temperature=0, unk=False)
    assert "<unk>" not in likeliest and len(likeliest) == 12
    known = task_of()  # a text without any
    assert written(known, built(known), unk=False) == written(known, built(known))
