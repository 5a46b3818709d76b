import math
from dataclasses import replace

import pytest
import torch

from skelbench.models.schedule import cosine
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.views.masks import visible_tokens
from skelbench.views.motion import motion_masks

STILL = {"vertical_deg": 0.0, "mirror_p": 0.0, "shift": 0.0}


def test_the_target_is_the_same_interval_untransformed(made):
    views, still = made().views(0), made(**STILL).views(0)
    assert torch.equal(views["student"].rows_R, views["target"].rows_R)
    torch.testing.assert_close(views["target"].x_RTJC, still["student"].x_RTJC)
    torch.testing.assert_close(still["target"].x_RTJC, still["student"].x_RTJC)
    moved = (views["student"].x_RTJC - views["target"].x_RTJC).abs().amax((1, 2, 3))
    assert (moved > 0.005).all()


def softmax(values):
    powers = [math.exp(value - max(values)) for value in values]
    return [power / sum(powers) for power in powers]


def test_loss_is_the_formula_over_the_hidden_tokens(made):
    training = made()
    method, views, step = training.method, training.views(0), training.step_info(0)
    method.centre.centre.copy_(torch.randn(16))
    student, target = views["student"], views["target"]
    u_RN = step.uniform(student.keys_R, 100)
    mask_RN, keep_RK = motion_masks(student.x_RTJC, u_RN, 8, visible_tokens(100, 0.9, "int"), 0.8)
    with torch.no_grad():
        loss = float(method(views, step)["loss"])
        target_RND = method.teacher(target).tokens_RND.double().tolist()
        guess_RND = method.predictor(method.encoder(student, keep_RK=keep_RK).tokens_RND, keep_RK).double().tolist()
    centre, terms = method.centre.centre.tolist(), []
    for r, n in mask_RN.nonzero().tolist():
        share = softmax([(t - c) / 0.06 for t, c in zip(target_RND[r][n], centre)])
        guess = softmax([p / 0.1 for p in guess_RND[r][n]])
        terms.append(-sum(s * math.log(g) for s, g in zip(share, guess)))
    assert len(terms) == 91 * student.rows
    assert loss == pytest.approx(sum(terms) / len(terms), rel=1e-4)


def perturbed(view, mask_RN):
    """``view`` with other coordinates where ``mask_RN`` says so (patches of 8 frames)."""
    where_RTJ = mask_RN.unflatten(1, (4, 25)).repeat_interleave(8, 1)
    return replace(view, x_RTJC=view.x_RTJC + 0.3 * where_RTJ.unsqueeze(-1))


def test_the_target_encoder_reads_what_the_student_cannot_see(made):
    """Masking at its output: hidden coordinates of the target view count, those of the student's view do not."""
    training = made(tau=0.0)  # a uniform mask does not depend on the coordinates
    method, views, step = training.method.eval(), training.views(0), training.step_info(0)
    u_RN = step.uniform(views["student"].keys_R, 100)
    mask_RN, _ = motion_masks(views["student"].x_RTJC, u_RN, 8, 9, 0.0)
    with torch.no_grad():
        loss = float(method(views, step)["loss"])
        unseen = float(method(views | {"student": perturbed(views["student"], mask_RN)}, step)["loss"])
        seen = float(method(views | {"target": perturbed(views["target"], mask_RN)}, step)["loss"])
        around = float(method(views | {"target": perturbed(views["target"], ~mask_RN)}, step)["loss"])
    assert unseen == loss
    assert abs(seen - loss) > 1e-3 and abs(around - loss) > 1e-3


def test_teacher_and_centre_follow_by_moving_averages(made):
    training = made(momentum=0.9)
    method, total = training.method, training.total
    teacher = [p.clone() for p in method.teacher.parameters()]
    centre = torch.zeros(16)
    for step in range(3):
        views = training.views(step)
        with torch.no_grad():
            seen_nD = method.teacher(views["target"]).tokens_RND.flatten(0, 1)
        training.train_step(step, views)
        momentum = cosine(0.9, 1.0, step / total)
        teacher = [momentum * old + (1 - momentum) * new for old, new in zip(teacher, method.encoder.parameters())]
        centre = 0.9 * centre + 0.1 * seen_nD.mean(0)
    for mine, theirs in zip(method.teacher.parameters(), teacher):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(method.centre.centre, centre)
    assert method.inference_encoder() is method.teacher


def test_a_shorter_schedule_has_a_faster_teacher(host, data_root):
    """1 - momentum times the steps of the schedule is what a teacher can move in all."""
    native, shared = (
        resolve(Request("sjepa", dataset="small", preset="paper", native=native), host, data_root, "cpu").spec
        for native in (True, False)
    )
    assert (native.train.epochs, shared.train.epochs) == (1200, 150)
    moves = [spec.train.epochs * (1 - spec.method_config["momentum"]) for spec in (native, shared)]
    assert moves[0] == pytest.approx(moves[1])
