"""Program evaluation in tests: examples as texts, small networks, and interpreters that
know nothing of how programs are made.

They read the text back from the symbols, parse it and compute; programs of the style
`lte` are Python, and Python is asked too.
"""

import contextlib
import io
import re

import numpy as np

from tinyrmc.training import TrainConfig
from tinyrmc.training.discovery import load_task

programs = load_task("program_evaluation")
DataConfig, ModelConfig = programs.DataConfig, programs.ModelConfig

STYLES = "release", "lte"
PROGRAMS, MEMORY = ("addition", "control", "program"), ("copy", "reverse", "double")


def drawn(count, seed=0, level=None, mixed=False, **data):
    """(texts, answers) of freshly drawn examples."""
    data, rng = DataConfig(**data), np.random.default_rng(seed)
    level = level or (data.length, data.nesting)
    return texts_of(programs.draw(rng, count, data, level, mixed), data.style)


def texts_of(batch, style):
    """(texts, answers) of a batch, which is nothing but full stops beyond their
    lengths.
    """
    found = []
    for symbols, lengths in (("inputs", "lengths"), ("targets", "target_lengths")):
        whole = [programs.decode(row, style) for row in batch[symbols]]
        pairs = [*zip(whole, batch[lengths], strict=True)]
        assert all(set(text[length:]) <= {"."} for text, length in pairs)
        found.append([text[:length] for text, length in pairs])
    return found


def task_of(model=(), train=(), **data):
    """A task with the smallest network that will do."""
    config = programs.Config(
        ModelConfig(mem_slots=2, head_size=3, num_heads=2, **dict(model)),
        DataConfig(**data),
        TrainConfig(batch_size=10, **dict(train)),
    )
    return programs.Task(config)


def network_of(task, dtype=np.float64):
    return task.build(np.random.SeedSequence(1)).astype(dtype)


def mixed_batch(task, count=6, seed=0):
    data = task.config.data
    return programs.draw(np.random.default_rng(seed), count, data, task.full, True)


def answered(model, batch, decoder, steps, **keywords):
    return model(
        batch["inputs"], batch["lengths"], steps, decoder, batch["targets"], **keywords
    )


def within(counts, fractions, total):
    """Whether counts are those fractions of the total, to five standard deviations."""
    fractions = np.asarray(fractions)
    off = np.abs(np.asarray(counts) / total - fractions)
    assert (off < 5 * np.sqrt(fractions * (1 - fractions) / total)).all(), counts


class Reader:
    """A recursive descent through a program of the style `release`; counts its
    operations and collects its numbers.
    """

    def __init__(self, text):
        self.text, self.at = text, 0
        self.numbers, self.rounds, self.operations = [], [], []

    def value(self):
        result = self.expression()
        assert self.at == len(self.text), f"{self.text!r} goes on at {self.at}"
        return result

    def takes(self, word):
        found = self.text.startswith(word, self.at)
        self.at += len(word) * found
        return found

    def needs(self, word):
        assert self.takes(word), f"{self.text!r} lacks {word!r} at {self.at}"

    def operand(self):
        if self.takes("("):
            result = self.expression()
            self.needs(")")
            return result
        digits = re.compile(r"[0-9]+").match(self.text, self.at).group()
        self.at += len(digits)
        self.numbers.append(digits)
        return int(digits)

    def expression(self):
        if self.takes("x="):
            total = self.operand()
            self.needs("for[")
            rounds = int(self.text[self.at])
            self.at += 1
            self.needs("]x+=")
            added = self.operand()
            for _ in range(rounds):
                total += added
            self.rounds.append(rounds)
            self.operations.append("for")
            return total
        first = self.operand()
        if self.takes("if"):
            left = self.operand()
            greater = self.takes(">")
            if not greater:
                self.needs("<")
            right = self.operand()
            self.needs("else")
            other = self.operand()
            self.operations.append("if>" if greater else "if<")
            holds = right < left if greater else left < right
            return first if holds else other
        sign = next((sign for sign in "+-*" if self.takes(sign)), None)
        assert sign, f"{self.text!r} has no operation at {self.at}"
        self.operations.append(sign)
        second = self.operand()
        results = {"+": first + second, "-": first - second, "*": first * second}
        return results[sign]


def run_lte(text):
    """Run a program of the style `lte` by reading it line by line."""
    assert text.endswith("@") and text.count("@") == 1
    *lines, last = text[:-1].split("#")
    known = {}

    def expression(text):
        """The value of an expression and what is left of the text."""
        if text[0] != "(":
            word = re.match(r"[0-9]+|[a-j]", text).group()
            return (int(word) if word.isdigit() else known[word]), text[len(word) :]
        left, rest = expression(text[1:])
        if rest.startswith(" if "):
            a, rest = expression(rest[4:])
            b, rest = expression(rest.removeprefix(">"))
            other, rest = expression(rest.removeprefix(" else "))
            result = left if a > b else other
        else:
            right, after = expression(rest[1:])
            result = {"+": left + right, "-": left - right, "*": left * right}[rest[0]]
            rest = after
        assert rest[0] == ")"
        return result, rest[1:]

    def whole(text):
        result, rest = expression(text)
        assert rest == "", f"{rest!r} is left of {text!r}"
        return result

    for line in lines:
        if loop := re.fullmatch(r"for x in range\(([0-9]+)\):([a-j])\+=(.*)", line):
            for _ in range(int(loop[1])):
                known[loop[2]] += whole(loop[3])
        else:
            name, right = re.fullmatch(r"([a-j])=(.*)", line).groups()
            assert name not in known, f"{name} is used twice in {text!r}"
            known[name] = whole(right)
    return whole(re.fullmatch(r"print\((.*)\)", last)[1])


def run_python(text):
    """Python's answer to it."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(text.removesuffix("@").replace("#", "\n"), {})
    return int(printed.getvalue())
