"""Augmentations (paper, Algorithms 2-4, their conventional counterparts, and what other methods do to clips).

Whether an operation is applied is drawn once per clip and view, and so are its angles, factors, axes and offsets; bone
scaling factors and noise are drawn per body. Your own augmentation is a subclass of :class:`Augment` with a ``kind``.

R rows, K rows that are changed, T frames, J joints.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from skelbench.plugin.plugin_errors import lacking, plugin_code, wrong
from skelbench.views.bounds import Bounded, Fraction
from skelbench.views.keyed import Keyed, pick
from skelbench.views.skeleton.topology import Topology
from skelbench.views.transform import (
    Change,
    Jitter,
    Linear,
    Matrices,
    Paced,
    Reverse,
    Shift,
    Smooth,
    Transform,
    compose,
)

PER_CLIP, PER_BODY = 16, 17
"""First ``op``: operation i of the list has 16 + 2 i for draws per clip and 17 + 2 i for draws per body."""


@dataclass(frozen=True)
class Draws:
    """Random draws of one operation for R rows; on the host.

    Draws are keyed by clip, view and place in the list of operations, never by earlier draws.

    >>> from skelbench.views.skeleton.topology import NTU25
    >>> rows_R = torch.tensor([8, 9])  # two bodies of clip 4
    >>> draws = Draws(1.0, 0, NTU25, 3, Keyed(seed=0, step=0), rows_R // 2, rows_R, torch.full((2,), 256))
    >>> draws.per_clip(1).unique().shape, draws.per_body(1).unique().shape
    (torch.Size([1]), torch.Size([2]))
    """

    p: float
    """Probability that the operation is applied to a clip."""
    place: int
    """Position in the list of operations."""
    topology: Topology
    dimensions: Literal[2, 3]
    """2 for poses of the image plane, where z has to stay 0."""
    keyed: Keyed
    clip_keys_R: Tensor
    body_keys_R: Tensor
    view_R: Tensor

    @cached_property
    def active_R(self) -> Tensor:
        """bool [R]: the rows that are changed, all bodies of a clip or none."""
        return self._first_R4[:, 0] < self.p

    @cached_property
    def rows_K(self) -> Tensor:
        """int64 [K]: their indices."""
        return self.active_R.nonzero()[:, 0]

    def per_clip(self, n: int) -> Tensor:
        """float64 [K, n], uniform in [0, 1): the same for all bodies of a clip."""
        drawn = self._first_R4 if n < 4 else self._clip(1 + n)
        return drawn[self.rows_K, 1 : 1 + n]

    def per_body(self, n: int) -> Tensor:
        """float64 [K, n], uniform in [0, 1): different for each body."""
        keys_K, view_K = self.body_keys_R[self.rows_K], self.view_R[self.rows_K]
        return self.keyed.uniform(keys_K, n, view=view_K, op=PER_BODY + 2 * self.place).double()

    def linear(
        self, space_K33: Tensor | None = None, joints_KJJ: Tensor | None = None, mirrored: bool = False
    ) -> Linear:
        """X -> S X W on the changed rows: S acts on the axes, column j of W has the weights of the old joints in joint
        j (float32; None = not at all). ``mirrored``: left and right are swapped."""
        rows, axes = len(self.view_R), (3, self.topology.num_joints)
        for name, table, size in zip(("space_K33", "joints_KJJ"), (space_K33, joints_KJJ), axes):
            self._check(name, table, size, size)
        space, joints = Matrices.identity(rows, 3), Matrices.identity(rows, self.topology.num_joints)
        return Linear(
            space if space_K33 is None else space.put(self.rows_K, space_K33),
            joints if joints_KJJ is None else joints.put(self.rows_K, joints_KJJ),
            self.active_R if mirrored else torch.zeros(rows, dtype=torch.bool),
        )

    def shift(self, offset_K3: Tensor) -> Shift:
        """X -> X + offset on the changed rows."""
        self._check("offset_K3", offset_K3, 3)
        return Shift(torch.zeros(len(self.view_R), 3).index_copy(0, self.rows_K, offset_K3.float()))

    def jitter(self, std: float) -> Jitter:
        """X -> X + Gaussian noise of ``std`` meters on the changed rows."""
        op = PER_BODY + 2 * self.place
        return Jitter(std, self.dimensions, op, self.active_R, self.body_keys_R, self.view_R)

    def _check(self, name: str, value: Tensor | None, *sizes: int) -> None:
        """Raise ValueError if the result of a plugin does not fit the changed rows."""
        right = [len(self.rows_K), *sizes]
        if value is not None and list(value.shape) != right:
            raise ValueError(f"{name} has shape {list(value.shape)}, not {right}: K = {right[0]} rows are changed")

    @cached_property
    def _first_R4(self) -> Tensor:
        return self._clip(4)

    def _clip(self, n: int) -> Tensor:
        return self.keyed.uniform(self.clip_keys_R, n, view=self.view_R, op=PER_CLIP + 2 * self.place).double()


class Augment(Bounded):
    """Base class of augmentations: settings and random draws.

    >>> class Lift(Augment):
    ...     kind = "lift"
    ...     meters: float = 0.1
    ...
    ...     def draw(self, draws):
    ...         up_K3 = torch.zeros(len(draws.rows_K), 3)
    ...         up_K3[:, 1] = self.meters * draws.per_clip(1)[:, 0]
    ...         return draws.shift(up_K3)
    >>> Lift(meters=0.2)
    Lift(p=0.5, meters=0.2)
    """

    family: ClassVar[str] = "augmentations"
    of_padded: ClassVar[bool] = True
    """Whether it may be applied to views that are padded at their end."""

    p: Fraction = 0.5
    """Probability that a clip is changed."""

    def draw(self, draws: Draws) -> Change:
        """Draw for the rows of ``draws``; usually ``draws.linear(...)`` of matrices for the rows that are changed."""
        raise lacking(self, "draw(self, draws)")


class Rotate(Augment):
    """R = Rz Ry Rx (paper, Algorithm 2): vertical (Y) and tilt (X, Z) angles uniform in +- the limits, per clip."""

    kind = "rotate"
    vertical_deg: float = Field(180.0, description="Largest angle about the vertical axis, in degrees.")
    tilt_deg: float = Field(30.0, description="Largest angle about the horizontal axes, in degrees.")

    def draw(self, draws: Draws) -> Change:
        """Rotate 2-D poses about the line of sight only, within the tilt limit."""
        vertical, tilt = math.radians(self.vertical_deg), math.radians(self.tilt_deg)
        limits = [tilt, vertical, tilt] if draws.dimensions == 3 else [0.0, 0.0, tilt]
        angles_K3 = (2 * draws.per_clip(3) - 1) * torch.tensor(limits, dtype=torch.float64)
        return draws.linear(space_K33=rotation(angles_K3))


class AxisRotate(Augment):
    """R = Rz Ry Rx with one axis drawn per clip whose angle is uniform in [0, ``major_deg``], the angles of the others
    in [0, ``minor_deg``], all clockwise seen against the axis (Levigty/AimCLR, feeder/tools.py)."""

    kind = "axis-rotate"
    p: Fraction = 1.0
    major_deg: float = Field(30.0, ge=0, description="Largest angle about the drawn axis, in degrees.")
    minor_deg: float = Field(1.0, ge=0, description="Largest angle about the other axes, in degrees.")

    def draw(self, draws: Draws) -> Change:
        """Rotate 2-D poses about the line of sight only."""
        u_K4 = draws.per_clip(4)
        chosen_K3 = torch.arange(3) == (2 if draws.dimensions == 2 else pick(u_K4[:, :1], 3))
        limit_K3 = torch.where(chosen_K3, self.major_deg, self.minor_deg if draws.dimensions == 3 else 0.0)
        return draws.linear(space_K33=rotation(-torch.deg2rad(u_K4[:, 1:] * limit_K3.double())))


class Shear(Augment):
    """Add to each coordinate a multiple of each other coordinate; factors are uniform in +- ``amplitude``, per clip."""

    kind = "shear"
    p: Fraction = 1.0
    amplitude: float = Field(0.5, ge=0, description="Largest multiple of another coordinate.")

    def draw(self, draws: Draws) -> Linear:
        """Return the shear; flat bodies stay flat."""
        factor_K6 = (2 * draws.per_clip(6) - 1) * self.amplitude
        space_K33 = torch.eye(3).repeat(len(factor_K6), 1, 1)
        space_K33[:, ~torch.eye(3, dtype=torch.bool)] = factor_K6.float()
        if draws.dimensions == 2:
            space_K33[:, 2, :2] = 0.0
        return draws.linear(space_K33)


class Mirror(Augment):
    """Swap left and right joints and, with ``reflect``, negate X (Algorithm 3); without it only the index swap."""

    kind = "mirror"
    reflect: bool = Field(True, description="Whether X is negated too.")

    def draw(self, draws: Draws) -> Change:
        rows = len(draws.rows_K)
        space_K33 = torch.diag(torch.tensor([-1.0, 1.0, 1.0])).expand(rows, -1, -1) if self.reflect else None
        joints_KJJ = permutation(draws.topology).expand(rows, -1, -1)
        return draws.linear(space_K33, joints_KJJ, mirrored=True)


class BoneScale(Augment):
    """Scale bone lengths by a factor per group, uniform in [lo, hi], keep directions (Algorithm 4), per body."""

    ADDED = frozenset({"order"})

    kind = "bone-scale"
    lo: float = Field(0.85, description="Smallest factor.")
    hi: float = Field(1.15, description="Largest factor.")
    groups: Literal["parts", "limbs", "bones"] = "parts"
    """"parts" = the topology's parts (trunk and four limbs), "limbs" = torso / both arms / both legs; "bones" =
    each bone of the bone stream by itself, while the joint at which it begins stays in place (ActCLR's code)."""
    order: Literal["topological", "index"] = "topological"
    """Order in which joints are rebuilt from their parents. "index" repeats a bug of KAIST-VICLab/SLiM: a parent with a
    higher index than its child is still at the origin when it is used (joint 20 of Kinect v2, with 14 of 25 joints
    behind it)."""

    def draw(self, draws: Draws) -> Change:
        basis = scaling_basis(draws.topology, self.groups, self.order)
        scale_KG = self.lo + draws.per_body(len(basis) - 1) * (self.hi - self.lo)
        return draws.linear(joints_KJJ=(basis[0] + torch.einsum("kg,gij->kij", scale_KG, basis[1:])).float())


class CoordinateScale(Augment):
    """Scale each coordinate axis by its own factor: the conventional counterpart of bone-aware scaling."""

    kind = "coordinate-scale"
    lo: float = Field(0.85, description="Smallest factor.")
    hi: float = Field(1.15, description="Largest factor.")

    def draw(self, draws: Draws) -> Change:
        return draws.linear(space_K33=torch.diag_embed(self.lo + draws.per_clip(3) * (self.hi - self.lo)).float())


class Noise(Augment):
    """Add independent Gaussian noise of ``std`` meters to every coordinate."""

    kind = "noise"
    std: float = Field(0.01, ge=0, description="Standard deviation.", json_schema_extra={"unit": "m"})

    def draw(self, draws: Draws) -> Change:
        return draws.jitter(self.std)


class AxisDrop(Augment):
    """Set one uniformly drawn coordinate axis to zero."""

    kind = "axis-drop"
    p: Fraction = 0.2

    def draw(self, draws: Draws) -> Change:
        axis_K1 = pick(draws.per_clip(1), draws.dimensions)
        return draws.linear(space_K33=torch.diag_embed((torch.arange(3) != axis_K1).float()))


class Translate(Augment):
    """Shift the clip along each axis by a distance uniform in +- ``limit`` meters, equal for all frames and bodies."""

    kind = "translate"
    version = 2
    """2: 2-D poses stay in their plane."""
    limit: float = Field(0.02, ge=0, description="Largest shift along an axis.", json_schema_extra={"unit": "m"})

    def draw(self, draws: Draws) -> Change:
        """Flat bodies stay in their plane."""
        offset_K3 = (2 * draws.per_clip(3) - 1) * self.limit
        offset_K3[:, draws.dimensions :] = 0.0
        return draws.shift(offset_K3)


class Blur(Augment):
    """Smooth over time with a Gaussian of ``lo`` to ``hi`` frames (uniform, per clip), cut off at ``kernel`` frames.

    ``normalized`` False keeps weights that do not sum to 1, as the public codes of AimCLR's family do: a wide Gaussian
    then also enlarges the body, by a factor of five at 2 frames, less at the ends of the clip.
    """

    kind = "blur"
    kernel: int = Field(15, ge=1, description="Width of the filter, in frames.")
    lo: float = Field(0.1, gt=0, description="Smallest standard deviation, in frames.")
    hi: float = Field(2.0, description="Largest standard deviation, in frames.")
    normalized: bool = Field(True, description="Whether the weights of the filter sum to 1.")

    def draw(self, draws: Draws) -> Change:
        sigma_K = (self.lo + draws.per_clip(1)[:, 0] * (self.hi - self.lo)).float()
        sigma_R = torch.zeros(len(draws.view_R)).index_copy(0, draws.rows_K, sigma_K)
        return Smooth(sigma_R, self.kernel // 2, self.normalized)


class TimeFlip(Augment):
    """Play the view backwards."""

    kind = "time-flip"
    of_padded = False

    def draw(self, draws: Draws) -> Change:
        return Reverse(draws.active_R)


class Pace(Augment):
    """Play faster or slower: a duration ``lo`` to ``hi`` times as long (uniform, per clip). The view keeps its
    beginning, with zeros after its end (LanglandsLin/ActCLR, feeder/tools.py, interpolate).
    """

    kind = "pace"
    of_padded = False
    lo: float = Field(0.5, gt=0, description="Smallest factor of the duration.")
    hi: float = Field(1.5, description="Largest factor of the duration.")

    def draw(self, draws: Draws) -> Change:
        factor_K = self.lo + draws.per_clip(1)[:, 0] * (self.hi - self.lo)
        return Paced(torch.zeros(len(draws.view_R)).index_copy(0, draws.rows_K, factor_K.float()))


def draw_transform(
    ops: Sequence[Augment],
    topology: Topology,
    keyed: Keyed,
    clip_keys_R: Tensor,
    body_keys_R: Tensor,
    view_R: Tensor,
    dimensions: Literal[2, 3] = 3,
) -> Transform:
    """Draw every operation of ``ops`` for R rows and compose them in order. All on the host, int64 keys [R]."""
    where = topology, dimensions, keyed, clip_keys_R, body_keys_R, view_R
    return compose(tuple(_drawn(op, Draws(op.p, place, *where)) for place, op in enumerate(ops)))


def _drawn(op: Augment, draws: Draws) -> Change:
    with plugin_code(op.draw, "(draws)"):
        change: Any = op.draw(draws)
    if not isinstance(change, Change):
        raise wrong(op.draw, f"returned {change!r:.60}, not a Change; return draws.linear(...), .shift() or .jitter()")
    return change


def rotation(angles_K3: Tensor) -> Tensor:
    """R = Rz Ry Rx (Algorithm 2), float32 [K, 3, 3], from float64 angles about X, Y, Z in radians."""
    (sa, sb, sc), (ca, cb, cc) = torch.sin(angles_K3).unbind(1), torch.cos(angles_K3).unbind(1)
    rows = (
        (cc * cb, cc * sb * sa - sc * ca, cc * sb * ca + sc * sa),
        (sc * cb, sc * sb * sa + cc * ca, sc * sb * ca - cc * sa),
        (-sb, cb * sa, cb * ca),
    )
    return torch.stack([torch.stack(row, 1) for row in rows], 1).float()


@cache
def permutation(topology: Topology) -> Tensor:
    """W of the mirror's index swap (Algorithm 3), float32 [J, J]: new joint j is old joint swap[j]."""
    return torch.eye(topology.num_joints)[:, list(topology.swap)]


@cache
def scaling_basis(topology: Topology, groups: str, order: str = "topological") -> Tensor:
    """float64 [G + 1, J, J]: W of bone scaling is basis[0] + sum_g s_g basis[1 + g].

    x' = A diag(s) D x (Algorithm 4 in closed form), split by the group whose factor multiplies; basis[0] carries the
    root's trajectory, which no factor touches. With ``order`` "index" A follows a path up only as far as joints that
    come before their children.
    """
    if groups == "bones":
        return _bones_basis(topology)
    parts = {"parts": topology.parts, "limbs": topology.limbs}[groups].values()
    weights = [[float(j in part and j != topology.root) for j in range(topology.num_joints)] for part in parts]
    weights = [[float(j == topology.root) for j in range(topology.num_joints)], *weights]
    a, d = torch.from_numpy(topology.ancestors), torch.from_numpy(topology.differences)
    if order == "index":
        a = torch.eye(topology.num_joints, dtype=torch.float64)
        for joint, parent in enumerate(topology.parents):
            if joint != topology.root and (parent < joint or parent == topology.root):
                a[joint] += a[parent]
    return torch.stack([(a * torch.tensor(w, dtype=torch.float64) @ d).T for w in weights])


def _bones_basis(topology: Topology) -> Tensor:
    """Return :func:`scaling_basis` with one group per bone of ``topology.bones``, in the order of the joints at
    their ends; basis[0] carries the joints at which the bones begin."""
    begins, eye_JJ = topology.bones, torch.eye(topology.num_joints, dtype=torch.float64)
    leads = [joint for joint, begin in enumerate(begins) if begin != joint]
    path_JJ, at_J = eye_JJ.clone(), list(begins)  # row j is 1 at the joints on the way to j, and at j
    for _ in leads:
        path_JJ[range(len(at_J)), at_J] = 1.0
        at_J = [begins[at] for at in at_J]
    bone_JJ = eye_JJ - eye_JJ[list(begins)]
    basis_JJ = eye_JJ.index_fill(0, torch.tensor(leads), 0.0)
    return torch.stack([(path_JJ @ basis_JJ).T, *(torch.outer(path_JJ[:, j], bone_JJ[j]).T for j in leads)])
