"""``skelbench runs export|verify|add``: exchanges runs as one file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skelbench.cli.options import RUN, ReadResults, Results
from skelbench.core.errors import SkelbenchError

if TYPE_CHECKING:
    from skelbench.records.run_dir import RunDir

Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="Zip files of `skelbench runs export`.")]


def export(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help=RUN)],
    output: Annotated[Path, typer.Option("-o", "--output", help="Zip file to write.")],
    weights: Annotated[bool, typer.Option("--weights", help="Include the weights of the encoders.")] = False,
    alone: Annotated[bool, typer.Option("--alone", help="Exclude the baselines of the runs.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    results: ReadResults = None,
) -> None:
    """Pack the results of finished runs and of their baselines into one zip file."""
    from skelbench.core.console import out
    from skelbench.records.archive import pack
    from skelbench.records.provenance import FIELD
    from skelbench.records.store import ResultStore
    from skelbench.reporting.controls import CONTROLS, Controls

    if os.path.lexists(output) and not force:
        raise SkelbenchError(f"{output} exists already; give another -o, or replace it with --force")
    store = ResultStore(results)
    chosen: dict[str, RunDir] = {run.name: run for run in map(store.whole, runs)}
    if not alone:
        controls = Controls(run for run in store.read() if FIELD not in run.info)
        control_runs = [controls.of(kind, run.spec) for run in chosen.values() for kind in CONTROLS]
        chosen |= {run.name: run for run in control_runs if run}
    files = pack(list(chosen.values()), output, weights)
    out.print(f"wrote {output}: {len(chosen)} runs, {files} files", soft_wrap=True)


def verify(files: Files) -> None:
    """Check that the ids and accuracies of packed runs follow from their settings and predictions.

    Exit code 1: a check fails; 2: a file cannot be read. Only a new training confirms the predictions themselves.
    """
    from skelbench.core.console import out
    from skelbench.evaluation.recomputed import problems
    from skelbench.records.archive import unpack
    from skelbench.records.run_dir import RunDir

    failed = False
    for file in files:
        with tempfile.TemporaryDirectory(prefix="skelbench-") as folder:
            for name in unpack(file, Path(folder)):
                faults = list(problems(RunDir(Path(folder, name))))
                failed |= bool(faults)
                out.print(f"{name}: {'; '.join(faults) or 'ok'}", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def add(files: Files, results: Results = None) -> None:
    """Verify packed runs and add them to the results folder, all or none.

    Tables and figures show them with your own runs and mark them as added. Existing runs stay unchanged.
    """
    from skelbench.cli.summary import named_root
    from skelbench.core.console import out
    from skelbench.core.files import read_json, write_json
    from skelbench.evaluation.recomputed import problems
    from skelbench.records.archive import unpack
    from skelbench.records.provenance import mark
    from skelbench.records.run_dir import RunDir
    from skelbench.records.store import ResultStore

    store = ResultStore(results)
    store.prepare()
    with tempfile.TemporaryDirectory(prefix=".adding-", dir=store.root) as folder_name:
        unpacked: dict[str, Path] = {}
        for number, file in enumerate(files):
            folder = Path(folder_name, str(number))
            for name in unpack(file, folder):
                if problem := next(problems(RunDir(folder / name)), ""):
                    raise SkelbenchError(f"{file}: nothing was added; {name}: {problem}")
                path = folder / name / "run.json"
                write_json(path, {**read_json(path), **mark(file)})
                unpacked.setdefault(name, folder / name)
        for name, folder in unpacked.items():
            if existing := store.by_id(name[-12:]):
                out.print(f"{existing.name} exists already ({existing.outcome}) and is unchanged", soft_wrap=True)
                continue
            os.rename(folder, store.root / name)
            out.print(f"added {name}", soft_wrap=True)
    out.print(f"Next:\n  skelbench compare{named_root(store.root)}", soft_wrap=True)
