import math

import numpy as np
import pytest
import torch

from skelbench.views.augmentations import (
    AxisDrop,
    AxisRotate,
    Blur,
    BoneScale,
    CoordinateScale,
    Mirror,
    Noise,
    Pace,
    Rotate,
    Shear,
    TimeFlip,
    Translate,
    draw_transform,
)
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.topology import NTU25

KEYED = Keyed(11, 4)
CLIPS, BODIES, FRAMES = 6, 2, 5
ROWS = CLIPS * BODIES


def clip_keys():
    return torch.arange(CLIPS).repeat_interleave(BODIES) * BODIES


def body_keys():
    return torch.arange(ROWS)


def coordinates(seed=0, rows=ROWS, joints=25):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, 3, FRAMES, joints)).astype(np.float32))


def transform(ops, x_R3TJ, topology=NTU25):
    rows = len(x_R3TJ)
    out, view_R = x_R3TJ.clone(), torch.full((rows,), 3)
    for step in draw_transform(ops, topology, KEYED, clip_keys()[:rows], body_keys()[:rows], view_R):
        out = step.apply(out, KEYED)
    return out


def draws(key, n, index, per_body):
    return KEYED.uniform(torch.tensor([key]), n, view=3, op=16 + 2 * index + per_body)[0].double().tolist()


# ------------------------------------------------------------------------- the paper's algorithms, joint by joint
def rotate(x, alpha, beta, gamma):
    rx = np.array([[1, 0, 0], [0, math.cos(alpha), -math.sin(alpha)], [0, math.sin(alpha), math.cos(alpha)]])
    ry = np.array([[math.cos(beta), 0, math.sin(beta)], [0, 1, 0], [-math.sin(beta), 0, math.cos(beta)]])
    rz = np.array([[math.cos(gamma), -math.sin(gamma), 0], [math.sin(gamma), math.cos(gamma), 0], [0, 0, 1]])
    matrix, out = rz @ ry @ rx, np.empty_like(x)
    for t in range(x.shape[1]):
        for j in range(25):
            out[:, t, j] = matrix @ x[:, t, j]
    return out


def mirror(x, reflect):
    out = x[:, :, list(NTU25.swap)]
    if reflect:
        out[0] = -out[0]
    return out


def scale_each(x, factors):
    """Bone by bone of the bone stream, from the joint at which they begin."""
    factor = dict(zip((j for j in range(25) if NTU25.bones[j] != j), factors))
    out = {j: x[:, :, j] for j in range(25) if NTU25.bones[j] == j}
    while len(out) < 25:
        for j, begin in enumerate(NTU25.bones):
            if j not in out and begin in out:
                out[j] = out[begin] + factor[j] * (x[:, :, j] - x[:, :, begin])
    return np.stack([out[j] for j in range(25)], axis=2)


def scale_bones(x, factors, groups):
    scale = np.ones(25)
    for factor, group in zip(factors, groups):
        for j in group:
            scale[j] = factor
    out = np.empty_like(x)
    out[:, :, 0] = x[:, :, 0]
    for j in NTU25.order[1:]:
        parent = NTU25.parents[j]
        out[:, :, j] = out[:, :, parent] + scale[j] * (x[:, :, j] - x[:, :, parent])
    return out


def blurred(x, sigma, radius, normalized):
    out = np.zeros_like(x)
    for t in range(x.shape[1]):
        near = [u for u in range(x.shape[1]) if abs(u - t) <= radius]
        weights = [math.exp(-((u - t) ** 2) / (2 * sigma**2)) for u in near]
        for u, weight in zip(near, weights):
            out[:, t] += weight / (sum(weights) if normalized else 1) * x[:, u]
    return out


