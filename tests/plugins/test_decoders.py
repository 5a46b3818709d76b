"""Requirements of every decoder."""

import pytest
import torch
from literal_vit import randomized
from skelbench_plugins._diffusion_decoder import DiffusionDecoder
from skelbench_plugins.amr.query import QueryDecoder
from skelbench_plugins.gfp.pyramid import PyramidDecoder

from skelbench.models.decoder import MaskedDecoder
from skelbench.views.skeleton.grid import Grid

GRID = Grid(24, 4, 5)
KEEP_RK = torch.tensor([[1, 6, 14], [0, 2, 9]])
SIZES = {"dim_in": 12, "dim": 16, "depth": 2, "heads": 2, "grid": GRID}
DECODERS = {
    "masked": (MaskedDecoder, {"out_dim": 7}),
    "pyramid": (PyramidDecoder, {"out_dim": 7, "counts": (3, 2, 1)}),
    "query": (QueryDecoder, {"out_dim": 7, "ratio": 4}),
    "diffusion": (DiffusionDecoder, {"time_width": 6}),
}


@pytest.fixture(params=DECODERS)
def decode(request):
    """``decode(tokens_RKD)``: all outputs side by side; ``decode.module`` the decoder, every parameter random."""
    torch.manual_seed(0)
    cls, settings = DECODERS[request.param]
    module = randomized(cls(**SIZES, **settings))
    x_RTJC, step_R, informed_R = torch.randn(2, 24, 5, 3), torch.tensor([3, 871]), torch.tensor([True, True])

    def decode(tokens_RKD):
        if request.param == "diffusion":
            return module(x_RTJC, tokens_RKD, KEEP_RK, step_R, informed_R)
        out = module(tokens_RKD, KEEP_RK)
        return torch.cat(out, 1) if isinstance(out, list) else out

    decode.module = module
    return decode


def test_gradients_reach_every_parameter_and_the_encoder(decode):
    tokens_RKD = torch.randn(2, 3, 12, requires_grad=True)
    decode(tokens_RKD).square().sum().backward()
    assert tokens_RKD.grad.any()
    assert [name for name, p in decode.module.named_parameters() if p.grad is None or not p.grad.any()] == []
