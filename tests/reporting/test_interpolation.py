"""Local interpolation against plain loops over points and clips, and what it must and must not be able to fill in."""

import numpy as np
import pytest
import torch

from skelbench.core.errors import SkelbenchError
from skelbench.reporting.diagnostics.interpolation import NEAREST, REACH, RIDGE, Points, by_distance, score
from skelbench.testing.stick7 import STICK7

TIMES, FRAMES = 4, 3


def bones_between(topology, a, b):
    """Length of the path from joint to joint: up to the first common ancestor and down again."""

    def up(joint):
        return [joint, *up(topology.parents[joint])] if topology.parents[joint] >= 0 else [joint]

    paths = up(a), up(b)
    return min(i + j for i, x in enumerate(paths[0]) for j, y in enumerate(paths[1]) if x == y)


def support_of(visible_tJ, time, joint, topology):
    """Places (time, joint) that a masked point is made from, one at a time."""
    times, joints = visible_tJ.shape
    before = [(t, joint) for t in range(time - 1, -1, -1) if visible_tJ[t, joint]][:REACH]
    after = [(t, joint) for t in range(time + 1, times) if visible_tJ[t, joint]][:REACH]
    others = sorted((j for j in range(joints) if j != joint), key=lambda j: (bones_between(topology, joint, j), j))
    now = [(time, j) for j in others if visible_tJ[time, j]][:NEAREST]
    return set(before + after + now)


def rows(seed, n, topology=STICK7, times=TIMES * FRAMES):
    """Smooth random clips [n, times * J, 3] whose joints are correlated along the bones."""
    rng = np.random.default_rng(seed)
    step = rng.normal(size=(n, times, topology.num_joints, 3)) @ np.diag([1.0, 0.5, 2.0])
    x = np.cumsum(np.einsum("jk,ntkc->ntjc", topology.ancestors, step), axis=1) + rng.normal(size=(n, 1, 1, 3))
    return torch.from_numpy(x.reshape(n, -1, 3))


def points(fit, test, topology=STICK7, frames=FRAMES):
    return Points.of(fit.split(7), test.split(5), topology.num_joints, frames)


def masks(count, seed, share=0.6):
    return torch.from_numpy(np.random.default_rng(seed).random((count, TIMES * 7)) < share)


def test_the_error_equals_single_regressions():
    """Every masked point of every mask: its ridge regression solved on the clips and tried on each test clip."""
    fit, test = rows(0, 40), rows(1, 15)
    mask_QN = masks(3, seed=2)
    got = score(points(fit, test), mask_QN, by_distance(STICK7))

    mean = fit.mean(0)
    fit_d, test_d = (fit - mean).numpy(), (test - mean).numpy()
    variance_N = (test_d**2).sum(2).mean(0).reshape(TIMES, FRAMES, 7).sum(1).ravel()
    each_mask, squares = [], []
    for mask_N in mask_QN.numpy():
        visible_tJ = np.repeat(~mask_N.reshape(TIMES, 7), FRAMES, axis=0)
        token_errors = np.zeros((TIMES, 7))
        for t, j in np.argwhere(~visible_tJ):
            u = [time * 7 + joint for time, joint in sorted(support_of(visible_tJ, t, j, STICK7))]
            target = t * 7 + j
            x, y = (fit_d[:, u].transpose(0, 2, 1).reshape(-1, len(u)), fit_d[:, target].ravel())
            gram = x.T @ x
            weight = np.linalg.solve(gram + RIDGE * np.diag(np.diag(gram)), x.T @ y) if u else np.zeros(0)
            error = ((test_d[:, target] - np.einsum("nuc,u->nc", test_d[:, u], weight)) ** 2).sum(1).mean()
            token_errors[t // FRAMES, j] += error
            squares.append(error)
        each_mask.append((token_errors.ravel()[mask_N] / variance_N[mask_N]).mean())
    assert got["error"] == pytest.approx(np.mean(each_mask), rel=1e-6)
    assert got["rms"] == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-6)
    half = 1.96 * np.std(each_mask, ddof=1) / np.sqrt(3)
    assert got["interval"] == pytest.approx([np.mean(each_mask) - half, np.mean(each_mask) + half], rel=1e-6)


def test_straight_motion_is_predictable_and_noise_is_not():
    rng = np.random.default_rng(3)

    def straight(n):
        start, speed = rng.normal(size=(2, n, 1, 7, 3))
        return torch.from_numpy((start + speed * np.arange(12)[None, :, None, None] / 12).reshape(n, -1, 3))

    def noise(n):
        return torch.from_numpy(rng.normal(size=(n, 84, 3)))

    # Of every joint one token of four is seen, so that there are frames to go by.
    mask_QN = torch.ones(2, TIMES, 7, dtype=torch.bool)
    mask_QN[0, 1], mask_QN[1, 3] = False, False
    assert score(points(straight(60), straight(30)), mask_QN.flatten(1), by_distance(STICK7))["error"] < 0.02
    error = score(points(noise(900), noise(900)), mask_QN.flatten(1), by_distance(STICK7))["error"]
    assert error == pytest.approx(1, abs=0.05)


def test_constant_tokens_are_skipped():
    fit, test = rows(8, 30), rows(9, 20)
    fit[:, :7], test[:, :7] = 2.0, 2.0
    mask_QN = torch.ones(1, TIMES * 7, dtype=torch.bool)
    still = fit.clone()
    still[:] = 1.0
    # Frame 0 stands still, its token's other frames do not: everything counts, at the error of the mean.
    assert score(points(fit, test), mask_QN, by_distance(STICK7))["error"] == pytest.approx(1)
    with pytest.raises(SkelbenchError, match="nothing to fill in"):
        score(points(still, still), mask_QN, by_distance(STICK7))
