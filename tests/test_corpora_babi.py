"""The bAbI stories: their format, where they are found, and what is missing."""

import codecs
import hashlib
import os

import pytest
from corpora_files import tarred, write

from tinyrmc import corpora
from tinyrmc.corpora import CorpusError, MissingCorpus, stories
from tinyrmc.corpora.stories import TASKS, parse

# the three forms: questions in between, several supporting facts, answers in a list
TEXT = """1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Mary got the milk there.
5 Mary got the football.
6 What is Mary carrying?\tmilk,football\t4 5
1 Fred gave the cake to Bill.
2 Who gave the cake?\tFred\t1
"""


def files(variant="en", folder="tasks_1-20_v1-2", without=()):
    """{path: text} of a whole variant, or without the files that begin so."""
    found = {
        f"{folder}/{variant}/qa{k}_some-name_{part}.txt": TEXT
        for k in TASKS
        for part in ("train", "test")
    }
    return {path: text for path, text in found.items() if not path.endswith(without)}


def test_a_question_knows_what_was_told_before_it():
    first, second, third = parse(TEXT, "a")
    moved, went = ("mary", "moved", "to", "the", "bathroom"), "john went to the hallway"
    assert first.sentences == (moved, tuple(went.split()))
    assert first.question == ("where", "is", "mary") and first.answer == "bathroom"
    assert first.supporting == (0,) and (first.number, third.number) == (0, 1)
    # questions take an ID, but are no sentences
    assert len(second.sentences) == 4 and second.supporting == (2, 3)
    assert second.answer == "milk,football"
    assert third.answer == "fred" and len(third.sentences) == 1


def test_supporting_facts_may_be_left_out():
    (story,) = parse("1 It is so.\n2 Is it?\tyes\n", "a")
    assert story.answer == "yes" and story.supporting == ()


@pytest.mark.parametrize(
    "line, count",
    [
        ("no number", 2),
        ("2 Is it?\tyes\t7", 2),  # a later fact
        ("2 Is it?\tyes\tone", 2),
        ("", 2),
        ("4 A line is missing.", 2),
        ("2 .", 2),  # a sentence without a word would be an empty memory
        ("2 ?\tyes\t1", 2),
        ("2 Is it?\t \t1", 2),
        ("2 Is it?\tyes\t1\t1", 2),
    ],
)
def test_a_line_of_another_format_is_named(line, count):
    with pytest.raises(
        CorpusError, match=f"qa1.txt line {count}: .* is not a line of bAbI"
    ):
        parse(f"1 It is so.\n{line}\n3 Is it?\tyes\t1\n", "qa1.txt")


def test_a_story_begins_with_its_first_line():
    with pytest.raises(CorpusError, match=r"qa1.txt line 1: '2 It is so.' is not a"):
        parse("2 It is so.\n3 Is it?\tyes\t2\n", "qa1.txt")


@pytest.mark.parametrize(
    "data, says",
    [
        (codecs.BOM_UTF8 + b"1 It is so.\n2 Is it?\tyes\t1\n", None),
        (b"<!doctype html>\n<title>403</title>", "line 1 begins a web page"),
    ],
)
def test_a_mark_is_left_out_and_a_web_page_refused(data, says, tmp_path):
    path = tmp_path / "tasks_1-20_v1-2" / "en" / "qa1_single-supporting-fact_train.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    found = corpora.babi(data_dir=tmp_path)
    if says is None:
        assert found.stories(1, "train")[0].answer == "yes"
        return
    with pytest.raises(CorpusError, match=f"{path.name} {says}"):
        found.stories(1, "train")


def test_a_file_without_questions_is_refused():
    with pytest.raises(CorpusError, match=r"qa1.txt has no questions"):
        parse("1 It is so.\n", "qa1.txt")


