"""Training state on disk: whole or absent, loaded without running code."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import check_regular, write_atomic
from skelbench.methods.contract import Method
from skelbench.records.run_dir import RunDir
from skelbench.records.state_file import read_state

ANEW = "remove it, or use --force, to start the run anew"
WITHOUT_LOG = "restore it, or remove it to continue the run without what was logged"


def load_state(path: Path, run_id: str) -> dict[str, Any]:
    """Read the training state of the run ``run_id``, on the CPU."""
    try:
        return read_state(path, run_id, "run")
    except Exception as error:
        raise SkelbenchError(f"checkpoint {path} is damaged; {ANEW}") from error


def save_weights(path: Path, module: nn.Module, facts: dict[str, Any]) -> None:
    """Write a module's parameters and buffers as safetensors, with ``facts`` and their checksum as JSON metadata."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
    facts = {**facts, "sha256": _sha256(tensors)}
    content = save(tensors, metadata={"skelbench": json.dumps(facts, sort_keys=True)})
    write_atomic(path, lambda file: file.write(content))


def _sha256(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        x = tensors[name]
        digest.update(f"{name} {x.dtype} {tuple(x.shape)} ".encode())
        digest.update(x.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def save_encoders(run: RunDir, run_id: str, method: Method, epoch: float | None, checkpoint: str = "last") -> None:
    """Write the inference encoder of ``method``, and those of streams that have one of their own."""
    encoders = {"": method.inference_encoder(), **method.inference_encoders()}
    for stream, encoder in encoders.items():
        if not stream or encoder is not encoders[""]:
            save_weights(run.encoder_path(checkpoint, stream), encoder, {"id": run_id, "epoch": epoch})


def tensor_names(path: Path) -> set[str]:
    """Tensors in a file that :func:`save_weights` wrote."""
    try:
        check_regular(path)
        with safe_open(path, "pt") as file:
            return set(file.keys())
    except Exception as error:
        raise SkelbenchError(f"weights {path} are missing or damaged; run the training again with --force") from error


def load_weights(path: Path, module: nn.Module, run_id: str, optional: Collection[str] = ()) -> None:
    """Load what :func:`save_weights` wrote of run ``run_id``. Tensors named ``optional`` may be on one side only."""
    try:
        check_regular(path)
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            facts = json.loads(file.metadata()["skelbench"])
        # Files of before there was a checksum have none.
        if facts["id"] != run_id or facts.get("sha256") not in (None, _sha256(tensors)):
            raise ValueError("they are not those that were written")
    except Exception as error:
        raise SkelbenchError(f"weights {path} are missing or damaged; run the training again with --force") from error
    own = module.state_dict()
    for name in optional:
        if (name in tensors) != (name in own):
            tensors = {**tensors, name: own[name]} if name in own else {k: x for k, x in tensors.items() if k != name}
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise SkelbenchError(f"weights {path} do not fit the encoder of this run; run it again with --force") from error


def synced(metrics: Path) -> int:
    """The size of metrics.jsonl, then on the disk: a state must not be there without what was logged before."""
    if not metrics.exists():
        return 0
    with open(metrics, "rb") as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size


def cut_back(metrics: Path, size: int) -> None:
    """Shorten metrics.jsonl to ``size`` bytes: what was logged after the checkpoint is logged again."""
    if metrics.is_symlink():  # of a run that came from elsewhere: the one file that is not replaced but written into
        raise SkelbenchError(f"{metrics} is a link, and what it leads to is left alone; remove it and run again")
    if metrics.is_file():
        with open(metrics, "r+b") as file:
            if os.fstat(file.fileno()).st_size < size:
                raise SkelbenchError(f"{metrics} is damaged, it was longer once; {WITHOUT_LOG}")
            file.truncate(size)
