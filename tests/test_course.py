"""What chapters import from `tinyrmc.course`: the code they show, how long they run."""

import os
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import Tape, course, equations, nn, primitives
from tinyrmc.course import chapter


def mine(x):
    """Mine."""

    def inner():
        """Inner."""
        return x  # a comment

    return inner


def test_code_is_shown_with_its_place_in_the_repository():
    shown = course.show(equations.attention, nn.Linear.__call__)
    headings = [line for line in repr(shown).splitlines() if line.startswith("# ")]
    assert headings == ["# tinyrmc/equations.py", "# tinyrmc/nn.py"]
    markdown = shown._repr_markdown_()
    assert markdown.startswith("`tinyrmc/equations.py`\n\n```python\ndef attention(")
    assert markdown.count("```") == 4 and markdown.endswith("\n```")


def test_code_from_outside_the_package_goes_by_the_name_of_its_file(tmp_path):
    (tmp_path / "own.py").write_text("def twice(x):\n    return 2 * x\n")
    code = "import own; from tinyrmc import course; print(course.show(own.twice))"
    path = os.pathsep.join([str(tmp_path), *sys.path])
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "# own.py\ndef twice(x):\n    return 2 * x\n"


def test_docstrings_can_be_left_out_and_comments_stay():
    assert '"""Inner."""' in repr(course.show(mine))
    assert repr(course.show(mine, docstring=False)).endswith(
        "def mine(x):\n"
        "    def inner():\n"
        "        return x  # a comment\n"
        "\n"
        "    return inner"
    )


def test_a_chapter_runs_briefly_where_it_is_asked_to():
    code = "from tinyrmc import course; print(course.fast(9, 2))"
    for value, steps in (("", 9), ("0", 9), ("1", 2)):
        told = subprocess.check_output(
            [sys.executable, "-c", code],
            env=os.environ
            | {"TINYRMC_FAST": value, "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
        )
        assert int(told) == steps


def test_the_book_is_the_whole_book_and_nothing_but_the_book():
    book = course.book()
    assert book.startswith("ALICE'S ADVENTURES IN WONDERLAND\n\nLewis Carroll\n")
    assert book.endswith("\n              THE END\n")
    assert book.count("\nCHAPTER ") == 12
    assert book.isascii() and "\r" not in book
    assert not {"gutenberg", "license", "ebook", "http"} & set(book.lower().split())
    assert "gutenberg" not in book.lower()
    assert len(book) < 400_000


def test_a_summary_may_be_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(chapter, "RESULTS", (tmp_path,))
    assert course.summary("measured") == {}
    (tmp_path / "measured.json").write_text('{"perplexity": [1.5]}', encoding="utf-8")
    assert course.summary("measured") == {"perplexity": [1.5]}


def test_a_summary_is_read_from_the_committed_results():
    assert course.summary("cpu")["benchmark"] == "cpu"


def test_functions_take_turns_and_the_least_time_of_each_counts(monkeypatch):
    called, clock = [], iter([0, 5, 5, 7, 7, 9, 9, 10])  # 5, 2, 2 and 1 seconds
    monkeypatch.setattr(chapter.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(chapter, "fast", lambda full, brief: full)
    functions = {name: lambda name=name: called.append(name) for name in "ab"}
    assert course.least(2, **functions) == {"a": 2, "b": 1}
    assert called == [*"abab"]


def test_a_tape_holds_each_array_once_and_of_a_view_the_whole():
    x = np.ones((10, 3))
    with Tape() as tape:
        copy = tape.watch(x[2:4])
        y = primitives.multiply(copy, x[:2])  # a view of x
        primitives.multiply(y, y)
    assert course.held(tape) == copy.data.nbytes + x.nbytes + y.data.nbytes


def test_a_matrix_is_drawn_around_its_middle_with_its_first_row_on_top():
    _, panel = plt.subplots()
    matrix = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    assert course.draw_matrix(panel, 3, 2, matrix, "W", shares=True) == (1.5, 4.5, 1, 3)
    (cells,) = panel.collections
    np.testing.assert_array_equal(cells.get_array(), matrix)
    corners = cells.get_coordinates()
    assert corners[0, 0].tolist() == [1.5, 1] and corners[-1, -1].tolist() == [4.5, 3]
    *percents, name = panel.texts
    assert [text.get_text() for text in percents] == ["10", "20", "70", "50", "50", "0"]
    assert percents[2].get_position() == (4, 1.5)
    assert name.get_text() == "W" and name.get_position() == (3, 0.65)
    plt.close()


def test_without_shares_the_colours_are_alike_for_a_number_and_its_opposite():
    _, panel = plt.subplots()
    course.draw_matrix(panel, 0, 0, np.array([[-2.0, 1.0]]))
    (cells,) = panel.collections
    assert cells.get_clim() == (-2, 2) and len(panel.texts) == 1
    plt.close()
