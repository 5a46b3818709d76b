"""``skelbench eval RUN``: another probe on a finished run; never retrains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli.options import DataRoot, Device, Force, ReadResults, names_of
from skelbench.errors import SkelbenchError, did_you_mean
from skelbench.run.session import open_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skelbench.results.store import ResultStore, RunDir
    from skelbench.spec import EvalSpec


def evaluate(
    run: Annotated[
        list[str],
        typer.Argument(
            help="Run name, id, or part of either; RUN@50 = its snapshot at epoch 50. Several: one run per stream, "
            "fused into one result that is kept with the first."
        ),
    ],
    protocol: Annotated[str, typer.Option(help="Protocols, comma separated.")] = "linear,knn",
    dataset: Annotated[str | None, typer.Option(help="Another data set to probe on.", show_default="its own")] = None,
    split: Annotated[str | None, typer.Option(help="Another split.", show_default="its own")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the probe.", show_default="the run's")] = None,
    stream: Annotated[
        str | None,
        typer.Option(
            help="What the encoder looks at: joint, bone, motion; several, comma separated, are fused.",
            show_default="as trained",
        ),
    ] = None,
    fusion: Annotated[
        str | None, typer.Option(help="How several streams become one result: features, scores or logits.")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(help="Of the streams in a sum of scores or logits: 0.6,0.6,0.4.", show_default="all alike"),
    ] = None,
    readout: Annotated[
        str | None,
        typer.Option(help="Features: pooled, mean, joints, or a level of the encoder.", show_default="the protocol's"),
    ] = None,
    bodies_pool: Annotated[
        str | None,
        typer.Option(help="Bodies to clip: valid-mean, valid-sum, all-mean or concat.", show_default="as in `run`"),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Settings of the protocol; repeatable.")
    ] = None,
    device: Device = None,
    results: ReadResults = None,
    data_root: DataRoot = None,
    force: Force = False,
) -> None:
    """Evaluate a finished RUN by one or more protocols; a result that exists is shown, not computed again.

    With several streams or another than the run's own, its controls are evaluated alike if they are there.
    """
    from skelbench.cli.run import known_protocols
    from skelbench.cli.summary import print_records
    from skelbench.plugin.host import get_host
    from skelbench.run.request import parse_sets

    host = get_host()
    protocols = known_protocols(host, protocol)  # a misspelt one fails before torch is imported
    if not protocols:
        raise SkelbenchError("--protocol is empty: name a protocol, see `skelbench plugins list`")
    from skelbench.run.evaluate import eval_spec
    from skelbench.run.evaluate import evaluate as evaluation
    from skelbench.run.resolve import data_of, open_dataset

    session = open_session(results, data_root, device)
    (run_dir, checkpoint), *partners = [session.results.find(pattern) for pattern in run]
    fields: dict[str, Any] = {"config": parse_sets(set_ or [])} | ({"readout": readout} if readout else {})
    fields |= _streams(stream, fusion, [run_dir, *(partner for partner, _ in partners)])
    fields |= {"weights": names_of(weights)} if weights else {}
    fields["partners"] = [partner.spec.id + ("" if epoch == "last" else f"@{epoch}") for partner, epoch in partners]
    if bodies_pool:
        fields |= {"bodies_pool": bodies_pool, "bodies": "all-slots" if bodies_pool == "all-mean" else "valid"}
    if dataset or split:
        own = run_dir.spec.data
        clips = open_dataset(dataset or own.name, host, session.data_root)
        part = clips.split(split or (None if dataset else own.split))
        fields["data"] = data_of(own, clips, dataset or own.name, part.name)
    if seed is not None:
        fields["seed"] = seed
    specs = [eval_spec(host, run_dir.spec, name, checkpoint, **fields) for name in protocols]
    records = [evaluation(session, run_dir, spec, force) for spec in specs]
    if "streams" in fields:
        for spec in specs:
            for beside in _controls(session.results, run_dir, spec):
                evaluation(session, *beside, force, like=run_dir.spec)
    print_records(run_dir, records)


def _streams(stream: str | None, fusion: str | None, runs: list[RunDir]) -> dict[str, Any]:
    """The streams and the fusion of an evaluation, as far as they are not the run's own."""
    from typing import get_args

    from skelbench.spec import Fusion, Stream, evaluation_defaults

    if fusion and fusion not in get_args(Fusion):
        raise SkelbenchError(did_you_mean(fusion, get_args(Fusion), "fusion"))
    streams = names_of(stream or "")
    for name in streams:
        if name not in get_args(Stream):
            raise SkelbenchError(did_you_mean(name, get_args(Stream), "stream"))
    if not streams and len(runs) > 1:
        streams = [name for run in runs for name in evaluation_defaults(run.spec)["streams"]]
    return ({"streams": streams} if streams else {}) | ({"fusion": fusion} if fusion else {})


def _controls(results: ResultStore, run: RunDir, spec: EvalSpec) -> Iterator[tuple[RunDir, EvalSpec]]:
    """The controls of ``run`` with the same evaluation, as far as the results hold them and those of all partners."""
    from skelbench.report.frame import CONTROLS, Controls
    from skelbench.results.store import RunDir

    controls = Controls(results.read())
    measured = [run, *(results.by_id(name.split("@")[0]) for name in spec.partners)]
    for kind in CONTROLS:
        found = [beside for one in measured if one and (beside := controls.of(kind, one.spec))]
        if len(found) < len(measured):
            continue
        first, *others = (beside.spec.id for beside in found)
        own: dict[str, Any] = {"pretrain_id": first, "checkpoint": "last", "partners": tuple(others)}
        own |= {"seed": found[0].spec.seed} if kind == "raw" else {}
        yield RunDir(found[0].path), spec.model_copy(update=own)
