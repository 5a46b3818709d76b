import errno
import os

import pytest

from skelbench.files import read_json, write_atomic, write_json


def test_a_failing_write_leaves_the_old_content_and_no_debris(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})

    def fail(file):
        file.write(b"half")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        write_atomic(path, fail)
    assert read_json(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_full_disk_leaves_the_old_content(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})

    def full(fd):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError):
        write_json(path, {"a": 2})
    monkeypatch.undo()
    assert read_json(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["a.json"]


def test_what_is_no_file_of_json_is_an_error_at_once(tmp_path):
    """A pipe would be waited for without end, a device read without end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "deep").write_text("[" * 100_000)
    for name, error in (("pipe", OSError), ("zero", OSError), (".", OSError), ("none", OSError), ("deep", ValueError)):
        with pytest.raises(error):
            read_json(tmp_path / name)


def test_numpy_scalars_are_written(tmp_path):
    import numpy as np

    write_json(tmp_path / "a.json", {"a": np.float32(0.5), "b": np.int64(3)})
    assert read_json(tmp_path / "a.json") == {"a": 0.5, "b": 3}


def test_nan_is_not_written_as_json(tmp_path):
    with pytest.raises(ValueError):
        write_json(tmp_path / "a.json", {"a": float("nan")})
    assert not (tmp_path / "a.json").exists()
