import random

import pytest

from skelbench.core.hashing import canonical_json, derive_seed, digest
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
