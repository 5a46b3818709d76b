import copy
import pickle

import pytest
import torch
from torch import nn

from skelbench.models.ema import ema_copy, ema_update


@pytest.fixture
def student():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))


@pytest.mark.parametrize("again", [lambda x: x, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copy_stays_in_eval_mode_when_its_owner_trains(student, again):
    owner = again(nn.ModuleDict({"student": student, "teacher": ema_copy(student)}))
    owner.train()
    assert owner["student"].training and owner["student"][2].training
    assert not owner["teacher"].training and not any(module.training for module in owner["teacher"].modules())
    x = torch.randn(5, 3)
    assert torch.equal(owner["teacher"](x), owner["teacher"](x))


def test_update_follows_the_definition(student):
    teacher = ema_copy(student)
    expected = [parameter.clone() for parameter in teacher.parameters()]
    for _ in range(3):
        with torch.no_grad():
            for parameter in student.parameters():
                parameter.add_(torch.randn_like(parameter))
        student(torch.randn(8, 3))
        expected = [0.9 * old + 0.1 * new.detach() for old, new in zip(expected, student.parameters())]
        ema_update(teacher, student, 0.9)
    for mine, theirs in zip(teacher.parameters(), expected):
        torch.testing.assert_close(mine, theirs)
    for mine, theirs in zip(teacher.buffers(), student.buffers()):
        assert torch.equal(mine, theirs)
    assert teacher[1].num_batches_tracked == 3


def test_train_mode_copies_have_own_statistics_and_dropout(student):
    """It normalizes by the batch while its owner trains, and is neither overwritten nor averaged."""
    owner = nn.ModuleDict({"student": student, "teacher": ema_copy(student, mode="train")})
    teacher, x = owner["teacher"], torch.randn(8, 3)
    owner.train()
    assert all(part.training for part in teacher) and not torch.equal(teacher(x), teacher(x))
    torch.testing.assert_close(teacher[:2](x).mean(0), torch.zeros(4), atol=1e-6, rtol=0)
    before = {name: value.clone() for name, value in teacher.named_buffers()}
    student(3 * x), student(x)
    ema_update(teacher, student, 0.5)
    assert all(torch.equal(value, before[name]) for name, value in teacher.named_buffers())
    assert (teacher[1].num_batches_tracked, student[1].num_batches_tracked) == (3, 2)
    owner.eval()
    assert not any(part.training for part in teacher) and torch.equal(teacher(x), teacher(x))
