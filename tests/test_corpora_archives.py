"""Archives, which are read and never unpacked; downloads, from a server of our own."""

import contextlib
import http.server
import io
import struct
import tarfile
import threading
import zipfile

import pytest
from corpora_files import (
    LAYOUTS,
    PTB,
    WIKITEXT,
    make_official,
    members,
    tarred,
    write,
    zipped,
)

from tinyrmc import corpora
from tinyrmc.corpora import CorpusError, files
from tinyrmc.corpora.files import Text
from tinyrmc.corpora.finding import find
from tinyrmc.corpora.known import CORPORA
from tinyrmc.corpora.stories import ARCHIVES

SMALL = {
    "ptb": ("simple-examples-small.tgz", tarred),
    "wikitext-2": ("wikitext-2-v1-small.zip", zipped),
}


def kept(folder):
    """What is in a folder, but not the cache."""
    return sorted(path.name for path in folder.iterdir() if "cache" not in path.name)


def words(corpus, part):
    return corpus.vocabulary.decode(corpus.texts[part])


def expected(text):
    return text.replace("\n", " <eos> ").split()


# --- Archives -------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_an_archive_is_read_without_unpacking_it(name, tmp_path):
    file, pack = SMALL[name]
    others = {"simple-examples/data/ptb.char.train.txt": b"t h e", "README": b"\xff"}
    pack(tmp_path / file, others | members(name))
    corpus = corpora.load(name, tmp_path)
    texts = LAYOUTS[name][1]
    assert words(corpus, "train") == expected(texts["train"])
    assert words(corpus, "test") == expected(texts["test"])
    assert kept(tmp_path) == [file]


def test_text8_in_its_zip(tmp_path):
    text = " ab cd" * 200
    zipped(tmp_path / "text8-small.zip", {"text8": text.encode()})
    corpus = corpora.load("text8", tmp_path)
    assert sum(len(ids) for ids in corpus.texts.values()) == 400


def test_files_count_before_an_archive_if_all_are_there(tmp_path):
    tarred(tmp_path / "simple-examples.small.tgz", members("ptb"))
    write(tmp_path, members("ptb") | {"simple-examples/data/ptb.test.txt": " a dog \n"})
    assert words(corpora.load("ptb", tmp_path), "test") == ["a", "dog", "<eos>"]
    (tmp_path / "simple-examples/data/ptb.train.txt").unlink()
    assert words(corpora.load("ptb", tmp_path), "test") == expected(PTB["test"])


def test_an_archive_without_the_text_is_refused(tmp_path):
    tarred(tmp_path / "simple-examples.small.tgz", {"simple-examples/README": b""})
    says = (
        r"small.tgz has no simple-examples/data/ptb.train.txt in it; fetch the official"
    )
    with pytest.raises(CorpusError, match=says):
        corpora.load("ptb", tmp_path)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("share", [0, 0.3, 0.9])
def test_a_truncated_archive_is_refused(name, share, tmp_path):
    file, pack = SMALL[name]
    long = {path: text * 2000 for path, text in members(name).items()}
    data = pack(tmp_path / file, long).read_bytes()
    (tmp_path / file).write_bytes(data[: int(share * len(data))])
    with pytest.raises(
        CorpusError, match=f"{file} is damaged or cut short .*; delete it"
    ):
        corpora.load(name, tmp_path)
    assert [*tmp_path.glob("*cache/*")] == []


@pytest.mark.parametrize("name", SMALL)
def test_a_changed_byte_in_an_archive_is_found(name, tmp_path):
    file, pack = SMALL[name]
    path = pack(tmp_path / file, members(name))
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(CorpusError, match=file):
        corpora.load(name, tmp_path)


