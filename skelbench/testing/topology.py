"""Checks of skeletons: the tree, what is left and right of it, and that views are made of it.

J joints.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from skelbench.plugin.descriptors import Descriptor
from skelbench.plugin.host import Host
from skelbench.testing.announcement import announcement
from skelbench.testing.check import Check, Failed
from skelbench.testing.clips import clip_batch
from skelbench.views.augmentations import BoneScale, Mirror, Rotate
from skelbench.views.builder import ViewBuilder
from skelbench.views.crops import Center
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.topology import Topology
from skelbench.views.spec import ViewSpec
from skelbench.views.tubes import Tube

SIDES = {"left": "right", "right": "left"}


@dataclass
class TopologySubject:
    """A skeleton."""

    host: Host
    descriptor: Descriptor

    @cached_property
    def topology(self) -> Any:
        """What the target names; SkelbenchError where it contradicts itself."""
        return self.host.load(self.descriptor)


def form(subject: TopologySubject) -> None:
    topology = subject.topology
    if not isinstance(topology, Topology):
        look = "target of its TopologySpec: an instance, not a function or a class"
        raise Failed("a skelbench.views.skeleton.topology.Topology", f"{topology!r}"[:80], look)
    if topology.name != subject.descriptor.name:
        raise Failed(f"the name {subject.descriptor.name!r}, as announced", repr(topology.name), "name of the Topology")
    twin = pickle.loads(pickle.dumps(topology))
    if (twin.joints, twin.parents, twin.bones) != (topology.joints, topology.parents, topology.bones):
        raise Failed("a topology that other processes can be sent", "it changed on its way", "its fields: plain tuples")


def tree(subject: TopologySubject) -> None:
    topology = subject.topology
    x_J3 = np.random.default_rng(0).normal(size=(topology.num_joints, 3))
    bones_J3 = topology.differences @ x_J3
    for joint, parent in enumerate(topology.parents):
        if not np.allclose(bones_J3[joint], x_J3[joint] - (x_J3[parent] if parent >= 0 else 0)):
            raise Failed("bones from each joint's parent to it", f"not of {topology.joints[joint]}", "parents")
    if not np.array_equal(topology.ancestors @ topology.differences, np.eye(topology.num_joints)):
        raise Failed("a tree from whose bones the joints are found again", "it is none", "parents and root")


def sides(subject: TopologySubject) -> None:
    topology = subject.topology
    look = "pairs, and the order of joints"
    for joint, name in enumerate(topology.joints):
        side, _, rest = name.partition(" ")
        twin = topology.joints[topology.swap[joint]]
        expected = f"{SIDES[side]} {rest}" if side in SIDES else name
        if expected in topology.joints and twin != expected:
            raise Failed(f"{expected!r} as the mirror image of {name!r}", repr(twin), look)
        parent, image = topology.parents[joint], topology.parents[topology.swap[joint]]
        if image != (topology.swap[parent] if parent >= 0 else -1):
            hangs = topology.joints[image] if image >= 0 else "nothing"
            look = "parents: both sides must hang alike, or the joint belongs to no pair"
            raise Failed(
                f"{twin!r} to hang on the mirror image of what {name!r} hangs on", f"it hangs on {hangs}", look
            )


def views(subject: TopologySubject) -> None:
    topology = subject.topology
    augment = (Rotate(p=1.0), Mirror(p=1.0), BoneScale(p=1.0), BoneScale(p=1.0, groups="limbs"))
    specs = {"x": ViewSpec(frames=16, crop=Center(share=1.0), augment=augment, mask=Tube())}
    view = ViewBuilder(specs, topology, 4)(clip_batch(topology), Keyed(0, 0))["x"]
    if not torch.isfinite(view.x_RTJC).all():
        raise Failed("finite coordinates of rotated, mirrored and scaled bodies", "some are not", "parts and parents")
    twice = {"x": ViewSpec(frames=16, crop=Center(share=1.0), augment=(Mirror(p=1.0), Mirror(p=1.0)))}
    plain = {"x": ViewSpec(frames=16, crop=Center(share=1.0))}
    mirrored, as_is = (
        ViewBuilder(each, topology, 4)(clip_batch(topology), Keyed(0, 0))["x"].x_RTJC for each in (twice, plain)
    )
    if not torch.allclose(mirrored, as_is, atol=1e-6):
        raise Failed("a body that is mirrored twice as it was", "another one", "pairs")


CHECKS: tuple[Check[TopologySubject], ...] = (
    announcement(),
    Check("form", "it is a Topology of the name that is announced", form),
    Check("tree", "joints are found again from its bones", tree),
    Check("sides", "left is the mirror image of right, in names and in bones", sides),
    Check("views", "bodies are rotated, mirrored twice, scaled and masked by it", views),
)


def kit(host: Host, descriptor: Descriptor) -> tuple[TopologySubject, Sequence[Check[TopologySubject]]]:
    """What is checked of a skeleton, and its checks."""
    return TopologySubject(host, descriptor), CHECKS
