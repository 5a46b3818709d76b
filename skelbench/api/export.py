"""A run's encoder as a folder that stands by itself: weights, config, model card, and an ONNX model if asked for."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors.torch import save_file

from skelbench.api.card import Facts, model_card
from skelbench.api.encoder import FrozenEncoder
from skelbench.api.exported import (
    CARD,
    CONFIG,
    ONNX,
    PREFIX,
    WEIGHTS,
    Settings,
    Skeleton,
    config_json,
    is_exported,
    load_exported,
)
from skelbench.api.load import Loaded, load_from_run
from skelbench.api.onnx import need_onnx, write_onnx
from skelbench.api.place import RunOnDisk, open_place
from skelbench.api.reports import results as all_results
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.files import naming
from skelbench.core.spec import Stream
from skelbench.core.version import __version__
from skelbench.data.store.clip_store import ClipStore
from skelbench.evaluation.downstream import EncoderProtocol
from skelbench.evaluation.linear import Linear
from skelbench.pipeline.encoders import named_encoder
from skelbench.pipeline.evaluate import protocol_class
from skelbench.pipeline.request import Work
from skelbench.pipeline.resolve import open_dataset
from skelbench.pipeline.session import Session
from skelbench.plugin.descriptors import MethodSpec
from skelbench.records.errors import if_whole

FORMATS = ("safetensors", "onnx")
CHECKED = 3
"""Clips on which what was written is compared with the run's encoder."""


@dataclass(frozen=True)
class Export:
    """A written export."""

    folder: Path
    files: tuple[str, ...]
    onnx_difference: float | None = None
    """Largest difference of the ONNX model's features from PyTorch's; None = there is none."""


def export(
    run: RunOnDisk | Path | str,
    folder: Path | str,
    format: Literal["safetensors", "onnx"] = "safetensors",
    *,
    checkpoint: str = "last",
    stream: Stream | None = None,
    plugins: Sequence[Path | str] = (),
    results: Path | str | None = None,
    data: Path | str | None = None,
    force: bool = False,
) -> Export:
    """Write the encoder of ``run`` to ``folder``: ``skelbench export``, from Python.

    The folder holds ``model.safetensors``, ``config.json`` (encoder, skeleton, grid, preprocessing) and a model card,
    ``README.md``; :func:`skelbench.load_encoder` and timm read it, and the Hugging Face Hub takes it as it is.
    ``format`` "onnx": also ``model.onnx``, compared with PyTorch by onnxruntime. ``force`` replaces an earlier export.

    Raises:
        SkelbenchError: there is no such run or place, its data set is not here, or the encoder cannot be exported;
            nothing is written then.
    """
    if format not in FORMATS:
        raise SkelbenchError(did_you_mean(str(format), FORMATS, "format"))
    if format == "onnx":
        need_onnx()
    target = Path(folder).expanduser().resolve()  # a link stays, and what it leads to is replaced
    _check_target(target, force)
    if isinstance(run, RunOnDisk):
        results, data, checkpoint = run.at(results, data, checkpoint)
    session = open_place(Work(results=results, data=data, device="cpu", plugins=plugins, progress=False))
    loaded = load_from_run(session, run, checkpoint, stream, with_data=True)
    with _in_place_of(target) as partial:
        written = _write(session, loaded, partial, format == "onnx")
        files = tuple(sorted(path.name for path in partial.iterdir()))
    return Export(target, files, written)


def _check_target(target: Path, force: bool) -> None:
    """SkelbenchError unless ``target`` is absent, empty or, with ``force``, an earlier export."""
    files = sorted(path.name for path in target.iterdir()) if target.is_dir() else []
    if is_exported(target) and not force:
        raise SkelbenchError(f"{target} holds an export already; choose another folder, or replace it with --force")
    others = [name for name in files if name not in (CARD, CONFIG, ONNX, WEIGHTS)]
    if target == Path.cwd() or target.is_file() or others:
        raise SkelbenchError(
            f"{target} is no export{f', it holds {others[0]}' if others else ''}; choose a folder that does not exist"
        )
    if not target.parent.is_dir():
        raise SkelbenchError(f"there is no folder {target.parent}; make it or choose another place")


