"""A run that was stopped and continued is the run that was never stopped, bit for bit."""

import json
import os
import signal
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from small import KINDS, forked, silent_session, tiny_run

from skelbench.core.errors import Interrupted, SkelbenchError
from skelbench.pipeline.pretrain import pretrain
from skelbench.plugin.host import get_host
from skelbench.records.store import ResultStore
from skelbench.training import checkpoint, loop
from skelbench.training.checkpoint import Checkpointer


def drive(root, results, kill_at):
    """Train with a checkpoint after every third step, and die before step ``kill_at``."""
    save, step = Checkpointer.save, loop.Trainer.train_step

    def save_every_third(self, done, seconds):
        if done % 3 == 0 or done == self.total:
            save(self, done, seconds)

    def step_or_die(self, index, views):
        if index == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(self, index, views)

    checkpoint.CHECKPOINT_SECONDS, Checkpointer.save, loop.Trainer.train_step = -1.0, save_every_third, step_or_die
    pretrain(silent_session(root, get_host(), results), tiny_run(root, get_host(), epochs=3))


def metrics(run):
    """Logged lines without what depends on the clock."""
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("clips_per_s", "seconds")} for line in lines]


def same(run, other):
    first, second = load_file(run.encoder()), load_file(other.encoder())
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    state, twin = (torch.load(r.checkpoint, weights_only=True) for r in (run, other))
    assert all(torch.equal(state["method"][name], twin["method"][name]) for name in state["method"])
    assert "optimizer" not in state  # it has ended: half of the file
    assert metrics(run) == metrics(other)


def test_killed_in_mid_epoch_and_issued_again(data_root, tmp_path):
    """SIGKILL between two checkpoints: the steps after the last one are done again, to the same bits."""

    def driven(results, kill_at=-1):
        ((code, said),) = forked(lambda: drive(data_root, tmp_path / results, kill_at))
        return code, said

    assert driven("killed", 5)[0] == -signal.SIGKILL
    (run,) = ResultStore(tmp_path / "killed").runs()
    assert run.outcome == "running"
    assert torch.load(run.checkpoint, weights_only=True)["step"] == 3
    assert len(metrics(run)) == 5
    for results in ("killed", "whole"):
        assert driven(results) == (0, "")
    (other,) = ResultStore(tmp_path / "whole").runs()
    assert run.outcome == other.outcome == "done"
    same(run, other)


@pytest.mark.parametrize("method", KINDS)
def test_stopped_by_a_signal_and_continued(method, resolved, session, tmp_path, monkeypatch):
    made, said = resolved(method, epochs=2), []
    step = loop.Trainer.train_step

    def stop_at_two(self, index, views):
        if index == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, index, views)

    @contextmanager
    def progress(total, **_):
        yield lambda advance=1, note="", **__: said.append((advance, note))
        assert sum(advance for advance, _ in said) == total

    monkeypatch.setattr(loop.Trainer, "train_step", stop_at_two)
    with pytest.raises(Interrupted, match="after step 3 of 6.*same command again"):
        pretrain(session, made)
    (run,) = session.results.runs()
    assert run.outcome == "interrupted" and run.info["step"] == 3
    monkeypatch.undo()
    pretrain(replace(session, progress=progress), made)
    assert run.outcome == "done" and "step" not in run.info
    assert (12, "continuing at step 3 of 6") in said

    same(run, pretrain(silent_session(session.data_root, session.host, tmp_path / "other"), made))


def test_a_finished_run_is_not_trained_again(resolved, session, monkeypatch):
    run = pretrain(session, resolved("mamp", epochs=1))
    monkeypatch.setattr(loop.Trainer, "train", lambda *_: pytest.fail("trained again"))
    assert pretrain(session, resolved("mamp", epochs=1)).path == run.path


def flip(path, at):
    """The file with one bit of the byte ``at`` another."""
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


CHECKPOINT = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "a bit of a weight": lambda path: flip(path, path.stat().st_size // 2),
    "another run's": lambda path: torch.save(torch.load(path) | {"id": "0" * 12}, path),
}


@pytest.mark.parametrize("damage", CHECKPOINT.values(), ids=CHECKPOINT)
def test_a_damaged_checkpoint_is_one_error(resolved, session, damage, monkeypatch):
    made, save = resolved("mamp", epochs=0.5), Checkpointer.save
    with monkeypatch.context() as patch:  # what is kept is from before the last step
        patch.setattr(checkpoint, "CHECKPOINT_SECONDS", -1.0)
        patch.setattr(Checkpointer, "save", lambda self, done, s: done < self.total and save(self, done, s))
        run = pretrain(session, made)
    before = load_file(run.encoder())
    damage(run.checkpoint)
    run.update(outcome="running")
    with pytest.raises(SkelbenchError, match="damaged|does not fit"):
        pretrain(session, made)
    run.checkpoint.unlink()
    after = load_file(pretrain(session, made).encoder())
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_damaged_log_is_not_continued(resolved, session):
    """Until it is removed: then the run is continued without what was logged."""
    made = resolved("mamp", epochs=1)
    run = pretrain(session, made)
    log, size = run.metrics.read_text(), run.metrics.stat().st_size
    for text in (log[:100], log.replace('"loss": ', '"loss": "')):
        run.metrics.write_text(text)
        run.update(outcome="running")
        with pytest.raises(SkelbenchError, match="metrics.jsonl is damaged.*remove it to continue the run without"):
            pretrain(session, made)
        assert len(run.metrics.read_text()) <= size  # and not longer than it was
    run.metrics.unlink()
    assert pretrain(session, made).outcome == "done"


def test_snapshots_of_the_quarters_are_kept(resolved, session):
    run = pretrain(session, resolved("mamp", epochs=4))
    assert run.snapshots() == ["1", "2", "3"]
    assert run.encoder("2").exists()
