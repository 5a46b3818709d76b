"""Training state on disk: whole or absent, loaded without running code."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import nn

from skelbench.errors import SkelbenchError
from skelbench.files import write_atomic
from skelbench.methods.contract import Method
from skelbench.results.store import RunDir
from skelbench.train.finite import saved_problem, state_problem


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write a training state (tensors, numbers, text)."""
    write_atomic(path, lambda file: torch.save(state, file))


def load_state(path: Path, device: torch.device | str) -> dict[str, Any]:
    """Read a training state with the weights-only loader; one with nan in it is refused."""
    try:
        state = torch.load(path, map_location=device, weights_only=True)
        problem = saved_problem({"method": state["method"], "optimizer": state.get("optimizer", {})})
    except Exception as error:
        raise SkelbenchError(f"checkpoint {path} is damaged; use --force to start the run anew") from error
    if problem:
        raise SkelbenchError(
            f"checkpoint {path} holds values that are not finite, first in {problem}; use --force to start the run anew"
        )
    return state


def save_weights(path: Path, module: nn.Module, facts: dict[str, Any]) -> None:
    """Write a module's parameters and buffers as safetensors, with ``facts`` as JSON metadata."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
    content = save(tensors, metadata={"skelbench": json.dumps(facts, sort_keys=True)})
    write_atomic(path, lambda file: file.write(content))


def save_encoders(run: RunDir, run_id: str, method: Method, epoch: float | None, checkpoint: str = "last") -> None:
    """Write the inference encoder of ``method``, and those of streams that have one of their own."""
    encoders = {"": method.inference_encoder(), **method.inference_encoders()}
    for stream, encoder in encoders.items():
        if not stream or encoder is not encoders[""]:
            save_weights(run.encoder_path(checkpoint, stream), encoder, {"id": run_id, "epoch": epoch})


def load_weights(path: Path, module: nn.Module, optional: Collection[str] = ()) -> None:
    """Load what :func:`save_weights` wrote. Tensors named ``optional`` may be on one side only."""
    try:
        tensors = load_file(path)
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
    if problem := state_problem(module):
        raise SkelbenchError(
            f"weights {path} hold values that are not finite, first in {problem}; run the training again with --force"
        )


def cut_back(metrics: Path, size: int) -> None:
    """Shorten metrics.jsonl to ``size`` bytes: what was logged after the checkpoint is logged again."""
    if metrics.is_symlink():  # of a run that came from elsewhere: the one file that is not replaced but written into
        raise SkelbenchError(f"{metrics} is a link, and what it leads to is left alone; remove it and run again")
    if metrics.exists():
        with open(metrics, "r+b") as file:
            file.truncate(size)
