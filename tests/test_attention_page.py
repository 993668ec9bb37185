"""`python -m tinyrmc plot attention`: what it prints and writes, its page in a real
browser, and what it says when it cannot.
"""

import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest
from browser import cells, opened, text_of
from tinyruns import ROOT, SURROUNDINGS, python

from tinyrmc import load
from tinyrmc.cli import plot
from tinyrmc.results import attending, probes
from tinyrmc.training.discovery import load_task
from tinyrmc.training.networks import open_checkpoint, restore_model

TRAINED = ROOT / "tinyrmc/course/assets/nth_farthest_4x4.npz"
KINDS = "", "_tests"
PICTURES = [f"attention{kind}.png" for kind in KINDS]
nth_farthest = load_task("nth_farthest")


def task_of(data=None, **model):
    """nth_farthest, some of its settings changed."""
    usual, replace = nth_farthest.QUICK, dataclasses.replace
    model, data = replace(usual.model, **model), replace(usual.data, **(data or {}))
    return nth_farthest.Task(replace(usual, model=model, data=data))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """(folder, what was printed) after one call with everything, of the trained
    network, over few sequences.
    """
    folder = tmp_path_factory.mktemp("drawn")
    words = ["attention", TRAINED, "--out", folder, "--sequences", 300]
    words += ["--html", folder / "page.html"]
    wide = SURROUNDINGS | {"COLUMNS": "200"}  # no cell is wrapped
    done = python("-m", "tinyrmc", "plot", *words, timeout=300, cwd=folder, env=wide)
    assert done.returncode == 0, done.stderr
    says = "longer, seed 0, step 12,000: measuring over 300 held-out sequences\n"
    assert done.stderr == f"nth_farthest {says}"
    return folder, done.stdout


# --- What is printed and kept ---------------------------------------------------------


def test_the_json_is_the_analysis_and_the_table_shows_it(drawn):
    folder, printed = drawn
    kept = json.loads((folder / "attention.json").read_text())
    task, _, state = open_checkpoint(TRAINED)
    found = probes.analyse(load(TRAINED), probes.held_out(task, 300))
    assert {name: kept[name] for name in found} == found
    assert kept["floors"] == task.references()
    assert kept["run"] == {**state["run"], "step": state["step"]}
    lines = [re.split(r" {2,}", line.strip()) for line in printed.splitlines()]

    def shown(values):
        return [f"{100 * value:.1f} %" for value in values]

    mean = found["attention"]["mean"]
    assert [
        "mean",
        *shown(
            mean[place][period] for place in probes.PLACES for period in probes.PERIODS
        ),
    ] in lines
    metrics = list(found["intact"])
    for test, columns in ("wiped", ("reset", "swapped")), ("cut", ("before", "after")):
        row = found[test]["holders"]
        numbers = shown(row[column][metric] for metric in metrics for column in columns)
        assert ["the slots that took in the reference", *numbers] in lines
    assert [
        "nothing",
        *shown(found["intact"][metric] for metric in metrics for _ in range(2)),
    ] in lines
    assert ["(only the self query)", "50.0 %", "50.0 %", "33.3 %", "33.3 %"] in lines


def test_taking_the_reference_away_does_more_than_taking_as_many_others(drawn):
    """The definition of holders pays off on a network that knows the task, and wiping
    changes what it says.
    """
    found = json.loads((drawn[0] / "attention.json").read_text())
    intact = found["intact"]["accuracy_without_self"]
    assert intact > 0.85
    for row in found["wiped"].values():
        assert row["reset"]["accuracy_without_self"] < intact
    deaf = found["cut"]["all"]["after"]["accuracy_without_self"]
    assert (
        deaf
        < found["cut"]["controls"]["after"]["accuracy_without_self"]
        <= intact + 0.02
    )


def test_questions_and_steps_in_words():
    task = nth_farthest.Task(nth_farthest.QUICK)
    batch = task.draw(np.random.default_rng(0), 50)
    asked = task.questions(batch)
    for row in range(50):
        question, steps = asked.describe(row)
        words = re.fullmatch(
            r"Which vector is number (\d) of 0 to 3 in distance from vector (\d), "
            r"the nearest first\?",
            question,
        )
        n, m = map(int, words.groups())
        (right,) = (step for step in steps if step["number"] == n)
        assert right["label"] == asked.targets[row]
        assert steps[asked.marked[row]]["label"] == m
        assert steps[asked.marked[row]][f"distance from {m}"] == 0
        reference = np.array(steps[asked.marked[row]]["vector"])
        for step in steps:
            assert step[f"distance from {m}"] == pytest.approx(
                np.linalg.norm(step["vector"] - reference), rel=1e-5, abs=1e-7
            )
    assert (asked.kinds["accuracy_without_self"] == ~batch["is_self"]).all()


