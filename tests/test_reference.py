"""The records that documents quote: whole, of no one's machine, and the tables beside them are theirs."""

import hashlib
import io
import re
from pathlib import Path

import pandas
import pytest

from benchmarks.reference import FOLDER, tables
from skelbench.results.packed import opened

PACKS = sorted(FOLDER.glob("*.zip"))
PLACES = re.compile(rb'"[^"]*(?:^|[\s"=:])/(?:home|root|tmp|work|mnt|data|Users)/[^"]*"')


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.stem)
def test_what_is_kept_is_whole_and_names_no_place(pack):
    with opened(pack) as packed:
        for name, info in packed.manifest.members.items():
            data = packed.read(name)
            assert hashlib.sha256(data).hexdigest() == info.sha256
            if name.endswith(".json"):
                assert not PLACES.search(data), name


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.stem)
def test_the_tables_are_those_of_the_records(pack):
    """`python -m benchmarks.reference` makes them again."""
    made = dict(tables(pack))
    there = {path.stem: path.read_text() for path in pack.with_suffix("").glob("*.csv")}
    assert made.keys() == there.keys() and "linear" in made
    for name, text in made.items():
        ours, theirs = (pandas.read_csv(io.StringIO(each)) for each in (text, there[name]))
        pandas.testing.assert_frame_equal(ours, theirs, rtol=1e-6, obj=name)


def test_every_pack_is_explained():
    said = (FOLDER / "README.md").read_text()
    assert PACKS and all(pack.name in said for pack in PACKS)
    assert all(Path(folder).with_suffix(".zip") in PACKS for folder in FOLDER.iterdir() if folder.is_dir())
