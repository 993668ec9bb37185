"""The corpora: what their files are called, where they come from, and their checksums.

A checksum is written as pooch wants it, `kind:digits`. Sizes are in bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")

SHORT = {"train": "train", "validation": "valid", "test": "test"}  # in file names
WHOLE = ""  # the part of a text whose parts are made here


@dataclasses.dataclass(frozen=True)
class Archive:
    """An official archive: name, size and checksum where known, and its addresses. Only
    one with a checksum is downloaded.
    """

    file: str
    size: int | None = None
    hash: str | None = None
    urls: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Known:
    """A corpus, as far as it is known.

    rule: how its text is cut into words and parts, said to the user
    remedy: what to do where nothing can be downloaded
    layouts: paths below the data directory where its files may be, with {} for train,
        valid and test; the first is the path inside the official archive
    patterns: what the file name of an archive of it may look like
    archives: those with published checksums
    hashes: of the official text of a part
    tokens, vocabulary: the published counts, with <eos> where the corpus has it
    minimum_count: rarer words of the training text become <unk>
    """

    title: str
    rule: str
    remedy: str = ""
    layouts: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    archives: tuple[Archive, ...] = ()
    hashes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tokens: Mapping[str, int] = dataclasses.field(default_factory=dict)
    vocabulary: int | None = None
    minimum_count: int = 1


# A book of Project Gutenberg for each part: Pride and Prejudice, Crime and Punishment,
# Adventures of Huckleberry Finn.
BOOKS = {"train": 1342, "validation": 2554, "test": 76}


def books_for(parts: Iterable[str]) -> str:
    """Examples of books that fall into these parts."""
    return ", ".join(f"{BOOKS[part]} ({part})" for part in parts)


def _parts(train: T, validation: T, test: T) -> dict[str, T]:
    return {"train": train, "validation": validation, "test": test}


LINES = "Words are what stands between spaces; each line end is the word <eos>."
PROSE = (
    "A word is letters and digits, also with ' and - inside, or one punctuation mark; "
    "capitals stay. Each paragraph ends in <eos>. Words seen fewer than 3 times in the "
    "training text become <unk>."
)


def _wikitext(number: int, size: int, sha256: str) -> Archive:
    file = f"wikitext-{number}-v1.zip"
    author = f"https://wikitext.smerity.com/{file}"
    other = f"https://s3.amazonaws.com/research.metamind.io/wikitext/{file}"
    return Archive(file, size, f"sha256:{sha256}", (author, other))


CORPORA = {
    "ptb": Known(
        "Penn Treebank, as prepared by Mikolov",
        LINES,
        layouts=(
            "simple-examples/data/ptb.{}.txt",
            "ptb/ptb.{}.txt",
            "penn/{}.txt",
            "ptb/{}.txt",
            "ptb.{}.txt",
        ),
        patterns=("simple-examples*.tgz", "simple-examples*.tar.gz"),
        archives=(
            Archive(
                "simple-examples.tgz",
                34_869_662,
                "md5:30177ea32e27c525793142b6bf2c8e2d",
                ("http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",),
            ),
        ),
        hashes=_parts(
            "sha256:fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
            "sha256:c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
            "sha256:dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
        ),
        tokens=_parts(929_589, 73_760, 82_430),
        vocabulary=10_000,
    ),
    "wikitext-2": Known(
        "WikiText-2, good articles of Wikipedia",
        f"{LINES} Blank lines count.",
        layouts=("wikitext-2/wiki.{}.tokens", "wikitext-2/{}.txt"),
        patterns=("wikitext-2-v1*.zip",),
        archives=(
            _wikitext(
                2,
                4_475_746,
                "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
            ),
        ),
        hashes=_parts(
            "sha256:9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
            "sha256:f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
            "sha256:d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
        ),
        tokens=_parts(2_088_628, 217_646, 245_569),
        vocabulary=33_278,
    ),
    "wikitext-103": Known(
        "WikiText-103, fifty times as many good articles",
        f"{LINES} Blank lines count.",
        layouts=("wikitext-103/wiki.{}.tokens", "wikitext-103/{}.txt"),
        patterns=("wikitext-103-v1*.zip",),
        archives=(
            _wikitext(
                103,
                190_229_076,
                "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
            ),
        ),
        hashes=_parts(
            "sha1:b7497e2dfe77e72cfef5e3dbc61b7b53712ac211",
            "sha256:9aee9f52d6e77de6c7751fc5e7c44287db3ec0eaf15477098acc6b93c1c4250b",
            "sha256:56db52eb157b1ab5c89646eef70510c1eca6e12a3bfdb99f0d6b05b4eacb75b9",
        ),
        tokens=_parts(103_227_021, 217_646, 245_569),
        vocabulary=267_735,
    ),
    "text8": Known(
        "text8, the first 100 MB of Wikipedia, cleaned",
        "Words are what stands between spaces. The first 93.3 % of the bytes are "
        "for training, the next 5.7 % for validation, the last 1 % for testing; a word "
        "belongs to the part in which it begins. Words seen fewer than 10 times in the "
        "training text become <unk>. There is no <eos>.",
        layouts=("text8", "text8/text8", "text8.txt", "text8/text8.txt"),
        patterns=("text8*.zip",),
        archives=(
            Archive(
                "text8.zip",
                31_344_016,
                "sha256:"
                "a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232",
                ("http://mattmahoney.net/dc/text8.zip",),
            ),
        ),
        hashes={WHOLE: "md5:3bea1919949baf155f99411df5fada7e"},
        minimum_count=10,
    ),
    "gutenberg": Known(
        "books of Project Gutenberg",
        f"{PROSE} The licence around a book is left out. A book's number decides its "
        "part, so another book moves none of the others: of a hundred books, about 80 "
        "are for training, 10 for validation and 10 for testing.",
        remedy="put books as .txt files into {folder}, at least one for each part, "
        f"such as {books_for(SHORT)}; they are at www.gutenberg.org",
        minimum_count=3,
    ),
    "gigaword": Known(
        "English Gigaword, newswire (LDC2011T07)",
        f"{PROSE} All stories in the .gz files are taken; if there are none, each .txt "
        "file is a story. A story's name decides its part: of a hundred, about 98 are "
        "for training, 1 for validation and 1 for testing.",
        remedy="the LDC sells it (LDC2011T07); put its data folder at {folder}",
        minimum_count=3,
    ),
}

BABI_SITE = "http://www.thespermwhale.com/jaseweston/babi/"
BABI_ARCHIVES = {
    "v1.2": (
        Archive(
            "tasks_1-20_v1-2.tar.gz",
            15_719_851,
            "sha256:0364ebde659f14d11bc21744516c5ec49d3d06cb692733f66680771244998898",
            (f"{BABI_SITE}tasks_1-20_v1-2.tar.gz",),
        ),
        Archive("tasks_1-20_v1-2.tar.gz", 11_745_123),  # an earlier one of that name
        Archive(
            "babi.tar.gz",
            hash="sha256:"
            "f7f0bee187efca0d81c3daac1b162cda4eb7f9505dee5ad6846eabbed3dbf92e",
            urls=("http://parl.ai/downloads/babi/babi.tar.gz",),
        ),
    ),
    "v1.1": (),
}
