"""Checkpoint files of released code, read without running code, and loaded into a method."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from skelbench.core.errors import SkelbenchError
from skelbench.methods.contract import Method

ALLOWED: list[Any] = [argparse.Namespace]
"""Classes a file may hold besides tensors and plain containers: options of the command line."""
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COUNTERS = ("num_batches_tracked", "queue_ptr")
"""Integers of batch norms, and of MoCo's queues."""
STATES = ("model", "state_dict", "teacher")
"""Keys of the state dict in a larger file."""
DATA_PARALLEL = "module."
"""Prefix of names by ``DistributedDataParallel``."""
COMPILED = "_orig_mod."
"""Part of names by ``torch.compile``."""


@dataclass(frozen=True)
class Checkpoint:
    """A file that was read."""

    path: Path
    sha256: str
    state: Mapping[str, Tensor]
    """Tensors by name: dense, floating (counters apart) and finite."""
    options: Mapping[str, Any]
    """Options of the command that wrote it; empty for a bare state dict."""
    epoch: int | None


def read_checkpoint(path: Path) -> Checkpoint:
    """Read ``{"model": state, "args": Namespace, "epoch": 3, ...}`` or a bare state dict, by the weights-only loader.

    A file whose name ends in ``.safetensors`` holds a bare state dict; ``config.json`` next to it holds the options.

    Raises:
        SkelbenchError: there is no such file, it is no checkpoint, is damaged, or holds anything that would run code.
    """
    try:
        with open(path, "rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SkelbenchError(f"checkpoint {path} cannot be read ({error.strerror}); check the path") from error
    content = _load_safetensors(path) if path.suffix == ".safetensors" else _load(path)
    whole = content if isinstance(content, Mapping) else {}
    state = next((whole[key] for key in STATES if isinstance(whole.get(key), Mapping)), whole)
    if not state or not all(isinstance(name, str) and isinstance(x, Tensor) for name, x in state.items()):
        raise SkelbenchError(
            f"{path} holds no state dict: a mapping of names to tensors is expected, by itself or under "
            "'model', 'state_dict' or 'teacher'"
        )
    state = {name.replace(COMPILED, ""): x for name, x in state.items()}
    if all(name.startswith(DATA_PARALLEL) for name in state):
        state = {name.removeprefix(DATA_PARALLEL): x for name, x in state.items()}
    if strange := [name for name, x in state.items() if not _is_plain(name, x)]:
        raise SkelbenchError(
            f"{path} holds {strange[0]!r}, which is no dense tensor of float16, bfloat16, float32 or float64 numbers "
            "with its values there; save it as one and import that"
        )
    if bad := [name for name, x in state.items() if not bool(torch.isfinite(x).all())]:
        raise SkelbenchError(
            f"{path} holds values that are not finite in {len(bad)} of its {len(state)} tensors, first {bad[0]!r}; "
            "take an earlier checkpoint"
        )
    options, epoch = whole.get("args"), whole.get("epoch")
    options = vars(options) if isinstance(options, argparse.Namespace) else options
    options = options if isinstance(options, Mapping) else {}
    return Checkpoint(path, sha256, state, options, epoch if isinstance(epoch, int) else None)


def _is_plain(name: str, x: Tensor) -> bool:
    """Dense values of a usual floating type, that are really there; counters are integers."""
    usual = x.dtype in FLOATS or (x.dtype == torch.int64 and any(counter in name for counter in COUNTERS))
    return usual and x.layout == torch.strided and not x.is_quantized and not x.is_meta


def _load(path: Path) -> Any:
    try:
        with torch.serialization.safe_globals(ALLOWED), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the loader raises whatever its parts do: zip, pickle, key and value errors
        if match := re.search(r"GLOBAL ([\w.]+)", str(error)):
            raise SkelbenchError(
                f"{path} holds {match.group(1)}, not only tensors and plain settings, and was not opened, since that "
                "can run code; save its state dict alone and import that"
            ) from error
        raise SkelbenchError(f"{path} is no PyTorch checkpoint, or a damaged one; get the file again") from error


def _load_safetensors(path: Path) -> Any:
    config = path.with_name("config.json")
    try:
        options = json.loads(config.read_bytes()) if config.is_file() else {}
        return {"model": load_file(path), "args": options}
    except (OSError, SafetensorError, ValueError) as error:
        raise SkelbenchError(f"{path} or its config.json is damaged ({error}); get the file again") from error


def fit(method: Method, weights: Mapping[str, Tensor], source: str) -> bool:
    """Put ``weights`` into ``method``; False when they are its inference encoders' alone.

    Raises:
        SkelbenchError: a tensor is missing, has another shape, or is one too many: names the first and how many.
    """
    own = method.state_dict()
    inference = [method.inference_encoder(), *method.inference_encoders().values()]
    prefixes = tuple(name + "." for name, module in method.named_modules() if any(module is each for each in inference))
    whole = not all(name.startswith(prefixes) for name in weights)
    needed = [name for name in own if whole or name.startswith(prefixes)]
    shapes = [{name: tuple(x.shape) for name, x in tensors.items()} for tensors in (weights, own)]
    misfits = [name for name in dict.fromkeys([*needed, *weights]) if shapes[0].get(name) != shapes[1].get(name)]
    if misfits:
        theirs, ours = (_form(form.get(misfits[0])) for form in shapes)
        raise SkelbenchError(
            f"{source} does not fit {type(method).__name__} in this setting: {misfits[0]} is {theirs} in the file and "
            f"{ours} in the model ({len(misfits)} of {len(needed)} tensors do not fit); use data of the same skeleton "
            "and leave the settings that the file decides as they are"
        )
    method.load_state_dict(dict(weights), strict=False)
    return whole


def _form(shape: tuple[int, ...] | None) -> str:
    return "absent" if shape is None else " x ".join(map(str, shape)) or "a number"
