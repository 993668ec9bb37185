"""Every pattern that reads others' texts, on many bytes of the line that is worst for
it. One that goes back over what it has read would take a minute or more: after ten
seconds of the processor for a line it is killed here.
"""

import subprocess
import sys

import pytest

# ruff: noqa: E501
CASES = """
import signal, unicodedata
from tinyrmc.corpora import files, stories
from tinyrmc.corpora.corpus import CorpusError
from tinyrmc.corpora.own import tokens_of, unit_of
from tinyrmc.corpora.words import book, essence, newswire, prose, shingles

N = 250_000
HEAD = "*** START OF THE PROJECT GUTENBERG EBOOK A ***"
LINES = [
    "_", "*", "***", " ", "\\n", "\\n ", "\\t", "-", "--", ".", "'", "a", "a-", "a'a",
    "THE ", "HERE ", "IS ", "***THE ", "***START", "***END ", "END_", "START ", "START\\n",
    "COPYRIGHTED ", "***COPYRIGHTED", "***a COPYRIGHTED ", "a ", "***SMALL ", "SMALL PRINT",
    "***START OF ", "PROJECT GUTENBERG ", "***END OF PROJECT GUTENBERG\\n", f"{HEAD}\\n",
    "<<THIS ELECTRONIC VERSION OF", "Produced ", "Produced by ", "<", "\\u0301\\u0323",
    "a\\u0301", "\\u200d", "\\u00ad", "\\ufeff", "_ ", "* ", "***\\n", "*** _",
]
SGML = ["<DOC", "<DOC ", '<DOC type="story"', '<DOC id="a" type="story">', "<TEXT>", "<a",
        "</", "</TEXT>", "</DOC>", 'id="', "&#1", "&", "&a", "<DOC id=", "&#9999999999"]
for line in LINES:
    signal.setitimer(signal.ITIMER_PROF, 10)
    text = line * (N // len(line.encode()))
    for whole in text, f"{HEAD}\\n{text}x", f"END{text}", f"***{text}", f"***END {text}":
        if "\\u0301" in line and whole is not text:
            continue
        prose(book(whole.encode(), "a")[0])
    essence(text), shingles(text, N), unit_of(text)
    for unit in "words", "characters":
        tokens_of(text, unit)
    for story in f"1 {text}", f"1 {text}\\n2 a?\\t{text}\\t1":
        try:
            stories.parse(story, "a")
        except CorpusError:
            pass
    try:
        files.decoded(text.encode() + b"<", "a")
    except CorpusError:
        pass
for line in SGML:
    signal.setitimer(signal.ITIMER_PROF, 10)
    text = line * (N // len(line))
    for whole in text, f'<DOC id="a" type="story"><TEXT>{text}</TEXT></DOC>', f"<a{'b' * N}":
        [*newswire(whole.encode(), "a")]
"""


# those beside texts: messages, and what learners hand in
OTHERS = """
import signal
from tinyrmc.cli import commands
from tinyrmc.course.grading.hand_ins import CALL, CHAPTER, IMPORT, KEPT
from tinyrmc.course.grading.statements import MAGIC

FROM = "from tinyrmc.course.exercises import "
for line in ["\\n", " ", " \\n", "a\\n", "A\\n ", "_", "-", "_0", "00_", "00_a ", "(", "a",
             "a.", "a.a.a", FROM, f"{FROM}(", f"\\n{FROM}(", "/.tinyrmc/answers/", "1,", "%",
             "\\t", ".tinyrmc/answers/a.a.py/", "( )", "(0"]:
    signal.setitimer(signal.ITIMER_PROF, 10)
    text = line * (250_000 // len(line))
    for pattern in CALL, IMPORT, KEPT, MAGIC, CHAPTER:
        pattern.search(text), pattern.findall(text)
    try:
        commands._refuse(text)
    except SystemExit:
        pass
"""


@pytest.mark.slow
@pytest.mark.weekly
@pytest.mark.skipif(sys.platform == "win32", reason="limits need POSIX")
@pytest.mark.parametrize("code", [CASES, OTHERS], ids=["texts", "others"])
def test_the_worst_line_takes_no_longer_than_its_length(code):
    words = [sys.executable, "-c", code]
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
