"""Settings are shown as the author wrote them."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from skelbench.plugin.settings import Setting, settings


class Base(BaseModel):
    shared: int = 1  # from the base class


class Example(Base):
    required: str
    choice: Literal["a", "b"] | None = None
    """One of two;
    ``none`` leaves it open."""
    # Both lines above
    # belong to it.
    share: Annotated[float, Field(gt=0, le=1)] = 1 / 3
    pair: tuple[int, ...] = Field((1, 2), description="described")  # not this
    made: list[str] = Field(default_factory=lambda: ["x"])

    def method(self) -> None:
        """No field."""


def test_settings_of_a_model():
    assert settings(Example) == [
        Setting("shared", "int", "1", "from the base class"),
        Setting("required", "str", "required", ""),
        Setting("choice", "'a' | 'b' | none", "none", "One of two; none leaves it open."),
        Setting("share", "float, > 0, <= 1", "0.333333", "Both lines above belong to it."),
        Setting("pair", "tuple[int, ...]", "(1, 2)", "described"),
        Setting("made", "list[str]", "['x']", ""),
    ]


def test_a_model_without_source_still_has_its_settings():
    made = type("Made", (BaseModel,), {"__annotations__": {"n": int}, "n": 3})
    assert settings(made) == [Setting("n", "int", "3", "")]
