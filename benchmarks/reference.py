"""Tables and figures of the records in ``results/reference``.

``python -m benchmarks.reference`` reads the packs of every folder there (``NAME/RUN.zip``, from `skelbench runs export
--alone`) and tunings (``NAME/tuned/*.json``, from `skelbench tune`), and writes ``NAME/TABLE.csv`` for every table with
rows. Runs with changed settings are included if a folder holds no others. Then it draws the figures of the documents
from the packs in :data:`FIGURES`. ``--check`` writes nothing and names the tables that differ. Run it again when tables
or figures show the records differently.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import skelbench
from skelbench.core.errors import SkelbenchError
from skelbench.plugin.host import get_host
from skelbench.records.archive import unpack
from skelbench.records.store import ResultStore
from skelbench.reporting.controls import CONTROLS
from skelbench.reporting.figures.base import save
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.page.tables import build
from skelbench.reporting.render import render

FOLDER = Path(__file__).parents[1] / "results" / "reference"
DOCS = FOLDER.parents[1] / "docs"
FIGURES = {
    "scaling": r"small-(synthetic|cross-subject)/(slim|gfp|skeletonmae|mamp|dino|untrained)(-[0-9]+)?(-s[1-4])?",
    "token-budget": r"small-(synthetic|uiprmd-methods)/(slim|skeletonmae|mamp|untrained)(-(15|30)t)?(-s[1-4])?",
    "target-control": r"small-(synthetic|uiprmd-methods)/slim(-target-[a-z-]+)?(-s[1-4])?",
}
"""Figure -> pattern of its packs: ``FOLDER/PACK``, without ``.zip``."""


@contextmanager
def unpacked(packs: Iterable[Path]) -> Iterator[ResultStore]:
    """A results directory with these runs."""
    with tempfile.TemporaryDirectory(prefix="skelbench-reference-") as folder:
        store = ResultStore(folder)
        store.prepare()
        for pack in sorted(packs):
            unpack(pack, store.root)
        yield store


def tables(kept: Path) -> Iterator[tuple[str, str]]:
    """(name, CSV) of every table in which the runs and tunings in the folder ``kept`` have a row."""
    with unpacked(kept.glob("*.zip")) as store:
        if (kept / "tuned").exists():
            shutil.copytree(kept / "tuned", store.root / "tuned")
        changed = all(run.info["modified"] for run in store.read() if run.spec.method not in CONTROLS)
        built, failed = build(TableInputs(get_host(), store, exact_only=not changed, budgets=False))
        if failed:
            raise SkelbenchError(f"tables of {kept.name}: {failed}")
        for name, table in built.items():
            if name == "tuned" or any(row["run"].value for row in table.rows if "run" in row):
                yield name, render(table, "csv")


def drawn_of(figure: str) -> list[Path]:
    """Return the packs from which ``figure`` is drawn."""
    names = re.compile(FIGURES[figure] + r"\.zip")
    return [pack for pack in sorted(FOLDER.glob("*/*.zip")) if names.fullmatch(f"{pack.parent.name}/{pack.name}")]


def draw(figure: str, file: Path) -> None:
    """Draw one of :data:`FIGURES` into ``file``."""
    with unpacked(drawn_of(figure)) as store:
        save(skelbench.plot(figure, results=store.root), file, "png")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a table is another")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    typed = parser.parse_args()
    others = 0
    for kept in sorted(path for path in typed.folder.iterdir() if path.is_dir()):
        made = {kept / f"{name}.csv": text for name, text in tables(kept)}
        for path in sorted({*made, *kept.glob("*.csv")}):
            there = path.read_text() if path.exists() else None
            if there == made.get(path):
                continue
            others += 1
            what = "written" if path in made else "removed"
            print(f"{path.relative_to(typed.folder)}: {'is another' if typed.check else what}")
            if typed.check:
                continue
            if path in made:
                path.write_text(made[path])
            else:
                path.unlink()
    for figure in () if typed.check or typed.folder != FOLDER else FIGURES:
        draw(figure, DOCS / f"{figure.replace('-', '_')}.png")
    return int(typed.check and others > 0)


if __name__ == "__main__":
    sys.exit(main())
