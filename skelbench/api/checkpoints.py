"""Runs from published checkpoint files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.checkpoint_file import import_weights, read_checkpoint
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import Resolved, resolve
from skelbench.pipeline.session import Session
from skelbench.records.run_dir import RunDir

SHAPELESS = ("encoder.heads", "method.decoder_heads")
"""Settings that cannot be read from the shapes of tensors: the user gives them if the file does not."""


@dataclass(frozen=True)
class ImportedRun:
    """A run whose weights come from a file."""

    run: RunDir
    resolved: Resolved
    assumed: Mapping[str, Any]
    """Settings that neither the file nor the user gave: defaults of the method."""


def import_file(
    session: Session,
    method: str,
    file: Path,
    dataset: str | None = None,
    split: str | None = None,
    seed: int | None = None,
    sets: Mapping[str, Any] | None = None,
    force: bool = False,
) -> ImportedRun:
    """Make a run of ``method`` from the checkpoint ``file``, in the published setting; an existing run is not changed.

    Raises:
        SkelbenchError: not a checkpoint of the method, or an option does not fit it; nothing is written.
    """
    descriptor, _ = session.host.method(method)
    if not descriptor.imports:
        able = ", ".join(entry.name for entry in session.host.all("methods") if getattr(entry, "imports", "")) or "none"
        raise SkelbenchError(f"method {descriptor.name} reads no public checkpoints; methods that do: {able}")
    sets = dict(sets or {})
    checkpoint = read_checkpoint(file)
    try:
        imported = session.host.load(descriptor, "imports")(checkpoint.state, checkpoint.options)
    except SkelbenchError as error:
        raise SkelbenchError(f"{checkpoint.path} is no checkpoint of {descriptor.name}: {error}") from error
    silent = [key for key in SHAPELESS if key not in imported.settings]
    answers = {key: sets.pop(name) for key in silent for name in (key, key.split(".")[1]) if name in sets}
    published = descriptor.probe.data.get(dataset or "", {}) if descriptor.probe else {}
    layer = {f"data.{key}": value for key, value in published.items()}
    request = Request(
        method=method,
        dataset=dataset,
        split=split,
        preset="imported",
        native=True,
        seed=seed,
        sets=sets,
        imported=checkpoint.sha256,
        presets={"imported": {"train.precision": "fp32", **layer, **imported.settings, **answers}},
    )
    resolved = resolve(request, session.host, session.data_root, session.device)
    run = import_weights(session, resolved, checkpoint, imported, force)
    configs = {"encoder": resolved.spec.encoder_config}
    if run.info["imported"]["read"] != "encoder alone":
        configs["method"] = resolved.spec.method_config
    places = {key: key.split(".") for key in silent if key not in answers}
    assumed = {key: configs[part][name] for key, (part, name) in places.items() if name in configs.get(part, {})}
    return ImportedRun(run, resolved, assumed)
