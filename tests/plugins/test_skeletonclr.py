import itertools

import pytest
import torch
from skelbench_plugins.stgcn import STGCN, STGCNConfig, spatial_partition

from skelbench.skeleton.grid import Grid
from skelbench.skeleton.topology import H36M17, NTU25, Topology
from skelbench.views import View


@pytest.fixture
def training(resolved, host):
    from skelbench.train.build import build_method

    made = resolved("skeletonclr", **{"queue": 24, "embedding": 8})
    return made, build_method(made.spec, host, made.store.topology)


def batch(topology, seed, clips=4):
    x = torch.randn(clips, 2, 64, topology.num_joints, 3, generator=torch.Generator().manual_seed(seed))
    valid = torch.tensor([[True, True], [True, False], [True, False], [True, True]])
    return View.of(x, valid)


def test_loss_is_info_nce_over_clips_and_the_keys_written_so_far(training):
    made, method = training
    topology = made.store.topology
    from skelbench.methods import Step

    written = []
    for index in range(9):  # 36 keys: the queue of 24 wraps around
        step = Step(index, 10, 0.0, torch.Generator(), lambda *_: None)
        views = {"query": batch(topology, 2 * index), "key": batch(topology, 2 * index + 1)}
        with torch.no_grad():
            out = method(views, step)["loss"]
            embeddings = {}
            for name, encoder, head in (
                ("query", method.encoder, method.head),
                ("key", method.key_encoder, method.key_head),
            ):
                view, each = views[name], []
                feature_RD = encoder(view).summary_RD
                for clip in range(4):
                    own = [feature_RD[r] for r in range(view.rows) if view.clip_R[r] == clip]
                    each.append(torch.nn.functional.normalize(head(sum(own) / len(own)), dim=0))
                embeddings[name] = each
            losses = []
            for query, key in zip(embeddings["query"], embeddings["key"]):
                scores = torch.stack([query @ other for other in (key, *written[-24:])]) / 0.07
                losses.append(torch.logsumexp(scores, 0) - scores[0])
            assert out == pytest.approx(float(sum(losses) / 4), rel=1e-4, abs=1e-5)
            method.after_step(step)
            written += embeddings["key"]


def test_the_key_encoder_follows_and_takes_no_gradient(training):
    _, method = training
    trained = {id(p) for group in method.optim_groups() for p in group["params"]}
    twins = [*method.key_encoder.parameters(), *method.key_head.parameters()]
    assert trained.isdisjoint(map(id, twins)) and not any(p.requires_grad for p in twins)


def hops(topology: Topology, hub: int) -> list[int]:
    near = {frozenset((j, p)) for j, p in enumerate(topology.parents) if p >= 0}
    found, ring, seen = {hub: 0}, {hub}, {hub}
    for distance in itertools.count(1):
        ring = {j for j in range(topology.num_joints) if j not in seen and any(frozenset((j, k)) in near for k in ring)}
        if not ring:
            return [found[j] for j in range(topology.num_joints)]
        found |= dict.fromkeys(ring, distance)
        seen |= ring


@pytest.mark.parametrize("topology,hub", [(NTU25, 20), (H36M17, 8)])
def test_neighbours_are_parted_by_their_distance_from_the_hub(topology, hub):
    partition, distance = spatial_partition(topology), hops(topology, hub)
    linked = {(j, j) for j in range(topology.num_joints)}
    linked |= {pair for j, p in enumerate(topology.parents) if p >= 0 for pair in ((j, p), (p, j))}
    for j, k in itertools.product(range(topology.num_joints), repeat=2):
        share = 1 / sum((other, k) in linked for other in range(topology.num_joints)) if (j, k) in linked else 0.0
        subset = 0 if j == k else 1 if distance[j] >= distance[k] else 2
        expected = [share if s == subset else 0.0 for s in range(3)]
        assert partition[:, j, k].tolist() == pytest.approx(expected)


def test_the_published_size_and_its_cost_by_all_counters():
    from skelbench.cost.macs import count_encoder

    grid = Grid(50, 1, 25)
    encoder = STGCN(STGCNConfig(), NTU25, grid)
    assert sum(p.numel() for p in encoder.parameters()) == 821_380
    count = count_encoder(encoder, grid, NTU25)
    assert count.macs == count.closed_form == count.torch_flop_counter == 306_192_800
    encoder.eval()
    x = torch.randn(2, 1, 50, 25, 3)
    both, alone = encoder(View.of(x)).pooled_RD, encoder(View.of(x[:1])).pooled_RD
    assert both.shape == (2, 256) and torch.allclose(both[:1], alone, atol=1e-5)
