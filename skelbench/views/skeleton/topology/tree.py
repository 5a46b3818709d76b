"""A skeleton's joints, bones, mirror pairs and body parts, as data (torch-free)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skelbench.core.errors import SkelbenchError

BETWEEN_SHOULDERS = ("spine shoulder", "shoulder center", "thorax", "neck")
"""Names of the joint between the shoulders."""


@dataclass(frozen=True, eq=False)
class Topology:
    """A rooted tree of J joints. Joint indices are 0-based.

    ``parents[j]`` is the parent of joint j, -1 for the root. ``pairs`` are left-right pairs; joints in no pair map
    to themselves. ``parts`` (name -> joints) partition the joints into connected body parts; the order within a part
    matters for masks with ``spans="ordered"`` only. ``center`` is the joint that clips are centered on. ``bones[j]`` is
    where the bone to joint j begins for the bone stream and for graphs, j itself if joint j has no bone; default: its
    parent.

    Raises :class:`SkelbenchError` when the data contradict each other.

    >>> three = Topology(
    ...     name="three",
    ...     joints=("trunk", "left hand", "right hand"),
    ...     parents=(-1, 0, 0),
    ...     pairs=((1, 2),),
    ...     parts={"trunk": (0,), "left arm": (1,), "right arm": (2,)},
    ...     root=0,
    ...     center=0,
    ... )
    >>> three.num_joints, three.swap, sorted(three.limbs)
    (3, (0, 2, 1), ['left arm + right arm', 'trunk'])
    """

    name: str
    joints: tuple[str, ...]
    parents: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    parts: Mapping[str, tuple[int, ...]]
    root: int
    center: int
    bones: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        everyone = set(range(self.num_joints))
        if len(set(self.joints)) != self.num_joints or not self.joints:
            self._refuse("its joint names are empty or not distinct")
        if len(self.parents) != self.num_joints:
            self._refuse(f"it has {self.num_joints} joints but {len(self.parents)} parents")
        if not {self.root, self.center} <= everyone:
            self._refuse("its root or center is not a joint")
        if [j for j, parent in enumerate(self.parents) if parent == -1] != [self.root]:
            self._refuse(f"exactly joint {self.root} (the root) must have parent -1")
        if not set(self.parents) - {-1} <= everyone:
            self._refuse("a parent is not a joint")
        if len(self.order) != self.num_joints:
            self._refuse("its bones are not a tree: some joint is not reached from the root")
        paired = [j for pair in self.pairs for j in pair]
        if len(set(paired)) != len(paired) or not set(paired) <= everyone:
            self._refuse("a joint is in more than one mirror pair, is paired with itself, or does not exist")
        if sorted(j for part in self.parts.values() for j in part) != sorted(everyone):
            self._refuse("its parts must hold every joint exactly once")
        for part, graph in self.part_graphs.items():
            if not graph or len(_reached(next(iter(graph)), graph)) != len(graph):
                self._refuse(f"part {part!r} is empty or not connected")
        if not self.bones:
            object.__setattr__(self, "bones", tuple(j if p < 0 else p for j, p in enumerate(self.parents)))
        if len(self.bones) != self.num_joints or not set(self.bones) <= everyone:
            self._refuse("it has not one bone per joint, or a bone begins at no joint")
        mirrored = {frozenset(self.swap[j] for j in part) for part in self.parts.values()}
        if mirrored != {frozenset(part) for part in self.parts.values()}:
            self._refuse("mirroring must map every part onto a part")

    def _refuse(self, reason: str) -> None:
        raise SkelbenchError(f"topology {self.name!r} is not valid: {reason}; correct its definition")

    @property
    def num_joints(self) -> int:
        """J."""
        return len(self.joints)

    @cached_property
    def anchor(self) -> int:
        """The joint between the shoulders; ``center`` if there is no such joint."""
        return next((self.joints.index(name) for name in BETWEEN_SHOULDERS if name in self.joints), self.center)

    @cached_property
    def swap(self) -> tuple[int, ...]:
        """Mirror permutation: joint j of a mirrored body is joint swap[j] of the original; its own inverse."""
        swap = list(range(self.num_joints))
        for left, right in self.pairs:
            swap[left], swap[right] = right, left
        return tuple(swap)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Joints from the root outwards: every joint after its parent."""
        children: dict[int, list[int]] = {}
        for joint, parent in enumerate(self.parents):
            children.setdefault(parent, []).append(joint)
        order = [self.root]
        for joint in order:
            order.extend(children.get(joint, []))
        return tuple(order)

    @cached_property
    def ancestors(self) -> np.ndarray:
        """A, float64 [J, J]: A[j, k] = 1 if k is on the path from the root to j, both included. A = inverse of D."""
        matrix = np.eye(self.num_joints)
        for joint in self.order[1:]:
            matrix[joint] += matrix[self.parents[joint]]
        return matrix

    @cached_property
    def linked(self) -> np.ndarray:
        """Bool [J, J]: whether two different joints are connected by one of ``bones``."""
        matrix = np.zeros((self.num_joints, self.num_joints), dtype=bool)
        for joint, begin in enumerate(self.bones):
            matrix[joint, begin] = matrix[begin, joint] = joint != begin
        return matrix

    @cached_property
    def differences(self) -> np.ndarray:
        """D, float64 [J, J]: (D x)[j] = x[j] - x[parents[j]], and the root's own position in the root's row."""
        matrix = np.eye(self.num_joints)
        for joint in self.order[1:]:
            matrix[joint, self.parents[joint]] = -1.0
        return matrix

    @cached_property
    def limbs(self) -> dict[str, tuple[int, ...]]:
        """``parts`` with every left part joined to its mirror image: torso, both arms, both legs."""
        image = {frozenset(part): name for name, part in self.parts.items()}
        limbs: dict[str, tuple[int, ...]] = {}
        paired: set[str] = set()
        for name, part in self.parts.items():
            twin = image[frozenset(self.swap[joint] for joint in part)]
            if name in paired:
                continue
            paired |= {name, twin}
            limbs[name if twin == name else f"{name} + {twin}"] = part if twin == name else part + self.parts[twin]
        return limbs

    @cached_property
    def part_graphs(self) -> dict[str, dict[int, tuple[int, ...]]]:
        """Part name -> joint -> joints of the same part that share a bone with it."""
        graphs = {}
        for name, part in self.parts.items():
            inside = set(part)
            edges = [(j, self.parents[j]) for j in part if self.parents[j] in inside]
            graphs[name] = {j: tuple(b if a == j else a for a, b in edges if j in (a, b)) for j in part}
        return graphs


def _reached(start: int, graph: Mapping[int, tuple[int, ...]]) -> set[int]:
    """Joints of ``graph`` connected to ``start``."""
    visited, todo = {start}, [start]
    while todo:
        new = set(graph[todo.pop()]) - visited
        visited |= new
        todo.extend(new)
    return visited
