"""The bAbI stories: their format, where they are found, and what is missing."""

import codecs
import gzip
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


def packed(path, contents):
    """A tar of {path: text}."""
    return tarred(path, {name: text.encode() for name, text in contents.items()})


# --- The format -----------------------------------------------------------------------


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
    (story,) = parse("1 It is so.\n2 Is it?\tyes\n", "a")  # without supporting facts
    assert story.answer == "yes" and story.supporting == ()


def test_lines_end_as_they_do_anywhere_and_nowhere_else():
    """Blank lines at the end are nothing."""
    for end in "\n", "\r\n", "\r":
        for last in "", end, f"{end}{end}", f"{end} {end}", f"{end}\t\f{end}\u2028":
            text = TEXT.rstrip().replace("\n", end) + last
            assert parse(text, "a") == parse(TEXT, "a")
    for character in "\f\v\x1c\x1d\x1e\x85\u2028\u2029":
        one, *_ = parse(f"1 Mary{character}moved.\n2 Who{character}?\tMary\t1\n", "a")
        assert one.sentences == (("mary", "moved"),) and one.question == ("who",)


def test_a_letter_and_its_marks_are_one():
    # composed, decomposed, with a soft hyphen; Hindi's vowel signs
    for name in "Zoe\u0308", "Zo\u00eb", "Zo\u00ad\u00eb":
        (story,) = parse(f"1 {name} left.\n2 Who left?\t{name}\t1\n", "a")
        assert story.sentences == ((story.answer, "left"),) == (("zo\u00eb", "left"),)
    word = "\u0939\u093f\u0928\u094d\u0926\u0940"
    (story,) = parse(f"1 {word} {word}.\n2 {word}?\tyes\t1\n", "a")
    assert story.sentences == ((word, word),) and story.question == (word,)


def test_a_line_of_another_format_is_named():
    wrong = [
        "no number",
        "2 Is it?\tyes\t7",  # a later fact
        "2 Is it?\tyes\tone",
        "",
        "4 A line is missing.",
        "2 .",  # a sentence without a word would be an empty memory
        "2 ?\tyes\t1",
        "2 Is it?\t \t1",
        "2 Is it?\t",
        "2 Is it?\tyes\t1\t1",
    ]
    for line in wrong:
        with pytest.raises(CorpusError, match=r"qa1.txt line 2: .* is not a line of"):
            parse(f"1 It is so.\n{line}\n3 Is it?\tyes\t1\n", "qa1.txt")
    with pytest.raises(CorpusError, match=r"qa1.txt line 1: '2 It is so.' is not a"):
        parse("2 It is so.\n3 Is it?\tyes\t2\n", "qa1.txt")
    with pytest.raises(CorpusError, match=r"qa1.txt has no questions"):
        parse("1 It is so.\n", "qa1.txt")


def test_marks_and_gzip_are_taken_off_and_a_web_page_refused(tmp_path):
    text = b"1 It is so.\n2 Is it?\tyes\t1\n"
    path = tmp_path / "tasks_1-20_v1-2" / "en" / "qa1_single-supporting-fact_train.txt"
    path.parent.mkdir(parents=True)
    for data in codecs.BOM_UTF8 + text, gzip.compress(text):
        path.write_bytes(data)
        assert corpora.babi(data_dir=tmp_path).stories(1, "train")[0].answer == "yes"
    path.write_bytes(b"<!doctype html>\n<title>403</title>")
    with pytest.raises(CorpusError, match=f"{path.name} line 1 begins a web page"):
        corpora.babi(data_dir=tmp_path).stories(1, "train")


# --- Where they are -------------------------------------------------------------------


@pytest.mark.parametrize("packs", [False, True])
def test_a_version_is_found(packs, tmp_path):
    places = [
        ("v1.2", "en", "tasks_1-20_v1-2"),
        ("v1.2", "en-10k", "tasks_1-20_v1-2"),
        ("v1.1", "en", "tasksv11"),
    ]
    for version, variant, folder in places:
        contents = files(variant, folder) | {f"{folder}/README.txt": "text"}
        contents |= files("hn", folder)
        here = tmp_path / f"{version}-{variant}"
        here.mkdir()
        if packs:
            packed(here / f"{folder}.mine.tar.gz", contents)
        else:
            write(here, contents)
        tasks = corpora.babi(version, variant, here)
        assert tasks.missing == [] and tasks.changed == tasks.complete == [*TASKS]
        for task in TASKS:
            for part in "train", "test":
                assert len(tasks.stories(task, part)) == 3


