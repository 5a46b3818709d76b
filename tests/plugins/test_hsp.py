import official
import pytest
import torch
from skelbench_plugins.hsp import HSP, HSPConfig
from skelbench_plugins.usdrl import USDRL, USDRLConfig

from skelbench.methods import Context, Step
from skelbench.models.vit import ViT, ViTConfig
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

GRID, CLIPS, T, D = Grid(8, 4, 25), 4, 8, 8
STEP = Step(0, 1, 0.0, torch.Generator(), lambda *_: None)
COMMON = [3, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 17, 18]
"""Joints of ntu25: head, shoulders, elbows, wrists, hips, knees, ankles."""


def make(kind=HSP, config=HSPConfig, topology=NTU25, **settings):
    def encoder():
        return ViT(ViTConfig(dim=D, depth=1, heads=2), topology, GRID)

    sizes = {"head_hidden": 8} | ({"lift_hidden": 6} if kind is HSP else {})
    return official.fill(kind(config(**sizes | settings), Context(topology, GRID, encoder, D, D)))


def four_views():
    x_BMTJC = official.clip(CLIPS, T + 9)
    x_BMTJC = torch.cat([x_BMTJC[:, :, 3 * k : 3 * k + T] for k in range(4)])
    rows = 2 * len(x_BMTJC)
    return View(x_BMTJC.flatten(0, 1), torch.arange(rows), CLIPS, 2, count=4, keys_R=torch.arange(rows))


def test_the_loss_is_usdrls_over_two_flat_and_two_full_views():
    method, usdrl, view = make(), make(USDRL, USDRLConfig), four_views()
    usdrl.load_state_dict({name: x for name, x in method.state_dict().items() if name in usdrl.state_dict()})
    flat_RTJ3, lifting = method.flat(view, STEP)
    space, flat = view.chunk(view.x_RTJC), view.chunk(flat_RTJ3)
    shown = view.with_x(torch.cat([space[0], flat[1], space[2], flat[3]]))
    out, expected = method({"clip": view}, STEP), usdrl({"clip": shown}, STEP)
    assert out["loss"].item() == pytest.approx((expected["loss"] + lifting).item(), rel=1e-6)
    assert out["loss"].item() != pytest.approx(usdrl({"clip": view}, STEP)["loss"].item(), rel=1e-3)


def test_the_flat_skeleton_is_a_projection():
    method, view = make(), four_views()
    flat_RTJ3, lifting = method.flat(view, STEP)
    for r in range(0, view.rows, 9):
        for t in (0, 5):
            seen_JC = torch.zeros(25, 3)
            for j in COMMON:
                seen_JC[j] = torch.tensor([*view.x_RTJC[r, t, j, :2], float(view.x_RTJC[r, t, j].any())])
            depth_J = method.lift(seen_JC.flatten())
            for j in range(25):
                expected_3 = method.prompt_JC[j].clone()
                if j in COMMON:
                    expected_3 += torch.stack([*view.x_RTJC[r, t, j, :2], depth_J[j]])
                torch.testing.assert_close(flat_RTJ3[r, t, j], expected_3, atol=1e-5, rtol=1e-5)
    depth_RTJ = flat_RTJ3[..., 2] - method.prompt_JC[:, 2]
    error = (depth_RTJ - view.x_RTJC[..., 2])[:, :, COMMON].square().mean()
    assert lifting.item() == pytest.approx(error.item(), rel=1e-5)


def test_depth_reaches_the_flat_skeleton_only_through_the_network():
    """So nothing of z is seen in a flat view that was not learned."""
    method, view = make(), four_views()
    other = view.with_x(view.x_RTJC * torch.tensor([1.0, 1.0, -3.0]))
    assert torch.equal(method.flat(view, STEP)[0], method.flat(other, STEP)[0])
