"""The register of conclusions: each registered sentence stands in its chapter with the
numbers that were measured, and these say what it says.
"""

import functools
import re
import textwrap

import nbformat
import numpy as np
import pytest
import register
from build import HERE
from register import Chapter, load, needed, rates, shared, text_of

from tinyrmc import course
from tinyrmc.course import evidence
from tinyrmc.course.evidence import Measured, Seeds, by_chance

FILES = register.chapters()
LONGEST = 40 * 60 * 2  # seconds, 40 minutes of two cores


@pytest.fixture
def loaded_once(monkeypatch):
    """A file of claims runs parts of chapters, which takes a second: once for all."""
    monkeypatch.setattr(register, "load", loaded)


loaded = functools.cache(load)


def claims():
    """(file, name, function, what is stored of it) of every claim."""
    for path in FILES:
        known = register.stored(path)["claims"]
        functions = loaded(path)[1]
        assert functions.keys() == known.keys(), f"`make claims ARGS={path.stem}`"
        for name, function in functions.items():
            yield path, name, function, known[name]


def test_each_claim_has_been_measured_as_it_stands(loaded_once):
    for path, name, function, known in claims():
        remedy = f"{path.stem} {name} changed: `make claims ARGS='--new {path.stem}'`"
        assert known["code"] == register.digest(path, name), remedy
        assert known["show"] == function.show, remedy


def test_each_claim_holds_for_its_numbers_and_stands_in_its_chapter_with_them():
    for path, name, function, known in claims():
        numbers = Measured(known["numbers"], known["show"])
        assert function.holds(numbers), f"{path.stem} {name}: {numbers}"
        found = register.sentences(function, numbers)
        assert all(found), f"{path.stem} {name} has no sentence"
        for sentence in found:
            says = f"chapter {path.stem} should say: {sentence}"
            assert sentence in text_of(path.stem), says


def test_what_a_notebook_shows_of_the_register_is_what_stands_there():
    for path in FILES:
        (notebook,) = HERE.glob(f"{path.stem}_*.ipynb")
        cells = nbformat.read(notebook, as_version=4).cells
        for cell in cells:
            for number, name in re.findall(r'measured\((\d+), "(\w+)"\)', cell.source):
                shown = str([o.get("text", o.get("data")) for o in cell.outputs])
                for row in repr(course.measured(int(number), name)).splitlines():
                    assert row in shown, f"`make chapters ARGS={path.stem}`"


def test_all_can_be_measured_in_forty_minutes_of_two_cores():
    assert sum(known["seconds"] for *_, known in claims()) < LONGEST


# --- The machinery --------------------------------------------------------------------

SOURCE = '''
import math
import numpy as np
SLOW = 1 / 0

x = 3
def twice(x): return 2 * x
def other(): return SLOW
print(x)
size = twice(x)
def all_of(n):
    """Used."""
    return [twice(k) * size + np.ones(1) for k in range(n)]
size = 5
'''


def test_a_claim_takes_of_a_chapter_what_it_needs_and_nothing_else():
    code = needed(SOURCE, "all_of")
    names = {}
    exec(code, names)
    assert names["all_of"](2)[1] == 2 * 6 + 1
    assert not {"math", "SLOW", "other"} & names.keys() and "print" not in code


