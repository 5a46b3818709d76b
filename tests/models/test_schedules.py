import math

import pytest

from skelbench.models.optim.schedules import Constant, Cosine, StepDecay
from skelbench.plugin.host import get_host


def test_step_decay_drops_at_its_milestones_after_a_warm_up():
    schedule = StepDecay(milestones=(0.5, 0.8), gamma=0.1, warmup=0.1)
    rates = [schedule.lr(1.0, step, 20) for step in range(20)]
    assert rates[:2] == [0.5, 1.0] and rates[2:10] == [1.0] * 8
    assert rates[10:16] == pytest.approx([0.1] * 6) and rates[16:] == pytest.approx([0.01] * 4)


def test_a_shorter_schedule_keeps_its_shape():
    for schedule in (StepDecay(), Cosine(min_lr=0.0, warmup=0.0), Constant()):
        whole = [schedule.lr(1.0, step, 300) for step in range(0, 300, 10)]
        assert whole == pytest.approx([schedule.lr(1.0, step, 30) for step in range(30)])


def test_cosine_is_the_formula():
    schedule = Cosine(warmup=0.2, min_lr=1e-4)
    assert schedule.lr(1e-2, 0, 100) == pytest.approx(1e-2 / 20) and schedule.lr(1e-2, 19, 100) == 1e-2
    assert schedule.lr(1e-2, 60, 100) == pytest.approx(1e-4 + (1e-2 - 1e-4) * (1 + math.cos(math.pi * 0.5)) / 2)


def test_shipped_schedules_are_found_by_name():
    assert get_host().find("schedules", "step") is StepDecay and get_host().find("optimizers", "sgd").kind == "sgd"
