"""``skelbench eval RUN``: another probe on a finished run; never retrains."""

from __future__ import annotations

from typing import Annotated

import typer

from skelbench.cli.options import DataRoot, Device, Force, Results


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
    from skelbench.plugin.host import get_host
    from skelbench.results.store import ResultStore
    from skelbench.run.request import parse_sets
    from skelbench.run.resolve import open_dataset

    host = get_host()
    names = [name.strip() for name in protocol.split(",") if name.strip()]
    for name in names:
        host.get("protocols", name)
    store = ResultStore(results)
    run_dir, checkpoint = store.find(run)
    from skelbench.console import progress
    from skelbench.data.store.roots import data_root as default_data_root
    from skelbench.run.workflow import Workflow, pick_device

    root = data_root or default_data_root()
    workflow = Workflow(host, store, root, pick_device(device), progress)
    settings = parse_sets(set_ or [])
    fields: dict = {}
    if bodies_pool:
        fields |= {"bodies_pool": bodies_pool, "bodies": "all-slots" if bodies_pool == "all-mean" else "valid"}
    if dataset or split:
        clips = open_dataset(dataset or run_dir.spec.data.name, host, root)
        part = clips.split(split or (None if dataset else run_dir.spec.data.split)).name
        fields["data"] = run_dir.spec.data.found(clips, dataset or run_dir.spec.data.name, part)
    if seed is not None:
        fields["seed"] = seed
    from skelbench.cli.summary import print_records

    records = []
    for name in names:
        spec = workflow.eval_spec(run_dir.spec, name, checkpoint, config=settings, **fields)
        records.append(workflow.evaluate(run_dir, spec, force))
    print_records(run_dir, records)
