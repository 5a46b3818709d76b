"""Which part of a data set a name speaks of: the training, the validation or the test part."""

from __future__ import annotations

import re
from typing import Literal

Side = Literal["train", "valid", "test", ""]

_WORDS: dict[str, Side] = {"training": "train", "train": "train"}
_WORDS |= {"validation": "valid", "valid": "valid", "val": "valid"}
_WORDS |= {"testing": "test", "test": "test", "evaluation": "test", "eval": "test"}
_LOWER, _TITLE, _UPPER = ("|".join(map(case, _WORDS)) for case in (str.lower, str.title, str.upper))
_WORD = re.compile(
    rf"(?P<x>(?<![A-Za-z])[xyXY]?)(?:(?P<lower>{_LOWER})(?![a-z])|(?P<upper>{_UPPER})(?![A-Za-z]))"
    rf"|(?P<title>{_TITLE})(?![a-z])"
)
"""A word by itself, as in ``xsub_train``, ``trainData``, ``NTUVal``, ``x_test``, not in ``constraint``, ``latest``."""


def side_of(name: str) -> tuple[Side, str]:
    """Which part ``name`` says it is ("" = it does not, or it names several), and the name without that word."""
    found = {_WORDS[(match["lower"] or match["upper"] or match["title"]).lower()] for match in _WORD.finditer(name)}
    if len(found) != 1:
        return "", name
    return found.pop(), _WORD.sub(lambda match: match["x"] or "", name)
