"""`tinyrmc grade`: what learners hand in is judged, and harms nobody."""

import collections
import contextlib
import csv
import hashlib
import json
import linecache
import os
import socket
import subprocess
import sys
from pathlib import Path

import hand_ins as made
import numpy as np
import pytest
from hand_ins import EXERCISES, IMPORT, loose, notebook, solved, work

from tinyrmc.autograd.engine import Tensor
from tinyrmc.cli import assignment, grade
from tinyrmc.course import proof
from tinyrmc.course.exercises import arrays, attention, memory, tape
from tinyrmc.course.exercises.exercise import Exercise
from tinyrmc.course.grading import bench, grades
from tinyrmc.course.grading.hand_ins import Book, HandIn, called, read
from tinyrmc.course.grading.statements import Notebook, Unreadable
from tinyrmc.course.grading.wire import Other, packed, unpacked
from tinyrmc.errors import UserError

RIGHT = {name: solved(name) for name in EXERCISES}


@pytest.fixture(autouse=True)
def own_seeds():
    """Grading changes the exercises' seeds in this process."""
    yield
    for module, name in grades.graded():
        exercise = grades.exercise_of(module, name)
        if isinstance(exercise, Exercise):
            exercise.seed = Exercise.seed


# --- Hand-ins, whole ------------------------------------------------------------------


HOSTILE = f"""
import os, sys, socket, time, threading
from tinyrmc.course.exercises import exercise


def spoil():
    right = exercise.Verdict("right", "")
    exercise.Exercise.judge = lambda self, answer, explain=True: right
    for k in range(300):
        print("spam" * 100_000)
    return 0


nothing = spoil()


def centred(M):
    return M * nothing


def squared_distances(M):
    while True:
        time.sleep(1)


def project(M, W):
    return ex.project.function(M, W)


def split_heads(x, H):
    try:
        open({str(made.CHAPTER)!r}, "a").close()
    except OSError:
        pass
    for attempt in (
        lambda: os.remove(os.environ["CANARY"]),
        lambda: open(os.environ["CANARY"], "w"),
        lambda: os.system("rm " + os.environ["CANARY"]),
        lambda: os.kill(os.getppid(), 9),
        lambda: os.fork(),
    ):
        try:
            attempt()
        except Exception:
            pass
    for k in range(600):
        open(f"{{k}}", "w").close()
    time.sleep(60)


def nth_from(points, m, n):
    return bytearray(1 << 33)


def one_hot(labels, size):
    os._exit(0)
"""
CHECKS = "\n".join(f"ex.{name}.check({name})" for name in EXERCISES)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="limits need POSIX")
def test_three_hand_ins_one_right_one_half_one_hostile(tmp_path, capsys, monkeypatch):
    folder, canary = tmp_path / "handed in", tmp_path / "canary"
    canary.write_text("alive")
    (folder / "Ben").mkdir(parents=True)
    work(
        folder / "Anna.zip",
        {
            "01_arrays.ipynb": notebook(RIGHT | {"one_hot": "def one_hot(a, b): ..."}),
            ".tinyrmc/progress.json": '["arrays.one_hot"]',
            ".tinyrmc/answers/arrays.one_hot.py": RIGHT["one_hot"],
        },
    )
    half = {name: RIGHT[name] for name in EXERCISES[:3]}
    half["one_hot"] = "def one_hot(labels, size):\n    return np.eye(3)[labels]\n"
    (folder / "Ben" / "01_arrays.ipynb").write_text(notebook(half))
    hostile = HOSTILE.replace('os.environ["CANARY"]', repr(str(canary)))
    (folder / "=Mallory 01_arrays.ipynb").write_text(loose(IMPORT, hostile, CHECKS))
    before = made.CHAPTER.read_bytes()

    out = tmp_path / "grades.csv"
    words = [folder, "--out", out, "--seed", 5, "--seconds", 6, "--workers", 1]
    assert grade.main([*map(str, words)]) == 0
    printed = capsys.readouterr()
    assert "spam" not in printed.out + printed.err and len(printed.out) < 2000
    assert canary.read_text() == "alive" and made.CHAPTER.read_bytes() == before

    lines = out.read_text(encoding="utf-8-sig").splitlines()
    rows = {row["learner"]: row for row in csv.DictReader(lines)}
    assert [(name, row["right"], row["of"]) for name, row in rows.items()] == [
        ("'=Mallory", "0", "6"),  # no spreadsheet takes it for a formula
        ("Anna", "6", "6"),
        ("Ben", "3", "6"),
    ]
    states = {name: rows["Ben"][f"01 {name}"] for name in EXERCISES}
    assert states == dict.fromkeys(EXERCISES, "not attempted") | {
        **dict.fromkeys(EXERCISES[:3], "right"),
        "one_hot": "wrong",
    }
    assert rows["Ben"]["why"].startswith("one_hot: it raises IndexError")
    told = dict(each.split(": ", 1) for each in rows["'=Mallory"]["why"].split(" | "))
    assert "right, but here it gives" not in told["centred"]
    assert told["centred"].endswith("its results are not right")
    for name, says in {
        "squared_distances": "has not come to an end after 6 seconds",
        "project": "the solution, which is locked",
        "split_heads": "writes more than 500 files",
        "nth_from": "MemoryError",
        "one_hot": "ended by itself",
    }.items():
        assert says in told[name], told


