"""Tables as people read them: in the width of a terminal no word is lost and no line is
too long; in files they are Markdown.
"""

import json
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tinyrmc.results import tables
from tinyrmc.results.text import (
    aligned,
    duration,
    markdown_table,
    number,
    paragraph,
    percent,
    results_table,
    terminal_width,
)

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"

SWEEP = [
    ["model.mem_slots", "model.gate_style", "test accuracy, mean", "steps", "notes"],
    ["1", "unit", "95.5 %", "12,000", ""],
    ["16", "memory", "3.1 %", "9,000 of 12,000", ""],
]


def test_numbers():
    assert [percent(x) for x in (0.12345, None, float("nan"))] == ["12.3 %", "", ""]
    shown = [number("test_loss", 1.25), number("test_accuracy", 0.5)]
    assert shown == ["1.2500", "50.0 %"] and number("loss", None) == ""
    assert number("validation_error_task_1", 0.25) == "25.0 %"
    assert number("test_squared_error", 25.0) == "25.0000"
    assert number("test_recall", 0.414) == "41.4 %"
    assert [duration(x) for x in (5.4, 65, 3661)] == ["0:05", "1:05", "1:01:01"]


def test_markdown():
    rows = [["a", "b|c"], ["1", ""]]
    assert markdown_table(rows) == "| a | b\\|c |\n| --- | --- |\n| 1 |  |\n"


# --- On a terminal --------------------------------------------------------------------


def test_as_wide_as_it_is():
    """Numbers to the right, words to the left, and no column of nothing."""
    assert aligned(SWEEP).splitlines() == [
        "model.mem_slots  model.gate_style  test accuracy, mean            steps",
        "              1  unit                           95.5 %           12,000",
        "             16  memory                          3.1 %  9,000 of 12,000",
    ]
    assert aligned(SWEEP, 71) == aligned(SWEEP)


NAMED = [
    ["`train`", "paper", "ours", "took"],
    [
        "`quick --model.core lstm --model.mem-slots 8`",
        "91 % (8 x 16)",
        "90.0 %",
        "9:03",
    ],
    ["`ladder`", "", "89.1 %", "10:00"],
]


def test_rows_with_long_names_are_numbered_and_can_be_compared():
    assert aligned(NAMED, 36).splitlines() == [
        "train",
        "1  quick --model.core lstm",
        "   --model.mem-slots 8",
        "2  ladder",
        "",
        "   paper            ours   took",
        "1  91 % (8 x 16)  90.0 %   9:03",
        "2                 89.1 %  10:00",
    ]
    narrower = aligned(NAMED, 30).splitlines()
    assert narrower[-3:] == ["    took", "1   9:03", "2  10:00"]


def test_one_row_with_a_long_name_becomes_a_block():
    assert aligned(NAMED[:2], 36).splitlines() == [
        "train",
        "",
        "quick --model.core lstm",
        "--model.mem-slots 8",
        "    paper  91 % (8 x 16)",
        "    ours   90.0 %",
        "    took   9:03",
    ]


CELLS = st.sampled_from(
    ["", "9", "12,000", "95.5 %", "mean accuracy", "--model.core lstm", "a b c"]
)


@given(st.data(), st.integers(1, 9), st.integers(0, 4), st.integers(40, 120))
def test_no_line_is_too_long_and_no_word_is_lost(data, columns, rows, width):
    row = st.lists(CELLS, min_size=columns, max_size=columns)
    head = [f"head_{k} of this" for k in range(columns)]
    body = data.draw(st.lists(row, min_size=rows, max_size=rows))
    shown = aligned([head, *body], width)
    assert max(map(len, shown.splitlines()), default=0) <= width
    # A line of the one may be parts of two lines of the other: compare bags of words.
    for cell in {cell for row in body for cell in row}:
        for word in cell.split():
            told = sum(row.count(cell) for row in body)
            assert len(re.findall(re.escape(word), shown)) >= told


def test_the_committed_results_fit_a_terminal():
    found = json.loads((RESULTS / "results.json").read_text(encoding="utf-8"))
    every = [*tables.tables(found), *tables.seed_tables(found)]
    for width in 80, 100, 132:
        shown = "\n".join(aligned(rows, width) for rows in every)
        assert max(map(len, shown.splitlines())) <= width
        for group in found["groups"]:
            assert f"{group['parameters']:,}" in shown
        assert not re.search("[`|]", shown)


def test_results_beside_their_floors():
    metrics = {"test_accuracy": 0.5, "test_loss": 1.25}
    known = {"test_accuracy": {"floor": 0.25, "paper": 1.0}}
    assert results_table(metrics, known).splitlines() == [
        "               this run   floor    paper",
        "test accuracy    50.0 %  25.0 %  100.0 %",
        "test loss        1.2500",
    ]
    known = {"accuracy": {"floor": 0.25}}  # its author meant that of a set
    assert "not measured  25.0 %" in results_table(metrics, known)


def test_the_terminal_says_how_wide_it_is(monkeypatch):
    monkeypatch.setenv("COLUMNS", "66")
    assert terminal_width() == 66
    legend = paragraph("*paper*: a `word`. " * 20, 66)
    assert max(map(len, legend.splitlines())) <= 66 and not set("*`") & set(legend)
