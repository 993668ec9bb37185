"""The live figure of the first page: it computes what Python computes, and answers to
mouse, touch and keyboard, wide and narrow.
"""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import browser
import landing
import numpy as np
import pytest

from tinyrmc.results import probes
from tinyrmc.training.networks import open_checkpoint, restore_model

pytestmark = pytest.mark.slow

LABELS = "ABCD"
LAPTOP, PHONE = (1280, 1000), (390, 844)


@pytest.fixture(scope="module")
def model() -> Any:
    return restore_model(*open_checkpoint(landing.NETWORK))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The figure alone, as a page that says what it has computed."""
    text = landing.figure()
    (code,) = re.findall(r"^show\(\);$", text, re.MULTILINE)
    text = text.replace(code, "window.state = state; window.read = read; show();")
    path = tmp_path_factory.mktemp("landing") / "page.html"
    head = '<!DOCTYPE html><meta name="viewport" content="width=device-width">'
    path.write_text(head + text, encoding="utf-8")
    return path


def opened(window, page, size=LAPTOP):
    window.size(*size)
    browser.opened(window, page)


def drawn(window):
    """After the next picture on the screen."""
    window.run("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")


def places(window):
    return np.array(window.run("state.places"), np.float32)


def inputs_of(places, n, m):
    """As the task has them: place, label, n and m at each step."""
    one_hot = np.eye(4, dtype=np.float32)
    rows = [[*places[t], *one_hot[t], *one_hot[n], *one_hot[m]] for t in range(4)]
    return np.array([rows], np.float32)


def logits_of(model, places, n, m, wiped=()):
    first = (model.core.initial_state(1),)

    def change(t, state):
        slots = np.array([[(t, slot) in wiped for slot in range(4)]])
        return probes.put(state, slots, first)

    return probes.answer(model, probes.read(model, inputs_of(places, n, m), change))[0]


def softmax(logits):
    shifted = np.exp(logits - logits.max())
    return shifted / shifted.sum()


def right(places, n, m):
    return np.argsort(np.linalg.norm(places - places[m], axis=1), kind="stable")[n]


def text_of(window, name):
    return window.run(f"document.getElementById('points-{name}').innerText")


def dot(k):
    return f"document.querySelectorAll('#points-plane .dots > g')[{k}]"


def middle_of(window, k):
    box = f"{dot(k)}.querySelector('.dot').getBoundingClientRect()"
    return window.run(f"(b => [b.x + b.width / 2, b.y + b.height / 2])({box})")


@browser.needed
def test_every_answer_is_that_of_the_network_to_five_digits(page, model, window):
    opened(window, page)
    here = places(window)
    for n, m in itertools.product(range(4), repeat=2):
        found = window.run(f"read({n}, {m}).chances")
        expected = softmax(logits_of(model, here, n, m))
        np.testing.assert_allclose(found, expected, atol=1e-5)
    wiped = {(1, 0), (2, 3)}
    keys = json.dumps([f"{t},{slot}" for t, slot in wiped])
    for n, m in ((3, 0), (1, 2)):
        found = window.run(
            f"read({n}, {m}, (t, slot) => {keys}.includes(`${{t}},${{slot}}`)).chances"
        )
        expected = softmax(logits_of(model, here, n, m, wiped))
        np.testing.assert_allclose(found, expected, atol=1e-5)


def says(window, model, n, m, wiped=()):
    """Check what is written about the question that is chosen."""
    here = places(window)
    chances = softmax(logits_of(model, here, n, m, wiped))
    answer, target = int(chances.argmax()), right(here, n, m)
    text = text_of(window, "answer")
    percent = f"{np.floor(100 * float(chances[answer]) + 0.5):.0f} %"
    assert f"says {LABELS[answer]}, {percent} sure" in text
    verdict = "right." if answer == target else f"wrong: it is {LABELS[target]}."
    assert text.endswith(verdict)

    def count(wiped):
        return sum(
            logits_of(model, here, n, m, wiped).argmax() == right(here, n, m)
            for n, m in itertools.product(range(4), repeat=2)
        )

    cost = text_of(window, "cost")
    assert f"{count(())} of the 16 questions" in cost
    assert not wiped or cost.endswith(f"now gets {count(wiped)}.")


@browser.needed
def test_a_point_follows_the_mouse_and_the_answer_with_it(page, model, window):
    opened(window, page)
    says(window, model, 3, 0)
    x, y = middle_of(window, 2)
    before = places(window)
    mouse = {"button": "left", "clickCount": 1}
    for kind, dx, dy in (
        ("mousePressed", 0, 0),
        ("mouseMoved", 30, 10),
        ("mouseMoved", 90, -60),
        ("mouseReleased", 90, -60),
        ("mouseMoved", 0, 0),  # it has been let go
    ):
        where = {"x": x + dx, "y": y + dy}
        window.call("Input.dispatchMouseEvent", type=kind, **where, **mouse)
    drawn(window)
    moved = places(window) - before
    unit = window.run("document.getElementById('points-plane').clientWidth") / 2.4
    np.testing.assert_allclose(moved[2], [90 / unit, 60 / unit], atol=0.03)
    assert not moved[[0, 1, 3]].any()
    now = middle_of(window, 2)
    np.testing.assert_allclose(now, [x + 90, y - 60], atol=2)
    says(window, model, 3, 0)


@browser.needed
def test_on_a_phone_a_finger_moves_a_point_and_nothing_is_too_wide(page, window):
    opened(window, page, PHONE)
    root = "document.documentElement"
    assert window.run(f"{root}.scrollWidth - {root}.clientWidth") == 0
    window.call("Emulation.setTouchEmulationEnabled", enabled=True)
    window.run(f"{dot(1)}.scrollIntoView({{block: 'center'}})")
    (x, y), before = middle_of(window, 1), places(window)
    finger = "Input.dispatchTouchEvent"
    window.call(finger, type="touchStart", touchPoints=[{"x": x, "y": y}])
    for k in range(1, 6):
        at = {"x": x - 10 * k, "y": y + 12 * k}
        window.call(finger, type="touchMove", touchPoints=[at])
    window.call(finger, type="touchEnd", touchPoints=[])
    window.call("Emulation.setTouchEmulationEnabled", enabled=False)
    drawn(window)
    moved = places(window) - before
    assert moved[1][0] < -0.2 and moved[1][1] < -0.2
    assert not moved[[0, 2, 3]].any()
    small = window.run("""[...document.querySelectorAll("#points :is(button, label)")]
        .filter(e => e.checkVisibility({visibilityProperty: true}))
        .map(e => e.getBoundingClientRect().height).filter(height => height < 28)""")
    assert small == []


@browser.needed
def test_keys_move_points_and_choose_the_question(page, model, window):
    opened(window, page)
    before = places(window)
    window.run(f"{dot(3)}.focus()")
    window.press("ArrowLeft", 37)
    window.press("ArrowUp", 38)
    window.press("ArrowUp", 38, modifiers=8)
    drawn(window)
    moved = places(window) - before
    np.testing.assert_allclose(moved[3], [-0.05, 0.06], atol=1e-6)
    x, y = places(window)[3]
    label = window.run(f"{dot(3)}.getAttribute('aria-label')")
    assert label == f"Point D at {x:.2f}, {y:.2f}. Arrow keys move it."
    for _ in range(40):  # it stays on the plane
        window.press("ArrowRight", 39)
    assert places(window)[3][0] == 1
    window.run("document.querySelector('[name=points-n]:checked').focus()")
    window.press("ArrowLeft", 37)
    drawn(window)
    assert text_of(window, "answer").startswith(
        "Which point is the second nearest to A?"
    )
    says(window, model, 2, 0)


@browser.needed
def test_a_slot_is_wiped_and_comes_back(page, model, window):
    opened(window, page)
    window.click("document.querySelectorAll('[name=points-m]')[1].nextSibling")
    rows = "document.querySelectorAll('#points-steps section')"
    window.click(f"{rows}[1].querySelectorAll('button')[2]")
    window.click(f"{rows}[3].querySelectorAll('button')[0]")
    drawn(window)
    says(window, model, 3, 1, {(1, 2), (3, 0)})
    pressed = "document.querySelectorAll('#points-steps [aria-pressed=true]')"
    assert window.run(f"[...{pressed}].map(e => e.innerText.trim())") == ["wiped"] * 2
    window.click("document.getElementById('points-undo')")
    drawn(window)
    says(window, model, 3, 1)
    assert window.run(f"{pressed}.length") == 0


@browser.needed
def test_the_squares_are_the_attention_of_this_example(page, model, window):
    opened(window, page)
    seen = probes.traces(model, inputs_of(places(window), 3, 0))
    shown = window.run("""[...document.querySelectorAll("#points-steps button i")]
        .map(e => Number(e.style.getPropertyValue("--weight")))""")
    mean = seen.attention[0].mean(axis=1)  # (T, N, N + 1)
    np.testing.assert_allclose(shown, mean.ravel(), atol=6e-4)


def test_the_network_is_small_and_says_how_good_it_is():
    data = landing.data()
    assert Path(landing.NETWORK).stat().st_size < 300_000
    assert f"{data['accuracy']:.3f}" > "0.900" and data["questions"] == 10_000
    text = landing.figure()
    assert not re.search(r"\bsrc=|\bhref=|@import|fetch\(|XMLHttpRequest", text)
