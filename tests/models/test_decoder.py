import pytest
import torch
from literal_vit import linear, randomized, run_blocks

from skelbench.models.decoder import MaskedDecoder
from skelbench.views.skeleton.grid import Grid

GRID = Grid(12, 4, 5)


@pytest.fixture
def decoder():
    torch.manual_seed(0)
    return randomized(MaskedDecoder(dim_in=12, dim=16, depth=2, heads=2, grid=GRID, out_dim=7))


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
