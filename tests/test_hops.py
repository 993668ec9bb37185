"""`python -m tinyrmc plot hops`: what it counts and refuses, and its page in a real
browser, where the network computes once more.
"""

import contextlib
import json
import re

import browser
import numpy as np
import pytest
import tinyagents
from browser import cells, opened
from tinyagents import restored
from tinyruns import TINY

from tasks import babi
from tinyrmc import corpora
from tinyrmc.cli import plot, train
from tinyrmc.results import memory_hops
from tinyrmc.training.run import Run

WORDS = """
babi --data.generated --model.restarts 3 --train.evaluate-every 336 --workers 1
""".split()
RUNS = {
    # one epoch with the softmax: on any machine some answers are still wrong
    "one": "--data.task 1 --train.steps 140 --recipe.linear-epochs 4",
    "all": "--data.task all --train.steps 6",
    "joint": "--data.task joint --train.steps 6 --recipe.linear-epochs 0",
    "lstm": "--data.task 1 --train.steps 2 --model.core lstm --model.hidden-size 4",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with small runs on made-up stories."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(None):
        patch.setattr("tinyrmc.results.plotting.draw_run", lambda run: [])
        patch.setenv("COLUMNS", "200")
        for name, words in RUNS.items():
            said = [*WORDS, *words.split(), "--run", str(folder / name)]
            assert train.main(said) == 0
        assert train.main([*TINY, "--run", str(folder / "nth")]) == 0
    return folder


def test_a_run_ends_with_what_to_look_at_next(tmp_path, capsys):
    for name, words, says in (
        ("joint", [*WORDS, *RUNS["joint"].split()], ["plot hops"]),
        ("lstm", [*WORDS, *RUNS["lstm"].split()], []),
        ("whole", tinyagents.RUNS["whole"].split(), ["plot episode", "play box_world"]),
    ):
        run = str(tmp_path / name)
        with tinyagents.few_levels():
            assert train.main([*words, "--run", run]) == 0
        lines = re.findall("^(?:hops|episode|watch) .*", capsys.readouterr().out, re.M)
        assert len(lines) == len(says)
        for line, command in zip(lines, says, strict=True):
            assert f"tinyrmc {command} " in line and line.endswith(f" {run}")


def rows_of(printed):
    """{first cell: the others} of the table in what was printed."""
    table = printed.split("\n\n")[1].splitlines()
    cells = [re.split(r" {2,}", line.strip()) for line in table[1:]]
    assert re.split(r" {2,}", table[0].strip())[0] == "questions"
    return {name: others for name, *others in cells}


# --- What is counted ------------------------------------------------------------------


def by_hand(task, model, restart):
    """(is it right, is each hop's strongest a fact, is the last sentence one, chance)
    of each test question, one by one.
    """
    (material,) = task.materials
    found = []
    for k, story in enumerate(material.told[material.tasks[0]]["test"]):
        trace = []
        logits = model(0, material.take("test", np.array([k])), task.linear, trace)
        answer = material.vocabulary[logits.data[restart, 0].argmax()]
        facts = {len(story.sentences) - 1 - place for place in story.supporting}
        looked = [hop["weights"][0, restart].argmax() in facts for hop in trace]
        chance = len(facts) / len(story.sentences)
        found.append((answer == story.answer, *looked, 0 in facts, chance))
    return np.array(found, float)


@pytest.mark.slow
def test_what_is_printed_is_a_count_by_hand_of_the_restart_that_is_taken(runs, capsys):
    assert plot.main(["hops", str(runs / "one")]) == 0
    printed = capsys.readouterr().out
    task, model = restored(runs / "one")
    last = Run.open(runs / "one").metrics()[-1]
    errors = [last[f"test_training_error_restart_{r}"] for r in range(3)]
    found = by_hand(task, model, int(np.argmin(errors)))
    right = found[:, 0] == 1
    assert (~right).mean() == pytest.approx(last["test_error"])
    assert 0 < right.sum() < len(right)
    table = rows_of(printed)
    parts = {
        "task 1": right | ~right,
        "answered right": right,
        "answered wrong": ~right,
    }
    assert table == {
        name: [
            f"{part.sum():,}",
            *(f"{100 * x:.1f} %" for x in found[part, 1:].mean(0)),
        ]
        for name, part in parts.items()
    }
    assert memory_hops.CAVEAT in printed


@pytest.mark.slow
def test_each_task_of_several_has_a_row(runs, capsys):
    for name in ["all", "joint"]:
        assert plot.main(["hops", str(runs / name)]) == 0
        table = rows_of(capsys.readouterr().out)
        assert [*table] == [f"task {k}" for k in corpora.GENERATED_TASKS]
        assert plot.main(["hops", str(runs / name), "--task", "16"]) == 0
        alone = rows_of(capsys.readouterr().out)
        assert [*alone] == ["task 16", "answered right", "answered wrong"]
        assert alone["task 16"] == table["task 16"]
        task, model = restored(runs / name)
        last = Run.open(runs / name).metrics()[-1]
        for reading in task.readings(model):
            for k in np.unique(reading.tasks):
                error = (~reading.right[reading.of(k)]).mean()
                assert error == pytest.approx(last[f"test_error_task_{k}"])


# --- The page -------------------------------------------------------------------------


def in_page(window, reading, rows):
    """(strengths (Q, K, M), logits (Q, V)) that the page computes for some stories."""
    ids = {word: id for id, word in enumerate(reading.vocabulary)}
    asked = [
        [
            [[ids[w] for w in words] for words in reading.stories[row].sentences],
            [ids[w] for w in reading.stories[row].question],
        ]
        for row in rows
    ]
    found = window.run(f"{json.dumps(asked)}.map(each => compute(...each))")
    return [each["hops"] for each in found], np.array([e["logits"] for e in found])


VARIANTS = {
    "released": {},
    "printed": {"encoding": "printed", "pe_scale": 1.0},
    "bag": {"encoding": "bag", "hops": 1},
    "layerwise": {"tying": "layerwise", "hops": 2},
    "relu": {"relu": 0.5},
    "layerwise relu": {"tying": "layerwise", "relu": 1.0},
    "timeless": {"temporal": False},
    "masked": {"masked": True},
    "joint": {"embedding_size": 9},
}


@browser.needed
def test_the_page_computes_what_python_computes(window, tmp_path):
    for linear in [False, True]:
        for variant in VARIANTS:
            joint = variant == "joint"
            # some stories are shorter, and of some the first sentences are forgotten
            config = babi.Config(
                data=babi.DataConfig(
                    "joint" if joint else "2", generated=True, memories=14
                ),
                model=babi.ModelConfig(
                    **({"restarts": 2, "embedding_size": 7} | VARIANTS[variant])
                ),
                recipe=babi.RecipeConfig(linear_epochs=20 if linear else 0),
            )
            task = babi.Task(config)
            task.source = corpora.GeneratedStories(60)
            model = task.build(np.random.SeedSequence(1))
            for parameter in model.parameters():
                # so that attention is no mean
                parameter.data = (2 if linear else 6) * parameter.data
            (material,) = task.materials
            (reading,) = task.readings(model)
            lengths = [len(story.sentences) for story in reading.stories]
            assert min(lengths) < reading.slots
            assert max(lengths) > reading.slots or joint
            assert reading.linear is linear
            page = tmp_path / "page.html"
            page.write_text(memory_hops.page("t", reading), encoding="utf-8")
            opened(window, page, "example=1")
            rows = np.arange(material.count("test"))[:: 12 if joint else 4]
            found, logits = in_page(window, reading, rows)
            trace = []
            expected = model.astype(np.float64)(
                0, material.take("test", rows), linear, trace
            ).data
            np.testing.assert_allclose(
                logits, expected[reading.restart], rtol=1e-9, atol=1e-9
            )
            for k, of_story in enumerate(found):
                for hop, weights in zip(trace, of_story, strict=True):
                    own = hop["weights"][k, reading.restart]
                    np.testing.assert_allclose(weights, own[: len(weights)], atol=1e-9)
                    assert not own[len(weights) :].any()  # masked, they are left out
            # the float32 network says the same, up to its rounding
            close = {"rtol": 1e-3, "atol": 1e-3}
            np.testing.assert_allclose(
                reading.weights[rows][:, 0],
                trace[0]["weights"][:, reading.restart],
                **close,
            )


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    """The page of the run `one`."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    with contextlib.redirect_stdout(None):
        assert plot.main(["hops", str(runs / "one"), "--html", str(path)]) == 0
    return path


def shown(window):
    """(the answer, rows of a sentence and the percents of its hops) on the page."""
    return window.run("$('answer').textContent"), cells(window, "hops")[1:]


def as_shown(reading, row):
    """The same, of a test story."""
    story, told = reading.stories[row], int(reading.sentences[row])
    weights = reading.weights[row].T  # (M, K), the latest sentence first
    names = [memory_hops.sentence(x, "") for x in story.sentences[-told:]]
    cells = [[f"{100 * w:.0f}" for w in each] for each in weights[:told][::-1]]
    if empty := reading.slots - told:
        several = f"{empty} empty memories, together"
        names.append(f"({'1 empty memory' if empty == 1 else several})")
        cells.append([f"{100 * w:.0f}" for w in weights[told:].sum(axis=0)])
    return reading.answers[row], [[n, *c] for n, c in zip(names, cells, strict=True)]


def assert_shown(window, reading, row):
    (answer, rows), (expected, cells) = shown(window), as_shown(reading, row)
    assert answer == expected and [r[0] for r in rows] == [c[0] for c in cells]
    found = [np.array([r[1:] for r in each], int) for each in (rows, cells)]
    np.testing.assert_allclose(*found, atol=1)  # float32 may round otherwise


@browser.needed
def test_what_you_choose_and_what_you_type_is_read_at_once(runs, page, window):
    task, model = restored(runs / "one")
    (reading,) = task.readings(model)
    window.size(1280, 900)
    opened(window, page, "example=1")
    right, wrong = memory_hops.chosen(reading, reading.of(1), memory_hops.IN_PAGE)
    count = len(right)
    assert_shown(window, reading, right[0])
    assert window.run("$('verdict').textContent") == "This is right."
    window.run(f"$('example').value = {count}")
    window.run("$('example').dispatchEvent(new Event('change'))")
    assert_shown(window, reading, wrong[0])
    story = reading.stories[wrong[0]]
    assert window.run("$('verdict').textContent") == f"Wrong: it is {story.answer}."
    facts = window.run(
        "[...document.querySelectorAll('#hops .fact')].map(e => e.textContent)"
    )
    named = [
        memory_hops.sentence(story.sentences[k]).rstrip(".") for k in story.supporting
    ]
    assert facts == named
    # another story, as long at least, typed over the one that is there
    long = np.flatnonzero(reading.sentences >= reading.sentences[wrong[0]])
    other = reading.stories[long[-1]]
    assert other != story
    for name, text in {
        "story": "  ".join(memory_hops.sentence(words) for words in other.sentences),
        "question": " ".join(other.question).upper(),
    }.items():
        window.click(f"$('{name}')")
        window.run(f"$('{name}').select()")
        window.type(text)
    assert_shown(window, reading, long[-1])
    assert window.run("$('verdict').textContent") == ""
    assert "changed the story or the question" in window.run(
        "$('facts-say').textContent"
    )
    assert not window.run("document.querySelectorAll('#hops .fact').length")


@browser.needed
def test_what_it_cannot_read_it_says_kindly(page, window):
    window.size(1280, 900)
    opened(window, page, "example=1")

    def typed(story, question="Where is Mary?"):
        for name, text in ("story", story), ("question", question):
            window.run(f"$('{name}').value = {json.dumps(text)}")
            window.run(f"$('{name}').dispatchEvent(new Event('input'))")
        pale = window.run("$('read').classList.contains('stale')")
        says = window.run("$('complaint').textContent")
        assert pale == bool(says)
        return says

    assert typed("Mary went to the graden. Zzyzx moved to the office.") == (
        "The network has never read “graden” (did you mean “garden”?), “zzyzx”. The "
        "words it knows are below."
    )
    assert typed("<b>a b c d e</b>").endswith(
        "and 2 more. The words it knows are below."
    )
    assert typed(" \n . ") == "Tell it something first: one sentence a line."
    assert typed("Mary went to the garden", "?") == "Now ask it something."
    assert typed("Mary went to the garden") == ""
    assert shown(window)[1][0][0] == "Mary went to the garden"
    window.run("$('words').open = true")
    window.run("$('question').setSelectionRange(99, 99)")
    window.click(
        "[...$('words').querySelectorAll('button')].find(b => b.textContent === 'john')"
    )
    assert window.run("$('question').value") == "Where is Mary? john"
    assert window.complaints == []


@pytest.fixture(scope="module")
def joint_page(runs, tmp_path_factory):
    """The page of the run `joint`."""
    task, model = restored(runs / "joint")
    path = tmp_path_factory.mktemp("page") / "joint.html"
    path.write_text(memory_hops.page("joint", *task.readings(model)), encoding="utf-8")
    return path


@browser.needed
def test_it_fits_the_window(joint_page, window):
    for width in [1280, 320]:
        page = joint_page
        window.size(width, 800)
        opened(window, page, "example=99")
        root = "document.documentElement"
        assert window.run(f"{root}.scrollWidth - {root}.clientWidth") == 0
        for part in "read", "counts":
            assert window.run(f"$('{part}').getBoundingClientRect().right") <= width
        groups = window.run(
            "[...document.querySelectorAll('optgroup')].map(g => g.label)"
        )
        assert {label.partition(",")[0] for label in groups} == {
            f"task {k}" for k in corpora.GENERATED_TASKS
        }
        assert [row[0] for row in cells(window, "counts")] == [
            "",
            *(f"task {k}" for k in corpora.GENERATED_TASKS),
        ]
        last = window.run("data.examples[data.examples.length - 1].question")
        assert window.run("$('question').value") == last
