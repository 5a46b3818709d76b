import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skelbench.core.hashing import canonical_json, derive_seed, digest
from skelbench.core.spec import RunSpec, TrainSpec

numbers = st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def shuffled(value, rng):
    if isinstance(value, dict):
        items = list(value.items())
        rng.shuffle(items)
        return {key: shuffled(inner, rng) for key, inner in items}
    return [shuffled(inner, rng) for inner in value] if isinstance(value, list) else value


@given(st.dictionaries(st.text(max_size=5), values, max_size=6), st.randoms())
def test_key_order_does_not_change_the_digest(value, rng):
    assert digest(shuffled(value, random.Random(rng.random()))) == digest(value)


@given(st.dictionaries(st.text(max_size=5), values, max_size=6))
def test_canonical_json_round_trips(value):
    assert json.loads(canonical_json(value)) == value


def test_nan_is_refused():
    with pytest.raises(ValueError):
        canonical_json({"a": float("nan")})


def test_defaults_said_and_unsaid_are_the_same_run():
    assert RunSpec(method="slim").id == RunSpec(method="slim", train=TrainSpec(lr=2e-4), seed=0).id


def test_equal_numbers_of_different_type_are_the_same_run():
    whole, real = TrainSpec(epochs=5), TrainSpec(epochs=5.0)
    assert RunSpec(method="slim", train=whole).id == RunSpec(method="slim", train=real).id


@pytest.mark.parametrize(
    "change", [{"method": "mae"}, {"seed": 1}, {"method_version": 2}, {"method_source": "abc"}, {"init_from": "0" * 12}]
)
def test_everything_that_decides_a_result_changes_the_id(change):
    assert RunSpec(**{"method": "slim", **change}).id != RunSpec(method="slim").id


def test_seeds_of_different_purposes_differ():
    assert len({derive_seed(0, "init"), derive_seed(0, "order"), derive_seed(1, "init"), derive_seed("0", "init")}) == 4
