"""Micro-batches and recomputed blocks give the step of the whole batch, or are rejected."""

import pytest
import torch

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.cost.latency import LiveTensors
from skelbench.training import diagnostics

EXACT = {"mamp": {}, "skeletonclr": {}, "dino": {}, "slim": {"centering": "running"}}


def trained(trainer, name, steps=3, **settings):
    """Figures of each step, and the method's state after the last."""
    training = trainer(name, batch_size=6, **settings)
    out = []
    for step in range(steps):
        with training.diagnostics.record_step(1) as seen:
            reported = training.train_step(step, training.batch(step))
        out.append({key: float(value) for key, value in reported.items()} | seen)
    return out, training.method.state_dict()


@pytest.mark.parametrize("name", EXACT)
def test_steps_in_micro_batches_equal_whole_steps(name, trainer, monkeypatch):
    """Losses and what is watched, and all weights, queues and centers after three steps of the optimizer."""
    monkeypatch.setattr(diagnostics, "ROWS", 10**6)  # a sample would be another
    # AdamW's first steps are the sign of a gradient, and of rounding.
    settings = EXACT[name] | {"sets": {"optimizer": "sgd", "schedule": "constant"}}
    whole, weights = trained(trainer, name, **settings)
    parts, others = trained(trainer, name, **settings, **{"train.accumulate": 3})
    for step, (one, other) in enumerate(zip(whole, parts)):
        assert one.keys() == other.keys()
        for key in one:
            if not key.endswith(("_information", "_cl", "_mfp")):  # of a sample of each piece
                assert other[key] == pytest.approx(one[key], rel=2e-4, abs=1e-6), (step, key)
    for key, value in weights.items():
        torch.testing.assert_close(others[key], value, rtol=1e-3, atol=1e-5, msg=key)


@pytest.mark.parametrize(("how", "precision"), [("on", "bf16"), ("elementwise", "fp32")])
@pytest.mark.parametrize("name", ["slim", "macdiff"])
def test_recomputed_blocks_change_no_bit(name, how, precision, trainer):
    """In bf16 ``elementwise`` casts weights again for each view, so that sums of gradients round in another way."""
    settings = {"train.precision": precision, "encoder.drop_path": 0.3}  # what is drawn is drawn again
    whole, weights = trained(trainer, name, 2, **settings)
    again, others = trained(trainer, name, 2, **settings, **{"train.recompute": how})
    assert whole == again and all(torch.equal(others[key], value) for key, value in weights.items())


def test_what_is_recomputed_is_not_stored(trainer):
    peaks = {}
    for how in ("off", "elementwise", "on"):
        training = trainer("mamp", batch_size=6, **{"train.precision": "bf16", "train.recompute": how})
        batch = training.batch(0)
        with LiveTensors() as live:
            training.train_step(0, batch)
        peaks[how] = live.peak
    assert peaks["on"] < peaks["elementwise"] < peaks["off"]


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("slim", {}, "method slim needs its whole batch at once: Sinkhorn balances"),
        ("skeletonclr", {"native": True}, "batch norm of encoder stgcn normalizes by the whole batch"),
    ],
)
def test_methods_that_need_the_whole_batch_reject_micro_batches(name, settings, said, trainer):
    with pytest.raises(SkelbenchError, match=f"train.accumulate=2: .*{said}.*set train.recompute=on"):
        trainer(name, **settings, **{"train.accumulate": 2})


def test_micro_batches_divide_a_batch(trainer):
    with pytest.raises(SkelbenchError, match="accumulate=4 does not divide the 6 clips .* possible numbers: 2, 3, 6"):
        trainer("mamp", batch_size=6, **{"train.accumulate": 4})


def test_memory_settings_are_not_part_of_the_id(resolved):
    plain = resolved("mamp")
    saving = resolved("mamp", **{"train.accumulate": 2, "train.recompute": "on"})
    assert saving.spec.train.accumulate == 2 and saving.spec.train.recompute == "on"
    assert saving.spec.id == plain.spec.id and saving.modified == plain.modified
    with pytest.raises(SkelbenchError, match="train.accumulate"):
        resolved("mamp", **{"train.accumulate": 0})
