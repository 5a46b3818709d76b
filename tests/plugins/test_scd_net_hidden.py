"""Frames and joints that SCD-Net's views hide."""

import torch
from skelbench_plugins.scd_net import HideFrames, HideJoints

from skelbench.views import Draws
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.topology import NTU25


def drawn(augment, rows=40):
    """Result for ``rows`` clips of 64 frames that are 1 everywhere, [R, T, J], and the draws."""
    key_R = torch.arange(rows)
    draws = Draws(1.0, 0, NTU25, 3, Keyed(0, 0), key_R, key_R, torch.full((rows,), 256))
    return augment.draw(draws).apply(torch.ones(rows, 3, 64, 25), None)[:, 0], draws


def test_joints_to_which_most_walks_lead_are_missing():
    x_RTJ, draws = drawn(HideJoints())
    near = {j: {j} for j in range(25)}
    for joint, begin in enumerate(NTU25.bones):
        near[joint].add(begin)
        near[begin].add(joint)
    sets = set()
    for x_TJ, u in zip(x_RTJ, draws.per_clip(5 + 25)):
        missing = {j for j in range(25) if not x_TJ[:, j].any()}
        assert len(missing) == 8 and (x_TJ[:, [j for j in range(25) if j not in missing]] == 1).all()
        walks = [
            sum(j in near[step] for seed in (u[:5] * 25).long().tolist() for step in near[seed]) for j in range(25)
        ]
        assert min(walks[j] for j in missing) >= max(walks[j] for j in range(25) if j not in missing)
        sets.add(frozenset(missing))
    assert len(sets) > 20


def test_six_of_sixteen_stretches_of_four_frames_are_missing():
    x_RTJ, _ = drawn(HideFrames())
    blocks_RN = x_RTJ.unflatten(1, (16, 4)).flatten(2).mean(2)
    assert set(blocks_RN.flatten().tolist()) == {0.0, 1.0} and (blocks_RN.sum(1) == 10).all()
    assert len({tuple(row) for row in blocks_RN.tolist()}) > 35 and (blocks_RN.mean(0) > 0.3).all()
