"""A run that has too little memory tries again with less; if nothing is left to try, it ends with one error."""

import pytest
import torch

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.memory import MemorySaving, next_saving
from skelbench.pipeline.pretrain import pretrain
from skelbench.training import checkpoint, loop


def full(*_):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.00 GiB.")


def test_memory_is_reduced_step_by_step(trainer):
    """More is recomputed, then more micro-batches; a method that needs its whole batch stops earlier."""
    mamp, gfp = trainer("mamp", batch_size=12), trainer("gfp", batch_size=12)
    tried = []
    while saving := next_saving(mamp):
        mamp.save_memory(saving.recompute, saving.accumulate)
        tried.append((saving.recompute, saving.accumulate))
    assert tried == [("elementwise", 1), ("on", 1), ("on", 2), ("on", 4), ("on", 12)]
    gfp.save_memory("elementwise", 1)
    assert next_saving(gfp) == MemorySaving("on", 1)
    gfp.save_memory("on", 1)
    assert next_saving(gfp) is None
    assert next_saving(trainer("mamp", **{"train.recompute": "off", "train.accumulate": 1})) is None


def test_a_run_continues_with_less_memory_and_to_the_same_weights(resolved, session, noting, monkeypatch):
    """Recomputing changes no bit on a CPU; the resumed run keeps the saving."""
    session, notes = noting
    made, step = resolved("mamp", epochs=1), loop.Trainer.train_step

    def full_unless_recomputed(self, index, views):
        return step(self, index, views) if self.recompute == "on" or index == 0 else full()

    monkeypatch.setattr(checkpoint, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(loop.Trainer, "train_step", full_unless_recomputed)
    run = pretrain(session, made)
    assert run.outcome == "done" and run.info["memory"] == {"recompute": "on", "accumulate": 1}
    assert any("train.recompute=on" in note for note in notes)
    weights = torch.load(run.checkpoint, weights_only=True)["method"]
    monkeypatch.undo()
    again = torch.load(pretrain(session, made, force=True).checkpoint, weights_only=True)["method"]
    assert all(torch.equal(value, again[name]) for name, value in weights.items())


def test_memory_that_runs_out_is_one_error(resolved, session, host, monkeypatch):
    """Also if a line of a method asked for it, and in a probe."""
    made = resolved("gfp", epochs=1)
    method = host.load(made.method)
    with monkeypatch.context() as patch:
        patch.setattr(method, "training_step", full)
        with pytest.raises(SkelbenchError, match="^out of memory on cpu with batches of 4 .*train.recompute=on"):
            pretrain(session, made)
    run = pretrain(session, made)
    with monkeypatch.context() as patch:
        patch.setattr("skelbench.pipeline.evaluate._evaluate", full)
        with pytest.raises(SkelbenchError, match="^out of memory on cpu probing .* by knn"):
            evaluate(session, run, eval_spec(host, run, "knn"))
