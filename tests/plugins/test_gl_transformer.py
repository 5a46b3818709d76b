"""GL-Transformer and its encoder against numbers of the public code, and what is made of them here."""

import math
from dataclasses import replace

import official
import pytest
import torch
from skelbench_plugins import gl_transformer as gl
from skelbench_plugins.bigru import BiGRU, BiGRUConfig
from skelbench_plugins.gl_transformer import checkpoint
from skelbench_plugins.gl_transformer.targets import displacement_classes, local_and_global
from skelbench_plugins.glt import GLT, GLTConfig

from skelbench.methods import Context, Step
from skelbench.models.vit import ViT, ViTConfig
from skelbench.pipeline.checkpoint_file import fit
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

T, LENGTHS = 14, (14, 11, 9, 6)
STEP = Step(0, 10, 0.0, torch.Generator(), lambda *_: None)


def encoder(topology=NTU25, frames=T, **settings):
    settings = {"dim": 4, "depth": 2, "heads": 2} | settings
    return GLT(GLTConfig(**settings), topology, Grid(frames, 1, topology.num_joints))


def method(made=encoder, **settings):
    settings = {"relative": False, "resize": "pad"} | settings
    return gl.GLTransformer(gl.GLTransformerConfig(**settings), Context(NTU25, Grid(T, 1, 25), made))


def view():
    """Four clips of different lengths, the second body of every other one absent; joint 20 is where a body has come."""
    x_BMTJC = local_and_global(official.clip(4, T), 20)
    x_BMTJC[:, :, :, 20] -= x_BMTJC[:, :, :1, 20].clone()
    real_BT = torch.arange(T) < torch.tensor(LENGTHS)[:, None]
    made = View.of(x_BMTJC * real_BT[:, None, :, None, None], x_BMTJC.flatten(2).any(2))
    return replace(made, real_RT=real_BT[made.clip_R])


GOLDEN = {
    "loss": 7.35213308,
    "direction": 3.78356285,
    "length": 3.21394907,
    "global_direction": 3.76533044,
    "global_length": 3.32709297,
}
FEATURES = [4.963720697, 1.508170323, -0.5905793068, -0.3581749375]
GRADIENTS = {
    "encoder.embed.weight": [0.229787, -0.0274201],
    "encoder.embed_path.weight": [0.00517628, 0.011807],
    "encoder.blocks.0.positions": [-0.0152557, 0.00215076],
    "encoder.blocks.0.mlp.0.weight": [-0.0028574, 0.012016],
    "encoder.blocks.1.space.qkv.weight": [-0.000995677, 0.00186195],
    "encoder.blocks.1.time.qkv.weight": [8.18908e-06, 9.52204e-05],
    "encoder.blocks.1.norm_time.weight": [-0.000272448, -0.000195527],
    "encoder.head.3.weight": [0.0210111, 0.0218182],
    "direction.1.weight": [-0.00469153, -0.0018803],
    "length.2.weight": [0.0120173, 0.0021341],
}
"""Made by running Boeun-Kim/GL-Transformer (model/pretrain.py, the loss of learn_PTmodel.py, feeder/ntu_feeder.py
without augmentation, model/downstream.py) once on :func:`view`, 99.9 where it is padded, in float64 and eval mode, with
weights of ``official.fill``: loss, first two gradients, first features of the first clip and last of the last."""


def test_loss_gradients_and_features_equal_the_public_code():
    made = official.fill(method()).double().eval()
    batch = view()
    out = made({"whole": batch.with_x(batch.x_RTJC.double())}, STEP)
    assert {name: float(out[name].detach()) for name in GOLDEN} == pytest.approx(GOLDEN, rel=2e-6)
    out["loss"].backward()
    gradients = dict(made.named_parameters())
    for name, expected in GRADIENTS.items():
        assert gradients[name].grad.flatten()[:2].tolist() == pytest.approx(expected, rel=1e-4, abs=1e-9)
    with torch.no_grad():
        found_BD = made.encoder(batch.with_x(batch.x_RTJC.double())).pooled_RD
    assert found_BD[0, :2].tolist() + found_BD[3, -2:].tolist() == pytest.approx(FEATURES, abs=1e-9)


