"""`data import`, `data list` and `data info` on real and made recordings."""

import numpy as np
import pytest
from made.files import people

from skelbench.cli.main import main


def rows(text):
    """Printed table rows as lists of cells."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


@pytest.fixture
def made(tmp_path):
    """``made(**changed)``: a ragged npz of 8 clips, 4 subjects, 2 labels; returns its path."""

    def made(**changed):
        lengths = np.array([20, 31, 25, 40, 22, 27, 35, 30])
        arrays = {
            "joints": np.concatenate([people(i, bodies=1)[0] for i in range(8)]),
            "offsets": np.concatenate([[0], np.cumsum(lengths)]),
            "label": np.array([0, 1, 0, 1, 0, 1, 0, 1]),
            "subject": np.array([1, 1, 2, 2, 3, 3, 4, 4]),
            "classes": np.array(["[sit]", "stand"]),
        }
        np.savez(tmp_path / "made.npz", **{k: v for k, v in (arrays | changed).items() if v is not None})
        return str(tmp_path / "made.npz")

    return made


def test_import_then_list_then_info(made, tmp_path, capsys):
    assert main(["data", "import", made(), "--name", "hive"]) == 0
    printed = capsys.readouterr().out
    assert "next: skelbench run slim --tokens 8 --dataset hive" in printed
    assert main(["data", "list"]) == 0
    listed = rows(capsys.readouterr().out)
    assert ["hive", "stored", "8", "2", "odd-even"] in [row[:5] for row in listed]
    assert any(row[:2] == ["synthetic", "built in"] for row in listed)
    assert main(["data", "info", "hive"]) == 0
    found = rows(capsys.readouterr().out)
    for row in (
        ["clips", "8"],
        ["frames", "20 shortest, 24 28 32 quartiles, 40 longest"],
        ["odd-even", "4", "4", "default"],
        ["0", "[sit]", "4"],
        ["folder", str(tmp_path / "data" / "hive")],
    ):
        assert row in found


@pytest.mark.parametrize(("changed", "options", "said"), [
    ({}, ["--name", "Two Words"], "cannot name a dataset"),
    ({}, ["--name", "synthetic"], "built-in dataset"),
    ({}, ["--name", "hive", "--label-fields", "label,correct"], "no array 'correct'"),
])  # fmt: skip
def test_a_failed_import_is_one_error_and_leaves_nothing(made, tmp_path, capsys, changed, options, said):
    assert main(["data", "import", made(**changed), *options]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: ") and said in printed and printed.count("\n") == 1
    assert not [path for path in (tmp_path / "data").glob("*") if path.is_dir()]
