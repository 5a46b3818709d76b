"""Export of a run's encoder as a self-contained folder: weights, config, model card, and optionally an ONNX model."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors.torch import save_file

from skelbench.api.card import model_card
from skelbench.api.encoder import FrozenEncoder
from skelbench.api.exported import CARD, CONFIG, ONNX, PREFIX, WEIGHTS, Settings, config_json, load_exported
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

FORMATS = ("safetensors", "onnx")
CHECKED = 3
"""Number of clips on which the export is compared with the run's encoder."""


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
) -> Export:
    """Write the encoder of ``run`` to ``folder``: ``skelbench export``, from Python.

    The folder holds ``model.safetensors``, ``config.json`` (encoder, skeleton, grid, preprocessing) and a model card,
    ``README.md``; :func:`skelbench.load_encoder` and timm read it, and the Hugging Face Hub takes it as it is.
    ``format`` "onnx": also ``model.onnx``, compared with PyTorch by onnxruntime.

    Raises:
        SkelbenchError: there is no such run or place, its dataset is not here, or the encoder cannot be exported;
            nothing is written then.
    """
    if format not in FORMATS:
        raise SkelbenchError(did_you_mean(str(format), FORMATS, "format"))
    if format == "onnx":
        need_onnx()
    target = Path(folder).expanduser().resolve()
    if target.exists():
        raise SkelbenchError(f"{target} exists already; remove it or choose another folder")
    if not target.parent.is_dir():
        raise SkelbenchError(f"there is no folder {target.parent}; make it or choose another place")
    if isinstance(run, RunOnDisk):
        results, data, checkpoint = run.at(results, data, checkpoint)
    session = open_place(Work(results=results, data=data, device="cpu", plugins=plugins, progress=False))
    loaded = load_from_run(session, run, checkpoint, stream, with_data=True)
    with naming(target):
        temporary = tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.")
    with temporary:
        draft = Path(temporary.name, "export")
        draft.mkdir()
        difference = _write(session, loaded, draft, format == "onnx")
        draft.rename(target)
    return Export(target, tuple(sorted(path.name for path in target.iterdir())), difference)


def _write(session: Session, loaded: Loaded, folder: Path, onnx: bool) -> float | None:
    """Fill ``folder`` and compare its content with the run's encoder; return the ONNX model's difference."""
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
        skeleton=store.topology,
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
            f"encoder {spec.encoder} gives other features after it was written and read again; its result must depend "
            "only on its settings and its state_dict"
        )
    difference = None
    if onnx:  # with a single clip the exporter would make the batch size a constant
        difference = write_onnx(again, folder / ONNX, *again.prepare(store, ids=np.resize(some, CHECKED)))
    (folder / CARD).write_text(_card(session, loaded, settings, store, difference), encoding="utf-8")
    return difference


def _of_weights(session: Session, loaded: Loaded, spec: Mapping[str, Any]) -> bool:
    """Whether an evaluation is of the exported weights only, frozen.

    A method may have an encoder for each stream and named ones; a protocol may train the encoder or begin untrained.
    """
    run, checkpoint = loaded.run, loaded.checkpoint
    with suppress(SkelbenchError):  # the plugin of the protocol is not loaded
        protocol = protocol_class(session.host, spec["protocol"])
        if issubclass(protocol, EncoderProtocol) and not issubclass(protocol, Linear):
            return False
    own = {run.encoder(checkpoint, loaded.preprocessing.stream)}
    partners = spec.get("partners") or named_encoder(run, checkpoint, spec["readout"])
    return not partners and own == {run.encoder(checkpoint, stream) for stream in spec["streams"]}


def _card(session: Session, loaded: Loaded, settings: Settings, store: ClipStore, difference: float | None) -> str:
    every = all_results(loaded.run.path.parent)
    rows = every[(every["run"] == loaded.run.name) & (every["checkpoint"] == loaded.checkpoint)]
    method = session.host.get("methods", loaded.run.spec.method)
    assert isinstance(method, MethodSpec)
    specs = {record["id"]: record["spec"] for record in loaded.run.records()}
    frozen = [_of_weights(session, loaded, specs[name]) for name in rows["evaluation"]]
    return model_card(loaded.run, settings, store, method, rows[frozen], difference)
