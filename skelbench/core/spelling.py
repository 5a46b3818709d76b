"""American spelling of settings that had British names (torch-free).

Users may type the earlier names, and records may contain them. Ids are hashes of the earlier names, so that a run
keeps its id.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

KEYS = {
    "centre": "center",
    "centre_momentum": "center_momentum",
    "colour": "color",
    "licence": "license",
    "neighbours": "neighbors",
    "normalised": "normalized",
    "standardise": "standardize",
}
"""Earlier name of a setting -> its name."""
VALUES = {
    "centre-none": "center-none",
    "centre-running": "center-running",
    "centring": "centering",
    "normalised": "normalized",
    "synchronised": "synchronized",
}
"""Earlier value of a setting, variant of a method or study -> its name."""
_EARLIER_KEYS, _EARLIER_VALUES = ({new: old for old, new in names.items()} for names in (KEYS, VALUES))


def american(record: Any) -> Any:
    """Return JSON data with the present names of settings and values; the parts of ``train.centre`` are names too."""
    return _renamed(record, KEYS, VALUES)


def earlier(record: Any) -> Any:
    """Return JSON data with the earlier names, which ids are hashes of."""
    return _renamed(record, _EARLIER_KEYS, _EARLIER_VALUES)


def _renamed(record: Any, keys: Mapping[str, str], values: Mapping[str, str]) -> Any:
    if isinstance(record, Mapping):
        names = {key: ".".join(keys.get(part, part) for part in key.split(".")) for key in record}
        # Names of datasets and splits are the user's own.
        return {names[key]: item if key == "data" else _renamed(item, keys, values) for key, item in record.items()}
    if isinstance(record, list | tuple):
        return [_renamed(value, keys, values) for value in record]
    return values.get(record, record) if isinstance(record, str) else record


def known(name: str, names: Container[str], words: Mapping[str, str] = KEYS) -> str:
    """Return ``name``, or its other spelling if only that one is in ``names``.

    >>> known("centre", {"center", "lr"}), known("centre", {"centre"})
    ('center', 'centre')
    """
    if name in names:
        return name
    other = {**words, **{new: old for old, new in words.items()}}.get(name, name)
    return other if other in names else name
