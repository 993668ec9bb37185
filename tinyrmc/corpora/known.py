"""The corpora: what their files are called, where they come from, and their checksums.

A checksum is written as pooch wants it, `kind:digits`. Sizes are in bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Archive:
    """An official archive: its name, size and checksum, and where it can be had."""

    file: str
    size: int | None
    hash: str
    urls: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Known:
    """What is known of a corpus.

    folders: where its files may lie, unpacked or renamed, below the data directory; the
        first is the path inside the official archive
    files: {part: the names its file may have}; all in one of the folders
    archives: patterns of file names that may be an archive of it
    official: archives with published checksums
    hashes, sizes: of the official text of a part
    tokens: {part: the published count, with <eos> where the corpus has it}
    minimum_count: rarer words of the training text become <unk>
    rule: how the text is cut into words and parts, for those who want to compare
    """

    title: str
    folders: tuple[str, ...] = ()
    files: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    archives: tuple[str, ...] = ()
    official: tuple[Archive, ...] = ()
    hashes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    tokens: Mapping[str, int] = dataclasses.field(default_factory=dict)
    vocabulary: int | None = None
    minimum_count: int = 1
    rule: str = ""


def _parts(train, validation, test):
    return {"train": train, "validation": validation, "test": test}


LINES = "Words are what stands between spaces; each line end is <eos>."

_WIKITEXT = {
    "files": _parts(
        ("wiki.train.tokens", "train.txt"),
        ("wiki.valid.tokens", "valid.txt"),
        ("wiki.test.tokens", "test.txt"),
    ),
    "rule": f"{LINES} Blank lines are lines too.",
}


def _wikitext(number: int, size: int, sha256: str) -> tuple[Archive, ...]:
    file = f"wikitext-{number}-v1.zip"
    hosts = (
        "https://wikitext.smerity.com/",
        "https://s3.amazonaws.com/research.metamind.io/wikitext/",
    )
    urls = tuple(f"{host}{file}" for host in hosts)
    return (Archive(file, size, f"sha256:{sha256}", urls),)


_BABI = "http://www.thespermwhale.com/jaseweston/babi/"

CORPORA = {
    "ptb": Known(
        "Penn Treebank, as prepared by Mikolov",
        folders=("simple-examples/data", "penn", "ptb", "penn-treebank"),
        files=_parts(
            ("ptb.train.txt", "train.txt"),
            ("ptb.valid.txt", "valid.txt"),
            ("ptb.test.txt", "test.txt"),
        ),
        archives=("simple-examples*.tgz", "simple-examples*.tar.gz"),
        official=(
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
        sizes=_parts(5_101_618, 399_782, 449_945),
        tokens=_parts(929_589, 73_760, 82_430),
        vocabulary=10_000,
        rule=LINES,
    ),
    "wikitext-2": Known(
        "WikiText-2, words of Wikipedia's good articles",
        folders=("wikitext-2", "wikitext-2-v1"),
        archives=("wikitext-2-v1*.zip",),
        official=_wikitext(
            2,
            4_475_746,
            "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
        ),
        hashes=_parts(
            "sha256:9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
            "sha256:f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
            "sha256:d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
        ),
        sizes=_parts(10_797_148, 1_121_681, 1_256_449),
        tokens=_parts(2_088_628, 217_646, 245_569),
        vocabulary=33_278,
        **_WIKITEXT,
    ),
    "wikitext-103": Known(
        "WikiText-103, fifty times as much of it",
        folders=("wikitext-103", "wikitext-103-v1"),
        archives=("wikitext-103-v1*.zip",),
        official=_wikitext(
            103,
            190_229_076,
            "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
        ),
        hashes=_parts(
            "sha1:b7497e2dfe77e72cfef5e3dbc61b7b53712ac211",
            "sha256:9aee9f52d6e77de6c7751fc5e7c44287db3ec0eaf15477098acc6b93c1c4250b",
            "sha256:56db52eb157b1ab5c89646eef70510c1eca6e12a3bfdb99f0d6b05b4eacb75b9",
        ),
        sizes={"validation": 1_142_309, "test": 1_281_077},
        tokens=_parts(103_227_021, 217_646, 245_569),
        vocabulary=267_735,
        **_WIKITEXT,
    ),
}
