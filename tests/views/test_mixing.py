"""Regions that clips exchange."""

import numpy as np
import pytest
import torch

from skelbench.core.errors import SkelbenchError
from skelbench.views.keyed import Keyed
from skelbench.views.mixing import region_swap, rolled
from skelbench.views.skeleton.topology import NTU25
from skelbench.views.view import VIEW_KEY, View

B, M, T = 6, 2, 24
DRAWS = Keyed(3, 7).uniform


def made(topology=NTU25, clips=B, count=1, valid_BM=None, frames=T, seed=0):
    """Clips 10, 11, ... whose every number tells where it comes from."""
    J = topology.num_joints
    x = torch.randn(count * clips, M, frames, J, 3, generator=torch.Generator().manual_seed(seed))
    if valid_BM is not None:
        valid_BM = valid_BM.repeat(count, 1)
    view = View.of(x, valid_BM)
    entry = torch.div(view.rows_R, M, rounding_mode="floor")
    keys = (10 + entry % clips) * M + view.rows_R % M + (torch.div(entry, clips, rounding_mode="floor") << VIEW_KEY)
    return View(view.x_RTJC, view.rows_R, clips, M, count, keys_R=keys)


def literal(view, partner, topology, keyed, parts, frames, unit, alike):
    """Mixed coordinates [count * B, M, T, J, 3] and weights, clip by clip and cell by cell."""
    x, valid = view.x_BMTJC.numpy(), view.valid_BM.numpy()
    out, weights = x.copy(), []
    everyone = list(topology.parts.values())
    for entry in range(len(x)):
        clip, copy = entry % view.clips, entry // view.clips
        key = 0 if alike else (10 + clip) * M + (copy << VIEW_KEY)
        u = keyed(np.array([key]), 3 + len(everyone))[0].double().tolist()
        number = parts[0] + int(u[0] * (parts[1] - parts[0] + 1))
        low, high = frames[0] // unit, frames[1] // unit
        length = low + int(u[1] * (high - low + 1))
        start = int(u[2] * (x.shape[2] // unit - length + 1))
        chosen = sorted(range(len(everyone)), key=lambda p: u[3 + p])[:number]
        other = copy * view.clips + int(partner[clip])
        shares = []
        for body in range(M):
            cells = 0
            if not valid[entry, body]:
                continue
            for t in range(unit * start, unit * (start + length)):
                for joint in (j for p in chosen for j in everyone[p]):
                    if valid[other, body]:
                        out[entry, body, t, joint] = x[other, body, t, joint]
                        cells += 1
            shares.append(cells / (x.shape[2] * x.shape[3]))
        weights.append(np.mean(shares))
    return out, weights


SOME = torch.tensor([[1, 1], [1, 0], [1, 0], [1, 1], [0, 1], [1, 0]]).bool()


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize(("count", "valid"), [(1, None), (2, SOME)], ids=["all bodies", "two views, some bodies"])
def test_region_swap_equals_explicit_loops(alike, count, valid):
    view = made(count=count, valid_BM=valid)
    partner = torch.tensor([3, 0, 5, 1, 0, 2])
    how = {"parts": (2, 3), "frames": (8, 16), "unit": 4, "alike": alike}
    mixed = region_swap(view, partner, NTU25, DRAWS, **how)
    x, weights = literal(view, partner, NTU25, DRAWS, **how)
    assert np.array_equal(mixed.view.x_BMTJC.numpy(), x)
    np.testing.assert_allclose(mixed.weight_B, weights, rtol=1e-6)
    assert torch.equal(mixed.view.rows_R, view.rows_R) and mixed.view.count == count
    if alike and valid is None:  # one region for all
        assert (mixed.region_RTJ == mixed.region_RTJ[:1]).all()
    elif valid is None:
        assert (mixed.region_RTJ != mixed.region_RTJ[:1]).any()


def test_the_region_of_a_clip_does_not_depend_on_its_position():
    """Draws are the clip's own: in a batch of other clips the same cells are replaced."""
    view = made()
    few = made(clips=2)
    whole = region_swap(view, rolled(B, torch.tensor(0.0)), NTU25, DRAWS, (2, 3), (8, 16))
    part = region_swap(few, rolled(2, torch.tensor(0.0)), NTU25, DRAWS, (2, 3), (8, 16))
    assert torch.equal(whole.region_RTJ[: 2 * M], part.region_RTJ)
    other = region_swap(view, rolled(B, torch.tensor(0.0)), NTU25, DRAWS, (2, 3), (8, 16), op=1)
    assert not torch.equal(whole.region_RTJ, other.region_RTJ)


@pytest.mark.parametrize("clips", [2, 5])
def test_partners_are_a_permutation_without_fixed_points(clips):
    found = {tuple(rolled(clips, torch.tensor(u)).tolist()) for u in np.linspace(0, 0.999, 50)}
    assert len(found) == clips - 1
    for partners in found:
        assert sorted(partners) == list(range(clips)) and all(p != i for i, p in enumerate(partners))


@pytest.mark.parametrize(
    ("how", "said"), [({"parts": (2, 6)}, "ntu25 has 5, give 1 to 5"), ({"frames": (6, 12)}, "multiples of 4")]
)
def test_impossible_regions_are_one_error(how, said):
    with pytest.raises(SkelbenchError, match=said):
        region_swap(made(), torch.arange(B), NTU25, DRAWS, **{"parts": (2, 3), "frames": (8, 12)} | how)
