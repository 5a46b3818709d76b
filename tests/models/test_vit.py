import pytest
import torch
from literal_vit import literal_vit
from official import ENCODER as MAMP
from pydantic import ValidationError
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from skelbench.models.tokenizer import patchify
from skelbench.models.vit import ViT, ViTConfig
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

SMALL = {"dim": 16, "depth": 2, "heads": 2}
FORMS = {
    "paper": ViTConfig(**SMALL),
    "mamp": MAMP.model_copy(update=SMALL),
    "release": ViTConfig(**SMALL, mlp="swiglu", registers=2, cls_position=True),
}


def build(config, frames=12, patch=4, joints=25, seed=0):
    """A model whose every parameter is random, so that nothing hides behind a zero initial value."""
    torch.manual_seed(seed)
    model = ViT(config, NTU25, Grid(frames, patch, joints)).eval()
    model.prepare(frozenset({"replace-tokens"}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def clips(rows=3, frames=12, joints=25, seed=1):
    return View.of(torch.randn(rows, 1, frames, joints, 3, generator=torch.Generator().manual_seed(seed)))


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def test_mamp_form_has_the_published_number_of_parameters():
    assert count(ViT(MAMP, NTU25, Grid(120, 4, 25))) == 6_336_000


@pytest.mark.parametrize(
    ("frames", "patch", "cls", "giga"),
    [(120, 4, False, 7.023), (120, 8, False, 2.935), (64, 8, False, 1.422), (64, 8, True, 1.430)],
)
def test_closed_form_gives_the_known_cost_of_the_blocks(frames, patch, cls, giga):
    grid = Grid(frames, patch, 25)
    with torch.device("meta"):
        macs = ViT(ViTConfig(cls=cls), NTU25, grid).closed_form_macs(grid)
    assert (macs["attention"] + macs["mlp"]) / 1e9 == pytest.approx(giga, abs=5e-4)
    assert macs["embed"] == grid.tokens * patch * 3 * 256


@pytest.mark.parametrize("visible", [None, 20])
@pytest.mark.parametrize("form", FORMS)
def test_closed_form_equals_the_operators_that_run(form, visible):
    with torch.device("meta"):
        model = ViT(FORMS[form], NTU25, Grid(12, 4, 25))
        view = View.of(torch.empty(1, 1, 12, 25, 3))
        keep = None if visible is None else torch.zeros(1, visible, dtype=torch.int64)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        encoded = model(view, keep_RK=keep)
    assert encoded.tokens_RND.shape == (1, visible or 75, 16)
    assert sum(model.closed_form_macs(model.grid, visible).values()) == counter.get_total_flops() / 2


@pytest.mark.parametrize("frames", [12, 8])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_forward_is_the_paper_written_out(form, masked, frames):
    model, view = build(FORMS[form], joints=5), clips(2, frames, joints=5)
    mask_RN = torch.rand(2, frames // 4 * 5, generator=torch.Generator().manual_seed(2)) < 0.5 if masked else None
    encoded = model(view, mask_RN=mask_RN)
    for row in range(2):
        tokens, cls = literal_vit(model, view.x_RTJC[row], None if mask_RN is None else mask_RN[row])
        torch.testing.assert_close(encoded.tokens_RND[row].double(), tokens, rtol=1e-4, atol=1e-4)
        mean = tokens.mean(0)
        pooled = mean if cls is None else torch.cat([cls, mean])
        torch.testing.assert_close(encoded.pooled_RD[row].double(), pooled, rtol=1e-4, atol=1e-4)
        if cls is not None:
            torch.testing.assert_close(encoded.cls_RD[row].double(), cls, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_dropped_tokens_do_not_move_the_others(form):
    model, view = build(FORMS[form], joints=5), clips(2, joints=5)
    keep_RK = torch.tensor([[0, 3, 7, 11], [2, 4, 9, 14]])
    encoded = model(view, keep_RK=keep_RK)
    assert encoded.tokens_RND.shape == (2, 4, 16)
    for row in range(2):
        tokens, _ = literal_vit(model, view.x_RTJC[row], keep_K=keep_RK[row].tolist())
        torch.testing.assert_close(encoded.tokens_RND[row].double(), tokens, rtol=1e-4, atol=1e-4)


def test_patches_hold_time_before_coordinates():
    x_RTJC = torch.arange(2 * 4 * 3 * 3).float().view(2, 4, 3, 3)
    patches = patchify(x_RTJC, 2)
    assert patches.shape == (2, 6, 6)
    assert patches[1, 4].tolist() == torch.cat([x_RTJC[1, 2, 1], x_RTJC[1, 3, 1]]).tolist()


def test_standardized_input_is_the_plain_encoder_on_standardized_coordinates():
    mean, std = (0.1, -0.2, 1.3), (0.5, 0.25, 2.0)
    plain = build(FORMS["mamp"])
    model = build(FORMS["mamp"].model_copy(update={"input_mean": mean, "input_std": std}))
    assert model.state_dict().keys() == plain.state_dict().keys()  # constants are settings, not state
    view = clips()
    scaled = (view.x_RTJC - torch.tensor(mean)) / torch.tensor(std)
    torch.testing.assert_close(model(view).tokens_RND, plain(view.with_x(scaled)).tokens_RND)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dim": 30, "heads": 4}, "heads"),
        ({"cls": False, "readout": "cls"}, "class token"),
        ({"input_mean": (0.0, 0.0, 0.0)}, "belong together"),
    ],
)
def test_contradictory_settings_are_rejected(fields, message):
    with pytest.raises(ValidationError, match=message):
        ViTConfig(**fields)
