"""Agents that are watched: held-out levels one by one, how sure figures are, pictures,
the page in a real browser, the terminal.
"""

import base64
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import browser
import numpy as np
import pytest
from PIL import Image
from tinyruns import TINY, evaluated

from tinyrmc import evaluate, play, plot, train
from tinyrmc.commands import run_main
from tinyrmc.errors import UserError
from tinyrmc.results import episodes
from tinyrmc.training import scores
from tinyrmc.training.checkpoints import open_checkpoint, restore_model
from tinyrmc.training.discovery import load_task
from tinyrmc.training.policy import sample

LEVELS = 40
SMALL = (
    "--train.steps 3 --train.batch-size 8 --agent.unroll 4 --train.log-every 3 "
    "--train.evaluate-every 3 --workers 1 --model.features 8 --model.hidden-size 8 "
    "--model.mem-slots 2 --model.num-heads 2 --model.head-size 4 "
)
BOX = SMALL + (
    "--world.rooms 7 7 --world.solution 1 2 --world.distractors 0 1 --world.pool 64 "
    "--world.limit 80"
)
RUNS = {
    "rmc": f"box_world quick {BOX}",
    "lstm": f"box_world quick {BOX} --model.core lstm",
    "whole": f"box_world quick {BOX} --world.view whole",
    "pacman": f"mini_pacman quick {SMALL} --world.limit 40",
    "nth": " ".join(TINY),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder of short runs; and few held-out levels, as long as tests here run."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(None):
        for name in ("box_world", "mini_pacman", "nth_farthest"):
            patch.setattr(load_task(name).Task, "test_examples", LEVELS)
        for name, words in RUNS.items():
            assert train.main([*words.split(), "--run", str(folder / name)]) == 0
        yield folder


def restored(path):
    task, arrays, state = open_checkpoint(path)
    return task, restore_model(task, arrays, state)


@pytest.fixture(scope="module")
def agent(runs):
    return restored(runs / "rmc")


@pytest.fixture(scope="module")
def solved(agent):
    """An episode that ends well."""
    task, model = agent
    level = int(np.flatnonzero(task.results(model, 0, LEVELS)["solved"])[0])
    return episodes.record(task, model, level)


# --- How sure figures are -------------------------------------------------------------


@pytest.mark.parametrize(
    "hits, count, low, high",
    [  # Newcombe 1998, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_intervals_of_shares_are_those_published(hits, count, low, high):
    found = scores.of_share(np.arange(count) < hits)
    np.testing.assert_allclose(found, (hits / count, low, high), atol=5e-5)
    turned = scores.of_share(np.arange(count) >= hits)
    np.testing.assert_allclose(turned[1:], (1 - found[2], 1 - found[1]))


def test_intervals_of_means():
    values = np.random.default_rng(0).normal(3, 2, 50)
    mean, low, high = scores.of_mean(values)
    spread = statistics.NormalDist().inv_cdf(0.975) * statistics.stdev(values) / 50**0.5
    assert mean == pytest.approx(statistics.mean(values))
    assert (low, high) == (pytest.approx(mean - spread), pytest.approx(mean + spread))
    assert scores.of_mean(np.ones(1)) == (1.0, None, None)


# --- Level by level -------------------------------------------------------------------


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("name", ["rmc", "lstm", "pacman"])
def test_what_you_watch_is_what_was_counted(name, greedy, runs):
    task, model = restored(runs / name)
    found = task.results(model, 0, LEVELS, likeliest=greedy)
    for level in range(0, LEVELS, 8):
        episode = episodes.record(task, model, level, greedy)
        assert len(episode) == found["length"][level]
        assert episode.rewards.sum() == pytest.approx(found["score"][level])
        assert episode.solved == found["solved"][level]
    sums = task.played(model, 0, LEVELS, likeliest=greedy)
    assert sums == {name: (x.sum(), LEVELS) for name, x in found.items()}


def test_an_episode_is_what_a_plain_loop_sees(agent, solved):
    """The world by itself, given the same actions, to its last picture."""
    task, _ = agent
    world, last = task.held_out_world, len(solved)
    state = world.start_levels(np.array([solved.level]))
    for t, action in enumerate(solved.actions):
        assert (solved.boards[t] == world.rgb(state, whole=True)[0]).all()
        assert (solved.views[t] == world.rgb(state)[0]).all()
        row, column = solved.corners[t] + 2
        assert (row, column) == tuple(world.observe(state)["position"][0])
        outcome = world.step(
            state, np.array([action]), np.zeros((1, 1), np.float32), keep_final=True
        )
        assert outcome.reward[0] == solved.rewards[t]
        assert outcome.ended[0] == (t == last - 1)
    assert (solved.boards[last] == world.rgb(outcome.final, whole=True)[0]).all()
    assert solved.rewards[-1] == 10 and solved.solved and not solved.truncated
    assert not (solved.boards[last] == 255).all(axis=-1).any()  # the gem is gone


@pytest.mark.parametrize("name", ["rmc", "lstm", "whole"])
def test_thoughts_are_those_of_the_network_that_acted(name, runs):
    """The whole episode read at once; actions drawn from the policy that is shown."""
    task, model = restored(runs / name)
    level = 3
    episode = episodes.record(task, model, level)
    T, world = len(episode), task.held_out_world
    state = world.start_levels(np.array([level]))
    seen = {"seen/view": [], "seen/held": [], "seen/position": []}
    for action in episode.actions:
        for part, codes in world.observe(state).items():
            seen[f"seen/{part}"].append(codes[0])
        world.step(state, np.array([action]), np.zeros((1, 1), np.float32))
    moments = {part: np.stack(codes)[None] for part, codes in seen.items()}
    moments["action"] = np.array([[4, *episode.actions[:-1]]])
    moments["reward"] = np.array([[0, *episode.rewards[:-1]]], np.float32)
    logits, values, _ = model(*task.planes(moments), model.initial_state(1))
    np.testing.assert_allclose(episode.values, 10 * values.data[0], rtol=1e-3)
    shares = np.exp(logits.data[0]) / np.exp(logits.data[0]).sum(1, keepdims=True)
    np.testing.assert_allclose(episode.policy, shares, rtol=1e-3)
    noise = [task.held_out_noise(k, level, level + 1)[0, 1:, 0] for k in range(4)]
    drawn = sample(np.log(episode.policy), np.concatenate(noise)[:T])
    assert drawn.tolist() == episode.actions.tolist()
    if name == "lstm":
        assert episode.attention is None
    else:
        assert episode.attention.shape == (T, 2, 2, 3)
        np.testing.assert_allclose(episode.attention.sum(axis=-1), 1, rtol=1e-5)
    assert (episode.corners is None) == (name == "whole")


def test_pacmans_window_is_where_he_is(runs):
    task, model = restored(runs / "pacman")
    episode = episodes.record(task, model, 1)
    assert episode.boards.shape[1:] == (15, 19, 3) and episode.window == 5
    for board, view, (row, column) in zip(
        episode.boards, episode.views, episode.corners, strict=True
    ):
        around = np.pad(board, ((5, 5), (5, 5), (0, 0)), constant_values=255)
        assert (around[row + 5 : row + 10, column + 5 : column + 10] == view).all()


def test_a_failed_level_is_found(agent, runs, monkeypatch):
    task, model = agent
    episode = episodes.failed(task, model)
    found = task.results(model, 0, LEVELS)["solved"]
    assert episode.level == found.tolist().index(0) and not episode.solved
    monkeypatch.setattr(
        type(task), "results", lambda *_, **__: {"solved": np.ones(LEVELS)}
    )
    with pytest.raises(UserError, match="it solves all 40 held-out levels"):
        episodes.failed(task, model)


@pytest.mark.parametrize(
    "rewards, count, expected",
    [
        ([0] * 12, 4, [0, 3, 6, 12]),
        ([0, 0, 1, 0, 10], 8, [0, 1, 2, 3, 4, 5]),
        ([0, 0, 0, 0, 0, 1, 0, 0, 0, 0], 4, [0, 2, 5, 10]),
        ([1] * 9, 4, [0, 1, 2, 9]),
    ],
)
def test_moments_with_rewards_come_first(rewards, count, expected):
    values = np.array(rewards, float)
    episode = episodes.Episode(
        0, (), *[None] * 3, 5, values, values, *[None] * 3, True, False
    )
    assert episodes.moments(episode, count) == expected


# --- What evaluate prints -------------------------------------------------------------


def test_evaluate_prints_sampled_greedy_and_floors(runs, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert evaluate.main([str(runs / "rmc")]) == 0
    text = capsys.readouterr().out
    assert "; 40 examples\n" in text
    task, model = restored(runs / "rmc")
    found = evaluated(capsys, runs / "rmc")
    tables = found["examinations"]
    for greedy, player in enumerate(("sampled", "greedy")):
        results = task.results(model, 0, LEVELS, likeliest=bool(greedy))
        for name, metric, interval in (
            ("levels solved", "solved", scores.of_share),
            ("score", "score", scores.of_mean),
            ("steps until a level ended", "length", scores.of_mean),
        ):
            assert tables[name]["rows"][greedy] == [player, *interval(results[metric])]
            assert tables[name]["columns"] == ["player", metric, "95 % from", "to"]
        share, low, high = (
            f"{100 * x:.1f} %" for x in scores.of_share(results["solved"])
        )
        assert re.search(rf"^{player} +{share} +{low} +{high}$", text, re.M)
    assert [row[0] for row in tables["score"]["rows"]][2:] == ["at random"]
    assert found["test_solved"] == tables["levels solved"]["rows"][0][1]
    assert (
        task.references()["test_score"]["at random"] == (tables["score"]["rows"][2][1])
    )


def test_levels_are_told_apart_by_their_trees(runs, agent):
    task, model = agent
    tables = dict(task.examinations(model))
    solved = task.results(model, 0, LEVELS)["solved"]
    trees = [task.held_out_world.levels.boxes(k) for k in range(LEVELS)]
    for name, count in (
        (
            "solution length",
            lambda boxes: sum(not b.trap and b.lock > 0 for b in boxes),
        ),
        ("distractors", lambda boxes: sum(b.trap for b in boxes)),
    ):
        kinds = np.array([count(boxes) for boxes in trees])
        rows = tables[f"solved by {name}"].rows
        assert [row[0] for row in rows] == sorted({*kinds.tolist()})
        assert len(rows) == 2 and sum(row[1] for row in rows) == LEVELS
        for kind, levels, share, *_ in rows:
            assert levels == (kinds == kind).sum()
            assert share == solved[kinds == kind].mean()
    quick = load_task("box_world").Task(load_task("box_world").QUICK)
    assert [*quick.kinds()] == ["solution length"]  # there are no distractors


def test_pacmans_floors_have_a_script(runs):
    task, model = restored(runs / "pacman")
    tables = dict(task.examinations(model))
    assert [*tables] == ["levels solved", "score", "steps until a level ended"]
    who = [row[0] for row in tables["score"].rows]
    assert who == ["sampled", "greedy", "at random", "a script that sees all"]
    at_random, script = (row[1] for row in tables["score"].rows[2:])
    assert script > at_random == task.references()["test_score"]["at random"]


# --- Pictures -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rmc", "lstm", "whole", "pacman"])
def test_plot_episode_writes_a_strip_and_a_film(
    name, runs, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    words = ["episode", str(runs / name), "--level", "5", "--out", "."]
    assert plot.main([*words, "--html", "page.html"]) == 0
    title, says, *paths = capsys.readouterr().out.splitlines()
    assert paths == ["episode_5.png", "episode_5.gif", "page.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(paths)
    task, model = restored(runs / name)
    episode = episodes.record(task, model, 5)
    assert title.endswith(", seed 0, step 3") and says == f"{episode.says}."
    with Image.open("episode_5.gif") as film:
        total = 0
        for frame in range(film.n_frames):
            film.seek(frame)
            total += film.info["duration"]
        assert total == 200 * (len(episode) + 1 + 8)  # the last one stays
    before = Path("episode_5.png").read_bytes()
    assert plot.main(words) == 0 and Path("episode_5.png").read_bytes() == before


def test_the_film_shows_each_step(solved, tmp_path):
    """The frame around what is seen moves as the agent does."""
    moves = np.flatnonzero(np.diff(solved.corners[:, 1]))  # to the left or right
    path = episodes.draw(solved, tmp_path, "t")[1]
    places = []
    with Image.open(path) as film:
        for moment in (moves[0], moves[0] + 1):
            film.seek(int(moment))
            picture = np.array(film.convert("RGB")).astype(int)
            red = (picture[..., 0] > 150) & (picture[..., 1:] < 60).all(axis=-1)
            places.append(np.flatnonzero(red.sum(axis=0) > 30).min())
    moved = np.diff(solved.corners[moves[0] : moves[0] + 2, 1])[0]
    assert np.sign(places[1] - places[0]) == moved


# --- The page -------------------------------------------------------------------------


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


def opened(window, page, fragment=""):
    window.open("about:blank")
    window.open(f"{page.as_uri()}#{fragment}")
    asked = [each for each in window.requests if not each.startswith("file:")]
    assert window.complaints == [] and asked == []


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


def text_of(window, name):
    return window.run(f"$('{name}').textContent")


@browser.needed
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_shows_the_step_that_you_choose(width, page, solved, window):
    window.size(width, 800)
    last = len(solved)
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
        assert text_of(window, "value") == f"{solved.values[step]:.2f}"
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
    last = len(solved)
    for name, value in (("step", 2), ("head", 1)):
        window.run(f"$('{name}').value = {value}")
        window.run(f"$('{name}').dispatchEvent(new Event('input'))")
    assert window.run("location.hash") == "#step=2"
    assert text_of(window, "where") == "head 1, before step 3"
    cells = window.run(
        "[...$('matrix').querySelectorAll('td')].map(e => +e.textContent)"
    )
    np.testing.assert_allclose(cells, 100 * solved.attention[2, 0].ravel(), atol=0.8)
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
def test_what_an_agent_lacks_the_page_leaves_out(runs, tmp_path, window):
    window.size(390, 800)
    for name in ("lstm", "whole"):
        path = tmp_path / f"{name}.html"
        episode = episodes.record(*restored(runs / name), 0)
        path.write_text(episodes.page(name, episode), encoding="utf-8")
        opened(window, path)
        shown = {
            element: bool(window.run(f"$('{element}').offsetParent !== null"))
            for element in ("attention", "head-label", "framed", "above")
        }
        attends = name == "whole"
        assert shown == {
            "attention": attends,
            "head-label": attends,
            "framed": not attends,
            "above": not attends,
        }


# --- The terminal ---------------------------------------------------------------------


def test_an_agent_plays_and_says_what_it_attends_to(agent):
    game = play.Watched(*agent, seed=3)
    assert "agent:" not in game.screen() and game.pause
    ends = 0
    for _ in range(150):
        assert game.press("")
        ends += game.steps == 0
        said, attends = game.screen().splitlines()[-2:]
        name, sure = re.fullmatch(
            r"agent: (\w+), (\d+) % sure, value -?[\d.]+", said
        ).groups()
        assert name in game.world.action_names and 0 < int(sure) <= 100
        shares = [int(x) for x in re.findall(r"(\d+) %", attends)]
        assert re.findall("slot 1|slot 2|input", attends) == [
            "slot 1",
            "slot 2",
            "input",
        ]
        assert sum(shares) == pytest.approx(100, abs=2)
    assert ends > 1 and re.search(
        r"last level: (not )?solved after \d+ steps", game.screen()
    )
    game.press(" ")
    assert game.pause is None
    before = game.steps
    assert game.press("\x1b[C") and game.steps in (before + 1, 0)
    assert game.press("\x1b[A") and game.press("v") and game.whole
    game.press("n")
    assert game.steps == 0 and "agent:" not in game.screen() and not game.press("q")


def test_an_agent_that_is_watched_keeps_its_memory(agent):
    """Two games of one seed are alike; without the carried state they would not be."""
    games = [play.Watched(*agent, seed=1) for _ in range(2)]
    for _ in range(5):
        for game in games:
            game.step()
    assert games[0].told == games[1].told
    first = {name: x for name, x in games[0].carry.items() if name.startswith("state")}
    assert first and all(np.abs(x).sum() for x in first.values())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such terminals")
def test_in_a_real_terminal_it_goes_on_by_itself(runs):
    import pty

    leader, follower = pty.openpty()
    words = [sys.executable, "-m", "tinyrmc.play", "box_world", "--agent", runs / "rmc"]
    root = Path(__file__).resolve().parent.parent
    with subprocess.Popen(
        words, stdin=follower, stdout=follower, stderr=subprocess.PIPE, cwd=root
    ) as process:
        os.close(follower)
        shown = b""
        while b"steps 2" not in shown:
            shown += os.read(leader, 4096)
        os.write(leader, b"q")
        while b"\x1b[?1049l" not in shown:
            shown += os.read(leader, 4096)
        process.wait()
        os.close(leader)
        assert process.returncode == 0 and process.stderr.read() == b""
    assert b"attends to slot 1" in shown


# --- Words that cannot be -------------------------------------------------------------


@pytest.mark.parametrize(
    "command, words, says",
    [
        (plot, "episode nowhere", "nowhere"),
        (
            plot,
            "episode nth",
            "nth is a run of 'nth_farthest', which has no world to play in; give one "
            "of box_world or mini_pacman",
        ),
        (
            plot,
            "episode rmc --level 40",
            "there is no level 40; held-out levels are numbered 0 to 39",
        ),
        (plot, "episode rmc --level -1", "there is no level -1"),
        (plot, "episode rmc --level 1 --wrong", "not allowed with argument --level"),
        (plot, "episode rmc --out no", "--out no is not a folder; make it first"),
        (plot, "episode rmc --html page.png", "give a file name that ends in .html"),
        (play, "box_world --agent nth", "which has no world to play in"),
        (
            play,
            "box_world --agent pacman",
            "pacman is a run of 'mini_pacman', whose agent cannot play box_world",
        ),
        (play, "box_world --greedy", "--greedy says how an agent plays"),
        (play, "box_world --agent rmc", "play needs a terminal"),
    ],
)
def test_bad_words_get_one_line_and_write_nothing(
    command, words, says, runs, monkeypatch, capsys
):
    monkeypatch.chdir(runs)
    before = {*runs.rglob("*")}
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: command.main(words.split()))
    out, err = capsys.readouterr()
    assert caught.value.code == 2 and not out
    assert err.startswith("error: ") and err.count("\n") == 1 and says in err
    assert {*runs.rglob("*")} == before
