"""Every study that ships: its trials can be run, and what it makes is what its table shows."""

import json
from contextlib import nullcontext
from functools import cache

import pytest
from fabricated import Fabricated

from skelbench.cli.study import _table
from skelbench.pipeline.request import known_protocols
from skelbench.pipeline.session import Session
from skelbench.pipeline.studies.files import named_study
from skelbench.pipeline.studies.trials import complete
from skelbench.plugin.host import Host
from skelbench.records.store import ResultStore
from skelbench.reporting.inputs import TableInputs


@cache
def shipped():
    return Host()


NAMES = [descriptor.name for descriptor in shipped().all("studies")]
COLUMNS = {
    "semi": ("semi@1", "semi@10"), "retrieval": ("retrieval",), "robustness": ("robustness",),
    "missing-representation": ("missing-representation",),
    "degraded-pretraining": ("robustness", "missing-representation"),
}  # fmt: skip
"""Tables with a column per protocol, or per figure of these."""


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    """``trials(name)``: trials of the first seed on a small dataset, as without a GPU."""
    from small import write_small_store

    root = tmp_path_factory.mktemp("data")
    write_small_store(root)

    def of(name):
        study = named_study(name, shipped()).model_copy(update={"seeds": (0,), "dataset": "small"})
        return complete(study, shipped(), root, "cpu")

    return of


def test_every_table_of_the_paper_has_a_study():
    paper = {"linear", "semi", "retrieval", "transfer", "robustness", "missing-representation", "degraded-pretraining"}
    paper |= {"token-budget", "target-control", "objective", "stm", "saa"}
    assert paper <= set(NAMES) and all(named_study(name, shipped()).table == name for name in paper)


@pytest.mark.parametrize("name", ["linear", "semi", "retrieval", "transfer", "robustness", "degraded-pretraining"])
def test_every_trial_can_be_run_and_is_the_exact_preset(name, trials):
    made = trials(name)
    assert made and not any(trial.resolved.modified for trial in made)
    assert {trial.resolved.spec.tokens for trial in made} == {8} and all(trial.baseline for trial in made)


@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_the_probes_of_a_study_are_the_columns_of_its_table(name, tmp_path):
    """A run that was measured by them has a row with figures."""
    study = named_study(name, shipped())
    assert known_protocols(shipped(), study.probe) == list(study.probe) == list(COLUMNS[name])
    results = Fabricated(tmp_path)
    for protocol in study.probe:
        results.run(study.grid["method"][-1], 0.5, protocol=protocol)
    (row,) = shipped().load(shipped().get("tables", name))(TableInputs(shipped(), results.store)).rows
    assert row["method"].value == "slim" and any(isinstance(cell.value, float) for cell in row.values())


def test_commands_after_a_study_are_printed_for_every_run(tmp_path, trials, capsys):
    """On which data an encoder is measured besides, its user says."""
    study = named_study("transfer", shipped())
    assert study.then == "skelbench eval RUN --protocol transfer --dataset NAME"
    made = trials("transfer")[:2]
    session = Session(shipped(), ResultStore(tmp_path), tmp_path, "cpu", nullcontext)
    done, running = (session.results.open(trial.resolved.spec, "quick", {}, {}, "shared", "") for trial in made)
    info = json.loads((done.path / "run.json").read_text())
    (done.path / "run.json").write_text(json.dumps(info | {"outcome": "done"}))
    _table(study, made, session, ["linear"])
    printed = capsys.readouterr().out
    assert f"skelbench eval {done.name} --protocol transfer --dataset NAME" in printed and running.name not in printed
