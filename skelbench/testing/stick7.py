"""Plugin file with a skeleton of its own for checks: a spine of three joints and four limbs of one joint."""

from skelbench.plugin import TopologySpec, hookimpl
from skelbench.views.skeleton.topology import Topology

STICK7 = Topology(
    name="stick7",
    joints=("pelvis", "chest", "head", "left hand", "right hand", "left foot", "right foot"),
    parents=(-1, 0, 1, 1, 1, 0, 0),
    pairs=((3, 4), (5, 6)),
    parts={"trunk": (0, 1, 2), "left arm": (3,), "right arm": (4,), "left leg": (5,), "right leg": (6,)},
    root=0,
    center=1,
)


@hookimpl
def skelbench_topologies() -> list[TopologySpec]:
    return [TopologySpec(name="stick7", target=":STICK7", summary="seven joints, for checks")]
