"""Files are written whole or not at all."""

import errno
import os

import numpy as np
import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import read_json, write_json, write_whole


def test_a_full_disk_leaves_the_old_content_and_no_temporary_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_json(path, {"a": np.float32(0.5), "b": np.int64(3)})

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError) as caught:
        write_json(path, {"a": 2})
    assert caught.value.filename == str(path)
    with pytest.raises(SkelbenchError, match="No space left on device; free space"):
        write_whole(path, lambda file: file.write(b"x"))
    assert read_json(path) == {"a": 0.5, "b": 3} and os.listdir(tmp_path) == ["a.json"]


def test_old_temporary_files_of_killed_writers_are_removed(tmp_path):
    names = (".a[1].json.abcd1234.tmp", ".a[1].json.new_one1.tmp", ".b.json.abcd1234.tmp")
    for name in names:
        (tmp_path / name).write_bytes(b"half")
    os.utime(tmp_path / names[0], (1, 1))
    write_json(tmp_path / "a[1].json", {})
    assert sorted(os.listdir(tmp_path)) == sorted(["a[1].json", *names[1:]])


def test_other_files_are_an_error_at_once(tmp_path):
    """A pipe would be waited for without end."""
    os.mkfifo(tmp_path / "pipe")
    for name, error in (("pipe", OSError), (".", OSError), ("none", OSError)):
        with pytest.raises(error):
            read_json(tmp_path / name)


def test_nan_is_not_written_as_json(tmp_path):
    with pytest.raises(ValueError):
        write_json(tmp_path / "a.json", {"a": float("nan")})
