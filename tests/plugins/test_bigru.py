import official
import pytest
import torch
from skelbench_plugins.bigru import BiGRU, BiGRUConfig
from torch import nn

from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

T, H = 6, 8


def encoder(topology=NTU25, **settings):
    made = BiGRU(BiGRUConfig(**{"hidden": H} | settings), topology, Grid(T, 1, topology.num_joints))
    with torch.no_grad():
        for k, parameter in enumerate(made.parameters()):
            gain = float(parameter is getattr(made.input_norm, "weight", None))
            parameter.copy_(torch.from_numpy(gain + 0.3 * official.wave(parameter.shape, k)))
    return made


def view(clips=3, joints=25, bodies=2):
    x_BMTJC = official.clip(clips, T, joints)[:, :bodies]
    return View.of(x_BMTJC, x_BMTJC.flatten(2).any(2))


def one_after_the_other(made, x_BTL):
    """The public code's method: PyTorch's bidirectional GRU, fed one frame at a time, with its states kept."""
    gru = nn.GRU(x_BTL.shape[2], H, made.config.depth, batch_first=True, bidirectional=True)
    for side, end in ((made.first, ""), (made.second, "_reverse")):
        for layer, own in enumerate(side):
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                setattr(gru, f"{name}_l{layer}{end}", getattr(own, f"{name}_l0"))
    state, seen = None, []
    for t in range(x_BTL.shape[1]):
        out, state = gru(x_BTL[:, t : t + 1], state)
        seen.append(out)
    return torch.cat(seen, 1), gru


@pytest.mark.parametrize("input_norm", [True, False])
def test_features_and_gradients_equal_frame_by_frame_recurrence(input_norm):
    made, batch = encoder(input_norm=input_norm), view()
    x_BTL = torch.zeros(3, T, 150)
    for b, m, t, j, c in torch.cartesian_prod(*map(torch.arange, (3, 2, T, 25, 3))).tolist():
        x_BTL[b, t, (3 * j + c) * 2 + m] = batch.x_BMTJC[b, m, t, j, c]
    if input_norm:
        mean_L, var_L = x_BTL.mean((0, 1)), x_BTL.var((0, 1), correction=0)
        x_BTL = (x_BTL - mean_L) / (var_L + 1e-5).sqrt() * made.input_norm.weight + made.input_norm.bias
    expected_BTH, _ = one_after_the_other(made, x_BTL)
    weight_BH = torch.from_numpy(official.wave((3, 2 * H), 1)).float()
    (expected_BTH[:, -1] * weight_BH).sum().backward()
    gradients = [parameter.grad.clone() for parameter in made.parameters()]
    made.zero_grad()
    encoded = made(batch)
    (encoded.pooled_RD * weight_BH).sum().backward()
    assert encoded.per_clip and encoded.tokens_RND.shape == (3, T, 2 * H)
    torch.testing.assert_close(encoded.pooled_RD, expected_BTH[:, -1], atol=1e-5, rtol=1e-4)
    for found, expected in zip(made.parameters(), gradients):
        torch.testing.assert_close(found.grad, expected, atol=1e-5, rtol=1e-3)


GOLDEN = {
    "train": [-0.1876303, -0.0028812, -0.0699006, -0.4404715, -0.1733776, -0.0526722, -0.0962464, -0.4307525],
    "eval": [-0.3373094, 0.0100322, -0.1940092, -0.3829054, -0.3239501, 0.0121281, -0.1787833, -0.3893042],
}


@pytest.mark.parametrize("mode", GOLDEN)
def test_features_of_the_public_code(mode):
    """Made by running maoyunyao/CMD (commit 6e9a8ac), ``moco.GRU.BIGRU`` with these weights, on these clips."""
    with torch.no_grad():
        found = getattr(encoder(), mode)()(view()).pooled_RD
    assert found[::2, ::5].flatten().tolist() == pytest.approx(GOLDEN[mode], abs=2e-6)


def test_a_backward_second_gru_is_a_bidirectional_one():
    made, batch = encoder(second="backward", input_norm=False), view()
    x_BTL = batch.x_BMTJC.permute(0, 2, 3, 4, 1).flatten(2)
    gru = one_after_the_other(made, x_BTL[:, :1])[1]
    out_BTH, state_LBH = gru(x_BTL)
    encoded = made(batch)
    torch.testing.assert_close(encoded.tokens_RND, out_BTH, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(encoded.pooled_RD, torch.cat([state_LBH[-2], state_LBH[-1]], 1), atol=1e-5, rtol=1e-4)


def test_features_are_causal():
    made, batch = encoder().eval(), view()
    with torch.no_grad():
        later = batch.with_x(torch.where(torch.arange(T)[:, None, None] < 4, batch.x_RTJC, batch.x_RTJC + 1))
        now, then = made(batch).tokens_RND, made(later).tokens_RND
        short = made(batch.with_x(batch.x_RTJC[:, :4])).pooled_RD
    assert torch.equal(now[:, :4], then[:, :4]) and not torch.allclose(now[:, 4], then[:, 4])
    assert torch.allclose(short, now[:, 3], atol=1e-6)
