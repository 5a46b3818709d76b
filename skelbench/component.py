"""Base of all settings (torch-free)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """Base of all declarative settings: unknown fields and numbers that are not finite are refused, instances are
    frozen and hashable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
