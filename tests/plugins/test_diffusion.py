import math

import pytest
import torch
from literal_vit import attention, feed_forward, layer_norm, linear, randomized
from skelbench_plugins._diffusion_decoder import DiffusionDecoder, NoiseSchedule, cumulative_alphas, time_features

from skelbench.models.tokenizer import patchify
from skelbench.views.skeleton.grid import Grid

GRID = Grid(12, 4, 5)
KEEP_RK = torch.tensor([[1, 6, 14], [0, 2, 9]])
STEP_R, INFORMED_R = torch.tensor([3, 871]), torch.tensor([True, False])


@pytest.fixture
def decoder():
    torch.manual_seed(0)
    return randomized(DiffusionDecoder(dim_in=12, dim=16, depth=2, heads=2, grid=GRID, time_width=6))


@pytest.mark.parametrize(
    ("tau", "first", "middle", "last"),
    [
        (1.0, 0.9980412842248219, 0.5061564095593633, 0.001997571233092966),
        (0.0, 0.999, 0.5, 0.001),
        (-1.0, 0.999958715775178, 0.4938435904406382, 2.4287669070348544e-06),
    ],
)
def test_schedules_equal_the_official_code(tau, first, middle, last):
    """Numbers of get_named_beta_schedule at Wenrui-Shen/MacDiff 692888f: inverse cosine, linear power, cosine."""
    alphas = cumulative_alphas(1000, tau)
    assert (alphas[0], alphas[499], alphas[998]) == pytest.approx((first, middle, last), rel=1e-12)
    assert alphas[999] == pytest.approx(0.001 * last)


def test_noise_keeps_the_power_and_each_row_has_its_own_time():
    schedule, alphas = NoiseSchedule(50), cumulative_alphas(50)
    x, noise = torch.randn(2, 3, 4, 2, 3)
    out = schedule(x, noise, torch.tensor([0, 31, 49]))
    for row, step in enumerate((0, 31, 49)):
        expected = math.sqrt(alphas[step]) * x[row] + math.sqrt(1 - alphas[step]) * noise[row]
        torch.testing.assert_close(out[row], expected)
    assert not schedule.state_dict()  # a setting, not a state


def test_time_features_by_loops():
    features = time_features(torch.tensor([0, 7, 999]), 6)
    for row, step in enumerate((0, 7, 999)):
        angles = [step / 10000 ** (i / 3) for i in range(3)]
        expected = [math.cos(a) for a in angles] + [math.sin(a) for a in angles]
        assert features[row].tolist() == pytest.approx(expected, abs=1e-4)


def test_five_blocks_have_the_published_number_of_parameters():
    """5.62 million in the official code."""
    decoder = DiffusionDecoder(256, 256, 5, 8, grid=Grid(120, 4, 25))
    assert sum(parameter.numel() for parameter in decoder.parameters()) == 5_618_444


def test_forward_written_out_token_by_token(decoder):
    noisy_RTJC, tokens_RKZ = torch.randn(2, 12, 5, 3), torch.randn(2, 3, 12)
    out = decoder(noisy_RTJC, tokens_RKZ, KEEP_RK, STEP_R, INFORMED_R)
    state = {name: value.detach().double() for name, value in decoder.state_dict().items()}

    def modulated(name, x_ND, z_NZ, t_E):
        z, t = linear(state, f"{name}.fc_z", z_NZ), linear(state, f"{name}.fc_t", t_E)
        scaled = t[:16] * layer_norm(state, f"{name}.norm", x_ND, 1e-5) + t[16:]
        return z[:, :16] * scaled + z[:, 16:]

    for row in range(2):
        tokens_KZ = tokens_RKZ[row].double()
        z = []
        for n in range(GRID.tokens):
            visible = KEEP_RK[row].tolist()
            found = tokens_KZ[visible.index(n)] if n in visible else tokens_KZ.mean(0)
            z.append(found if INFORMED_R[row] else torch.zeros(12, dtype=torch.float64))
        z, t = torch.stack(z), time_features(STEP_R[row : row + 1], 6)[0].double()
        x = linear(state, "tokenizer.project", patchify(noisy_RTJC[row : row + 1], 4)[0].double())
        for n in range(GRID.tokens):
            x[n] += state["tokenizer.time_embed"][n // 5] + state["tokenizer.joint_embed"][n % 5]
        for l in range(2):
            x = x + attention(state, f"blocks.{l}.attn", modulated(f"blocks.{l}.norm1", x, z, t), 2, None, 1.0)
            x = x + feed_forward(state, f"blocks.{l}.mlp", modulated(f"blocks.{l}.norm2", x, z, t), "gelu")
        expected = linear(state, "predict", layer_norm(state, "norm", x, 1e-5))
        torch.testing.assert_close(out[row].double(), expected, rtol=1e-3, atol=1e-4)
