import official
import pytest
import torch
from skelbench_plugins.dste import DSTE, DSTEConfig
from skelbench_plugins.usdrl import USDRL, USDRLConfig, read_public

from skelbench.methods import Context, Step
from skelbench.pipeline.checkpoint_file import fit
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

GRID, D, CLIPS = Grid(64, 1, 25), 8, 5
STEP = Step(0, 1, 0.0, torch.Generator(), lambda *_: None)


def make(**settings):
    def encoder():
        return DSTE(DSTEConfig(dim=D, drop_path=0.0), NTU25, GRID)

    return USDRL(USDRLConfig(**{"head_hidden": 2 * D} | settings), Context(NTU25, GRID, encoder, D, 2 * D))


def four_views(frames=64):
    """[4 * B, M, T, J, 3]: a clip from four moments on, view by view."""
    x_BMTJC = official.clip(CLIPS, frames + 9)
    x_BMTJC = torch.cat([x_BMTJC[:, :, 3 * k : 3 * k + frames] for k in range(4)])
    rows = 2 * len(x_BMTJC)
    return View(x_BMTJC.flatten(0, 1), torch.arange(rows), CLIPS, 2, count=4, keys_R=torch.arange(rows))


GOLDEN_FEATURES = {
    "time": (3, slice(3), [2.545834, 2.225584, 1.887404]),
    "space": (12, slice(-3, None), [2.337351, 2.837154, 2.178636]),
}
GOLDEN_TOKENS = {5: [0.3625, 1.236785, 1.029555], 64 + 30: [2.311327, 1.82184, 1.502794]}
GOLDEN_GRADIENTS = {  # norm, and numbers 10 to 12
    "projectors.instance.6.weight": (19.493601, [1.39439, -1.694441, 1.985926]),
    "encoder.space_KD": (371.71521, [3.158706, 5.896008, 8.124175]),
    "encoder.time.0.conv.weight": (59.684948, [14.351079, 16.912724, 21.459833]),
    "encoder.space.1.shift.fc1.weight": (945.589783, [-4.558451, -6.115565, -7.929023]),
    "encoder.time.1.attn.qkv.weight": (71.653053, [-4.919244, 1.461743, 2.410669]),
    "encoder.embed.time.0.weight": (229.665436, [-1.165775, 7.950387, -6.796841]),
}
"""Made by running wengwanjiang/USDRL (commit 7e83bb6), ``model.DSTE.USDRL`` of width 8 without drop path and the losses
of ``model.loss`` as ``pretrain.py`` weighs them, once on the same weights and clips."""


def test_loss_features_and_gradients_equal_the_public_code():
    method, view = official.fill(make()), four_views()
    encoded = method.encoder(view)
    for name, (row, part, values) in GOLDEN_FEATURES.items():
        assert encoded.levels[name][row, part].tolist() == pytest.approx(values, abs=1e-5)
    for token, values in GOLDEN_TOKENS.items():
        assert encoded.tokens_RND[7, token, :3].tolist() == pytest.approx(values, abs=1e-5)
    out = method({"clip": view}, STEP)
    out["loss"].backward()
    assert out["loss"].item() == pytest.approx(40.903984, rel=1e-4)
    assert out["similarity"].item() == pytest.approx(0.7368194, rel=1e-4)
    assert (5 * out["variance"] + out["covariance"]).item() == pytest.approx(37.164265, rel=1e-4)
    assert out["correlation"].item() == pytest.approx(55.621796, rel=1e-4)
    gradients = {name: p.grad for name, p in method.named_parameters()}
    for name, (norm, values) in GOLDEN_GRADIENTS.items():
        assert gradients[name].norm().item() == pytest.approx(norm, rel=1e-3)
        assert gradients[name].flatten()[10:13].tolist() == pytest.approx(values, rel=5e-3)


def test_the_successors_loss_has_no_correlation_between_views():
    view = four_views()
    with torch.no_grad():
        both = [official.fill(make(correlation=weight))({"clip": view}, STEP) for weight in (1e-3, 0.0)]
    assert "correlation" not in both[1]
    assert (both[0]["loss"] - both[1]["loss"]).item() == pytest.approx(1e-3 * both[0]["correlation"].item(), rel=1e-3)


def public(weights):
    """Our weights in the repository's layout, what both paths of a layer share stored twice."""
    layer = {
        "attn.qkv.weight": "CA.attn.in_proj_weight",
        "attn.qkv.bias": "CA.attn.in_proj_bias",
        "attn.proj": "CA.attn.out_proj",
        "conv.": "CA.conv1.",
        "conv_": "CA.",
        "shift.fc": "DSA.wt",
        "shift_": "DSA.",
    }
    out = {"backbone.tpe.pe": torch.zeros(1, 200, D)}
    for name, x in weights.items():
        part, which, *rest = name.split(".", 2)
        if part == "projectors":
            name = f"{which[0]}_proj.{rest[0]}"
        elif which == "space_KD":
            name, x = "backbone.spe", x[None]
        elif which == "embed":
            name = rest[0].replace(".", "_embedding.", 1)
            name = "backbone.ske_emb." + name[0] + name[name.index("_") :]
        else:
            number, inside = rest[0].split(".", 1)
            for ours, theirs in layer.items():
                if inside.startswith(ours):
                    x = x[..., None] if inside == "conv.weight" else x
                    inside = theirs + inside.removeprefix(ours)
                    break
            name = f"backbone.{which[0]}_tr{'1' * int(number)}.{inside}"
            out[name.replace(".CA.attn.", ".DSA.attn.")] = x
        out[name] = x
    return out


def test_a_public_checkpoint_is_read_with_or_without_heads():
    made = official.fill(make())
    state = public(made.state_dict())
    imported = read_public(state, {})
    assert imported.settings == {"encoder.dim": D, "grid.frames": 64, "method.head_hidden": 2 * D}
    fresh = make()
    assert fit(fresh, imported.weights, "file")
    assert all(torch.equal(x, made.state_dict()[name]) for name, x in fresh.state_dict().items())

    downstream = {name: x for name, x in state.items() if name.startswith("backbone.")} | {
        "fc.weight": torch.zeros(3, 4)
    }
    alone = read_public(downstream, {})
    assert alone.leftover == ("fc.weight",) and not fit(make(), alone.weights, "file")
