"""Checks of the descriptors that a plugin returns."""

from __future__ import annotations

import re
from typing import Any

from pydantic import TypeAdapter, ValidationError

from skelbench.core.version import __version__
from skelbench.plugin.descriptors import API_VERSION, KINDS
from skelbench.plugin.space import space_problem
from skelbench.plugin.status import State

ADAPTERS = {kind: TypeAdapter(descriptor) for kind, descriptor in KINDS.items()}
SLUG = re.compile(r"[a-z0-9][a-z0-9._@-]*")
VARIANT = re.compile(r"[a-z0-9][a-z0-9._-]*")
"""Follows a colon on the command line and is part of a directory name, where ``@`` stands before an epoch."""
TARGET = re.compile(r"([A-Za-z_][\w.]*)?:[A-Za-z_][\w.]*")


def descriptor_problem(kind: str, value: Any, *, own_file: bool = False) -> tuple[State, str] | None:
    """Return (state, sentence) if ``value`` is no valid descriptor of ``kind``, else None.

    ``own_file``: targets may leave out the module (``":Class"``), as in every plugin file.
    """
    expected = KINDS[kind]
    if not isinstance(value, expected):
        return "invalid", f"skelbench_{kind} returned {value!r:.60} where {expected.__name__} is expected"
    what = f"{expected.__name__} {value.name!r}"
    if isinstance(value.api, int) and value.api > API_VERSION:
        return "api-mismatch", (
            f"{what} is for plugin API {value.api}, skelbench {__version__} has {API_VERSION}; upgrade skelbench"
        )
    if not isinstance(value.name, str) or not SLUG.fullmatch(value.name):
        return "invalid", f"{what}: the name must be lower case letters, digits, '-', '_', '@' and '.'"
    if problem := space_problem(getattr(value, "space", {})):
        return "invalid", f"{what}: its space {problem}"
    try:
        ADAPTERS[kind].validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        return "invalid", f"{what}: {'.'.join(map(str, first['loc']))}={first['input']!r:.60}: {first['msg']}"
    for place in value.places:
        text = getattr(value, place)
        if (text or place == "target") and (not TARGET.fullmatch(text) or (text.startswith(":") and not own_file)):
            return "invalid", f"{what}: {place}={text!r} is not of the form 'package.module:Name'"
    if (stage := getattr(value, "stage", None)) and not stage.after:
        return "invalid", f"{what}: its stage names no method that it starts from"
    for name in getattr(value, "variants", {}):
        if not VARIANT.fullmatch(name):
            return "invalid", f"{what}: variant {name!r} must be named by lower case letters, digits, '-', '_' and '.'"
    return None
