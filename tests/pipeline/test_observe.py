"""Observers change no number and stop nothing; missing packages are an error before the run."""

import json
import logging
from dataclasses import replace

import pytest
import torch

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.observe import named_observers
from skelbench.pipeline.pretrain import pretrain
from skelbench.plugin.host import Host

PLUGIN = """
import torch
from skelbench.plugin import ObserverSpec, hookimpl
from skelbench.pipeline.observe import Observer

class Notes(Observer):
    def run_started(self, run):
        torch.rand(3)
        self.folder.mkdir(exist_ok=True)
        self.write("started " + run["id"])

    def log(self, step, metrics):
        torch.rand(3)
        self.write(f"{step} {metrics['loss']}")

    def run_finished(self, outcome):
        self.write(outcome)

    def write(self, line):
        with open(self.folder / "notes.txt", "a") as file:
            file.write(line + "\\n")

class Broken(Observer):
    def log(self, step, metrics):
        raise RuntimeError(f"no {step}")

class Meddler(Observer):
    def run_started(self, run):
        run["id"], run["spec"]["seed"] = "another", 99

    def log(self, step, metrics):
        metrics.clear()

@hookimpl
def skelbench_observers():
    return [
        ObserverSpec(name="meddler", target=":Meddler"),
        ObserverSpec(name="notes", target=":Notes"),
        ObserverSpec(name="broken", target=":Broken"),
        ObserverSpec(name="missing", target=":Notes", packages=("no_such_module",)),
    ]
"""


@pytest.fixture
def watched(tmp_path, session):
    """``watched("notes", ...)``: a session whose runs these observe."""
    file = tmp_path / "watch.py"
    file.write_text(PLUGIN)
    host = Host([file])

    def make(*names):
        return replace(session, host=host, observe=named_observers(host, names))

    return make


def weights(run):
    return torch.load(run.checkpoint, weights_only=True)["method"]


def test_observers_do_not_change_the_training(watched, session, resolved):
    made = resolved("skeletonmae", epochs=1)
    plain = pretrain(session, made)
    kept, metrics = weights(plain), plain.metrics.read_text().splitlines()
    seen = pretrain(watched("meddler", "notes", "knn"), made, force=True)
    assert seen.path == plain.path and seen.spec.id == made.spec.id
    assert all(torch.equal(x, weights(seen)[name]) for name, x in kept.items())
    apart = ("clips_per_s", "seconds")
    lines = [[json.loads(line) for line in text] for text in (metrics, seen.metrics.read_text().splitlines())]
    accuracies = [line.pop("knn") for line in lines[1] if "knn" in line]
    assert len(accuracies) >= 2 and all(0 <= accuracy <= 1 for accuracy in accuracies)
    assert [{k: v for k, v in line.items() if k not in apart} for line in lines[0]] == [
        {k: v for k, v in line.items() if k not in apart} for line in lines[1]
    ]
    first, *logged, last = (seen.path / "notes" / "notes.txt").read_text().splitlines()
    assert (first, last) == (f"started {made.spec.id}", "done")
    assert [line.split()[0] for line in logged] == [str(line["step"]) for line in lines[0]]
    pretrain(watched("notes"), resolved("untrained"))
    assert len(list(session.results.root.glob("*/notes"))) == 1  # of nothing that does not train


def test_a_failing_observer_is_skipped_with_one_warning(watched, resolved, caplog):
    with caplog.at_level(logging.WARNING, "skelbench"):
        run = pretrain(watched("broken", "notes"), resolved("skeletonmae", epochs=1))
    assert run.outcome == "done" and (run.path / "notes" / "notes.txt").read_text().endswith("done\n")
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "observer broken failed (log)" in warning


def test_names_and_packages_of_observers_are_checked_first(watched):
    assert [spec.name for spec in watched("notes,broken", "notes").observe] == ["notes", "broken"]
    with pytest.raises(SkelbenchError, match="did you mean 'notes'"):
        watched("note")
    with pytest.raises(SkelbenchError, match="needs no_such_module, which is not installed"):
        watched("missing")
