"""The programs of program_evaluation: each against an interpreter of its own (see
programhelp.py), their distribution, and refusals.
"""

import itertools
import re

import numpy as np
import pytest
from programhelp import (
    MEMORY,
    PROGRAMS,
    STYLES,
    DataConfig,
    Reader,
    drawn,
    programs,
    run_lte,
    run_python,
    task_of,
    texts_of,
    within,
)

from tinyrmc.training import HELD_OUT_SEED, Samples

KNOWN = [  # the module's own examples, and answers that have been checked by hand
    ("12345+67890", 80235),
    ("(81890+26992)+25059", 133941),
    ("(51263-18406)if90173>44187else26350", 32857),
    ("(51263-18406)if90173<44187else26350", 26350),
    ("x=(38748-25542)for[7]x+=96709", 690169),
    ("3-(2-9)", 10),
    ("x=2for[3]x+=(5*4)", 62),
]
KNOWN_LTE = [  # the example of Learning to Execute, and two more
    ("j=8584#for x in range(8):j+=920#b=(1500+j)#print((b+7567))@", 25011),
    ("i=8827#c=(i-5347)#print(((c+8704) if 2641>8500 else 5308))@", 5308),
    ("print((((3*12)-100)*4))@", -256),
]


def test_the_interpreter_of_the_release():
    for text, value in KNOWN:
        assert Reader(text).value() == value


def test_the_interpreter_of_learning_to_execute():
    for text, value in KNOWN_LTE:
        assert run_lte(text) == run_python(text) == value


def test_the_modules_own_examples_are_right():
    """Programs and answers printed in the module's text."""
    printed = {
        kind: (text, answer)
        for kind, text, answer in re.findall(
            r"^    (\w+) +(\S+) +-> (\d+)$", programs.__doc__, re.MULTILINE
        )
    }
    assert list(printed) == [*PROGRAMS, *MEMORY]
    for text, answer in map(printed.get, PROGRAMS):
        assert str(Reader(text).value() % 10**6) == answer
    (lte,) = re.findall(r"^    (.*@) +-> (\S+)$", programs.__doc__, re.MULTILINE)
    assert lte == (KNOWN_LTE[0][0], "25011.")


def test_the_modules_own_operations_are_those_of_the_kinds():
    row = r"^    (\w+) +(add(?:, \w+)*)"
    printed = dict(re.findall(row, programs.__doc__, re.MULTILINE))
    assert {kind: tuple(says.split(", ")) for kind, says in printed.items()} == (
        programs.OPERATIONS["release"]
    )


def test_a_program_is_written_from_its_operations():
    """The published form of each operation, nested once; variables and rounds are those
    given.
    """
    forms = programs.FORMS["release"]
    inner = (forms["subtract"][0], [38748, 25542, 1, 1], 1, 0.0, "")
    text, value = programs.write_program(
        [inner, (forms["for"][0], [1, 96709, 1, 1], 7, 0.0, "")], "release"
    )
    assert (text, value) == ("x=(38748-25542)for[7]x+=96709", 690169)
    text, value = programs.write_program(
        [inner, (forms["if"][1], [1, 2, 3, 4], 7, 0.5, "")], "release"
    )
    assert (text, value) == ("1if2<(38748-25542)else4", 1)
    forms = programs.FORMS["lte"]
    levels = [
        (forms["for"][0], [8584, 920, 0, 0], 8, 0.0, "j"),
        (forms["assign"][0], [1500, 0, 0, 0], 1, 0.9, "b"),
        (forms["add"][0], [0, 7567, 0, 0], 1, 0.0, "a"),
    ]
    assert programs.write_program(levels, "lte") == (
        "j=8584#for x in range(8):j+=920#b=1500#print(((b+j)+7567))@",
        25011,
    )


# --- What is generated ----------------------------------------------------------------


RELEASE = {
    "addition": {"+"},
    "control": {"+", "-", "if>", "if<"},
    "program": {"+", "-", "*", "if>", "if<", "for"},
}


