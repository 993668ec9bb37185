"""The time of a chapter is counted in one place; the heads and the map have its number,
and the core road takes at most ten hours.
"""

import json
import re

import build
import chapter_map
import nbformat
import pytest
import times

from tinyrmc.course.exercises import attention, checking

REMEDY = "python chapters/times.py --write brings it up to date"
NEAR = 15  # minutes: a chapter's text may change a little without its head
TELLS = re.compile(r"About (\d+) minutes(?: \((\d+) on the core road\))?")
ENTRY = re.compile(r"\((\d\d)_\w+\.ipynb\)(?:\*\*)?, (?:(\d+) of )?(\d+) min:")


def chapter(*cells):
    """The parts of a chapter with these cells: texts, or (code, exercises checked)."""
    made = [
        {"cell_type": "code", "source": each[1:], "metadata": {}, "outputs": []}
        if each.startswith("!")
        else {"cell_type": "markdown", "source": each, "metadata": {}}
        for each in cells
    ]
    return times.Times([*times._parts(made, True)])


def test_minutes_are_counted_from_words_code_and_exercises():
    code = "!from tinyrmc.course.exercises import attention as ex\n" + "x = 1\n" * 14
    found = chapter("one two $a b c$ " * 25, code)
    assert found.all == pytest.approx(75 / 75 + 15 / 7.5)
    cell = "!def softmax(x):\n    ...\n\n\nex.softmax.check(softmax)"
    more = chapter("one two $a b c$ " * 25, code, cell, cell)  # which counts once
    lines = times.to_type(attention.softmax, cell[1:])
    assert lines == 2 or lines == 3
    longer, checks = times.tried()
    assert 1 < checks < 2
    exercise = 2 + 1.75 * longer * lines + 3 * (checks + times.MORE)
    assert more.all == pytest.approx(found.all + exercise + 2 * 3 / 7.5)
    begun = "def steps_back(x):\n" + checking.steps_back.begun
    assert 0 < times.to_type(checking.steps_back, begun) <= 3  # a line is wrong there


def test_extra_sections_and_places_to_stop_divide_a_chapter():
    found = chapter(
        "word " * 750,
        "## One\n\n*Extra: more of it.*\n\n" + "word " * 744,
        "word " * 75 + "a good place\nto stop " + "word " * 70,
        "## Two\n\n" + "word " * 73,
    )
    assert found.core == pytest.approx(11, abs=0.1)
    assert found.all == pytest.approx(23, abs=0.2)
    assert found.sittings == pytest.approx([21, 2], abs=0.2)


def test_heads_and_map_tell_the_minutes_that_are_counted():
    listed = {
        number: (int(core or whole), int(whole))
        for number, core, whole in ENTRY.findall(
            (times.HERE / "README.md").read_text(encoding="utf-8")
        )
    }
    for number, path in times.notebooks().items():
        if number in times.AS_YOU_LIKE:
            continue
        found = times.times(number)
        head = "".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"])
        whole, core = TELLS.search(" ".join(head.split())).groups()
        core = core or whole
        near = abs(int(whole) - found.all) <= NEAR
        if number in times.CORE:
            near &= abs(int(core) - found.core) <= NEAR
        assert near, f"{path.stem}: its head; {REMEDY}"
        core_listed, whole_listed = listed[number]
        assert abs(whole_listed - found.all) <= NEAR, f"{path.stem}: the map; {REMEDY}"
        if number in times.CORE:
            assert abs(core_listed - found.core) <= NEAR, f"{path.stem}: {REMEDY}"


def test_the_core_road_takes_at_most_ten_hours():
    assert sum(times.road().values()) <= times.TEN_HOURS
    text = (times.HERE / "README.md").read_text(encoding="utf-8")
    hours = " ".join(times.HOURS.search(text)[0].split())
    told = sum(
        int(n) * (60 if "hour" in word else 1)
        for n, word in re.findall(r"(\d+) (hour|minute)", hours)
    )
    assert abs(told - sum(times.road().values())) <= 40, REMEDY


def test_the_tries_are_of_the_exercises_of_the_core_road():
    road = {
        name
        for number in times.CORE
        for part in times.times(number).parts
        if part.core
        for name in part.exercises
    }
    tries = json.loads((times.HERE / "tries.json").read_text(encoding="utf-8"))
    assert tries.keys() == road
    assert {len(each[kind]) for each in tries.values() for kind in each} == {3}


def test_times_are_written_into_head_and_map():
    source = build.sources(["06"])[0].read_text(encoding="utf-8")
    changed = re.sub(r"About \d+\s(?:# )?minutes", "About 999 minutes", source, count=1)
    assert changed != source
    assert times.head_of(changed, "06") == times.head_of(source, "06")
    assert "999" not in times.head_of(changed, "06")
    listed = "- **[0. A](00_a.ipynb)**, 7 min:\n- [2. P](02_p.ipynb), 3 min:"
    shown = times.map_of(listed)
    assert f" of {times.rounded(times.times('00').all)} min:" in shown
    assert shown.endswith("), as long as you like:")


def test_on_the_map_numbers_rise_along_every_road():
    text = (times.HERE / "README.md").read_text(encoding="utf-8")
    block = chapter_map.BLOCK.search(text)[1]
    core, side = [], []
    for indent, item in chapter_map.ITEM.findall(block):
        if entry := chapter_map.CHAPTER.match(" ".join(item.split())):
            number = int(entry["number"])
            if indent:
                assert number > max(core[-1], side[-1] if side else -1)
                side.append(number)
            else:
                core.append(number)
                side = []
        else:
            side = []
    assert core == sorted(core) == [int(number) for number in times.CORE]


def test_the_map_is_drawn_with_all_its_stations():
    text = (times.HERE / "README.md").read_text(encoding="utf-8")
    drawn = chapter_map.drawn(text)
    links = re.findall(
        r'<a class="(core|extra)" href="(\w+)\.html"><b>(\d+)</b>', drawn
    )
    assert sorted(name for _, name, _ in links) == [
        path.stem for path in times.notebooks().values()
    ]
    assert {int(n) for kind, _, n in links if kind == "core"} == {*map(int, times.CORE)}
    for tag in ("ol", "ul", "li", "section", "p", "a"):
        assert len(re.findall(rf"<{tag}\b", drawn)) == drawn.count(f"</{tag}>")
    assert "<!-- map" not in drawn and drawn.count("```") % 2 == 0


def test_a_notebook_is_as_its_source_after_its_head_was_written():
    for source in build.sources():
        first = nbformat.read(times.HERE / f"{source.stem}.ipynb", 4).cells[0]
        assert first.source == build.read(source).cells[0].source, source.stem
