from types import SimpleNamespace

import pytest
import torch
from torch import nn

from skelbench.evaluation.cost.latency import latency, peak_memory
from skelbench.views.view import View


class Watching(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.calls = []

    def forward(self, view):
        self.calls.append((view.clips, self.training, torch.is_inference_mode_enabled()))
        return self.layer(view.x_RTJC)


def test_latency_runs_in_evaluation_mode_and_records_its_conditions(monkeypatch):
    encoder, clock = Watching().train(), iter([0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 50] * 2)  # s
    monkeypatch.setattr("skelbench.evaluation.cost.latency.time", SimpleNamespace(perf_counter=clock.__next__))
    results = latency(encoder, lambda batch: View.of(torch.zeros(batch, 1, 2, 5, 3)), (1, 4), warmup=2, repeats=5)
    assert encoder.calls == [(1, False, True)] * 7 + [(4, False, True)] * 7
    assert encoder.training
    for result, batch in zip(results, (1, 4), strict=True):
        assert result.batch == batch and result.device == "cpu" and result.threads == torch.get_num_threads()
        assert (result.median_ms, result.iqr_ms) == (3000, 2000) and result.clips_per_s == pytest.approx(batch / 3)


def test_peak_memory_counts_simultaneous_tensors():
    """Three tensors of 4 MB are made, two live at once; views and what was there before take nothing."""
    mega = 2**20
    before = torch.zeros(mega)

    def fn():
        first = before + 1
        second = first.view(2, -1)[0] * torch.ones(())  # half the size
        del first, second
        third = before * 2
        return third.add_(1).view(-1, 2)

    assert peak_memory(fn, "cpu").bytes == pytest.approx(6 * mega, abs=64)
    assert peak_memory(lambda: before.view(2, -1), "cpu").bytes == 0
    with torch.inference_mode():
        assert peak_memory(lambda: torch.ones(3 * mega).sum(), "cpu").bytes == pytest.approx(12 * mega, abs=64)
