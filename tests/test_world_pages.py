"""Each world has a page of the website."""

import world_pages

from tinyrmc.environments import IDS, pacman
from tinyrmc.environments.box_levels import COLOUR, FLOOR, GEM, WALL
from tinyrmc.environments.box_world import BoxWorld


def test_each_id_has_a_page_with_pictures(tmp_path):
    for id in IDS:
        check_page(id, tmp_path / id.replace("/", "-"))


def check_page(id, folder):
    folder.mkdir()
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
    world_pages.draw(id, folder)
    pictures = {path.name for path in folder.iterdir()}
    short = world_pages.page_of(id).partition("/")[2]
    assert pictures == {f"{short}.png", f"{short}_film.png"}
    assert all(f"({name})" in text for name in pictures)


def test_pages_name_the_codes_of_what_is_seen():
    box = f"{FLOOR} floor, {WALL} wall, {GEM} the gem, {COLOUR} + c a key or lock"
    assert world_pages.SEEN[BoxWorld]["view"].startswith(box)
    names = "wall", "floor", "food", "pill", "ghost", "pacman"
    maze = ", ".join(f"{getattr(pacman, name.upper())} {name}" for name in names)
    assert world_pages.SEEN[pacman.MiniPacman]["view"].lower() == maze
