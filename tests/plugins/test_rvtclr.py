"""RVTCLR against numbers of the public code, and its parts against slow references."""

import official
import official_graph
import pytest
import torch
import torch.nn.functional as F
from official import in_float64
from skelbench_plugins.rvtclr import RVTCLR, PartRelation, RVTCLRConfig
from skelbench_plugins.stgcn import STGCN, STGCNConfig

from skelbench.methods import Step
from skelbench.methods.contract import Context
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import H36M17, NTU25

GOLDEN = {
    "contrast": (3.0605726, 0.9883463, 2.4109802, 4.655427, 7.0798359, 0.0739782, 0.002288),
    "mining": (3.7458925, 0.9883463, 2.4109802, 1.5677059, 3.3385561, 0.0739782, 0.002288),
}
"""Both InfoNCE, the margin and the cross-entropy, and gradient norms of the first temporal convolution, of the heads of
appearance and motion and of one layer between parts, of Zhuysheng/RVTCLR (commit 68dd7f4), net/skeletonclr.py, in
training mode without dropout at temperature 0.5 on batches 0 (query), 1 (key) and 2 (whole), whose clips 1 and 2 are
fast."""
FAST = torch.tensor([False, True, True, False])
E, K = 6, 8


def made(**settings):
    """With the numbers of ``official.fill``; the key encoder is another one."""
    grid, encoder = Grid(16, 1, 25), STGCNConfig(base=4, out=12, dropout=0.0)
    config = RVTCLRConfig(**{"queue": K, "embedding": E, "temperature": 0.5} | settings)
    method = official.fill(RVTCLR(config, Context(NTU25, grid, lambda: STGCN(encoder, NTU25, grid), 12, 12)))
    method.queue.keys_KE.copy_(F.normalize(torch.from_numpy(official.wave((K, E), 2.0)).float(), dim=1))
    return method.train()


def tempo(keys_R, n, op=0):
    """Replace ``step.uniform``: clips 1 and 2 are fast."""
    return torch.where(FAST[keys_R.div(2, rounding_mode="floor")], 0.25, 0.75)[:, None]


def views(first=0):
    names = ("query", "key", "whole")
    return {name: View.of(official_graph.clips(first + k), keys_R=torch.arange(8)) for k, name in enumerate(names)}


def at(index, phase="contrast"):
    return Step(index, 9, 0.0, torch.Generator(), tempo, phase=phase)


@pytest.mark.parametrize("phase", GOLDEN)
def test_the_step_equals_the_public_code(phase):
    method = made()
    with in_float64():
        batch = {name: view.with_x(view.x_RTJC.double()) for name, view in views().items()}
        out = method.double()(batch, at(2, phase))
    out["loss"].backward()
    weights = method.encoder.blocks[0].time[2].weight, method.parts.query.weight
    first, relation = (float(weight.grad.norm()) for weight in weights)
    norms = [first, *(float(part.norm()) for part in method.head.weight.grad.chunk(2)), relation]
    found = [float(out[name].detach()) for name in ("contrast", "tempo", "taught")]
    assert found + norms == pytest.approx(GOLDEN[phase], rel=3e-4)
    assert float(out["loss"].detach()) == pytest.approx(sum(found), rel=1e-6)


def test_the_loss_is_the_formula_from_the_first_step_on():
    """Clip by clip and key by key; the queue holds the keys of the other tempo."""
    method, written = made(margin=2.0, neighbors=2), []
    for index, phase in enumerate(("mining", "contrast", "contrast", "mining")):
        batch, step = views(3 * index), at(index, phase)
        with torch.no_grad():
            out = method(batch, step)

            def embedded(x_BMTJC, fast, encoder, head):
                halves = [x[:, ::2] if fast[b] else x[:, :8] for b, x in enumerate(x_BMTJC)]
                view = View.of(torch.stack(halves))
                both = head(view.per_clip(encoder(view).pooled_RD))
                return F.normalize(both[:, :E], dim=1), F.normalize(both[:, E:], dim=1)

            q, q_motion = embedded(batch["query"].x_BMTJC, FAST, method.encoder, method.head)
            k, k_motion = embedded(batch["key"].x_BMTJC, FAST, method.key_encoder, method.key_head)
            n, n_motion = embedded(batch["key"].x_BMTJC, ~FAST, method.key_encoder, method.key_head)
            whole = batch["whole"]
            parts = method.parts(method.encoder(whole).tokens_RND.unflatten(1, (-1, 25)))
            z = F.normalize(method.part_head(whole.per_clip(parts)), dim=1)
        expected = {"contrast": 0.0, "tempo": 0.0, "taught": 0.0}
        for b in range(4):
            keys = written[-K:]
            near = set()
            if phase == "mining":
                for x in (q[b], z[b]):
                    near |= set(sorted(range(len(keys)), key=lambda i: -float(x @ keys[i]))[:2])
            positives = [0, *(1 + i for i in near)]
            scores = torch.stack([q[b] @ other for other in (k[b], *keys)]) / 0.5
            for own in (k[b], n[b]):
                log_p = (torch.stack([q[b] @ other for other in (own, *keys)]) / 0.5).log_softmax(0)
                expected["contrast"] -= float(log_p[positives].mean()) / 4
            gap = float(q_motion[b] @ k_motion[b] - q_motion[b] @ n_motion[b]) / 0.5
            expected["tempo"] += max(0.0, 2.0 - gap) / 4
            student = torch.stack([z[b] @ other for other in (k[b], *keys)]) / 0.5
            expected["taught"] -= float((scores.softmax(0) * student.log_softmax(0)).sum()) / 4
        for name, value in expected.items():
            assert float(out[name]) == pytest.approx(value, rel=1e-3, abs=1e-4), (index, name)
        method.after_step(step)
        written += list(n)


@pytest.mark.parametrize("topology", [NTU25, H36M17])
def test_parts_are_related_over_time(topology):
    """Number by number: pooled by part, two layers, attention over frames, batch norm over rows, parts and frames."""
    torch.manual_seed(0)
    relation = PartRelation(6, topology).train()
    for p in relation.parameters():
        p.data = torch.randn_like(p)
    x_RTJD = torch.randn(3, 4, topology.num_joints, 6)
    parts = list(topology.parts.values())
    with torch.no_grad():
        found = relation(x_RTJD)
        h = torch.stack([relation.excite(x_RTJD[:, :, list(joints)].mean(2)) for joints in parts], 1)  # [R, S, T, D]
        y = torch.zeros(3, len(parts), 4, 6)
        for r in range(3):
            mean = [sum(h[r, s, t] for s in range(len(parts))) / len(parts) for t in range(4)]
            for t in range(4):
                score = torch.stack([relation.query(mean[t]) @ relation.key(mean[u]) for u in range(4)]).softmax(0)
                for s in range(len(parts)):
                    y[r, s, t] = relation.out(sum(score[u] * relation.value(h[r, s, u]) for u in range(4)))
        every = y.flatten(0, 2)
        y = (y - every.mean(0)) / (every.var(0, unbiased=False) + 1e-5).sqrt()
        expected = (h + y * relation.norm.weight + relation.norm.bias).mean((1, 2))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
