"""UmURL and its encoder against numbers of the public code, and what is made of them here."""

import pytest
import torch
from official import clip
from official_umurl import DIM, EMBEDDING, T, public_state
from skelbench_plugins import umurl
from skelbench_plugins.two_branch import TwoBranch, TwoBranchConfig

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import GridSpec, evaluation_defaults
from skelbench.evaluation.cost.macs import count_encoder
from skelbench.evaluation.cost.rows import flops_rows
from skelbench.methods import Context, Step
from skelbench.models.two_branch import Branches
from skelbench.pipeline.checkpoint_file import fit
from skelbench.pipeline.controls import control, raw_control
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain
from skelbench.views import View, ViewSpec
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25, topologies
from skelbench.views.spec import checked_counts
from skelbench.views.streams import SINGLE, as_stream

GRID = Grid(T, 1, 25)


def copies():
    """Four copies of six clips, [B, 2, T, J, 3], metres."""
    return [0.9**k * clip(6, T).roll(k, 0) + 0.1 * k for k in range(4)]


GOLDEN = {"loss": 26.538994, "intra": 1.3099837, "inter": 0.5092648}
REGULARISER = 17.442751
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
    method = umurl.UmURL(config, Context.of(NTU25, GRID, lambda: encoder(fused=True)))
    assert fit(method, imported.weights, "public_state")
    return method


def stream_view(x_BMTJC, stream):
    """As the builder makes it: the second body of every other clip is absent."""
    valid_BM = torch.ones(x_BMTJC.shape[:2], dtype=torch.bool)
    valid_BM[:, 1] = x_BMTJC[:, 1].flatten(1).any(1)
    return View.of(as_stream(x_BMTJC, stream, NTU25, time=2, joint=3), valid_BM, stream=stream)


STEP = Step(0, 10, 0.0, torch.Generator(), lambda *_: None)


def test_loss_and_gradients_are_those_of_the_public_code():
    method = imported_method()
    streams = (*SINGLE, "fused")
    out = method({stream: stream_view(x, stream) for stream, x in zip(streams, copies())}, STEP)
    # In float64 loss, intra and inter are 26.539099, 1.310061 and 0.509216: float32 leaves 1e-4 open either way.
    assert {name: out[name].item() for name in GOLDEN} == pytest.approx(GOLDEN, rel=2e-4)
    assert (5 * out["variance"] + out["covariance"]).item() == pytest.approx(REGULARISER, rel=2e-5)
    out["loss"].backward()
    gradients = dict(method.named_parameters())
    for name, expected in GRADIENTS.items():
        assert gradients[name].grad.flatten()[:2].tolist() == pytest.approx(expected, rel=5e-3, abs=2e-4)


@pytest.mark.parametrize("stream", FEATURES)
def test_features_are_those_of_the_public_code(stream):
    method = imported_method().eval()
    view = stream_view(copies()[3], stream)
    with torch.no_grad():
        found_BD = method.encoder(view).pooled_RD
    assert found_BD[0, :2].tolist() + found_BD[5, -2:].tolist() == pytest.approx(FEATURES[stream], abs=1e-5)


def test_late_fusion_is_a_linear_map_of_the_mean_of_one_encoders_features():
    config = umurl.UmURLConfig(head_hidden=16, embedding=EMBEDDING)
    method = umurl.UmURL(config, Context.of(NTU25, GRID, encoder)).eval()
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


def test_what_a_step_costs_is_counted_by_role(host):
    (row,) = flops_rows(host, [(host.get("methods", "umurl"), GridSpec(frames=64, patch=1))])
    assert row.encoder.flops(2) == 2 * row.encoder.macs == 4 * row.visible_macs
    heads = 6 * (2048 * 2048 * 2 + 2048 * 4096)
    assert row.head_macs == heads / 2, "three projectors of two features, per body"
    forward = row.encoder.macs + 3 * 869_933_056 + heads
    assert 2.9 * 2 * forward < row.step_flops < 3 * 2 * forward, "coordinates need no gradient"


