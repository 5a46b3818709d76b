"""Content hashes: the same settings give the same id on every machine, whatever the order of keys."""

from __future__ import annotations

import ast
import hashlib
import json
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces; ValueError for NaN, which JSON does not have."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(value: Any, length: int = 12) -> str:
    """First ``length`` hex digits of the SHA-256 of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:length]


def derive_seed(*parts: Any) -> int:
    """A 63-bit seed from anything printable: independent streams for init, order, noise, probes."""
    return int(hashlib.sha256(canonical_json(list(parts)).encode()).hexdigest()[:16], 16) >> 1


@cache
def hash_of_code(place: Path) -> str:
    """Hash of a Python file, or of the names and contents of all Python files below a folder."""
    hasher = hashlib.sha256()
    for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        hasher.update(f"{path.relative_to(place)}\0".encode())
        hasher.update(hashlib.sha256(path.read_bytes()).digest())
    return hasher.hexdigest()


def hash_of_python(code: bytes) -> str:
    """Hash of Python code without its comments, docstrings and layout; of the bytes if they cannot be parsed."""
    with suppress(SyntaxError, ValueError, RecursionError), warnings.catch_warnings(action="ignore"):
        code = repr(_plain(ast.parse(code))).encode()
    return hashlib.sha256(code).hexdigest()


def _plain(node: Any) -> Any:
    """A syntax tree as lists. Python versions differ in the empty fields of :func:`ast.dump`, so these are dropped."""
    if isinstance(node, list):
        docs = [item for item in node if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)]
        return [_plain(item) for item in node if item not in docs]
    if not isinstance(node, ast.AST):
        return node
    fields = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
    return [type(node).__name__, *((name, _plain(value)) for name, value in fields)]
