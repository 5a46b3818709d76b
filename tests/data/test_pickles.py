import pickle
import sys
import tracemalloc
from collections import Counter, OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made.fuzz_pickle import digest, judge, mutate, seeds

from skelbench.data.importers.pickles import Refused, load_pickle, loads

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


keys = (
    st.text(max_size=5) | st.binary(max_size=5) | st.integers(-(2**62), 2**62) | st.booleans() | st.none() | st.floats()
)
leaves = (
    st.none() | st.booleans() | st.integers(-(2**700), 2**700) | st.floats(allow_nan=False) | st.text(max_size=2000)
    | st.binary(max_size=2000)
)  # fmt: skip
values = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner), max_leaves=20
)


@settings(max_examples=200, deadline=None)
@given(value=values, protocol=st.sampled_from(PROTOCOLS))
def test_plain_values_come_back(value, protocol):
    read = loads(pickle.dumps(value, protocol))
    assert digest(read) == digest(value)


def arrays():
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    yield from (x.astype(kind) for kind in ("f2", "f4", "f8", ">f4", "i1", "u1", "i2", ">i4", "u8", "?"))
    yield from (x.T, np.asfortranarray(x[0]), x.transpose(1, 2, 0), x[:, ::2], x[0, 0, 0:1], np.array(2.5), x[:0])
    yield from (np.array(["ab", "", "é€😀"]), np.array([b"ab", b"c"]), np.zeros((2, 0)), np.arange(5000))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arrays_come_back_bit_by_bit(protocol, tmp_path):
    for number, array in enumerate(arrays()):
        path = tmp_path / f"{number}.pkl"
        path.write_bytes(pickle.dumps({"keypoint": array}, protocol))
        read, plain = load_pickle(path)["keypoint"], pickle.loads(path.read_bytes())["keypoint"]
        assert type(read) is np.ndarray
        np.testing.assert_array_equal(read, plain, strict=True)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_numpy_numbers_become_plain_ones(protocol):
    value = [np.float32(1.5), np.int64(-3), np.bool_(True), np.str_("x"), np.float16(0.5)]
    read = loads(pickle.dumps(value, protocol))
    assert read == [1.5, -3, True, "x", 0.5] and [type(one) for one in read] == [float, int, bool, str, float]


def test_pickles_of_old_numpy_and_of_python_2():
    new = pickle.dumps(np.arange(3, dtype="f4"), 4)
    old = new.replace(b"\x8c\x16numpy._core.multiarray", b"\x8c\x15numpy.core.multiarray").replace(b"\x95", b"\x95", 1)
    old = old[:3] + (int.from_bytes(old[3:11], "little") - 1).to_bytes(8, "little") + old[11:]
    np.testing.assert_array_equal(loads(old), [0, 1, 2])
    python_2 = b"\x80\x02(]q\x00(U\x08clip\xe9.skU\x01be]q\x01(K\x00K\x01et."
    assert loads(python_2) == (["clipé.sk", "b"], [0, 1])