def test_every_release_program_has_the_value_of_the_interpreter():
    sizes = [(1, 1), (1, 3), (5, 2), (6, 3), (3, 5)]
    for place, size, kind in itertools.product(["first", "random"], sizes, PROGRAMS):
        data = dict(zip(("length", "nesting"), size, strict=True))
        texts, answers = drawn(400, kind=kind, nest_position=place, **data)
        length, nesting = size
        seen = set()
        for text, answer in zip(texts, answers, strict=True):
            reader = Reader(text)
            assert answer == str(reader.value() % 10 ** (length + 1))
            assert len(reader.operations) == nesting
            assert {len(number) for number in reader.numbers} == {length}
            assert not any(number.startswith("0") for number in reader.numbers)
            assert all(1 <= k <= 9 for k in reader.rounds)
            if place == "first":
                assert re.match(r"(x=\(|\()*(x=)?[0-9]", text)
                assert not re.search(r"[^=(]\(", text)
            seen |= set(reader.operations)
        assert seen == RELEASE[kind]
        if nesting > 1 and place == "random" and kind != "addition":
            assert any(re.search(r"[^=(]\(", text) for text in texts)


def test_every_program_of_learning_to_execute_has_the_value_of_two_interpreters():
    sizes = [(1, 1), (2, 3), (4, 3), (3, 10)]
    for place, size, kind in itertools.product([None, "first"], sizes, PROGRAMS):
        data = dict(zip(("length", "nesting"), size, strict=True))
        texts, answers = drawn(300, kind=kind, style="lte", nest_position=place, **data)
        length, _ = size
        for text, answer in zip(texts, answers, strict=True):
            assert answer == f"{run_lte(text)}." == f"{run_python(text)}."
            rounds = map(int, re.findall(r"range\(([0-9]+)\)", text))
            assert all(1 <= k <= 4 * length for k in rounds)
            numbers = re.findall(r"(?<!range\()(?<![0-9])[0-9]+", text)
            assert all(1 <= int(n) <= 10**length or n == "0" for n in numbers)


def test_memory_tasks():
    for kind in MEMORY:
        texts, answers = drawn(300, kind=kind, length=7)
        assert all(re.fullmatch(r"[1-9][0-9]{6}", text) for text in texts)
        assert len(set(texts)) > 290
        ways = {
            "copy": lambda text: text,
            "reverse": lambda text: "".join(reversed(text)),
            "double": lambda text: 2 * text,
        }
        assert answers == [ways[kind](text) for text in texts]
        shown, numbers = drawn(300, kind=kind, length=7, style="lte")
        assert all(re.fullmatch(r"[1-9][0-9]{6}\.", number) for number in numbers)
        expected = [ways[kind](number[:-1]) for number in numbers]
        assert [text[:-1] for text in shown] == expected
        assert {text[-1] for text in shown} == {"@"}


def test_operations_of_learning_to_execute_are_uniform():
    texts, _ = drawn(12_000, kind="program", style="lte", length=2, operations=())
    kinds = {
        "for": lambda s: "for" in s,
        "assign": lambda s: "=" in s and "for" not in s,
        "if": lambda s: " if " in s,
        "multiply": lambda s: "*" in s,
        "identity": lambda s: bool(re.fullmatch(r"print\([0-9]+\)@", s)),
        "pair": lambda s: bool(re.fullmatch(r"print\(\([0-9]+[+-][0-9]+\)\)@", s)),
    }
    within([sum(map(test, texts)) for test in kinds.values()], [1 / 6] * 6, len(texts))
    numbers = [
        int(re.search(r"\(([0-9]+)\)", text)[1])
        for text in texts
        if kinds["identity"](text)
    ]
    assert min(numbers) == 1 and max(numbers) == 100
    factors = [
        int(f)
        for text in texts
        for f in re.findall(r"\*([0-9]+)\)|range\(([0-9]+)", text)
        for f in f
        if f and kinds["for"](text)
    ]
    within(np.bincount(factors)[1:], [1 / 8] * 8, len(factors))
    signs = [re.search(r"[+-]", text)[0] for text in texts if kinds["pair"](text)]
    within([signs.count("+")], [0.5], len(signs))
    variables = [text[0] for text in texts if "=" in text]
    within(
        [variables.count(letter) for letter in "abcdefghij"], [0.1] * 10, len(variables)
    )


def test_the_nested_operand_is_anywhere():
    for style, operations, slots in [
        ("release", ("if",), 4),
        ("lte", ("if",), 4),
        ("release", ("for",), 2),
        ("lte", ("pair",), 2),
    ]:
        data = dict(kind="program", style=style, operations=operations)
        texts, _ = drawn(8000, **data, nesting=2, length=3, nest_position="random")
        opening, places = "." * (style == "release"), []
        inner = r"(?<=.)\((x=)?[0-9]+[^()]*[0-9]\)"
        for text in texts:
            marked = re.sub(inner, "N", opening + text.removeprefix("print("))
            before = re.findall(r"(?<![\[0-9])[0-9]{2,}", marked.split("N")[0])
            places.append(len(before))
        counts = np.bincount(places, minlength=slots)[:slots]
        within(counts, [1 / slots] * slots, len(places))


