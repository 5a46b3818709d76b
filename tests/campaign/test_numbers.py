"""A short part of the campaign: another kind of processor, the same numbers."""

import pytest
import torch
from small import write_small_store

from tests.campaign.numbers import LIMITS, deviations, measure, measured


@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() != "AVX512", reason="there is nothing to switch off")
def test_a_machine_with_older_instructions_agrees(tmp_path):
    write_small_store(tmp_path)
    here, there = measure(tmp_path, ["mamp"]), measured(tmp_path, ["mamp"], "AVX2")
    assert here["kind"] != there["kind"]
    assert {what: value for what, (value, _) in deviations(here, there).items() if value > LIMITS[what]} == {}


def test_a_deviation_is_seen():
    one, other = (
        {
            "loss": {"m": [1.0, loss]}, "features": {"m": [[1.0]]}, "untrained": {"m": [[1.0]]}, "cost": {"m": 5},
            "predicted": {"knn": [0, 1]}, "data": "a",
        }
        for loss in (2.0, 2.01)
    )  # fmt: skip
    assert deviations(one, other)["loss"] == (pytest.approx(0.005), "m")
    assert deviations(one, other | {"predicted": {"knn": [1, 1]}})["predictions"] == (0.5, "knn")
