"""Tables of the records in ``results/reference``, made again from them.

``python -m benchmarks.reference`` reads the packs of every folder there (``NAME/RUN.zip``, of `skelbench runs export
--alone`) and what was tuned (``NAME/tuned/*.json``, of `skelbench tune`), and writes ``NAME/TABLE.csv`` for every table
in which they have a row; runs whose settings were changed have one where a folder holds no others. ``--check`` writes
nothing and says what differs. A pack keeps what was measured; how a table shows it may change, and then this command is
run again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import skelbench
from skelbench.plugin.descriptors import TableSpec
from skelbench.plugin.host import get_host
from skelbench.report.controls import CONTROLS
from skelbench.results.packed import opened
from skelbench.results.store import ResultStore

FOLDER = Path(__file__).parents[1] / "results" / "reference"


def tables(kept: Path) -> Iterator[tuple[str, str]]:
    """(name, CSV) of every table in which the runs and tunings in the folder ``kept`` have a row."""
    with tempfile.TemporaryDirectory(prefix="skelbench-reference-") as folder:
        store = ResultStore(folder)
        store.prepare()
        for pack in sorted(kept.glob("*.zip")):
            with opened(pack) as packed:
                packed.unpack(store.root)
        if (kept / "tuned").exists():
            shutil.copytree(kept / "tuned", store.root / "tuned")
        changed = all(run.info["modified"] for run in store.read() if run.spec.method not in CONTROLS)
        for about in get_host().all("tables"):
            if isinstance(about, TableSpec) and not about.counts:
                table = skelbench.compare(about.name, all=changed, results=store.root)
                frame = table.frame()
                if about.name == "tuned" and len(frame) or "run" in frame and frame["run"].astype(bool).any():
                    yield about.name, table.render("csv")


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
    return int(typed.check and others > 0)


if __name__ == "__main__":
    sys.exit(main())
