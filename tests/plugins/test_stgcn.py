"""ST-GCN against numbers of the public code, and its graph against a literal reading of it."""

import itertools

import official_graph
import pytest
import torch
from skelbench_plugins.stgcn import STGCN, STGCNConfig, spatial_partition

from skelbench.methods.momentum_contrast import imported
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import H36M17, NTU25, Topology

FEATURES = [0.765769, 0.920264, 0.417752, 0.340359]
"""First features of clip 1, the mean over its bodies, of LinguoLi/CrosSCLR (commit 792b70c), net/st_gcn.py without its
head, in eval mode on ``official_graph.clips(1)`` with the weights of ``official_graph.state()``."""


def test_features_equal_the_public_code():
    read = imported(official_graph.state(), {}).weights
    encoder = STGCN(STGCNConfig(base=4, out=12), NTU25, Grid(16, 1, 25)).eval()
    encoder.load_state_dict({k.removeprefix("encoder."): x for k, x in read.items() if k.startswith("encoder.")})
    view = View.of(official_graph.clips(1))
    with torch.no_grad():
        assert view.per_clip(encoder(view).pooled_RD)[1, :4].tolist() == pytest.approx(FEATURES, abs=2e-6)


def hops(topology: Topology, hub: int) -> list[int]:
    near = {frozenset(pair) for pair in enumerate(topology.bones)}
    found, ring, seen = {hub: 0}, {hub}, {hub}
    for distance in itertools.count(1):
        ring = {j for j in range(topology.num_joints) if j not in seen and any(frozenset((j, k)) in near for k in ring)}
        if not ring:
            return [found[j] for j in range(topology.num_joints)]
        found |= dict.fromkeys(ring, distance)
        seen |= ring


@pytest.mark.parametrize("seen", [None, 1])
@pytest.mark.parametrize("topology,hub", [(NTU25, 20), (H36M17, 8)])
def test_neighbors_are_partitioned_by_distance_from_the_hub(topology, hub, seen):
    partition, distance = spatial_partition(topology, seen), hops(topology, hub)
    if seen is not None:
        distance = [d if d <= seen else float("inf") for d in distance]
    linked = {(j, j) for j in range(topology.num_joints)}
    linked |= {pair for j, k in enumerate(topology.bones) for pair in ((j, k), (k, j))}
    for j, k in itertools.product(range(topology.num_joints), repeat=2):
        share = 1 / sum((other, k) in linked for other in range(topology.num_joints)) if (j, k) in linked else 0.0
        subset = 0 if j == k else 1 if distance[j] >= distance[k] else 2
        expected = [share if s == subset else 0.0 for s in range(3)]
        assert partition[:, j, k].tolist() == pytest.approx(expected)
