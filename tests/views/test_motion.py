import math

import pytest
import torch

from skelbench.views.motion import displacement, motion_masks, token_motion


def walk(rows, frames, joints, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, frames, joints, 3, generator=g).cumsum(1) * 0.1


def uniform(rows, tokens, seed=1):
    return torch.rand(rows, tokens, generator=torch.Generator().manual_seed(seed))


def slow_motion(x_TJC, patch):
    """{token: motion} of one body, one number at a time."""
    T, J, C = x_TJC.shape
    motion = {}
    for p in range(1, T // patch):
        for j in range(J):
            total = 0.0
            for t in range(patch):
                for c in range(C):
                    total += abs(float(x_TJC[p * patch + t, j, c]) - float(x_TJC[(p - 1) * patch + t, j, c]))
            motion[p * J + j] = total / (patch * C)
    for j in range(J):
        motion[j] = motion[J + j]
    return motion


def slow_mask(x_TJC, u_N, patch, visible, tau):
    """Visible tokens of one body by the words of the paper: softmax over motion, plus Gumbel noise, lowest stay."""
    motion = slow_motion(x_TJC, patch)
    largest = max(motion.values())
    odds = {n: math.exp(m / (largest * tau + 1e-10)) for n, m in motion.items()}
    score = {}
    for n, odd in odds.items():
        probability = odd / sum(odds.values())
        score[n] = math.log(probability) - math.log(-math.log(float(u_N[n]) + 1e-10) + 1e-10)
    return sorted(sorted(score, key=score.get)[:visible])


@pytest.mark.parametrize(("frames", "patch", "joints"), [(12, 4, 5), (24, 8, 25), (6, 1, 3)])
@pytest.mark.parametrize("tau", [0.75, 0.8, 3.0])
def test_masks_equal_a_slow_reference(frames, patch, joints, tau):
    x_RTJC, tokens = walk(4, frames, joints), frames // patch * joints
    u_RN, visible = uniform(4, tokens), max(1, tokens // 5)
    mask_RN, keep_RK = motion_masks(x_RTJC, u_RN, patch, visible, tau)
    for row in range(4):
        assert keep_RK[row].tolist() == slow_mask(x_RTJC[row], u_RN[row], patch, visible, tau)
    torch.testing.assert_close(
        token_motion(x_RTJC, patch)[0], torch.tensor([m for _, m in sorted(slow_motion(x_RTJC[0], patch).items())])
    )
    assert mask_RN.sum(1).tolist() == [tokens - visible] * 4 and not mask_RN.gather(1, keep_RK).any()


def test_still_bodies_and_tau_zero_are_masked_uniformly():
    """Both leave the lowest draws visible, so every token is equally likely."""
    u_RN = uniform(3, 50)
    lowest = u_RN.argsort(1)[:, :7].sort(1).values
    moving = walk(3, 40, 5)
    for x_RTJC, tau in ((moving * 0, 0.8), (moving[:, :1].expand(-1, 40, -1, -1), 0.8), (moving, 0.0), (moving, -1.0)):
        assert torch.equal(motion_masks(x_RTJC, u_RN, 4, 7, tau)[1], lowest)


def test_rows_are_independent():
    x_RTJC, u_RN = walk(5, 32, 25), uniform(5, 100)
    together = motion_masks(x_RTJC, u_RN, 8, 10, 0.8)[1]
    alone = torch.cat([motion_masks(x_RTJC[r : r + 1], u_RN[r : r + 1], 8, 10, 0.8)[1] for r in range(5)])
    assert torch.equal(together, alone)


def test_displacement_is_to_a_later_frame_or_zero():
    x_RTJC = walk(2, 9, 4)
    for stride in (1, 3, 9, 20):
        moved_RTJC = displacement(x_RTJC, stride)
        for t in range(9):
            expected = x_RTJC[:, t + stride] - x_RTJC[:, t] if t + stride < 9 else torch.zeros(2, 4, 3)
            assert torch.equal(moved_RTJC[:, t], expected)
