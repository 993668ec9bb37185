"""How long the chapters take: one function counts it, and all texts have its number.

    python chapters/times.py            prints the minutes of each chapter and the road
    python chapters/times.py --write    writes them into the chapters' heads (their
                                        sources and notebooks) and chapters/README.md

A chapter takes a minute for every 75 words, one for every seven and a half lines of
code that it shows, and for each exercise two minutes to understand it (eight where a
line that is wrong must be found first), 1.75 for each line to be typed, and three for
each time that `check` runs.

Lines and checks are counted in tries.json. The exercises of the core road were solved
three times from the chapters' text alone, by language models, and it has the lines that
were typed and the checks that ran. The third of them was asked to make a beginner's
mistake now and then. `tried` says how many lines that were for each line of the
solution, and how many checks for each exercise.

Nobody was timed. The minutes are guesses, and so is MORE, the checks that people need
beyond those of the tries. Two of the three readers guessed, exercise by exercise, how
long a person would take: 10 1/2 and 12 hours, without the four exercises that have left
the core road since, where this count says ten. So these minutes are good for comparing
chapters and for planning an evening; a first try in a new subject may take half as long
again.

The core road goes through the chapters of CORE, without the sections that begin with
the word *Extra*.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyrmc.course.exercises.exercise import Exercise, _source
from tinyrmc.course.exercises.mended import Mended
from tinyrmc.course.grading.hand_ins import called

HERE = Path(__file__).resolve().parent
CORE = ("00", "03", "05", "06", "09", "10", "13")
TEN_HOURS = 600
AS_YOU_LIKE = ("02", "24")  # puzzles and the capstone
WORDS, LINES = 75, 7.5  # that take a minute
UNDERSTAND, FIND, TYPE, CHECK = 2.0, 8.0, 1.75, 3.0  # minutes
MORE = 0.7  # checks that people need for an exercise beyond those of the tries
EXTRA = re.compile(r"^\*Extra\b", re.MULTILINE)
STOP = re.compile(r"(?=good\splace\sto\sstop)")
# What `course.show` and `cuda` display: a file's name, then its text.
SHOWN = re.compile(
    r"^`(\w[\w/]+\.(?:py|cu))`\n\n```\w+\n(.*?)\n```$", re.DOTALL | re.MULTILINE
)


@dataclass
class Part:
    """A piece of a chapter: of one section, in one sitting."""

    core: bool
    sitting: int
    minutes: float
    exercises: tuple[str, ...] = ()  # such as attention.softmax


@dataclass
class Times:
    """The minutes of a chapter."""

    parts: list[Part]

    @property
    def all(self) -> float:
        """The minutes of the whole chapter."""
        return sum(part.minutes for part in self.parts)

    @property
    def core(self) -> float:
        """The minutes of all sections but the extra ones."""
        return sum(part.minutes for part in self.parts if part.core)

    @property
    def sittings(self) -> list[float]:
        """The minutes of each sitting: they end at places to stop."""
        last = max(part.sitting for part in self.parts)
        return [
            sum(part.minutes for part in self.parts if part.sitting == k)
            for k in range(last + 1)
        ]


def notebooks() -> dict[str, Path]:
    """The chapters' notebooks by their numbers, two digits each."""
    return {path.name[:2]: path for path in sorted(HERE.glob("[0-9][0-9]_*.ipynb"))}


@functools.cache
def times(number: str) -> Times:
    """The minutes of a chapter, counted in its notebook."""
    text = notebooks()[number].read_text(encoding="utf-8")
    return Times([*_parts(json.loads(text)["cells"], number in CORE)])


