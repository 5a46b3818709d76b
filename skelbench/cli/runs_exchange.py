"""``skelbench runs export|verify|add``: runs that are handed on as one file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skelbench.cli import complete
from skelbench.cli.options import DataRoot, ReadResults, Results
from skelbench.core.errors import SkelbenchError

if TYPE_CHECKING:
    from skelbench.records.archive import Packed
    from skelbench.records.run_dir import ReadRun
    from skelbench.records.store import ResultStore
    from skelbench.reporting.suites.verify import Finding, Place

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of `skelbench runs export`.")]
Asked = Annotated[
    str | None,
    typer.Option(
        "--suite", help="Every trained run has to be a row of this suite.", autocompletion=complete.names("suites")
    ),
]


def export(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="Run names, ids, or unambiguous parts of either.", autocompletion=complete.runs
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write, a zip.")],
    weights: Annotated[bool, typer.Option("--weights", help="Also the inference encoders.")] = False,
    alone: Annotated[
        bool, typer.Option("--alone", help="Without the controls that the runs are compared with.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if there is one.")] = False,
    results: ReadResults = None,
) -> None:
    """Pack the records of finished runs, and of their controls, into one file: specs, environment, metrics, costs,
    evaluations and predictions; no weights unless asked for.

    The same records give the same bytes. `skelbench runs verify` checks such a file, `runs add` takes it in.
    """
    from skelbench.core.console import out
    from skelbench.plugin.host import get_host
    from skelbench.records.pack import pack
    from skelbench.records.run_dir import ReadRun
    from skelbench.records.store import ResultStore
    from skelbench.reporting.suites.match import Recorded
    from skelbench.reporting.suites.rows import rows_of
    from skelbench.reporting.suites.suite import find_suite

    if os.path.lexists(output) and not force:
        raise SkelbenchError(f"{output} is there already; give another -o, or replace it with --force")
    store = ResultStore(results)
    named = {found.name: ReadRun(found.path) for found in map(store.whole, runs)}
    chosen = named if alone else _controls(store, named) | named
    host = get_host()
    suites = [find_suite(host, name) for name in host.names("suites")]
    filled = {
        suite.name: suite.hash
        for suite in suites
        if any(rows_of(suite, Recorded(suite, store), run)[0] for run in named.values())
    }
    manifest = pack(list(chosen.values()), output, filled, weights)
    size = sum(member["bytes"] for member in manifest["members"].values())
    rows = f"; rows of {', '.join(f'{name} ({hash_})' for name, hash_ in filled.items())}" if filled else ""
    out.print(
        f"wrote {output}: {len(chosen)} runs, {len(manifest['members'])} members, {size / 1e6:.2f} MB{rows}",
        soft_wrap=True,
    )


def _controls(store: ResultStore, chosen: dict[str, ReadRun]) -> dict[str, ReadRun]:
    """Those of the runs that are here and made here."""
    from skelbench.records.provenance import FIELD
    from skelbench.reporting.controls import CONTROLS, Controls

    controls = Controls(run for run in store.read() if FIELD not in run.info)
    found = (controls.of(kind, run.spec) for run in chosen.values() for kind in CONTROLS)
    return {run.name: run for run in found if run}


def verify(files: Files, suite: Asked = None, results: Results = None, data_root: DataRoot = None) -> None:
    """Check files of packed runs: hashes, ids by specs, metrics by predictions, labels by the data sets that are here,
    settings by the presets, and which rows of suites they fill.

    Exit code 0: all holds; 1: something does not; 2: a file cannot be read. Nothing is kept, nothing in it is run.
    """
    from skelbench.core.console import out

    place, checks, wrong = _place(suite, results, data_root), 0, 0
    for file in files:
        with tempfile.TemporaryDirectory(prefix="skelbench-") as folder:
            _, findings = _looked(file, Path(folder), place)
        _print(file, findings)
        checks += len(findings)
        wrong += sum(finding.holds is False for finding in findings)
    if wrong:
        out.print(f"{wrong} of {checks} checks do not hold")
        raise typer.Exit(1)
    out.print("all that can be checked here holds; that the predictions are those of the weights, a new training shows")


def add(files: Files, suite: Asked = None, results: Results = None, data_root: DataRoot = None) -> None:
    """Take the runs of files into the results directory, marked as added, if all that can be checked holds of all.

    Tables and figures show them beside those that were made here. A run that is here already stays as it is.
    """
    from skelbench.core.console import out

    place, added = _place(suite, results, data_root), False
    with tempfile.TemporaryDirectory(prefix="skelbench-") as folder:
        places = [Path(folder, str(number)) for number in range(len(files))]
        looked = [_looked(file, unpacked, place) for file, unpacked in zip(files, places, strict=True)]
        for file, (_, findings) in zip(files, looked, strict=True):
            if wrong := [finding for finding in findings if finding.holds is False]:
                more = f", and {len(wrong) - 1} more; see `skelbench runs verify {file}`" if len(wrong) > 1 else ""
                others = "; nor was any other file" if len(files) > 1 else ""
                raise SkelbenchError(f"{file} was not added{others}: {_said(wrong[0])}{more}")
        for (packed, _), unpacked in zip(looked, places, strict=True):
            added |= _add(packed, unpacked, place)
    if added:
        from skelbench.cli.summary import named_root

        where = named_root(place.results.root)
        commands = ["skelbench compare", *([f"skelbench suite table {suite}"] if suite else [])]
        out.print("Next:" + "".join(f"\n  {command}{where}" for command in commands), soft_wrap=True)


def _looked(file: Path, folder: Path, place: Place) -> tuple[Packed, list[Finding]]:
    """The file, whose runs are in ``folder`` now, and what was found of them."""
    from skelbench.records.archive import opened
    from skelbench.reporting.suites.verify import verify as findings_of

    with opened(file) as packed:
        return packed, findings_of(packed, folder, place)


def _add(packed: Packed, folder: Path, place: Place) -> bool:
    """Take the runs of one file, say so, and whether there was one that was not here."""
    from skelbench.core.console import out

    added, here = _take(packed, folder, place)
    for name in added:
        out.print(f"added {name}", soft_wrap=True)
    for name, (outcome, lacked) in here.items():
        state = "" if outcome == "done" else f", {outcome},"
        more = (
            f"; {lacked} of its evaluations in the file are not here: `skelbench runs rm {name}`, which also removes "
            "what was evaluated here, and add it again"
        )
        out.print(f"{name} is here already{state} and stays as it is{more if lacked else ''}", soft_wrap=True)
    return bool(added)


def _place(suite: str | None, results: Path | None, data_root: Path | None) -> Place:
    from skelbench.data.store.roots import data_root as default_data_root
    from skelbench.plugin.host import get_host
    from skelbench.records.store import ResultStore
    from skelbench.reporting.suites.suite import find_suite
    from skelbench.reporting.suites.verify import Place

    host, store = get_host(), ResultStore(results)
    store.check_readable()
    names = host.names("suites") if suite is None else [suite]
    suites = tuple(find_suite(host, name) for name in names)
    return Place(host, data_root or default_data_root(), store, suites, suite or "")


def _take(packed: Packed, folder: Path, place: Place) -> tuple[list[str], dict[str, tuple[str, int]]]:
    """Copy the unpacked runs into the results directory, each whole or not at all: the names of those that were added;
    of those that were here, the outcome, and how many evaluations are new in the file, if they too were added."""
    import shutil

    from skelbench.core.files import read_json, write_json
    from skelbench.core.locks import FileLock
    from skelbench.records.archive import sha256_of
    from skelbench.records.provenance import FIELD, mark

    place.results.prepare()
    root, added, here = place.results.root, [], {}
    marked = mark(packed.path, sha256_of(packed.path))
    with FileLock(root / ".lock"), tempfile.TemporaryDirectory(prefix=".adding-", dir=root) as beside:
        for name in packed.runs:
            if (mine := place.results.by_id(name[-12:])) is not None:
                found, known = ({path.name for path in each.glob("eval-*.json")} for each in (folder / name, mine.path))
                here[mine.name] = mine.outcome, len(found - known) if FIELD in mine.info else 0
                continue
            copied = Path(shutil.copytree(folder / name, Path(beside) / name))
            write_json(copied / "run.json", {**read_json(copied / "run.json"), **marked})
            copied.rename(root / name)
            added.append(name)
    return added, here


def _print(file: Path, findings: list[Finding]) -> None:
    from skelbench.core.console import make_table, out

    words = {True: "holds", False: "does not hold", None: "not checked"}
    for run in dict.fromkeys(finding.run for finding in findings):
        rows = [(one.check, words[one.holds], one.detail) for one in findings if one.run == run]
        out.print(make_table(("check", "result", "what"), rows, title=run or str(file)))


def _said(finding: Finding) -> str:
    where = f"{finding.run}, " if finding.run else ""
    return f"{where}{finding.check}: {finding.detail}"
