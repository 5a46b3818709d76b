"""Pickles of numbers, text and numpy arrays; a pickle that names anything else is rejected before it runs."""

from __future__ import annotations

import codecs
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.store.clip_store import first_line

_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    # Functions that numpy itself writes into pickles; older and newer versions call their module differently.
    ("numpy.core.multiarray", "_reconstruct"): np.zeros(0).__reduce__()[0],
    ("numpy.core.multiarray", "scalar"): np.float64(0).__reduce__()[0],
    ("numpy.core.numeric", "_frombuffer"): np.zeros(1).__reduce_ex__(5)[0],
    ("_codecs", "encode"): codecs.encode,
    ("collections", "OrderedDict"): OrderedDict,
} | {("builtins", kind.__name__): kind for kind in (bytes, bytearray, set, frozenset, list, tuple, dict, complex)}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy._core", "numpy.core").replace("__builtin__", "builtins")
        if (module, name) not in _ALLOWED:
            raise SkelbenchError(f"it asks for {ascii(f'{module}.{name}')[1:81]}; nothing was run; do not trust it")
        return _ALLOWED[module, name]


def load_pickle(path: Path) -> Any:
    """Return the value in a pickle file; raise for a damaged file, and for a file with more than plain data."""
    try:
        with open(path, "rb") as file:
            return _Unpickler(file, encoding="latin1").load()
    except SkelbenchError as error:
        raise SkelbenchError(f"{path}: {error}") from None
    except Exception as error:  # damaged bytes make the unpickler raise almost anything
        raise SkelbenchError(f"{path} is not a readable pickle ({first_line(error)}); copy it again") from error
