import re

import pytest
import torch
from literal_vit import literal_vit, rotate
from official import ENCODER as MAMP
from pydantic import ValidationError
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from skelbench.core.errors import SkelbenchError
from skelbench.models.attention import rope_table
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
def test_dropped_tokens_leave_the_others_at_their_own_places(form):
    model, view = build(FORMS[form], joints=5), clips(2, joints=5)
    keep_RK = torch.tensor([[0, 3, 7, 11], [2, 4, 9, 14]])
    encoded = model(view, keep_RK=keep_RK)
    assert encoded.tokens_RND.shape == (2, 4, 16)
    for row in range(2):
        tokens, _ = literal_vit(model, view.x_RTJC[row], keep_K=keep_RK[row].tolist())
        torch.testing.assert_close(encoded.tokens_RND[row].double(), tokens, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_keeping_every_token_changes_nothing(form):
    model, view = build(FORMS[form]), clips()
    full, kept = model(view), model(view, keep_RK=torch.arange(75).expand(3, -1))
    torch.testing.assert_close(kept.tokens_RND, full.tokens_RND)
    torch.testing.assert_close(kept.pooled_RD, full.pooled_RD)


@pytest.mark.parametrize("form", FORMS)
def test_rows_do_not_see_each_other(form):
    model, view = build(FORMS[form]), clips(4)
    together = model(view)
    for row in range(4):
        alone = model(View.of(view.x_RTJC[row : row + 1, None]))
        torch.testing.assert_close(alone.tokens_RND, together.tokens_RND[row : row + 1], rtol=1e-4, atol=1e-5)


def test_hidden_content_is_replaced_but_its_place_is_kept():
    model, view = build(FORMS["paper"]), clips(1)
    mask_RN = torch.zeros(1, 75, dtype=torch.bool)
    mask_RN[0, [4, 30]] = True
    x = view.x_RTJC.clone()
    x[0, 0:4, 4] += 5.0
    x[0, 4:8, 5] -= 3.0
    other = view.with_x(x)
    assert torch.equal(model(other, mask_RN=mask_RN).tokens_RND, model(view, mask_RN=mask_RN).tokens_RND)
    assert not torch.allclose(model(other).tokens_RND, model(view).tokens_RND)
    tokenizer = model.tokenizer
    embedded = tokenizer(view.x_RTJC, mask_RN)
    torch.testing.assert_close(embedded[0, 4], tokenizer.mask_token + tokenizer.joint_embed[4])
    torch.testing.assert_close(embedded[0, 30], tokenizer.mask_token + tokenizer.joint_embed[5])


def test_rope_follows_its_definition_and_sees_only_differences():
    table = rope_table(torch.tensor([[0, 5, 9]]), 8, 100.0)[0]
    cos, sin = (torch.cat([part, part], -1) for part in table.unbind(-1))
    vector = torch.randn(8, dtype=torch.float64)
    for row, time in enumerate((0, 5, 9)):
        half = torch.cat([-vector[4:], vector[:4]])
        torch.testing.assert_close(vector * cos[row] + half * sin[row], rotate(vector, time, 100.0), atol=1e-6, rtol=0)
    q, k = torch.randn(2, 8, dtype=torch.float64)
    near, far = rotate(q, 3, 100.0) @ rotate(k, 1, 100.0), rotate(q, 12, 100.0) @ rotate(k, 10, 100.0)
    torch.testing.assert_close(near, far)


def test_rope_tells_times_apart_where_nothing_else_does():
    """Two clips that differ only in the order of their patches: without positions their mean token would agree."""
    x = torch.randn(1, 1, 12, 25, 3)
    swapped = torch.cat([x[:, :, 8:], x[:, :, 4:8], x[:, :, :4]], 2)
    model = build(FORMS["paper"])
    assert not torch.allclose(model(View.of(x)).cls_RD, model(View.of(swapped)).cls_RD, atol=1e-3)


def test_patches_hold_time_before_coordinates():
    x_RTJC = torch.arange(2 * 4 * 3 * 3).float().view(2, 4, 3, 3)
    patches = patchify(x_RTJC, 2)
    assert patches.shape == (2, 6, 6)
    assert patches[1, 4].tolist() == torch.cat([x_RTJC[1, 2, 1], x_RTJC[1, 3, 1]]).tolist()


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
    assert model.has_class_token == cls
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
