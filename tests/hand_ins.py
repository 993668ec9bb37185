"""Hand-ins in tests: notebooks of chapter 1 with answers in them, as learners leave
them.
"""

import json
import re
import zipfile
from pathlib import Path

from tinyrmc.course.exercises import arrays
from tinyrmc.course.exercises.exercise import _source

CHAPTER = Path(__file__).resolve().parent.parent / "chapters" / "01_arrays.ipynb"
EXERCISES = [*"centred squared_distances project nth_from split_heads one_hot".split()]


def solved(name):
    """A right answer's text, under the name that the chapter asks for."""
    return _source(getattr(arrays, name).function)


def notebook(answers, chapter=CHAPTER):
    """The chapter's notebook as text, with answers, by name, in the cells for them."""
    book = json.loads(chapter.read_text(encoding="utf-8"))
    for cell in book["cells"]:
        source = "".join(cell["source"])
        for name, text in answers.items():
            if cell["cell_type"] == "code" and re.search(
                rf"^def {name}\(", source, re.M
            ):
                check = source[source.index(f"ex.{name}.check") :]
                cell["source"] = [f"{text}\n\n{check}"]
    return json.dumps(book)


def loose(*cells):
    """A notebook of nothing but these code cells, as text."""
    cells = [
        {"cell_type": "code", "source": each, "metadata": {}, "outputs": []}
        for each in cells
    ]
    return json.dumps(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    )


IMPORT = "from tinyrmc.course.exercises import arrays as ex\nimport numpy as np"


def work(path, files):
    """The zip that Download my work gives: path -> text, none compressed."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return path
