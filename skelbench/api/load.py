"""Frozen encoders from a run, or from a folder of ``skelbench export``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skelbench.api.encoder import FrozenEncoder
from skelbench.api.exported import CONFIG, is_exported, load_exported
from skelbench.api.place import Device, RunOnDisk, open_place
from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import EvalSpec, Stream
from skelbench.data.store.source import ClipSource
from skelbench.evaluation.preprocessing import Preprocessing, slots_matter
from skelbench.models.encoder import Encoder
from skelbench.pipeline.encoders import load_encoder as load_weights_of
from skelbench.pipeline.encoders import named_encoder
from skelbench.pipeline.evaluate import check_finished, eval_spec
from skelbench.pipeline.leakage_checks import clips_of
from skelbench.pipeline.request import Work
from skelbench.pipeline.session import Session
from skelbench.records.run_dir import RunDir
from skelbench.views.skeleton.topology import Topology, get_topology


@dataclass(frozen=True)
class Loaded:
    """The encoder of a run, with facts about its origin."""

    run: RunDir
    checkpoint: str
    module: Encoder
    preprocessing: Preprocessing


def load_encoder(
    run: RunOnDisk | Path | str,
    checkpoint: str = "last",
    stream: Stream | None = None,
    *,
    protocol: str = "linear",
    readout: str | None = None,
    device: Device = None,
    plugins: Sequence[Path | str] = (),
    results: Path | str | None = None,
    data: Path | str | None = None,
) -> FrozenEncoder:
    """The frozen encoder of a run or of a folder that ``skelbench export`` wrote.

    Args:
        run: a :class:`skelbench.Run`, its name or id or a part of either (``RUN@50``: a snapshot), its directory, or
            the folder.
        checkpoint: "last", or the epoch of a kept snapshot.
        stream: joint, bone, motion or fused; none = as the run is evaluated.
        protocol: the features are those that this protocol sees.
        readout: feature of a body: pooled, mean, joints, a level of the encoder, or another encoder of the method; none
            = the protocol's.
        device: cpu, cuda or cuda:N, or a ``torch.device``; none = cuda if there is a GPU.
        plugins: files that the encoder or method comes from.

    Raises:
        SkelbenchError: there is no such run, it is not finished, or its weights are damaged.
    """
    if str(run).startswith("~"):
        run = Path(str(run)).expanduser()
    if not isinstance(run, RunOnDisk) and is_exported(Path(run)):
        if checkpoint != "last" or stream or readout or protocol != "linear":
            raise SkelbenchError(
                f"{run} is an exported encoder, with one checkpoint, stream and readout; leave out these options"
            )
        session = open_place(Work(results=results, data=data, device=device, plugins=plugins))
        return load_exported(Path(run), session.host, session.device)
    if isinstance(run, RunOnDisk):
        results, data, checkpoint = run.at(results, data, checkpoint)
    session = open_place(Work(results=results, data=data, device=device, plugins=plugins))
    loaded = load_from_run(session, run, checkpoint, stream, protocol, readout)
    title = loaded.run.name + ("" if loaded.checkpoint == "last" else f"@{loaded.checkpoint}")
    spec = loaded.run.spec
    own = named_encoder(loaded.run, loaded.checkpoint, loaded.preprocessing.readout)
    kind = spec.method_config.get(own, own) if own else spec.encoder
    return FrozenEncoder(loaded.module, kind, loaded.preprocessing, spec.train.precision, session.device, title)


def load_from_run(
    session: Session,
    run: RunOnDisk | Path | str,
    checkpoint: str = "last",
    stream: Stream | None = None,
    protocol: str = "linear",
    readout: str | None = None,
    with_data: bool = False,
) -> Loaded:
    """The encoder of a run, on the session's device. ``with_data``: open the dataset even if nothing depends on it."""
    directory, checkpoint = _directory(session, run, checkpoint)
    check_finished(directory, checkpoint)
    fields: dict[str, Any] = {"readout": readout} if readout else {}
    fields |= {"streams": (stream,)} if stream else {}
    spec = eval_spec(session.host, directory, protocol, checkpoint, **fields)
    topology, slots = _skeleton(session, directory, spec, with_data)
    module = load_weights_of(session, directory, checkpoint, topology, spec.streams[0], spec.readout)
    return Loaded(directory, checkpoint, module, Preprocessing.of(spec, spec.streams[0], slots))


def _directory(session: Session, run: RunOnDisk | Path | str, checkpoint: str) -> tuple[RunDir, str]:
    if isinstance(run, RunOnDisk):
        return RunDir(run.path).checked(), checkpoint
    if (Path(run) / "run.json").is_file():
        return RunDir(Path(run)).checked(), checkpoint
    if isinstance(run, Path):
        raise SkelbenchError(f"{run} is neither the directory of a run nor an exported encoder, which has a {CONFIG}")
    stored, epoch = session.results.find(run)
    return stored, epoch if checkpoint == "last" else checkpoint


def _skeleton(session: Session, run: RunDir, spec: EvalSpec, with_data: bool) -> tuple[Topology, int | None]:
    """Topology, and body slots if the dataset has to be opened to know them."""
    named = [name.split(" ", 1)[1] for name in run.spec.components if name.startswith("topologies ")]
    if named and not with_data and not slots_matter(spec.bodies, spec.bodies_pool):
        return get_topology(named[0]), None
    store = clips_of(session, spec, run)
    return store.topology, ClipSource(store, second_body=spec.data.second_body).max_bodies