def test_what_is_not_asked_for_is_refused_by_name():
    chapter = Chapter("09", "sequences")
    assert chapter.sequences(4)(0)[0].shape == (4, 32, 2)
    with pytest.raises(AttributeError, match="keep_a_bit is not among"):
        _ = chapter.keep_a_bit


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes files of claims, and a chapter, in an empty folder."""
    (tmp_path / "claims").mkdir()
    (tmp_path / "source").mkdir()
    monkeypatch.setattr(register, "HERE", tmp_path)
    monkeypatch.setattr(register, "CLAIMS", tmp_path / "claims")

    def write(claims, chapter="", number="01"):
        path = tmp_path / "claims" / f"{number}.py"
        path.write_text(
            "from register import claim, Chapter\n" + textwrap.dedent(claims)
        )
        text = textwrap.dedent(chapter)
        (tmp_path / "source" / f"{number}_numbers.py").write_text(text)
        return path

    return write


HIGH = '''
chapter = Chapter("01", "data")

@claim(lambda n: n["high"].low > {}, show=".1f")
def it_is_high():
    """{} {{high:.1f}}."""
    return {{"high": [chapter.data * {} + k for k in range(3)]}}

@claim(lambda n: True)
def another():
    """B{}."""
    return {{"one": 1}}
'''
CHAPTER = "# The data are\n# high: 3.0 (2.0 to 4.0). B.\nother, data = 1, 2  # {}\n{}"


def test_a_claim_is_measured_printed_and_held_against_the_chapter(written, capsys):
    path = written(HIGH.format(1, "The data are high:", 1, ""), CHAPTER.format("", ""))
    for name in ("it_is_high", "another"):
        assert register.enter(path, name, register.measure(path, name))
    assert register.stored(path)["claims"]["it_is_high"]["numbers"] == {
        "high": [2.0, 3.0, 4.0]
    }
    out = capsys.readouterr().out
    assert "01 it_is_high holds, 0 s\nhigh  3.0 (2.0 to 4.0), 3 seeds\n" in out
    assert "should say" not in out
    written(HIGH.format(2, "The data are not high:", 1, ""), CHAPTER.format("", ""))
    assert not register.enter(path, "it_is_high", register.measure(path, "it_is_high"))
    out = capsys.readouterr().out
    assert "01 it_is_high does NOT hold" in out
    assert "The chapter should say: The data are not high: 3.0 (2.0 to 4.0)." in out


def test_only_code_that_measures_asks_for_a_new_measurement(written):
    def digests(claims, chapter):
        path = written(claims, chapter)
        return [register.digest(path, name) for name in ("it_is_high", "another")]

    before = digests(HIGH.format(1, "High", 1, ""), CHAPTER.format("", ""))
    words = digests(HIGH.format(0, "Higher", 1, "!"), CHAPTER.format("why", "# End"))
    assert words == before
    alone = digests(HIGH.format(1, "High", 2, ""), CHAPTER.format("", ""))
    assert alone[0] != before[0] and alone[1] == before[1]
    called = CHAPTER.format("", "data = other")
    both = digests(HIGH.format(1, "High", 1, ""), called)
    assert both[0] != before[0] and both[1] == before[1]

    def calling(code):
        return digests(HIGH.format(1, "High", 1, ""), CHAPTER.format("", code))

    def of_steps(words):
        return calling(f"from tinyrmc import course\ndata = course.fast({words})")

    assert of_steps("9, 1") == of_steps("9, 1, 4") != of_steps("8, 1, 4")

    one, other, more = (
        calling(f"def given():\n  '''{words}'''\n  return {x}\ndata = given()")
        for words, x in (("Give 1.", 1), ("Gives one.", 1), ("Give 1.", 2))
    )
    assert one == other != more


def test_a_chapter_without_claims_is_refused_in_one_line(capsys):
    assert register.main(["99"]) == 2
    assert capsys.readouterr().err.startswith("error: no claims for 99; for ")
    with pytest.raises(ValueError, match="chapter 99 has no claims"):
        course.measured(99, "anything")


def test_three_rates_lie_three_apart_and_shared_examples_are_counted():
    low, middle, high = rates(0.3)
    assert (middle / low, high / middle) == pytest.approx((3, 3)) and middle == 0.3
    seen = np.arange(12).reshape(4, 3)
    assert shared(seen, seen[[0, 0, 3]]) == 3
    assert shared(seen, seen[:, ::-1]) == 0 and shared(seen.T[:, :3], seen[:3].T) == 3


def test_an_interval_says_how_far_the_seeds_lie_apart():
    assert f"{Seeds([0.5, 0.25, 0.75]):.0%}" == "50 % (25 to 75)"
    assert f"{Seeds([0.996, 1]):.0%}" == "100 %"  # what cannot be seen is not said
    assert f"{Seeds(0.125):.2f}" == "0.12" == f"{Seeds([0.125]):.2f}"
    numbers = Measured({"a": [1, 2], "bcd": [3]}, ".1f")
    assert repr(numbers) == "a    1.5 (1.0 to 2.0), 2 seeds\nbcd  3.0"


def test_chance_is_counted_over_all_ways_to_deal_the_seeds():
    assert by_chance([4, 5, 6], [1, 2, 3]) == 1 / 20
    assert by_chance([1, 2, 3], [4, 5, 6]) == 1
    assert by_chance([1, 2], [1, 2]) == 5 / 6  # of six sums 2 3 3 3 3 4, one is below 3
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 20))
    assert by_chance([3], [2]) == 1 / 2 and by_chance([2], [2]) == 1
    assert by_chance([9, 9], [1, 1, 1, 1]) == 1 / 15  # unequal sizes
    assert 0 < by_chance(a + 99, b) < 1 / 10_000  # the way that was seen is one
    for larger, smaller in (([np.nan, 2], [1]), ([1], [np.inf]), ([], [1]), ([1], [])):
        with pytest.raises(ValueError, match="finite numbers in both groups"):
            by_chance(larger, smaller)
    assert by_chance(a + 2, b) < 0.001 and 0.01 < by_chance(a, b) < 0.99


def test_one_is_ahead_of_another_or_chance_may_explain_it():
    numbers = Measured({"high": [4, 5, 6], "low": [1, 2, 3], "as high": [4, 5, 7]})
    assert register.ahead(numbers, "high", "low")
    assert not register.ahead(numbers, "high", "low", level=0.04)
    assert not register.ahead(numbers, "high", "low", "as high")
    assert register.even(numbers, "high", "as high")
    assert not register.even(numbers, "low", "high")


def test_numbers_come_from_the_package_where_it_is_installed(tmp_path, monkeypatch):
    words = '{"claims": {"x": {"show": ".0f", "numbers": {"y": [7, 9]}}}}'
    (tmp_path / "03.json").write_text(words)
    monkeypatch.setattr(evidence, "CLAIMS", (tmp_path / "nowhere", tmp_path))
    assert repr(course.measured(3, "x")) == "y  8 (7 to 9), 2 seeds"
