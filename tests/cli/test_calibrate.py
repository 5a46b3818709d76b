"""A made-up checkpoint is compared with a made-up published result."""

import argparse
import json
from itertools import count

import pytest
import torch
from official import state
from small import write_small_store

from skelbench.api.calibration import expected
from skelbench.cli.main import main
from skelbench.evaluation.stats.paired import wilson
from skelbench.plugin.host import get_host, request_files
from skelbench.records.run_dir import RunDir

PLUGIN = """
from pathlib import Path
from skelbench.plugin import MethodSpec, NativeProbe, PublishedSpec, RowsSpec, hookimpl
from skelbench.reporting.study_rows import Printed, Row

ROWS = [Row(method="made", printed=Printed("made", "Made", "joint"))]
SETTINGS = {"": {"epochs": 3, "lr": 0.5}, "small": {"lr": 0.2}, "small/half": {"val_share": 0.0}}

@hookimpl
def skelbench_methods():
    mamp = "skelbench_plugins.mamp:"
    how = dict(target=mamp + "MAMP", config=mamp + "MAMPConfig", imports=mamp + "imported", native=NATIVE)
    probe = NativeProbe(protocol="linear@mamp", best_on_test=BEST, settings=SETTINGS)
    return [MethodSpec(name="made", probe=probe, **how), MethodSpec(name="unknown", **how)]

@hookimpl
def skelbench_published():
    return [PublishedSpec(name="made", file=str(Path(__file__).with_suffix(".csv")))]

@hookimpl
def skelbench_rows():
    return [RowsSpec(name="made", table="linear", target=":ROWS")]
"""

pytestmark = pytest.mark.usefixtures("shipped_plugins")


@pytest.fixture
def made(data_root):
    """``made(90.0, std=2.0)``: the plugin, printing such a figure, and a checkpoint; returns their folder."""
    written = count()

    def make(published, std="", best=True, split="half"):
        folder = data_root.parent / f"made{next(written)}"  # equal files are imported once
        folder.mkdir()
        native = "from skelbench_plugins._recipes import FP32, MAE_NATIVE\nNATIVE = MAE_NATIVE | FP32"
        (folder / "made.py").write_text(f"# {folder}\n{native}\nBEST = {best}\n{PLUGIN}")
        columns = "method,variant,dataset,split,protocol,metric,value,std,source,note"
        row = f'Made,joint,small,{split},linear,accuracy,{published},{std},"Made paper, Table 1",best epoch on test'
        (folder / "made.csv").write_text(f"{columns}\n{row}\n")
        arguments = {"model": "model_mamp", "model_args": {"num_heads": 2}, "mask_ratio": 0.9}
        options = argparse.Namespace(**arguments, motion_aware_tau=0.75, motion_stride=1)
        torch.save({"model": state(16, 1, 1, 16, 8), "epoch": 399, "args": options}, folder / "file.pth")
        request_files([])
        return folder

    return make


def calibrate(folder, *words):
    return main(["calibrate", "small", *words, "--plugin", str(folder / "made.py")])


def imported(folder, method="made"):
    """Import the checkpoint, and return the name of its run."""
    words = [method, str(folder / "file.pth"), "--dataset", "small", "--plugin", str(folder / "made.py")]
    assert main(["import-checkpoint", *words]) == 0
    return max((folder.parent / "results").glob(f"{method}-*"), key=lambda path: path.stat().st_mtime_ns).name


def read(folder, capsys, *words):
    name = imported(folder)
    capsys.readouterr()
    code = calibrate(folder, "--run", name, "--json", *words)
    (one,) = json.loads(capsys.readouterr().out)
    return code, one


def test_the_expected_interval_is_binomial_plus_the_stated_spread():
    assert expected(0.8, None, 500) == wilson(400, 500)
    low, high = wilson(400, 500)
    assert expected(0.8, 0.02, 500) == pytest.approx((low - 0.0392, high + 0.0392))
    assert expected(0.99, 0.05, 20)[1] == 1.0 and expected(0.01, 0.05, 20)[0] == 0.0


def test_a_checkpoint_passes_or_fails_by_the_published_result(made, capsys):
    _, one = read(made(50.0), capsys)
    ours = one["ours"]
    for published, code in ((100 * ours, 0), (0.0 if ours > 0.6 else 100.0, 1)):
        folder = made(published)
        found, one = read(folder, capsys)
        assert (found, one["passed"]) == (code, code == 0)
        assert [one["low"], one["high"]] == list(wilson(round(published / 100 * 12), 12)) and one["n_test"] == 12
    assert calibrate(folder, "--run", one["run"]) == 1
    shown = capsys.readouterr().out
    assert "fail" in shown and "Made paper, Table 1" in shown


def test_calibration_uses_the_authors_probe_and_split_settings(made, capsys, tmp_path):
    """Narrower places win; the best epoch on test is compared where that is what the authors print."""
    for best, figure in ((True, "accuracy_best_on_test"), (False, "accuracy")):
        _, one = read(made(50.0, best=best), capsys)
        (record,) = RunDir(tmp_path / "results" / one["run"]).records()
        config = record["spec"]["protocol_config"]
        assert (record["spec"]["protocol"], config["epochs"], config["lr"]) == ("linear@mamp", 3, 0.2)
        assert config["val_share"] == 0 and one["figure"] == figure
        assert one["ours"] == record["metrics"][figure] and one["evaluation"] == record["id"]


def test_incomparable_runs_are_one_error(made, fails, data_root):
    folder = made(50.0, split="elsewhere")
    plugin = ["--plugin", str(folder / "made.py")]
    write_small_store(data_root, "other", seed=5)
    fails(["calibrate", "small", *plugin], "no imported checkpoint on small")
    imported(folder)
    fails(["calibrate", "small", *plugin], "no published linear accuracy")
    fails(["calibrate", "other", "--run", "made", *plugin], "imported for small / half")


def test_every_method_with_imports_names_its_authors_probe():
    """By a protocol that is there, with settings that it has."""
    from skelbench.core.spec import validated
    from skelbench.pipeline.evaluate import protocol_class

    host = get_host()
    for method in host.all("methods"):
        if method.imports:
            places = [place.split("/") for place in method.probe.settings if place] or [[""]]
            for dataset, split in ((*place, "")[:2] for place in places):
                validated(protocol_class(host, method.probe.protocol), method.probe.on(dataset, split), method.name)
