import pytest
import torch
from literal_vit import linear, run_blocks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from skelbench.nn.decoder import MaskedDecoder
from skelbench.skeleton.grid import Grid

GRID = Grid(12, 4, 5)


@pytest.fixture
def decoder():
    torch.manual_seed(0)
    decoder = MaskedDecoder(dim_in=12, dim=16, depth=2, heads=2, grid=GRID, out_dim=7)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return decoder


def test_five_blocks_have_the_published_number_of_parameters():
    decoder = MaskedDecoder(256, 256, 5, 8, Grid(120, 4, 25), 12)
    assert sum(parameter.numel() for parameter in decoder.parameters()) == 4_032_524


def test_forward_is_mae_written_out(decoder):
    keep_RK = torch.tensor([[1, 6, 14], [0, 2, 9]])
    tokens_RKD = torch.randn(2, 3, 12)
    out = decoder(tokens_RKD, keep_RK)
    state = {name: value.detach().double() for name, value in decoder.state_dict().items()}
    for row in range(2):
        z = []
        for n in range(GRID.tokens):
            content = state["mask_token"][0]
            if n in keep_RK[row]:
                place = keep_RK[row].tolist().index(n)
                content = linear(state, "embed", tokens_RKD[row, place].double())
            z.append(content + state["time_embed"][n // 5] + state["joint_embed"][n % 5])
        expected = linear(state, "predict", run_blocks(state, decoder.config, torch.stack(z), None))
        torch.testing.assert_close(out[row].double(), expected, rtol=1e-4, atol=1e-4)


def test_gradients_reach_every_parameter_and_the_encoder(decoder):
    tokens_RKD = torch.randn(2, 3, 12, requires_grad=True)
    decoder(tokens_RKD, torch.tensor([[1, 6, 14], [0, 2, 9]])).square().sum().backward()
    assert tokens_RKD.grad.any()
    assert [name for name, p in decoder.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_bfloat16_stays_finite_and_near(decoder):
    keep_RK, tokens_RKD = torch.tensor([[1, 6, 14]]), torch.randn(1, 3, 12)
    exact = decoder(tokens_RKD, keep_RK)
    with torch.autocast("cpu", torch.bfloat16):
        rough = decoder(tokens_RKD, keep_RK)
    assert (rough.float() - exact).norm() < 0.05 * exact.norm()


def test_closed_form_equals_the_operators_that_run():
    with torch.device("meta"):
        decoder = MaskedDecoder(12, 16, 2, 2, GRID, 7)
        tokens, keep = torch.empty(1, 3, 12), torch.empty(1, 3, dtype=torch.int64)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        decoder(tokens, keep)
    assert sum(decoder.closed_form_macs(3).values()) == counter.get_total_flops() / 2
    with torch.device("meta"):
        published = MaskedDecoder(256, 256, 5, 8, Grid(120, 4, 25), 12).closed_form_macs(74)
    # 17.59 GFLOPs for two bodies, two operations per multiply-accumulate.
    assert 4 * sum(published.values()) / 1e9 == pytest.approx(17.59, abs=0.01)
