import pytest

from skelbench.models.graph import bone_subsets
from skelbench.views.skeleton.topology import topologies


@pytest.mark.parametrize("topology", topologies().values(), ids=topologies())
def test_the_graph_weights_a_joint_its_parent_and_its_children(topology):
    own, parents, children = bone_subsets(topology)
    every = range(topology.num_joints)
    for k in every:
        assert own[:, k].tolist() == [float(j == k) for j in every]
        assert parents[:, k].tolist() == [float(j == topology.bones[k] != k) for j in every]
        ends = [j for j in every if topology.bones[j] == k != j]
        assert children[:, k].tolist() == pytest.approx([1 / len(ends) if j in ends else 0.0 for j in every])