@pytest.mark.slow
def test_memories_without_a_mask_gates_or_a_second_slot(tmp_path):
    """Leave out what is not there: cuts where no mask is taken, gates where there are
    none, other slots where there is one.
    """
    for model in [
        {"core": "rmc_paper", "mem_slots": 2},
        {"gate_style": "none", "mem_slots": 1, "num_heads": 1},
    ]:
        task = task_of(head_size=2, **model)
        network = task.build(np.random.SeedSequence(0))
        shown = probes.held_out(task, 40)
        found, cases = probes.analyse(network, shown), shown.take(probes.cases(shown))
        seen = probes.traces(network, cases.inputs)
        maps = attending.draw_maps(cases, seen, tmp_path)
        paths = [maps, attending.draw_tests(found, task.references(), tmp_path)]
        assert [path.name for path in paths] == PICTURES
        described = attending.tables(found, task.references())
        assert len(described) == (2 if "core" in model else 3)
        data = page_data(attending.page("t", cases, seen, described))
        assert list(data["examples"][0]["gates"]) == (
            [] if "gate_style" in model else ["input", "forget"]
        )


# --- Words that cannot be -------------------------------------------------------------


@pytest.mark.slow
def test_pictures_of_a_file_go_to_its_run_or_to_a_folder_named_after_it(
    tmp_path, monkeypatch, capsys
):
    for of_run in [False, True]:
        monkeypatch.chdir(tmp_path)
        network, folder = (
            (Path("one/checkpoint.npz"), Path("one"))
            if of_run
            else (TRAINED, Path("runs/nth_farthest_4x4-attention"))
        )
        if of_run:
            folder.mkdir()
            shutil.copy(TRAINED, network)
            (folder / "config.json").touch()
        before = {path for path in tmp_path.rglob("*") if path.is_file()}
        for _ in range(2):  # what is there is replaced
            assert plot.main(["attention", str(network), "--sequences", "20"]) == 0
            paths = [folder / name for name in [*PICTURES, "attention.json"]]
            assert capsys.readouterr().out.splitlines()[-len(paths) :] == list(
                map(str, paths)
            )
            assert {
                path for path in tmp_path.rglob("*") if path.is_file()
            } == before | {tmp_path / path for path in paths}


def test_a_paper_takes_attention_as_pdf(empty_directory, refused):
    words = ["attention", TRAINED, "--sequences", "20", "--out", "paper", "--format"]
    assert plot.main([*map(str, words), "pdf"]) == 0
    for name in PICTURES:
        data = Path("paper", name).with_suffix(".pdf").read_bytes()
        assert data.startswith(b"%PDF")
    assert not [*Path("paper").glob("*.png")]
    assert "invalid choice: 'eps'" in refused(plot.main, *map(str, words), "eps")


def test_a_task_that_says_nothing_about_its_questions_is_told(
    monkeypatch, refused, empty_directory
):
    monkeypatch.delattr(nth_farthest.Task, "questions")
    said = refused(plot.main, "attention", TRAINED, "--out", ".")
    assert said.startswith(
        f"{TRAINED} is a run of 'nth_farthest', whose attention cannot be analysed: "
        "the task does not say what its examples ask"
    )


# --- The page as text -----------------------------------------------------------------


def test_the_page_is_small_and_asks_nobody_for_anything(drawn):
    page = (drawn[0] / "page.html").read_text(encoding="utf-8")
    assert len(page.encode()) < 2_000_000  # 1.2 million of it are the network
    assert "default-src 'none'" in page
    assert not re.search(
        r"https?:|\bsrc=|\bhref=|url\(|@import|\bimport\b|fetch\(|XMLHttpRequest|WebSocket",
        page,
    )


def page_data(page):
    return json.loads(
        re.search(
            r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL
        )[1]
    )


def test_words_of_a_task_cannot_end_the_script():
    task, arrays, state = open_checkpoint(TRAINED)
    shown = probes.held_out(task, 3)
    bad = "</script><script>alert(1)</script> <!-- DATA"
    shown = dataclasses.replace(shown, describe=lambda row: (bad, [{bad: bad}] * 4))
    seen = probes.traces(restore_model(task, arrays, state), shown.inputs)
    data = page_data(attending.page(bad, shown, seen, []))
    assert data["title"] == bad == data["examples"][2]["question"]
    assert data["examples"][2]["items"][1] == {bad: bad}


