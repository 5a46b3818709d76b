import os
import struct
import zipfile

import pytest
from made.files import zipped

from skelbench.core.errors import SkelbenchError
from skelbench.data.raw.files import BadFile, list_all, list_raw

TEXT = b"0.5 1.5\r\n" * 400


def contents(path, limit=1 << 20):
    """Name -> bytes, or the reason why there are none."""
    found = {}
    for file in list_raw(path):
        try:
            found[file.name] = file.read(limit)
        except BadFile as error:
            found[file.name] = str(error)
    return found


def test_folders_nested_or_flat(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "one").write_bytes(b"1")
    (tmp_path / "a" / "b" / "two").write_bytes(b"2")
    assert contents(tmp_path) == {"one": b"1", "two": b"2"}


def test_links_are_followed_but_not_in_circles(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "one").write_bytes(b"1")
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "linked").symlink_to(tmp_path / "data")
    (tmp_path / "raw" / "back").symlink_to(tmp_path / "raw")
    (tmp_path / "raw" / "gone").symlink_to(tmp_path / "nowhere")
    assert contents(tmp_path / "raw") == {"one": b"1", "gone": "it cannot be read: No such file or directory"}


def test_folders_that_cannot_be_listed_are_told(tmp_path, locked):
    (tmp_path / "open").mkdir()
    locked(tmp_path / "secret")
    for place in ("one", "open/two", "secret/three"):
        (tmp_path / place).write_bytes(b"1")
    assert contents(tmp_path) == {"one": b"1", "two": b"1", "secret": "the folder cannot be read: Permission denied"}
    assert [file.name for file in list_raw(tmp_path) if file.folder] == ["secret"]
    locked(tmp_path)
    with pytest.raises(SkelbenchError, match="the folder .* cannot be read: Permission denied; choose"):
        contents(tmp_path)


def test_the_order_is_that_of_names_and_what_has_a_problem_is_last(tmp_path):
    (tmp_path / "raw").mkdir()
    for name in ("b", "a", "c"):
        (tmp_path / "raw" / name).write_bytes(b"1")
    (tmp_path / "raw" / "0").symlink_to(tmp_path / "nowhere")
    places = [tmp_path / "raw", zipped(tmp_path / "z.zip", {"y": b"1", "../0": b"1", "x": b"1"})]
    for order in (places, places[::-1]):
        files = list_all(order)
        assert [file.name for file in files] == ["a", "b", "c", "x", "y", "0", "0"]
        assert [bool(file.problem) for file in files] == [False] * 5 + [True] * 2


def test_what_is_no_file_or_too_large_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * 2000)
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 40)
    found = contents(tmp_path, limit=1000)
    assert found.pop("pipe") == "it is not a regular file"
    assert set(found) == {"large", "sparse"} and all("larger than" in reason for reason in found.values())


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zips_are_read_without_unpacking(tmp_path, method):
    members = {"top/one.txt": TEXT, "two.txt": b"", "top/deep/three.txt": bytes(range(256)), "top/": b""}
    path = zipped(tmp_path / "made.zip", members, method)
    assert contents(path) == {"one.txt": TEXT, "two.txt": b"", "three.txt": bytes(range(256))}
    assert [p.name for p in tmp_path.iterdir()] == ["made.zip"]


def test_a_zip_behind_something_else(tmp_path):
    path = zipped(tmp_path / "made.zip", {"one": TEXT})
    path.write_bytes(b"#!/bin/sh\nexit\n" + path.read_bytes())
    assert contents(path) == {"one": TEXT}


@pytest.mark.parametrize("name", ["../one", "a/../../one", "/etc/one", "..\\one", "C:/one", "C:\\one"])
def test_names_that_lead_out_are_refused_and_touch_nothing(tmp_path, name):
    path = zipped(tmp_path / "made.zip", {name: TEXT, "two": b"2"})
    assert contents(path) == {"one": "its name leads out of the zip file", "two": b"2"}
    assert [p.name for p in tmp_path.iterdir()] == ["made.zip"]


