"""Numbers written aligned or reversed: a reader that knows nothing of how they are made
turns each text back into the usual one, and the interpreter computes.
"""

import itertools
import json

import numpy as np
from programhelp import PROGRAMS, DataConfig, Reader, drawn, programs, task_of, texts_of

WRITINGS = ("usual", "aligned", "reversed")
PAIRS = [*itertools.product(WRITINGS, WRITINGS)][1:]  # all but the usual of both


def usual(digits, how):
    """The digits of a number, the highest first, no zeros in front."""
    if how == "reversed":
        backwards = ""
        for digit in digits:
            backwards = digit + backwards
        digits = backwards
    if how == "aligned":
        while len(digits) > 1 and digits[0] == "0":
            digits = digits[1:]
    return digits


def numbers_of(text):
    """The numbers of a program but for how often a loop goes round, and the text with a
    # for each, character by character.
    """
    found, rest, inside = [], "", False
    for before, character in itertools.pairwise(f"${text}"):
        if character not in "0123456789" or before == "[":
            rest, inside = rest + character, False
            continue
        if not inside:
            found.append("")
            rest, inside = f"{rest}#", True
        found[-1] += character
    return found, rest


def usually(text, how):
    """A program with its numbers as usual."""
    found, rest = numbers_of(text)
    for number in found:
        rest = rest.replace("#", usual(number, how), 1)
    return rest


def test_the_value_is_that_of_the_usual_text():
    for mixed, (operands, answers) in itertools.product([False, True], PAIRS):
        data = dict(kind="program", length=4, nesting=2, mixed=mixed)
        texts, written = drawn(300, operands=operands, answers=answers, **data)
        zeros = 0
        for text, answer in zip(texts, written, strict=True):
            reader = Reader(usually(text, operands))
            value = reader.value()
            (own,) = digits = {len(number) for number in reader.numbers}
            assert mixed or digits == {4}
            assert usual(answer, answers) == str(value % 10 ** (own + 1))
            plain, _ = numbers_of(text)
            if operands == "aligned":
                assert {len(number) for number in plain} == {4}
            if answers == "aligned":
                assert len(answer) == 5
            zeros += sum(number[0] == "0" for number in plain)
        # short numbers are among the aligned ones, round ones among the reversed
        among = operands == "reversed" or (operands == "aligned" and mixed)
        assert bool(zeros) == among


def test_only_the_writing_differs():
    """The same seed draws the same programs, and the arrays are no wider."""
    for kind in PROGRAMS:
        as_usual = drawn(50, kind=kind, length=3, nesting=2)
        for how in ("aligned", "reversed"):
            data = {"kind": kind, "length": 3, "nesting": 2, "operands": how}
            texts, answers = drawn(50, **data, answers=how)
            assert [len(text) for text in texts] == [len(text) for text in as_usual[0]]
            both = {}, {"operands": how, "answers": how}
            one, other = (programs.layout(DataConfig(kind, 3, 2, **x)) for x in both)
            assert one == other
            plain = [usual(answer, how) for answer in answers]
            assert plain == as_usual[1]


def test_a_batch_has_the_lengths_of_what_is_written():
    task = task_of(kind="addition", length=3, answers="aligned", curriculum="mix")
    batch = task.draw_training(np.random.default_rng(0), 100)
    _, answers = texts_of(batch, "release")
    assert {len(answer) for answer in answers} == {4} == {*batch["target_lengths"]}


def test_old_runs_are_written_as_usual():
    from tinyrmc import config

    kept = json.loads(json.dumps(config.to_json(DataConfig("addition"))["config"]))
    del kept["operands"], kept["answers"]
    assert config.from_json(DataConfig, kept) == DataConfig("addition")
