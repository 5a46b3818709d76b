"""``skelbench diagnose`` as a user types it, on a small dataset with small models."""

import csv
import io
import json
import re
import shutil

import pytest
from small import TINY, TINY_METHOD, shorten, write_small_store

from skelbench.cli.main import main
from skelbench.evaluation.linear import Linear

pytestmark = pytest.mark.usefixtures("shipped_plugins")

SETS = TINY | {f"method.{key}": value for key, value in TINY_METHOD["skeletonmae"].items()}
RUN = ["run", "skeletonmae", "--dataset", "small", "--clip-length", "32", "--epochs", "1", "--batch-size", "4"]
RUN += [part for key, value in SETS.items() for part in ("--set", f"{key}={value}")]
MADE = {}
"""Folder of the runs of this module, filled by the first test that needs them."""

QUICK = ["--masks", "3", "--ratio", "0.5,0.8", "--clips", "8"]


@pytest.fixture
def runs(tmp_path, tmp_path_factory, monkeypatch):
    """skeletonmae at 4 and at 2 tokens with their untrained twins, evaluated: made once, a copy for every test."""
    shorten(monkeypatch)
    if not MADE:
        (tmp_path / "data").mkdir()
        write_small_store(tmp_path / "data")
        for patch in ("8", "16"):
            assert main([*RUN, "--patch", patch, "--probe", "knn"]) == 0
        MADE["here"] = tmp_path_factory.mktemp("made")
        shutil.copytree(tmp_path, MADE["here"], dirs_exist_ok=True)
    else:
        shutil.copytree(MADE["here"], tmp_path, dirs_exist_ok=True)
    return tmp_path


def words(picture):
    """The lines of text of an SVG."""
    return set(re.findall(r"<!-- (.*) -->", picture.read_text()))


def rows(capsys, *arguments):
    """Output of the command as CSV."""
    capsys.readouterr()
    assert main(["diagnose", *arguments, "--format", "csv"]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_interpolation_needs_no_run(small, capsys):
    picture = small / "shortcut.svg"
    arguments = ["interpolation", "--dataset", "small", "--tokens", "8", *QUICK, "-o", str(picture)]
    found = rows(capsys, *arguments)
    assert [row["what"] for row in found] == ["coordinates", "coordinates"]
    assert all(0 < float(row["random"]) < 2 and 0 < float(row["coverage"]) <= float(row["ratio"]) for row in found)
    said = words(picture)
    assert {"Local interpolation of masked tokens", "small half, 8 test clips. Bands: 95 % over masks."} <= said
    (record,) = (small / "results").glob("diagnose-interpolation-*.json")
    assert json.loads(record.read_text())["test_clips"] == 8


def test_every_diagnosis_of_a_run(runs, capsys, monkeypatch):
    monkeypatch.setattr("skelbench.reporting.diagnostics.invariance.SIZES", (0.7, 1.0, 1.3))
    short = Linear(val_share=0.0, min_steps=50, epochs=1, tolerance=None)
    monkeypatch.setattr("skelbench.reporting.diagnostics.order.PROBE", short)
    found = rows(capsys, "interpolation", "skeletonmae-small-half-4t", *QUICK)
    assert [row["what"] for row in found[::2]] == [
        "coordinates",
        "skeletonmae 4x25 features",
        "untrained 4x25 features",
    ]

    picture = runs / "curves.svg"
    found = rows(capsys, "invariance", "skeletonmae-small-half-4t", "--clips", "6", "-o", str(picture))
    assert {row["run"] for row in found} == {"skeletonmae 4x25", "untrained 4x25"}
    ends = [row for row in found if row["change"] == "yaw" and row["value"] in ("0", "360")]
    assert len(ends) == 4 and all(float(row["similarity"]) == pytest.approx(1, abs=1e-6) for row in ends)
    assert any(float(row["similarity"]) < 0.99 for row in found)
    said = words(picture)
    assert {"Features over yaw and body size", "small half, preset quick, 6 test clips."} <= said
    assert {"skeletonmae 4x25", "untrained 4x25"} <= said

    found = rows(capsys, "order", "skeletonmae-small-half-4t", "skeletonmae-small-half-2t", "--clips", "8")
    assert [row["run"] for row in found] == ["skeletonmae 4x25", "untrained 4x25", "skeletonmae 2x25", "untrained 2x25"]
    assert all(0 <= float(row["accuracy"]) <= 100 for row in found) and found[0]["p"] and not found[1]["p"]

    found = rows(capsys, "per-class", "skeletonmae-small-half-4t", "skeletonmae-small-half-2t", "--protocol", "knn")
    assert sorted(row["class"] for row in found[:-1]) == ["a", "b", "c", "d"] and found[-1]["class"] == "all classes"
    assert int(found[-1]["clips"]) == sum(int(row["clips"]) for row in found[:-1]) == 12
    (runs / "data").rename(runs / "elsewhere")  # the predictions are enough
    away = rows(capsys, "per-class", "skeletonmae-small-half-4t", "skeletonmae-small-half-2t", "--protocol", "knn")
    (runs / "elsewhere").rename(runs / "data")
    assert [row | {"class": ""} for row in away] == [row | {"class": ""} for row in found]


def test_stored_diagnoses_are_read_back(runs, capsys, monkeypatch, fails):
    arguments = ["invariance", "skeletonmae-small-half-4t", "--clips", "5"]
    first = rows(capsys, *arguments)
    with monkeypatch.context() as patch:
        patch.setattr("skelbench.reporting.diagnostics.invariance.of_run", lambda *_: pytest.fail("measured again"))
        assert rows(capsys, *arguments) == first
    (record,) = (runs / "results").glob("skeletonmae-small-half-4t*/diagnose-invariance-*.json")
    record.write_text(record.read_text()[:50])
    fails(["diagnose", *arguments], "is damaged; issue the command again with --force")
    assert rows(capsys, *arguments, "--force") == first


def test_bad_input_is_one_error(runs, fails):
    run = "skeletonmae-small-half-4t"
    fails(["diagnose", "interpolation", "--dataset", "smal"], "did you mean 'small'?")
    fails(["diagnose", "interpolation", run, "--dataset", "small"], "a run brings its own")
    fails(["diagnose", "invariance", run, "-o", "curves.gif"], ".png, .svg or .pdf")
    fails(["diagnose", "order", "skeletonma-small"], "did you mean")
    assert not list((runs / "results").glob("*/diagnose-*")) and not list((runs / "results").glob("diagnose-*"))
