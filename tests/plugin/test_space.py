"""The search space that a method declares: what is accepted, and what is said of the rest."""

import pytest

from skelbench.plugin import Linear, Log
from skelbench.plugin.space import factor, space_problem

GOOD = {"train.lr": Log("x0.125", "x8"), "method.tau": Linear(0, 1.5)}


def test_a_space_of_numbers_and_factors_is_accepted():
    assert space_problem(GOOD) == "" and space_problem({}) == ""
    assert factor("x.5") == 0.5 and factor("8") is None and factor(8) is None


@pytest.mark.parametrize(
    ("space", "said"),
    [
        ([Log(1, 2)], "must be a mapping"),
        ({f"method.{name}": Log(1, 2) for name in "abcde"}, "has 5 settings, at most 4"),
        ({"encoder.dim": Log(1, 2)}, "what can be tuned is called method.*"),
        ({"train.batch_size": Log(8, 64)}, "decides what a trial costs"),
        ({"train.lr": (1, 2)}, "write Log(low, high)"),
        ({"train.lr": Log("x0.5", 2)}, "both bounds are numbers"),
        ({"train.lr": Log(2, 1)}, "below the upper one"),
        ({"train.lr": Log(0, 1)}, "above 0 for a logarithm"),
    ],
)
def test_what_is_wrong_with_a_space_is_said(space, said):
    assert said in space_problem(space)
