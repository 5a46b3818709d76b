import re

import pytest
import torch
from literal_vit import literal_vit, randomised
from official import ENCODER as MAMP
from pydantic import ValidationError
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from skelbench.errors import SkelbenchError
from skelbench.nn.vit import ViT, ViTConfig
from skelbench.skeleton.grid import Grid
from skelbench.skeleton.topology import NTU25
from skelbench.views import View

SMALL = {"dim": 16, "depth": 2, "heads": 2}
FORMS = {
    "paper": ViTConfig(**SMALL),
    "mamp": MAMP.model_copy(update=SMALL),
    "release": ViTConfig(**SMALL, mlp="swiglu", registers=2, cls_position=True),
}


def build(config, frames=12, patch=4, joints=25, seed=0):
    torch.manual_seed(seed)
    model = ViT(config, NTU25, Grid(frames, patch, joints)).eval()
    model.prepare(frozenset({"replace-tokens"}))
    return randomised(model)


def clips(rows=3, frames=12, joints=25, seed=1):
    return View.of(torch.randn(rows, 1, frames, joints, 3, generator=torch.Generator().manual_seed(seed)))


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def test_forms_differ_by_exactly_the_parameters_they_add():
    grid = Grid(64, 8, 25)
    base = count(ViT(ViTConfig(), NTU25, grid))
    assert count(ViT(ViTConfig(cls=False), NTU25, grid)) == base - 256
    assert count(ViT(ViTConfig(registers=4), NTU25, grid)) == base + 4 * 256
    assert count(ViT(ViTConfig(cls_position=True), NTU25, grid)) == base + 256
    swiglu = ViTConfig(mlp="swiglu")
    assert swiglu.mlp_hidden == 688
    gelu_block, swiglu_block = 2 * 256 * 1024 + 1024 + 256, 3 * 256 * 688 + 2 * 688 + 256
    assert count(ViT(swiglu, NTU25, grid)) == base + 8 * (swiglu_block - gelu_block)


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
def test_dropped_tokens_leave_the_others_at_their_own_places(form):
    model, view = build(FORMS[form], joints=5), clips(2, joints=5)
    keep_RK = torch.tensor([[0, 3, 7, 11], [2, 4, 9, 14]])
    encoded = model(view, keep_RK=keep_RK)
    assert encoded.tokens_RND.shape == (2, 4, 16)
    for row in range(2):
        tokens, _ = literal_vit(model, view.x_RTJC[row], keep_K=keep_RK[row].tolist())
        torch.testing.assert_close(encoded.tokens_RND[row].double(), tokens, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("readout", ["cls", "mean", "cls+mean", "auto"])
def test_readout_is_as_wide_as_it_says(readout):
    model = ViT(ViTConfig(**SMALL, readout=readout), NTU25, Grid(12, 4, 25))
    encoded = model(clips())
    assert encoded.pooled_RD.shape == (3, model.features)
    if readout == "cls":
        assert torch.equal(encoded.pooled_RD, encoded.cls_RD)
    if readout == "mean":
        torch.testing.assert_close(encoded.pooled_RD, encoded.tokens_RND.mean(1))


@pytest.mark.parametrize("form", FORMS)
def test_bfloat16_stays_finite_and_near(form):
    model, view = build(FORMS[form]), clips()
    mask_RN = torch.zeros(3, 75, dtype=torch.bool)
    mask_RN[:, ::2] = True
    exact = model(view, mask_RN=mask_RN).pooled_RD
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(view, mask_RN=mask_RN).pooled_RD
        kept = model(view, keep_RK=torch.arange(0, 75, 5).expand(3, -1)).pooled_RD
    assert torch.isfinite(kept).all()
    assert (rough.float() - exact).norm() < 0.05 * exact.norm()


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("form", FORMS)
def test_traces_to_the_same_function_of_the_coordinates(form):
    model, view = build(FORMS[form]), clips()

    class Features(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x_RTJC):
            return self.model(View.of(x_RTJC.unsqueeze(1))).pooled_RD

    traced = torch.jit.trace(Features(), view.x_RTJC)
    other = clips(seed=5)
    torch.testing.assert_close(traced(other.x_RTJC), model(other).pooled_RD)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_reach_every_parameter(form):
    model, view = build(FORMS[form]), clips()
    mask_RN = torch.zeros(3, 75, dtype=torch.bool)
    mask_RN[:, ::2] = True
    encoded = model(view, mask_RN=mask_RN)
    # LayerNorm's output sums to a constant, hence the weights.
    (encoded.pooled_RD * torch.randn_like(encoded.pooled_RD)).sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_drop_path_acts_in_training_only_and_grows_with_depth():
    model = build(ViTConfig(**(SMALL | {"depth": 3}), drop_path=0.5))
    view = clips(16)
    assert torch.equal(model(view).pooled_RD, model(view).pooled_RD)
    model.train()
    torch.manual_seed(0)
    assert not torch.equal(model(view).pooled_RD, model(view).pooled_RD)
    assert [getattr(block.drop_path, "drop_prob", 0.0) for block in model.blocks] == [0.0, 0.25, 0.5]


def test_initial_values():
    model = ViT(ViTConfig(), NTU25, Grid(64, 8, 25))
    weight = model.blocks[0].mlp.fc1.weight
    bound = (6 / (256 + 1024)) ** 0.5
    assert weight.abs().max() <= bound and weight.abs().max() > 0.99 * bound
    assert not model.blocks[0].mlp.fc1.bias.any()
    assert model.tokenizer.joint_embed.std().item() == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize(
    ("config", "frames", "joints", "call", "message"),
    [
        (FORMS["paper"], 12, 20, {}, "20 joints but the encoder was built for 25"),
        (FORMS["paper"], 10, 25, {}, "view of 10 frames"),
        (FORMS["mamp"], 16, 25, {}, "4 temporal tokens but the encoder learned positions for 3"),
    ],
)
def test_views_that_do_not_fit_are_refused_in_one_sentence(config, frames, joints, call, message):
    with pytest.raises(SkelbenchError, match=re.escape(message)):
        build(config)(clips(1, frames, joints), **call)


def test_what_a_method_requires_is_made_beside_equal_weights():
    """A mask token of zeros, in a place of its own, and no random number drawn."""
    torch.manual_seed(0)
    plain = ViT(FORMS["paper"], NTU25, Grid(12, 4, 25))
    after = torch.rand(1)
    torch.manual_seed(0)
    model = ViT(FORMS["paper"], NTU25, Grid(12, 4, 25))
    model.prepare(frozenset({"replace-tokens", "tokens"}))
    assert torch.equal(torch.rand(1), after)
    assert model.state_dict().keys() - plain.state_dict().keys() == set(model.prepared_state)
    assert not model.tokenizer.mask_token.any()
    for name, value in plain.state_dict().items():
        assert torch.equal(model.state_dict()[name], value)
    with pytest.raises(SkelbenchError, match="add replace-tokens to what the method requires"):
        plain(clips(), mask_RN=torch.zeros(3, 75, dtype=torch.bool))
    model.prepare(frozenset())
    assert model.state_dict().keys() == plain.state_dict().keys()


@pytest.mark.parametrize(("cls", "readout"), [(True, "auto"), (True, "mean"), (False, "auto")])
def test_the_summary_is_the_class_token_or_what_stands_for_it(cls, readout):
    model = build(ViTConfig(**SMALL, cls=cls, readout=readout))
    encoded = model(clips())
    assert encoded.summary_RD.shape == (3, model.summary_width)
    assert model.has_class_token == cls and model.prefix_tokens == int(cls)
    torch.testing.assert_close(encoded.summary_RD, encoded.cls_RD if cls else encoded.tokens_RND.mean(1))


def test_standardised_input_is_the_plain_encoder_on_standardised_coordinates():
    mean, std = (0.1, -0.2, 1.3), (0.5, 0.25, 2.0)
    plain = build(FORMS["mamp"])
    model = build(FORMS["mamp"].model_copy(update={"input_mean": mean, "input_std": std}))
    assert model.state_dict().keys() == plain.state_dict().keys()  # constants are settings, not state
    view = clips()
    scaled = (view.x_RTJC - torch.tensor(mean)) / torch.tensor(std)
    torch.testing.assert_close(model(view).tokens_RND, plain(view.with_x(scaled)).tokens_RND)


def test_mask_and_keep_together_are_refused():
    with pytest.raises(ValueError, match="not both"):
        build(FORMS["paper"])(
            clips(1), mask_RN=torch.zeros(1, 75, dtype=torch.bool), keep_RK=torch.zeros(1, 5, dtype=torch.int64)
        )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dim": 30, "heads": 4}, "heads"),
        ({"dim": 9, "heads": 3}, "even"),
        ({"cls": False, "readout": "cls"}, "class token"),
        ({"cls": False, "cls_position": True}, "class token"),
        ({"tempral": "rope"}, "tempral"),
        ({"input_mean": (0.0, 0.0, 0.0)}, "belong together"),
        ({"input_mean": (0.0, 0.0, 0.0), "input_std": (1.0, 0.0, 1.0)}, "greater than 0"),
    ],
)
def test_contradictory_settings_are_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        ViTConfig(**fields)