def test_memory_is_about_that_of_the_file(tmp_path):
    path = tmp_path / "large.pkl"
    path.write_bytes(pickle.dumps([np.zeros(1 << 20, "f4") for _ in range(4)], 4))
    tracemalloc.start()
    read = load_pickle(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(array.nbytes for array in read) == 16 << 20 < peak < 17 << 20


class Calls:
    """Pickles into a call."""

    def __init__(self, what, *args):
        self.what, self.args = what, args

    def __reduce__(self):
        return self.what, self.args


def _mark(path):
    path.write_text("was here")


HOSTILE = {
    "os.system": (lambda path: Calls(__import__("os").system, f"touch {path}"), "posix.system"),
    "eval": (lambda path: Calls(eval, f"open({str(path)!r}, 'w')"), "eval"),
    "exec": (lambda path: Calls(exec, f"open({str(path)!r}, 'w')"), "exec"),
    "open": (lambda path: Calls(open, str(path), "w"), "open"),
    "subprocess": (lambda path: Calls(__import__("subprocess").Popen, ["touch", str(path)]), "Popen"),
    "import": (lambda path: Calls(__import__, "antigravity"), "__import__"),
    "numpy.load": (lambda path: Calls(np.load, str(path), None, True), "numpy.load"),
    "getattr": (lambda path: Calls(getattr, "text", "upper"), "getattr"),
    "a function of ours": (lambda path: Calls(_mark, path), "_mark"),
    "an own class": (lambda path: Refused("x"), "skelbench.data.importers.pickles.Refused"),
    "a harmless class": (lambda path: OrderedDict(a=1), "collections.OrderedDict"),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_pickles_are_refused_by_name_and_run_nothing(tmp_path, kind, protocol):
    make, name = HOSTILE[kind]
    trap, path = tmp_path / "trap", tmp_path / "hostile.pkl"
    path.write_bytes(pickle.dumps(["text"], protocol))
    load_pickle(path)  # what reading any pickle imports, such as encodings
    path.write_bytes(pickle.dumps({"annotations": [1, make(trap)]}, protocol))
    before = set(sys.modules)
    with pytest.raises(Refused, match="nothing was run") as caught:
        load_pickle(path)
    assert name in str(caught.value) and caught.value.name.endswith(name) and str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not trap.exists() and set(sys.modules) == before


BOMBS = {
    "an array larger than the file": pickle.dumps(np.zeros(3), 4).replace(b"K\x03\x85", b"J\xff\xff\xff\x7f\x85"),
    "a text longer than the file": b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
    "bytes longer than the file": b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
    "a frame longer than the file": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.",
    "an endless number": b"\x8b\xff\xff\xff\x7f\x01.",
    "wide text elements": pickle.dumps(np.array(["a"]), 4).replace(b"\x8c\x02U1", b"\x8c\x0aU999999999"),
    "keys that take for ever to hash": b"\x80\x04}N" + b"2\x86" * 60 + b"Ns.",
    "keys too deep to hash": b"\x80\x04}N" + b"\x85" * 1_000_000 + b"Ns.",
    "a state for a function": b"\x80\x04cnumpy\ndtype\n}\x8c\x08__code__NsN\x86b.",
    "one text encoded again and again": b"\x80\x04c_codecs\nencode\n\x94X\xa0\x86\x01\x00"
    + b"y" * 100_000
    + b"\x94\x8c\x06latin1\x94]"
    + b"h\x00h\x01h\x02\x86Ra" * 10_000
    + b".",
}


@pytest.mark.parametrize("kind", BOMBS)
def test_bombs_are_refused_at_once(kind):
    tracemalloc.start()
    with pytest.raises(Refused):
        loads(BOMBS[kind])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000 + 150 * len(BOMBS[kind])


def test_a_value_kept_under_a_huge_number_costs_nothing():
    tracemalloc.start()
    assert loads(b"\x80\x04Kar\xff\xff\xff\xff0j\xff\xff\xff\xff.") == ord("a")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("data", [b"]" * 100_000 + b"a" * 99_999 + b".", b"(" * 100_000 + b"l" * 100_000 + b"."])
def test_a_tower_of_lists_is_read_without_recursion(data):
    value, depth = loads(data), 1
    while value:
        value, depth = value[0], depth + 1
    assert depth == 100_000


@pytest.mark.parametrize(("value", "reason"), [
    ({1, 2}, "a set"),
    (np.array([1, None], dtype=object), "an array of Python objects"),
    (np.zeros(2, [("a", "f4")]), "element type 'V4'"),
    (np.zeros(2, "c8"), "element type 'c8'"),
    (np.array("2020", "M8[D]"), "element type 'M8'"),
    ({(1, 2): 3}, "keys are not text or numbers"),
    ({2**63: 3}, "keys are not text or numbers"),
])  # fmt: skip
def test_what_is_not_plain_is_named(value, reason):
    with pytest.raises(Refused, match=reason) as caught:
        loads(pickle.dumps(value, 4), "x.pkl")
    assert str(caught.value).startswith("x.pkl holds ") and not caught.value.name


def test_a_file_cut_anywhere_is_refused(tmp_path):
    whole = pickle.dumps({"split": {"a": ["b"]}, "annotations": [{"keypoint": np.zeros((1, 2, 3, 3), "f2")}]}, 4)
    for end in range(1, len(whole)):
        with pytest.raises(Refused, match="may be cut short|holds"):
            loads(whole[:end])
    empty = tmp_path / "empty.pkl"
    empty.write_bytes(b"")
    with pytest.raises(Refused, match="is empty"):
        load_pickle(empty)


@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
def test_fuzz():
    """A short one; a long one is `python -m tests.campaign.mutate --only pickle`."""
    rng, pool = np.random.default_rng(1), seeds()
    tally = Counter(judge(mutate(rng, pool))[0] for _ in range(4000))
    assert tally.keys() <= {"read", "refused", "no verdict"}
    assert tally["read"] > 100 and tally["refused"] > 3000


def test_the_fuzzer_notices_wrong_success():
    """Its digest tells values apart that are nearly the same."""
    known = [digest(loads(data)) for data in seeds()]
    assert len(set(known)) == 10  # nine values and the one of Python 2, the same in every protocol
    near = [1, 1.0, True, "1", b"1", [1], (1,), {1: 1}, np.array([1]), np.array([1.0]), np.array(1)]
    assert len({digest(value) for value in near}) == len(near)
