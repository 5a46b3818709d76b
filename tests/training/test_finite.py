"""Numbers that are not finite: noticed in the step in which they come up, named, and never saved."""

import json

import numpy as np
import pytest
import torch

from skelbench.cli.summary import print_summary
from skelbench.core.errors import SkelbenchError
from skelbench.data.store.clip_store import ClipStore
from skelbench.methods.contract import Method
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain
from skelbench.records.metrics import read_metrics
from skelbench.training import checkpoint, loop
from skelbench.training.anomalies import UNMOVED

BAD = {
    "loss": lambda loss, method: loss * float("inf"),
    # sqrt'(0) * 0: a finite loss whose gradient is none.
    "gradient": lambda loss, method: loss + (method.encoder.norm.weight.sum() * 0).sqrt(),
}


def spoil(monkeypatch, index, what):
    """Have the loss of step ``index`` pass through ``BAD[what]``."""
    forward = Method.forward

    def spoilt(self, views, step):
        out = forward(self, views, step)
        return out | {"loss": BAD[what](out["loss"], self)} if step.index == index else out

    monkeypatch.setattr(Method, "forward", spoilt)


def test_a_nonfinite_metric_is_empty_and_reported_once(resolved, noting, monkeypatch):
    """The loss is finite, so the run continues; other readers of JSON have no word for nan."""
    forward, (session, said) = Method.forward, noting
    nan = {name: torch.tensor(float("nan")) for name in ("extra", "rank_extra")}  # the watch reads ranks
    monkeypatch.setattr(Method, "forward", lambda *given: forward(*given) | nan)
    run = pretrain(session, resolved("mamp", batch_size=12))
    assert run.outcome == "done" and said == ["not finite, so not logged, since step 1: extra, rank_extra"]
    assert "NaN" not in run.metrics.read_text() and read_metrics(run)["extra"].isna().all()


def test_an_encoder_without_gradients_is_reported_as_unmoved(resolved, noting, monkeypatch, capsys):
    (session, said), made = noting, resolved("mamp")
    assert "unmoved" not in pretrain(session, made).info and not said

    def forward(self, views, step):
        return {"loss": next(weight for name, weight in self.named_parameters() if "encoder" not in name).sum()}

    monkeypatch.setattr(Method, "forward", forward)
    run = pretrain(session, resolved("mamp", **{"train.lr": 1e-4}))
    assert run.info["unmoved"] and said == [f"warning: {UNMOVED}"]
    print_summary([(run, {})], None, made)
    assert f"unmoved: {UNMOVED}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("index, what, clip_grad", [(2, "loss", None), (5, "gradient", 1.0), (5, "loss", 1.0)])
def test_training_stops_in_the_step_itself_and_keeps_the_last_good_state(
    resolved, session, monkeypatch, index, what, clip_grad
):
    """Step 5 is the last one, after which the state is saved and the run would be done."""
    monkeypatch.setattr(checkpoint, "CHECKPOINT_SECONDS", -1.0)  # save after every step
    spoil(monkeypatch, index, what)
    named = {"loss": "the loss became inf", "gradient": r"the gradient of \S+ became nan"}[what]
    with pytest.raises(SkelbenchError, match=f"{named}.* at step {index} of 6.*train.lr.*run again"):
        pretrain(session, resolved("mamp", **{"train.clip_grad": clip_grad}))
    (run,) = session.results.runs()
    assert run.outcome == "diverged" and run.info["step"] == index
    with pytest.raises(SkelbenchError, match="is not done but diverged"):
        evaluate(session, run, eval_spec(session.host, run, "knn"))
    state = torch.load(run.checkpoint, weights_only=True)
    assert state["step"] == index
    assert all(x.isfinite().all() for x in state["method"].values() if x.is_floating_point())
    assert not run.encoder_path().exists()
    assert all(np.isfinite(json.loads(line)["loss"]) for line in run.metrics.read_text().splitlines())
    monkeypatch.undo()
    assert pretrain(session, resolved("mamp", **{"train.clip_grad": clip_grad})).outcome == "done"


def test_a_parameter_that_an_update_broke_is_not_saved(resolved, session, monkeypatch):
    step = loop.Trainer.train_step

    def broken(self, index, views):
        out = step(self, index, views)
        if index == 5:
            self.method.encoder.norm.bias.data[0] = float("nan")
        return out

    monkeypatch.setattr(loop.Trainer, "train_step", broken)
    with pytest.raises(SkelbenchError, match="encoder.norm.bias became nan at step 5 of 6.*train.lr"):
        pretrain(session, resolved("mamp"))
    (run,) = session.results.runs()
    assert run.outcome == "diverged" and not run.checkpoint.exists() and not run.encoder_path().exists()


def spoil_store(monkeypatch, path, clip):
    """A NaN in one clip of a store, as one that was written so; one that was changed since is refused by checksums."""
    store = ClipStore.open(path)
    frames = np.lib.format.open_memmap(path / "frames.npy", mode="r+")
    start = store.offsets[clip]
    frames[start : start + 3 * store.lengths[clip] * store.bodies[clip]] = np.nan
    frames.flush()
    monkeypatch.setattr(ClipStore, "check", lambda self, ids: None)


def test_a_nonfinite_clip_is_named(resolved, session, data_root, monkeypatch):
    clip = int(ClipStore.open(data_root / "small").split().train[3])
    spoil_store(monkeypatch, data_root / "small", clip)
    with pytest.raises(SkelbenchError, match=rf"clip {clip} of dataset small.* not finite.*data verify small"):
        pretrain(session, resolved("mamp", epochs=4))
    (run,) = session.results.runs()
    assert run.outcome == "diverged" and not run.encoder_path().exists()


@pytest.mark.parametrize("what,index,noticed", [("loss", 1, 1), ("gradient", 5, 5)])
def test_late_checks_save_nothing_after_a_nonfinite_step(resolved, session, monkeypatch, what, index, noticed):
    """Order on an accelerator: before the encoder or the state is saved."""
    init, step, made = loop.Trainer.__init__, loop.Trainer.train_step, []

    def late(self, *args):
        init(self, *args)
        self.finite.reads_late, self.log.every = True, 1000

    def counted(self, step_index, views):
        made.append(step_index)
        return step(self, step_index, views)

    monkeypatch.setattr(loop.Trainer, "__init__", late)
    monkeypatch.setattr(loop.Trainer, "train_step", counted)
    monkeypatch.setattr(checkpoint, "SNAPSHOTS", 6)  # after every step
    spoil(monkeypatch, index, what)
    with pytest.raises(SkelbenchError, match=f"the {what} became (inf|nan) at step {index} of 6"):
        pretrain(session, resolved("mamp"))
    (run,) = session.results.runs()
    assert made[-1] <= noticed and run.outcome == "diverged" and not run.checkpoint.exists()
    assert len(list(run.path.glob("encoder@*"))) == index, sorted(run.path.iterdir())
