"""Small texts in the layouts of the official archives, made by the tests."""

import dataclasses
import hashlib
import io
import tarfile
import zipfile

from tinyrmc.corpora import CORPORA
from tinyrmc.corpora.known import Archive

PTB = {
    "train": " the cat <unk> on N mats \n the dog sat \n"
    " a cat and a dog sat on the mat \n",
    "valid": " the dog sat on N mats \n",
    "test": " a cat sat \n the mat \n",
}

WIKITEXT = {
    "train": " \n = Title = \n \n The star @-@ shaped mat cost 1 @,@ 000 € . \n \n",
    "valid": " \n = Title = \n",
    "test": " The mat . \n",
}

LAYOUTS = {
    "ptb": ("simple-examples/data/ptb.{}.txt", PTB),
    "wikitext-2": ("wikitext-2/wiki.{}.tokens", WIKITEXT),
}


def members(name):
    """{path in the official archive: bytes} of a small text."""
    layout, texts = LAYOUTS[name]
    return {layout.format(part): text.encode() for part, text in texts.items()}


def write(folder, contents):
    """Write {path: text or bytes} below a folder."""
    for path, content in contents.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode()
        file.write_bytes(data)
    return folder


def zipped(path, contents):
    """A zip of {path: bytes}."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return path


def tarred(path, contents, prefix="./"):
    """A gzip-compressed tar of {path: bytes}; names begin with ./ as Mikolov's do."""
    with tarfile.open(path, "w:gz") as archive:
        for name, data in contents.items():
            info = tarfile.TarInfo(prefix + name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def make_official(monkeypatch, name, path, urls=()):
    """Let this archive be the official one of a corpus."""
    data = path.read_bytes()
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    archive = Archive(path.name, digest, tuple(urls))
    known = dataclasses.replace(CORPORA[name], archives=(archive,))
    monkeypatch.setitem(CORPORA, name, known)
    return archive
