"""What documents say of worlds: their speed, and a page of the website for each."""

import json

import pytest
import report
import stories
import world_pages
import worlds

from tinyrmc.environments import IDS, pacman
from tinyrmc.environments.box_levels import COLOUR, FLOOR, GEM, WALL
from tinyrmc.environments.box_world import BoxWorld


def test_the_benchmark_measures_every_row_and_prints_its_tables(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(worlds, "LEVELS", (4, 8))
    monkeypatch.setattr(worlds, "MADE", 16)
    out = tmp_path / "worlds.json"
    words = ["--rounds", "1", "--seconds", "0.001", "--out", str(out)]
    assert worlds.main(words) == 0
    found = json.loads(out.read_text())
    assert capsys.readouterr().out == report.markdown(found)
    assert [row["world"] for row in found["worlds"]] == [*worlds.worlds()]
    for row in found["worlds"]:
        assert [*row["levels"]] == ["4", "8"] and min(row["levels"].values()) > 0


def test_the_benchmark_of_stories_adds_up_epochs_of_both_kinds(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(stories, "RESTARTS", (2,))
    out = tmp_path / "stories.json"
    words = ["--generated", "--rounds", "1", "--out", str(out)]
    assert stories.main(words) == 0
    (found,) = json.loads(out.read_text())["stories"]
    (linear,), (softmax,) = found["rounds"].values()
    assert found["seconds"] == pytest.approx(20 * linear + 100 * softmax)
    assert min(linear, softmax) > 0
    said = f"| 5 tasks, restarts: 2 | {found['seconds']:.0f} |"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("id", IDS)
def test_each_id_has_a_page_with_pictures(id, tmp_path):
    text, world = world_pages.world_page(id), world_pages.make(id)
    parts = "Gymnasium Actions Observations Rewards Ends Arguments Film Versions"
    assert [line[3:] for line in text.splitlines() if line[:3] == "## "] == [
        *parts.split()
    ]
    assert f'make("{id}")' in text
    for action, name in enumerate(world.action_names):
        assert f"| {action} | {name} |" in text
    for name, codes in world.observation.items():
        shape = " x ".join(map(str, codes.shape)) or "()"
        said = world_pages.SEEN[type(world)][name]
        assert f"| `{name}` | {shape} | 0 to {codes.highest} | {said} |" in text
    assert "render_mode" in text and "render_whole=False" in text
    world_pages.draw(id, tmp_path)
    pictures = {path.name for path in tmp_path.iterdir()}
    short = world_pages.page_of(id).partition("/")[2]
    assert pictures == {f"{short}.png", f"{short}_film.png"}
    assert all(f"({name})" in text for name in pictures)


def test_pages_name_the_codes_of_what_is_seen():
    box = f"{FLOOR} floor, {WALL} wall, {GEM} the gem, {COLOUR} + c a key or lock"
    assert world_pages.SEEN[BoxWorld]["view"].startswith(box)
    names = "wall", "floor", "food", "pill", "ghost", "pacman"
    maze = ", ".join(f"{getattr(pacman, name.upper())} {name}" for name in names)
    assert world_pages.SEEN[pacman.MiniPacman]["view"].lower() == maze
