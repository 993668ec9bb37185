"""Arrays in a file: they come back as they were, and what was cut, flipped, foreign or
forged is told.
"""

import hashlib
import io
import json
import math
import os
import re
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tinyruns import error_of, fresh_directory

from tinyrmc.errors import RunError
from tinyrmc.training import run as npz
from tinyrmc.training.run import load_arrays, save_arrays

ARRAYS = {
    "mlp.0.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "adam.step": np.array(7),
    "carry": np.zeros((0, 5)),
}
STATE = {
    "step": 7,
    "rng": {"state": 2**127 + 1},
    "best": 0.1 + 0.2,
    "stage": [3, 2],
    "notes": "héllo",
}


def packed(arrays, meta):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.npz")
        save_arrays(path, arrays, meta)
        return path.read_bytes()


def unpack(data, path, if_damaged):
    return npz.unpack(io.BytesIO(data), path, if_damaged)


def assert_same_arrays(left, right):
    assert list(left) == list(right)
    for name in left:
        assert left[name].dtype == right[name].dtype
        assert left[name].shape == right[name].shape
        assert left[name].tobytes() == right[name].tobytes()


names = st.text(st.characters(codec="utf-8"), min_size=1).filter(
    lambda name: name.isprintable() and "\\" not in name
)
dtypes = st.sampled_from(["<f4", ">f8", "<f2", "<i8", ">i4", "u1", "?", "<c16", "<f8"])
some_arrays = st.dictionaries(
    names,
    hnp.arrays(
        dtypes, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    ),
    max_size=4,
)


@given(some_arrays)
@example(
    {
        "file": np.ones(2),
        "allow_pickle": np.ones(1),
        "a": np.zeros(1),
        "a.npy": np.ones(1),
        "sha256": np.ones(3),
    }
)
@example(
    {"tinyrmc.json": np.array(3), "../up": np.array(True), "/root": np.zeros((2, 0))}
)
def test_arrays_come_back_as_they_were(arrays):
    loaded, meta = unpack(packed(arrays, STATE), "memory", "")
    assert_same_arrays(
        loaded, {name: np.asarray(array, order="C") for name, array in arrays.items()}
    )
    assert meta == STATE
    assert all(
        array.flags.writeable and array.flags.c_contiguous for array in loaded.values()
    )


def test_transposed_and_strided_arrays_keep_their_values(tmp_path):
    base = np.arange(24.0).reshape(4, 6)
    arrays = {
        "transposed": base.T,
        "strided": base[::2, ::-3],
        "fortran": np.asfortranarray(base),
    }
    save_arrays(tmp_path / "a.npz", arrays, None)
    loaded, _ = load_arrays(tmp_path / "a.npz")
    for name in arrays:
        assert np.array_equal(loaded[name], arrays[name])
        assert loaded[name].flags.c_contiguous


def test_json_values_come_back(tmp_path):
    meta = {
        "infinite": math.inf,
        "tuple": (1, 2),
        "scalar": np.float64(0.1),
        "array": np.arange(2),
    }
    save_arrays(tmp_path / "a.npz", {}, meta)
    wanted = {"infinite": math.inf, "tuple": [1, 2], "scalar": 0.1, "array": [0, 1]}
    assert load_arrays(tmp_path / "a.npz")[1] == wanted


