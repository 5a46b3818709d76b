"""One process at a time evaluates a run, also where one stood still for long."""

import pytest
from small import silent_session, tiny_run, write_small_store

from skelbench.errors import SkelbenchError
from skelbench.evaluate.knn import Knn
from skelbench.plugin.host import get_host
from skelbench.run.evaluate import eval_spec, evaluate
from skelbench.run.pretrain import pretrain


def test_an_evaluation_that_was_followed_meanwhile_writes_nothing(tmp_path, monkeypatch):
    write_small_store(tmp_path)
    session = silent_session(tmp_path, get_host(), tmp_path / "results")
    run = pretrain(session, tiny_run(tmp_path, get_host(), "untrained"))
    measure = Knn.measure

    def follow(self, *args):
        (run.path / ".probe.lock").unlink()  # another command has taken it over, and ended
        return measure(self, *args)

    monkeypatch.setattr(Knn, "measure", follow)
    with pytest.raises(SkelbenchError, match="another process has taken over .*nothing more is written there"):
        evaluate(session, run, eval_spec(session.host, run, "knn"))
    assert not list(run.path.glob("eval-*"))
