"""``skelbench import-checkpoint METHOD FILE``: a published checkpoint as a run that can be probed and compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skelbench.cli.options import DataRoot, Device, Force, Results, option
from skelbench.core.console import out, print_facts, styled
from skelbench.pipeline.request import RunRequest, comma_separated
from skelbench.pipeline.session import open_session

if TYPE_CHECKING:
    from skelbench.api.checkpoints import ImportedRun

UNRECORDED = "Setting that FILE does not record, for example encoder.heads=8. Repeatable."


def import_checkpoint(
    method: Annotated[str, typer.Argument(help="Method of the checkpoint, for example mamp.")],
    file: Annotated[Path, typer.Argument(help="Checkpoint written by the authors' code, or its state dict.")],
    dataset: Annotated[str | None, option(RunRequest, "dataset", help="Dataset of the probe.")] = None,
    split: Annotated[str | None, option(RunRequest, "split")] = None,
    seed: Annotated[int | None, option(RunRequest, "seed", help="Seed of the probe.")] = None,
    set_: Annotated[list[str] | None, option(RunRequest, "sets", help=UNRECORDED)] = None,
    probe: Annotated[str, typer.Option(help="Protocols to evaluate at once, comma separated.")] = "none",
    device: Device = None,
    results: Results = None,
    data_root: DataRoot = None,
    force: Force = False,
) -> None:
    """Make a run of METHOD from a published checkpoint FILE, in the published setting. Nothing is trained.

    The file is read without running code in it. A file with more than tensors and plain settings is rejected.
    """
    from skelbench.cli.run import conclude
    from skelbench.cli.summary import named_data, named_root
    from skelbench.pipeline.request import known_protocols, parse_sets
    from skelbench.plugin.host import get_host

    host = get_host()
    host.method(method)  # a misspelled one fails before torch is imported
    protocols = known_protocols(host, [name for name in comma_separated(probe) if name != "none"])
    sets = parse_sets(set_ or [])
    from skelbench.api.checkpoints import import_file

    session = open_session(results, data_root, device)
    imported = import_file(session, method, file, dataset, split, seed, sets, force)
    run_dir = imported.run
    _show(imported)
    if protocols:
        conclude(session, run_dir, imported.resolved, protocols, force)
        return
    out.print("Next:")
    where = named_root(run_dir.path.parent)
    probe = f"  skelbench eval {run_dir.spec.id}{run_dir.plugin_files}{where}{named_data(session.data_root)}"
    out.print(styled(probe, ("  # probe it", "dim")), soft_wrap=True)
    out.print(styled(f"  skelbench compare{where}", ("  # all runs side by side", "dim")), soft_wrap=True)


def _show(imported: ImportedRun) -> None:
    from skelbench.core.spec import listed

    spec, facts = imported.resolved.spec, imported.run.info["imported"]
    grid = f"{spec.tokens} x {imported.resolved.store.topology.num_joints} tokens"
    names = facts["left_out"]
    left_out = ", ".join([*names[:3], *([f"{len(names) - 3} more"] if len(names) > 3 else [])])
    print_facts(
        [
            ("run", f"{spec.method} on {spec.data.name} / {spec.data.split}, {grid}, id {spec.id}"),
            ("file", f"{facts['file']}, sha256 {facts['sha256'][:12]}"),
            ("epoch", facts["epoch"]),
            ("read", facts["read"]),
            ("settings", listed(facts["settings"])),
            ("assumed", imported.assumed and f"{listed(imported.assumed)} (the file does not say)"),
            ("skipped tensors", left_out and f"{left_out}: no part of an encoder"),
            ("directory", imported.run.path),
        ]
    )
