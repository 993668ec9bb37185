"""The pictures of hops: which stories they choose, and what they say about each."""

import dataclasses

import numpy as np
import pytest
from babistories import reading_of
from test_figures import figure_of

from tinyrmc import corpora
from tinyrmc.results import figures, memory_hops


def test_an_empty_memory_is_no_fact_and_one_that_is_forgotten_is_not_found():
    words = [(word,) for word in "abcd"]
    short = corpora.Story(tuple(words[:1]), ("q",), "x", (0,), 0)
    long = corpora.Story(tuple(words), ("q",), "y", (0, 2), 1)  # a is forgotten
    strong = [[[0.2, 0.7, 0.1], [0.9, 0.05, 0.05]], [[0.1, 0.8, 0.1], [0, 0, 1.0]]]
    reading = reading_of(strong, [short, long], 3)
    rows = np.arange(2)
    # a hop each, the last sentence, chance: 1 of 1 and, of b, c and d, c
    assert memory_hops.shares(reading, rows) == pytest.approx([0.5, 0.5, 0.5, 2 / 3])
    assert np.isnan(memory_hops.shares(reading, rows[:0])).all()
    title, said, weights, facts = memory_hops._looked(reading, 0)
    assert title == "Q?\nAnswer x, right"
    assert said == ["A.", "(2 empty memories, together)"] and facts == [True, False]
    np.testing.assert_allclose(weights, [[0.2, 0.9], [0.8, 0.1]])
    _, said, weights, facts = memory_hops._looked(reading, 1)
    assert said == ["B.", "C.", "D."] and facts == [False, True, False]
    np.testing.assert_allclose(weights, [[0.1, 1], [0.8, 0], [0.1, 0]])
    for how in "masked", "linear":
        other = dataclasses.replace(reading, **{how: True})
        assert memory_hops._looked(other, 0)[1] == ["A."]


def test_examples_are_of_different_stories_while_there_are_some():
    told = [(("a",),), (("b",),), (("a",),), (("c",), ("d",)), (("c",),)]
    # numbers of stories, sentences, and what is asked
    asked = [(0, 0, "q"), (0, 0, "q"), (0, 0, "r"), (1, 1, "q"), (2, 2, "q")]
    asked += [(3, 3, "q"), (3, 4, "q")]
    stories = [corpora.Story(told[k], (q,), "x", (0,), n) for n, k, q in asked]
    weights = np.zeros((7, 1, 2))

    def chosen(answers, each):
        reading = reading_of(weights, stories, 2, answers=answers)
        return memory_hops.chosen(reading, np.arange(7), each)

    # not the question once more, nor another of story 0, nor story 2, which tells the
    # same as story 0, nor a beginning of story 3, while there are others
    assert chosen("xxxxxxx", 3) == [[0, 3, 5], []]
    assert chosen("xxxxxxx", 9) == [[0, 3, 5, 2, 6], []]
    # the one wrong answer is there, and no right one about its story
    assert chosen("xxyxxxx", 2) == [[3, 5], [2]]


def test_the_picture_marks_the_facts_and_writes_the_strengths():
    looked = (
        "Q?\nAnswer x, right",
        ["A.", "B."],
        np.array([[0.1], [0.9]]),
        [False, True],
    )
    figure = figure_of(figures.hops, [[looked], [looked, looked]], "Beware.", True)
    first, second, empty, _ = figure.axes
    for panel in first, second:
        assert [t.get_text() for t in panel.texts] == ["10", "90", looked[0]]
        labels = panel.get_yticklabels()
        assert [label.get_text() for label in labels] == ["A.", "● B."]
        assert [label.get_color() for label in labels] == ["black", "#C00000"]
    assert not empty.axison
    assert figure.get_supxlabel() == "Beware."
    raw = "Q?\nAnswer y, right", ["A."], np.array([[-2.0]]), [True]
    (panel,) = figure_of(figures.hops, [[raw]], "Beware.", False).axes
    assert [t.get_text() for t in panel.texts] == ["-2.00", raw[0]]
