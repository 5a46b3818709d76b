"""Parameters and multiply-accumulates (MACs) of encoders and heads at their published sizes, on shapes alone."""

import pytest
import torch
from skelbench_plugins import agcn, bigru, dste, glt, hcn, hico, scd_net, stgcn, two_branch, usdrl
from skelbench_plugins.hico.encoder import HiCoEncoder, HiCoEncoderConfig
from skelbench_plugins.scd_net.encoder import SCDNetEncoder, SCDNetEncoderConfig

from skelbench.evaluation.cost.macs import count_encoder
from skelbench.methods import Context
from skelbench.models.recurrent import FrameDecoder
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

PCLUST = {"bodies": 0, "input_norm": False, "second": "backward", "unit_range": True}
ENCODERS = {
    "agcn": (agcn.AGCN, agcn.AGCNConfig(), 64, 3_454_090, 4_140_240_000),
    "bigru": (bigru.BiGRU, bigru.BiGRUConfig(), 64, 44_998_956, 2_877_554_688),
    "bigru of pclust": (bigru.BiGRU, bigru.BiGRUConfig(**PCLUST), 50, 44_537_856, None),
    "dste": (dste.DSTE, dste.DSTEConfig(), 64, 57_137_368, None),
    "glt": (glt.GLT, glt.GLTConfig(), 300, 198_883_200, 61_323_120_000),
    "hcn": (hcn.HCN, hcn.HCNConfig(), 64, 519_424, 386_580_480),
    "hico": (HiCoEncoder, HiCoEncoderConfig(), 64, 3_867_648, None),
    "scd-net": (SCDNetEncoder, SCDNetEncoderConfig(), 64, 74_447_664, None),
    "stgcn": (stgcn.STGCN, stgcn.STGCNConfig(), 50, 821_380, 306_192_800),
    "sttr": (two_branch.TwoBranch, two_branch.TwoBranchConfig(depth=2, joint_positions=True), 64, 27_713_536, None),
    "two-branch": (two_branch.TwoBranch, two_branch.TwoBranchConfig(), 64, None, 869_933_056),
    "two-branch, fused": (two_branch.TwoBranch, two_branch.TwoBranchConfig(fused=True), 64, 22_067_200, 1_267_867_648),
}
"""Class, settings, frames, parameters and MACs; None = not published."""
ON_CPU = ("agcn", "hcn", "stgcn")
"""Encoders with constant tables, which are counted from a copy on the CPU."""
PROPORTIONAL = ("agcn", "bigru")
"""Encoders whose MACs grow with the frames: a quarter of them is counted, since counting them takes long."""
HEADS = {
    "hico": (hico.HiCo, hico.HiCoConfig(queue=4), "heads", 5_049_472),
    "scd-net": (scd_net.SCDNet, scd_net.SCDNetConfig(queue=4), "heads", 17_570_176),
    "dste": (usdrl.USDRL, usdrl.USDRLConfig(), "projectors", 37_793_792),
}
"""By encoder: method, settings, name of the heads and their parameters."""


def make(name, device="meta", part=1):
    cls, config, frames, *_ = ENCODERS[name]
    with torch.device(device):
        return cls(config, NTU25, Grid(frames // part, 1, 25))


def size(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("name", [name for name, row in ENCODERS.items() if row[3]])
def test_an_encoder_has_the_published_size(name):
    assert size(make(name, "cpu" if name in ON_CPU else "meta")) == ENCODERS[name][3]


@pytest.mark.parametrize("name", [name for name, (*_, macs) in ENCODERS.items() if macs])
def test_an_encoder_has_the_published_cost_by_all_counters(name):
    part = 4 if name in PROPORTIONAL else 1
    encoder = make(name, "cpu" if name in ON_CPU else "meta", part)
    count = count_encoder(encoder, encoder.grid, NTU25)
    assert count.macs == count.closed_form == count.torch_flop_counter == ENCODERS[name][-1] / part
    assert count.flops(2) == 2 * count.macs * (2 if count.bodies == 1 else 1)


@pytest.mark.parametrize("name", HEADS)
def test_heads_have_the_published_size(name):
    cls, config, heads, parameters = HEADS[name]
    with torch.device("meta"):
        method = cls(config, Context(NTU25, Grid(64, 1, 25), lambda: make(name)))
    assert size(getattr(method, heads)) == parameters


def test_the_decoder_of_pclust_has_the_published_size():
    with torch.device("meta"):
        assert size(FrameDecoder(75, 2048)) == 13_209_675
