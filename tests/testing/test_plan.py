"""Every kind of new plugin runs as it is written; nothing is written over, and nothing is half written."""

import ast
import csv
import importlib
import io
import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from fabricated import Fabricated
from small import TINY, TINY_METHOD, silent_session

from skelbench.cli.main import main
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.observe import named_observers
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.plugin.host import Host, request_files
from skelbench.plugin.status import SINGULAR
from skelbench.reporting.inputs import TableInputs
from skelbench.testing import find
from skelbench.testing.scaffold.plan import USE, Plan
from skelbench.views import MaskRows
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25


@pytest.fixture(autouse=True)
def own_places(monkeypatch, tmp_path):
    for name in ("data", "results"):
        monkeypatch.setenv(f"SKELBENCH_{name.upper()}", str(tmp_path / name))
    for name in ("SKELBENCH_PLUGIN_PATH", "SKELBENCH_STRICT", "SKELBENCH_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    yield
    request_files([])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One new plugin of every kind: kind -> file."""
    folder = tmp_path_factory.mktemp("new")
    for kind in USE:
        assert main(["plugins", "new", kind, f"new-{kind}", "-o", str(folder)]) == 0
    return {kind: folder / f"new_{kind}.py" for kind in USE}


@pytest.fixture
def on_path(files, monkeypatch):
    monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", str(files["method"].parent))


def test_every_kind_is_announced_and_passes_ruff(files, on_path):
    host = Host()
    assert [plugin.error for plugin in host.plugins if plugin.state != "ok"] == []
    assert {entry.name for entry in host.entries if entry.plugin.source_hash} == {f"new-{kind}" for kind in USE}
    for command in (["check", "--select", "E,F,I,B,UP,W"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", "--line-length", "120", "."]
        done = subprocess.run(ruff, cwd=files["method"].parent, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def trained(session, method, settings, **asked):
    """The finished run of a tiny request."""
    request = Request(method, clip_length=32, patch=8, batch_size=4, epochs=0.2, preset="quick", sets=settings, **asked)
    return pretrain(session, resolve(request, session.host, session.data_root, "cpu"))


def logged(run):
    return [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]


def test_method_encoder_data_and_parts_run_together(on_path, tmp_path, capsys):
    session = silent_session(tmp_path / "data", Host(), tmp_path / "results")
    session = replace(session, observe=named_observers(session.host, ["new-observer"]))
    parts = {"optimizer": "new-optimizer", "schedule": "new-schedule", "encoder.dim": 8, "method.projection": 8}
    parts |= {"method.crop": {"kind": "new-crop", "lo": 0.7}, "method.augment": [{"kind": "new-augmentation"}]}
    parts["train.degrade"] = [{"kind": "new-degradation"}]
    run = trained(session, "new-method:cold", parts, dataset="new-dataset", encoder="new-encoder")
    assert run.spec.views["pair"]["crop"] == {"kind": "new-crop", "lo": 0.7}
    used = {"augmentations new-augmentation", "crops new-crop", "optimizers new-optimizer", "schedules new-schedule"}
    used.add("degradations new-degradation")
    assert used <= run.spec.components.keys()
    assert logged(run)[-1]["loss"] > 0 and "similarity" in logged(run)[-1]
    assert float((run.path / "new-observer" / "best.txt").read_text().split()[1]) <= logged(run)[-1]["loss"] + 1e-6
    assert (run.path / "new-observer" / "outcome.txt").read_text() == "done\n"
    record = evaluate(session, run, eval_spec(session.host, run, "new-protocol"))
    assert 0 <= record["metrics"]["accuracy"] <= 1
    assert main(["compare", "--table", "new-table", "--all", "--format", "csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["title"] == "new-method:cold" and row["protocol"] == "new-protocol" and row["seeds"] == "1"
    # Nothing here was counted, which is where its points would be.
    assert main(["plot", "new-figure", "--all", "-o", str(tmp_path / "new.png")]) == 2
    assert "no probed run is there yet; start with" in capsys.readouterr().err


def test_the_figure_is_of_one_probe(on_path, tmp_path, monkeypatch):
    store = Fabricated(tmp_path / "results")
    store.run("slim", 0.5, knn=0.4)
    host = Host()
    (axes,) = host.find("figures", "new-figure")(TableInputs(host, store.store)).axes
    (line,) = axes.lines
    assert line.get_ydata() == pytest.approx([50]) and "linear probe" in axes.get_ylabel()


@pytest.mark.parametrize("kind", ["crop", "augmentation"])
def test_what_uses_a_part_of_views_is_a_command(kind, files, tmp_path, monkeypatch, data_root):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKELBENCH_DATA", str(data_root))
    use = dict(Plan(kind, f"new-{kind}").commands(f"--plugin {files[kind]}"))["use it"]
    for command in use.split(" && "):
        program, *words = shlex.split(command)
        words += ["--dataset", "small", "--batch-size", "4", "--dry-run"] if words[0] == "run" else []
        assert program == "skelbench" and main(words) == 0


def test_the_target_is_predicted(on_path, data_root, tmp_path):
    session = silent_session(data_root, Host(), tmp_path / "results")
    small = TINY | {f"method.{key}": value for key, value in TINY_METHOD["slim"].items()}
    run = trained(session, "slim", small | {"method.target": "new-target"}, dataset="small")
    assert logged(run)[-1]["rank_masked"] >= 1


def test_the_mask_hides_whole_joints_in_its_range(on_path):
    mask = Host().find("masks", "new-mask")(lo=0.4, hi=0.6)
    keys_R = torch.arange(400)
    request = MaskRows(mask, Grid(64, 8, 25), keys_R, torch.zeros_like(keys_R))
    mask_RPJ = mask.draw(request, NTU25, Keyed(0, 0)).mask_RN.unflatten(1, (8, 25))
    assert (mask_RPJ.any(1) == mask_RPJ.all(1)).all()
    hidden_R = mask_RPJ[:, 0].sum(1)
    assert (int(hidden_R.min()), int(hidden_R.max())) == (10, 14)  # of 25


def test_clips_of_the_skeleton_are_stored(files, tmp_path, capsys):
    joints = np.random.default_rng(0).normal(0, 0.02, (40, 13, 3)).astype(np.float32)
    joints[:, :, 1] += (1.0, 1.5, 1.7, 1.4, 1.1, 1.4, 1.1, 0.9, 0.5, 0.0, 0.9, 0.5, 0.0)  # of a person that stands
    np.savez(tmp_path / "clips.npz", joints=joints, offsets=np.arange(0, 41, 10), label=np.arange(4) % 2)
    plugin = ["--plugin", str(files["topology"])]
    assert main(["data", "import", str(tmp_path / "clips.npz"), "--name", "mine", *plugin]) == 0
    capsys.readouterr()
    assert main(["data", "info", "mine", *plugin]) == 0
    assert "new-topology" in capsys.readouterr().out


def test_a_project_is_installed_found_by_its_entry_point_and_built(tmp_path, monkeypatch):
    assert main(["plugins", "new", "method", "2s.idea", "-o", str(tmp_path), "--package"]) == 0
    project, site = tmp_path / "2s.idea", tmp_path / "site"
    offline = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *offline, "--target", site, project], check=True)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("SKELBENCH_PLUGINS", "method-2s-idea")
    importlib.invalidate_caches()
    host = Host()
    plugin = host.origin(host.get("methods", "2s.idea"))
    assert (plugin.state, plugin.dist, plugin.version, plugin.source) == (
        "ok", "method-2s-idea", "0.1.0", "entry point method_2s_idea",
    )  # fmt: skip
    found = host.find("methods", "2s.idea")
    assert found.__name__ == "Method2sIdea" and sys.modules[found.__module__].__file__.startswith(str(site))
    tests = {}
    exec((project / "tests" / "test_method_2s_idea.py").read_text(), tests)
    checks = {each.id: each.values[0] for each in tests["test_method_2s_idea"].pytestmark[0].args[1]}
    checks["2s.idea-gradients"]()
    del sys.modules["method_2s_idea"]


CHECKS = {
    "method": ["settings", "settings-described", "bodies", "gradients", "repeatable-features"],
    "encoder": ["form", "settings", "shapes", "grids", "gradients"],
}
"""Of the kinds whose checks take seconds; all of the others."""
PLURAL = {singular: plural for plural, singular in SINGULAR.items()}


@pytest.mark.parametrize("kind", [kind for kind in USE if kind not in ("table", "figure", "observer")])
def test_what_is_written_has_nothing_to_mend(on_path, kind):
    (thing,) = find(f"new-{kind}", PLURAL[kind])
    every = [check.name for check in thing.checks if check.name != "announcement"]  # a new Python; and seen above
    results = list(thing.results(only=CHECKS.get(kind, every)))
    assert results and [result for result in results if result.bad] == []


@pytest.mark.parametrize(
    ("kind", "name", "cls"),
    [("method", "rotate", "RotateMethod"), ("encoder", "none", "NoneEncoder"), ("mask", "3d", "Mask3d")],
)
def test_classes_get_names_that_mean_nothing_else(kind, name, cls):
    classes = [each.name for each in ast.parse(Plan(kind, name).file()).body if isinstance(each, ast.ClassDef)]
    assert classes[-1] == cls


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["metod", "x"], "unknown kind of plugin 'metod'; did you mean 'method'?"),
        (["method", "My Idea"], "'My Idea' cannot name a method"),
        (["methods", "slim"], "method 'slim' is announced by plugin 'slim' ("),
        (["crop", "free"], "crop 'free' is announced by plugin 'builtin'"),
        (["method", "torch"], "torch.py would hide the Python package 'torch'"),
        (["method", "x", "-o", "nowhere"], "there is no folder nowhere"),
        (["method", "taken"], "taken.py exists already and is left as it is"),
        (["method", "taken.py", "--package"], "taken.py exists already and is left as it is"),
        (["method", 250 * "x", "--package"], "File name too long"),  # only that of its test, written last
    ],
)
def test_what_cannot_be_written_is_a_sentence_and_leaves_nothing(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.py").write_text("mine")
    assert main(["plugins", "new", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["taken.py"] and (tmp_path / "taken.py").read_text() == "mine"