# ------------------------------------------------------------------------------------------------ the encoder
def test_the_published_size_and_its_cost_by_all_counters():
    grid = Grid(64, 1, 25)
    with torch.device("meta"):
        whole, joints = (TwoBranch(TwoBranchConfig(fused=fused), NTU25, grid) for fused in (True, False))
    assert sum(p.numel() for p in whole.parameters()) == 22_067_200
    for made, macs in ((whole, 1_267_867_648), (joints, 869_933_056)):
        count = count_encoder(made, grid, NTU25)
        assert count.macs == count.closed_form == count.torch_flop_counter == macs
        assert count.flops(2) == 2 * macs, "both bodies at once"


def test_an_encoder_of_one_embedding_sees_every_stream_with_it():
    made, x = encoder().eval(), copies()[0]
    with torch.no_grad():
        joint, bone = (made(View.of(x, stream=stream)).pooled_RD for stream in ("joint", "bone"))
    assert torch.equal(joint, bone) and "fuse-streams" not in made.abilities and made.stream == "joint"


@pytest.mark.parametrize("topology", topologies().values(), ids=topologies())
def test_every_skeleton_is_fused_by_its_own_bones_and_one_body_is_enough(topology):
    made = TwoBranch(TwoBranchConfig(dim=DIM, fused=True), topology, Grid(T, 1, topology.num_joints)).eval()
    x_BMTJC = torch.randn(2, 1, T, topology.num_joints, 3)
    both = torch.cat([x_BMTJC, torch.zeros_like(x_BMTJC)], 1)
    for silent in ("joint", "motion"):
        made.embed[silent].forward = lambda x_BMTJC: Branches(0, 0)
    with torch.no_grad():
        found = made(View.of(x_BMTJC, stream="fused"))
        bones = both - both[..., list(topology.bones), :]
        tokens = [fuse(part / 3) for fuse, part in zip(made.fuse, made.embed["bone"](bones))]
        expected = torch.cat([made.time(tokens[0] + made.time_TD).amax(1), made.space(tokens[1]).amax(1)], 1)
    torch.testing.assert_close(found.pooled_RD, expected)


# ------------------------------------------------------------------------------------------------ runs
def test_a_native_run_is_evaluated_on_fused_streams_and_its_controls_alike(session, resolved):
    made = resolved("umurl", native=True, epochs=1)
    run = pretrain(session, made)
    assert evaluation_defaults(run.spec)["streams"] == ("fused",)
    fused = eval_spec(session.host, run, "knn")
    assert fused.stream_title == "joint + bone + motion (input)"
    records = {"fused": evaluate(session, run, fused)}
    for streams in (("joint",), ("bone",), ("joint", "fused")):
        fusion = "scores" if len(streams) > 1 else "none"
        spec = eval_spec(session.host, run, "knn", streams=streams, fusion=fusion)
        records[spec.stream_title] = evaluate(session, run, spec)
    assert records.keys() == {"fused", "joint", "bone", "joint + fused (scores)"}
    for beside in (control(made, session.host), raw_control(made, session.host)):
        spec = eval_spec(session.host, beside, "knn", like=run)
        assert spec.streams == ("fused",)
        assert evaluate(session, pretrain(session, beside), spec)["metrics"]["n_test"] > 0


def test_fused_streams_of_an_encoder_that_cannot_are_refused(session, resolved):
    run = pretrain(session, resolved("untrained"))
    spec = eval_spec(session.host, run, "knn", streams=("fused",))
    with pytest.raises(SkelbenchError, match="encoder vit .* cannot take joints, bones and motion as one input"):
        evaluate(session, run, spec)
    assert not run.record_path(spec).exists()
    for encoder_name in ("vit", "two-branch"):
        with pytest.raises(SkelbenchError, match=f"as one input .fuse-streams., which {encoder_name} cannot"):
            resolved("umurl", encoder=encoder_name, fusion="early")


def test_padded_views_have_no_fused_streams():
    with pytest.raises(SkelbenchError, match="view 'v' is padded"):
        checked_counts({"v": ViewSpec(frames=8, stream="fused", resize="pad")}, NTU25, 1, "valid")


def test_a_batch_of_one_clip_is_refused(resolved):
    with pytest.raises(SkelbenchError, match="batch_size=1 is too small, use at least 2"):
        resolved("umurl", batch_size=1)
