"""HiCo and its encoder against numbers of the public code, and what is made of them here."""

import math

import official
import pytest
import torch
import torch.nn.functional as F
from official_levels import CLIPS, FRAMES, at, check_what_follows_and_what_learns, embedded, filled, views
from skelbench_plugins.hico import GRANULAR, OTHER, HiCo, HiCoConfig
from skelbench_plugins.hico.encoder import HiCoEncoder, HiCoEncoderConfig

from skelbench.methods import LEVELS, Context
from skelbench.models.encoder import Encoded
from skelbench.pipeline.checkpoint_file import fit, read_checkpoint
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

T, D, B, E, K, G = FRAMES, 8, CLIPS, 6, 8, 4
GRID = Grid(T, 1, 25)
RELEASED = "refreshes-a-part-as-released"


def make_encoder(topology=NTU25, **settings):
    settings = {"dim": D, "heads": 2, "dropout": 0.0} | settings
    return HiCoEncoder(HiCoEncoderConfig(**settings), topology, Grid(T, 1, topology.num_joints))


def make(**settings):
    """A tiny HiCo whose numbers are sines, with full queues; key encoder and heads are copies."""
    config = HiCoConfig(**{"queue": K, "embedding": E} | settings)
    method = filled(HiCo(config, Context(NTU25, GRID, make_encoder)))
    for phase, rows_NL in enumerate((method.queue.keys_KE, method.coarse_queue.keys_KE, method.stale_2NE)):
        if rows_NL.numel():
            x = torch.from_numpy(official.wave(tuple(rows_NL.shape), phase)).float().unflatten(-1, (-1, E))
            rows_NL.copy_(F.normalize(x, dim=-1).flatten(-2))
    return method.train()


GOLDEN = {"clip": 0.483343, "part": 1.442407, "time": 3.239322, "space": 3.409184, "instance": 0.077269}
GRADIENTS = {
    "encoder.embed.time.0.weight": [-0.4409207, -4.8300003, 6.7904753],
    "encoder.halve.space.conv.weight": [0.0010588, 0.018421, 0.0197729],
    "encoder.space.0.attn.qkv.weight": [0.0017268, 0.0018309, 0.0023004],
    "encoder.time.0.mlp.3.weight": [-0.0591321, -0.1557085, -0.2349387],
    "heads.clip.2.weight": [-0.0938601, -0.031303, -0.0434874],
    "heads.time.0.weight": [0.0398371, 0.0067847, 0.0551745],
}
FEATURES = {"times": [-0.14719, 3.142523, -0.58806], "spaces": [-0.467799, -0.21577, -0.376495]}
"""Made by running HuiGuanLab/HiCo (commit cf39a93), ``hico.builder.HiCo`` and its losses without dropout, in float64,
with these weights, clips and queues, and without its first momentum update, which changes nothing: its encoders begin
alike."""


