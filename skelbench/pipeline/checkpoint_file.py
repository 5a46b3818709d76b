"""Checkpoint files of released code: read without running code, loaded into a method, and kept as a finished run."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import time
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
from skelbench.methods.imported import Imported
from skelbench.pipeline.resolve import Resolved
from skelbench.pipeline.run_lock import alone, clear
from skelbench.pipeline.session import Session
from skelbench.records.environment import environment
from skelbench.records.run_dir import RunDir
from skelbench.records.state_file import write_state
from skelbench.training.build import build_method
from skelbench.training.checkpoint import save_encoders

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
    """Finite tensors by name."""
    options: Mapping[str, Any]
    """Options of the command that wrote it; empty for a bare state dict."""
    epoch: int | None


def read_checkpoint(path: Path) -> Checkpoint:
    """Read ``{"model": state, "args": Namespace, "epoch": 3, ...}`` or a bare state dict, by the weights-only loader.

    A file whose name ends in ``.safetensors`` holds a bare state dict; ``config.json`` next to it holds the options.

    Raises:
        SkelbenchError: there is no such file, or it is damaged, not a checkpoint, or contains code to run.
    """
    try:
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise SkelbenchError(f"checkpoint {path} cannot be read ({error.strerror}); check the path") from error
    content = _load_safetensors(path) if path.suffix == ".safetensors" else _load(path)
    mapping = content if isinstance(content, Mapping) else {}
    state = next((mapping[key] for key in STATES if isinstance(mapping.get(key), Mapping)), mapping)
    if not state or not all(isinstance(name, str) and isinstance(x, Tensor) for name, x in state.items()):
        raise SkelbenchError(
            f"{path} holds no state dict: a mapping of names to tensors is expected, by itself or under "
            "'model', 'state_dict' or 'teacher'"
        )
    state = {name.replace(COMPILED, ""): x for name, x in state.items()}
    if all(name.startswith(DATA_PARALLEL) for name in state):
        state = {name.removeprefix(DATA_PARALLEL): x for name, x in state.items()}
    if bad := [name for name, x in state.items() if x.layout != torch.strided or not bool(torch.isfinite(x).all())]:
        raise SkelbenchError(
            f"{path} holds tensors that are not dense or not finite, first {bad[0]!r}; take an earlier checkpoint"
        )
    options, epoch = mapping.get("args"), mapping.get("epoch")
    options = vars(options) if isinstance(options, argparse.Namespace) else options
    options = options if isinstance(options, Mapping) else {}
    return Checkpoint(path, sha256, state, options, epoch if isinstance(epoch, int) else None)


def _load(path: Path) -> Any:
    try:
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the loader raises zip, pickle, key and value errors
        if match := re.search(r"GLOBAL ([\w.]+)", str(error)):
            raise SkelbenchError(
                f"{path} holds {match.group(1)}, not only tensors and plain settings, and was not opened, since that "
                "can run code; save its state dict alone and import that"
            ) from error
        raise SkelbenchError(f"{path} is not a PyTorch checkpoint, or is damaged; get the file again") from error


def _load_safetensors(path: Path) -> Any:
    config = path.with_name("config.json")
    try:
        options = json.loads(config.read_bytes()) if config.is_file() else {}
        return {"model": load_file(path), "args": options}
    except (OSError, SafetensorError, ValueError) as error:
        raise SkelbenchError(f"{path} or its config.json is damaged ({error}); get the file again") from error


def fit(method: Method, weights: Mapping[str, Tensor], source: str) -> bool:
    """Load ``weights`` into ``method``; return False if they are weights of its inference encoders only.

    Raises:
        SkelbenchError: a tensor is missing, has another shape, or is one too many: names the first and how many.
    """
    own = method.state_dict()
    inference = [method.inference_encoder(), *method.inference_encoders().values()]
    prefixes = tuple(name + "." for name, module in method.named_modules() if any(module is part for part in inference))
    full = not all(name.startswith(prefixes) for name in weights)
    needed = [name for name in own if full or name.startswith(prefixes)]
    shapes = [{name: tuple(x.shape) for name, x in tensors.items()} for tensors in (weights, own)]
    misfits = [name for name in dict.fromkeys([*needed, *weights]) if shapes[0].get(name) != shapes[1].get(name)]
    if misfits:
        stored, ours = (_form(form.get(misfits[0])) for form in shapes)
        raise SkelbenchError(
            f"{source} does not fit {type(method).__name__} in this setting: {misfits[0]} is {stored} in the file and "
            f"{ours} in the model ({len(misfits)} of {len(needed)} tensors do not fit); use data of the same skeleton "
            "and leave the settings that the file decides as they are"
        )
    method.load_state_dict(dict(weights), strict=False)
    return full


def _form(shape: tuple[int, ...] | None) -> str:
    return "absent" if shape is None else " x ".join(map(str, shape)) or "a number"


def import_weights(
    session: Session, resolved: Resolved, checkpoint: Checkpoint, imported: Imported, force: bool = False
) -> RunDir:
    """A finished run whose weights come from a file instead of training; nothing is written if they do not fit."""
    spec = resolved.spec
    method = build_method(spec, session.host, resolved.store.topology)
    complete = fit(method, imported.weights, str(checkpoint.path))
    session.results.prepare()
    rest = "decoder" if "decoder" in method.roles.values() else "heads"
    facts = {
        "file": checkpoint.path.name,
        "sha256": checkpoint.sha256,
        "epoch": checkpoint.epoch,
        "tensors": len(checkpoint.state),
        "read": f"encoder and {rest}" if complete else "encoder alone",
        "settings": dict(imported.settings),
        "left_out": list(imported.leftover),
    }
    ran_on = {"environment": environment(session.device)}
    run = resolved.open_run(session.results, ran_on)
    with alone(run):
        if force:
            clear(run, **ran_on)
        if run.outcome != "done":
            weights = {name: x for name, x in method.state_dict().items() if name in imported.weights}
            write_state(run.checkpoint, {"id": spec.id, "step": 0, "method": weights})
            save_encoders(run, spec.id, method, checkpoint.epoch)
            unknown = {"clips_seen": None, "train_seconds": None}
            run.update(outcome="done", imported=facts, steps=0, finished=time.time(), **unknown)
    return run