def slow_classes(x_MTJC, interval):
    """{(t, joint, body): (direction, length)} as feeder/ntu_feeder.py has them."""
    found = {}
    for m, body in enumerate(x_MTJC.tolist()):
        absent = m == 1 and not any(c for joint in body[0] for c in joint)
        for t, frame in enumerate(body):
            for j, joint in enumerate(frame):
                back = [before - now for before, now in zip(body[max(0, t - interval)][j], joint)]
                signs = [(c > 0) - (c < 0) + 1 for c in back]
                far = math.hypot(*back)
                length = 15 if absent else 0 if far == 0 else min(14, int(far // 0.01) + 1)
                found[t, j, m] = signs[0] + 3 * signs[1] + 9 * signs[2], length
    return found


@pytest.mark.parametrize("interval", [1, 5])
def test_classes_equal_a_loop(interval):
    x_BMTJC = 0.2 * view().x_BMTJC[:2]
    x_BMTJC[1, 0, 3:6] = x_BMTJC[1, 0, 3]  # still for a while
    found = displacement_classes(x_BMTJC, torch.tensor([[False, True]]), interval, 0.01)
    seen = set()
    for clip in range(2):
        for (t, j, m), expected in slow_classes(x_BMTJC[clip], interval).items():
            assert tuple(int(x[clip, t, 2 * j + m]) for x in found) == expected
            seen.add(expected[1])
    assert {0, 1, 2, 15} <= seen


@pytest.mark.parametrize("term", ["first-interval", "all-intervals"])
@pytest.mark.parametrize("kind_of_token", ["frame-of-clip", "frame-of-body", "patch"])
def test_the_loss_is_the_mean_over_real_frames_of_each_term(kind_of_token, term):
    """Slot by slot; in the code only the first interval's joint between the shoulders is global."""
    batch, of_clips = view(), kind_of_token == "frame-of-clip"
    if of_clips:
        made = method(global_term=term)
    elif kind_of_token == "frame-of-body":
        made = method(lambda: BiGRU(BiGRUConfig(hidden=8, depth=1, bodies=0), NTU25, Grid(T, 1, 25)), global_term=term)
    else:
        grid = Grid(T, 2, 25)
        vit = ViTConfig(dim=8, depth=1, heads=2)
        config = gl.GLTransformerConfig(relative=False, global_term=term)
        made = gl.GLTransformer(config, Context(NTU25, grid, lambda: ViT(vit, NTU25, grid)))
    made.eval()
    with torch.no_grad():
        out = made({"whole": batch}, STEP)
        tokens = made.encoder(batch).tokens_RND
        terms = {name: [] for name in gl.NAMES}
        for i, interval in enumerate((1, 5, 10)):
            logits = [heads[i](tokens) for heads in (made.direction, made.length)]
            for clip in range(4):
                for (t, j, m), classes in slow_classes(batch.x_BMTJC[clip], interval).items():
                    if t >= LENGTHS[clip] or not (of_clips or batch.valid_BM[clip, m]):
                        continue
                    part = "global_" * (j == 20 and (i == 0 or term == "all-intervals"))
                    for kind, of, target in zip(("direction", "length"), logits, classes):
                        row = clip if of_clips else batch.rows_R.tolist().index(2 * clip + m)
                        if of_clips:
                            scores = of[row, t].view(50, -1)[2 * j + m]
                        elif kind_of_token == "frame-of-body":
                            scores = of[row, t].view(25, -1)[j]
                        else:
                            scores = of[row, t // 2 * 25 + j].view(2, -1)[t % 2]
                        terms[part + kind].append(float(-scores.log_softmax(0)[target]))
    means = {name: sum(values) / len(values) for name, values in terms.items()}
    assert {name: float(out[name]) for name in gl.NAMES} == pytest.approx(means, rel=1e-5)
    weighed = sum(means[name] * (0.05 if "global" in name else 1.0) for name in gl.NAMES)
    assert float(out["loss"]) == pytest.approx(weighed, rel=1e-5)


# ------------------------------------------------------------------------------------------------ checkpoints
def public_state(made):
    """Weights of ``made`` as the authors' code names them, with what it saves besides."""
    back = {ours: theirs for theirs, ours in checkpoint._PARTS.items()}
    state = {"pred_token_emb": torch.zeros(1, 1, 50, 4), "encoder_blocks.0.tm_pos_encoder.pe": torch.zeros(1, T, 200)}
    for name, x in made.state_dict().items():
        first, _, rest = name.partition(".")
        if first == "blocks":
            number, _, part = rest.partition(".")
            ours = max((known for known in back if f"{part}.".startswith(f"{known}.")), key=len)
            name = f"encoder_blocks.{number}.{back[ours]}{part.removeprefix(ours)}"
            x = x[None] if part == "positions" else x
        else:
            name = {"embed": "emb", "embed_path": "emb_global", "norm": "norm", "head": "mlp"}[first] + "." + rest
        state[name] = x
    return state


@pytest.mark.parametrize("classifier", [False, True])
def test_a_public_checkpoint_is_read(classifier):
    made = official.fill(encoder(expand=1.5))
    state = public_state(made)
    if classifier:
        state = {f"transformer.{name}": x for name, x in state.items()} | {"linear.weight": torch.zeros(60, 200)}
    imported = checkpoint.imported(state, {})
    assert imported.settings == {
        "encoder.dim": 4, "encoder.depth": 2, "encoder.expand": 1.5, "encoder.bodies": 2, "grid.frames": T,
    }  # fmt: skip
    assert imported.leftover == ("pred_token_emb", "linear.weight")[: 1 + classifier]
    other = method(lambda: encoder(expand=1.5))
    assert not fit(other, imported.weights, "public_state"), "the encoder alone"
    for name, x in made.state_dict().items():
        assert torch.equal(other.encoder.state_dict()[name], x), name
