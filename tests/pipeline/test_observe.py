"""Observers watch: what they do changes no number and stops nothing; what they lack is told before."""

import json
import logging
import re
from dataclasses import replace

import pytest
import torch

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.observe import named_observers
from skelbench.pipeline.pretrain import pretrain
from skelbench.plugin.descriptors import ObserverSpec
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

class Homeless(Observer):
    def __init__(self):
        super().__init__(None)

@hookimpl
def skelbench_observers():
    return [
        ObserverSpec(name="homeless", target=":Homeless"),
        ObserverSpec(name="meddler", target=":Meddler"),
        ObserverSpec(name="notes", target=":Notes"),
        ObserverSpec(name="broken", target=":Broken"),
        ObserverSpec(name="stranger", target=":PLUGIN"),
        ObserverSpec(name="missing", target=":Notes", packages=("no_such_module",)),
        ObserverSpec(name="extra", target=":Notes", packages=("no_such_module",), install="mine[extra]"),
    ]

def PLUGIN(folder):
    return folder
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


def test_what_is_observed_changes_nothing(watched, session, resolved, tmp_path):
    made = resolved("skeletonmae", epochs=1)
    plain = pretrain(session, made)
    kept, metrics = weights(plain), plain.metrics.read_text().splitlines()
    seen = pretrain(watched("meddler", "notes"), made, force=True)
    assert seen.path == plain.path and seen.spec.id == made.spec.id
    assert all(torch.equal(x, weights(seen)[name]) for name, x in kept.items())
    apart = ("clips_per_s", "seconds")
    lines = [[json.loads(line) for line in text] for text in (metrics, seen.metrics.read_text().splitlines())]
    assert [{k: v for k, v in line.items() if k not in apart} for line in lines[0]] == [
        {k: v for k, v in line.items() if k not in apart} for line in lines[1]
    ]
    first, *logged, last = (seen.path / "notes" / "notes.txt").read_text().splitlines()
    assert (first, last) == (f"started {made.spec.id}", "done")
    assert [line.split()[0] for line in logged] == [str(line["step"]) for line in lines[0]]
    pretrain(watched("notes"), resolved("untrained"))
    assert len(list(session.results.root.glob("*/notes"))) == 1  # of nothing that does not train


def test_one_that_fails_is_left_out_with_one_warning(watched, resolved, caplog):
    with caplog.at_level(logging.WARNING, "skelbench"):
        run = pretrain(watched("broken", "stranger", "homeless", "notes"), resolved("skeletonmae", epochs=1))
    assert run.outcome == "done" and (run.path / "notes" / "notes.txt").read_text().endswith("done\n")
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3
    assert any(
        re.search(r"homeless failed .*watch.py:35, __init__: .*; it is called with \(folder\)", one) for one in said
    )
    assert any("observer broken failed (log)" in line and "RuntimeError: no 1" in line for line in said)
    assert any(
        "observer stranger failed" in line and "not a skelbench.pipeline.observe.Observer" in line for line in said
    )


def test_names_and_packages_are_looked_at_before(watched):
    assert [spec.name for spec in watched("notes,broken", "notes").observe] == ["notes", "broken"]
    with pytest.raises(SkelbenchError, match="did you mean 'notes'"):
        watched("note")
    with pytest.raises(
        SkelbenchError, match="needs no_such_module, which is not installed: pip install no_such_module"
    ):
        watched("missing")
    with pytest.raises(SkelbenchError, match=r"pip install 'mine\[extra\]', or leave out --observe extra"):
        watched("extra")


@pytest.mark.parametrize("fields", [{"packages": "tensorboard"}, {"install": 3}])
def test_an_announcement_that_cannot_be_used(fields):
    from skelbench.plugin.announcement import descriptor_problem

    state, said = descriptor_problem("observers", ObserverSpec(name="a", target="a:B", **fields))
    assert state == "invalid" and next(iter(fields)) in said
