"""``skelbench eval RUN``: another probe on a finished run; never retrains."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from skelbench.cli.options import DataRoot, Device, Force, Results
from skelbench.run.session import open_session


def evaluate(
    run: Annotated[str, typer.Argument(help="Run name, id, or part of either; RUN@50 = its snapshot at epoch 50.")],
    protocol: Annotated[str, typer.Option(help="Protocols, comma separated.")] = "linear,knn",
    dataset: Annotated[str | None, typer.Option(help="Another data set to probe on.", show_default="its own")] = None,
    split: Annotated[str | None, typer.Option(help="Another split.", show_default="its own")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the probe.", show_default="the run's")] = None,
    bodies_pool: Annotated[
        str | None,
        typer.Option(help="Bodies to clip: valid-mean, valid-sum, all-mean or concat.", show_default="as in `run`"),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Settings of the protocol; repeatable.")
    ] = None,
    device: Device = None,
    results: Results = None,
    data_root: DataRoot = None,
    force: Force = False,
) -> None:
    """Evaluate a finished RUN by one or more protocols; a result that exists is shown, not computed again."""
    from skelbench.cli.run import known_protocols
    from skelbench.cli.summary import print_records
    from skelbench.plugin.host import get_host
    from skelbench.run.request import parse_sets

    host = get_host()
    names = known_protocols(host, protocol)  # a misspelt one fails before torch is imported
    from skelbench.run.evaluate import eval_spec
    from skelbench.run.evaluate import evaluate as evaluation
    from skelbench.run.resolve import open_dataset

    session = open_session(results, data_root, device)
    run_dir, checkpoint = session.results.find(run)
    fields: dict[str, Any] = {"config": parse_sets(set_ or [])}
    if bodies_pool:
        fields |= {"bodies_pool": bodies_pool, "bodies": "all-slots" if bodies_pool == "all-mean" else "valid"}
    if dataset or split:
        name = dataset or run_dir.spec.data.name
        clips = open_dataset(name, host, session.data_root)
        part = clips.split(split or (None if dataset else run_dir.spec.data.split)).name
        fields["data"] = run_dir.spec.data.found(clips, name, part)
    if seed is not None:
        fields["seed"] = seed
    specs = [eval_spec(host, run_dir.spec, name, checkpoint, **fields) for name in names]
    print_records(run_dir, [evaluation(session, run_dir, spec, force) for spec in specs])
