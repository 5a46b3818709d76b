"""Settings are shown as the author wrote them."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from skelbench.core.component import Spec
from skelbench.plugin.settings import Setting, settings


class Base(Spec):
    shared: int = 1
    """From the base class."""


class Example(Base):
    required: str
    choice: Literal["a", "b"] | None = None
    """One of two;
    ``none`` leaves it open."""
    share: Annotated[float, Field(gt=0, le=1)] = 1 / 3  # no documentation
    pair: tuple[int, ...] = Field((1, 2), description="described")
    """Not this."""
    made: list[str] = Field(default_factory=lambda: ["x"])
    tilt_deg: float = 17.0
    mask_frames: float = 0.2  # a share: only whole numbers are frames
    min_frames: int = 64
    noise: float = Field(0.01, json_schema_extra={"unit": "m"})

    def method(self) -> None:
        """No field."""


def test_settings_of_a_model():
    assert settings(Example) == [
        Setting("shared", "int", "1", "From the base class."),
        Setting("required", "str", "required", ""),
        Setting("choice", "'a' | 'b' | none", "none", "One of two; none leaves it open."),
        Setting("share", "float, > 0, <= 1", "0.333333", ""),
        Setting("pair", "tuple[int, ...]", "(1, 2)", "described"),
        Setting("made", "list[str]", "['x']", ""),
        Setting("tilt_deg", "float", "17", "", "degrees"),
        Setting("mask_frames", "float", "0.2", ""),
        Setting("min_frames", "int", "64", "", "frames"),
        Setting("noise", "float", "0.01", "", "m"),
    ]


@pytest.mark.parametrize("kind", [set[int], frozenset[str] | None, dict[str, set[str]]])
def test_a_setting_without_order_is_refused(kind):
    """Its record, and so the id of a run, would hang on Python's hash seed."""
    with pytest.raises(TypeError, match=r"Loose.tags is a set, .* write tuple"):
        type("Loose", (Spec,), {"__annotations__": {"tags": kind}, "__module__": __name__})
