"""UmURL and its encoder against numbers of the public code, and what is made of them here."""

import pytest
import torch
from official import clip
from official_umurl import DIM, EMBEDDING, T, public_state
from skelbench_plugins import umurl
from skelbench_plugins.two_branch import TwoBranch, TwoBranchConfig

from skelbench.methods import Context, Step
from skelbench.pipeline.checkpoint_file import fit
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25
from skelbench.views.streams import SINGLE, as_stream

GRID = Grid(T, 1, 25)


def copies():
    """Four copies of six clips, [B, 2, T, J, 3], meters."""
    return [0.9**k * clip(6, T).roll(k, 0) + 0.1 * k for k in range(4)]


GOLDEN = {"loss": 26.538994, "intra": 1.3099837, "inter": 0.5092648}
REGULARIZER = 17.442751
GRADIENTS = {
    "encoder.embed.bone.space.0.weight": [0.713947, -0.111119],
    "encoder.fuse.0.weight": [17.224760, 13.520637],
    "encoder.space.0.attn.qkv.weight": [0.018671, 0.017379],
    "projectors.motion.3.weight": [0.277142, -0.025979],
}
FEATURES = {
    "fused": [1.120216, 2.074600, -1.186310, -1.655029],
    "joint": [1.407908, 1.893932, -0.531877, -1.811067],
    "bone": [1.768895, 2.337560, -1.150250, -1.650328],
    "motion": [1.129177, 1.746880, -1.138072, -1.787047],
}
"""Made by running HuiGuanLab/UmURL @744278b (umurl.py; vc_reg and the loss of pretrain.py) once on :func:`copies` with
the state ``public_state``, its projectors' last layers made EMBEDDING wide: loss and parts in training mode, first two
gradients, and in evaluation mode first features of the first clip and last ones of the last."""


def encoder(**settings):
    return TwoBranch(TwoBranchConfig(dim=DIM, **settings), NTU25, GRID)


def imported_method():
    imported = umurl.read_public(public_state(), {})
    assert imported.settings == {
        "encoder.dim": DIM,
        "encoder.depth": 1,
        "grid.frames": T,
        "method.embedding": EMBEDDING,
        "method.head_hidden": 2 * DIM,
    }
    config = umurl.UmURLConfig(fusion="early", head_hidden=2 * DIM, embedding=EMBEDDING)
    method = umurl.UmURL(config, Context(NTU25, GRID, lambda: encoder(fused=True)))
    assert fit(method, imported.weights, "public_state")
    return method


def stream_view(x_BMTJC, stream):
    """Views like the builder's: the second body of every other clip is absent."""
    valid_BM = torch.ones(x_BMTJC.shape[:2], dtype=torch.bool)
    valid_BM[:, 1] = x_BMTJC[:, 1].flatten(1).any(1)
    return View.of(as_stream(x_BMTJC, stream, NTU25, time=2, joint=3), valid_BM, stream=stream)


STEP = Step(0, 10, 0.0, torch.Generator(), lambda *_: None)


def test_loss_and_gradients_equal_the_public_code():
    method = imported_method()
    streams = (*SINGLE, "fused")
    out = method({stream: stream_view(x, stream) for stream, x in zip(streams, copies())}, STEP)
    # In float64 loss, intra and inter are 26.539099, 1.310061 and 0.509216: float32 leaves 1e-4 open either way.
    assert {name: out[name].item() for name in GOLDEN} == pytest.approx(GOLDEN, rel=2e-4)
    assert (5 * out["variance"] + out["covariance"]).item() == pytest.approx(REGULARIZER, rel=2e-5)
    out["loss"].backward()
    gradients = dict(method.named_parameters())
    for name, expected in GRADIENTS.items():
        assert gradients[name].grad.flatten()[:2].tolist() == pytest.approx(expected, rel=5e-3, abs=2e-4)


@pytest.mark.parametrize("stream", FEATURES)
def test_features_equal_the_public_code(stream):
    method = imported_method().eval()
    view = stream_view(copies()[3], stream)
    with torch.no_grad():
        found_BD = method.encoder(view).pooled_RD
    assert found_BD[0, :2].tolist() + found_BD[5, -2:].tolist() == pytest.approx(FEATURES[stream], abs=1e-5)


def test_late_fusion_is_a_linear_map_of_the_mean_of_one_encoders_features():
    config = umurl.UmURLConfig(head_hidden=16, embedding=EMBEDDING)
    method = umurl.UmURL(config, Context(NTU25, GRID, encoder)).eval()
    specs = umurl.UmURL.views(config, GRID)
    first, *others = umurl.LATE.values()
    assert [specs[name].crop.parent for name in others] == [first] * 2 and all(specs[name].inherit for name in others)
    x = copies()
    views = {s: stream_view(c, s) for s, c in zip(SINGLE, x)} | {n: stream_view(x[3], s) for s, n in umurl.LATE.items()}
    assert views.keys() == specs.keys()
    with torch.no_grad():
        out = method(views, STEP)
        fused_BD = sum(method.encoder(views[name]).pooled_RD for name in umurl.LATE.values()) / 3 @ method.fuse.weight.T
        intra = 0.0
        for stream in SINGLE:
            alone, part = (method.projectors[stream](f) for f in (method.encoder(views[stream]).pooled_RD, fused_BD))
            intra += float((alone - part).square().mean())
    assert float(out["intra"]) == pytest.approx(intra, rel=1e-4)
