"""``skelbench run METHOD``: train, probe, cost, and show it beside its controls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli.options import DataRoot, Device, Force, Results, names_of
from skelbench.errors import SkelbenchError
from skelbench.run.session import Session, open_session

if TYPE_CHECKING:
    from skelbench.plugin.host import Host
    from skelbench.run.resolve import Resolved


def run(
    method: Annotated[
        str, typer.Argument(help="METHOD or METHOD:VARIANT, see `skelbench plugins list` and `plugins info METHOD`.")
    ],
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
        typer.Option(
            help="paper, ablation, small or quick (and release for slim).", show_default="paper with a GPU, else quick"
        ),
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="Encoder, see `plugins list`.", show_default="vit")] = None,
    native: Annotated[
        bool, typer.Option("--native", help="The method's own encoder, grid, bodies and epochs, not the shared ones.")
    ] = False,
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
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any setting: method, encoder, optimizer, schedule, train, grid, data; repeatable.",
        ),
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
    """Train METHOD, probe it, count its cost, and compare it with its untrained encoder and with raw coordinates.

    Issuing the same command again continues or skips what is done.
    """
    from skelbench.run.request import Request, parse_sets

    request = Request(
        method=method,
        dataset=dataset,
        split=split,
        tokens=tokens,
        clip_length=clip_length,
        patch=patch,
        preset=preset,
        encoder=encoder,
        native=native or None,
        epochs=epochs,
        batch_size=batch_size,
        seed=seed,
        precision=precision,
        sets=parse_sets(set_ or []),
        config=config,
    )
    from skelbench.plugin.host import get_host

    host = get_host()
    host.method(method)  # misspelt names fail before torch is imported
    protocols = known_protocols(host, probe)

    from skelbench import distributed
    from skelbench.cli.summary import print_header
    from skelbench.run.pretrain import pretrain
    from skelbench.run.resolve import resolve

    session = open_session(results, data_root, device)
    if init_from:
        request.init_from = _parent(session.results, init_from)
    resolved = resolve(request, host, session.data_root, session.device.split(":")[0])
    chief = not distributed.rank()
    if chief:
        print_header(resolved, session.device)
    if dry_run:
        from skelbench.cli.dry_run import show

        show(resolved, protocols, session)
        return
    run_dir = pretrain(session, resolved, force)
    distributed.leave()  # what follows is the work of one process
    if not chief:
        return
    conclude(session, run_dir, resolved, protocols, force)


def conclude(session: Session, run_dir: Any, resolved: Resolved, protocols: list[str], force: bool) -> None:
    """Probe a finished run and its controls, count what they cost, and show them side by side."""
    from skelbench.cli.summary import print_summary
    from skelbench.run.pretrain import pretrain
    from skelbench.run.resolve import control, raw_control

    pairs = [(run_dir, _probe(session, run_dir, resolved, protocols, force))]
    if resolved.method.trains:
        for beside in (control(resolved, session.host), raw_control(resolved, session.host)):
            session.features.clear()  # coordinates are as large as the clips
            beside_dir = pretrain(session, beside)
            pairs.append((beside_dir, _probe(session, beside_dir, resolved, protocols, force)))
            _cost(session, beside_dir, beside, force)
    print_summary(pairs, _cost(session, run_dir, resolved, force), resolved)


def known_protocols(host: Host, probe: str) -> list[str]:
    """The protocols of a comma-separated list; a misspelt one fails here."""
    protocols = [name for name in names_of(probe) if name != "none"]
    for name in protocols:
        host.get("protocols", name)
    return protocols


def _probe(session: Session, run_dir: Any, like: Resolved, protocols: list[str], force: bool) -> dict[str, Any]:
    """Records of ``run_dir`` by protocol, evaluated as ``like`` is by default."""
    from skelbench.run.evaluate import eval_spec, evaluate

    records = {}
    for name in protocols:
        spec = eval_spec(session.host, run_dir.spec, name, like=like.spec)
        records[name] = evaluate(session, run_dir, spec, force, like=like.spec)
    return records


def _cost(session: Session, run_dir: Any, resolved: Resolved, force: bool) -> dict[str, Any] | None:
    """The run's cost; a method that cannot be counted still gets its summary."""
    from skelbench.console import err
    from skelbench.run.costs import measure_cost
    from skelbench.words import plain

    try:
        return measure_cost(session, run_dir, resolved.store, force)
    except Exception as error:
        err.print(f"note: the cost of {resolved.title} could not be counted: {plain(error)}", soft_wrap=True)
        return None


def _parent(store: Any, pattern: str) -> str:
    """The pretrain_id of a finished run to start from."""
    run_dir, checkpoint = store.find(pattern)
    if checkpoint != "last" or run_dir.outcome != "done":
        raise SkelbenchError(
            f"--init-from {pattern}: a run can start from the final weights of a finished run only; "
            f"{run_dir.name} is {run_dir.outcome}"
        )
    return run_dir.spec.id
