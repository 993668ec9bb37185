"""The bAbI task: what networks see, how restarts are chosen, how training goes on."""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from babistories import STORIES, texts, write_babi
from tinyruns import fresh_directory
from tinytasks import assert_goes_on, steps

from tasks import babi
from tinyrmc import Tape, corpora, training
from tinyrmc.cli import evaluate, report, train
from tinyrmc.training import discovery
from tinyrmc.training.run import Run

TRAIN = dataclasses.replace(
    babi.QUICK.train, steps=24, batch_size=8, log_every=3, evaluate_every=6,
    checkpoint_minutes=0,
)  # fmt: skip


class Made:
    """The stories of `babistories`, or made up ones."""

    complete = tuple(STORIES)

    def stories(self, task, part):
        return corpora.stories.parse(texts(task), "a")


def config(task="1", model=(), recipe=(), train=(), **data):
    """A small configuration."""
    usual = {"embedding_size": 5, "restarts": 2, "hops": 2}
    return babi.Config(
        data=babi.DataConfig(task=task, **data),
        model=babi.ModelConfig(**(usual | dict(model))),
        recipe=babi.RecipeConfig(**({"linear_epochs": 2} | dict(recipe))),
        train=dataclasses.replace(TRAIN, **dict(train)),
    )


def task_of(*words, source=None, **settings):
    task = babi.Task(config(*words, **settings))
    task.source = source or Made()
    return task


def told(task=1, **how):
    """A task on stories made up here."""
    settings = config(str(task), **how)
    made = babi.Task(settings)
    made.source = corpora.GeneratedStories(100)
    return made


# --- Stories as numbers ---------------------------------------------------------------


def test_each_tasks_file_becomes_rows_and_answers():
    for number in STORIES:
        with fresh_directory() as tmp_path:
            settings = dataclasses.replace(
                config(str(number)), data_dir=write_babi(tmp_path)
            )
            (material,) = babi.Task(settings).materials
            stories = corpora.stories.parse(texts(number), "a")
            part, words = material.parts["test"], material.vocabulary
            assert len(stories) == material.count("test")
            V, M = len(words), material.slots
            for k, story in enumerate(stories):
                assert words[part["answer"][k]] == story.answer
                memory = part["memory"][k]
                kept = list(story.sentences[::-1])  # the latest first
                assert (memory[len(kept) :] == 0).all() and len(memory) == M
                for number_of_row, sentence in zip(memory, kept, strict=False):
                    counts = material.rows[number_of_row, :V]
                    expected = [sentence.count(word) for word in words]
                    np.testing.assert_array_equal(counts, expected)
                asked = material.rows[part["question"][k], :V]
                expected = [story.question.count(word) for word in words]
                np.testing.assert_array_equal(asked, expected)
            assert (material.rows[0] == 0).all()
            held = material.count("validation")
            assert held == round(0.1 * len(stories))
            assert held + material.count("train") == len(stories)


def test_the_last_tenth_of_the_questions_is_for_validation():
    parts = babi.split_off([*range(20)])
    assert parts == {"train": [*range(18)], "validation": [18, 19]}


def test_the_longest_sentence_may_be_a_question():
    story = corpora.stories.parse("1 It is.\n2 Where is the red milk? \tit\t1", "a")

    class One(Made):
        def stories(self, task, part):
            return story * 12

    (material,) = task_of("1", source=One()).materials
    assert material.encoding.longest == 5


def test_only_the_latest_sentences_are_kept():
    (whole,), (cut,) = (task_of("1", memories=m).materials for m in (50, 3))
    assert (whole.slots, cut.slots) == (4, 3)
    last = whole.parts["test"]["memory"][1]
    np.testing.assert_array_equal(cut.parts["test"]["memory"][1], last[:3])


def test_joint_stories_share_a_vocabulary_and_hold_out_of_each_task():
    task = task_of("joint")
    (material,) = task.materials
    apart = task_of("all").materials
    assert {*material.vocabulary} == {w for m in apart for w in m.vocabulary}
    for part in babi.PARTS:
        counts = np.bincount(material.parts[part]["task"], minlength=21)[1:]
        np.testing.assert_array_equal(counts, [m.count(part) for m in apart])


