"""Evaluation of one or several runs and streams: from a request to its record."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, get_args

from skelbench.core.distributed import first
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.spec import EvalSpec, Fusion, Stream, evaluation_defaults
from skelbench.pipeline.encoders import hides_doubtful, named_encoder
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.request import EvaluationRequest
from skelbench.pipeline.resolve import data_of, open_dataset
from skelbench.pipeline.session import Session
from skelbench.records.run_dir import RunDir
from skelbench.records.store import ResultStore
from skelbench.reporting.controls import CONTROLS, Controls

log = logging.getLogger(__name__)


def evaluate_runs(
    session: Session, runs: Sequence[tuple[RunDir, str]], protocols: Sequence[str], asked: EvaluationRequest
) -> list[dict[str, Any]]:
    """One record per protocol, for the first of ``runs`` (each with its checkpoint) or for all of them fused. An
    existing record is read, not computed again.

    With streams or data other than the run's own, its controls are evaluated the same way if they exist and have
    learned what the evaluation needs (``min_confidence``); else a note is printed.

    Raises:
        SkelbenchError: the evaluation is not possible; nothing is written.
    """
    (run, checkpoint), *partners = runs
    options = {"readout": asked.readout, "seed": asked.seed, "min_confidence": asked.min_confidence}
    fields: dict[str, Any] = {"config": dict(asked.sets)}
    fields |= {name: value for name, value in options.items() if value not in (None, "")}
    fields |= _streams(asked.stream or (), asked.fusion, [run, *(partner for partner, _ in partners)])
    fields |= {"weights": list(asked.weights)} if asked.weights else {}
    fields["partners"] = [partner.spec.id + ("" if epoch == "last" else f"@{epoch}") for partner, epoch in partners]
    if pooling := asked.bodies_pool:
        fields |= {"bodies_pool": pooling, "bodies": "all-slots" if pooling == "all-mean" else "valid"}
    if asked.dataset or asked.split:
        own = run.spec.data
        clips = open_dataset(asked.dataset or own.name, session.host, session.data_root)
        part = clips.split(asked.split or (None if asked.dataset else own.split))
        fields["data"] = data_of(own, clips, asked.dataset or own.name, part.name)
    specs = [eval_spec(session.host, run, name, checkpoint, **fields) for name in protocols]
    records = [evaluate(session, run, spec, asked.force) for spec in specs]
    for spec in specs:
        if fields.keys() & {"streams", "data"}:
            for control, alike in first(partial(_controls, session.results, run, spec)):
                if named_encoder(run, spec.checkpoint, spec.readout):
                    log.warning("note: control %s has no encoder %s: not evaluated", control.spec.method, spec.readout)
                elif hides_doubtful(session, control, alike):
                    evaluate(session, control, alike, asked.force, like=run)
                else:
                    log.warning(
                        "note: control %s has not learned to do without joints: not evaluated with --min-confidence",
                        control.spec.method,
                    )
    return records


def _streams(streams: Sequence[str], fusion: str | None, runs: Sequence[RunDir]) -> dict[str, Any]:
    """Streams and fusion of an evaluation, if they differ from the run's own."""
    if fusion and fusion not in get_args(Fusion):
        ways = [way for way in get_args(Fusion) if way != "none"]  # "none" is for one stream
        raise SkelbenchError(did_you_mean(fusion, ways, "fusion"))
    for name in streams:
        if name not in get_args(Stream):
            raise SkelbenchError(did_you_mean(name, get_args(Stream), "stream"))
    if not streams and len(runs) > 1:
        streams = [name for run in runs for name in evaluation_defaults(run.spec)["streams"]]
    return ({"streams": list(streams)} if streams else {}) | ({"fusion": fusion} if fusion else {})


def _controls(results: ResultStore, run: RunDir, spec: EvalSpec) -> list[tuple[RunDir, EvalSpec]]:
    """The controls of ``run`` with the same evaluation, if the results contain them and all partners' controls."""
    controls = Controls(results.read())
    measured = [run, *(results.by_id(name.split("@")[0]) for name in spec.partners)]
    alike = []
    for kind in CONTROLS:
        found = [control for member in measured if member and (control := controls.of(kind, member.spec))]
        if len(found) < len(measured):
            continue
        first, *partner_ids = (control.spec.id for control in found)
        own: dict[str, Any] = {"pretrain_id": first, "checkpoint": "last", "partners": tuple(partner_ids)}
        own |= {"seed": found[0].spec.seed} if kind == "raw" else {}
        alike.append((RunDir(found[0].path), spec.model_copy(update=own)))
    return alike