def test_equal_content_gives_equal_bytes(tmp_path, monkeypatch):
    save_arrays(tmp_path / "one.npz", ARRAYS, STATE)
    monkeypatch.setattr("time.time", lambda: 2e9)
    monkeypatch.setattr(
        "time.localtime", lambda *seconds: (2033, 5, 18, 3, 33, 20, 2, 138, 0)
    )
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    save_arrays(
        tmp_path / "two.npz",
        {name: np.array(array, order="F") for name, array in ARRAYS.items()},
        STATE,
    )
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.npz") as file:
        assert {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_numpy_and_unzip_alone_can_read_it(tmp_path):
    save_arrays(tmp_path / "a.npz", ARRAYS, STATE)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        assert_same_arrays({name: file[name] for name in ARRAYS}, ARRAYS)
    with zipfile.ZipFile(tmp_path / "a.npz") as file:
        assert json.loads(file.read("tinyrmc.json"))["meta"] == STATE


def test_what_would_need_pickle_is_refused():
    for array in [
        np.array([{}, None]),
        np.array(["text"]),
        np.zeros(2, dtype=[("a", "f4"), ("b", "O")]),
        "text",
        None,
        [object()],
    ]:
        with fresh_directory() as tmp_path:
            text = error_of(save_arrays, tmp_path / "a.npz", {"optimizer.m": array}, {})
            assert "'optimizer.m'" in text and "dtype" in text and "pickle" in text
            assert list(tmp_path.iterdir()) == []


def test_a_missing_or_unreadable_file_is_named(tmp_path):
    assert f"cannot read {tmp_path / 'none.npz'}: No such file" in error_of(
        load_arrays, tmp_path / "none.npz"
    )
    assert f"cannot read {tmp_path}: " in error_of(load_arrays, tmp_path)


def test_every_truncation_is_detected(tmp_path):
    data = packed(ARRAYS, STATE)
    for length in range(len(data)):
        text = error_of(unpack, data[:length], "x.npz", "get another")
        assert text == (
            "x.npz is damaged, cut short or not an npz file "
            f"({length:,} bytes); get another"
        )


def test_every_bit_flip_is_detected_or_harmless():
    data = packed(ARRAYS, STATE)
    detected = 0
    for position in range(len(data)):
        for bit in (position % 8, (position + 3) % 8, (position + 6) % 8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            try:
                arrays, state = unpack(bytes(flipped), "x.npz", "get another")
            except RunError as error:
                assert re.search("cut short|damaged|not an npz", str(error))
                assert str(error).endswith("; get another")
                detected += 1
            else:
                assert_same_arrays(arrays, ARRAYS)
                assert state == STATE
    # most flips hit content; the harmless ones sit in dates and attributes of the zip
    assert detected > len(data)


def test_a_wrong_byte_that_fits_its_crc_is_detected():
    """A copy repacked by a tool that computes new CRCs: only the digest can tell."""
    members = members_of(packed(ARRAYS, STATE))
    members["mlp.0.weight.npy"] = members["mlp.0.weight.npy"][:-1] + b"\x01"
    assert "damaged (its checksum" in error_of(
        unpack, zip_of(members), "x.npz", "get another"
    )
    del members["mlp.0.weight.npy"]
    assert "damaged (its checksum" in error_of(
        unpack, zip_of(members), "x.npz", "get another"
    )


def test_an_unchanged_copy_repacked_with_compression_still_loads():
    arrays, state = unpack(
        zip_of(members_of(packed(ARRAYS, STATE)), zipfile.ZIP_DEFLATED), "x.npz", ""
    )
    assert_same_arrays(arrays, ARRAYS)
    assert state == STATE


def test_foreign_files_are_told_apart(tmp_path):
    np.savez(tmp_path / "foreign.npz", a=np.ones(3))
    assert "not one of tinyrmc's" in error_of(load_arrays, tmp_path / "foreign.npz")
    (tmp_path / "text.npz").write_text("weights, honestly")
    assert "not an npz file (17 bytes)" in error_of(load_arrays, tmp_path / "text.npz")
    for header in ("[]", "{", "{}", '{"format": "another", "version": 1}'):
        assert "not one of tinyrmc's" in error_of(
            unpack, zip_of({"tinyrmc.json": header.encode()}), "x.npz", ""
        )


def test_a_newer_format_says_upgrade(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "VERSION", npz.VERSION + 1)
    save_arrays(tmp_path / "new.npz", ARRAYS, STATE)
    monkeypatch.undo()
    text = error_of(load_arrays, tmp_path / "new.npz")
    assert "new.npz has format version 2, this tinyrmc reads 1; upgrade tinyrmc" in text


def signed(members):
    """A file of these members, with a digest that fits."""
    members = {name: x for name, x in members.items() if name != "sha256"}
    digest = npz._digest({name: [content] for name, content in members.items()})
    return zip_of(members | {"sha256": digest.encode()})


def test_an_unknown_key_in_the_header_says_upgrade():
    members = members_of(packed(ARRAYS, STATE))
    header = json.loads(members["tinyrmc.json"]) | {"units": "half"}
    members["tinyrmc.json"] = json.dumps(header).encode()
    says = "x.npz has a key 'units' that is unknown here; upgrade tinyrmc"
    assert error_of(unpack, signed(members), "x.npz", "") == says


def test_a_forged_file_runs_no_code(tmp_path):
    """Pickled objects under a correct digest: what a malicious stranger would send."""

    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "sprung"),))

    buffer = io.BytesIO()
    np.save(buffer, np.array([Trap()], dtype=object), allow_pickle=True)
    members = {
        "tinyrmc.json": members_of(packed({}, {}))["tinyrmc.json"],
        "trap.npy": buffer.getvalue(),
    }
    assert "not one of tinyrmc's" in error_of(unpack, signed(members), "x.npz", "")
    assert not (tmp_path / "sprung").exists()


def test_the_digest_is_the_one_described():
    """An independent computation: other tools may check our files."""
    members = members_of(packed(ARRAYS, STATE))
    digest = members.pop("sha256").decode()
    text = b"".join(
        name.encode() + b"\n%d\n" % len(content) + content
        for name, content in members.items()
    )
    assert digest == hashlib.sha256(text).hexdigest()


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def zip_of(members, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()