def test_forgotten_memories_leave_gaps_in_the_ages():
    """n ages in order, of 1 .. n + k, for k up to a tenth of n, rounded up."""
    for n, slots in [(1, 6), (6, 6), (5, 5), (3, 20), (15, 20)]:
        rng = np.random.default_rng(0)
        memory = np.zeros((600, slots), np.int32)
        memory[:, :n] = 7
        found = babi.forgetful(0.1, rng, {"memory": memory, "age": None})["age"]
        assert found.shape == memory.shape and (found[:, n:] == 0).all()
        most = n + -(-n // 10)
        rows = {tuple(row[:n]) for row in found.tolist()}
        for ages in rows:
            pairs = itertools.pairwise(ages)
            assert all(a < b or a == b == slots for a, b in pairs)
            assert ages[0] >= 1 and ages[-1] <= min(most, slots)
        usual = tuple(range(1, n + 1))
        # k is 0 half of the time where it can be 1, and then each age may be missing
        share = np.mean([tuple(row[:n]) == usual for row in found.tolist()])
        ways = n + 1 if most == n + 1 and most <= slots else None
        if ways:
            assert len(rows) == ways
            assert share == pytest.approx(0.5 + 0.5 / ways, abs=0.06)
        assert len(rows) > 1 or most > slots


def test_noise_is_for_training_alone():
    task = told(model={"restarts": 1})
    stream = task.stream(None, 5)
    several = [stream.batch(step, 0, 8) for step in range(20)]
    usual = [np.where(b["0.memory"] > 0, np.arange(1, 11), 0) for b in several]
    pairs = zip(several, usual, strict=True)
    assert any((b["0.age"] != ages).any() for b, ages in pairs)
    quiet = told(recipe={"random_memories": 0.0}).stream(None, 5)
    for step, ages in enumerate(usual):
        np.testing.assert_array_equal(quiet.batch(step, 0, 8)["0.age"], ages)
    whole, part = stream.batch(3, 0, 8), stream.batch(3, 2, 5)
    for name, x in whole.items():
        np.testing.assert_array_equal(part[name], x[2:5])


# --- Restarts -------------------------------------------------------------------------


def test_the_restart_of_the_lowest_training_error_is_reported():
    """Not that of the lowest test error; of equals, that of the lowest loss."""
    task = task_of("1", model={"restarts": 3})
    errors, losses, tested = [0.2, 0.1, 0.1], [0.1, 3.0, 2.0], [0.01, 0.02, 0.5]
    means = {"loss": 1.0}
    for r in range(3):
        means[f"wrong 1 {r}"], means[f"train wrong 1 {r}"] = tested[r], errors[r]
        means[f"train loss 1 {r}"] = losses[r]
    found = task.summary(means)
    assert found["error"] == 0.5 and found["training_error"] == 0.1
    assert [found[f"error_restart_{r}"] for r in range(3)] == tested


def test_the_choice_does_not_look_at_the_test_stories(make_trainer):
    """Other answers to the test stories: the same restart, judged anew."""

    class Changed(Made):
        def stories(self, task, part):
            stories = super().stories(task, part)
            if part == "test":
                other = {s.answer: t.answer for s, t in itertools.pairwise(stories)}
                stories = [
                    dataclasses.replace(s, answer=other[s.answer]) for s in stories
                ]
            return stories

    found = []
    for source in (Made(), Changed()):
        task = task_of("2", source=source, model={"restarts": 4})
        found.append(steps(make_trainer(task, 1), 12).evaluate(("test",)))
    for name in found[0]:
        if "training" in name:
            assert found[0][name] == found[1][name]
    each = [
        [line[f"test_training_error_restart_{r}"] for r in range(4)] for line in found
    ]
    assert found[0]["test_training_error"] == min(each[0])


def test_a_restart_is_taken_for_each_network():
    for chosen in ["all", "joint"]:
        task = task_of(chosen)
        means, rng = {"loss": 0.0}, np.random.default_rng(0)
        kinds = "wrong", "train wrong", "train loss"
        table = {kind: rng.random((20, 2)) for kind in kinds}
        for kind, values in table.items():
            for k in range(20):
                means |= {f"{kind} {k + 1} {r}": values[k, r] for r in range(2)}
        best = table["train wrong"].argmin(axis=1)
        if chosen == "joint":
            best[:] = table["train wrong"].mean(axis=0).argmin()
        expected = table["wrong"][np.arange(20), best]
        found = task.summary(means)
        of_tasks = [found[f"error_task_{k}"] for k in range(1, 21)]
        assert of_tasks == pytest.approx(expected)
        assert found["error"] == pytest.approx(expected.mean())


def test_errors_and_losses_are_those_of_a_count_by_hand():
    task = task_of("joint", model={"restarts": 3})
    model = task.build(np.random.SeedSequence(0))
    (material,) = task.materials
    batch = material.take("test", np.arange(material.count("test")))
    logits = model(0, batch, task.linear).data.astype(float)
    totals = training.MetricAccumulator()
    for k in range(3):
        totals.add(task.evaluate(model, k, 3, split="test"))
    means = totals.means()
    for k in (1, 8, 20):
        own = batch["task"] == k
        for r in range(3):
            wrong = logits[r, own].argmax(axis=-1) != batch["answer"][own]
            assert means[f"wrong {k} {r}"] == pytest.approx(wrong.mean())
    of_right = np.take_along_axis(logits, batch["answer"][None, :, None], axis=-1)
    losses = np.log(np.exp(logits).sum(axis=-1)) - of_right[..., 0]
    assert means["loss"] == pytest.approx(losses.mean(), rel=1e-5)
    trained = material.take("train", np.arange(material.count("train")))
    logits = model(0, trained, task.linear).data
    own = trained["task"] == 6
    wrong = logits[1, own].argmax(axis=-1) != trained["answer"][own]
    assert means["train wrong 6 1"] == pytest.approx(wrong.mean())


# --- Training -------------------------------------------------------------------------


def test_networks_side_by_side_are_those_trained_alone(make_trainer):
    """Of `all` a task, of ten restarts one."""
    together = steps(make_trainer(task_of("all", model={"restarts": 3})), 9)
    alone = steps(make_trainer(task_of("16", model={"restarts": 1})), 9)
    own = alone.arrays()["parameters/networks.0.reader.tables"]
    ours = together.arrays()["parameters/networks.15.reader.tables"]
    np.testing.assert_allclose(ours[0], own[0], rtol=1e-4, atol=1e-5)
    assert np.abs(ours[1] - ours[0]).max() > 0.01


def test_linear_start_ends_after_its_epochs_and_the_rate_is_halved():
    train = {"batch_size": 9, "steps": 200}
    task = told(recipe={"linear_epochs": 4, "halve_every": 5}, train=train)
    assert task.epoch == 10
    rate = task.config.train.learning_rate
    for epoch in range(1, 5):
        assert task.linear and task.learning_rate(10 * epoch - 1) == rate
        task.observe(10 * epoch, {})
    assert not task.linear
    rates = [task.learning_rate(40 + 10 * epoch) / rate for epoch in range(14)]
    # at the beginning of epochs 5 and 10 with the softmax, the first one being 1
    assert rates == [1] * 4 + [0.5] * 5 + [0.25] * 5
    assert task.effort("test") == task.examples("train") + task.examples("test")
    other = told()
    other.load_state(json.loads(json.dumps(task.state())))
    assert not other.linear and other.switched == 40


def test_linear_start_ends_when_validation_stalls():
    task = told(recipe={"linear_epochs": None})
    losses = [3.0, 2.5, 2.6, 2.4, 2.45, 2.4, 2.7, 2.5, 2.41]  # five since the best
    for step, loss in enumerate(losses, start=1):
        assert task.linear and task.learning_rate(step) == 0.005
        task.observe(step, {"loss": 9.0})  # of training: it does not count
        task.observe(step, {"validation_loss": loss, "loss": 9.0})
    assert not task.linear and task.switched == len(losses)
    assert not told(recipe={"linear_epochs": 0}).linear


def as_published(monkeypatch, folder):
    """Let the stories in a folder be the published ones."""
    found = corpora.babi(data_dir=folder)
    for part in ("train", "test"):
        every = [found.files[task, part][1] for task in range(1, 21)]
        digests = "".join(hashlib.sha256(data).hexdigest()[:4] for data in every)
        key = "v1.2", "en", part
        monkeypatch.setitem(corpora.stories._DIGESTS, key, digests)


def test_the_gradient_is_a_sum_each_matrix_of_which_is_clipped(make_trainer):
    """Against plain SGD written out."""
    task = told(15, train={"clip_norm": 0.5}, recipe={"random_memories": 0.0})
    trainer = make_trainer(task)
    before = trainer.model.networks[0].reader.tables.data.copy()
    batch = {k[2:]: x for k, x in trainer.stream.batch(0, 0, 8).items()}
    model = task.build(np.random.SeedSequence(0).spawn(2)[0])
    with Tape() as tape:
        logits = model(0, batch, True)
        answers = np.broadcast_to(batch["answer"], logits.shape[:-1])
        loss = babi.p.sum(babi.fused.softmax_cross_entropy(logits, answers))
    (g,) = tape.gradient(loss, model.parameters())
    norms = np.sqrt((g**2).sum(axis=(-2, -1), keepdims=True))
    assert (norms > 0.5).any()
    expected = before - task.config.train.learning_rate * g * np.minimum(1, 0.5 / norms)
    trainer.advance()
    found = trainer.model.networks[0].reader.tables.data
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_a_resumed_run_has_the_same_bits(make_trainer, new_run):
    settings = {"model": {"restarts": 2}, "recipe": {"linear_epochs": 1}}
    for at in [4, 16]:  # in the middle of an epoch
        reference, _, whole, _ = assert_goes_on(
            lambda: make_trainer(told(2, **settings), 3), new_run, at
        )
        assert reference.task.epoch == 11
        assert {line.get("linear") for line in whole.metrics()} == {0, 1}


def test_workers_agree(make_trainer):
    alone, shared = (steps(make_trainer(told(), 3, workers), 9) for workers in (1, 2))
    for name, x in alone.arrays().items():
        np.testing.assert_allclose(shared.arrays()[name], x, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.weekly
def test_made_up_stories_are_learnt(make_trainer):
    """In the steps of `quick`. Of task 16 a thousand questions have too few in which
    several names share the animal: with them its error is about one percent.
    """
    for number, questions, error in [(1, 1000, 0.0), (15, 1000, 0.0), (16, 3000, 0.01)]:
        times = questions // 1000  # epochs are longer by this, and there are fewer
        epoch = 28 * times
        often = {"log_every": epoch, "evaluate_every": 28 * 120}
        config = dataclasses.replace(
            babi.QUICK,
            data=babi.DataConfig(task=str(number), generated=True),
            model=babi.ModelConfig(restarts=3),
            recipe=babi.RecipeConfig(20 // times, 25 // times),
            train=dataclasses.replace(babi.QUICK.train, **often),
        )
        task = babi.Task(config)
        task.source = corpora.GeneratedStories(questions)
        trainer = make_trainer(task)
        while not trainer.finished:
            trainer.advance()
            if trainer.step % epoch == 0:
                trainer.read()
        assert trainer.evaluate(("test",))["test_error"] <= error


# --- Other cores ----------------------------------------------------------------------


def test_other_cores_read_sentence_by_sentence_and_the_question_last():
    for core in ["lstm", "rmc", "entnet"]:
        model = {"core": core, "hidden_size": 4, "head_size": 2, "num_heads": 2}
        task = told(2, model=model)
        network = task.build(np.random.SeedSequence(0)).networks[0]
        reader, (material,) = network.reader, task.materials
        batch = material.take("test", np.arange(7))
        found = network(batch).data
        assert found.shape == (1, 7, len(material.vocabulary))
        E = reader.embedding.weight.data
        both = np.concatenate([E, E * material.encoding.along(5).astype(np.float32)])
        for b in range(7):
            state = reader.core.initial_state(1)
            told_first = batch["memory"][b][batch["memory"][b] > 0][::-1]
            for row in [*told_first, batch["question"][b]]:
                x = (material.rows[row] @ both)[None].astype(np.float32)
                output, state = reader.core(x, state)
            np.testing.assert_allclose(
                found[0, b], reader.answer(output).data[0], rtol=1e-3, atol=1e-5
            )


# --- Bad input ------------------------------------------------------------------------


def test_bad_files_get_one_line(empty_directory, refused):
    unknown = "1 Ann flew.\n2 Where is Mary?\tgarden\t1\n"
    cases = [
        ("train", "1 Mary went.\nno number\n", r"qa1_a-name_train.txt line 2: "),
        ("test", "\n", r"qa1_a-name_test.txt has no questions"),
        ("train", "1 Where is Mary?\tgarden\t\n" * 9, "before anything is told"),
        ("test", unknown, "those never use: ann, flew; fetch both files"),
        ("train", "", "has no en/qa1_\\*_train.txt"),
    ]
    for number, (part, text, says) in enumerate(cases):
        write_babi(Path(f"data{number}"), {(1, part): text})
        words = f"babi --data-dir data{number} --data.task 1".split()
        assert re.search(says, refused(train.main, *words))


# --- From the command line ------------------------------------------------------------

WORDS = """
babi --data-dir data --model.restarts 3 --train.batch-size 8
--recipe.linear-epochs None --train.steps 21 --train.log-every 3
--train.evaluate-every 3 --workers 1
""".split()


def test_runs_are_evaluated_and_stand_beside_what_was_published(
    empty_directory, capsys, monkeypatch
):
    as_published(monkeypatch, write_babi(Path("data")))
    monkeypatch.setattr(discovery.load_task("babi"), "TRIAL", 0)
    for chosen in ("16", "all"):
        words = [*WORDS, "--data.task", chosen, "--run", f"runs/{chosen}"]
        assert train.main(words) == 0
    last = Run.open("runs/16").metrics()[-1]
    errors = [last[f"test_error_restart_{r}"] for r in range(3)]
    assert last["test_error"] in errors and 0 <= last["test_error"] <= 1
    assert "validation_error" in last and "validation_error_restart_0" not in last
    capsys.readouterr()
    assert evaluate.main(["runs/16", "--metrics-only"]) == 0
    assert "; 1 examples of validation, 12 examples of" in capsys.readouterr().out
    assert evaluate.main(["runs/16", "--json", "--splits", "validation"]) == 0
    assert json.loads(capsys.readouterr().out).keys() <= {*last} - {"test_error"}
    assert evaluate.main(["runs/16", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["test_error"] == last["test_error"]
    assert len(found["examinations"]["restarts"]["rows"]) == 3
    with contextlib.redirect_stdout(None):
        assert report.main(["runs", "--out", "results.md"]) == 0
    text = Path("results.md").read_text()
    groups = {
        g["label"]: g for g in json.loads(Path("results.json").read_text())["groups"]
    }
    built = training.run.task_from_dict(Run.open("runs/16").config).build
    all_restarts = built(np.random.SeedSequence(0)).num_parameters
    assert all_restarts // 3 in {g["parameters"] for g in groups.values()}
    every = Run.open("runs/all").metrics()[-1]
    cells = next(g for g in groups.values() if len(g["cells"]) > 1)["cells"]
    assert cells["1k, task 20, PE LS RN"] == {
        "paper": "0.0 %", "metric": "test_error_task_20",
    }  # fmt: skip
    ours = f"{100 * every['test_error_task_20']:.1f} %"
    assert f"0.0 %; ours {ours}" in text
    for cell in "13.9 % (1k, mean, PE LS RN)", "1.3 % (1k, task 16, PE LS RN)":
        assert cell in text
    assert text.count("python -m tinyrmc.train babi joint\n") == 1


def published_errors():
    """{cell: the error in percent}, but for columns that nobody has published."""
    return {
        cell: float(paper.removesuffix(" %"))
        for cell, (paper, _) in babi.Task.published.items()
        if paper
    }


def test_no_column_is_of_another_network():
    large, recipe = babi.LARGE, {"linear_epochs": 0, "random_memories": 0.0}
    plain = dataclasses.replace(large.recipe, **recipe)
    for changed, how in ({"relu": 0.5}, large.recipe), ({"encoding": "bag"}, plain):
        assert babi.column(dataclasses.replace(large, recipe=how)) is not None
        model = dataclasses.replace(large.model, **changed)
        assert babi.column(dataclasses.replace(large, model=model, recipe=how)) is None


def test_every_published_column_reproduces_its_mean():
    """Where the mean is published too; typing errors would move it."""
    cells = published_errors()
    for head in {cell.rpartition(", ")[2] for cell in babi.Task.published}:
        rows = [cells.get(f"1k, task {k}, {head}") for k in babi.TASKS]
        if None not in rows:
            assert np.mean(rows) == pytest.approx(cells[f"1k, mean, {head}"], abs=0.06)
    assert cells["1k, mean, PE LS RN"] == 13.9
    assert cells["10k, mean, PE LS RN ReLU"] == 4.2
