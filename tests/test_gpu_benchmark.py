"""`make gpu`, in little and on the CPU: what it writes, and what becomes of a section that fails or takes too long."""

import json
import time
from dataclasses import replace
from functools import partial

import pytest
import torch
from small import shorten

from benchmarks import gpu

MINUTES = 1000.0
"""No section of these tests reaches its limit, however busy the machine is."""


@pytest.fixture
def tiny(resolved, monkeypatch):
    """Methods at tiny sizes on a small dataset, in place of preset and synthetic data."""

    def make(place, method, budget=None, **settings):
        epochs = budget.amount * 4 / 12 if budget else 60
        return resolved(method, **({} if method == "untrained" else {"epochs": epochs}))

    monkeypatch.setattr(gpu.Place, "resolved", make)
    monkeypatch.setattr(gpu, "data_root", lambda: resolved.args[0])


def test_every_section_is_written_as_it_ends(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "data", lambda place, save: time.sleep(600))
    for name, value in (("WARM_STEPS", 1), ("TRAINED", 1e-6), ("TIMED_SECONDS", 0.02), ("PEAK_SECONDS", 0.02)):
        monkeypatch.setattr(gpu, name, value)
    shorten(monkeypatch)
    least = gpu._least_seconds  # of corners of the matrices: bfloat16 takes a CPU seconds
    corner = lambda work: partial(work.func, *(x[:64, :64] for x in work.args))  # noqa: E731
    monkeypatch.setattr(gpu, "_least_seconds", lambda work, *rest, **most: least(corner(work), *rest, **most))
    output, written = tmp_path / "gpu.json", []
    write = gpu.write_json
    monkeypatch.setattr(gpu, "write_json", lambda path, report: (written.append(path), write(path, report)))

    def broken(place, save):
        raise ValueError("no\nmatrix")

    with monkeypatch.context() as patch:
        patch.setattr(gpu, "peak", broken)
        patch.setitem(gpu.SHARES, "data", 0.005)
        stopped = gpu.measured("cpu", "quick", 1.0, output, ["data"])["sections"]["data"]
        failed = gpu.measured("cpu", "quick", MINUTES, output, ["peak"])["sections"]["peak"]
    assert "its time limit" in stopped["failed"]
    assert failed["failed"] == "ValueError: no matrix" and "in broken" in failed["where"]
    report = gpu.measured("cpu", "quick", MINUTES, output, ["peak", "skeletonmae", "skeletonmae-run"])
    assert json.loads(output.read_text()) == report and written.count(output) == 5
    peak, step, run = report["sections"].values()
    assert peak["fp32"]["flops_per_s"] > 0
    assert not step["compiled"] and step["compile"].keys() == {
        how + of for how in ("off", "auto") for of in ("", "_first_seconds")
    }
    assert step["clips_per_s"] == step["compile"]["auto"] > 0 and step["of_peak"] == pytest.approx(
        step["flops_per_s"] / peak["fp32"]["flops_per_s"]
    )
    assert sum(step["flops_by_role"].values()) == pytest.approx(1)
    shares = step["shares"]
    assert step["kernels"] == {"all": {"times": 0, "seconds": 0}}  # a GPU's
    assert shares["seconds"] > 0 and 0 < shares["views"] + shares["heads"] + shares["optimizer"] < 1
    assert (tmp_path / "gpu" / "skeletonmae.json.gz").stat().st_size > 0
    assert run["clips"] == 4 * run["steps"] and 0 <= run["knn_trained"] <= 1
    assert "clips/s" in capsys.readouterr().err


def test_a_run_without_a_measured_speed_has_no_duration(tiny, tmp_path):
    place = gpu.Place("cpu", "quick", tmp_path, tmp_path, time.time() + 30)
    assert "was not measured" in gpu.section("slim-run", replace(place, steps={}))["failed"]


def test_without_a_gpu_the_benchmark_gives_advice(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["gpu"])
    assert gpu.main() == 2
    assert capsys.readouterr().err.startswith("error: this measures a GPU, and PyTorch finds none here; give --device")
    monkeypatch.setattr("sys.argv", ["gpu", "--sections", "peek", "--device", "cpu"])
    assert gpu.main() == 2 and "there is no section 'peek'" in capsys.readouterr().err
