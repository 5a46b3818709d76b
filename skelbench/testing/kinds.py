"""Kinds of plugins that have checks, and where the checks are (torch-free).

The named function, ``kit(kind, host, descriptor) -> (subject, checks)``, is cheap: the subject builds what the checks
share when the first check needs it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from skelbench.plugin.descriptors import Descriptor
from skelbench.plugin.host import Host
from skelbench.testing.check import Check

COMPONENTS = (
    "targets",
    "crops",
    "augmentations",
    "masks",
    "degradations",
    "optimizers",
    "schedules",
    "topologies",
)
"""Kinds that share one generic check."""
KITS: Mapping[str, str] = {
    "methods": "skelbench.testing.method",
    "encoders": "skelbench.testing.encoder",
    "datasets": "skelbench.testing.dataset",
    "protocols": "skelbench.testing.protocol",
    **dict.fromkeys(COMPONENTS, "skelbench.testing.component"),
}
"""Kind -> module with a function ``kit``."""


def kit(kind: str, host: Host, descriptor: Descriptor) -> tuple[Any, Sequence[Check[Any]]]:
    """Subject of the checks of ``descriptor``, and the checks."""
    return importlib.import_module(KITS[kind]).kit(kind, host, descriptor)
