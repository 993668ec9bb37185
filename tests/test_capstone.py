"""The tasks of the last chapter against slow readings of them, and the report card."""

import numpy as np

from tinyrmc.course.exercises import capstone

RNG = np.random.default_rng(0)


def test_recall_asks_for_the_value_that_came_with_the_key():
    inputs, answers = capstone.draw_recall(np.random.default_rng(0), 50, 4)
    for row, answer in zip(inputs, answers, strict=True):
        pairs = {int(k[:6].argmax()): int(k[6:].argmax()) for k in row[:-1]}
        assert pairs[int(row[-1][:6].argmax())] == answer
        assert len(pairs) == 4 and not row[-1][6:].any()


def test_distances_ask_for_the_nearest():
    inputs, answers = capstone.draw_distances(np.random.default_rng(0), 50, 3)
    for row, answer in zip(inputs, answers, strict=True):
        away = [np.linalg.norm(each[:2] - row[-1, :2]) for each in row[:-1]]
        assert row[np.argmin(away), 2:].argmax() == answer


def test_a_move_into_a_wall_does_nothing():
    inputs, answers = capstone.draw_maze(np.random.default_rng(0), 200, 8)
    for row, answer in zip(inputs.argmax(-1), answers, strict=True):
        x = y = 0
        for move in row:
            dx, dy = capstone.MOVES[move]
            to = (x + dx, y + dy)
            if not (0 <= min(to) and max(to) <= 3):
                continue
            if frozenset(((x, y), (int(to[0]), int(to[1])))) not in capstone.WALLS:
                x, y = map(int, to)
        assert answer == 4 * y + x
    assert {*answers.tolist()} >= {*range(6)}


def test_the_baselines_are_those_that_are_told():
    _, answers = capstone.draw_maze(RNG, 4000, capstone.maze.size)
    most = (np.bincount(answers) / len(answers)).max()
    assert abs(most - capstone.maze.baselines["the most frequent cell"]) < 0.02


def test_a_report_card_says_what_it_finds(capsys, monkeypatch):
    monkeypatch.setenv("TINYRMC_PROGRESS", "")

    def said(predict, task=capstone.recall):
        task.check(predict)
        return capsys.readouterr().out

    def right(inputs):
        keys, values = inputs[:, :-1, :6].argmax(-1), inputs[:, :-1, 6:].argmax(-1)
        asked = inputs[:, -1, :6].argmax(-1)
        return values[keys == asked[:, None]]

    def empty(inputs): ...

    assert said(empty).startswith("not attempted: ")
    passed = said(right)
    assert "right, held out            100.0%" in passed and "passed: the" in passed
    assert "not passed yet" in said(lambda x: np.zeros(len(x), int))
    assert "not passed: an answer" in said(lambda x: right(x) + (len(x) == 1))
    assert "wrong: predict gives (2000, 1)" in said(lambda x: right(x)[:, None])
    assert "wrong: predict raises IndexError" in said(lambda x: x[0, 99])
    mine = capstone.own("mine", lambda rng, n: capstone.draw_recall(rng, n, 3), {}, 0.5)
    assert "passed: the threshold is 50%" in said(right, mine)
