import numpy as np
import pytest
from made.fuzz_text import comparable, literal_recording
from made.ntu import FIRST_ID, Track, person, scene, wild_scene, write_recording

from skelbench.data.raw.files import BadFile
from skelbench.data.raw.ntu.text import parse

RNG = np.random.default_rng(4)
ENDS = {"CRLF": "\r\n", "LF": "\n"}


def made(end="\r\n", frames=6, digits=7, seed=0, **changes):
    """Two persons, the second in frames 2 to 4 only."""
    rng = np.random.default_rng(seed)
    first = Track(changes.get("id", FIRST_ID), range(frames), person(rng, frames))
    return write_recording([first, Track(FIRST_ID + 1, range(2, 5), person(rng, 3))], frames, end, digits)


def edit(data, line, field, value):
    """The text with one field (or with ``field`` None a whole line) replaced."""
    lines = data.split(b"\n")
    if field is None:
        lines[line] = value
    else:
        fields = lines[line].split(b" ")
        fields[field] = value
        lines[line] = b" ".join(fields)
    return b"\n".join(lines)


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("digits", [3, 7, 9, 17])
def test_both_ways_of_reading_give_what_the_obvious_reader_gives(end, digits):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        data = write_recording(scene(rng, 40) if seed % 2 else wild_scene(rng, 20), 40, end, digits)
        expected = literal_recording(data)
        assert comparable(parse(data)) == expected
        assert comparable(parse(data.replace(b" ", b"  "))) == expected, "another layout, read line by line"


def test_the_end_of_the_text_may_be_blank_or_missing():
    for end in ENDS.values():
        data = made(end)
        for variant in (data, data + end.encode(), data.removesuffix(end.encode()), data + b" "):
            assert comparable(parse(variant)) == comparable(parse(data))


@pytest.mark.parametrize("change", [
    lambda data: data.replace(b"\r\n", b" \r\n"), lambda data: data.replace(b" ", b"  "),
    lambda data: data.replace(b" ", b"\t"), lambda data: data.replace(b"\r\n", b"\n", 40),
    lambda data: data.replace(b"\n", b"\n ", 9).replace(b"\n 25", b"\n25  "), lambda data: data + b"\r\n\r\n  \n",
])  # fmt: skip
def test_unusual_blanks_do_not_matter(change):
    data = made()
    assert comparable(parse(change(data))) == comparable(parse(data))


def test_neighbouring_ids_beyond_what_float64_tells_apart_stay_apart():
    ids = [72057594037932358, 72057594037932359, 2**63 + 1, 18446744073709551615, -7]
    assert float(ids[0]) == float(ids[1])
    tracks = [Track(i, [0, 1], person(RNG, 2)) for i in ids]
    assert parse(write_recording(tracks, 2)).id_K == [str(i).encode() for i in ids] * 2


def test_values_that_are_not_finite_are_read():
    data = made()
    for field, value in ((0, b"NaN"), (1, b"-Infinity"), (2, b"1e39")):
        data = edit(data, 4, field, value)
    x_C = parse(data).x_KJC[0, 0]
    assert np.isnan(x_C[0]) and x_C[1] == -np.inf and x_C[2] == np.inf


def test_fields_that_are_not_used_may_hold_anything_printable():
    data = made()
    assert comparable(parse(edit(data, 4, 7, b"-1.#IND"))) == comparable(parse(data))


DAMAGE = {
    "empty": (lambda data: b"", "the file is empty"),
    "blank": (lambda data: b"\r\n\r\n", "line 1: the number of frames should be 1 field, found 0"),
    "NUL-filled": (lambda data: b"\0" * len(data), "line 1 holds NUL bytes"),
    "NUL-filled tail": (lambda data: data[:5000] + b"\0" * 5000, "line 5. holds NUL bytes.*the file is damaged"),
    "binary": (lambda data: b"PK\3\4" + bytes(range(256)), "line 1 holds the byte 0x03"),
    "cut at a line end": (lambda data: data[: data.rindex(b"\r\n", 0, -2) + 2], "ends after .* lines where a joint"),
    "cut within a line": (lambda data: data[:-40], r"a joint should be 12 fields, found \d+; the file is cut short"),
    "cut after the last blank": (lambda data: data[:-3], "12 fields, found 11; the file is cut short"),
    "half of it": (lambda data: data[: len(data) // 2], "the file is cut short"),
    "no 25": (lambda data: edit(data, 3, None, b"24\r"), "line 4: the number of joints should be 25"),
    "line 25 missing": (lambda data: data.replace(b"25\r\n", b"", 1), "line 4: the number of joints should be 1 field"),
    "a field too many": (lambda data: edit(data, 9, 11, b"2 2\r"), "line 10: a joint should be 12 fields, found more"),
    "a word for a number": (lambda data: edit(data, 9, 2, b"0.12x4"), "line 10: '0.12x4' is not a number"),
    "an underscore": (lambda data: edit(data, 9, 2, b"1_0"), "line 10: '1_0' is not a number"),
    "a strange id": (lambda data: edit(data, 2, 0, b"7.2e16"), "line 3: the tracking id '7.2e16' is not a whole"),
    "frames negative": (lambda data: edit(data, 0, None, b"-6\r"), "line 1: the number of frames should stand here"),
    "too few frames said": (lambda data: edit(data, 0, None, b"5\r"), "there is more text after the last frame"),
    "too many frames said": (lambda data: edit(data, 0, None, b"7\r"), "ends after .* where the number of bodies"),
    "frames without end": (lambda data: edit(data, 0, None, b"999999999\r"), "line 1: it says it has 999,999,999"),
    "bodies without end": (lambda data: edit(data, 1, None, b"999999999\r"), "line 30: a body's .* found 1"),
    "digits without end": (lambda data: edit(data, 1, None, b"9" * 5000), "found '99999999999999999999'..."),
    "no frames": (lambda data: b"0\r\n", "there is no body in any of its 0 frames"),
    "no bodies": (lambda data: b"3\r\n0\r\n0\r\n0\r\n", "there is no body in any of its 3 frames"),
    "HTML": (lambda data: b"<html>\n<body>please log in</body></html>\n", "line 1: the number of frames should"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_refused_with_the_reason(kind, end):
    damage, reason = DAMAGE[kind]
    data = damage(made())
    with pytest.raises(BadFile, match=reason) as caught:
        parse(data if end == "\r\n" else data.replace(b"\r\n", b"\n"))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 120


def test_every_prefix_is_refused():
    data = made(frames=5)
    lines = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 10)
    whole = len(data) - 2  # what follows is the end of the last line
    for size in [*range(0, whole, 97), *lines[:-1].tolist(), *range(whole - 60, whole)]:
        with pytest.raises(BadFile):
            parse(data[:size])
    assert comparable(parse(data[:whole])) == comparable(parse(data))
