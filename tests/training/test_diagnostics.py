"""Looks: when, at what, that they change nothing; what counts as a collapse, and that it is recorded and said."""

import json
import math
import os
import signal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import COMPARING, KINDS
from torch import nn

from skelbench.core.errors import Interrupted
from skelbench.pipeline.pretrain import pretrain
from skelbench.training import diagnostics, loop
from skelbench.training.anomalies import PATIENCE, Collapse, describe
from skelbench.training.diagnostics import Diagnostics
from skelbench.training.metrics_log import LINES

COLLAPSES = {"target": "features", "glcl_weight": 0.0, "momentum": 0.5, "train.lr": 0.02, "schedule.warmup": 0.0}
"""Feature regression with nothing to hold it up, at a rate at which it collapses in a few steps."""

WITHOUT_HIDDEN = {"longt-gan", *COMPARING}

STEPS = 12
"""The small data has 12 training clips: as many epochs."""


def lines_of(run):
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


def fit(training):
    training.train()
    return lines_of(training.run)


# ---------------------------------------------------------------------------------------------- when
@given(total=st.integers(1, 30_000))
def test_diagnostic_steps_are_few_even_and_logged(total):
    every = max(1, total // LINES)
    looks = Diagnostics(nn.Identity(), total, every)
    due = [done for done in range(1, total + 1) if looks.is_due(done)]
    assert due[0] == 1 and due[-1] == total and len(due) <= diagnostics.STEPS + 2
    assert all(done % every == 0 for done in due[1:-1])
    assert len(set(b - a for a, b in zip(due[1:-1], due[2:-1]))) <= 1
    assert len(due) >= min(total, diagnostics.STEPS / 2)


# ---------------------------------------------------------------------------------------------- what
@pytest.mark.parametrize("name", KINDS)
def test_diagnostics_do_not_change_the_training(name, trainer, monkeypatch):
    """Ranks are between 1 and the limits by rows and channels; diagnostics do not change the weights."""
    seen = trainer(name, epochs=1)
    lines = fit(seen)
    assert len(lines) == 3
    for line in lines:
        assert 1 <= line["rank_pooled"] <= 32 and 1 <= line["rank_cls"] <= 16
        assert ("rank_masked" in line) == (name not in WITHOUT_HIDDEN)  # no masked token
        assert 1 <= line.get("rank_masked", 1) <= 32
    seen.run.checkpoint.unlink()
    monkeypatch.setattr(Diagnostics, "is_due", lambda self, step: False)
    unseen = trainer(name, epochs=1)
    plain = fit(unseen)
    assert not any(key.startswith("rank_") for line in plain for key in line)
    assert [line["loss"] for line in plain] == [line["loss"] for line in lines]
    state, twin = seen.method.state_dict(), unseen.method.state_dict()
    assert all(torch.equal(state[key], twin[key]) for key in state)


def test_the_first_output_of_the_inference_encoder_is_recorded(trainer):
    """SLiM evaluates its teacher, which sees both global views unmasked: the ranks are of its output."""
    training = trainer("slim", epochs=1)
    encoder, outputs = training.method.inference_encoder(), []
    encoder.register_forward_hook(lambda module, given, out: outputs.append(out))
    with training.diagnostics.record_step(1) as figures:
        training.train_step(0, training.views(0))
    for name, x in (("cls", outputs[0].cls_RD), ("pooled", outputs[0].pooled_RD)):
        q = torch.linalg.svdvals(x.double())
        q = q / q.sum()
        assert figures[f"rank_{name}"] == pytest.approx(float(torch.exp(-(q * q.log()).sum())), rel=1e-5)


# ---------------------------------------------------------------------------------------------- collapse
def line(step, **figures):
    return {"step": step, "epoch": step / 10, "loss": 1.0, **figures}


def follow(values, clips=16, **others):
    """Changes at every line of a run whose ``rank_masked`` is ``values``."""
    collapse = Collapse(clips)
    return collapse, [collapse.check(line(i, rank_masked=value, **others)) for i, value in enumerate(values, 1)]


def test_a_low_rank_at_three_diagnostic_steps_is_a_collapse():
    collapse, changes = follow([5, 1.1, 1.1, 3, 1.2, 1.15, 1.12, 1.05, 1.0])
    assert [len(change) for change in changes] == [0] * 6 + [1, 0, 0] and PATIENCE == 3
    expected = {"what": "masked", "measure": "effective rank", "value": 1.12, "step": 5, "epoch": 0.5}
    assert collapse.found == changes[6] == [expected]
    assert describe(expected) == (
        "features at masked tokens point nearly all in one direction (effective rank 1.12) since step 5"
    )


def test_a_collapse_is_recorded_with_its_end():
    collapse, changes = follow([1.0, 1.0, 1.0, 1.0, 4, 4, 1.0, 1.0, 1.0])
    assert [len(change) for change in changes] == [0, 0, 1, 0, 1, 0, 0, 0, 1]
    assert [(found["step"], found.get("until")) for found in collapse.found] == [(1, 5), (7, None)]
    assert describe(collapse.found[0]).endswith("since step 1 until step 5")


@pytest.mark.parametrize(
    ("entropy", "used", "measures"),
    [
        (math.log(256), 256.0, ["different assignments"]),  # every sample spreads over all prototypes
        (math.log(7), 7.0, ["different assignments"]),  # all have the same seven
        (0.0, 1.0, ["prototypes used", "different assignments"]),  # all have the same single one
        (0.2, 1.9, ["prototypes used"]),
        (0.0, 256.0, []),
        (5.17, 247.0, []),  # soft but different
    ],
)
def test_few_or_equal_prototypes_are_a_collapse(entropy, used, measures):
    collapse, _ = follow([9, 9, 9], teacher_entropy_mfp=entropy, prototypes_used_mfp=used)
    assert [(found["what"], found["measure"]) for found in collapse.found] == [("mfp", name) for name in measures]
    assert all("prototypes" in describe(found) and "masked tokens" in describe(found) for found in collapse.found)


def test_a_common_offset_of_a_readout_is_no_collapse():
    collapse = Collapse(16)
    for step in range(1, 5):
        collapse.check(line(step, rank_masked=1.4, rank_cls=1.4, rank_pooled=1.2))
    assert [found["what"] for found in collapse.found] == ["masked", "pooled"]


# ---------------------------------------------------------------------------------------------- in a run
def test_a_collapsing_run_reports_and_records_it_once(resolved, noting, capsys):
    session, said = noting
    made = resolved("slim", epochs=STEPS, batch_size=12, **COLLAPSES)
    run = pretrain(session, made)
    (found,) = run.info["collapse"]
    assert found["what"] == "masked" and found["value"] < 1.5 and 1 < found["step"] <= STEPS - 2
    ranks = {line["step"]: line["rank_masked"] for line in lines_of(run)}
    assert ranks[1] > 3 and all(rank < 1.5 for step, rank in ranks.items() if step >= found["step"])
    assert said == ["warning: collapse: " + describe(found)]

    from skelbench.cli.summary import print_summary

    print_summary([(run, {})], None, made)
    assert said[0].removeprefix("warning: ") in capsys.readouterr().out


def test_a_collapse_is_the_same_after_a_resume(resolved, session, monkeypatch):
    made = resolved("slim", epochs=STEPS, batch_size=12, **COLLAPSES)
    whole = pretrain(session, made)
    found, lines = whole.info["collapse"], lines_of(whole)
    whole.update(outcome="interrupted", collapse=[{**found[0], "value": 1.0}], shortcut=found)
    pretrain(session, made)  # of a state after which other things were found
    assert whole.info["collapse"] == found and "shortcut" not in whole.info
    step = loop.Trainer.train_step
    stop_after = found[0]["step"] + 1  # two of the three looks that settle it lie behind

    def stop(self, index, views):
        if index == stop_after - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, index, views)

    monkeypatch.setattr(loop.Trainer, "train_step", stop)
    with pytest.raises(Interrupted):
        pretrain(session, made, force=True)
    assert "collapse" not in whole.info
    monkeypatch.undo()
    pretrain(session, made)
    assert whole.info["collapse"] == found
    clock = ("clips_per_s", "seconds")
    for again, before in zip(lines_of(whole), lines, strict=True):
        assert {k: v for k, v in again.items() if k not in clock} == {k: v for k, v in before.items() if k not in clock}
