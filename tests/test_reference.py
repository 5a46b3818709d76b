"""Records behind the documents' numbers: complete, without personal paths, and consistent with their tables."""

import io
import re

import pandas
import pytest

from benchmarks.reference import DOCS, FIGURES, FOLDER, draw, drawn_of, tables
from skelbench.cli.summary import anomalies
from skelbench.evaluation.recomputed import problems
from skelbench.records.archive import unpack
from skelbench.records.run_dir import RunDir

FOLDERS = sorted({pack.parent for pack in FOLDER.glob("*/*.zip")})
by_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
PLACES = re.compile(rb'"[^"]*(?:^|[\s"=:])/(?:home|root|tmp|work|mnt|data|Users)/[^"]*"')


@by_folder
def test_reference_records_are_complete_and_name_no_folder(folder, tmp_path):
    for pack in folder.glob("*.zip"):
        for name in unpack(pack, tmp_path):
            run = RunDir(tmp_path / name)
            assert not list(problems(run)), pack
            assert len(anomalies(run.info)) == sum(len(run.info.get(kind) or ()) for kind in ("collapse", "shortcut"))
            for path in (tmp_path / name).glob("*.json"):
                assert not PLACES.search(path.read_bytes()), path


@pytest.mark.parametrize("name", ["small-uiprmd", "small-tuned", "h200-encoder-2"])
def test_the_tables_equal_the_records(name):
    """Every kind of table; `python -m benchmarks.reference --check` compares all folders."""
    folder = FOLDER / name
    made = dict(tables(folder))
    there = {path.stem: path.read_text() for path in folder.glob("*.csv")}
    assert made.keys() == there.keys() and "linear" in made
    for name, text in made.items():
        ours, theirs = (pandas.read_csv(io.StringIO(each)) for each in (text, there[name]))
        pandas.testing.assert_frame_equal(ours, theirs, rtol=1e-6, obj=name)


def test_every_folder_holds_packs_and_is_explained():
    said = (FOLDER / "README.md").read_text()
    assert FOLDERS and all(folder.name in said for folder in FOLDERS)
    assert all(folder in FOLDERS for folder in FOLDER.iterdir() if folder.is_dir())


def test_figures_in_the_documents_come_from_records(tmp_path):
    results = (DOCS / "results.md").read_text()
    for figure in FIGURES:
        file = f"{figure.replace('-', '_')}.png"
        assert len({pack.parent for pack in drawn_of(figure)}) == 2 and f"]({file})" in results, figure
    draw("target-control", tmp_path / "drawn.png")
    size = slice(16, 24)  # width and height of a png
    assert (tmp_path / "drawn.png").read_bytes()[size] == (DOCS / "target_control.png").read_bytes()[size]