def test_an_official_archive_must_be_whole(tmp_path, monkeypatch):
    path = zipped(tmp_path / "wikitext-2-v1.zip", members("wikitext-2"))
    make_official(monkeypatch, "wikitext-2", path)
    data = path.read_bytes()
    path.write_bytes(data + b"\0")
    size = f"{len(data) + 1} bytes, not {len(data)}; delete it and fetch it again"
    with pytest.raises(CorpusError, match=f"is not the official archive: {size}"):
        corpora.load("wikitext-2", tmp_path)
    path.write_bytes(data[:-1] + b"\1")
    with pytest.raises(CorpusError, match="its sha256 checksum differs; delete it"):
        corpora.load("wikitext-2", tmp_path)
    with pytest.raises(CorpusError, match=r"such as wikitext-2-v1-mine\.zip$"):
        corpora.load("wikitext-2", tmp_path)
    path.rename(tmp_path / "wikitext-2-v1-mine.zip")
    assert find("wikitext-2", tmp_path).place.name == "wikitext-2-v1-mine.zip"
    path.write_bytes(data)
    (tmp_path / "wikitext-2-v1-mine.zip").unlink()
    corpora.load("wikitext-2", tmp_path)


def test_members_that_point_elsewhere_are_not_followed(tmp_path):
    """Neither ../ nor links: what is read is found by its name within the archive."""
    secret = tmp_path / "secret.txt"
    secret.write_text(" secret \n")
    path = tmp_path / "simple-examples-evil.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            link = tarfile.TarInfo("simple-examples/data/ptb.train.txt")
            link.type, link.linkname = kind, str(secret)
            archive.addfile(link)
        for name, data in members("ptb").items():
            info = tarfile.TarInfo(f"../../{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    corpus = corpora.load("ptb", tmp_path)
    assert words(corpus, "train") == expected(PTB["train"])
    assert kept(tmp_path) == sorted([path.name, secret.name])


def test_a_bomb_is_refused_by_its_declared_size(tmp_path):
    """Ten gigabytes are declared; none of them is there."""
    path = zipped(tmp_path / "wikitext-2-v1-bomb.zip", members("wikitext-2"))
    with zipfile.ZipFile(path) as archive:
        size = archive.infolist()[0].file_size
    data = path.read_bytes()
    place = data.index(b"PK\1\2") + 24  # of the first member, in the directory
    assert data[place : place + 4] == struct.pack("<I", size)
    huge = data[:place] + struct.pack("<I", (4 << 30) - 2) + data[place + 4 :]
    path.write_bytes(huge)
    with pytest.raises(
        CorpusError, match=r"declares 4,294,967,294 bytes .*: delete it"
    ):
        corpora.load("wikitext-2", tmp_path)

    path = tmp_path / "simple-examples-bomb.tgz"
    with tarfile.open(path, "w:gz") as archive:  # before the text, so it must be passed
        info = tarfile.TarInfo("simple-examples/zeros")
        info.size = 10 << 30
        archive.fileobj.write(info.tobuf())  # from Python 3.13 on addfile wants a file
    with pytest.raises(CorpusError, match="declares 10,737,418,240 bytes"):
        corpora.load("ptb", tmp_path)


def test_a_member_gives_no_more_than_it_declares(tmp_path):
    path = zipped(tmp_path / "a.zip", {"text8": b"x" * 1000})
    data = path.read_bytes().replace(struct.pack("<I", 1000), struct.pack("<I", 10))
    path.write_bytes(data)
    with pytest.raises(CorpusError, match=r"a.zip is damaged"):
        with Text(path, ("text8",)).open() as (file, _, size):
            assert size == 10 and len(file.read()) <= 10


def test_the_largest_text_is_far_below_the_limit():
    sizes = [size for known in CORPORA.values() for size in known.sizes.values()]
    assert max(sizes) * 5 < files.LARGEST


# --- Downloads ------------------------------------------------------------------------


class Server(http.server.BaseHTTPRequestHandler):
    """/good and /moved give the data, /wrong others, /cut half of them, /gone none."""

    data = b""

    def do_GET(self):
        how = self.path.split("/")[1]
        if how == "moved":
            self.send_response(302)
            self.send_header("Location", self.path.replace("moved", "good"))
            self.end_headers()
            return
        if how == "gone":
            self.send_error(404, "Not Found")
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.data)))
        self.end_headers()
        sent = self.data[::-1] if how == "wrong" else self.data
        self.wfile.write(sent[: len(sent) // 2] if how == "cut" else sent)

    def log_message(self, *_):
        pass


@pytest.fixture
def official(tmp_path, monkeypatch):
    """A function: official(kinds of address) -> the data directory; what is served is
    the archive of WikiText-2.
    """
    path = zipped(tmp_path / "wikitext-2-v1.zip", members("wikitext-2"))
    monkeypatch.setattr(Server, "data", path.read_bytes())
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        port = server.server_address[1]

        def serve(*kinds):
            urls = [
                f"http://127.0.0.1:{port}/{kind}/wikitext-2-v1.zip" for kind in kinds
            ]
            make_official(monkeypatch, "wikitext-2", path, urls)
            with contextlib.suppress(FileNotFoundError):
                (tmp_path / "data" / path.name).unlink()
            return tmp_path / "data"

        try:
            yield serve
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("kind", ["good", "moved"])
def test_an_archive_is_downloaded_and_read(kind, official):
    folder = official(kind)
    path = corpora.download("wikitext-2", folder)
    assert path == folder / "wikitext-2-v1.zip" and path.read_bytes() == Server.data
    corpus = corpora.load("wikitext-2", folder)
    assert words(corpus, "test") == expected(WIKITEXT["test"])
    assert kept(folder) == ["wikitext-2-v1.zip"]


REASONS = {
    "wrong": "what came has another checksum",
    "cut": "the connection was cut",
    "gone": "404 Not Found",
}


@pytest.mark.parametrize("kind", REASONS)
def test_a_failed_download_is_one_line_and_leaves_nothing(kind, official):
    folder = official(kind)
    with pytest.raises(CorpusError) as caught:
        corpora.download("wikitext-2", folder)
    said = str(caught.value)
    assert f"/{kind}/wikitext-2-v1.zip ({REASONS[kind]}); try again, or" in said
    assert said.startswith("cannot download wikitext-2 from http://127.0.0.1:")
    assert said.endswith(f"fetch wikitext-2-v1.zip by other means into {folder}")
    assert not folder.exists()


def test_the_next_address_is_tried(official):
    folder = official("gone", "cut", "wrong", "good")
    assert corpora.download("wikitext-2", folder).read_bytes() == Server.data
    folder = official("gone", "cut")
    with pytest.raises(CorpusError, match=r"404 Not Found\), nor from http://.*/cut/"):
        corpora.download("wikitext-2", folder)


def test_a_server_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    path = zipped(tmp_path / "wikitext-2-v1.zip", members("wikitext-2"))
    make_official(monkeypatch, "wikitext-2", path, ["http://127.0.0.1:1/a.zip"])
    with pytest.raises(CorpusError, match=r"a.zip \(no connection\); try again"):
        corpora.download("wikitext-2", tmp_path / "data")


@pytest.mark.parametrize(
    "name, says",
    [
        ("wikitext2", r"there is no corpus 'wikitext2' .*; did you mean 'wikitext-2'"),
        ("gutenberg", "gutenberg has no archive; "),
    ],
)
def test_what_cannot_be_downloaded_is_said(name, says, tmp_path):
    with pytest.raises(CorpusError, match=says):
        corpora.download(name, tmp_path)


def test_a_folder_that_cannot_be_written_is_one_line(official, tmp_path):
    official("good")
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"cannot write .*below/wikitext-2-v1.zip: "):
        corpora.download("wikitext-2", tmp_path / "file" / "below")


def test_a_damaged_archive_is_replaced(official):
    folder = official("good")
    write(folder, {"wikitext-2-v1.zip": Server.data[:100]})
    corpora.download("wikitext-2", folder)
    assert (folder / "wikitext-2-v1.zip").read_bytes() == Server.data


def test_all_that_is_downloaded_has_a_checksum():
    archives = [a for known in CORPORA.values() for a in known.archives]
    archives += [a for version in ARCHIVES.values() for a in version]
    assert all(archive.hash for archive in archives if archive.urls)