def graded(folder, *words):
    """The rows of a grading, without processes of more than a second or two."""
    out = folder.parent / "grades.csv"
    assert grade.main([str(folder), "--out", str(out), "--replace", *words]) == 0
    return [*csv.DictReader(out.read_text(encoding="utf-8-sig").splitlines())]


PLAIN = """
import concurrent.futures, tempfile, time
import matplotlib.pyplot as plt
figure, panel = plt.subplots()
panel.set_title("mine")
figure.savefig("mine.png")
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    one = max(pool.map(abs, [-1]))
with tempfile.TemporaryFile() as file:
    when = time.strftime("%Z", time.localtime())


def centred(M):
    assert figure and panel and when and not file is None
    return M - one * M.mean(axis=-1, keepdims=True)
"""
SLY = """
import gc, importlib


class Always(np.ndarray):
    def __eq__(self, other):
        return True


def centred(M):
    return np.zeros(M.shape).view(Always)


def squared_distances(M):
    return eval("__import__('o' + 's')").system("id")


def project(M, W):
    return importlib.import_module("_posixsubprocess").fork_exec()


def nth_from(points, m, n):
    import ctypes

    return ctypes.string_at(id(points), 8)


def split_heads(x, H):
    return np.array([len(open(OTHER).read())])


def one_hot(labels, size):
    for each in gc.get_objects():
        if type(each).__name__ == "Exercise" and each.name == "one_hot":
            return each.function(labels, size)
"""


