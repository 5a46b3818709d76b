"""``skelbench run METHOD``: train, probe, count costs, and compare with the controls."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli.options import check_place, numbers_of, request_options
from skelbench.core.console import err
from skelbench.core.errors import SkelbenchError
from skelbench.core.files import write_whole
from skelbench.core.text import plain
from skelbench.data.store.roots import data_root
from skelbench.pipeline.observe import named_observers
from skelbench.pipeline.request import CHOICES, RunRequest, check_request, known_protocols, read_config
from skelbench.pipeline.session import Session, open_session

if TYPE_CHECKING:
    from skelbench.pipeline.controls import Conclusion
    from skelbench.pipeline.resolve import Resolved


@request_options
def run(
    asked: RunRequest,
    seeds: Annotated[str | None, typer.Option(help="Seeds, comma separated: one run each, then the mean.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show settings, ids, cost and time; train nothing.")
    ] = False,
    save_toml: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the run as a file for --config; with --seeds the first.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: print JSON.")] = False,
) -> None:
    """Train METHOD, probe it, count its cost, and compare it with the untrained encoder and with raw coordinates.

    Repeat the command to resume an interrupted run. Finished work is skipped.
    """
    if save_toml:
        check_place(save_toml, "--save-toml")
    if as_json and not dry_run:
        raise SkelbenchError("--json is a format of --dry-run; add --dry-run")
    chosen = _seeds(seeds, asked)
    from skelbench.plugin.host import request_more

    host = request_more(read_config(asked.config)[0]["plugins"] if asked.config else ())
    check_request(asked, host, asked.data or data_root())  # mistakes fail before torch is imported
    protocols = known_protocols(host, asked.probes)
    observers = named_observers(host, asked.observe)
    if not as_json and os.environ.get("RANK", "0") == "0":
        err.print(f"starting: {asked.method} on {asked.dataset or 'its dataset'}")

    from skelbench.cli.summary import print_header
    from skelbench.core import distributed
    from skelbench.pipeline.controls import check_protocols
    from skelbench.pipeline.pace import Timer
    from skelbench.pipeline.pretrain import pretrain
    from skelbench.pipeline.resolve import resolve
    from skelbench.pipeline.warm_start import check_parent, finished

    session = open_session(asked.results, asked.data, asked.device, observers)
    parent = finished(session.results, asked.init_from) if asked.init_from is not None else None
    requests = [asked.model_copy(update={"seed": seed, "init_from": parent}) for seed in chosen]
    timer = Timer(session, keep=not dry_run)
    every = [resolve(request, host, session.data_root, session.device, timer) for request in requests]
    for member in every:
        check_parent(member.method, member.spec, member.setting)
        check_protocols(session, member, protocols)
    chief = not distributed.rank()
    if save_toml and chief:
        _save(every[0], save_toml)
    if dry_run:
        from skelbench.cli.dry_run import show

        distributed.leave()
        if chief:
            show(every, protocols, session, as_json, as_list=seeds is not None)
        return
    collected = []
    for resolved in every:
        if chief:
            print_earlier_attempt(session, resolved, asked.force)
            print_header(resolved, session.device)
        trained = pretrain(session, resolved, asked.force)
        collected.append(conclude(session, trained, resolved, protocols, asked.force))
    distributed.leave()
    if chief and len(collected) > 1 and protocols:
        from skelbench.cli.over_seeds import print_seeds

        print_seeds(collected, session.results)


def _seeds(seeds: str | None, run_request: RunRequest) -> list[int | None]:
    """Seeds of ``--seeds``, else the seed of ``--seed``."""
    if seeds is None:
        return [run_request.seed]
    if run_request.seed is not None or "seed" in run_request.sets:
        raise SkelbenchError(f"--seeds {seeds} and a seed of its own contradict each other; leave one of them out")
    numbers = numbers_of("--seeds", seeds, "0,1,2")
    if min(numbers) < 0:
        raise SkelbenchError(f"--seeds {seeds}: seeds are 0 or more")
    return [*numbers]


def _save(resolved: Resolved, path: Path) -> None:
    """Write data, seed, and all that differs from the preset as a TOML file for ``skelbench run METHOD --config``."""
    from skelbench.pipeline.studies.files import literal

    spec, changed = resolved.spec, resolved.modified
    values = {"preset": resolved.preset, "native": resolved.setting == "native", "seed": spec.seed}
    values |= {"budget": str(resolved.length.budget)} if resolved.length else {}
    values |= {f"data.{name}": getattr(spec.data, name) for name in ("name", "split", "second_body", "min_frames")}
    values |= {"grid.frames": spec.grid.frames, "grid.patch": spec.grid.patch, "encoder.kind": spec.encoder}
    values |= {f"{key}.kind": changed[key] for key in CHOICES if key in changed}
    values |= {key: value for key, value in changed.items() if "." in key}
    lines = [f"{key} = {literal(value)}\n" for key, value in values.items()]
    parent = f" --init-from {spec.init_from}" if spec.init_from else ""
    text = f"# skelbench run {resolved.title} --config {path.name}{parent}\n{''.join(lines)}"
    write_whole(path, lambda file: file.write(text.encode()))


def print_earlier_attempt(session: Session, resolved: Resolved, force: bool) -> None:
    """Print when the same run was finished, or why an earlier attempt failed, if there is one."""
    from skelbench.pipeline.studies.run_status import at_work

    run = session.results.by_id(resolved.spec.id)
    if run and run.outcome == "done" and not force:
        date = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.info.get("finished") or run.info["created"]))
        err.print(f"already done ({date}); nothing was trained")
    elif run and run.outcome in ("failed", "diverged"):
        reason = plain(run.reason or "no reason is recorded")
        err.print(f"note: a previous attempt {run.outcome}: {reason}", soft_wrap=True)
    elif run and run.outcome == "running" and not at_work(run):
        err.print("note: a previous attempt ended without an error message (killed or disk full)", soft_wrap=True)


def conclude(session: Session, run_dir: Any, resolved: Resolved, protocols: list[str], force: bool) -> Conclusion:
    """Probe a finished run and its controls, count their costs, and print them side by side on the first process."""
    from skelbench.cli.summary import print_summary
    from skelbench.core import distributed
    from skelbench.pipeline import controls
    from skelbench.plugin.status import one_line

    chief = not distributed.rank()

    def uncounted(item: Resolved, error: Exception) -> None:
        if chief:
            err.print(f"note: the cost of {item.title} could not be counted: {plain(one_line(error))}", soft_wrap=True)

    results = controls.conclude(session, run_dir, resolved, protocols, force, uncounted)
    if chief:
        print_summary(results.pairs, results.cost, resolved)
    session.features.clear()  # the next seed has other features
    return results
