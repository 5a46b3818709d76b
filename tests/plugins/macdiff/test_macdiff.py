"""MacDiff: its views, its draws, and its numbers against numbers of the official code."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from skelbench_plugins._diffusion import MASK, NOISE, TIME
from skelbench_plugins._diffusion_decoder import cumulative_alphas
from skelbench_plugins.macdiff import MacDiff, MacDiffConfig, imported

from skelbench.core.errors import SkelbenchError
from skelbench.methods.contract import Context, Step
from skelbench.models.vit import ViT, ViTConfig
from skelbench.views import View
from skelbench.views.keyed import box_muller
from skelbench.views.motion import motion_masks, token_motion
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

MEAN, VARIANCE = (-0.0058, -0.1333, -0.0246), (0.0206, 0.0805, 0.0218)


def test_source_is_the_target_with_a_little_noise(made):
    views = made(source_noise=0.01, batch_size=12).views(0)
    source, target = views["source"], views["target"]
    assert torch.equal(source.keys_R, target.keys_R) and torch.equal(source.rows_R, target.rows_R)
    noise = source.x_RTJC - target.x_RTJC
    assert noise.std().item() == pytest.approx(0.01, rel=0.03) and abs(noise.mean().item()) < 3e-4
    assert target.mask_RN is None and source.keep_RK.shape[1] == 10  # of 100; MAMP's rule would keep 9
    still = made(source_noise=0.0).views(0)
    assert torch.equal(still["source"].x_RTJC, still["target"].x_RTJC)


def test_loss_from_the_formulas(made):
    """Time, dropped conditions and noise from the step's draws; noise predicted at masked tokens only."""
    run = made(condition_drop=0.5, uniformity=0.3, batch_size=6)
    method, views, step = run.method, run.views(0), run.step_info(0)
    source, target = views["source"], views["target"]
    out = method(views, step)

    u_R2 = step.uniform(target.keys_R, 2, op=TIME)
    informed_R = u_R2[:, 1] >= 0.5
    assert informed_R.any() and not informed_R.all()
    noise = box_muller(step.uniform(target.keys_R, 32 * 25 * 3, op=NOISE)).view_as(target.x_RTJC)
    alphas = cumulative_alphas(1000)
    noisy, times = torch.empty_like(noise), []
    for r in range(target.rows):
        times.append(int(1000 * u_R2[r, 0].double()))
        for c in range(3):
            x = (target.x_RTJC[r, :, :, c] - MEAN[c]) / math.sqrt(VARIANCE[c])
            a = alphas[times[-1]]
            noisy[r, :, :, c] = math.sqrt(a) * x + math.sqrt(1 - a) * noise[r, :, :, c]
    with torch.no_grad():
        tokens = method.encoder(source, keep_RK=source.keep_RK).tokens_RND
        predicted = method.decoder(noisy, tokens, source.keep_RK, torch.tensor(times), informed_R)
    errors, cosines = [], []
    for r in range(target.rows):
        for n in source.mask_RN[r].nonzero().flatten().tolist():
            p, j = divmod(n, 25)
            errors.append((predicted[r, n] - noise[r, 8 * p : 8 * p + 8, j].flatten()).square().mean())
        unit = tokens[r] / tokens[r].norm(dim=1, keepdim=True)
        cosines.append((unit @ unit.T).square().mean())
    assert out["denoising"].item() == pytest.approx(float(torch.stack(errors).mean()), rel=1e-4)
    assert out["uniformity"].item() == pytest.approx(float(torch.stack(cosines).mean()), rel=1e-4)
    assert out["loss"].item() == pytest.approx(out["denoising"].item() + 0.3 * out["uniformity"].item(), rel=1e-5)


