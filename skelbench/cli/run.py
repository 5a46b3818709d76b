"""``skelbench run METHOD``: train, probe, cost, and show it beside its controls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli import complete
from skelbench.cli.options import Budget, DataRoot, Device, Force, Observe, Results, names_of, numbers_of
from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.observe import named_observers
from skelbench.pipeline.session import Session, open_session

if TYPE_CHECKING:
    from skelbench.pipeline.evaluate_with_controls import Conclusion
    from skelbench.pipeline.resolve import Resolved
    from skelbench.plugin.host import Host


def run(
    method: Annotated[
        str,
        typer.Argument(
            help="METHOD or METHOD:VARIANT, see `skelbench plugins list` and `plugins info METHOD`.",
            autocompletion=complete.methods,
        ),
    ],
    dataset: Annotated[
        str | None, typer.Option(help="Data set.", show_default="synthetic", autocompletion=complete.datasets)
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split.", show_default="the data set's default", autocompletion=complete.splits)
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            help="Temporal tokens: 8, 15 or 30 (T/P_T = 64/8, 120/8, 120/4).",
            show_default="the method's",
            autocompletion=complete.one_of("8", "15", "30"),
        ),
    ] = None,
    clip_length: Annotated[int | None, typer.Option(help="Clip length T in frames, for any other grid.")] = None,
    patch: Annotated[int | None, typer.Option(help="Frames per temporal token P_T, for any other grid.")] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="paper, ablation, small or quick (and release for slim).",
            show_default="paper with a GPU, else quick",
            autocompletion=complete.presets,
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder, see `plugins list`.", show_default="vit", autocompletion=complete.names("encoders")
        ),
    ] = None,
    native: Annotated[
        bool, typer.Option("--native", help="The method's own encoder, grid, bodies and epochs, not the shared ones.")
    ] = False,
    epochs: Annotated[float | None, typer.Option(min=0, help="Length of the schedule.")] = None,
    budget: Budget = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Clips per step.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of everything.", show_default="0")] = None,
    seeds: Annotated[
        str | None, typer.Option(help="A run with each of these seeds, 0,1,2, and in the end the mean over them.")
    ] = None,
    device: Device = None,
    precision: Annotated[
        str | None,
        typer.Option(
            help="fp32 or bf16.",
            show_default="bf16 with a GPU, else fp32",
            autocompletion=complete.one_of("fp32", "bf16"),
        ),
    ] = None,
    probe: Annotated[
        str,
        typer.Option(
            help="Protocols, comma separated; none = train only.",
            autocompletion=complete.listed(complete.names("protocols")),
        ),
    ] = "linear,knn",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any setting: method, encoder, optimizer, schedule, train, grid, data; repeatable.",
            autocompletion=complete.settings,
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="run.toml with settings; the command line wins.")] = None,
    init_from: Annotated[
        str | None, typer.Option(help="Start from the weights of this finished run.", autocompletion=complete.runs)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show spec, ids, parameters, cost and time; train nothing.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --dry-run: the same as JSON, and nothing else.")
    ] = False,
    observe: Observe = None,
    results: Results = None,
    data_root: DataRoot = None,
    force: Force = False,
) -> None:
    """Train METHOD, probe it, count its cost, and compare it with its untrained encoder and with raw coordinates.

    Issuing the same command again continues or skips what is done.
    """
    from skelbench.pipeline.budget import Budget as Spending
    from skelbench.pipeline.request import Request, parse_sets

    if as_json and not dry_run:
        raise SkelbenchError("--json is how --dry-run shows what it found; add --dry-run")
    chosen = _seeds(seeds, seed, set_ or [])
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
        budget=None if budget is None else Spending.parse(budget),
        batch_size=batch_size,
        seed=seed,
        precision=precision,
        sets=parse_sets(set_ or []),
        config=config,
    )
    from skelbench.pipeline.request import read_config
    from skelbench.plugin.host import request_more

    host = request_more(read_config(config)[0]["plugins"] if config else ())
    host.method(method)  # misspelt names fail before torch is imported
    protocols = known_protocols(host, probe)
    observers = named_observers(host, observe)

    from skelbench.cli.summary import print_header
    from skelbench.core import distributed
    from skelbench.pipeline.pace import Timer
    from skelbench.pipeline.pretrain import pretrain
    from skelbench.pipeline.resolve import resolve
    from skelbench.pipeline.warm_start import check_parent, finished

    session = open_session(results, data_root, device, observers)
    if init_from is not None:
        request.init_from = finished(session.results, init_from)
    requests = [replace(request, seed=one) for one in chosen]
    timer = Timer(session, keep=not dry_run)
    every = [resolve(one, host, session.data_root, session.device, timer) for one in requests]
    for one in every:
        check_parent(one.method, one.spec, one.setting)
    chief = not distributed.rank()
    if dry_run:
        from skelbench.cli.dry_run import show

        distributed.leave()
        if chief:
            show(every, protocols, session, as_json, as_list=seeds is not None)
        return
    found = []
    for resolved in every:
        if chief:
            print_header(resolved, session.device)
            say_before(session, resolved)
        trained = pretrain(session, resolved, force)
        found.append(conclude(session, trained, resolved, protocols, force))
    distributed.leave()
    if chief and len(found) > 1 and protocols:
        from skelbench.cli.over_seeds import print_seeds

        print_seeds(found, session.results)


def _seeds(seeds: str | None, seed: int | None, sets: list[str]) -> list[int | None]:
    """Those of ``--seeds``, else the one of ``--seed``."""
    if seeds is None:
        return [seed]
    if seed is not None or any(one.partition("=")[0].strip() == "seed" for one in sets):
        raise SkelbenchError(f"--seeds {seeds} and a seed of its own contradict each other; leave one of them out")
    found = numbers_of("--seeds", seeds, "0,1,2")
    if min(found) < 0:
        raise SkelbenchError(f"--seeds {seeds}: seeds are 0 or more")
    return [*found]


def say_before(session: Session, resolved: Resolved) -> None:
    """Why an earlier attempt at the same run failed, if one did."""
    from skelbench.core.console import err
    from skelbench.core.text import plain
    from skelbench.pipeline.studies.run_status import at_work

    run = session.results.by_id(resolved.spec.id)
    if run is None:
        return
    if run.outcome in ("failed", "diverged"):
        err.print(f"note: before, this run {run.outcome}: {plain(run.reason or 'no reason is kept')}", soft_wrap=True)
    elif run.outcome == "running" and not at_work(run):
        err.print("note: before, this run ended without a word of why (killed, or no room to write)", soft_wrap=True)


def conclude(session: Session, run_dir: Any, resolved: Resolved, protocols: list[str], force: bool) -> Conclusion:
    """Probe a finished run and its controls, count what they cost, and show them side by side. Of several processes,
    all of which take part, the first one shows."""
    from skelbench.cli.summary import print_summary
    from skelbench.core import distributed
    from skelbench.core.console import err
    from skelbench.core.text import plain
    from skelbench.pipeline import evaluate_with_controls
    from skelbench.plugin.status import one_line

    chief = not distributed.rank()

    def uncounted(what: Resolved, error: Exception) -> None:
        if chief:
            err.print(f"note: the cost of {what.title} could not be counted: {plain(one_line(error))}", soft_wrap=True)

    found = evaluate_with_controls.conclude(session, run_dir, resolved, protocols, force, uncounted)
    if chief:
        print_summary(found.pairs, found.cost, resolved, session.data_root)
    session.features.clear()  # those of the next seed are others
    return found


def protocols_of(probe: str) -> list[str]:
    """The names of a comma-separated list, of which ``none`` stands for none at all."""
    names = names_of(probe)
    if not names:
        raise SkelbenchError("no protocol is named; name some, or none: --probe none")
    if "none" in names and len(names) > 1:
        raise SkelbenchError(f"--probe {probe}: none stands alone; leave it or the others out")
    return [name for name in names if name != "none"]


def known_protocols(host: Host, probe: str, elsewhere: bool = False) -> list[str]:
    """The protocols of a comma-separated list; a misspelt one fails here, and so does, unless ``elsewhere``, one that
    measures on other data than the run's."""
    from skelbench.pipeline.request import check_measures_here

    protocols = [] if elsewhere and not names_of(probe) else protocols_of(probe)
    for name in protocols:
        host.get("protocols", name)
    if not elsewhere:
        check_measures_here(host, protocols)
    return protocols
