"""Chapters' imports from `tinyrmc.course`: the code they show, how long they run,
the pictures they draw.
"""

import itertools
import math
import os
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from tinyrmc import Parameter, Tape, course, equations, nn
from tinyrmc import primitives as p
from tinyrmc.course import chapter
from tinyrmc.course.pictures import draw_tape, tape_graph


@pytest.fixture(autouse=True)
def pictures():
    yield
    plt.close("all")


def mine(x):
    """Mine."""

    def inner():
        """Inner."""
        return x  # a comment

    return inner


def test_code_is_shown_with_its_place_in_the_repository():
    shown = course.show(equations.attention, nn.Linear.__call__)
    headings = [line for line in repr(shown).splitlines() if line.startswith("# ")]
    assert headings == ["# tinyrmc/equations.py", "# tinyrmc/nn/layers.py"]
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
        y = p.multiply(copy, x[:2])  # a view of x
        p.multiply(y, y)
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


def test_without_shares_the_colours_are_alike_for_a_number_and_its_opposite():
    _, panel = plt.subplots()
    course.draw_matrix(panel, 0, 0, np.array([[-2.0, 1.0]]))
    (cells,) = panel.collections
    assert cells.get_clim() == (-2, 2) and len(panel.texts) == 1


# --- A tape ---------------------------------------------------------------------------


def recorded():
    """tanh(x W) times itself, and a side branch that the loss does not need."""
    W = Parameter(np.ones((2, 3)))
    with Tape() as tape:
        x = tape.watch(np.ones((4, 2)))
        y = p.tanh(x @ W)
        p.exp(y)
        loss = p.sum(y * y)
    return tape, x, W, loss


def names_of(graph):
    return [(graph.labels[line[0]], graph.labels[line[-1]]) for line in graph.lines]


def test_boxes_are_what_the_loss_is_made_of_and_each_use_is_a_line():
    _, _, W, loss = recorded()
    graph = tape_graph(loss, {"W": W})
    assert sorted(names_of(graph)) == sorted(
        [
            ("input (4, 2)", "matmul"),
            ("W (2, 3)", "matmul"),
            ("matmul", "tanh"),
            ("tanh", "multiply"),
            ("tanh", "multiply"),
            ("multiply", "sum"),
        ]
    )


def test_every_line_goes_down():
    with Tape():
        W = Parameter(np.ones((3, 3)))
        y = W
        for _ in range(4):
            y = p.tanh(y)
        loss = p.sum(y + W)  # a line past all others
    graph = tape_graph(loss, {})
    down = [graph.rows[end] - graph.rows[start] for start, end in graph.lines]
    assert sorted(down) == [1, 1, 1, 1, 1, 1, 5]


def test_an_operation_with_several_results_is_one_box():
    W = Parameter(np.ones((3, 2)))
    with Tape():
        first, *_, last = p.unstack(W * 2.0, axis=0)
        loss = p.sum(first + last)
    graph = tape_graph(loss, {})
    labels = [*graph.labels.values()]
    assert labels.count("unstack") == 1
    assert names_of(graph).count(("unstack", "add")) == 2


def test_what_is_walked_back_or_never_recorded_cannot_be_drawn():
    tape, _, _, loss = recorded()
    tape.backward(loss)
    for nothing in (loss, Parameter(np.ones(2)), p.sum(np.ones(3))):
        with pytest.raises(ValueError, match="before backward"):
            draw_tape(nothing)


def attention_of_two_heads():
    rng = np.random.default_rng(0)
    W = [Parameter(rng.normal(size=(4, 2))) for _ in range(6)]
    M = rng.normal(size=(3, 4))
    with Tape() as tape:
        M = tape.watch(M)
        heads = []
        for q, k, v in (W[:3], W[3:]):
            scores = p.divide(M @ q @ p.swapaxes(M @ k, 0, 1), math.sqrt(2))
            heads.append(p.softmax(scores) @ (M @ v))
        loss = p.sum(p.square(p.tanh(p.concatenate(heads, axis=1)) + M))
    return tape, loss


def test_no_two_boxes_of_forty_lie_on_each_other_or_outside():
    tape, loss = attention_of_two_heads()
    panel = draw_tape(loss)
    figure = panel.figure
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in panel.texts]
    assert len(boxes) == len(tape.entries) + 7
    for first, second in itertools.combinations(boxes, 2):
        assert not first.overlaps(second)
    page = figure.bbox
    assert all(page.x0 < box.x0 and box.x1 < page.x1 for box in boxes)