def test_names_for_the_terminal_hold_nothing_but_text(tmp_path):
    path = zipped(tmp_path / "made.zip", {"a\x1b[31m\nb": b"1"})
    (name,) = contents(path)
    assert name == "a\ufffd[31m\ufffdb"


def test_bombs(tmp_path):
    path = zipped(tmp_path / "made.zip", {"zeros": b"\0" * 900_000, "good": TEXT, "huge": os.urandom(1 << 12) * 400})
    found = contents(path, limit=1 << 20)
    assert "times its size" in found["zeros"] and "larger than 1 MB" in found["huge"] and found["good"] == TEXT


def patch(path, name, offset, value):
    """Write ``value`` into a member's entry of the zip's directory."""
    data = bytearray(path.read_bytes())
    entry = data.rindex(name) - 46
    assert data[entry : entry + 4] == b"PK\1\2"
    data[entry + offset : entry + offset + len(value)] = value
    path.write_bytes(data)


def test_a_member_never_yields_more_than_it_declares(tmp_path):
    """One that declares 100 bytes and holds 3,600, and one that declares more than it holds."""
    for size in (100, 5000):
        path = zipped(tmp_path / "made.zip", {"one.txt": TEXT, "two": b"2"})
        patch(path, b"one.txt", 24, struct.pack("<L", size))
        found = contents(path)
        assert found["two"] == b"2" and "the zip file is damaged here" in found["one.txt"]


@pytest.mark.parametrize(("offset", "value", "reason"), [
    (8, b"\1\0", "it is encrypted"),
    (10, b"\x0e\0", "packed by method 14"),
    (16, b"\0\0\0\0", "the zip file is damaged here (Bad CRC-32"),
    (42, struct.pack("<L", 5), "the zip file is damaged here"),
    (42, struct.pack("<L", 1 << 30), "the zip file is damaged here"),
])  # fmt: skip
def test_damaged_members_are_refused_and_the_rest_is_read(tmp_path, offset, value, reason):
    path = zipped(tmp_path / "made.zip", {"two": b"2", "one.txt": TEXT})
    patch(path, b"one.txt", offset, value)
    found = contents(path)
    assert reason in found["one.txt"] and found["two"] == b"2"


def test_damaged_data(tmp_path):
    path = zipped(tmp_path / "made.zip", {"one": TEXT})
    data = bytearray(path.read_bytes())
    start = data.index(b"one") + 3
    for i in range(start, start + 12):
        damaged = bytes(data[:i]) + bytes([data[i] ^ 0xFF]) + bytes(data[i + 1 :])
        path.write_bytes(damaged)
        assert "zip file" in contents(path)["one"]


def test_overlapping_members(tmp_path):
    path = zipped(tmp_path / "made.zip", {f"{i}": os.urandom(3000) for i in range(9)})
    data = bytearray(path.read_bytes())
    place = data.find(b"PK\1\2")
    while place >= 0:  # all of them claim most of the file
        data[place + 20 : place + 24] = struct.pack("<L", len(data) - 500)
        place = data.find(b"PK\1\2", place + 4)
    path.write_bytes(data)
    with pytest.raises(SkelbenchError, match="its members overlap"):
        contents(path)


def test_no_zip_and_nothing(tmp_path):
    path = zipped(tmp_path / "made.zip", {"one": TEXT})
    path.write_bytes(path.read_bytes()[:-30])
    (tmp_path / "empty.zip").write_bytes(b"")
    for name in ("made.zip", "empty.zip"):
        with pytest.raises(SkelbenchError, match="neither a folder nor a readable zip file.*download or copy it again"):
            contents(tmp_path / name)
    (tmp_path / "S001C001P001R001A001.skeleton").write_bytes(TEXT)
    with pytest.raises(SkelbenchError, match="skeleton is neither .* nor a zip file; name the folder that it lies in"):
        contents(tmp_path / "S001C001P001R001A001.skeleton")
    with pytest.raises(SkelbenchError, match="there is nothing at .*nowhere"):
        contents(tmp_path / "nowhere")
