"""The number of threads that a run trains with: tried before it, kept by a resumed run, left to who names one."""

import pytest
import torch
from safetensors.torch import load_file

from skelbench.core import threads
from skelbench.pipeline import pretrain as module
from skelbench.pipeline.pretrain import pretrain


@pytest.fixture
def trials(monkeypatch):
    """Two cores and no number named; what is tried takes place, and finds one thread best. Returns the trials."""
    seen = []

    def one(work):
        work()
        seen.append(torch.get_num_threads())
        torch.set_num_threads(1)
        return 1

    monkeypatch.setattr(module, "_settled", None)
    torch.set_num_threads(2)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(module, "usable_cores", lambda: 2)
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    monkeypatch.setattr(module, "fastest_threads", one)
    return seen


def test_timing_trials_do_not_change_the_training(resolved, session, trials, monkeypatch):
    made = resolved("longt-gan", epochs=1)
    run = pretrain(session, made)
    assert trials == [2] and run.info["environment"]["threads"] == 1
    tried = load_file(run.encoder_path())
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    again = load_file(pretrain(session, made, force=True).encoder_path())
    assert trials == [2]
    assert all(torch.equal(value, again[name]) for name, value in tried.items())


def test_a_resumed_run_keeps_its_number_of_threads(resolved, session, trials):
    made = resolved("mamp", epochs=1)
    run = pretrain(session, made)
    run.update(outcome="interrupted")
    torch.set_num_threads(2)
    assert pretrain(session, made).outcome == "done" and trials == [2]
    assert torch.get_num_threads() == run.info["environment"]["threads"] == 1