@contextmanager
def _in_place_of(target: Path) -> Iterator[Path]:
    """A folder beside ``target`` that takes its place when all went well, and is gone otherwise."""
    with naming(target):
        partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        yield partial
        partial.chmod(0o755)
        if target.exists():  # the earlier export is removed only after the new one has its place
            target.rename(aside := partial.with_name(f"{partial.name}.before"))
            partial.rename(target)
            shutil.rmtree(aside)
        else:
            partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(session: Session, loaded: Loaded, folder: Path, onnx: bool) -> float | None:
    """Fill ``folder`` and compare what is there with the run's encoder; the ONNX model's difference."""
    run, spec, module = loaded.run, loaded.run.spec, loaded.module
    store = open_dataset(spec.data.name, session.host, session.data_root)
    title = run.name + ("" if loaded.checkpoint == "last" else f"@{loaded.checkpoint}")
    encoder = FrozenEncoder(module, spec.encoder, loaded.preprocessing, spec.train.precision, "cpu", title)
    some = store.split(spec.data.split, spec.data.min_frames).test[:CHECKED]
    expected = encoder.embed(store, ids=some)
    settings = Settings(
        written_by=f"skelbench {__version__}",
        encoder=spec.encoder,
        encoder_version=spec.encoder_version,
        encoder_source=spec.encoder_source,
        encoder_config=spec.encoder_config,
        features=expected.shape[1],
        grid=spec.grid,
        skeleton=Skeleton.of(store.topology),
        preprocessing=loaded.preprocessing,
        precision=spec.train.precision,
        run=title,
    )
    own = {name: x for name, x in module.state_dict().items() if name not in module.prepared_state}
    save_file({PREFIX + name: x.contiguous() for name, x in own.items()}, folder / WEIGHTS)
    (folder / CONFIG).write_text(config_json(settings))
    again = load_exported(folder, session.host)
    if not np.array_equal(again.embed(store, ids=some), expected):
        raise SkelbenchError(
            f"encoder {spec.encoder} gives other features after it was written and read again; what it computes must "
            "depend on its settings and its state_dict alone"
        )
    difference = None
    if onnx:  # of a single clip the exporter would take the number for a constant
        difference = write_onnx(again, folder / ONNX, *again.prepare(store, ids=np.resize(some, CHECKED)))
    (folder / CARD).write_text(_card(session, loaded, settings, store, difference), encoding="utf-8")
    return difference


def _trains_encoder(session: Session, protocol: str) -> bool:
    """Whether ``protocol`` may train the encoder further; False if its plugin is not loaded."""
    with suppress(SkelbenchError):
        found = protocol_class(session.host, protocol)
        return issubclass(found, EncoderProtocol) and not issubclass(found, Linear)
    return False


def _of_weights(session: Session, loaded: Loaded, spec: Mapping[str, Any]) -> bool:
    """Whether an evaluation is of the exported weights alone.

    A method may have an encoder for each stream and named ones; a protocol may begin with an untrained encoder.
    """
    run, checkpoint = loaded.run, loaded.checkpoint
    with suppress(SkelbenchError):
        if not getattr(protocol_class(session.host, spec["protocol"]), "trained", True):
            return False
    own = {run.encoder(checkpoint, loaded.preprocessing.stream)}
    others = spec.get("partners") or named_encoder(run, checkpoint, spec["readout"])
    return not others and own == {run.encoder(checkpoint, stream) for stream in spec["streams"]}


def _card(session: Session, loaded: Loaded, settings: Settings, store: ClipStore, difference: float | None) -> str:
    every = all_results(loaded.run.path.parent)
    mine = every[(every["run"] == loaded.run.name) & (every["checkpoint"] == loaded.checkpoint)]
    method = session.host.get("methods", loaded.run.spec.method)
    assert isinstance(method, MethodSpec)
    records = {record["id"]: record for record in loaded.run.records()}
    alone = [_of_weights(session, loaded, records[name]["spec"]) for name in mine["evaluation"]]
    mine = mine[alone].assign(
        notes=[records[name].get("notes", []) for name in mine["evaluation"][alone]],
        on_encoder=[_trains_encoder(session, name) for name in mine["protocol"][alone]],
    )
    first = loaded.run.spec.init_from
    parent = if_whole(partial(session.results.by_id, first)) if first else None
    return model_card(Facts(loaded.run, settings, store, method, mine, parent, difference))
