"""The page of an episode: what it holds, and what it shows in a real browser."""

import base64
import dataclasses
import json
import re

import browser
import numpy as np
import pytest
from browser import opened, text_of
from tinyagents import LEVELS, restored

from tinyrmc.results import episodes

pytestmark = pytest.mark.slow  # agents are trained first


@pytest.fixture(scope="module")
def solved(agents):
    """An episode that ends well."""
    task, model = restored(agents / "rmc")
    level = int(np.flatnonzero(task.results(model, 0, LEVELS)["solved"])[0])
    return episodes.record(task, model, level)


@pytest.fixture(scope="module")
def page(solved, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(episodes.page("</script> a title", solved), encoding="utf-8")
    return path


def test_the_page_holds_the_episode_and_asks_nobody(page, solved):
    text = page.read_text(encoding="utf-8")
    assert text.count("</script>") == 2 and "default-src 'none'" in text
    assert not re.search(r"https?:(?!//www.w3.org/2000/svg)|\bsrc=|\bhref=|url\(", text)
    (found,) = re.findall(r'id="data">(.*?)</script>', text, re.DOTALL)
    data = json.loads(found)
    for name, pictures in (("boards", solved.boards), ("views", solved.views)):
        part = data[name]
        codes = np.frombuffer(base64.b64decode(part["bytes"]), np.uint8)
        codes = codes.reshape(-1, part["height"], part["width"])
        assert (np.array(data["palette"])[codes] == pictures).all()
    assert data["corners"] == solved.corners.tolist()
    np.testing.assert_allclose(data["values"], solved.values, atol=1e-4)
    assert "In the board's upper left corner: the key held." in data["legend"]
    assert "send it" not in text and "A bookmark keeps the step" in text


def pixels(window, canvas):
    """The colour in the middle of each cell."""
    return np.array(
        window.run(f"""(() => {{
            const c = $("{canvas}"), pen = c.getContext("2d"), found = [];
            for (let y = 12; y < c.height; y += 24) {{
              found.push([]);
              for (let x = 12; x < c.width; x += 24)
                found.at(-1).push([...pen.getImageData(x, y, 1, 1).data.slice(0, 3)]);
            }}
            return found;
        }})()""")
    )


@browser.needed
def test_the_page_shows_the_step_that_you_choose(page, solved, window):
    for width in [1280, 390]:
        window.size(width, 800)
        last = len(solved.actions)
        for step in {0, last // 2, last - 1, last}:
            opened(window, page, f"step={step}")
            for name, pictures in (("board", solved.boards), ("view", solved.views)):
                assert (pixels(window, name) == pictures[step]).all()
            assert text_of(window, "step-says") == f"{step} of {last} steps"
            score = f"Score so far: {solved.rewards[:step].sum():g}."
            if step == last:
                assert text_of(window, "now") == f"The end. {score}"
                continue
            action = solved.names[solved.actions[step]]
            assert text_of(window, "now").startswith(f"Now: {action}")
            assert text_of(window, "now").endswith(score)
            value = float(text_of(window, "value"))
            assert value == pytest.approx(solved.values[step], abs=0.006)
            cells = window.run(
                "[...$('matrix').querySelectorAll('td')].map(e => +e.textContent)"
            )
            mean = 100 * solved.attention[step].mean(axis=0)
            np.testing.assert_allclose(cells, mean.ravel(), atol=0.8)
            (taken,) = window.run(
                "[...document.querySelectorAll('tr.taken')].map(e => "
                "e.cells[0].textContent + ' ' + e.cells[1].textContent)"
            )
            chance = solved.policy[step, solved.actions[step]]
            assert taken == f"{action} {100 * round(float(chance), 4):.1f} %"
        root = "document.documentElement"
        assert window.run(f"{root}.scrollWidth - {root}.clientWidth") == 0


@browser.needed
def test_sliders_clicks_and_the_clock_move_the_page(page, solved, window):
    window.size(1280, 900)
    opened(window, page)
    last = len(solved.actions)
    for name, value in (("step", 2), ("head", 1)):
        window.run(f"$('{name}').value = {value}")
        window.run(f"$('{name}').dispatchEvent(new Event('input'))")
    assert window.run("location.hash") == "#step=2"
    assert text_of(window, "where") == "head 1, before step 3"
    cells = window.run(
        "[...$('matrix').querySelectorAll('td')].map(e => +e.textContent)"
    )
    np.testing.assert_allclose(cells, 100 * solved.attention[2, 0].ravel(), atol=0.8)
    assert text_of(window, "head-says") == "head 1 of 2"
    window.run("$('head').value = 3, $('head').dispatchEvent(new Event('input'))")
    assert text_of(window, "head-says") == "mean of the heads"
    window.click("$('rewards').lastElementChild")
    assert text_of(window, "step-says").startswith(f"{last - 1} of")
    window.click("$('values')")  # its middle
    middle = window.run("state.step")
    assert abs(middle - last / 2) <= 1
    window.click("$('play')")
    window.until(f"state.step > {middle}")
    window.until(f"state.step === {last}")
    assert text_of(window, "play") == "Play" and window.complaints == []


@browser.needed
def test_many_rewards_leave_the_value_to_be_seen(solved, tmp_path, window):
    for rewards, buttons, left in [
        ([1] * 30, [f"{t}: +1" for t in range(30)], ""),
        ([1] * 31, [], "31 rewards, too many to list"),
        (
            [1] * 50 + [-5, 2, 3],
            ["50: -5", "51: +2", "52: +3"],
            "and 50 smaller rewards",
        ),
    ]:
        steps = len(rewards)
        many = {
            name: np.resize(
                getattr(solved, name), (steps, *getattr(solved, name).shape[1:])
            )
            for name in ("actions", "values", "policy", "attention")
        } | {
            name: getattr(solved, name)[np.zeros(steps + 1, int)]
            for name in ("boards", "views", "corners")
        }
        episode = dataclasses.replace(solved, rewards=np.array(rewards), **many)
        path = tmp_path / "page.html"
        path.write_text(episodes.page("t", episode), encoding="utf-8")
        window.size(1280, 900)
        opened(window, path)
        shown = window.run("[...$('rewards').children].map(e => e.textContent)")
        assert shown == buttons
        assert text_of(window, "rewards") == "".join(buttons) + left
        lines = window.run("document.querySelectorAll('#values .reward').length")
        sums = window.run("document.querySelector('#values .score').points.length")
        expected = (steps, 0) if steps == 30 else (0, steps + 1)
        assert (lines, sums) == expected
        total, top = sum(rewards), np.cumsum(rewards).max()
        assert text_of(window, "red") == (
            "rewards" if steps == 30 else f"the score so far, from 0 to {top}"
        )
        assert window.run("score(last)") == total
