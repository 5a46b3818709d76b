"""A new plugin of every kind runs as it is written; no file is overwritten or half written."""

import csv
import importlib
import io
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from small import silent_session

from skelbench.cli.main import main
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.observe import named_observers
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.plugin.host import Host
from skelbench.plugin.status import SINGULAR
from skelbench.testing import find
from skelbench.testing.scaffold.plan import USE


@pytest.fixture(autouse=True)
def own_places(monkeypatch, tmp_path):
    for name in ("data", "results"):
        monkeypatch.setenv(f"SKELBENCH_{name.upper()}", str(tmp_path / name))


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


def test_a_project_is_installed_found_by_its_entry_point_and_built(tmp_path, monkeypatch):
    assert main(["plugins", "new", "method", "new-idea", "-o", str(tmp_path), "--package"]) == 0
    project, site = tmp_path / "new-idea", tmp_path / "site"
    offline = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *offline, "--target", site, project], check=True)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("SKELBENCH_PLUGINS", "new-idea")
    importlib.invalidate_caches()
    host = Host()
    plugin = host.origin(host.get("methods", "new-idea"))
    assert (plugin.state, plugin.dist, plugin.version, plugin.source) == (
        "ok", "new-idea", "0.1.0", "entry point new_idea",
    )  # fmt: skip
    found = host.find("methods", "new-idea")
    assert found.__name__ == "NewIdeaMethod" and sys.modules[found.__module__].__file__.startswith(str(site))
    tests = {}
    exec((project / "tests" / "test_new_idea.py").read_text(), tests)
    checks = {each.id: each.values[0] for each in tests["test_new_idea"].pytestmark[0].args[1]}
    checks["new-idea-gradients"]()
    del sys.modules["new_idea"]


CHECKS = {
    "method": ["settings", "bodies", "gradients", "features", "devices"],
    "encoder": ["form", "shapes", "gradients"],
}
"""Checks of kinds whose checks take seconds; other kinds run all."""
PLURAL = {singular: plural for plural, singular in SINGULAR.items()}


@pytest.mark.parametrize("kind", [kind for kind in USE if kind not in ("table", "figure", "observer")])
def test_a_new_plugin_passes_the_checks_of_its_kind(on_path, kind):
    (thing,) = find(f"new-{kind}", PLURAL[kind])
    results = list(thing.results(only=CHECKS.get(kind, ())))
    assert results and [result for result in results if result.bad] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["metod", "x"], "unknown kind of plugin 'metod'; did you mean 'method'?"),
        (["method", "My Idea"], "'My Idea' cannot name a method"),
        (["method", "torch"], "torch.py would hide the Python package 'torch'"),
        (["method", "taken"], "taken.py exists already and is left as it is"),
    ],
)
def test_an_unwritable_plugin_is_an_error_and_leaves_nothing(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.py").write_text("mine")
    assert main(["plugins", "new", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["taken.py"] and (tmp_path / "taken.py").read_text() == "mine"
