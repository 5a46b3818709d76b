import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skelbench.data.raw.decimals import NotANumber, decode, number, to_float32


def decode_all(fields):
    """The fields one after the other, a blank behind each."""
    data = b"".join(field + b" " for field in fields) + b" " * 16
    ends = np.cumsum([len(field) + 1 for field in fields]) - 1
    return decode(data, ends - [len(field) for field in fields], ends)


def bits(values):
    return [struct.pack("<d", value) for value in values]


usual = st.builds(
    lambda sign, lead, rest: f"{sign}{lead}.{rest}", st.sampled_from(["", "-"]), st.integers(0, 9),
    st.text("0123456789", min_size=1, max_size=18),
)  # fmt: skip
others = st.one_of(
    st.floats().map(repr),
    st.floats(width=32).map(lambda x: f"{x:.7g}"),
    st.integers(-(10**20), 10**20).map(str),
    st.from_regex(r"[+-]?([0-9]{1,20}\.?[0-9]{0,20}|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["nan", "NaN", "-Infinity", "inf", "5.", ".5", "-0", "-0.0", "+1.5", "00.5", "1e400", "7"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(usual, others), min_size=1, max_size=60))
def test_every_number_is_what_float_makes_of_it(fields):
    assert bits(decode_all([field.encode() for field in fields])) == bits(map(float, fields))


def test_many_numbers_of_every_usual_length():
    rng = np.random.default_rng(0)
    fields = [f"{value:.{digits}f}" for digits in range(1, 17) for value in rng.normal(0, 3, 2500)]
    assert bits(decode_all([field.encode() for field in fields])) == bits(map(float, fields))


@pytest.mark.parametrize(
    "field",
    ["", "-", "+", ".", "-.", "e5", "1e", "1e+", "1_0", "0x1", "1,5", "1.2.3", "1.2345a78", "12345678x", "--1", "1-",
     "nanx", "infinit", "1.#IND", "\u0661", "1.5\0", "\0", "1.23456789012/", "1:5", "/.5", ":.5", "1./", "1.:"],
)  # fmt: skip
def test_what_is_no_number_is_named(field):
    with pytest.raises(NotANumber) as caught:
        number(field.encode("latin-1", "replace"))
    assert caught.value.index == 0
    if field and field.isascii():
        with pytest.raises(NotANumber) as caught:
            decode_all([b"1.5", b"2.25", field.encode(), b"x"])
        assert (caught.value.index, caught.value.text) == (2, field.encode())


def test_an_error_far_behind_has_the_right_place():
    with pytest.raises(NotANumber) as caught:
        decode_all([b"1.5"] * 40_000 + [b"oops"])
    assert caught.value.index == 40_000 and "'oops' is not a number" in str(caught.value)


def test_too_large_for_float32_becomes_infinite():
    assert to_float32(np.array([1e39, -1e39, 1.0])).tolist() == [np.inf, -np.inf, 1.0]