@pytest.mark.slow
def test_the_arrays_are_as_wide_as_the_longest_program():
    for style in STYLES:
        for length, nesting in ((1, 1), (2, 2), (5, 1), (5, 2)):
            for kind in PROGRAMS:
                data = DataConfig(kind, length, nesting, style)
                texts, answers = drawn(
                    6000, kind=kind, length=length, nesting=nesting, style=style
                )
                widths, longest = (
                    programs.layout(data),
                    (max(map(len, texts)), max(map(len, answers))),
                )
                if style == "release":
                    assert longest[0] == widths.inputs and widths.places == 2 * length
                    assert longest[1] == widths.answers == length + 1 or (
                        kind,
                        nesting,
                        length,
                    ) == ("control", 1, 1)
                else:  # 10^L is too rare to be drawn everywhere
                    assert longest[0] <= widths.inputs
                    assert longest[1] <= widths.answers == widths.places
        for kind in MEMORY:
            texts, answers = drawn(10, kind=kind, style=style)
            widths = programs.layout(DataConfig(kind, style=style))
            assert {len(text) for text in texts} == {widths.inputs}
            assert {len(answer) for answer in answers} == {widths.answers}
            assert style == "lte" or widths.places == widths.answers + 1


def test_the_released_symbols():
    symbols = programs.SYMBOLS["release"]
    assert len(symbols) == len(set(symbols)) == 45
    assert symbols[:4] == ("_unk_", "_null_", "_eos_", "|")
    assert list(symbols[4:]) == sorted(symbols[4:])
    assert {"else", "for", "if", "range", "~", "!", "."} < set(symbols)
    assert len(set(programs.SYMBOLS["lte"])) == len(programs.SYMBOLS["lte"])
    used = set("".join(drawn(2000, kind="program", nesting=2)[0]))
    assert len(used) == 28  # as the module's text says
    for style in STYLES:
        for kind in (*PROGRAMS, *MEMORY):
            batch = task_of(kind=kind, style=style).draw(np.random.default_rng(0), 50)
            assert batch["inputs"].min() >= 0 <= batch["targets"].min()
            assert batch["inputs"].dtype == batch["targets"].dtype == np.int64


def outermost(text):
    """The name of a program's last operation, from its text."""
    depth, outer = 0, ""
    for character in text:
        depth += (character == "(") - (character == ")")
        outer += character if depth == 0 else ""
    signs = {"for": "for", "if": "if", "*": "multiply", "-": "subtract", "+": "add"}
    return next(name for sign, name in signs.items() if sign in outer)


def test_accuracy_is_taken_apart_by_place_and_by_operation(monkeypatch):
    task = task_of(kind="control", length=2, nesting=2)
    monkeypatch.setattr(type(task), "test_examples", 300)
    batch = Samples(task.draw, HELD_OUT_SEED).batch(0, 0, 300)
    texts, targets = texts_of(batch, "release")
    # a network that knows sums, and writes nines otherwise
    sums = [outermost(text) == "add" for text in texts]
    nine = programs.SYMBOLS["release"].index("9")
    answers = np.where(np.array(sums)[:, None], batch["targets"], nine)
    monkeypatch.setattr(task, "_answers", lambda *of: answers)
    found = dict(task.analyses(None))
    assert list(found) == list(task.analysis_titles) == ["by place", "by operation"]
    for place, count, right, constant in found["by place"].rows:
        at = [
            (target[place - 1] == "9" or is_sum)
            for target, is_sum in zip(targets, sums, strict=True)
            if len(target) >= place
        ]
        assert (count, right) == (len(at), pytest.approx(np.mean(at)))
        assert 0 <= constant <= 1
    assert [row[0] for row in found["by place"].rows] == [1, 2, 3]
    for name, count, right, whole in found["by operation"].rows:
        of = [
            t for t, text in zip(targets, texts, strict=True) if outermost(text) == name
        ]
        nines = sum(t.count("9") for t in of) / sum(map(len, of))
        assert count == len(of)
        assert right == pytest.approx(1 if name == "add" else nines)
        wholes = np.mean([set(t) == {"9"} for t in of])
        assert whole == pytest.approx(1 if name == "add" else wholes)
