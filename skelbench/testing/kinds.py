"""Which kinds of plugins are checked, and by what; the one place that a new kind is entered (torch-free).

The function named here, ``kit(host, descriptor) -> (subject, checks)``, is called when something of its kind is
checked. It is cheap: what the checks share is made by the subject when the first of them asks for it, and what it
leaves on disk lies in a folder that goes with it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from skelbench.plugin.descriptors import Descriptor
from skelbench.plugin.host import Host
from skelbench.testing.check import Check

KITS: Mapping[str, str] = {
    "methods": "skelbench.testing.method:kit",
    "encoders": "skelbench.testing.encoder:kit",
    "datasets": "skelbench.testing.dataset:kit",
    "protocols": "skelbench.testing.protocol:kit",
    "targets": "skelbench.testing.target:kit",
    "crops": "skelbench.testing.crop:kit",
    "augmentations": "skelbench.testing.augmentation:kit",
    "masks": "skelbench.testing.mask:kit",
    "degradations": "skelbench.testing.degradation:kit",
    "optimizers": "skelbench.testing.optimizer:kit",
    "schedules": "skelbench.testing.schedule:kit",
    "topologies": "skelbench.testing.topology:kit",
}
"""Kind -> ``"module:function"``."""


def kit(kind: str, host: Host, descriptor: Descriptor) -> tuple[Any, Sequence[Check[Any]]]:
    """What is checked of ``descriptor``, and its checks."""
    module, _, function = KITS[kind].partition(":")
    return getattr(importlib.import_module(module), function)(host, descriptor)
