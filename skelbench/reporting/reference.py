"""``compare --reference``: runs in ``results/reference`` of a checkout next to your own."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import write_json
from skelbench.records.archive import unpack
from skelbench.records.store import ResultStore

FOLDER = Path(__file__).parents[2] / "results" / "reference"


@contextmanager
def with_reference(store: ResultStore) -> Iterator[ResultStore]:
    """A temporary store: the runs of ``store``, and the reference runs with the dataset, split and preset of one of
    them, whose ``setting`` is ``reference``."""
    packs = sorted(FOLDER.glob("*/*.zip"))
    if not packs:
        raise SkelbenchError("the reference runs are not installed; they are in results/reference of the repository")
    own = store.read()
    wanted = {(run.about["dataset"], run.about["split"], run.preset) for run in own}
    with tempfile.TemporaryDirectory(prefix="skelbench-reference-") as name:
        root, ids = Path(name), {run.about["id"] for run in own}
        for run in own:
            (root / run.name).symlink_to(run.path.resolve())
        for pack in packs:
            with zipfile.ZipFile(pack) as archive:
                member = next(member for member in archive.namelist() if member.endswith("/run.json"))
                info = json.loads(archive.read(member))
            data = info["spec"]["data"]
            if info["id"] not in ids and (data["name"], data["split"], info["preset"]) in wanted:
                ids.add(info["id"])
                unpack(pack, root)
                write_json(root / info["name"] / "run.json", {**info, "setting": "reference"})
        yield ResultStore(root)
