"""The teacher's folder, chapters/teaching: numbers in answers are computed again."""

import json
import math
import re

import numpy as np
import pytest
import slides
import times

from tinyrmc.course.exercises import (
    attention,
    gates,
    learning,
    memory,
    normalisation,
    nth_farthest,
    tape,
)

FOLDER = times.HERE / "teaching"
ANSWERS = (FOLDER / "answers.md").read_text(encoding="utf-8")
QUESTIONS = (FOLDER / "questions.md").read_text(encoding="utf-8")


def numbered(text):
    found = re.findall(r"^(\d+)\. (.+(?:\n {3,}.*)*)", text, re.M)
    return {int(n): " ".join(each.split()) for n, each in found}


def answers_have(number, *words):
    text = numbered(ANSWERS)[number]
    assert all(word in text for word in words), (number, text)


def test_there_are_forty_questions_each_with_an_answer_and_a_chapter():
    questions, answers = numbered(QUESTIONS), numbered(ANSWERS)
    assert [*questions] == [*answers] == [*range(1, 41)]
    for text in questions.values():
        chapters = re.match(r"\(([\d, ]+)\) ", text)[1].split(", ")
        assert 0 < min(map(int, chapters)) <= max(map(int, chapters)) <= 28


def test_answers_on_arrays_and_the_engine():
    M, W = np.ones((2, 3, 4)), np.ones((2, 4, 5))
    assert (M[:, None] @ W).shape == (2, 2, 3, 5) and (M @ W).shape == (2, 3, 5)  # 1
    square = np.arange(16.0).reshape(4, 4) ** 2
    wrong = square - square.mean(axis=1)
    assert wrong[0, 3] == square[0, 3] - square[3].mean()  # 2
    assert np.array([30, 10, 20]).argsort().argsort().tolist() == [2, 0, 1]  # 3
    answers_have(3, "2, 0, 1")
    answers_have(4, "together 7", "2x + 1")
    assert (np.ones((3, 1)) + np.ones(4)).shape == (3, 4)  # 6
    assert tape.unbroadcast(np.ones((3, 4)), (3, 1)).tolist() == [[4]] * 3
    assert tape.unbroadcast(np.ones((3, 4)), (4,)).tolist() == [3] * 4
    A, B, G = (
        np.random.default_rng(0).normal(size=s) for s in ((2, 3), (3, 5), (2, 5))
    )
    back = tape.stacks_vjp(G, A, B)
    np.testing.assert_allclose(back[0], G @ B.T)  # 7
    np.testing.assert_allclose(back[1], A.T @ G)
    errors = {
        h: abs((math.exp(1 + h) - math.exp(1 - h)) / (2 * h) / math.e - 1)
        for h in (1e-2, 1e-5, 1e-10)
    }
    assert errors[1e-5] < 1e-9 < errors[1e-10] < errors[1e-2]  # 8
    assert np.cbrt(2e-16) == pytest.approx(6e-6, rel=0.05)
    assert np.exp(1 + 1e-30j).imag / 1e-30 == math.e  # 9


def test_answers_on_learning():
    gradient = learning.cross_entropy_vjp(np.ones(1), np.zeros((1, 3)), np.array([0]))
    np.testing.assert_allclose(np.ravel(gradient), [-2 / 3, 1 / 3, 1 / 3])  # 10
    answers_have(10, f"{math.log(3):.4f}")
    for g in (0.001, 1000.0):
        w, zero = np.zeros(1), np.zeros(1)
        moved, *_ = learning.adam_step(
            w, np.array([g]), zero, zero, 1, 0.01, 0.9, 0.999
        )
        assert moved[0] == pytest.approx(-0.01, rel=1e-4)  # 11
    (clipped,) = learning.clip([np.array([3.0, 4.0])], 1.0)
    np.testing.assert_allclose(clipped, [0.6, 0.8])  # 12
    deviation = math.sqrt(0.1 * 0.9 / 1000)
    assert round(100 * deviation, 2) == 0.95 and round(0.02 / deviation, 1) == 2.1  # 13
    many = [math.comb(1000, k) * 9 ** (1000 - k) for k in range(120, 1001)]
    assert sum(many) / 10**1000 == pytest.approx(1 / 50, rel=0.15)


