"""MAMP and SkeletonMAE against numbers of the public code, and against the formulas."""

import official
import pytest
import torch
from official import ENCODER, clip, noise
from skelbench_plugins import mamp, skeletonmae

from skelbench.methods.contract import Context, Step
from skelbench.models.vit import ViT
from skelbench.pipeline.checkpoint_file import fit
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

DIM, DEPTH, HEADS, T, PATCH = 16, 2, 2, 16, 4
GRID = Grid(T, PATCH, 25)

MOTION_KEEP = [
    [14, 23, 51, 60, 68, 75, 76, 78, 84],
    [4, 10, 23, 25, 28, 32, 36, 52, 76],
    [0, 21, 34, 40, 41, 69, 75, 76, 91],
    [24, 34, 37, 41, 47, 62, 71, 76, 85],
]
UNIFORM_KEEP = [
    [17, 23, 42, 51, 60, 68, 70, 75, 95],
    [4, 10, 23, 25, 28, 32, 36, 52, 76],
    [30, 34, 41, 55, 60, 69, 75, 76, 91],
    [34, 37, 41, 47, 52, 62, 71, 76, 85],
]
GOLDEN = [
    # method, decoder blocks, stride, tau, loss, visible tokens, features (first of row 0, last of row 3), prediction
    (
        "mamp", 2, 1, 0.80, 0.8978618, MOTION_KEEP,
        ([1.5503, 1.171077, 0.866127], [1.329036, 0.91863, 0.389103], [0.373574, 0.150197, 0.37849]),
    ),
    (
        "mamp", 3, 1, 0.80, 1.7286987, MOTION_KEEP,
        ([1.866088, 1.383305, 0.164213], [2.503559, 1.562255, -0.225655], [1.74167, 1.362705, 1.591492]),
    ),
    (
        "mamp", 2, 2, 0.75, 0.9077765, [[14, 51, 60, 68, 74, 75, 76, 78, 84], *MOTION_KEEP[1:]],
        ([1.568079, 1.192726, 0.872212], [1.329036, 0.91863, 0.389103], [0.373574, 0.150197, 0.37849]),
    ),
    (
        "mamp", 2, 1, 0.0, 0.8917438, UNIFORM_KEEP,
        ([1.943211, 1.415952, 0.732447], [1.311903, 0.862457, 0.362701], [0.389912, 0.165565, 0.396151]),
    ),
    (
        "skeletonmae", 2, 1, 0.0, 0.9362151, UNIFORM_KEEP,
        ([1.943211, 1.415952, 0.732447], [1.311903, 0.862457, 0.362701], [0.389912, 0.165565, 0.396151]),
    ),
]  # fmt: skip
"""Made by running maoyunyao/MAMP (commit 09e6252), ``model_mamp.transformer`` and ``model_mae.transformer``, once on
``official.clip(2, 16)`` with its state replaced by ``official.state(16, 2, depth, 16, 4)`` and ``torch.rand`` by
``official.noise(4, 100)``: two clips with both body slots, the second of the first clip empty."""


def make(name, decoder_depth=2, **settings):
    """The method with the weights of ``official.state``."""
    plugin = {"mamp": mamp, "skeletonmae": skeletonmae}[name]
    state = official.state(DIM, DEPTH, decoder_depth, T, PATCH)
    imported = plugin.imported(state, {"model_args": {"num_heads": HEADS}})
    read = {key.split(".")[1]: value for key, value in imported.settings.items() if key.startswith("method.")}
    sizes = {key.split(".")[1]: value for key, value in imported.settings.items() if key.startswith("encoder.")}
    config = ENCODER.model_copy(update={"norm_eps": 1e-5, **sizes})
    cls = mamp.MAMP if name == "mamp" else skeletonmae.SkeletonMAE
    method = cls(cls.Config(**read, **settings), Context(NTU25, GRID, lambda: ViT(config, NTU25, GRID)))
    assert fit(method, imported.weights, "official.state")
    return method


def view_of(x_BMTJC, **fields):
    view = View.of(x_BMTJC, **fields)
    return View(**{**vars(view), "keys_R": torch.arange(view.rows)})


def step_with(u_RN):
    return Step(0, 1, 0.0, torch.Generator(), lambda keys_R, n, op=0: u_RN[:, :n])


