"""GFP: VICReg's terms, the pyramid of windows and the loss against slow references."""

import pytest
import torch
from literal_vit import bare_blocks, layer_norm, linear, randomized
from skelbench_plugins.gfp.pyramid import PyramidDecoder, TargetGenerator
from skelbench_plugins.gfp.vicreg import spread
from torch.utils.flop_counter import FlopCounterMode

from skelbench.views.masks import visible_tokens
from skelbench.views.motion import motion_masks
from skelbench.views.skeleton.grid import Grid


def slow(rows, gamma, eps):
    """VICReg's two terms, entry by entry."""
    n, channels = len(rows), len(rows[0])
    mean = [sum(row[c] for row in rows) / n for c in range(channels)]
    cov = [
        [sum((row[a] - mean[a]) * (row[b] - mean[b]) for row in rows) / (n - 1) for b in range(channels)]
        for a in range(channels)
    ]
    variance = sum(max(0.0, gamma - (cov[c][c] + eps) ** 0.5) for c in range(channels)) / channels
    covariance = sum(cov[a][b] ** 2 for a in range(channels) for b in range(channels) if a != b) / channels
    return variance, covariance, sum(cov[c][c] ** 0.5 for c in range(channels)) / channels


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_both_terms_by_loops(scale):
    z = scale * torch.randn(9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 5
    out = spread(z, gamma=1.2, eps=1e-3)
    assert [float(value) for value in out] == pytest.approx(slow(z.tolist(), 1.2, 1e-3))


GRID = Grid(24, 4, 5)
COUNTS = (3, 2, 1)


@pytest.fixture
def decoder():
    torch.manual_seed(0)
    return randomized(PyramidDecoder(dim_in=12, dim=16, depth=2, heads=2, counts=COUNTS, grid=GRID, out_dim=7))


@pytest.mark.parametrize("frames, patch", [(120, 4), (120, 8), (64, 8)])
def test_every_budget_has_251_outputs(frames, patch):
    grid = Grid(frames, patch, 25)
    decoder = PyramidDecoder(8, 8, 1, 2, counts=(6, 3, 1), grid=grid, out_dim=4)
    targets = TargetGenerator((6, 3, 1), grid, 8, 8, 4)
    keep_RK = torch.arange(10).expand(2, -1)
    for outputs in (decoder(torch.randn(2, 10, 8), keep_RK), targets(torch.randn(2, frames, 25, 3))):
        assert [tuple(z.shape) for z in outputs] == [(2, m, 4) for m in (150, 75, 25, 1)]


def test_decoder_is_the_cascade_written_out(decoder):
    keep_RK = torch.tensor([[1, 6, 14], [0, 2, 29]])
    tokens_RKD = torch.randn(2, 3, 12)
    out = decoder(tokens_RKD, keep_RK)
    state = {name: value.detach().double() for name, value in decoder.state_dict().items()}
    for row in range(2):
        z = {}
        for n in range(GRID.tokens):
            content = state["mask_token"][0]
            if n in keep_RK[row]:
                content = linear(state, "embed", tokens_RKD[row, keep_RK[row].tolist().index(n)].double())
            z[n // 5, n % 5] = content + state["time_embed"][n // 5] + state["joint_embed"][n % 5]
        # 6 tokens in time -> 3 -> 2 -> 1 windows; the second step's windows overlap by one
        for level, members in enumerate([[(0, 1), (2, 3), (4, 5)], [(0, 1), (1, 2)], [(0, 1)]]):
            pooled = torch.stack([sum(z[t, j] for t in group) / len(group) for group in members for j in range(5)])
            blocks = {name.replace(f"blocks.{level}.", "blocks.", 1): value for name, value in state.items()}
            config = decoder.config.model_copy(update={"depth": 2 if level == 0 else 1})
            after = bare_blocks(blocks, config, pooled, None)
            expected = linear(state, f"predict.{level}", layer_norm(state, f"norms.{level}", after))
            torch.testing.assert_close(out[level][row].double(), expected, rtol=1e-4, atol=1e-4)
            z = {(m // 5, m % 5): value for m, value in enumerate(after)}
        whole = linear(state, "predict.3", layer_norm(state, "norms.3", sum(z[0, j] for j in range(5)) / 5))
        torch.testing.assert_close(out[3][row, 0].double(), whole, rtol=1e-4, atol=1e-4)


def test_targets_are_mlps_of_joints_over_windows():
    torch.manual_seed(0)
    targets = randomized(TargetGenerator(COUNTS, Grid(8, 4, 5), hidden=6, hidden_global=9, out_dim=4))
    motion = torch.randn(2, 8, 5, 3)
    out = targets(motion)
    state = {name: value.detach().double() for name, value in targets.state_dict().items()}

    def mlp(name, values):
        for layer in (0, 2, 4):
            values = linear(state, f"{name}.{layer}", values)
            if layer < 4:
                values = values * 0.5 * (1 + torch.erf(values / 2**0.5))
        return values

    frames = [[(0, 4), (4, 8)], [(0, 4), (4, 8)], [(0, 8)]]  # a grid of two tokens in time has at most two windows
    for row in range(2):
        for level, members in enumerate(frames):
            for m, (begin, end) in enumerate(members):
                for j in range(5):
                    values = [motion[row, t, j, c].item() for t in range(begin, end) for c in range(3)]
                    expected = mlp(f"local.{level}", torch.tensor(values, dtype=torch.float64))
                    torch.testing.assert_close(out[level][row, m * 5 + j].double(), expected, rtol=1e-4, atol=1e-4)
        whole = mlp("whole", motion[row].flatten().double())
        torch.testing.assert_close(out[-1][row, 0].double(), whole, rtol=1e-4, atol=1e-4)


def test_published_cost_of_the_decoder_and_the_target_generator():
    """1.57 and 0.64 GFLOPs for two bodies are printed, with element-wise operations; these are matrix products."""
    grid = Grid(120, 4, 25)
    with torch.device("meta"):
        decoder = PyramidDecoder(256, 256, 2, 8, counts=(6, 3, 1), grid=grid, out_dim=512)
        targets = TargetGenerator((6, 3, 1), grid, 512, 2048, 512)
        motion = torch.empty(1, 120, 25, 3)
        tokens, keep = torch.empty(1, 74, 256), torch.empty(1, 74, dtype=torch.int64)
    for module, inputs, giga in ((decoder, (tokens, keep), 1.52), (targets, (motion,), 0.67)):
        with FlopCounterMode(display=False) as counter:
            module(*inputs)
        assert 2 * counter.get_total_flops() / 1e9 == pytest.approx(giga, abs=0.01)


def mask(training, view, tau=0.8):
    """mask_RN and keep_RK of step 0."""
    u_RN = training.step_info(0).uniform(view.keys_R, 100)
    return motion_masks(view.x_RTJC, u_RN, 8, visible_tokens(100, 0.9, "int"), tau)


@pytest.mark.parametrize("channels", ["mean", "sum"])
@pytest.mark.parametrize("stride", [None, 1])
def test_loss_is_the_formula_output_by_output(made, channels, stride):
    training = made(prediction_channels=channels, motion_stride=stride, gamma=0.5)
    method, view = training.method, training.views(0)["clip"]
    _, keep_RK = mask(training, view)
    with torch.no_grad():
        out = method({"clip": view}, training.step_info(0))
        predicted = method.decoder(method.encoder(view, keep_RK=keep_RK).tokens_RND, keep_RK)
        motion_RTJC = torch.zeros_like(view.x_RTJC)
        for t in range(32 - (stride or 8)):
            motion_RTJC[:, t] = view.x_RTJC[:, t + (stride or 8)] - view.x_RTJC[:, t]
        targets = method.targets(motion_RTJC)
    terms = []
    for level_p, level_t in zip(predicted, targets):
        for p, t in zip(level_p.flatten(0, 1).tolist(), level_t.flatten(0, 1).tolist()):
            squared = sum((a - b) ** 2 for a, b in zip(p, t))
            terms.append(squared / 16 if channels == "mean" else squared)
    prediction = sum(terms) / len(terms)
    assert len(terms) == view.rows * (4 * 25 + 3 * 25 + 25 + 1)  # four temporal tokens have at most four windows
    spreads = [spread(t.flatten(0, 1), 0.5) for t in targets]
    assert out["prediction"].item() == pytest.approx(prediction, rel=1e-4)
    loss = 5 * prediction + sum(5 * float(s.covariance) + float(s.variance) for s in spreads)
    assert out["loss"].item() == pytest.approx(loss, rel=1e-4)
    assert out["target_std"].item() == pytest.approx(sum(float(s.std) for s in spreads) / 4)
