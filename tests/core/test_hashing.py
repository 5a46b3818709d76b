import random

import pytest

from skelbench.core.hashing import canonical_json, derive_seed, digest, hash_of_python
from skelbench.core.spec import RunSpec, TrainSpec


def test_key_order_does_not_change_the_digest():
    value = {"b": {"d": [1, {"x": None, "a": "\u00e9"}], "c": 0.1}, "a": True, "\u00e9": []}
    items = list(value.items())
    random.Random(1).shuffle(items)
    assert digest(dict(reversed(items))) == digest(value) != digest({**value, "a": False})


def test_nan_is_an_error():
    with pytest.raises(ValueError):
        canonical_json({"a": float("nan")})


def test_equal_specs_have_one_id():
    default = RunSpec(method="slim")
    assert default.id == RunSpec(method="slim", train=TrainSpec(lr=2e-4), seed=0).id
    assert (
        RunSpec(method="slim", train=TrainSpec(epochs=5)).id == RunSpec(method="slim", train=TrainSpec(epochs=5.0)).id
    )
    for change in ({"method": "mae"}, {"seed": 1}, {"method_version": 2}, {"method_source": "a"}, {"init_from": "0"}):
        assert RunSpec(**{"method": "slim", **change}).id != default.id


def test_seeds_of_different_purposes_differ():
    assert len({derive_seed(0, "init"), derive_seed(0, "order"), derive_seed(1, "init"), derive_seed("0", "init")}) == 4


CODE = b"""
class Net:
    rate = 0.5

    def step(self, x=None):
        return x * self.rate
"""


def test_comments_docstrings_and_layout_do_not_change_the_hash_of_code():
    told = CODE.replace(b"rate = 0.5", b'"""A net."""\n    rate = 0.5  # of learning\n    """Documented."""')
    spread = CODE.replace(b"x * self.rate", b"(\n            x * self.rate\n        )")
    assert len({hash_of_python(code) for code in (CODE, told, spread)}) == 1
    changed = [(b"0.5", b"0.50001"), (b"x *", b"x /"), (b"=None", b"=0"), (b"rate", b"lr"), (b"0.5", b'"0.5"')]
    codes = [CODE, *(CODE.replace(old, new) for old, new in changed), b"no python", b"no  python"]
    assert len({hash_of_python(code) for code in codes}) == len(codes)
