"""Schedules of self-distillation."""

import pytest
import torch

from skelbench.methods import PrototypeSettings
from skelbench.methods.contract import Step


def step(index, total=10):
    return Step(index, total, 0.0, torch.Generator(), None)


@pytest.mark.parametrize("warmup, expected", [(0.0, [0.07, 0.07, 0.07]), (0.5, [0.04, 0.046, 0.07])])
def test_teacher_temperature_follows_its_warm_up(warmup, expected):
    config = PrototypeSettings(teacher_temp_start=0.04, teacher_temp=0.07, teacher_temp_warmup=warmup)
    assert [config.teacher_temp_at(step(index)) for index in (0, 1, 9)] == pytest.approx(expected)