def test_only_the_missing_task_cannot_be_read(tmp_path):
    contents = files("en-10k", without=("qa3_some-name_train.txt",))
    packed(tmp_path / "tasks_1-20_v1-2.some.tar.gz", contents)
    tasks = corpora.babi("v1.2", "en-10k", tmp_path)
    assert tasks.missing == ["qa3_*_train.txt"]
    assert len(tasks.stories(3, "test")) == len(tasks.stories(4, "train")) == 3
    says = r"some.tar.gz has no en-10k/qa3_\*_train.txt; get it with: python -m tinyrmc"
    with pytest.raises(MissingCorpus, match=says):
        tasks.stories(3, "train")


def test_the_fullest_place_is_taken_and_another_variant_passed_over(tmp_path):
    write(tmp_path, {path: text for path, text in files().items() if "qa1_" in path})
    assert corpora.babi(data_dir=tmp_path).complete == [1]
    packed(tmp_path / "tasks_1-20_v1-2.a.tar.gz", files())
    assert corpora.babi(data_dir=tmp_path).missing == []
    packed(tmp_path / "tasks_1-20_v1-2.b.tar.gz", files("en-10k"))
    assert corpora.babi("v1.2", "en-10k", tmp_path).place.name.endswith("b.tar.gz")


def test_two_texts_of_one_task_are_refused(tmp_path):
    contents = files() | {"tasks_1-20_v1-2/en/qa1_zzz_train.txt": TEXT.lower()}
    write(tmp_path / "plain", contents)
    (tmp_path / "packed").mkdir()
    packed(tmp_path / "packed" / "tasks_1-20_v1-2.some.tar.gz", contents)
    says = r"en/qa1_some-name_train.txt and .*qa1_zzz_train.txt are both the train text"
    for name in "plain", "packed":
        with pytest.raises(CorpusError, match=says):
            corpora.babi(data_dir=tmp_path / name)


def test_texts_are_compared_with_the_published_ones(tmp_path, monkeypatch):
    write(tmp_path, files())
    tasks = corpora.babi(data_dir=tmp_path)
    digest = hashlib.sha256(tasks.files[1, "test"][1]).hexdigest()[:4]
    for part in stories.PARTS:
        every = "????" * 19 + digest
        monkeypatch.setitem(stories._DIGESTS, ("v1.2", "en", part), every)
    (path,) = tmp_path.rglob("qa20_*_test.txt")
    assert corpora.babi(data_dir=tmp_path).changed == []
    path.write_text(f"{TEXT} ")
    assert corpora.babi(data_dir=tmp_path).changed == [20]


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(MissingCorpus, match=r"bAbI v1.2 en is not in .*tinyrmc data"):
        corpora.babi(data_dir=tmp_path)
    with pytest.raises(MissingCorpus, match=r"fetch http://.*v1-1.tar.gz into "):
        corpora.babi("v1.1", data_dir=tmp_path)
    with pytest.raises(CorpusError, match=r"no bAbI v1.1 en-10k here; there are v1.2"):
        corpora.babi("v1.1", "en-10k", tmp_path)
    write(tmp_path, files())
    tasks = corpora.babi(data_dir=tmp_path)
    for wrong in ((0, "train"), (21, "train"), (1, "valid")):
        with pytest.raises(CorpusError, match="tasks are 1 to 20"):
            tasks.stories(*wrong)
    *_, path = tmp_path.rglob("qa1_*_train.txt")
    path.unlink()
    os.mkfifo(path)  # it would never end
    with pytest.raises(MissingCorpus, match=r"has no en/qa1_\*_train.txt"):
        corpora.babi(data_dir=tmp_path).stories(1, "train")


def test_an_archive_must_be_whole(tmp_path):
    path = packed(tmp_path / "tasks_1-20_v1-2.a.tar.gz", files())
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(CorpusError, match="is damaged or cut short"):
        corpora.babi(data_dir=tmp_path)


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    write(tmp_path, files())

    def refused(path, mode):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(stories.Path, "open", refused)
    with pytest.raises(CorpusError, match=r"cannot read .*qa\d+_.*: Permission denied"):
        corpora.babi(data_dir=tmp_path)