def test_answers_on_attention_and_norm():
    rng = np.random.default_rng(1)
    q, k = rng.normal(size=(2, 100_000, 64))
    assert (q * k).sum(axis=1).std() == pytest.approx(8, rel=0.02)  # 14
    for x in ([0, math.log(3)], [1000, 1000 + math.log(3)]):
        np.testing.assert_allclose(attention.softmax(np.array(x)), [0.25, 0.75])  # 15
    Q, K, V = np.zeros((2, 3)), rng.normal(size=(4, 3)), rng.normal(size=(4, 5))
    found = attention.attention(Q, K, V)
    np.testing.assert_allclose(found, np.tile(V.mean(axis=0), (2, 1)))  # 16
    Z = attention.append_rows(np.ones((6, 3)), np.ones(3))
    assert attention.attention_weights(np.ones((6, 3)), Z).shape == (6, 7)  # 17
    Q, order = rng.normal(size=(4, 3)), [2, 0, 3, 1]
    whole = attention.attention(Q, K, V)
    np.testing.assert_allclose(attention.attention(Q, K[order], V[order]), whole)  # 18
    np.testing.assert_allclose(attention.attention(Q[order], K, V), whole[order])
    for row in ([1.0, 3.0], [10.0, 30.0]):
        normed = normalisation.layer_norm(np.array(row), np.ones(2), np.zeros(2))
        np.testing.assert_allclose(normed, [-1, 1], atol=1e-4)  # 21


def test_answers_on_gates_memory_and_time():
    gate = gates.sigmoid(np.array(1.0))
    answers_have(24, f"{gate:.3f}", f"{gate**10:.4f}")
    assert round(math.log(0.5) / math.log(gate), 1) == 2.2
    kept = 0.5 ** (1 / 50)
    answers_have(25, f"{kept:.4f}", f"{math.log(kept / (1 - kept)):.2f}")
    slope = gates.sigmoid(np.array([0.0, 10.0]))
    slope = slope * (1 - slope)
    assert slope[0] == 0.25 and f"{slope[1]:.1e}" == "4.5e-05"  # 26
    M, new = np.full((1, 1, 2), 3.0), np.full((1, 1, 2), 5.0)
    shut, opened = np.full((1, 1, 2), -1e3), np.full((1, 1, 2), 1e3)
    for f, i, right in ((shut, shut, 0), (opened, shut, 3), (shut, opened, 5)):
        found = memory.update_memory(np, f, i, M, new, 0.0)  # 27
        np.testing.assert_allclose(found, np.full_like(M, right))
    answers_have(31, f"{0.9**40:.4f}")


def test_answers_on_tasks_and_evidence():
    accuracy, without, _ = nth_farthest.self_query_floor(8)
    assert (accuracy, without) == pytest.approx((1 / 4, 1 / 7))  # 32
    best = math.e / (math.e + 2)
    answers_have(35, f"{best:.3f}", f"{-math.log(best):.3f}")
    answers_have(37, f"{math.log(10_000):.2f}", f"{math.log2(10_000):.2f}")


def test_slides_have_the_chapters_pictures_and_equations():
    for number, path in times.notebooks().items():
        book = slides.tagged(json.loads(path.read_text(encoding="utf-8")))
        kinds = [cell["metadata"].get("slideshow", {}) for cell in book["cells"]]
        shown = [each["slide_type"] for each in kinds]
        assert shown.count("slide") >= 3, number
        drawn = sum(
            "image/png" in output.get("data", {})
            for cell in book["cells"]
            for output in cell.get("outputs", [])
        )
        pictures = sum(
            "image/png" in output.get("data", {})
            for cell, kind in zip(book["cells"], shown, strict=True)
            for output in cell.get("outputs", [])
            if kind == "subslide"
        )
        assert pictures == drawn, number


def test_a_slide_has_a_whole_sentence_and_what_learners_are_to_do():
    text = "## Growing\n\nIt may grow: 5 and 3\nmake 8. Not shown.\n\nNor this.\n\n"
    text += "**Now draw it yourself.** Both.\n\n$$m$$\n\n## So\n\nThe step is:\n\n- a"
    found = [cell["source"] for cell in slides._of_text(text, "x")]
    drawn = "**Now draw it yourself.** Both."
    first = f"## Growing\n\nIt may grow: 5 and 3\nmake 8.\n\n{drawn}\n\n$$m$$"
    assert found == [first, "## So\n\nThe step is:"]


@pytest.mark.slow
def test_slides_are_made_by_nbconvert(tmp_path):
    pytest.importorskip("nbconvert")
    assert slides.main(["06", "--out", str(tmp_path), "--reveal", "reveal.js"]) == 0
    text = (tmp_path / "06_attention.slides.html").read_text(encoding="utf-8")
    assert text.count("<section") > 20 and "image/png" in text
    assert '"reveal.js/dist/reveal.js"' in text and text.count("https://") == 1
    assert slides.main(["99", "--out", str(tmp_path)]) == 2


def test_every_chapter_has_goals_and_a_week():
    goals = (FOLDER / "goals.md").read_text(encoding="utf-8")
    plan = (FOLDER / "README.md").read_text(encoding="utf-8")
    for number, path in times.notebooks().items():
        assert f"(../{path.name})" in goals, number
    weeks = re.findall(r"^\| (\d+) \|", plan, re.M)
    assert [*map(int, weeks)][:12] == [*range(1, 13)]