def test_losses_features_and_gradients_equal_the_public_code():
    method, batch = make(coarse_queue=RELEASED), views()
    out = method(batch, at(K // B))
    assert {level: out[level].item() for level in GOLDEN} == pytest.approx(GOLDEN, rel=1e-5)
    assert out["loss"].item() == pytest.approx(sum(GOLDEN.values()), rel=1e-5)
    out["loss"].backward()
    gradients = dict(method.named_parameters())
    for name, expected in GRADIENTS.items():
        assert gradients[name].grad.flatten()[:3].tolist() == pytest.approx(expected, rel=2e-3, abs=1e-6)
    with torch.no_grad():
        encoded = method.encoder(batch["query"])
    for name, expected in FEATURES.items():
        assert encoded.levels[name][3, -3:].tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("coarse", ["whole", RELEASED])
def test_the_loss_is_the_formula_from_the_first_step_on(coarse):
    """Clip by clip and key by key, of what has been written and, as released, of random keys too."""
    method, temperature = make(coarse_queue=coarse), 0.2
    written = {level: [] for level in (*GRANULAR, *LEVELS)}
    stale = dict(zip(GRANULAR, method.stale_2NE))
    assert [len(x_NE) for x_NE in stale.values()] == [0 if coarse == "whole" else 3 * K] * 2
    held = G * K if coarse == "whole" else K
    for index in range(4):
        batch, step = views(index), at(index)
        with torch.no_grad():
            out = method(batch, step)
            q, k = embedded(method, batch)
        for level in (*GRANULAR, *LEVELS):
            total, coarse_level = 0.0, level in GRANULAR
            other = level if coarse_level else OTHER[level]
            for b in range(B):
                query = q[level][b, 0] if coarse_level else q[level][b]
                own = list(k[other][b]) if coarse_level else [k[other][b]]
                others = [*written[other][-(held if coarse_level else K) :], *stale.get(level, ())]
                p = [math.exp(float(query @ x.double()) / temperature) for x in (*own, *others)]
                total -= math.log(sum(p[: len(own)]) / sum(p)) / B
            assert out[level].item() == pytest.approx(total, rel=1e-4, abs=1e-5)
        assert out["loss"].item() == pytest.approx(sum(out[level].item() for level in written), rel=1e-5)
        method.after_step(step)
        for level in (*GRANULAR, *LEVELS):
            written[level] += list(k[level].reshape(-1, E))


def test_key_encoders_follow_and_all_other_parts_learn():
    check_what_follows_and_what_learns(make(momentum=0.75))


def test_granularities_are_maxima_of_longer_means():
    """6 patches and 5 joints give 6, 3, 1 and 1 stretches, 5, 2, 1 and 1 groups; a remainder at the end is dropped."""
    tokens_RND = official.noise(2, 6 * 5 * 3).unflatten(1, (30, 3))
    found = Encoded(tokens_RND, tokens_RND.mean(1)).granularities(5, 4)
    grid_RPJD = tokens_RND.unflatten(1, (6, 5))
    for x_RGD, x_RnD, stretches in zip(found, (grid_RPJD.mean(2), grid_RPJD.mean(1)), ((6, 3, 1, 1), (5, 2, 1, 1))):
        assert x_RGD.shape == (2, 4, 3)
        for g, (n, length) in enumerate(zip(stretches, (1, 2, 4, 4))):
            means = torch.stack([x_RnD[:, i * length : (i + 1) * length].mean(1) for i in range(n)])
            torch.testing.assert_close(x_RGD[:, g], means.amax(0))


# ------------------------------------------------------------------------------------------------ checkpoints
PARTS = {
    "attn.qkv.": "self_attn.in_proj_",
    "attn.proj.": "self_attn.out_proj.",
    "mlp.0.": "linear1.",
    "mlp.3.": "linear2.",
    "norm": "norm",
}


def public(method, front="encoder_q.hi_encoder"):
    """Its encoder and heads in the layout of the public code, z up, and what else such a file holds."""
    out = {
        "c_queue": torch.zeros(E, G * K),
        "c_queue_ptr": torch.zeros(1),
        "encoder_k.clip_proj.0.bias": torch.zeros(D),
    }
    for name, x in method.encoder.state_dict().items():
        first, second, *rest = name.split(".")
        if first == "embed":
            if rest[0] == "0" and x.dim() == 2:
                a, b, c = x.unflatten(1, (-1, 3)).unbind(2)
                x = torch.stack([a, -c, b], 2).flatten(1)
            name = f"{second[0]}_embedding." + ".".join(rest)
        elif first == "halve":
            inside = "conv.dw_conv" if rest[0] == "conv" else "norm"
            name = f"{second[0]}_downsample.{inside}.{rest[1]}"
        else:
            inside = ".".join(rest)
            old = next(old for old in PARTS if inside.startswith(old))
            name = f"{first[0]}_encoder.layers.{second}.{PARTS[old]}{inside.removeprefix(old)}"
        out[f"{front}.{name}"] = x.clone()
    levels = ("clip_proj", "part_proj", "td_proj", "sd_proj", "instance_proj")
    for theirs, ours in zip(levels, method.heads.values()):
        out |= {f"encoder_q.{theirs}.{name}": x for name, x in ours.state_dict().items()}
    return out


def test_an_imported_encoder_swaps_axes(tmp_path, host):
    theirs, ours = make(), make()
    torch.save({"state_dict": public(theirs), "optimizer": {}, "epoch": 451}, tmp_path / "hico.pth.tar")
    checkpoint = read_checkpoint(tmp_path / "hico.pth.tar")
    found = host.load(host.get("methods", "hico"), "imports")(checkpoint.state, checkpoint.options)
    assert found.settings == {
        "encoder.dim": D,
        "encoder.depth": 1,
        "grid.frames": T,
        "encoder.granularities": G,
        "method.granularities": G,
    }
    for parameter in ours.parameters():
        parameter.data.zero_()
    assert not fit(ours, found.weights, "hico.pth.tar"), "the encoder alone"
    assert all(torch.equal(x, ours.encoder.state_dict()[name]) for name, x in theirs.encoder.state_dict().items())
