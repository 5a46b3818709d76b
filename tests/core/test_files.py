import errno
import os

import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import read_json, write_atomic, write_json, write_whole


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
    with pytest.raises(OSError) as caught:
        write_json(path, {"a": 2})
    assert caught.value.filename == str(path)
    monkeypatch.undo()
    assert read_json(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES])
def test_more_space_is_advised_where_space_is_what_lacks(tmp_path, monkeypatch, number):
    def fails(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fails)
    cure = "choose another place" if number == errno.EACCES else "free space or choose another place"
    with pytest.raises(SkelbenchError, match=f"cannot write .*a.json: {os.strerror(number)}; {cure}$"):
        write_whole(tmp_path / "a.json", lambda file: file.write(b"x"))


def test_old_temporary_files_of_killed_writers_are_removed(tmp_path):
    names = (".a[1].json.abcd1234.tmp", ".a[1].json.new_one1.tmp", ".b.json.abcd1234.tmp")
    for name in names:
        (tmp_path / name).write_bytes(b"half")
    os.utime(tmp_path / names[0], (1, 1))
    write_json(tmp_path / "a[1].json", {})
    assert sorted(os.listdir(tmp_path)) == sorted(["a[1].json", *names[1:]])


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