def _parts(cells: list[dict[str, Any]], core: bool) -> Iterator[Part]:
    sitting, extra, left = 0, False, _exercises(cells)
    for cell in cells:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            for piece in re.split(r"^(?=## )", text, flags=re.MULTILINE):
                if piece.startswith("## "):
                    extra = bool(EXTRA.search(piece))
                for k, half in enumerate(STOP.split(piece)):
                    sitting += k > 0
                    words = len(re.sub(r"\$[^$]+\$", "formula", half).split())
                    yield Part(core and not extra, sitting, words / WORDS)
            continue
        lines = 0
        if not cell["metadata"].get("jupyter", {}).get("source_hidden"):
            lines += sum(map(bool, text.splitlines()))
        for output in cell["outputs"]:
            shown = "".join(output.get("data", {}).get("text/markdown", ""))
            lines += sum(each.count("\n") for _, each in SHOWN.findall(shown))
        here = [key for key, call in left.items() if re.search(call, text)]
        minutes = lines / LINES + sum(minutes_of(*key, text) for key in here)
        left = {key: call for key, call in left.items() if key not in here}
        yield Part(core and not extra, sitting, minutes, tuple(map(".".join, here)))


def _exercises(cells: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """(module, exercise) of what a chapter checks -> a pattern of the line for it."""
    code = [each for each in cells if each["cell_type"] == "code"]
    text = "\n".join("".join(each["source"]) for each in code)
    return {
        (module, name): rf"\.{name}\.check\((?!lambda)" for module, name in called(text)
    }


def minutes_of(module: str, name: str, cell: str) -> float:
    """The minutes of one exercise, whose cell has this text to begin with."""
    place = importlib.import_module(f"tinyrmc.course.exercises.{module}")
    exercise = getattr(place, name)
    begin = FIND if isinstance(exercise, Mended) else UNDERSTAND
    # a report, or a task of the capstone: as an answer of ten lines
    lines = to_type(exercise, cell) if isinstance(exercise, Exercise) else 10
    longer, checks = tried()
    return begin + TYPE * longer * lines + CHECK * (checks + MORE)


def to_type(exercise: Exercise, cell: str) -> int:
    """Lines of the solution that do not stand in the cell already."""
    text = _source(exercise.function)
    names = dict.fromkeys(re.findall(r"\b_\w+", text))
    place = vars(sys.modules[exercise.function.__module__])
    helpers = [place[each] for each in names if inspect.isfunction(place.get(each))]
    there = {*_lines(cell)}
    texts = [text, *map(_source, helpers)]
    return sum(line not in there for each in texts for line in _lines(each))


def _lines(text: str) -> list[str]:
    """The lines of code in a text, each statement on one line, without docstrings."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return [line.strip() for line in text.splitlines() if line.strip()]
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            node.body = node.body[bool(ast.get_docstring(node)) :] or [ast.Pass()]
    lines = [line.strip() for line in ast.unparse(tree).splitlines()]
    return [line for line in lines if line and line not in ("...", "pass")]


@functools.cache
def tried() -> tuple[float, float]:
    """Of the tries: the lines typed for each line of a solution, and the checks."""
    tries = json.loads((HERE / "tries.json").read_text(encoding="utf-8"))
    typed = asked = checks = count = 0
    for name, each in tries.items():
        module, _, exercise = name.partition(".")
        place = importlib.import_module(f"tinyrmc.course.exercises.{module}")
        solution = getattr(place, exercise)
        times = len(each["lines"])
        typed += sum(each["lines"])
        # its head stands in the cell
        asked += times * (to_type(solution, str(inspect.signature(solution))) - 1)
        checks += sum(each["checks"])
        count += times
    return typed / asked, checks / count


def rounded(minutes: float) -> int:
    """Minutes as a text tells them."""
    return max(5, 5 * round(minutes / 5))


def road() -> dict[str, int]:
    """The core road: the minutes of its chapters."""
    return {number: rounded(times(number).core) for number in CORE}


# --- The texts ------------------------------------------------------------------------

COUNTS = ["", "", *(f", in {k} sittings" for k in ("two", "three", "four", "five"))]
HEAD = re.compile(
    r"About \d+ minutes(?: \(\d+ on the core road\))?"
    r"(?:, in (?:two|three|four|five) sittings)?"
)
ENTRY = re.compile(
    r"(\((\d\d)_\w+\.ipynb\)(?:\*\*)?, )(?:\d+(?: of \d+)? min|as long as you like)"
)
HOURS = re.compile(r"\d+\shours(?:\sand\s\d+\sminutes)?(?=,\sin\sseven\schapters)")


def told(number: str) -> str:
    """The time of a chapter, in the words of its head."""
    found = times(number)
    whole, core = rounded(found.all), rounded(found.core)
    part = f" ({core} on the core road)" if number in CORE and core < whole else ""
    return f"About {whole} minutes{part}{COUNTS[len(found.sittings)]}"


def head_of(source: str, number: str) -> str:
    """A chapter's source, its head with the time as it is now."""
    first, rest = source[:9], source[9:]
    head, mark, rest = rest.partition("\n# %%")
    paragraphs = head.split("\n#\n")
    for k, each in enumerate(paragraphs):
        plain = " ".join(each.replace("\n# ", "\n").removeprefix("# ").split())
        if HEAD.search(plain):
            plain = HEAD.sub(told(number), plain, count=1)
            lines = textwrap.wrap(plain, 86, break_on_hyphens=False)
            end = "\n" * (len(each) - len(each.rstrip("\n")))
            paragraphs[k] = "\n".join(f"# {line}" for line in lines) + end
            break
    return first + "\n#\n".join(paragraphs) + mark + rest


def map_of(text: str) -> str:
    """chapters/README.md with the times as they are now."""

    def entry(match: re.Match) -> str:
        number = match[2]
        if number in AS_YOU_LIKE:
            return f"{match[1]}as long as you like"
        whole, core = rounded(times(number).all), rounded(times(number).core)
        part = f"{core} of " if number in CORE and core < whole else ""
        return f"{match[1]}{part}{whole} min"

    hours, minutes = divmod(sum(road().values()), 60)
    whole = f"{hours} hours" + (f" and {minutes} minutes" if minutes else "")
    paragraphs = ENTRY.sub(entry, text).split("\n\n")
    for k, each in enumerate(paragraphs):
        if HOURS.search(each):
            paragraphs[k] = textwrap.fill(HOURS.sub(whole, " ".join(each.split())), 88)
    return "\n\n".join(paragraphs)


def texts() -> dict[Path, str]:
    """The text that each file should have: the sources with their heads, the map."""
    readme = HERE / "README.md"
    found = {readme: map_of(readme.read_text(encoding="utf-8"))}
    for number, notebook in notebooks().items():
        source = HERE / "source" / f"{notebook.stem}.py"
        if number not in AS_YOU_LIKE:
            found[source] = head_of(source.read_text(encoding="utf-8"), number)
    return found


def write() -> None:
    """Write the times into the texts, and the heads into the notebooks."""
    import build
    import nbformat

    for path, text in texts().items():
        if path.read_text(encoding="utf-8") == text:
            continue
        path.write_text(text, encoding="utf-8", newline="\n")
        if path.suffix == ".py":
            file = HERE / f"{path.stem}.ipynb"
            notebook, first = nbformat.read(file, 4), build.read(path).cells[0]
            notebook.cells[0].source, notebook.cells[0].id = first.source, first.id
            nbformat.write(notebook, file)
        print(path.relative_to(HERE.parent))


def main(words: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--write", action="store_true", help="write them into the texts"
    )
    if parser.parse_args(words).write:
        write()
        return 0
    for number, path in notebooks().items():
        found = times(number)
        sittings = " + ".join(f"{each:.0f}" for each in found.sittings)
        core = f"{found.core:4.0f}" if number in CORE else "    "
        print(f"{path.stem:26} {found.all:4.0f} {core}   {sittings}")
    total = sum(road().values())
    print(f"the core road: {total} minutes, of {TEN_HOURS} at most")
    return int(total > TEN_HOURS)


if __name__ == "__main__":
    sys.exit(main())
