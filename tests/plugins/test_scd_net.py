"""SCD-Net, its views and its encoder against the public code, and what is made of them here."""

import math

import official
import pytest
import torch
import torch.nn.functional as F
from official_levels import CLIPS, FRAMES, at, embedded, filled, views
from skelbench_plugins.scd_net import PAIRS, SCDNet, SCDNetConfig
from skelbench_plugins.scd_net.encoder import SCDNetEncoder, SCDNetEncoderConfig

from skelbench.methods import LEVELS, Context
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

T, D, B, E, K = FRAMES, 8, CLIPS, 6, 8
GRID = Grid(T, 1, 25)


def make_encoder(topology=NTU25):
    config = SCDNetEncoderConfig(dim=D, heads=2, channels=8, dropout=0.0)
    return SCDNetEncoder(config, topology, Grid(T, 1, topology.num_joints))


def make(**settings):
    """A tiny SCD-Net whose numbers are sines, with a full queue; key encoder and heads are copies."""
    config = SCDNetConfig(**{"queue": K, "embedding": E} | settings)
    method = filled(SCDNet(config, Context(NTU25, GRID, make_encoder)))
    keys_KLE = torch.from_numpy(official.wave((K, len(LEVELS), E), 0.0)).float()
    method.queue.keys_KE.copy_(F.normalize(keys_KLE, dim=2).flatten(1))
    return method.train()


GOLDEN = {"time_instance": 0.357428, "space_instance": 0.25054, "instance_time": 0.209809, "instance_space": 0.128952}
GRADIENTS = {
    "encoder.graph.time.units.0.space.value.weight": [0.0083733, -0.0052057, -0.0079006],
    "encoder.graph.space.units.1.space.spread.weight": [0.0199864, 0.0297457, 0.0009834],
    "encoder.graph.space.units.2.space.weight_SJJ": [0.0016487, 0.0008215, -0.0003713],
    "encoder.graph.time.units.2.time.paths.1.3.weight": [-0.0137501, -0.0027692, -0.0051612],
    "encoder.embed.time.0.weight": [-0.0183009, -0.025333, -0.0502463],
    "encoder.space.0.attn.qkv.weight": [0.0048712, 0.0044988, 0.0039461],
    "heads.instance.0.weight": [-0.0203462, 0.1699157, 0.3791284],
}
FEATURES = {"time": [-0.124975, -1.120703, -1.541598], "space": [0.985125, 0.332275, -0.863762]}
RUNNING = [0.958432, 0.956265, 0.923935, 0.92208, 0.960637, 0.953019, 0.989144, 0.998028]
"""Made by running cong-wu/SCD-Net (commit 0af1b19), ``scd.builder.SCD_Net`` without dropout, its width, channels and
frames made these, in float64 with these weights, clips and queue, and without its first momentum update, which changes
nothing: its encoders begin alike."""


def test_losses_features_and_gradients_equal_the_public_code():
    method, batch = make(), views()
    out = method(batch, at(K // B))
    assert {pair: out[pair].item() for pair in GOLDEN} == pytest.approx(GOLDEN, rel=2e-5)
    assert out["loss"].item() == pytest.approx(sum(GOLDEN.values()), rel=1e-5)
    out["loss"].backward()
    gradients = dict(method.named_parameters())
    for name, expected in GRADIENTS.items():
        assert gradients[name].grad.flatten()[:3].tolist() == pytest.approx(expected, rel=5e-3, abs=1e-5)
    found = method.key_encoder.graph["time"].units[1].time.paths[0][1].running_var
    assert found.tolist() == pytest.approx(RUNNING, rel=1e-4), "the key encoder's own statistics"
    with torch.no_grad():
        encoded = method.encoder(batch["query"])
    for name, expected in FEATURES.items():
        assert encoded.levels[name][3, -3:].tolist() == pytest.approx(expected, abs=2e-5)


def test_the_loss_is_the_formula_from_the_first_step_on():
    method, written = make(), {level: [] for level in LEVELS}
    for index in range(4):
        batch, step = views(index), at(index)
        with torch.no_grad():
            out = method(batch, step)
            q, k = embedded(method, batch)
        for level, other in PAIRS:
            total = 0.0
            for b in range(B):
                p = [math.exp(float(q[level][b] @ x) / 0.2) for x in (k[other][b], *written[other][-K:])]
                total -= math.log(p[0] / sum(p)) / B
            assert out[f"{level}_{other}"].item() == pytest.approx(total, rel=1e-4, abs=1e-5)
        assert out["loss"].item() == pytest.approx(sum(out[f"{a}_{b}"].item() for a, b in PAIRS), rel=1e-5)
        method.after_step(step)
        for level in LEVELS:
            written[level] += list(k[level])
