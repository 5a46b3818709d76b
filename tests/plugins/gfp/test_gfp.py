from dataclasses import replace

import pytest
import torch
from skelbench_plugins.gfp.vicreg import spread

from skelbench.views.masks import visible_tokens
from skelbench.views.motion import motion_masks


def mask(training, view, tau=0.8):
    """mask_RN and keep_RK of step 0."""
    u_RN = training.step_info(0).uniform(view.keys_R, 100)
    return motion_masks(view.x_RTJC, u_RN, 8, visible_tokens(100, 0.9, "int"), tau)


@pytest.mark.parametrize("channels", ["mean", "sum"])
@pytest.mark.parametrize("stride", [None, 1])
def test_loss_is_the_formula_output_by_output(made, channels, stride):
    training = made(prediction_channels=channels, motion_stride=stride, gamma=0.5)
    method, view = training.method, training.views(0)["clip"]
    _, keep_RK = mask(training, view)
    with torch.no_grad():
        out = method({"clip": view}, training.step_info(0))
        predicted = method.decoder(method.encoder(view, keep_RK=keep_RK).tokens_RND, keep_RK)
        motion_RTJC = torch.zeros_like(view.x_RTJC)
        for t in range(32 - (stride or 8)):
            motion_RTJC[:, t] = view.x_RTJC[:, t + (stride or 8)] - view.x_RTJC[:, t]
        targets = method.targets(motion_RTJC)
    terms = []
    for level_p, level_t in zip(predicted, targets):
        for p, t in zip(level_p.flatten(0, 1).tolist(), level_t.flatten(0, 1).tolist()):
            squared = sum((a - b) ** 2 for a, b in zip(p, t))
            terms.append(squared / 16 if channels == "mean" else squared)
    prediction = sum(terms) / len(terms)
    assert len(terms) == view.rows * (4 * 25 + 3 * 25 + 25 + 1)  # four temporal tokens have at most four windows
    spreads = [spread(t.flatten(0, 1), 0.5) for t in targets]
    assert out["prediction"].item() == pytest.approx(prediction, rel=1e-4)
    loss = 5 * prediction + sum(5 * float(s.covariance) + float(s.variance) for s in spreads)
    assert out["loss"].item() == pytest.approx(loss, rel=1e-4)
    assert out["target_std"].item() == pytest.approx(sum(float(s.std) for s in spreads) / 4)


def test_targets_see_the_whole_motion_and_the_encoder_only_visible_tokens(made):
    training = made(tau=0.0)
    method, view = training.method, training.views(0)["clip"]
    mask_RN, _ = mask(training, view, 0.0)
    where_RTJ = mask_RN.unflatten(1, (4, 25)).repeat_interleave(8, 1).unsqueeze(-1)
    noise_RTJC = torch.randn(view.x_RTJC.shape, generator=torch.Generator().manual_seed(0))
    seen = {}
    method.decoder.register_forward_hook(lambda module, args, out: seen.update(predicted=out))
    method.targets.register_forward_hook(lambda module, args, out: seen.update(targets=out))

    def outputs(x_RTJC):
        with torch.no_grad():
            method({"clip": replace(view, x_RTJC=x_RTJC)}, training.step_info(0))
        return seen["predicted"], seen["targets"]

    plain, hidden_moved = outputs(view.x_RTJC), outputs(view.x_RTJC + where_RTJ * noise_RTJC)
    assert all(torch.equal(a, b) for a, b in zip(plain[0], hidden_moved[0]))
    assert all((a - b).abs().amax((1, 2)).min() > 1e-3 for a, b in zip(plain[1], hidden_moved[1]))
    elsewhere = outputs(view.x_RTJC + torch.tensor([1.0, 2.0, 3.0]))
    for a, b in zip(plain[1], elsewhere[1]):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)  # motion, not place
