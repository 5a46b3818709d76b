"""ActCLR against numbers of the public code with its two bugs fixed, and its parts against slow references."""

from dataclasses import replace

import official_graph
import pytest
import torch
import torch.nn.functional as F
from official import in_float64
from skelbench_plugins.actclr import ActCLR, ActCLRConfig, imported
from skelbench_plugins.actclr.actionlet import actionlet
from skelbench_plugins.actclr.mixes import bone_transfer, mix, partner_share, partners
from skelbench_plugins.stgcn import STGCN, STGCNConfig

from skelbench.methods import Step
from skelbench.methods.contract import Context
from skelbench.pipeline.checkpoint_file import fit
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

KINDS = {"region": 0.9, "cut": 0.4, "blend": 0.2}
"""Mix of two clips for each value of the draw that chooses it."""
CHOSEN = (0, 3)
"""Body parts that come from the other clip, in the order of ``topology.parts``."""
START, LENGTH, BLEND = 8, 12, 0.3
GOLDEN = {
    "region": (1.0184004, 1.0205704, 1.0320484, 1.0330507, 8.8467575),
    "cut": (1.0184004, 1.0208672, 1.0574369, 0.8321349, 8.9003053),
    "blend": (1.0184004, 0.9907249, 1.0723960, 0.7635449, 8.9983327),
}
"""Losses of views that are strong outside of actionlets, mixed around them and mixed across, and norms of
:data:`GRADIENTS`: LanglandsLin/ActCLR (commit 7c63e60) in float64, net/actclr.py and net/st_gcn.py as are in its
work_dir/ntu60_cv/actclr_joint/pretext/gpu_1 (February 2024), in training mode without dropout, with the 8 nearest of 16
keys, and each clip's key mixed by its own weight."""
GRADIENTS = ("encoder.blocks.0.time.2.weight", "head.2.weight")


