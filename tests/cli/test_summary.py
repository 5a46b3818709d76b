"""The next commands that a run prints can be typed as printed, wherever the run is."""

import shlex
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from skelbench.cli.summary import REFERENCE, cost_facts, print_summary
from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain
from skelbench.records.store import ResultStore


@pytest.fixture
def far(shipped_plugins, session, resolved, tmp_path):
    """A run with a plugin, in places of its own with spaces in their names."""
    session = replace(session, results=type(session.results)(tmp_path / "my results"))
    made = resolved("untrained")
    run = pretrain(session, made)
    run.update(environment={**run.info["environment"], "command": "skelbench run untrained --plugin 'my waves.py'"})
    return session, run, made


def test_the_next_commands_name_the_folders(far, tmp_path, capsys):
    _, run, made = far
    print_summary([(run, {})], None, made)
    commands = [
        shlex.split(line.partition("  #")[0]) for line in capsys.readouterr().out.splitlines() if "  skelbench " in line
    ]
    assert len(commands) == 3 and all(
        command[-2:] == ["--results", str(tmp_path / "my results")] for command in commands if command[1] != "plugins"
    )


def test_an_unknown_dataset_may_need_a_plugin(far, tmp_path):
    session, run, _ = far
    spec = eval_spec(session.host, run, "knn")
    with pytest.raises(SkelbenchError, match="made with --plugin 'my waves.py': if that makes the dataset, give it"):
        evaluate(replace(session, data_root=tmp_path / "none"), run, spec)


def test_the_reference_accuracies_are_those_of_the_shipped_records(tmp_path):
    records = Path(__file__).parents[2] / "results" / "reference"
    for place, name in enumerate(("slim-160000", "raw")):
        with zipfile.ZipFile(records / "small-synthetic" / f"{name}.zip") as archive:
            archive.extractall(tmp_path / name)
        (run,) = ResultStore(tmp_path / name / "runs").read()
        found = {record["spec"]["protocol"]: record["metrics"]["accuracy"] for record in run.records()}
        assert {protocol: f"{found[protocol]:.1%}" for protocol in REFERENCE} == {
            protocol: f"{accuracies[place]:.1%}" for protocol, accuracies in REFERENCE.items()
        }
        assert ("inference" in dict(cost_facts(run.cost()))) == (name != "raw")
