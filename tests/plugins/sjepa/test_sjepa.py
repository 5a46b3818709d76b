"""S-JEPA: its loss token by token, its target, and what follows by moving averages."""

import math

import pytest
import torch
from skelbench_plugins.sjepa.channel_loss import channel_cross_entropy

from skelbench.models.schedule import cosine
from skelbench.views.masks import visible_tokens
from skelbench.views.motion import motion_masks

TEMPS = {"target_temp": 0.06, "predicted_temp": 0.1}


def softmax(values):
    powers = [math.exp(value - max(values)) for value in values]
    return [power / sum(powers) for power in powers]


def slow(predicted, target, center, target_temp, predicted_temp):
    shares = softmax([(t - c) / target_temp for t, c in zip(target, center)])
    guesses = softmax([p / predicted_temp for p in predicted])
    return -sum(share * math.log(guess) for share, guess in zip(shares, guesses))


def test_the_loss_is_the_formula_token_by_token():
    torch.manual_seed(0)
    predicted, target, center = torch.randn(2, 5, 7), torch.randn(2, 5, 7), torch.randn(7)
    out = channel_cross_entropy(predicted.double(), target.double(), center.double(), **TEMPS)
    expected = [
        [slow(p, t, center.tolist(), 0.06, 0.1) for p, t in zip(*rows)]
        for rows in zip(predicted.tolist(), target.tolist())
    ]
    torch.testing.assert_close(out, torch.tensor(expected, dtype=torch.float64))


def test_the_gradient_is_the_difference_of_the_distributions_and_stops_at_the_target():
    predicted, target, center = (torch.randn(3, 6, requires_grad=True) for _ in range(3))
    channel_cross_entropy(predicted, target, center[0], **TEMPS).sum().backward()
    difference = (predicted / 0.1).softmax(-1) - ((target - center[0]) / 0.06).softmax(-1)
    torch.testing.assert_close(predicted.grad, difference / 0.1)
    assert target.grad is None and center.grad is None


STILL = {"vertical_deg": 0.0, "mirror_p": 0.0, "shift": 0.0}


def test_the_target_is_the_same_interval_untransformed(made):
    views, still = made().views(0), made(**STILL).views(0)
    assert torch.equal(views["student"].rows_R, views["target"].rows_R)
    torch.testing.assert_close(views["target"].x_RTJC, still["student"].x_RTJC)
    torch.testing.assert_close(still["target"].x_RTJC, still["student"].x_RTJC)
    moved = (views["student"].x_RTJC - views["target"].x_RTJC).abs().amax((1, 2, 3))
    assert (moved > 0.005).all()


def test_loss_is_the_formula_over_the_masked_tokens(made):
    training = made()
    method, views, step = training.method, training.views(0), training.step_info(0)
    method.center.center.copy_(torch.randn(16))
    student, target = views["student"], views["target"]
    u_RN = step.uniform(student.keys_R, 100)
    mask_RN, keep_RK = motion_masks(student.x_RTJC, u_RN, 8, visible_tokens(100, 0.9, "int"), 0.8)
    with torch.no_grad():
        loss = float(method(views, step)["loss"])
        target_RND = method.teacher(target).tokens_RND.double().tolist()
        guess_RND = method.predictor(method.encoder(student, keep_RK=keep_RK).tokens_RND, keep_RK).double().tolist()
    center, terms = method.center.center.tolist(), []
    for r, n in mask_RN.nonzero().tolist():
        terms.append(slow(guess_RND[r][n], target_RND[r][n], center, **TEMPS))
    assert len(terms) == 91 * student.rows
    assert loss == pytest.approx(sum(terms) / len(terms), rel=1e-4)


def test_teacher_and_center_follow_by_moving_averages(made):
    training = made(momentum=0.9)
    method, total = training.method, training.total
    teacher = [p.clone() for p in method.teacher.parameters()]
    center = torch.zeros(16)
    for step in range(3):
        views = training.views(step)
        with torch.no_grad():
            seen_nD = method.teacher(views["target"]).tokens_RND.flatten(0, 1)
        training.train_step(step, views)
        momentum = cosine(0.9, 1.0, step / total)
        teacher = [momentum * old + (1 - momentum) * new for old, new in zip(teacher, method.encoder.parameters())]
        center = 0.9 * center + 0.1 * seen_nD.mean(0)
    for mine, theirs in zip(method.teacher.parameters(), teacher):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(method.center.center, center)
    assert method.inference_encoder() is method.teacher
