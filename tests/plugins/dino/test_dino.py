"""DINO: every teacher view with every student view but itself."""

import pytest
import torch
from literal_prototypes import class_loss, one_by_one

from skelbench.training.build import view_specs
from skelbench.views.augmentations import BoneScale, Mirror, Rotate
from skelbench.views.crops import Free


def scrambled(method):
    """The method with a teacher unlike its student and a center that is not zero."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in method.teacher.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        for name, buffer in method.named_buffers():
            if name.endswith("center"):
                buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator))
    return method


@pytest.mark.parametrize("locals_", [0, 3])
def test_loss_is_the_mean_over_pairs_of_different_views(locals_, made):
    training = made(local_views=locals_)
    method, views, step = scrambled(training.method), training.views(0), training.step_info(0)
    every = [single for name in views for single in one_by_one(views[name])]
    assert len(every) == 2 + locals_
    with torch.no_grad():
        loss = method(views, step)["loss"]
        anchors = [method.teacher["encoder"](view).cls_RD for view in every[:2]]
        students = [method.encoder(view).cls_RD for view in every]
        pairs = [(g, v) for g in range(2) for v in range(len(every)) if g != v]
        expected = class_loss(anchors, students, pairs, method, temp=0.04)
    assert float(loss) == pytest.approx(float(expected), rel=1e-4)


def test_prototypes_are_frozen_at_first(made):
    training = made(freeze_prototypes=0.5)  # of 6 steps
    start = training.method.cl_head.prototype_direction.detach().clone()
    moved = []
    for step in range(4):
        training.train_step(step, training.views(step))
        moved.append(not torch.equal(training.method.cl_head.prototype_direction, start))
    assert moved == [False, False, False, True]


@pytest.mark.parametrize("tokens,frames", [(8, 16), (15, 32), (30, 32)])
def test_crops_follow_the_code(tokens, frames, resolved):
    views = view_specs(resolved("dino", tokens=tokens, local_views=8).spec)
    assert views.keys() == {"global", "local"}
    assert (views["global"].count, views["global"].crop) == (2, Free(lo=0.4, hi=1.0))
    assert (views["local"].count, views["local"].crop, views["local"].frames) == (8, Free(lo=0.05, hi=0.4), frames)
    for view in views.values():
        assert view.mask is None and view.augment == (Rotate(), Mirror(), BoneScale())


def test_the_recipe_equals_the_code(resolved):
    spec = resolved("dino", batch_size=None).spec
    train, schedule, config = spec.train, spec.schedule_config, spec.method_config
    assert (train.lr, schedule["min_lr"], schedule["warmup"]) == (1.5e-3, 1e-6, 0.1)
    assert (train.weight_decay, train.weight_decay_end, train.clip_grad) == (0.04, 0.4, 3.0)
    assert (config["momentum"], config["centering"], config["student_temp"]) == (0.996, "running", 0.1)
    assert config["teacher_temp_start"] == config["teacher_temp"] == 0.04
