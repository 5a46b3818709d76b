"""The shipped encoder and SkeletonMAE at the paper's grids: its cost table by one convention."""

import pytest
import torch
from official import ENCODER as MAMP
from skelbench_plugins.skeletonmae import SkeletonMAE, SkeletonMAEConfig

from skelbench.evaluation.cost.macs import count_encoder
from skelbench.evaluation.cost.step import count_step
from skelbench.methods.contract import Context, Step
from skelbench.models.vit import ViT, ViTConfig
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25
from skelbench.views.view import View

GRIDS = {"30x25": Grid(120, 4, 25), "15x25": Grid(120, 8, 25), "8x25": Grid(64, 8, 25)}


def count(config, grid, visible=None):
    with torch.device("meta"):
        encoder = ViT(config, NTU25, grid)
    return count_encoder(encoder, grid, NTU25, visible)


@pytest.mark.parametrize(
    "config,grid,giga_macs",
    [
        (MAMP, "30x25", 7.023),
        (MAMP, "15x25", 2.935),
        (MAMP, "8x25", 1.422),
        (ViTConfig(), "8x25", 1.430),
        (ViTConfig(), "30x25", 7.035),
    ],
)
def test_blocks_per_body_three_ways(config, grid, giga_macs):
    counted = count(config, GRIDS[grid])
    assert counted.macs == counted.torch_flop_counter == counted.closed_form
    assert counted.by_part["embed"] == GRIDS[grid].tokens * GRIDS[grid].patch * 3 * 256
    assert round((counted.macs - counted.by_part["embed"]) / 1e9, 3) == giga_macs


def test_dense_costs_4_91_times_compact_not_7_89():
    assert round(count(MAMP, GRIDS["30x25"]).macs / count(ViTConfig(), GRIDS["8x25"]).macs, 2) == 4.91


def test_whole_step_of_masked_autoencoding():
    grid, clips, bodies, visible = GRIDS["30x25"], 3, 2, 74
    with torch.device("meta"):
        method = SkeletonMAE(SkeletonMAEConfig(), Context(NTU25, grid, lambda: ViT(MAMP, NTU25, grid)))
        rows = clips * bodies
        view = View(
            torch.zeros(rows, 120, 25, 3),
            torch.arange(rows),
            clips,
            bodies,
            mask_RN=torch.zeros(rows, 750, dtype=torch.bool),
            keep_RK=torch.zeros(rows, visible, dtype=torch.int64),
        )
    cost = count_step(method, {"clip": view}, Step(0, 1, 0.0, torch.Generator(), lambda *args: None))
    assert cost.device == "meta" and set(cost.by_role) == {"student", "decoder"}
    student, decoder = cost.by_role["student"], cost.by_role["decoder"]
    alone = count(MAMP, grid, visible)
    assert alone.macs == alone.torch_flop_counter == alone.closed_form and round(alone.flops(bodies) / 1e9, 2) == 1.96
    assert student["forward"] == bodies * alone.macs
    assert round(2 * decoder["forward"] / 1e9, 2) == 17.59
    # Two products per product, except that no gradient flows into coordinates.
    assert decoder["backward"] == 2 * decoder["forward"]
    embed = bodies * 750 * 12 * 256
    assert student["backward"] == 2 * student["forward"] - embed
