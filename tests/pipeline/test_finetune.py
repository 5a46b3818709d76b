"""Fine-tuning as a step of a run: recorded, resumed, repeated with force; on other data; of untrained encoders."""

import os
import signal

import numpy as np
import pytest

from skelbench.core.errors import Interrupted
from skelbench.evaluation.finetune_fit import Fit
from skelbench.evaluation.outcomes import predictions
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain

SHORT = {"epochs": 2, "min_steps": 0, "batch_size": 6, "val_share": 0.0}


@pytest.fixture
def run(session, resolved):
    """A run of DINO, whose encoder is a teacher that nothing trains."""
    return pretrain(session, resolved("dino", epochs=1))


def spec_of(host, run, protocol="finetune", config=(), **fields):
    return eval_spec(host, run, protocol, config=SHORT | dict(config), **fields)


@pytest.mark.parametrize("protocol", ["finetune", "supervised", "semi@1", "semi@10"])
def test_a_preset_shortens_only_unset_settings(host, resolved, protocol):
    """The full recipe of few clips would see more of them than the pre-training of a small preset."""
    quick, paper = resolved("untrained", preset="quick"), resolved("untrained")
    assert (quick.preset, paper.preset) == ("quick", "paper")
    full, short = (eval_spec(host, of, protocol).protocol_config for of in (paper, quick))
    assert (full["epochs"], full["min_steps"]) == (100, 500) and (short["epochs"], short["min_steps"]) == (10, 100)
    assert {**full, "epochs": 10, "min_steps": 100, "lr": 1e-3} == short
    asked = eval_spec(host, quick, protocol, config={"epochs": 100, "min_steps": 500, "lr": 3e-4})
    assert asked.protocol_config == full and asked.id != eval_spec(host, quick, protocol).id
    # A control is evaluated like its run, whatever its own preset.
    assert eval_spec(host, paper, protocol, like=quick).protocol_config == short
    assert eval_spec(host, quick, "linear").protocol_config == eval_spec(host, paper, "linear").protocol_config


def test_a_teacher_is_trained_from_either_start(session, host, run, monkeypatch):
    moved, train = {}, Fit.train_step

    def watched(self, view, batch):
        before = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        train(self, view, batch)
        moved.setdefault(self.settings.trained, []).append(
            {name for name, p in self.model.named_parameters() if not (p == before[name]).all()}
        )

    monkeypatch.setattr(Fit, "train_step", watched)
    for protocol in ("finetune", "supervised"):
        record = evaluate(session, run, spec_of(host, run, protocol))
        assert record["details"]["threads"] >= 1 and not list(run.path.glob("*.state"))
    assert moved[True][0] == moved[False][0] and any(name.startswith("encoder.tokenizer") for name in moved[True][0])


def test_a_stopped_finetuning_resumes_and_force_restarts_it(session, host, run, monkeypatch):
    spec, steps, train = spec_of(host, run), [], Fit.train_step

    def stop_at_two(self, view, batch):
        steps.append(self.step)
        if self.step == 2 and len(steps) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        train(self, view, batch)

    monkeypatch.setattr(Fit, "train_step", stop_at_two)
    with pytest.raises(Interrupted):
        evaluate(session, run, spec)
    (state,) = run.path.glob(f"eval-{spec.id}.state")
    content = state.read_bytes()
    record = evaluate(session, run, spec)
    assert steps == [0, 1, 2, 3] and not state.exists()
    before = predictions(run, record)["predicted"]
    state.write_bytes(content)
    again = evaluate(session, run, spec, force=True)
    assert steps == [0, 1, 2, 3] + [0, 1, 2, 3] and not state.exists()
    assert np.array_equal(predictions(run, again)["predicted"], before) and again["metrics"] == record["metrics"]
