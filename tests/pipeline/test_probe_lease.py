"""One process at a time evaluates a run, also where one stood still for long."""

import pytest
from small import silent_session, tiny_run, write_small_store

from skelbench.core.errors import SkelbenchError
from skelbench.core.leases import Lease
from skelbench.evaluation.knn import Knn
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain
from skelbench.plugin.host import get_host
from skelbench.records.run_dir import PROBES


def test_a_run_is_not_restarted_during_an_evaluation(tmp_path):
    """The record would be of weights that are no longer there."""
    write_small_store(tmp_path)
    session = silent_session(tmp_path, get_host(), tmp_path / "results")
    made = tiny_run(tmp_path, get_host(), "untrained")
    run = pretrain(session, made)
    evaluate(session, run, eval_spec(session.host, run, "knn"))
    before = {path.name: path.read_bytes() for path in run.path.iterdir()}
    with Lease(run.path / PROBES), pytest.raises(SkelbenchError, match="another process evaluates .*with --force"):
        pretrain(session, made, force=True)
    assert {path.name: path.read_bytes() for path in run.path.iterdir() if path.name != PROBES} == before
    assert not list(pretrain(session, made, force=True).path.glob("eval-*"))


def test_an_evaluation_that_lost_its_lease_writes_nothing(tmp_path, monkeypatch):
    write_small_store(tmp_path)
    session = silent_session(tmp_path, get_host(), tmp_path / "results")
    run = pretrain(session, tiny_run(tmp_path, get_host(), "untrained"))
    measure = Knn.measure

    def follow(self, *args):
        (run.path / PROBES).unlink()  # another command has taken it over, and ended
        return measure(self, *args)

    monkeypatch.setattr(Knn, "measure", follow)
    with pytest.raises(SkelbenchError, match="another process has taken over .*nothing more is written there"):
        evaluate(session, run, eval_spec(session.host, run, "knn"))
    assert not list(run.path.glob("eval-*"))
