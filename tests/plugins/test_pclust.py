from dataclasses import replace

import official
import pytest
import torch
from skelbench_plugins.bigru import BiGRU, BiGRUConfig
from skelbench_plugins.pclust import PClust, PClustConfig
from torch import nn

from skelbench.methods import Context, Step
from skelbench.models.recurrent import unit_range
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

T, H = 6, 4
LENGTHS = (6, 6, 4, 3)
STEP = Step(0, 1, 0.0, torch.Generator(), lambda *_: None)


def make(bodies=0, **settings):
    """Encoder of the PyTorch code: three layers with two GRUs each, which both read forwards."""
    grid = Grid(T, 1, 25)

    def encoder():
        return BiGRU(BiGRUConfig(hidden=H, bodies=bodies, input_norm=False, unit_range=True), NTU25, grid)

    return official.fill(PClust(PClustConfig(**settings), Context(NTU25, grid, encoder, 2 * H, 2 * H)))


def padded(bodies=1):
    """Clips of 6, 6, 4 and 3 frames."""
    real_RT = torch.arange(T) < torch.tensor(LENGTHS)[:, None]
    x_BMTJC = official.clip(len(LENGTHS), T)[:, :bodies] * real_RT[:, None, :, None, None]
    return replace(View.of(x_BMTJC), real_RT=real_RT.repeat_interleave(bodies, 0))


FEATURES = [0.596313, 0.133366, 0.086832, 0.589602, 0.08009, 0.06768, 0.511217, 0.06661, 0.031834, 0.439756, 0.081697]
GOLDEN = {
    "fixed-weights": (84.018776, {
        "encoder.first.0.weight_ih_l0": (19.802965, [0.033892, -0.140995, 0.120831]),
        "encoder.second.2.weight_hh_l0": (2.368595, [-0.003943, 0.025339, 0.159377]),
        "decoder.gru.weight_hh_l0": (21.921162, [0.08302, 0.096508, 0.032684]),
        "decoder.out.weight": (13.007623, [0.914837, 0.873125, 0.492314]),
    }),
    "fixed-state": (185.810455, {
        "encoder.first.0.weight_ih_l0": (92.73568, [0.157832, -0.658879, 0.565685]),
        "encoder.second.2.weight_hh_l0": (17.970991, [-0.033641, 0.219194, 1.18952]),
        "decoder.gru.weight_hh_l0": (42.845982, [0.013241, 0.002118, 0.013963]),
        "decoder.out.weight": (76.11985, [1.842724, 1.134485, 0.321991]),
    }),
}  # fmt: skip
"""Made by running shlizee/Predict-Cluster, ``ucla_github_pytorch/PCNet.py``'s ``seq2seq`` of width 4 and the loss of
``trainPC.py`` once on the same weights and scaled clips: loss, norms of gradients and their numbers 10 to 12."""


@pytest.mark.parametrize("decoder", GOLDEN)
def test_features_loss_and_gradients_equal_the_public_code(decoder):
    faults = {"target": "same"} if decoder == "fixed-state" else {}
    method = make(decoder=decoder, count_padding=True, **faults)
    feature_RD = method.encoder(padded()).summary_RD
    assert feature_RD[:, ::3].flatten()[:11].tolist() == pytest.approx(FEATURES, abs=1e-5)
    out = method({"clip": padded()}, STEP)
    out["loss"].backward()
    loss, expected = GOLDEN[decoder]
    assert out["loss"].item() == pytest.approx(loss, rel=1e-5)
    gradients = {name: p.grad for name, p in method.named_parameters()}
    for name, (norm, values) in expected.items():
        assert gradients[name].norm().item() == pytest.approx(norm, rel=1e-4)
        assert gradients[name].flatten()[10:13].tolist() == pytest.approx(values, rel=1e-3, abs=2e-6)


def scaled(x_TJC):
    """Scaling of a clip in the notebook, coordinate by coordinate."""
    out = x_TJC.clone()
    for c in range(3):
        low, high = x_TJC[:, :, c].min(), x_TJC[:, :, c].max()
        out[:, :, c] = 2 * (x_TJC[:, :, c] - low) / (high - low) - 1
    return out


def test_the_loss_equals_the_notebook():
    """Fixed state: frame after frame from the feature and the previous output, compared with the next real frames."""
    method, view = make(), padded()
    feature_RD = method.encoder(view).summary_RD
    losses = []
    for r, length in enumerate(LENGTHS):
        x_TL = scaled(view.x_RTJC[r, :length]).flatten(1)
        frame_1L, error = x_TL[:1], 0.0
        for t in range(1, length):
            out_1D, _ = method.decoder.gru(frame_1L[None], feature_RD[r][None, None])
            frame_1L = frame_1L + method.decoder.out(out_1D[0])
            error += (frame_1L[0] - x_TL[t]).abs().sum()
        losses.append(error / (length - 1))
    expected = torch.stack(losses).mean()
    assert method({"clip": view}, STEP)["loss"].item() == pytest.approx(expected.item(), rel=1e-5)


def test_errors_of_fixed_weights_are_over_real_frames_only():
    method, view = make(decoder="fixed-weights"), padded()
    made_RTL = method.decoder(method.encoder(view).summary_RD, torch.zeros(4, T, 75))
    errors = [
        (made_RTL[r, :n] - scaled(view.x_RTJC[r, :n]).flatten(1)).abs().sum(1).mean() for r, n in enumerate(LENGTHS)
    ]
    assert method({"clip": view}, STEP)["loss"].item() == pytest.approx(torch.stack(errors).mean().item(), rel=1e-5)


def test_constant_coordinates_and_padding_are_zero():
    x_RTJC = official.clip(2, T)[:, 0]
    x_RTJC[..., 2] = 7.0
    real_RT = torch.arange(T) < torch.tensor([[T], [2]])
    found = unit_range(x_RTJC, real_RT)
    assert not found[..., 2].any() and not found[1, 2:].any()
    assert found[0, :, :, :2].amin((0, 1)).tolist() == [-1, -1] and found[1, :2, :, :2].amax((0, 1)).tolist() == [1, 1]


def test_padding_is_not_seen_in_either_direction():
    """PyTorch's own bidirectional GRU over packed sequences, for each body alone and for bodies side by side."""
    for bodies in (0, 2):
        grid = Grid(T, 1, 25)
        encoder = BiGRU(BiGRUConfig(hidden=H, depth=2, bodies=bodies, input_norm=False, second="backward"), NTU25, grid)
        official.fill(encoder)
        view = padded(max(1, bodies))
        gru = nn.GRU(75 * max(1, bodies), H, 2, batch_first=True, bidirectional=True)
        for side, end in ((encoder.first, ""), (encoder.second, "_reverse")):
            for layer, own in enumerate(side):
                for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                    setattr(gru, f"{name}_l{layer}{end}", getattr(own, f"{name}_l0"))
        x_BTL = view.x_BMTJC.permute(0, 2, 3, 4, 1).flatten(2)
        packed = nn.utils.rnn.pack_padded_sequence(x_BTL, torch.tensor(LENGTHS), batch_first=True)
        _, state = gru(packed)
        found = encoder(view).pooled_RD
        torch.testing.assert_close(found, torch.cat([state[-2], state[-1]], 1), atol=1e-6, rtol=1e-5)
        noisy = view.with_x(torch.where(view.real_RT[:, :, None, None], view.x_RTJC, 9.0))
        torch.testing.assert_close(encoder(noisy).pooled_RD, found, atol=1e-6, rtol=1e-5)
