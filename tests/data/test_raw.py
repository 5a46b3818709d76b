"""Raw files: texts of NTU RGB+D and PKU-MMD, folders, zips, and the processes that read them."""

import os
import signal

import numpy as np
import pytest
from made.files import zipped
from made.literal_ntu import comparable, literal_frames, literal_recording
from made.ntu import FIRST_ID, Track, person, scene, wild_scene, write_recording
from made.pku import video, write_video

from skelbench.core.errors import SkelbenchError
from skelbench.data.raw.files import BadFile, list_all
from skelbench.data.raw.ntu.text import parse
from skelbench.data.raw.pku.prepare import parse_frames, parse_labels
from skelbench.data.raw.report import in_order


def two_people(frames=6):
    """The second person is in frames 2 to 4 only."""
    rng = np.random.default_rng(0)
    tracks = [Track(FIRST_ID, range(frames), person(rng, frames)), Track(FIRST_ID + 1, range(2, 5), person(rng, 3))]
    return write_recording(tracks, frames)


def edit(data, line, field, value):
    """The text with one field (``field`` None: a whole line) replaced."""
    lines = data.split(b"\n")
    fields = lines[line].split(b" ")
    if field is not None:
        fields[field] = value
    lines[line] = value if field is None else b" ".join(fields)
    return b"\n".join(lines)


@pytest.mark.parametrize("end", ["\r\n", "\n"])
@pytest.mark.parametrize("digits", [3, 7, 17])
def test_ntu_texts_equal_the_literal_reader(end, digits):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        data = write_recording(scene(rng, 40) if seed % 2 else wild_scene(rng, 20), 40, end, digits)
        assert comparable(parse(data)) == literal_recording(data)
        assert comparable(parse(data.replace(b" ", b"  ") + b"\n \n")) == literal_recording(data)


@pytest.mark.parametrize(("damage", "reason"), [
    (lambda data: b"", "frame 0: the file ends here"),
    (lambda data: data[:5000] + b"\0" * 5000, "frame 1: .*damaged"),
    (lambda data: data[:-40], "frame 5: there should be a body of 25 joints; .*cut short"),
    (lambda data: edit(data, 3, None, b"24\r"), "frame 0: there should be a body of 25 joints"),
    (lambda data: edit(data, 9, 2, b"0.12x4"), "frame 0: .*0.12x4"),
    (lambda data: data + b"1 2", "more text after the last frame"),
    (lambda data: b"3\r\n0\r\n0\r\n0\r\n", "no body in any of its 3 frames"),
])  # fmt: skip
def test_a_damaged_ntu_text_is_rejected_with_its_frame(damage, reason):
    with pytest.raises(BadFile, match=reason):
        parse(damage(two_people()))


def test_pku_frames_equal_the_literal_reader():
    data = write_video(video(np.random.default_rng(0), 30))
    assert parse_frames(data).shape == (30, 150) and parse_frames(data).tobytes() == literal_frames(data)


@pytest.mark.parametrize(("change", "reason"), [
    (lambda rows: [*rows[:9], rows[9][:-9], *rows[10:]], "changed from 150 to 149 at row 10"),
    (lambda rows: [*rows[:9], rows[9].replace(rows[9].split()[4], "x1")], "x1"),
])  # fmt: skip
def test_damaged_pku_frames(change, reason):
    rows = write_video(video(np.random.default_rng(0), 12)).decode().splitlines()
    with pytest.raises(BadFile, match=reason):
        parse_frames("\n".join(change(rows)).encode())


def test_pku_labels():
    assert parse_labels(b"3,5,20,2\r\n 7 , 20.0 , 40\n\n1,0,9,1,\n") == [[3, 5, 20], [7, 20, 40], [1, 0, 9]]
    for line in (b"3,5", b"3,5,x", b"3,5,20.5", b"3,,5", b"3,inf,5"):
        with pytest.raises(BadFile, match="label"):
            parse_labels(b"1,2,3,1\n" + line)


# ------------------------------------------------------------------------------------------------ files and processes
def test_files_of_folders_and_zips_in_order_of_place_and_name(tmp_path):
    (tmp_path / "raw" / "deep").mkdir(parents=True)
    (tmp_path / "raw" / "deep" / "b").write_bytes(b"2")
    (tmp_path / "raw" / "a").write_bytes(b"1")
    (tmp_path / "raw" / "gone").symlink_to(tmp_path / "nowhere")
    packed = zipped(tmp_path / "z.zip", {"top/c": b"3", "top/": b""})
    *files, member = list_all([packed, tmp_path / "raw"])
    assert [file.name for file in files] == ["a", "b", "gone"] and member.name == "c"
    assert [file.read() for file in (*files[:2], member)] == [b"1", b"2", b"3"]
    with pytest.raises(BadFile, match="No such file"):
        files[2].read()


def square(number):
    if number < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


@pytest.mark.parametrize("workers", [1, 2])
def test_results_of_several_processes_come_in_order(workers):
    assert list(in_order(square, range(50), workers)) == [number**2 for number in range(50)]


def test_a_killed_worker_process_is_one_error():
    with pytest.raises(SkelbenchError, match="a worker process was killed.*--workers"):
        list(in_order(square, [*range(40), -1, *range(40)], 2))