def draws(kind):
    """``step.uniform`` whose draws are the constants above: partners 1, 2 and 3 clips on."""

    def uniform(keys_R, n, op=0):
        what, place = op % 8, op // 8
        if what == 1:  # partners
            u = [(place - 1 + 0.5) / 3]
        else:  # parts, length in units of 4 frames, of 2 to 3, start of 6
            u = [0.1, 0.9, (START // 4 + 0.5) / 6, *(0.1 if part in CHOSEN else 0.8 for part in range(5))]
            u += [KINDS[kind], BLEND]
        return torch.tensor(u).expand(len(keys_R), n)

    return uniform


def make(**settings):
    grid, encoder = Grid(32, 1, 25), STGCNConfig(base=4, out=12, dropout=0.0)
    settings = {"queue": 16, "embedding": 6, "nearest": 0.5, "steepness": 1e8 / 4, **settings}
    return ActCLR(ActCLRConfig(**settings), Context(NTU25, grid, lambda: STGCN(encoder, NTU25, grid), 12, 12))


def views(phase="all", dtype=torch.float32):
    names = ("positive", "key") if phase == "none" else (f"strong-{phase}", f"normal-{phase}", "positive", "key")
    keys_R = torch.arange(8)
    return {name: View.of(official_graph.clips(k, frames=32).to(dtype), keys_R=keys_R) for k, name in enumerate(names)}


def made(kind, **settings):
    """A step's output and the method in float64, with the weights of ``official_graph.state()``."""
    method = make(transferred=True, **settings)
    assert fit(method, imported(official_graph.state(keys=16), {}).weights, "official_graph.state")
    method.double()
    with in_float64():
        seen = views(dtype=torch.float64)
        return method(seen, Step(4, 9, 0.0, torch.Generator(), draws(kind), phase="all")), method


@pytest.mark.parametrize("kind", KINDS)
def test_the_step_equals_the_public_code(kind):
    out, method = made(kind)
    out["loss"].backward()
    parts = dict(method.named_parameters())
    found = [float(out[name]) for name in ("strong", "around", "across")]
    found += [float(parts[name].grad.norm()) for name in GRADIENTS]
    # A weight before a batch norm has a gradient of small differences, which the recorded digits give to 0.3 %.
    assert found == pytest.approx(GOLDEN[kind], rel=5e-3)
    assert [*found[:3], found[4]] == pytest.approx([*GOLDEN[kind][:3], GOLDEN[kind][4]], rel=2e-6)
    assert float(out["loss"].detach()) == pytest.approx(sum(found[:3]), rel=1e-6)


def test_losses_equal_a_slow_reference():
    """Key by key: the nearest ones that are no duplicates, softmax of the teacher, of the student's squares."""
    method = make(nearest=0.5, duplicate=0.9).eval()
    keys_nE = F.normalize(torch.randn(16, 6, generator=torch.Generator().manual_seed(1)), dim=1)
    key_BE = F.normalize(keys_nE[:4] + 0.1 * keys_nE[4:8], dim=1)
    view = views()["key"]
    step = Step(4, 9, 0.0, torch.Generator(), draws("region"))
    with torch.no_grad():
        found, query_BE = method.taught(view, key_BE, keys_nE, step), method.queries(view)
    expected = 0.0
    for b in range(4):
        near = [float(key_BE[b] @ key) for key in keys_nE]
        assert max(near) > 0.9
        near = [-1.0 if x > 0.9 else x for x in near]
        chosen = sorted(range(16), key=lambda n: -near[n])[:8]
        teacher = torch.tensor([near[n] / 0.04 for n in chosen]).softmax(0)
        student = torch.tensor([float(query_BE[b] @ keys_nE[n]) ** 2 / 0.1 for n in chosen]).log_softmax(0)
        expected += float((teacher * (teacher.log() - student)).sum()) / 4
    assert float(found) == pytest.approx(expected, rel=1e-4)


def test_an_actionlet_is_where_a_clip_differs_from_the_mean():
    """Row by row, by finite differences in float64 of the cosine with the anchor."""
    torch.manual_seed(0)
    x_RND, anchor_1E, head = torch.randn(3, 50, 4).double(), torch.randn(1, 5).double(), torch.randn(4, 5).double()
    clip_R = torch.tensor([0, 0, 1])  # two bodies of one clip, one of another

    def embed(tokens_RND):
        rows_RE = tokens_RND.to(head.dtype).mean(1) @ head
        return torch.stack([rows_RE[clip_R == clip].mean(0) for clip in (0, 1)]).tanh()

    found = actionlet(embed, x_RND, anchor_1E, NTU25, steepness=300.0)
    assert not found.requires_grad and 0 < float(found.mean()) < 1 == float(found.max())
    for row in range(3):
        pull_D = torch.zeros(4, dtype=torch.float64)  # the same for all cells, which the mean over cells sees alike
        for d in range(4):
            change = torch.zeros_like(x_RND)
            change[row, :, d] = 1e-4
            both = [float(F.cosine_similarity(embed(x), anchor_1E)[clip_R[row]]) for x in (x_RND + change, x_RND)]
            pull_D[d] = (both[1] - both[0]) / 1e-4 / 50
        map_PJ = (x_RND[row] @ pull_D / 4).clamp(min=0).view(2, 25) * 300
        for joints in NTU25.parts.values():
            for p in range(2):
                mean = min(1.0, float(map_PJ[p, list(joints)].mean()))
                assert found[row, p, list(joints)].tolist() == pytest.approx([mean] * len(joints), abs=2e-3)


def test_rounding_errors_make_no_actionlet():
    areas = [float(made("region", rounded=rounded)[0]["actionlet"]) for rounded in (True, False)]
    assert areas[0] < 1e-3 and areas[1] > 0.5


def test_bones_get_the_lengths_of_the_counterpart():
    """Joint by joint from the hub outwards; a body without a counterpart stays as it is."""
    x_BMTJC = torch.randn(3, 2, 5, 25, 3, generator=torch.Generator().manual_seed(0))
    valid_BM = torch.tensor([[True, True], [True, False], [True, True]])
    view = View.of(x_BMTJC, valid_BM)
    partner_B = torch.tensor([1, 2, 0])
    found = bone_transfer(view, partner_B, NTU25).x_BMTJC
    outward = sorted(range(25), key=lambda j: (0 if NTU25.bones[j] == j else 1, _depth(j)))
    for b, m in ((0, 0), (1, 0), (2, 0), (2, 1)):
        own, theirs, expected = x_BMTJC[b, m], x_BMTJC[partner_B[b], m], x_BMTJC[b, m].clone()
        for j in outward:
            start = NTU25.bones[j]
            bone, other = own[:, j] - own[:, start], theirs[:, j] - theirs[:, start]
            sizes = [(x.square().sum(1, keepdim=True) + 1e-5).sqrt() for x in (other, bone)]
            expected[:, j] = expected[:, start] + bone * sizes[0] / sizes[1] if start != j else own[:, j]
        torch.testing.assert_close(found[b, m], expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(found[0, 1], x_BMTJC[0, 1])
    bones = bone_transfer(replace(view, stream="bone"), partner_B, NTU25).x_BMTJC
    length, theirs = bones[0, 0].norm(dim=-1), x_BMTJC[1, 0].norm(dim=-1)
    torch.testing.assert_close(length, theirs, rtol=1e-2, atol=1e-2)
    motion = bone_transfer(replace(view, stream="motion"), partner_B, NTU25).x_BMTJC
    own, theirs = x_BMTJC[0, 0], x_BMTJC[1, 0]
    torch.testing.assert_close(
        motion[0, 0], (own - own.mean(1, True)) / (own.std(0) + 1e-3) * theirs.std(0) + theirs.mean(1, True)
    )


def _depth(joint):
    return 0 if NTU25.bones[joint] == joint else 1 + _depth(NTU25.bones[joint])


@pytest.mark.parametrize("kind", KINDS)
def test_mixes_equal_a_slow_reference(kind):
    """Number by number; shares of a mixed clip by the weights of cells that were given and kept."""
    x_BMTJC = torch.randn(4, 1, 30, 25, 3, generator=torch.Generator().manual_seed(0))
    view = View.of(x_BMTJC, keys_R=torch.arange(4))
    step = Step(0, 1, 0.0, torch.Generator(), draws(kind))
    partner_B = partners(view, step, 3)
    assert partner_B.tolist() == [3, 0, 1, 2]
    out = mix(view, partner_B, NTU25, step, (2, 3), (0.24, 0.4), False, op=3)
    weight = torch.rand(4, 8, 25) + 0.5  # 8 cells of 4 frames, the last of 2
    share_B = partner_share(out, weight)
    parts = list(NTU25.parts.values())
    chosen = {j for part in CHOSEN for j in parts[part]}
    start = int((START // 4 + 0.5) / 6 * 5) * 4  # of 7 units of 4 frames
    for b in range(4):
        other, taken, left = int(partner_B[b]), 0.0, 0.0
        expected = x_BMTJC[b, 0].clone()
        for t in range(30):
            for j in range(25):
                inside = start <= t < start + LENGTH and j in chosen
                if kind == "blend":
                    expected[t, j] = 0.7 * x_BMTJC[b, 0, t, j] + 0.3 * x_BMTJC[other, 0, t, j]
                elif inside:
                    expected[t, j] = x_BMTJC[other, 0, t if kind == "region" else 2 * (t - start), j]
        torch.testing.assert_close(out.view.x_BMTJC[b, 0], expected)
        for p in range(8):
            for j in range(25):
                inside = float(start <= 4 * p < start + LENGTH and j in chosen)
                gone = {"region": inside, "cut": inside, "blend": 0.3}[kind]
                given = {"region": inside, "cut": float(j in chosen), "blend": 0.3}[kind]
                taken += float(weight[other, p, j]) * given / float(weight[other].sum())
                left += float(weight[b, p, j]) * (1 - gone) / float(weight[b].sum())
        assert float(share_B[b]) == pytest.approx(taken / (taken + left), rel=1e-4)


def test_augmentations_become_rarer(resolved):
    views = resolved("actclr").spec.views
    probabilities = [[op["p"] for op in views[f"strong-{level}"]["augment"][1:3]] for level in ("all", "many", "few")]
    assert probabilities == [[0.5, 1.0], [0.5 * 5 / 7, 5 / 7], [0.5 * 3 / 7, 3 / 7]]
    starts = [0.0, 0.25, 0.5, 0.5 + 0.5 * 100 / 350, 0.5 + 0.5 * 200 / 350, 0.5 + 0.5 * 300 / 350]
    assert [start for _, start in make(first=0.5).phases()] == pytest.approx(starts)