def test_masks_prefer_moving_tokens(made):
    """MAMP's rule chooses the masked tokens from the clip without noise; the loss is over these tokens."""
    run, plain = made(tau=0.4, batch_size=6), made(batch_size=6)
    views, step = run.views(0), run.step_info(0)
    target = views["target"]
    u_RN = step.uniform(target.keys_R, 100, op=MASK)
    mask_RN, keep_RK = motion_masks(target.x_RTJC, u_RN, 8, 10, 0.4)
    motion_RN = token_motion(target.x_RTJC, 8)
    assert motion_RN[mask_RN].mean() > 1.2 * motion_RN[~mask_RN].mean()
    source = replace(views["source"], mask_RN=mask_RN, keep_RK=keep_RK)
    given = run.method.denoise({"target": target, "source": source}, step).losses
    assert run.method(views, step)["loss"] == given["loss"]
    assert plain.method(views, step)["loss"] != given["loss"] and plain.spec.id != run.spec.id


# ------------------------------------------------------------------------------------------- the official code
def integers(seed, *shape):
    """Uniform numbers in [0, 1) by integer arithmetic alone: the same on every machine and library."""
    i = np.arange(math.prod(shape), dtype=np.uint64) + np.uint64(seed * 1_000_003)
    for factor in (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D):
        i = (i * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
        i ^= i >> np.uint64(15)
    return torch.from_numpy((i >> np.uint64(8)) / 2.0**24).float().view(shape)


ROWS, FRAMES, PATCH, JOINTS, DIM, DEPTH = 3, 16, 4, 25, 16, 2


def official_state():
    """A small model's tensors in the official layout, filled by :func:`integers`, in the order of their names."""
    shapes = {}

    def linear(name, out, into):
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (out, into), (out,)

    def norm(name):
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (DIM,)

    for side, embed in (("", "joints_embed"), ("decoder_", "decoder_embed")):
        shapes[f"{embed}.proj.weight"], shapes[f"{embed}.proj.bias"] = (DIM, 3, PATCH, 1), (DIM,)
        shapes[f"{side}temp_embed"] = (1, FRAMES // PATCH, 1, DIM)
        shapes[f"{side}pos_embed"] = (1, 1, JOINTS, DIM)
        norm(f"{side}norm")
        for block in (f"{side}blocks.{l}" for l in range(DEPTH)):
            for name in (f"{block}.norm1", f"{block}.norm2"):
                norm(f"{name}.norm" if side else name)
                if side:
                    linear(f"{name}.fc_z", 2 * DIM, DIM)
                    linear(f"{name}.fc_t", 2 * DIM, 64)
            linear(f"{block}.attn.qkv", 3 * DIM, DIM)
            linear(f"{block}.attn.proj", DIM, DIM)
            linear(f"{block}.mlp.fc1", 4 * DIM, DIM)
            linear(f"{block}.mlp.fc2", DIM, 4 * DIM)
    linear("decoder_pred", PATCH * 3, DIM)
    state = {}
    for number, name in enumerate(sorted(shapes), 1):
        shape = shapes[name]
        spread = 2 * integers(number, *shape) - 1
        if name.endswith(("temp_embed", "pos_embed", "bias")):
            state[name] = 0.2 * spread
        elif len(shape) == 1:
            state[name] = 1 + 0.2 * spread
        else:
            state[name] = spread * (3 / math.prod(shape[1:])) ** 0.5
    return state


OFFICIAL = {
    "loss": 2.0681633949279785,
    "uniformity": 0.22546307742595673,
    "tokens": [
        [1.9798858165740967, -0.1360204964876175, -1.1626427173614502],
        [-0.21128185093402863, -0.36643776297569275, 0.24911381304264069],
        [1.1368380784988403, -1.5734930038452148, -0.2091793566942215],
    ],
    "gradients": {
        "encoder.tokenizer.project.weight": 0.12700903415679932,
        "encoder.blocks.0.attn.qkv.weight": 0.04317532852292061,
        "decoder.blocks.0.norm1.fc_z.weight": 0.07299565523862839,
        "decoder.blocks.1.norm2.fc_t.weight": 0.049204107373952866,
        "decoder.predict.bias": 0.204116553068161,
    },
}
"""Output of the official code: first visible token's first features per row; gradients as norms."""
OPTIONS = {"model_args": {"num_heads": 2, "input_mean": list(MEAN), "input_var": list(VARIANCE), "uncond_ratio": 0.1}}


def imported_method():
    made = imported(official_state(), OPTIONS)

    def section(name):
        parts = (key.partition(".")[::2] for key in made.settings)
        return {key: made.settings[f"{name}.{key}"] for part, key in parts if part == name}

    encoder = ViTConfig(temporal="learned", cls=False, norm_eps=1e-5, **section("encoder"))
    grid = Grid(joints=JOINTS, **section("grid"))
    context = Context(NTU25, grid, lambda: ViT(encoder, NTU25, grid))
    method = MacDiff(MacDiffConfig(**section("method")), context)
    method.load_state_dict(made.weights)
    return method, made


def test_numbers_of_the_official_code():
    """One state dict, clip, mask, time and noise in both: Wenrui-Shen/MacDiff at 692888f, run unpatched on torch 2.9.

    Made by building ``model.transformer_macdiff.Transformer`` (dim_feat 16, depth and decoder_depth 2, 2 heads, 16
    frames, uncond_ratio 0.1, lambda_loss_uni 0.02, ``['inverse_cosine', 1]``, NTU constants), loading
    :func:`official_state`, replacing ``torch.rand`` (mask, condition), ``torch.randn_like`` and the time sampler by the
    inputs below, and calling it with mask_ratio 0.9, motion_aware_tau -1. At full size (11.95 million parameters) the
    losses were equal, token features within 2e-6 and gradients within 1e-6 of their norm.
    """
    method, _ = imported_method()
    clip = (ROWS, FRAMES, JOINTS, 3)
    target = 2 * integers(901, *clip) - 1
    source = target + 0.01 * (integers(902, *clip) - 0.5)
    keep_RK = integers(905, ROWS, 100).argsort(1)[:, :10].sort(1).values
    mask_RN = torch.ones(ROWS, 100, dtype=torch.bool).scatter(1, keep_RK, False)
    draws = {NOISE: integers(903, ROWS, FRAMES * JOINTS * 3), TIME: integers(904, ROWS, 2)}
    draws[TIME][-1, 1] = 0.05  # the last row loses its condition
    rows = torch.arange(ROWS)
    views = {
        "target": View(target, rows, ROWS, 1, keys_R=rows),
        "source": View(source, rows, ROWS, 1, keys_R=rows, keep_RK=keep_RK, mask_RN=mask_RN),
    }
    out = method(views, Step(0, 1, 0.0, torch.Generator(), lambda keys_R, n, op: draws[op]))
    assert out["loss"].item() == pytest.approx(OFFICIAL["loss"], abs=1e-5)
    assert out["uniformity"].item() == pytest.approx(OFFICIAL["uniformity"], abs=1e-5)
    tokens_RKD = method.encoder(views["source"], keep_RK=keep_RK).tokens_RND
    assert tokens_RKD[:, 0, :3].tolist() == [pytest.approx(row, abs=1e-5) for row in OFFICIAL["tokens"]]
    out["loss"].backward()
    norms = {name: method.get_parameter(name).grad.norm().item() for name in OFFICIAL["gradients"]}
    assert norms == pytest.approx(OFFICIAL["gradients"], rel=1e-4)


def test_import_reads_shapes_and_options():
    _, made = imported_method()
    assert made.settings["method.decoder_dim"] == 16 and made.settings["method.time_width"] == 64 and not made.leftover
    with pytest.raises(SkelbenchError, match="decoder_embed.weight"):
        imported(official_state() | {"decoder_embed.weight": torch.zeros(16, 16)}, OPTIONS)
    with pytest.raises(SkelbenchError, match="variances are positive"):
        imported(official_state(), {"model_args": {"input_var": [0.1, 0.2, 0.0]}})
