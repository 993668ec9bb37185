"""Archives, which are read and never unpacked; downloads, from a server of our own."""

import contextlib
import gc
import http.server
import io
import tarfile
import threading
import warnings

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
from tinyrmc.corpora import CorpusError
from tinyrmc.corpora.known import BABI_ARCHIVES, CORPORA

SMALL = {
    "ptb": ("simple-examples-small.tgz", tarred),
    "wikitext-2": ("wikitext-2-v1-small.zip", zipped),
}


@pytest.fixture(autouse=True)
def sockets():
    """Those that urllib3 leaves open where there was no connection go right away."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def kept(folder):
    """The names of what is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def words(corpus, part):
    return corpus.vocabulary.decode(corpus.texts[part])


def expected(text):
    return text.replace("\n", " <eos> ").split()


# --- Archives -------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_an_archive_is_read_without_unpacking_it_if_it_is_whole(name, tmp_path):
    file, pack = SMALL[name]
    others = {"simple-examples/data/ptb.char.train.txt": b"t h e", "README": b"\xff"}
    pack(tmp_path / file, others | members(name))
    corpus = corpora.load(name, tmp_path)
    texts = LAYOUTS[name][1]
    assert words(corpus, "train") == expected(texts["train"])
    assert words(corpus, "test") == expected(texts["test"])
    assert kept(tmp_path) == [file]
    data = bytearray(pack(tmp_path / file, members(name)).read_bytes())
    data[len(data) // 3] ^= 0xFF
    (tmp_path / file).write_bytes(data)
    with pytest.raises(CorpusError, match=file):
        corpora.load(name, tmp_path)
    long = {path: text * 2000 for path, text in members(name).items()}
    data = pack(tmp_path / file, long).read_bytes()
    for share in 0, 0.3, 0.9:
        (tmp_path / file).write_bytes(data[: int(share * len(data))])
        with pytest.raises(CorpusError, match=f"{file} is damaged or cut short .*"):
            corpora.load(name, tmp_path)


def test_files_count_before_an_archive_if_all_are_there(tmp_path):
    tarred(tmp_path / "simple-examples.small.tgz", members("ptb"))
    write(tmp_path, members("ptb") | {"simple-examples/data/ptb.test.txt": " a dog \n"})
    assert words(corpora.load("ptb", tmp_path), "test") == ["a", "dog", "<eos>"]
    (tmp_path / "simple-examples/data/ptb.train.txt").unlink()
    assert words(corpora.load("ptb", tmp_path), "test") == expected(PTB["test"])


def test_an_archive_of_something_else_is_refused(tmp_path):
    tarred(tmp_path / "simple-examples.small.tgz", {"simple-examples/README": b""})
    says = r"small.tgz has no simple-examples/data/ptb.train.txt in it; fetch the offi"
    with pytest.raises(CorpusError, match=says):
        corpora.load("ptb", tmp_path)


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


def test_an_archive_is_downloaded_and_read(official):
    for kinds in ["good"], ["moved"], ["gone", "cut", "wrong", "good"]:
        folder = official(*kinds)
        path = corpora.download("wikitext-2", folder)
        assert path == folder / "wikitext-2-v1.zip" and path.read_bytes() == Server.data
        corpus = corpora.load("wikitext-2", folder)
        assert words(corpus, "test") == expected(WIKITEXT["test"])
        assert kept(folder) == ["wikitext-2-v1.zip"]
    write(folder, {"wikitext-2-v1.zip": Server.data[:100]})  # is replaced
    corpora.download("wikitext-2", folder)
    assert path.read_bytes() == Server.data


def test_a_failed_download_is_one_line_and_leaves_nothing(official, tmp_path):
    reasons = {
        "wrong": "what came has another checksum",
        "cut": "no connection, or it was cut",
        "gone": "404 Not Found",
    }
    for kind, reason in reasons.items():
        folder = official(kind)
        with pytest.raises(CorpusError) as caught:
            corpora.download("wikitext-2", folder)
        said = str(caught.value)
        assert f"/{kind}/wikitext-2-v1.zip ({reason}); try again, or" in said
        assert said.startswith("cannot download wikitext-2 from http://127.0.0.1:")
        assert said.endswith(f"fetch wikitext-2-v1.zip by other means into {folder}")
        assert not folder.exists() or kept(folder) == []
    folder = official("gone", "cut")
    with pytest.raises(CorpusError, match=r"404 Not Found\), nor from http://.*/cut/"):
        corpora.download("wikitext-2", folder)
    official("good")
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"cannot write .*below/wikitext-2-v1.zip: "):
        corpora.download("wikitext-2", tmp_path / "file" / "below")


def test_what_cannot_be_downloaded_is_said(tmp_path, monkeypatch):
    path = zipped(tmp_path / "wikitext-2-v1.zip", members("wikitext-2"))
    make_official(monkeypatch, "wikitext-2", path, ["http://127.0.0.1:1/a.zip"])
    cases = {
        "wikitext-2": r"a.zip \(no connection, or it was cut\); try again",
        "wikitext2": r"there is no corpus 'wikitext2' .*; did you mean 'wikitext-2'",
        "gutenberg": "gutenberg has no archive; ",
    }
    for name, says in cases.items():
        with pytest.raises(CorpusError, match=says):
            corpora.download(name, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_all_that_is_downloaded_has_a_checksum():
    archives = [a for known in CORPORA.values() for a in known.archives]
    archives += [a for version in BABI_ARCHIVES.values() for a in version]
    assert all(archive.hash for archive in archives if archive.urls)