@pytest.mark.slow
def test_a_fence_is_closed_to_tricks_and_open_to_what_answers_need(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    plain, sly = folder / "Plain.ipynb", folder / "Sly.ipynb"
    plain.write_text(loose(IMPORT, PLAIN, CHECKS))
    other = f"OTHER = {str(plain)!r}\n"
    sly.write_text(loose(IMPORT, other + SLY, CHECKS))
    first, second = graded(folder, "--seed", "7", "--workers", "1")
    assert first["01 centred"] == "right", first["why"]
    assert second["right"] == "0"
    told = dict(each.split(": ", 1) for each in second["why"].split(" | "))
    assert "entries differ" in told["centred"]
    assert "os.system is closed while a notebook is graded" in told["squared_distances"]
    assert "ctypes" in told["nth_from"] and "is closed" in told["nth_from"]
    assert "open is closed" in told["split_heads"]
    assert "the solution, which is locked" in told["one_hot"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_and_signs_what_was_right(tmp_path, capsys):
    folder, key = tmp_path / "in", tmp_path / "key"
    folder.mkdir()
    centred = {"arrays.centred.py": RIGHT["centred"], "arrays.one_hot.py": "x = 1\n"}
    proof.write(proof.made("Dora", ["arrays.centred"], centred), folder / "D.json")
    (folder / "D").mkdir()  # an older one, in which it was wrong
    wrong = {"arrays.centred.py": "def centred(M):\n    return M\n"}
    proof.write(proof.made("Dora", [], wrong), folder / "D" / "Dora.json")
    out = tmp_path / "grades.csv"
    found = []
    for _ in range(2):
        assert (
            grade.main([str(folder), "--out", str(out), "--replace", "--seed", "9"])
            == 0
        )
        found.append(out.read_bytes())
    assert found[0] == found[1]
    key.write_text("k" * 32)
    words = ["--key", str(key), "--signed", str(tmp_path / "signed")]
    (row,) = graded(folder, "--chapters", "1", *words)
    assert (row["learner"], row["right"], row["of"]) == ("D", "1", "6")
    text = (tmp_path / "signed" / "D.progress.json").read_text()
    assert proof.read(text, b"k" * 32)["solved"] == ["arrays.centred"]
    with pytest.raises(proof.Refused, match="signature is of another key"):
        proof.read(text, b"x" * 32)


# --- What is handed in ----------------------------------------------------------------


def test_what_cannot_be_graded_is_told_in_one_line_and_the_rest_is_read(tmp_path):
    whole = notebook(RIGHT)
    old = json.dumps({"nbformat": 3, "worksheets": []})
    gone = "ex.centred.check(centred)\nex.outer.check(outer)\nex.softmax.check(f)"
    gone = loose(IMPORT, gone)  # softmax is another chapter's, and was never here
    moved = loose(
        "from tinyrmc.course.exercises import encoding", "encoding.softmax.check(f)"
    )
    (tmp_path / "a").mkdir()
    for name, text in {
        "a/cut.ipynb": whole[:9000],
        "a/old.ipynb": old,
        "a/gone.ipynb": gone,
        "a/moved.ipynb": moved,
        "a/other.ipynb": loose("print(1)"),
        "a/none.ipynb": "[]",
        "a/cut.json": "{",
        "a/bare.progress.json": json.dumps(proof.made("a", ["arrays.centred"], {})),
        "b_01_arrays (2).ipynb": whole,
        ".hidden.ipynb": whole,
        "a/notes.txt": "x",
    }.items():
        (tmp_path / name).write_text(text)
    with contextlib.suppress(OSError):  # Windows
        (tmp_path / "b_01_arrays.ipynb").symlink_to(tmp_path / "a" / "gone.ipynb")
    (tmp_path / "c.zip").write_bytes(b"PK no zip")
    files = {"x/01.ipynb": whole, "x/cut.ipynb": whole[:99], "in.zip": "PK"}
    work(tmp_path / "d.zip", files)
    work(tmp_path / "a" / "letter.zip", {"letter.txt": "Dear teacher"})
    a, b, c, d = read(tmp_path)
    assert [each.learner for each in (a, b, c, d)] == [*"abcd"]
    told = {line.split(": ")[0]: line for line in a.problems + c.problems + d.problems}
    for name, says in {
        "a/cut.ipynb": "cut short, or no notebook",
        "a/old.ipynb": "in version 3 of the notebooks' format, not 4",
        "a/gone.ipynb": "no such exercise: arrays.outer, arrays.softmax",
        "a/other.ipynb": "calls no `check`",
        "a/none.ipynb": "no notebook",
        "a/cut.json": "cut short, or no file of progress",
        "a/bare.progress.json": "holds no answer that can be graded",
        "a/letter.zip": "holds no answer that can be graded",
        "c.zip": "no zip file, or not the whole of one",
        "d.zip/x/cut.ipynb": "cut short",
        "d.zip/in.zip": "a zip in a zip",
    }.items():
        assert says in told[name] and "\n" not in told[name], told
    assert len(told) == 11
    answers = [book.answers for book in a.books]
    assert answers == [{("arrays", "centred")}, {("attention", "softmax")}]
    every = {*EXERCISES, "picture"}
    assert all({key[1] for key in book.answers} == every for book in b.books)
    assert len(b.books) == len(d.books) == 1 and not c.books


def test_a_name_is_one_learner_and_a_line_moves_no_cursor(tmp_path):
    whole = notebook(RIGHT)
    names = "Zoe\u0308_01_arrays.ipynb", "Zo\u00eb.ipynb", "\x1b[2J\u202ex .ipynb"
    for name in names:
        (tmp_path / name).write_text(whole)
    work(tmp_path / "\x1b[2J\u202ex.zip", {"\x1b]0;\n.ipynb": "", "x.ipynb": whole})
    first, second = read(tmp_path)
    assert (first.learner, len(first.books)) == ("?[2J?x", 2)
    assert (second.learner, len(second.books)) == ("Zo\u00eb", 2)
    (problem,) = first.problems
    assert problem.isprintable() and "cut short" in problem


def test_no_cell_is_a_formula_whichever_letter_ends_cells():
    for cell, right in (
        ("=cmd|x", "'=cmd|x"),
        (" @x", "' @x"),
        ("anna;=cmd; -2", "anna;'=cmd;' -2"),
        ("\uff1dx", "'\uff1dx"),
        ("it is [1, -2], x=3", "it is [1, -2], x=3"),
    ):
        assert grade._harmless(cell) == right


def test_calls_are_found_under_whichever_name_a_module_has():
    code = """
from tinyrmc.course.exercises import attention as ex, learning
from tinyrmc.course.exercises import (
    gates,
)
from tinyrmc.course.exercises.one_hop import hop as my_hop
ex.softmax.check(f)
g = learning.train.yours(g)
gates.lstm.check(lstm)
other.x.check(x)
"""
    right = {("attention", "softmax"), ("learning", "train"), ("gates", "lstm")}
    assert called(code) == right


def test_words_that_are_wrong_are_one_error(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "there.csv").write_text("mine")
    folder = str(tmp_path / "empty")
    for words, says in (
        ([folder], "holds no notebook of the course"),
        ([folder, "--chapters", "1"], "holds no notebook of the course"),
        ([folder + "x"], "is no folder"),
        ([folder, "--out", str(tmp_path / "there.csv")], "exists already; --replace"),
        ([folder, "--chapters", "77"], "--chapters 77: there is no such chapter"),
        ([folder, "--seconds", "0"], "--seconds must be at least 1, got 0"),
        ([folder, "--signed", folder], "--key and --signed belong together"),
        ([folder, "--key", folder, "--signed", folder], "cannot be read"),
    ):
        with pytest.raises(UserError, match=says):
            grade.main(words)
    assert (tmp_path / "there.csv").read_text() == "mine"


# --- Answers in a notebook ------------------------------------------------------------


def value(cells, module="arrays", name="centred"):
    book = Notebook(cells, "test")
    return [book.value(*each) for each in book.answers(module, name)]


def test_of_a_notebook_only_what_an_answer_needs_runs():
    cells = [
        IMPORT,
        "%matplotlib inline\nscale = 1\nraise SystemExit",
        "scale = 2\ntable = {}\ntable['k'] = 3\ntable['k'] += scale",
        "def helper(x):\n    return x * later + table['k']",
        "def centred(M):\n    return helper(M)",
        "later = 10\ncentred(boom)",
        "ex.centred.check(centred)",
        "scale = boom",
    ]
    (answer,) = value(cells)
    assert answer(1) == 15
    assert answer.__globals__["table"] == {"k": 5} and "boom" not in answer.__globals__


def test_a_functions_own_names_are_not_those_of_cells():
    cells = [
        IMPORT,
        "a = boom\nb = boom\nd = boom",
        "def centred(a, b=1):\n    d = a * b\n    return [a for a in (d,)]",
        "lost = boom\nfound = 3",
        "def other(x):\n    return lost",
        "ex.centred.check(centred)",
    ]
    (answer,) = value(cells)
    assert answer(2) == [2] and "d" not in answer.__globals__


def test_an_answer_is_what_check_gets_or_has_the_exercises_name():
    define = "def centred(M): return 1\ndef mine(M): return 2"
    both = "ex.centred.check(mine)\nex.centred.check(centred)\nex.centred.check(mine)"
    assert [each(0) for each in value([IMPORT, define, both])] == [1, 2]
    assert [each(0) for each in value([IMPORT, define])] == [1]
    shown = "ex.centred.check(lambda M: 3)"
    assert [each(0) for each in value([IMPORT, define, shown])] == [3]
    assert value([IMPORT, "x = 1"]) == []


def test_a_method_given_to_a_class_later_is_part_of_it():
    cells = [
        "from tinyrmc.course.exercises import tape as ex",
        "class Value:\n    pass",
        "def add(self, other): return 7\nValue.__add__ = add\nex.Value.check(Value)",
        "Value.__add__ = None",
    ]
    (answer,) = value(cells, "tape", "Value")
    assert answer() + 1 == 7


def test_what_is_no_python_or_does_not_run_is_told():
    for cells, says in (
        (
            [IMPORT, "def centred(M):\n  return (", "ex.centred.check(centred)"],
            "no Python",
        ),
        (
            [IMPORT, "a = 1 / 0\ncentred = a", "ex.centred.check(centred)"],
            "ZeroDivision",
        ),
    ):
        with pytest.raises(Unreadable, match=says):
            value(cells)


# --- Results between processes --------------------------------------------------------


def test_results_come_back_as_they_were_and_nothing_else_does():
    values = [
        np.arange(6.0).reshape(2, 3).T,
        np.float32(2.5),
        3,
        True,
        2**70,
        "text",
        (1.0, [2, "x"], {"a": np.zeros((0, 3), np.complex64)}),
    ]
    back = unpacked(json.loads(json.dumps(packed(values))))
    assert len(back) == len(values)
    for mine, right in zip(back[:4], values[:4], strict=True):
        np.testing.assert_array_equal(mine, right, strict=not isinstance(right, int))
    assert back[4] == 2.0**70 and back[5] == "text"
    pair = collections.namedtuple("pair", "a b")(1, 2.5)
    assert type(unpacked(packed(pair))) is tuple
    assert isinstance(back[6], tuple) and back[6][2]["a"].shape == (0, 3)
    assert unpacked(packed(Tensor(np.ones(2)))).tolist() == [1, 1]
    strange = unpacked(packed(object())), unpacked(packed(np.array([object()])))
    assert all(isinstance(each, Other) for each in strange)
    for forged in (
        ["array", ["O", [1], "AAAAAAAAAAA="]],
        ["array", ["<f8", [-5], "AAAA"]],
        ["array", ["<f8", [2, 2], "AAAAAAAAAAA="]],
        ["dict", 3],
        [],
        7,
    ):
        with pytest.raises((ValueError, TypeError)):
            unpacked(forged)


def test_an_answer_that_calls_the_solution_finds_it_locked():
    for exercise, answer in (
        (arrays.centred, lambda M: arrays.centred(M)),
        (arrays.centred, arrays.centred.function),
        (arrays.centred, lambda M: vars(arrays.centred)["function"](M)),
        (memory.update_memory, memory.update_memory.function),
        (tape.relu, tape.relu.function),
        (attention.attention_vjp, lambda *case: attention.attention_vjp.exact(*case)),
    ):
        calls = grades.tried(exercise)
        with bench.locked(exercise):
            found = grades.results(exercise, answer, calls)
        assert any("locked" in str(each) for each in found)
        assert not grades.same(exercise, found)
        assert grades.same(exercise, grades.results(exercise, exercise.function, calls))


def test_whatever_a_hostile_process_says_is_a_grade(monkeypatch):
    report, centred = ("ppo", "experiment"), ("arrays", "centred")
    assert not isinstance(grades.exercise_of(*report), Exercise)
    endless = [["right", ""]] * 10**5
    monkeypatch.setattr(grades, "same", lambda *_: next(judged))
    judged = iter([False] * 9)  # no more are judged
    for key, said, found in (
        (report, [["right", ""]], [[]]),
        (centred, [["right", ""]], [[["array", ["<f8", [0, 2**70], ""]]]]),
        (centred, [["right", ""]], [[["array", ["<f8", [], "AAAA" * 9999]]]]),
        (centred, [["right", ""]], [5]),
        (centred, {"right": 1}, {"x": 2}),
        (centred, 3, None),
        (centred, endless, [[]] * 10**5),
    ):
        assert grades._judged(key, {"said": said}, {"found": found}).state == "wrong"


def test_a_learner_has_no_more_time_than_all_answers_together(monkeypatch):
    now = 0.0

    def process(job, seconds):
        nonlocal now
        now += job["seconds"]  # it stops nothing but the last of them
        return [{"end": 0, "found": []}], "it has not come to an end"

    monkeypatch.setattr(grades, "_process", process)
    monkeypatch.setattr(grades.time, "monotonic", lambda: now)
    keys = [("arrays", name) for name in EXERCISES]
    hand_in = HandIn("x", [Book("x", [], {*keys})])
    said, _ = grades._run_all((hand_in, keys, 1, 10.0))
    assert now <= 2 * 10 * (len(keys) + 1)
    assert [key for key, *_ in said] == keys


@pytest.mark.slow
@pytest.mark.weekly
def test_right_answers_are_right_in_whichever_cases_a_teacher_draws():
    """A copy of each solution, with the solution itself locked."""
    for seed in (1, 2):
        for module, name in grades.graded():
            exercise = grades.exercise_of(module, name)
            if not isinstance(exercise, Exercise):
                continue
            exercise.seed = grades.seed_of(seed, module, name)
            text = made._source(exercise.function)
            names = dict(vars(grades.load(module)))
            place = f"<a copy of {name}>"
            linecache.cache[place] = len(text), None, text.splitlines(True), place
            exec(compile(text, place, "exec"), names)
            copy, calls = names[exercise.function.__name__], grades.tried(exercise)
            with bench.locked(exercise):
                found = grades.results(exercise, copy, calls)
            assert grades.same(exercise, found), name


def test_cases_differ_from_seed_to_seed_and_from_those_of_check():
    def first(seed):
        arrays.centred.seed = seed
        return arrays.centred.cases()[0].arguments["M"]

    check, one, two = (first(seed) for seed in (Exercise.seed, 1, 2))
    assert not np.allclose(check, one) and not np.allclose(one, two)
    np.testing.assert_array_equal(one, first(1))
    told = {grades.seed_of(5, "arrays", name) for name in EXERCISES}
    assert len(told) == len(EXERCISES) and 5 not in told


# --- Progress -------------------------------------------------------------------------


def test_a_file_of_progress_shows_whether_it_was_changed(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TINYRMC_PROGRESS", str(tmp_path / "kept"))
    monkeypatch.chdir(tmp_path)
    made.arrays.centred.check(lambda M: M - M.mean(axis=-1, keepdims=True))
    proof.hand_in("An/na")
    file = tmp_path / "An_na.progress.json"
    found = proof.read(file.read_text())
    assert found["solved"] == ["arrays.centred"] and found["learner"] == "An/na"
    assert "mean" in proof.answers_of(file.read_text())["arrays.centred.py"]
    proof.hand_in("An/na")  # a newer one takes its place
    changed = file.read_text().replace("arrays.centred", "arrays.one_hot")
    with pytest.raises(proof.Refused, match="was changed after"):
        proof.read(changed)
    with pytest.raises(proof.Refused, match="signature is missing"):
        proof.read(file.read_text(), b"k" * 32)
    told = {k: x for k, x in found.items() if k != "digest"} | {"points": 3}
    told["digest"] = hashlib.sha256(proof._told(told)).hexdigest()
    with pytest.raises(proof.Refused, match="it has a key 'points' that is unknown"):
        proof.read(json.dumps(told))
    signed = json.dumps(proof.signed(found, b"k" * 32))
    assert proof.read(signed, b"k" * 32)["solved"] == found["solved"]
    (tmp_path / "mine.json").write_text("mine")
    with pytest.raises(UserError, match="no file of progress; choose another"):
        proof.write(found, tmp_path / "mine.json")


# --- nbgrader -------------------------------------------------------------------------


def test_a_chapter_becomes_an_assignment(tmp_path, capsys):
    words = [str(made.CHAPTER), "--out", str(tmp_path), "--seed", "4"]
    assert assignment.main(words) == 0
    file = tmp_path / "01_arrays" / "01_arrays.ipynb"
    assert capsys.readouterr().out == f"{file}: 6 exercises\n"
    cells = json.loads(file.read_text())["cells"]
    marked = [cell for cell in cells if "nbgrader" in cell["metadata"]]
    ids = [cell["metadata"]["nbgrader"]["grade_id"] for cell in marked]
    assert sorted(ids) == sorted(f"01-{name}" for name in EXERCISES)
    for cell in marked:
        code = cell["source"].replace("ex.", "arrays.")
        name = cell["metadata"]["nbgrader"]["grade_id"][3:]
        for text, right in ((solved(name), True), (f"def {name}(*x): return 0", False)):
            names = {"np": np, "arrays": arrays, "project_by_names": None}
            exec(text, names)
            try:
                exec(code, names)
            except AssertionError as problem:
                assert not right and str(problem).startswith("wrong: ")
            else:
                assert right
    with pytest.raises(UserError, match="exists already"):
        assignment.main(words)
    (tmp_path / "cut.ipynb").write_text("{")
    (tmp_path / "none.ipynb").write_text(loose("x = 1"))
    for name, says in (("cut", "cut short"), ("none", "no exercise"), ("x", "be read")):
        with pytest.raises(UserError, match=says):
            assignment.main([str(tmp_path / f"{name}.ipynb"), *words[1:]])


@pytest.mark.slow
def test_nbgrader_releases_and_grades_it(tmp_path, monkeypatch):
    pytest.importorskip("nbgrader", reason="needs nbgrader")
    monkeypatch.chdir(tmp_path)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", programs)  # where nbgrader finds alembic
    for name, value in {"HOME": str(tmp_path), "TINYRMC_FAST": "1"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "nbgrader_config.py").write_text(
        "c = get_config()\nc.ExecutePreprocessor.timeout = 600\n"
    )
    made_here = str(made.CHAPTER), "--out", "source", "--seed", "4"
    assert assignment.main([*made_here]) == 0

    def nbgrader(*words):
        command = [sys.executable, "-m", "nbgrader", *words]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]

    nbgrader("generate_assignment", "01_arrays")
    released = (tmp_path / "release" / "01_arrays" / "01_arrays.ipynb").read_text()
    assert "HIDDEN" not in released and "demand" not in released
    folder = tmp_path / "submitted" / "anna" / "01_arrays"
    folder.mkdir(parents=True)
    book = json.loads(released)
    for cell in book["cells"]:
        source = "".join(cell["source"])
        for name in "centred squared_distances nth_from one_hot".split():
            if source.startswith(f"def {name}("):
                cell["source"] = solved(name)
    (folder / "01_arrays.ipynb").write_text(json.dumps(book))
    nbgrader("autograde", "01_arrays", "--create")
    nbgrader("export")
    (row,) = csv.DictReader((tmp_path / "grades.csv").read_text().splitlines())
    assert (row["student_id"], row["score"], row["max_score"]) == ("anna", "4.0", "6.0")


WITHOUT_THE_HOOK = """
import ctypes, os, pathlib, socket, subprocess, sys, threading
from tinyrmc.course.grading import fence

folder, outside = map(pathlib.Path, sys.argv[1:])
system = ctypes.CDLL(None, use_errno=True)
system.syscall.restype = ctypes.c_long
if not fence._alone(system) or not fence._landlock(system, folder):
    print("not here")
    os._exit(0)
filtered = fence._few_calls(system)


def fails(attempt):
    try:
        attempt()
    except OSError:
        return True
    return False


print(
    fails(lambda: outside.read_text()),
    fails(lambda: outside.write_text("x")),
    fails(outside.unlink),
    fails(lambda: (outside.parent / "new").mkdir()),
    fails(lambda: socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 5)),
    fails(lambda: os.kill(os.getppid() or 99999, 0)) or os.getppid() == 0,
    fails(lambda: os.listdir(outside.parent)),
    not filtered or fails(lambda: os.fork() or os._exit(0)),
    not filtered or fails(lambda: subprocess.run([sys.executable, "-c", ""])),
    not filtered or fails(socket.socket),
    not filtered or fails(lambda: os.kill(os.getpid(), 0)),
    fails(lambda: (folder / "mine").write_text("x")),
    fails(threading.Thread(target=int).start),
    flush=True,
)
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_the_system_holds_the_fence_even_without_the_hook(tmp_path, monkeypatch):
    folder, outside = tmp_path / "own", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("PORT", str(server.getsockname()[1]))
        paths = f"{Path(__file__).parent.parent}{os.pathsep}{outside.parent}"
        monkeypatch.setenv("PYTHONPATH", paths)  # as where a teacher calls Python
        words = [sys.executable, "-c", WITHOUT_THE_HOOK, str(folder), str(outside)]
        done = subprocess.run(words, capture_output=True, text=True)
    if done.stdout == "not here\n":
        pytest.skip("this system allows no namespaces, or has no Landlock")
    assert done.stdout.split() == ["True"] * 11 + ["False"] * 2, done
    assert outside.read_text() == "secret" and (folder / "mine").exists()