def test_without_the_network_the_page_holds_what_it_did():
    task, arrays, state = open_checkpoint(TRAINED)
    shown = probes.held_out(task, 30)
    seen = probes.traces(restore_model(task, arrays, state), shown.inputs)
    data = page_data(attending.page("t", shown, seen, []))
    assert data["network"] is None
    for example in data["examples"]:
        right = int(np.argmax(example["probabilities"])) == example["target"]
        assert ("right" in example["verdict"]) == right
        assert sum(example["probabilities"]) == pytest.approx(1, abs=1e-3)
        # not the digits of a float32
        assert all(len(str(share)) <= 6 for share in example["probabilities"])


# --- The page in a browser ------------------------------------------------------------


def restored(rows=slice(None)):
    """(the trained network, some of the questions that the page shows)."""
    task, arrays, state = open_checkpoint(TRAINED)
    model: Any = restore_model(task, arrays, state)
    shown = probes.held_out(task, attending.SHOWN)
    return model, shown.take(attending.to_show(model, shown)[rows])


@browser.needed
def test_the_page_shows_what_the_network_did(window, drawn):
    window.size(1280, 1000)
    model, asked = restored()
    seen = probes.traces(model, asked.inputs)
    for fragment, example, time, head in (
        ("example=2&time=3&head=1", 1, 2, 0),
        ("example=5&time=1&head=mean", 4, 0, None),
        ("", 0, 0, None),
        ("time=99&head=0&example=x", 0, 3, None),  # there are four steps
    ):
        opened(window, drawn[0] / "page.html", fragment)
        question, steps = asked.describe(example)
        assert text_of(window, "question") == question
        answer, target = seen.logits[example].argmax(), asked.targets[example]
        verdict = "right" if answer == target else f"wrong, it is {target}"
        assert text_of(window, "answer") == f"Answer {answer}, {verdict}."
        weights = seen.attention[example, time]
        weights = weights.mean(0) if head is None else weights[head]
        slots = ["slot 1", "slot 2", "slot 3", "slot 4"]
        above, *matrix = cells(window, "matrix")
        assert above == ["", *slots, "input"]
        assert [name for name, *_ in matrix] == slots
        shown = np.array([row[1:] for row in matrix], float)
        np.testing.assert_allclose(shown, 100 * weights, atol=0.8)
        chances = np.exp(seen.logits[example]) / np.exp(seen.logits[example]).sum()
        said = [row[1] for row in cells(window, "probabilities")[1:]]
        assert said == [f"{100 * chance:.1f} %" for chance in np.round(chances, 4)]
        items = cells(window, "items")[1:]
        assert [int(row[1]) for row in items] == [step["label"] for step in steps]
        name = next(name for name in steps[0] if name.startswith("distance"))
        distances = [step[name] for step in steps]
        shown = [float(row[3]) for row in items]
        np.testing.assert_allclose(shown, distances, atol=0.006)
        marked = [row[0] for row in items].index(
            f"{asked.marked[example] + 1} reference"
        )
        assert marked == asked.marked[example]
        both = seen.gates.values()
        expected = [[g[example, time, k].mean() for g in both] for k in range(4)]
        gates = re.findall(
            "input ([\\d.]+), forget ([\\d.]+)", text_of(window, "gates")
        )
        np.testing.assert_allclose(np.array(gates, float), expected, atol=0.006)


def with_script(drawn, tmp_path, script):
    """A copy of the page with one more script at its end."""
    page = tmp_path / "page.html"
    text = (drawn[0] / "page.html").read_text(encoding="utf-8")
    page.write_text(
        text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8"
    )
    return page


@browser.needed
def test_sliders_clicks_and_the_address_move_the_page(window, drawn, tmp_path):
    script = """
const seen = [];
const note = () => seen.push([
  location.hash, $("where").textContent, $("time").value, $("head").value
].join(" | "));
const slide = (name, value) => {
  $(name).value = value;
  $(name).dispatchEvent(new Event("input"));
  note();
};
slide("time", 3);
slide("head", 9);
slide("example", 4);
const box = $("overview").getBoundingClientRect();
$("overview").dispatchEvent(new MouseEvent("click", {
  clientX: box.left + 0.9 * box.width, clientY: box.top + 0.17 * box.height
}));
note();
addEventListener("hashchange", () => {
  note();
  document.title = JSON.stringify(seen);
});
location.hash = "example=1&time=2&head=mean";
"""
    window.size(1280, 1000)
    opened(window, with_script(drawn, tmp_path, script), "head=1")
    seen = window.until("document.title.startsWith('[') && document.title")
    assert json.loads(seen) == [
        "#example=1&time=3&head=1 | head 1, step 3 | 3 | 1",
        "#example=1&time=3&head=mean | mean of all heads, step 3 | 3 | 9",
        "#example=4&time=3&head=mean | mean of all heads, step 3 | 3 | 9",
        "#example=4&time=4&head=2 | head 2, step 4 | 4 | 2",
        "#example=1&time=2&head=mean | mean of all heads, step 2 | 2 | 9",
    ]
    assert window.complaints == []


