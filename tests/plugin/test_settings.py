"""Settings are listed as the author wrote them; a search space is checked."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from skelbench.core.component import Spec
from skelbench.core.settings import Setting, settings
from skelbench.plugin import Linear, Log
from skelbench.plugin.space import factor, space_problem


class Example(Spec):
    required: str
    choice: Literal["a", "b"] | None = None
    """One of two;
    ``none`` leaves it open."""
    share: Annotated[float, Field(gt=0, le=1)] = 1 / 3  # no documentation
    pair: tuple[int, ...] = Field((1, 2), description="described")
    """Not this."""
    made: list[str] = Field(default_factory=lambda: ["x"])
    noise: float = Field(0.01, json_schema_extra={"unit": "m"})


def test_settings_of_a_model():
    assert settings(Example) == [
        Setting("required", "str", "required", ""),
        Setting("choice", "'a' | 'b' | none", "none", "One of two; none leaves it open."),
        Setting("share", "float, > 0, <= 1", "0.333333", ""),
        Setting("pair", "tuple[int, ...]", "[1, 2]", "described"),
        Setting("made", "list[str]", "[x]", ""),
        Setting("noise", "float", "0.01", "", "m"),
    ]


@pytest.mark.parametrize("kind", [set[int], dict[str, set[str]]])
def test_a_setting_without_order_is_rejected(kind):
    """Its record, and so the id of a run, would depend on Python's hash seed."""
    with pytest.raises(TypeError, match=r"Loose.tags is a set, .* write tuple"):
        type("Loose", (Spec,), {"__annotations__": {"tags": kind}, "__module__": __name__})


def test_a_space_of_numbers_and_factors_is_accepted():
    assert space_problem({"train.lr": Log("x0.125", "x8"), "method.tau": Linear(0, 1.5)}) == ""
    assert factor("x.5") == 0.5 and factor("8") is None and factor(8) is None


@pytest.mark.parametrize(
    ("space", "said"),
    [
        ({f"method.{name}": Log(1, 2) for name in "abcde"}, "has 5 settings, at most 4"),
        ({"encoder.dim": Log(1, 2)}, "can be tuned, except"),
        ({"train.batch_size": Log(8, 64)}, "decide what a trial costs"),
        ({"train.lr": Log("x0.5", 2)}, "write two numbers"),
        ({"train.lr": Log(2, 1)}, "the lower one first"),
        ({"train.lr": Log(0, 1)}, "above 0 for Log"),
    ],
)
def test_a_wrong_space_is_rejected(space, said):
    assert said in space_problem(space)
