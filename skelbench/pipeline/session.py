"""Context of commands: plugins, results directory, data and device (torch-free until the data are opened)."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from skelbench.core.errors import SkelbenchError

if TYPE_CHECKING:
    from skelbench.evaluation.protocol import Features
    from skelbench.models.encoder import Encoder
    from skelbench.plugin.descriptors import ObserverSpec
    from skelbench.plugin.host import Host
    from skelbench.records.store import ResultStore

Report = Callable[..., None]
"""``report(advance, **fields)``."""
Progress = Callable[..., AbstractContextManager[Report]]
"""``progress(total=, label=, unit=)``: a context manager that yields a :data:`Report`."""


@dataclass(frozen=True)
class Session:
    """Objects that every step of a command needs."""

    host: Host
    results: ResultStore
    data_root: Path
    device: str
    progress: Progress
    observe: tuple[ObserverSpec, ...] = ()
    """Observers of training that were asked for."""
    features: dict[str, Features] = field(default_factory=dict, repr=False)
    """Features extracted in this session, which several protocols share."""
    encoders: dict[str, Encoder] = field(default_factory=dict, repr=False)
    """Encoder that extracted the features of a run, by the run's id; kept until the run's cost is measured."""


def open_session(
    results: Path | None = None,
    data_root: Path | None = None,
    device: str | None = None,
    observe: tuple[ObserverSpec, ...] = (),
) -> Session:
    """The session that the options of a command ask for; joins ``torchrun``'s process group, if there is one."""
    from skelbench.core import distributed
    from skelbench.core.console import progress
    from skelbench.core.threads import limit_threads
    from skelbench.data.store.roots import data_root as default_data_root
    from skelbench.plugin.host import get_host
    from skelbench.records.store import ResultStore

    device = pick_device(device)
    _take_memory_in_segments(device)  # a process group may be the first to use a GPU
    device = distributed.start_from_environment(device)
    prepare(device)
    limit_threads()
    return Session(get_host(), ResultStore(results), data_root or default_data_root(), device, progress, observe)


def prepare(device: str) -> None:
    """Make a named GPU the current one. Switch off TF32, and cuDNN's attention, which plans again for every batch size;
    deterministic if the user's settings say so."""
    import torch

    from skelbench.core.user_config import said

    if not device.startswith("cuda"):
        return
    _take_memory_in_segments(device)
    if torch.device(device).index:
        torch.cuda.set_device(device)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    if said("deterministic"):
        # Read when cuBLAS is first used; of the two settings that PyTorch takes the one that cuDNN's GRUs need.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":16:8")
        torch.use_deterministic_algorithms(True)


def _take_memory_in_segments(device: str) -> None:
    """Let PyTorch's CUDA allocator grow its blocks, because batches differ in size, unless the environment configures
    it: SLiM at the paper's size needs 105 GiB instead of 136."""
    variables = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"} & os.environ.keys()
    if device.startswith("cuda") and not variables:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"


def pick_device(name: str | None) -> str:
    """Return ``cuda`` if there is a GPU, else ``cpu``; check a device that ``--device`` or a setting names."""
    import torch

    from skelbench.core.user_config import found

    where = "--device"
    if name is None:
        name, where = found("device")
    if name is None or name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SkelbenchError(f"{where}: {name!r} is not a device; use cpu, cuda or cuda:N") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SkelbenchError(f"{where} {name}: no CUDA device is available here; use --device cpu")
    if device.type not in ("cpu", "cuda"):
        raise SkelbenchError(f"{where} {name}: only cpu and cuda are supported")
    return name