@pytest.mark.parametrize(
    "version, variant, folder",
    [
        ("v1.2", "en", "tasks_1-20_v1-2"),
        ("v1.2", "en-10k", "tasks_1-20_v1-2"),
        ("v1.1", "en", "tasksv11"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_version_is_found(version, variant, folder, packed, tmp_path):
    contents = files(variant, folder) | {f"{folder}/README.txt": "text"}
    contents |= files("hn", folder)
    if packed:
        data = {path: text.encode() for path, text in contents.items()}
        tarred(tmp_path / f"{folder}.mine.tar.gz", data, prefix="")
    else:
        write(tmp_path, contents)
    tasks = corpora.babi(version, variant, tmp_path)
    assert tasks.missing == [] and tasks.changed == [*TASKS]
    for task in TASKS:
        assert (
            len(tasks.stories(task, "train")) == len(tasks.stories(task, "test")) == 3
        )


def test_only_the_missing_task_cannot_be_read(tmp_path):
    contents = files("en-10k", without=("qa3_some-name_train.txt",))
    data = {path: text.encode() for path, text in contents.items()}
    tarred(tmp_path / "tasks_1-20_v1-2.some.tar.gz", data)
    tasks = corpora.babi("v1.2", "en-10k", tmp_path)
    assert tasks.missing == ["qa3_*_train.txt"]
    assert len(tasks.stories(3, "test")) == len(tasks.stories(4, "train")) == 3
    says = (
        r"some.tar.gz has no en-10k/qa3_\*_train.txt; get it with: python -m tinyrmc.d"
    )
    with pytest.raises(MissingCorpus, match=says):
        tasks.stories(3, "train")


def test_a_folder_in_part_does_not_hide_a_whole_archive(tmp_path):
    data = {path: text.encode() for path, text in files().items()}
    few = {path: text for path, text in files().items() if "qa1_" in path}
    write(tmp_path, few)
    assert corpora.babi(data_dir=tmp_path).complete == [1]
    tarred(tmp_path / "tasks_1-20_v1-2.some.tar.gz", data)
    assert corpora.babi(data_dir=tmp_path).missing == []


@pytest.mark.parametrize("packed", [False, True])
def test_two_texts_of_one_task_are_refused(packed, tmp_path):
    name = "tasks_1-20_v1-2/en/qa1_zzz_train.txt"
    contents = files() | {name: TEXT}
    if packed:
        data = {path: text.encode() for path, text in contents.items()}
        tarred(tmp_path / "tasks_1-20_v1-2.some.tar.gz", data)
    else:
        write(tmp_path, contents)
    says = r"en/qa1_some-name_train.txt and .*qa1_zzz_train.txt are both the train text"
    with pytest.raises(CorpusError, match=says):
        corpora.babi(data_dir=tmp_path)


def test_texts_are_compared_with_the_published_ones(tmp_path, monkeypatch):
    write(tmp_path, files())
    tasks = corpora.babi(data_dir=tmp_path)
    digest = hashlib.sha256(tasks.files[1, "test"][1]).hexdigest()[:8]
    for part in stories.PARTS:
        every = " ".join(["unknown."] * 19 + [digest])
        monkeypatch.setitem(stories._DIGESTS, ("v1.2", "en", part), every)
    (path,) = tmp_path.rglob("qa20_*_test.txt")
    assert corpora.babi(data_dir=tmp_path).changed == []
    path.write_text(f"{TEXT} ")
    assert corpora.babi(data_dir=tmp_path).changed == [20]


def test_an_archive_of_another_variant_is_passed_over(tmp_path):
    for name, variant in (("a", "en"), ("b", "en-10k")):
        data = {path: text.encode() for path, text in files(variant).items()}
        tarred(tmp_path / f"tasks_1-20_v1-2.{name}.tar.gz", data)
    assert corpora.babi("v1.2", "en-10k", tmp_path).place.name.endswith("b.tar.gz")


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(
        MissingCorpus, match=r"bAbI v1.2 en is not in .*tinyrmc data babi"
    ):
        corpora.babi(data_dir=tmp_path)
    with pytest.raises(MissingCorpus, match=r"fetch http://.*v1-1.tar.gz into "):
        corpora.babi("v1.1", data_dir=tmp_path)
    with pytest.raises(
        CorpusError, match=r"no bAbI v1.1 en-10k here; there are v1.2 en,"
    ):
        corpora.babi("v1.1", "en-10k", tmp_path)
    write(tmp_path, files())
    tasks = corpora.babi(data_dir=tmp_path)
    for wrong in ((0, "train"), (21, "train"), (1, "valid")):
        with pytest.raises(CorpusError, match="tasks are 1 to 20"):
            tasks.stories(*wrong)


def test_a_truncated_archive_and_a_huge_member_are_refused(tmp_path, monkeypatch):
    data = {path: text.encode() for path, text in files().items()}
    path = tarred(tmp_path / "tasks_1-20_v1-2.a.tar.gz", data)
    monkeypatch.setattr(stories, "LARGEST", len(TEXT) - 1)
    says = r"_some-name_(train|test).txt has more than \d+ bytes"
    with pytest.raises(CorpusError, match=says):
        corpora.babi(data_dir=tmp_path)
    path.write_bytes(path.read_bytes()[:-300])
    monkeypatch.undo()
    with pytest.raises(CorpusError, match="is damaged or cut short"):
        corpora.babi(data_dir=tmp_path)


def test_a_huge_file_and_one_that_never_ends_are_not_read(tmp_path, monkeypatch):
    write(tmp_path, files())
    *_, path = tmp_path.rglob("qa1_*_train.txt")
    with open(path, "wb") as file:
        file.truncate(1 << 40)  # a TB of zeros, which take no room
    with pytest.raises(CorpusError, match=r"qa1_\S+ has more than 67,108,864 bytes"):
        corpora.babi(data_dir=tmp_path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(MissingCorpus, match=r"has no en/qa1_\*_train.txt"):
        corpora.babi(data_dir=tmp_path).stories(1, "train")


def test_an_official_archive_must_be_whole(tmp_path):
    data = {path: text.encode() for path, text in files().items()}
    tarred(tmp_path / "tasks_1-20_v1-2.tar.gz", data)
    with pytest.raises(CorpusError, match=r"bytes, not 15,719,851; delete it"):
        corpora.babi(data_dir=tmp_path)
