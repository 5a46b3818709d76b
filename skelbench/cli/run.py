"""``skelbench run METHOD``: train, probe, cost, and show it beside the untrained encoder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli.options import DataRoot, Device, Force, Results

if TYPE_CHECKING:
    from skelbench.resolve import Resolved
    from skelbench.workflow import Workflow


def run(
    method: Annotated[str, typer.Argument(help="Method, see `skelbench plugins list`.")],
    dataset: Annotated[str | None, typer.Option(help="Data set.", show_default="synthetic")] = None,
    split: Annotated[str | None, typer.Option(help="Split.", show_default="the data set's default")] = None,
    tokens: Annotated[
        int | None,
        typer.Option(help="Temporal tokens: 8, 15 or 30 (T/P_T = 64/8, 120/8, 120/4).", show_default="the method's"),
    ] = None,
    clip_length: Annotated[int | None, typer.Option(help="Clip length T in frames, for any other grid.")] = None,
    patch: Annotated[int | None, typer.Option(help="Frames per temporal token P_T, for any other grid.")] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="paper, small or quick (and release for slim).", show_default="paper with a GPU, else quick"),
    ] = None,
    epochs: Annotated[float | None, typer.Option(min=0, help="Length of the schedule.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Clips per step.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of everything.", show_default="0")] = None,
    device: Device = None,
    precision: Annotated[
        str | None, typer.Option(help="fp32 or bf16.", show_default="bf16 with a GPU, else fp32")
    ] = None,
    probe: Annotated[str, typer.Option(help="Protocols, comma separated; none = train only.")] = "linear,knn",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting of method, encoder, train or grid; repeatable."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="run.toml with settings; the command line wins.")] = None,
    init_from: Annotated[str | None, typer.Option(help="Start from the weights of this finished run.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show spec, ids, parameters, cost, memory and time; train nothing.")
    ] = False,
    results: Results = None,
    data_root: DataRoot = None,
    force: Force = False,
) -> None:
    """Train METHOD, probe it, count its cost, and compare it with its untrained encoder.

    Issuing the same command again continues or skips what is done.
    """
    from skelbench.resolve import Request, parse_sets

    request = Request(
        method=method,
        dataset=dataset,
        split=split,
        tokens=tokens,
        clip_length=clip_length,
        patch=patch,
        preset=preset,
        epochs=epochs,
        batch_size=batch_size,
        seed=seed,
        precision=precision,
        init_from=init_from,
        sets=parse_sets(set_ or []),
        config=config,
    )
    from skelbench.plugin.host import get_host

    host = get_host()
    host.get("methods", method)  # misspelt names fail before torch is imported
    protocols = [name.strip() for name in probe.split(",") if name.strip() and name.strip() != "none"]
    for name in protocols:
        host.get("protocols", name)

    from skelbench.cli.console import progress
    from skelbench.cli.summary import print_header, print_summary
    from skelbench.data.roots import data_root as default_data_root
    from skelbench.pretrain import distributed
    from skelbench.resolve import control, resolve
    from skelbench.results.store import ResultStore
    from skelbench.workflow import Workflow, pick_device

    device = pick_device(device)
    store = ResultStore(results)
    if request.init_from:
        request.init_from = store.find(request.init_from)[0].spec.id
    resolved = resolve(request, host, data_root or default_data_root(), device.split(":")[0])
    workflow = Workflow(host, store, data_root or default_data_root(), device, progress)
    chief = not distributed.rank()
    if chief:
        print_header(resolved, workflow.device)
    if dry_run:
        from skelbench.cli.dry_run import show

        show(resolved, protocols, workflow)
        return
    pairs = _train_and_probe(workflow, resolved, None, protocols, force, chief)
    if not chief:
        return
    if resolved.method.trains:
        twin = control(resolved, host)
        pairs = [pairs[0], *_train_and_probe(workflow, twin, resolved, protocols, force, chief)]
    cost = workflow.cost(pairs[0][0], resolved.store, force)
    print_summary(pairs, cost, resolved)


def _train_and_probe(
    workflow: Workflow,
    resolved: Resolved,
    parent: Resolved | None,
    protocols: list[str],
    force: bool,
    chief: bool,
) -> list[tuple[Any, dict[str, Any]]]:
    """[(run, {protocol: record})] of one method; only the chief process evaluates."""
    run_dir = workflow.pretrain(resolved, force=force and parent is None)
    if not chief:
        return []
    bodies = (parent or resolved).spec.train.bodies
    seen = "all-slots" if bodies == "all-slots" else "valid"
    pool = "all-mean" if bodies == "all-slots" else "valid-mean"
    records = {
        name: workflow.evaluate(
            run_dir, workflow.eval_spec(run_dir, name, bodies=seen, bodies_pool=pool), force=force and parent is None
        )
        for name in protocols
    }
    return [(run_dir, records)]
