"""``skelbench eval RUN``: another probe on a finished run; never retrains."""

from __future__ import annotations

from typing import Annotated

import typer

from skelbench.cli import complete
from skelbench.cli.options import DataRoot, Device, Force, ReadResults, names_of
from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.session import open_session


def evaluate(
    run: Annotated[
        list[str],
        typer.Argument(
            help="Run name, id, or part of either; RUN@50 = its snapshot at epoch 50. Several: one run per stream, "
            "fused into one result that is kept with the first.",
            autocompletion=complete.runs,
        ),
    ],
    protocol: Annotated[
        str,
        typer.Option(help="Protocols, comma separated.", autocompletion=complete.listed(complete.names("protocols"))),
    ] = "linear,knn",
    dataset: Annotated[
        str | None,
        typer.Option(help="Another data set to probe on.", show_default="its own", autocompletion=complete.datasets),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Another split.", show_default="its own", autocompletion=complete.splits)
    ] = None,
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
        typer.Option(
            help="Features: pooled, mean, joints, a level of the encoder, or another encoder of the method.",
            show_default="the protocol's",
        ),
    ] = None,
    bodies_pool: Annotated[
        str | None,
        typer.Option(help="Bodies to clip: valid-mean, valid-sum, all-mean or concat.", show_default="as in `run`"),
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(
            help="Hide tokens whose mean confidence is below this from an encoder that has learnt to do without.",
            show_default="0, none",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Settings of the protocol; repeatable.",
            autocompletion=complete.protocol_settings,
        ),
    ] = None,
    device: Device = None,
    results: ReadResults = None,
    data_root: DataRoot = None,
    force: Force = False,
) -> None:
    """Evaluate a finished RUN by one or more protocols; a result that exists is shown, not computed again.

    With several streams or another than the run's own, and in transfer, its controls are evaluated alike if they are
    there.
    """
    from skelbench.cli.run import known_protocols
    from skelbench.cli.summary import print_records
    from skelbench.pipeline.request import parse_sets
    from skelbench.plugin.host import get_host

    host = get_host()
    protocols = known_protocols(host, protocol, elsewhere=True)  # a misspelt one fails before torch is imported
    if not protocols:
        raise SkelbenchError("--protocol is empty: name a protocol, see `skelbench plugins list`")
    from skelbench.api.evaluations import evaluate_runs
    from skelbench.core import distributed

    session = open_session(results, data_root, device)
    runs = [session.results.find(pattern) for pattern in run]
    records = evaluate_runs(
        session,
        runs,
        protocols,
        config=parse_sets(set_ or []),
        dataset=dataset,
        split=split,
        seed=seed,
        streams=names_of(stream or ""),
        fusion=fusion,
        weights=names_of(weights or ""),
        readout=readout,
        bodies_pool=bodies_pool,
        min_confidence=min_confidence,
        force=force,
    )
    if not distributed.rank():
        print_records(runs[0][0], records)
    distributed.leave()