@pytest.mark.parametrize(("name", "depth", "stride", "tau", "loss", "keep", "values"), GOLDEN)
def test_masks_features_and_loss_equal_the_public_code(name, depth, stride, tau, loss, keep, values):
    u_RN = noise(4, GRID.tokens)
    keep_RK = torch.tensor(keep)
    if name == "mamp":
        method, fields = make(name, depth, motion_stride=stride, tau=tau), {}
        seen = []
        method.encoder.register_forward_pre_hook(lambda _, __, named: seen.append(named["keep_RK"]), with_kwargs=True)
    else:
        mask_RN = torch.ones(4, GRID.tokens, dtype=torch.bool).scatter_(1, keep_RK, False)
        method, fields, seen = make(name, depth), {"keep_RK": keep_RK, "mask_RN": mask_RN}, None
    view = view_of(clip(2, T), **fields)
    with torch.no_grad():
        found = method.training_step({"clip": view}, step_with(u_RN))["loss"]
        tokens_RKD = method.encoder(view, keep_RK=keep_RK).tokens_RND
        predicted_RNL = method.decoder(tokens_RKD, keep_RK)
    assert seen is None or seen[0].tolist() == keep
    assert float(found) == pytest.approx(loss, abs=1e-5)
    first, last, prediction = values
    assert tokens_RKD[0, 0, :3].tolist() == pytest.approx(first, abs=1e-5)
    assert tokens_RKD[3, -1, :3].tolist() == pytest.approx(last, abs=1e-5)
    assert predicted_RNL[2, 7, :3].tolist() == pytest.approx(prediction, abs=1e-5)


@pytest.mark.parametrize("stride", [1, 2])
def test_the_loss_is_the_formula(stride):
    """Hidden tokens only: squared error of displacements standardized per token with the unbiased variance."""
    x_BMTJC, u_RN = clip(2, T), noise(4, GRID.tokens)
    method = make("mamp", motion_stride=stride, keep="round")
    view = view_of(x_BMTJC)
    with torch.no_grad():
        found = float(method.training_step({"clip": view}, step_with(u_RN))["loss"])

    x_RTJC = x_BMTJC.flatten(0, 1)
    keep = [slow_visible(x_RTJC[r], u_RN[r], 10, 0.8) for r in range(4)]
    with torch.no_grad():
        keep_RK = torch.tensor(keep)
        predicted_RNL = method.decoder(method.encoder(view, keep_RK=keep_RK).tokens_RND, keep_RK)
    errors = []
    for r in range(4):
        for n in set(range(GRID.tokens)) - set(keep[r]):
            target = []
            for t in range(n // 25 * PATCH, n // 25 * PATCH + PATCH):
                for c in range(3):
                    later = t + stride < T
                    target.append(float(x_RTJC[r, t + stride, n % 25, c] - x_RTJC[r, t, n % 25, c]) if later else 0.0)
            mean = sum(target) / 12
            variance = sum((y - mean) ** 2 for y in target) / 11
            standard = [(y - mean) / (variance + 1e-6) ** 0.5 for y in target]
            errors.append(sum((float(p) - y) ** 2 for p, y in zip(predicted_RNL[r, n], standard)) / 12)
    assert len(errors) == 4 * 90
    assert found == pytest.approx(sum(errors) / len(errors), rel=1e-5)


def slow_visible(x_TJC, u_N, visible, tau):
    x_PJL = x_TJC.double().reshape(T // PATCH, PATCH, 25, 3).permute(0, 2, 1, 3).flatten(2)
    moved = (x_PJL[1:] - x_PJL[:-1]).abs().mean(-1)
    motion_N = torch.cat([moved[:1], moved]).flatten()
    score_N = motion_N / (motion_N.max() * tau + 1e-10) - torch.log(-torch.log(u_N.double() + 1e-10) + 1e-10)
    return sorted(score_N.argsort()[:visible].tolist())


@pytest.mark.parametrize(("depth", "decoder"), [(5, 4_032_524), (3, 4_032_524 - 2 * 789_760)])
@pytest.mark.parametrize("cls", [mamp.MAMP, skeletonmae.SkeletonMAE])
def test_parameters_of_the_published_size(cls, depth, decoder, host):
    """On shapes alone, in the native setting; a block of width 256 has 789,760."""
    native = host.get("methods", cls.__name__.lower()).native
    grid = Grid(native["grid.frames"], native["grid.patch"], 25)
    config = ENCODER.model_copy(update={k.split(".")[1]: v for k, v in native.items() if k.startswith("encoder.")})
    with torch.device("meta"):
        context = Context(NTU25, grid, lambda: ViT(config, NTU25, grid))
        method = cls(cls.Config(decoder_depth=depth), context)
    assert sum(p.numel() for p in method.encoder.parameters()) == 6_336_000
    assert sum(p.numel() for p in method.decoder.parameters()) == decoder
    assert cls.Config().decoder_depth == 5