@browser.needed
def test_what_you_wipe_and_cut_changes_the_answer_as_it_would_in_python(window, drawn):
    """In example 4, at step 2: slot 1 is wiped, slot 3 does not hear the input, in one
    head or, where the mean is shown, in all.
    """
    for head in [2, None]:
        window.size(1280, 1000)
        name = "mean" if head is None else head + 1
        address = f"example=4&time=2&head={name}"
        opened(window, drawn[0] / "page.html", address)
        rows = "$('matrix').tBodies[0].rows"
        window.click(f"{rows}[0].cells[0].firstChild")
        window.click(f"{rows}[2].cells[5].firstChild")

        model, asked = restored([3])
        first = (model.core.initial_state(1),)

        def change(t, state, first=first):
            return probes.put(state, np.array([[t == 1, False, False, False]]), first)

        def mask(t, head=head):
            may = np.ones((1, 8, 5, 5), bool)
            may[0, slice(None) if head is None else head, 2, 4] = t != 1
            return may

        steps = []
        after = probes.read(model, asked.inputs, change, mask, steps)
        logits = probes.answer(model, after)[0]
        chances = np.exp(logits) / np.exp(logits).sum()
        cells = (
            "[...$('probabilities').tBodies[0].rows].map(row => row.cells[1].innerText)"
        )
        shown = [float(text.removesuffix(" %")) for text in window.run(cells)]
        np.testing.assert_allclose(shown, 100 * chances, atol=0.06)
        said = window.run("$('changed').textContent")
        right = "right" if chances.argmax() == asked.targets[0] else "wrong"
        assert f"answers {chances.argmax()} ({shown[chances.argmax()]:.1f} %)" in said
        assert f"which is {right}" in said
        window.click("$('on')")  # what follows is changed too
        weights = steps[2]["attention"][0]
        weights = weights.mean(axis=0) if head is None else weights[head]
        texts = "[...$('matrix').querySelectorAll('td')].map(e => +e.innerText)"
        np.testing.assert_allclose(window.run(texts), 100 * weights.ravel(), atol=0.6)
        window.click("[...$('changes').children].at(-1)")  # undo all
        assert window.run("$('changed').textContent") == ""
        assert window.complaints == []


@browser.needed
def test_it_lists_wrong_answers_alone_and_plays(window, drawn):
    window.size(1280, 1000)
    opened(window, drawn[0] / "page.html")
    data = page_data((drawn[0] / "page.html").read_text(encoding="utf-8"))
    wrong = [each for each in data["examples"] if "wrong" in each["verdict"]]
    window.run("$('filter').value = 'wrong'")
    window.run("$('filter').dispatchEvent(new Event('change'))")
    assert int(window.run("$('example').max")) == len(wrong)
    for number, example in enumerate(wrong, 1):
        window.run(f"$('example').value = {number}")
        window.run("$('example').dispatchEvent(new Event('input'))")
        assert window.run("$('answer').textContent") == f"{example['verdict']}."
        says = window.run("$('example-says').textContent")
        assert says == f"{number} of {len(wrong)}"
    window.click("$('play')")
    window.until("state.time === 1")
    window.click("$('back')")  # which stops it
    assert window.run("$('play').textContent") == "Play"
    window.run("go('time', 1)")
    window.click("$('back')")
    assert window.run("state.time") == 0
    assert window.run("$('back').disabled") and not window.run("$('on').disabled")
    # an address of an example that is not listed lists all again
    right = next(
        k for k, each in enumerate(data["examples"]) if "right" in each["verdict"]
    )
    window.run(f"location.hash = 'example={right + 1}'")
    window.until("$('filter').value === 'all'")
    assert window.complaints == []


@browser.needed
def test_it_fits_a_phone_and_can_be_photographed(window, drawn):
    """On 400 pixels nothing makes the page itself wider than the screen."""
    window.size(400, 800)
    opened(window, drawn[0] / "page.html", "example=1")
    root = "document.documentElement"
    assert window.run(f"{root}.scrollWidth - {root}.clientWidth") == 0
    assert window.picture().startswith(b"\x89PNG")
