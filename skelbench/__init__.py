"""skelbench: compare self-supervised skeleton methods under one data set, token budget, probe and cost convention.

Importing this package is cheap: nothing here, nor in :mod:`skelbench.plugin`, imports torch.
"""

from typing import Any

from skelbench.component import install
from skelbench.version import __version__ as __version__


def _find(kind: str, name: str) -> Any:
    """Components are looked up by rooms that stand below the plugin host: only here are the two tied together."""
    from skelbench.plugin.host import get_host

    return get_host().find(kind, name)


def _names(kind: str) -> list[str]:
    from skelbench.plugin.host import get_host

    return get_host().names(kind)


install(_find, _names)