def literal(ops, x_3TJ, clip_key, body_key):
    """One row, one operation after the other, in float64."""
    x = x_3TJ.double().numpy()
    for i, op in enumerate(ops):
        gate, *u = draws(clip_key, 4, i, per_body=0)
        if gate >= op.p:
            continue
        if isinstance(op, Rotate):
            limits = (math.radians(op.tilt_deg), math.radians(op.vertical_deg), math.radians(op.tilt_deg))
            x = rotate(x, *((2 * v - 1) * limit for v, limit in zip(u, limits)))
        elif isinstance(op, AxisRotate):
            limits = [op.major_deg if axis == int(3 * u[0]) else op.minor_deg for axis in range(3)]
            angles = draws(clip_key, 5, i, per_body=0)[2:]
            x = rotate(x, *(-math.radians(v * limit) for v, limit in zip(angles, limits)))
        elif isinstance(op, Shear):
            factors = iter((2 * v - 1) * op.amplitude for v in draws(clip_key, 7, i, per_body=0)[1:])
            x = np.array([[1.0 if a == b else next(factors) for b in range(3)] for a in range(3)]) @ x.reshape(3, -1)
            x = x.reshape(3, FRAMES, 25)
        elif isinstance(op, Blur):
            x = blurred(x, op.lo + u[0] * (op.hi - op.lo), op.kernel // 2, op.normalized)
        elif isinstance(op, TimeFlip):
            x = x[:, ::-1]
        elif isinstance(op, Pace):
            x = paced(x, op.lo + u[0] * (op.hi - op.lo))
        elif isinstance(op, Mirror):
            x = mirror(x, op.reflect)
        elif isinstance(op, BoneScale):
            groups = list({"parts": NTU25.parts, "limbs": NTU25.limbs, "bones": range(24)}[op.groups])
            factors = [op.lo + v * (op.hi - op.lo) for v in draws(body_key, len(groups), i, per_body=1)]
            joints = {"parts": NTU25.parts, "limbs": NTU25.limbs, "bones": {}}[op.groups]
            x = scale_bones(x, factors, list(joints.values())) if joints else scale_each(x, factors)
        elif isinstance(op, CoordinateScale):
            x = x * np.array([op.lo + v * (op.hi - op.lo) for v in u])[:, None, None]
        elif isinstance(op, AxisDrop):
            x = x.copy()
            x[int(3 * u[0])] = 0
        elif isinstance(op, Noise):
            noise = KEYED.normal(torch.tensor([body_key]), x.size, view=3, op=16 + 2 * i + 1)[0]
            x = x + op.std * noise.double().numpy().reshape(x.shape)
        elif isinstance(op, Translate):
            x = x + np.array([(2 * v - 1) * op.limit for v in u])[:, None, None]
    return x


def paced(x, factor):
    """Frame by frame: resized between centers of frames, what is over is left out, what is missing is 0."""
    frames = max(1, int(FRAMES * factor))
    out = np.zeros_like(x)
    for t in range(min(frames, FRAMES)):
        place = min(max((t + 0.5) * FRAMES / frames - 0.5, 0), FRAMES - 1)
        before = int(place)
        after = min(before + 1, FRAMES - 1)
        out[:, t] = x[:, before] * (1 - place + before) + x[:, after] * (place - before)
    return out


OPS = {
    "rotate": Rotate(),
    "mirror": Mirror(),
    "index swap": Mirror(reflect=False),
    "bones, five parts": BoneScale(),
    "bones, three limbs": BoneScale(groups="limbs", lo=0.5, hi=2),
    "bones, each": BoneScale(groups="bones", lo=0, hi=0.5),
    "pace": Pace(lo=1.2, hi=1.6),
    "a slow pace": Pace(lo=0.1, hi=0.3),
    "coordinates": CoordinateScale(),
    "noise": Noise(std=0.1),
    "axis drop": AxisDrop(p=0.5),
    "translate": Translate(limit=0.3),
    "rotate about one axis": AxisRotate(minor_deg=3),
    "shear": Shear(),
    "blur": Blur(kernel=5, lo=0.5),
    "blur as it was released": Blur(lo=0.5, normalized=False),
    "time flip": TimeFlip(),
}


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_one_operation_equals_the_literal_algorithm(op, p):
    x = coordinates()
    op = op.model_copy(update={"p": p})
    out = transform((op,), x)
    for r in range(ROWS):
        expected = literal((op,), x[r], int(clip_keys()[r]), int(body_keys()[r]))
        assert np.allclose(out[r].numpy(), expected, atol=3e-6)
    changed = [not torch.equal(out[r], x[r]) for r in range(ROWS)]
    assert any(changed) == (p > 0) and all(changed) == (p == 1)


def test_lists_are_applied_in_order():
    x, ops = coordinates(), [OPS[name] for name in ("rotate", "noise", "bones, five parts", "mirror", "pace", "shear")]
    out = transform(tuple(ops), x)
    for r in range(ROWS):
        expected = literal(ops, x[r], int(clip_keys()[r]), int(body_keys()[r]))
        assert np.allclose(out[r].numpy(), expected, atol=2e-5)


# ------------------------------------------------------------------------------------------------ invariants


@pytest.mark.parametrize(
    "ops", [(Rotate(), Mirror(), BoneScale()), (Noise(), BoneScale(), AxisDrop()), (Translate(), Rotate())]
)
def test_a_rows_draws_do_not_depend_on_its_batch(ops):
    x = coordinates()
    together = transform(ops, x)
    assert torch.allclose(together[:4], transform(ops, x[:4]), atol=1e-6)
