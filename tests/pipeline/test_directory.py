"""One process at a time works in a run's directory, also where one stood still for long."""

import pytest
from small import silent_session, tiny_run, write_small_store

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.pretrain import pretrain
from skelbench.plugin.host import get_host
from skelbench.training.loop import Trainer


def test_a_process_that_lost_its_lease_writes_nothing(tmp_path, monkeypatch):
    """State after a night in a suspended machine: another command has taken the run over, worked and ended."""
    write_small_store(tmp_path)
    session = silent_session(tmp_path, get_host(), tmp_path / "results")
    train_step, seen = Trainer.train_step, {}

    def follow(self, step, views):
        if step == 2:
            (self.run.path / ".lock").unlink()
            self.run.update(outcome="done", step=6)
            seen.update({path: path.read_bytes() for path in self.run.path.iterdir()})
        return train_step(self, step, views)

    monkeypatch.setattr(Trainer, "train_step", follow)
    with pytest.raises(SkelbenchError, match="another process has taken over .*nothing more is written there"):
        pretrain(session, tiny_run(tmp_path, get_host(), "mamp", epochs=3, batch_size=6))
    assert seen and {path: path.read_bytes() for path in next(iter(seen)).parent.iterdir()} == seen
