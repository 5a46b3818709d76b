"""The authors' files: three layouts become one run whose features equal an independent computation."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from skelbench.cli.main import main
from skelbench.models.vit import ViT, ViTConfig
from skelbench.pipeline.checkpoint_file import read_checkpoint
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25
from skelbench.views.view import View

pytestmark = pytest.mark.usefixtures("shipped_plugins")

DIM, DEPTH, HEADS, HIDDEN = 32, 5, 8, 88
CONFIG = {"img_size": [64, 25], "patch_size": [8, 1], "num_heads": HEADS}


def published(seed=0):
    """Random weights in the layout of the hub."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape, scale=0.3, around=0.0):
        return around + scale * torch.randn(*shape, generator=generator)

    state = {
        "cls_token": draw(1, 1, DIM),
        "register_tokens": draw(1, 4, DIM),
        "mask_token": draw(1, DIM),
        "pos_embed": draw(1, 26, DIM),
        "patch_embed.proj.weight": draw(DIM, 3, 8, 1),
        "patch_embed.proj.bias": draw(DIM),
        "norm.weight": draw(DIM, around=1.0),
        "norm.bias": draw(DIM),
    }
    for i in range(DEPTH):
        for norm in ("norm1", "norm2"):
            state |= {f"blocks.{i}.{norm}.weight": draw(DIM, around=1.0), f"blocks.{i}.{norm}.bias": draw(DIM)}
        for layer, rows, columns in (
            ("attn.qkv", 3 * DIM, DIM),
            ("attn.proj", DIM, DIM),
            ("mlp.w12", 2 * HIDDEN, DIM),
            ("mlp.w3", DIM, HIDDEN),
        ):
            state |= {f"blocks.{i}.{layer}.weight": draw(rows, columns), f"blocks.{i}.{layer}.bias": draw(rows)}
    return state


def one_body(state, x_TJC):
    """Class tokens of the last four blocks and the mean token, by the names of the file, in float64."""
    w = {name: tensor.double() for name, tensor in state.items()}
    tokens = F.conv2d(
        x_TJC.double().permute(2, 0, 1)[None], w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], (8, 1)
    )
    times, joints = tokens.shape[2:]
    patches = tokens[0].flatten(1).T + w["pos_embed"][0, 1:].repeat(times, 1)
    x = torch.cat([w["cls_token"][0] + w["pos_embed"][0, :1], w["register_tokens"][0], patches])
    norm = lambda x, name: F.layer_norm(x, (DIM,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-6)  # noqa: E731
    half = DIM // HEADS // 2
    time = torch.arange(times).repeat_interleave(joints).double()
    angle = time[:, None] * 10000.0 ** (-torch.arange(half).double() / half)

    def turned(q):  # only patches are rotated
        first, second = q[5:, :half], q[5:, half:]
        pairs = [first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()]
        return torch.cat([q[:5], torch.cat(pairs, 1)])

    classes = []
    for i in range(DEPTH):
        at = f"blocks.{i}"
        q, k, v = (norm(x, f"{at}.norm1") @ w[f"{at}.attn.qkv.weight"].T + w[f"{at}.attn.qkv.bias"]).chunk(3, 1)
        heads = []
        for h in range(HEADS):
            columns = slice(h * 2 * half, (h + 1) * 2 * half)
            scores = turned(q[:, columns]) @ turned(k[:, columns]).T / math.sqrt(2 * half)
            heads.append(scores.softmax(1) @ v[:, columns])
        x = x + torch.cat(heads, 1) @ w[f"{at}.attn.proj.weight"].T + w[f"{at}.attn.proj.bias"]
        gate, value = (norm(x, f"{at}.norm2") @ w[f"{at}.mlp.w12.weight"].T + w[f"{at}.mlp.w12.bias"]).chunk(2, 1)
        x = x + (F.silu(gate) * value) @ w[f"{at}.mlp.w3.weight"].T + w[f"{at}.mlp.w3.bias"]
        classes.append(norm(x, "norm")[0])
    return torch.cat([*classes[-4:], norm(x, "norm")[5:].mean(0)])


def write(folder, layout):
    state = published()
    if layout == "hub":
        save_file(state, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(CONFIG))
        return folder / "model.safetensors"
    teacher = {f"backbone.{name}": x for name, x in state.items()}
    if layout == "training":  # of a compiled module, with its heads
        teacher |= {"dino_head.mlp.0.weight": torch.ones(2, DIM), "ibot_head.last_layer.weight_g": torch.ones(4, 1)}
        teacher = {f"_orig_mod.{name}": x for name, x in teacher.items()}
    torch.save({"teacher": teacher}, folder / "teacher_checkpoint.pth")
    return folder / "teacher_checkpoint.pth"


@pytest.mark.parametrize("layout", ["hub", "training", "exported"])
def test_published_weights_give_the_features_of_an_independent_computation(layout, data_root, capsys):
    folder = data_root.parent
    path = write(folder, layout)
    assert main(["import-checkpoint", "slim", str(path), "--dataset", "small"]) == 0
    (run,) = (folder / "results").glob("slim-*imported*/run.json")
    info = json.loads(run.read_text())
    assert len(info["imported"]["left_out"]) == (2 if layout == "training" else 0)
    spec = info["spec"]
    assert (spec["grid"], spec["train"]["center"]) == ({"frames": 64, "patch": 8}, "body-in-training")
    encoder = ViT(ViTConfig(**spec["encoder_config"]), NTU25, Grid(64, 8, 25)).double().eval()
    encoder.prepare(frozenset({"replace-tokens"}))
    weights = load_file(run.parent / "encoder.safetensors")
    encoder.load_state_dict({name.removeprefix("encoder."): x.double() for name, x in weights.items()})
    for frames in (64, 16):
        x_MTJC = torch.randn(2, frames, 25, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(frames))
        with torch.no_grad():
            encoded = encoder(View.of(x_MTJC[None]))
        expected = torch.stack([one_body(published(), x_TJC) for x_TJC in x_MTJC])
        assert torch.allclose(encoded.levels["cls4+mean"], expected, atol=1e-6)
        assert torch.allclose(encoded.pooled_RD, expected[:, -2 * DIM :], atol=1e-6)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda state: {name: x for name, x in state.items() if name != "blocks.2.attn.qkv.weight"}, "blocks.2"),
        (lambda state: {"classifiers_dict.lr_1.linear.weight": torch.ones(60, DIM)}, "linear probes"),
        (lambda state: {"backbone.patch_embed.proj.weight": torch.ones(8, 3, 16, 16)}, "patch_embed"),
        (lambda state: state | {"decoder.weight": torch.ones(2, 2)}, "decoder.weight"),
    ],
    ids=["missing", "probe", "another-model", "one-too-many"],
)
def test_other_files_are_rejected_with_a_name(change, word, data_root, fails):
    torch.save({"teacher": change(published())}, data_root.parent / "file.pth")
    fails(["import-checkpoint", "slim", str(data_root.parent / "file.pth"), "--dataset", "small"], word)
    assert not list((data_root.parent / "results").glob("*"))


def test_a_damaged_safetensors_file_is_rejected(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"none")
    with pytest.raises(Exception, match="damaged"):
        read_checkpoint(tmp_path / "model.safetensors")
