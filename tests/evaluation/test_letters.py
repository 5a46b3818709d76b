"""Letters and ranks, against what they promise."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from skelbench.evaluation.stats.compact_letter_display import letters

PAIRS = st.integers(1, 7).flatmap(
    lambda n: st.tuples(st.just(n), st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))))
)


def matrix(n, pairs):
    different = np.zeros((n, n), bool)
    for i, j in pairs:
        different[i, j] = different[j, i] = i != j
    return different


@settings(max_examples=100)
@given(PAIRS)
def test_rows_share_a_letter_exactly_if_they_do_not_differ(case):
    different = matrix(*case)
    found = letters(different)
    assert all(found)
    for i, one in enumerate(found):
        for j, other in enumerate(found):
            assert bool(set(one) & set(other)) != different[i, j]
    groups = [{i for i, one in enumerate(found) if letter in one} for letter in set("".join(found))]
    assert not any(a < b for a in groups for b in groups)  # no letter says what another says already
