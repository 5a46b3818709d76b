import official
import pytest
import torch
from skelbench_plugins.pstl import FRAMES, PSTL, PSTLConfig
from skelbench_plugins.stgcn import STGCN, STGCNConfig

from skelbench.methods import Context, Step
from skelbench.models.encoder import lines
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

GRID, WIDTH, CLIPS = Grid(20, 1, 25), 6, 5
DEGREE = [3, 2, 2, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 1, 4, 1, 2, 1, 2]


def make(topology=NTU25, grid=GRID, **settings):
    config = STGCNConfig(base=2, out=WIDTH, dropout=0.0)
    context = Context(topology, grid, lambda: STGCN(config, topology, grid), WIDTH, WIDTH)
    return PSTL(PSTLConfig(**{"head_hidden": 8} | settings), context)


def view_of(x_BMTJC):
    view = View.of(x_BMTJC)
    return View(**{**vars(view), "keys_R": torch.arange(view.rows)})


def step_with(draw):
    return Step(0, 1, 0.0, torch.Generator(), draw)


def in_common(keys_R, n, op=0):
    return official.noise(1 + op, n)[op:].expand(len(keys_R), -1)


def by_key(keys_R, n, op=0):
    return official.noise(300, n)[keys_R + 7 * op]


FRAMES_LEFT = [
    [0, 6, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19],
    [4, 6, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19],
    [0, 2, 5, 6, 12, 13, 14, 15, 16, 17, 18, 19],
    [0, 2, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19],
    [1, 3, 6, 7, 9, 10, 11, 12, 16, 17, 18, 19],
]
MISSING = [1, 6, 7, 10, 11, 13, 14, 24]
GOLDEN_LOSS = {"frames": 11.167645, "joints": 16.539684}
GOLDEN_FEATURES = {  # of clip 2 the first, of clip 4 the last
    "whole": ([0.30091, 0.166013, 0.112516], [0.338083, 0.662109, 0.975724]),
    "fewer_frames": ([0.399405, 0.291176, 0.195606], [0.257233, 0.560304, 0.853817]),
    "fewer_joints": ([0.23823, 0.140231, 0.054575], [0.183793, 0.392842, 0.624546]),
}
GOLDEN_GRADIENTS = {
    "projector.6.weight": [-0.134809, -0.163328, -0.059542],
    "projector.0.weight": [5.055856, 4.367323, -0.758431],
    "encoder.blocks.9.time.2.weight": [-1.550064, -1.536349, -4.922977],
    "encoder.blocks.0.spread.weight": [-34.940159, 106.920647, 69.340569],
}
"""Made by running YujieOuO/PSTL (commit da95ce1), ``module.gcn.st_gcn.Model`` without dropout and ``model.BTwins``,
once on the same weights and clips: ``mask_frame`` 4 of 20 frames, ``random.sample`` returning the 12 places that have
the lowest draws, ``ignore_joint`` ``MISSING``."""


def views_of(frames=20):
    names = "whole", "fewer_frames", "fewer_joints"
    return {
        name: view_of(official.clip(CLIPS, frames + 9)[:, :, 3 * k : 3 * k + frames]) for k, name in enumerate(names)
    }


def test_loss_features_and_gradients_equal_the_public_code():
    method, views, step = official.fill(make()), views_of(), step_with(in_common)
    keep = {
        "whole": None,
        "fewer_frames": method.slower_frames(views["fewer_frames"], step),
        "fewer_joints": method.outer_joints(views["fewer_joints"], step),
    }
    assert (keep["fewer_frames"][::2, :, 0] // 25).tolist() == FRAMES_LEFT
    assert all(sorted(set(range(25)) - set(row)) == MISSING for row in keep["fewer_joints"][:, 3].sub(75).tolist())
    for name, (first, last) in GOLDEN_FEATURES.items():
        feature_BD = method.encoder(views[name], keep_RK=keep[name]).clip_summary(views[name])
        assert [*feature_BD[2, :3].tolist(), *feature_BD[4, -3:].tolist()] == pytest.approx(first + last, abs=1e-5)
    out = method(views, step)
    for name, value in GOLDEN_LOSS.items():
        assert out[name].item() == pytest.approx(value, rel=1e-4)
    assert out["loss"] == out["frames"] + out["joints"]
    out["loss"].backward()
    gradients = {name: p.grad for name, p in method.named_parameters()}
    rows = {
        "projector.6.weight": gradients["projector.6.weight"][1],
        "projector.0.weight": gradients["projector.0.weight"][5],
        "encoder.blocks.9.time.2.weight": gradients["encoder.blocks.9.time.2.weight"][3, 2, :, 0],
        "encoder.blocks.0.spread.weight": gradients["encoder.blocks.0.spread.weight"][1, :, 0, 0],
    }
    for name, values in GOLDEN_GRADIENTS.items():
        assert rows[name][:3].tolist() == pytest.approx(values, rel=1e-3), name
    assert gradients["encoder.blocks.4.importance_SJJ"].norm().item() == pytest.approx(19.64641, rel=1e-3)


def test_fast_frames_and_random_others_are_removed():
    """Literally, patch by patch: of each clip, both of its bodies together, the last frame counting as still."""
    grid = Grid(32, 4, 25)
    method = make(grid=grid, mask_frames=0.25)
    x_BMTJC = official.clip(3, 32)
    kept_RPJ = method.slower_frames(view_of(x_BMTJC), step_with(by_key))
    assert torch.equal(kept_RPJ, lines(kept_RPJ[:, :, 0] // 25, torch.arange(25).expand(6, -1), 25))
    for clip, x_MTJC in enumerate(x_BMTJC):
        moved = [float((x_MTJC[:, t + 1] - x_MTJC[:, t]).square().sum()) if t < 31 else 0.0 for t in range(32)]
        speed = [sum(moved[4 * p : 4 * p + 4]) for p in range(8)]
        slow = sorted(sorted(range(8), key=lambda p: speed[p])[:6])
        u = by_key(torch.tensor([2 * clip]), 6, FRAMES)[0].tolist()
        expected = sorted(slow[place] for place in sorted(range(6), key=lambda place: u[place])[:4])
        assert (kept_RPJ[2 * clip, :, 0] // 25).tolist() == (kept_RPJ[2 * clip + 1, :, 0] // 25).tolist() == expected


def test_joints_with_more_bones_are_missing_more_often():
    """A joint is drawn first as often as it has a share in the ends of all bones."""
    method, view = make(mask_joints=0.04), view_of(torch.zeros(4000, 1, 20, 25, 3))
    generator = torch.Generator().manual_seed(0)
    kept = method.outer_joints(view, step_with(lambda keys, n, op: torch.rand(len(keys), n, generator=generator)))
    share_J = 1 - torch.zeros(4000, 25).scatter_(1, kept[:, 0], 1.0).mean(0)
    assert torch.allclose(share_J, torch.tensor(DEGREE) / sum(DEGREE), atol=0.02)
