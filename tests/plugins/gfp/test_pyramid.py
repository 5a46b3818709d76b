import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from literal_vit import bare_blocks, layer_norm, linear, randomised
from skelbench_plugins.gfp.pyramid import PyramidDecoder, TargetGenerator, windows
from torch.utils.flop_counter import FlopCounterMode

from skelbench.views.skeleton.grid import Grid

GRID = Grid(24, 4, 5)
COUNTS = (3, 2, 1)


@given(length=st.integers(1, 60), share=st.floats(0, 1))
def test_windows_cover_everything_in_equal_least_pieces(length, share):
    count = 1 + int(share * (length - 1))
    found = windows(length, count)
    assert len(found) == count
    assert {w.stop - w.start for w in found} == {-(-length // count)}
    assert sorted({i for w in found for i in range(w.start, w.stop)}) == list(range(length))
    assert [w.start for w in found] == sorted(w.start for w in found)


@pytest.mark.parametrize(("frames", "patch"), [(120, 4), (120, 8), (64, 8)])
@pytest.mark.parametrize("count", [6, 3, 1])
def test_windows_of_tokens_lie_over_those_of_their_frames(frames, patch, count):
    """No other beginning would have more of the frames that the window's target is made of."""
    times = frames // patch

    def shared(start, size, seen):
        return min(patch * (start + size), seen.stop) - max(patch * start, seen.start)

    for tokens, seen in zip(windows(times, count), windows(frames, count), strict=True):
        size = tokens.stop - tokens.start
        most = max(shared(start, size, seen) for start in range(times - size + 1))
        assert shared(tokens.start, size, seen) == most


@pytest.fixture
def decoder():
    torch.manual_seed(0)
    return randomised(PyramidDecoder(dim_in=12, dim=16, depth=2, heads=2, counts=COUNTS, grid=GRID, out_dim=7))


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
        # 6 tokens in time -> 3 -> 2 -> 1 windows; those of the second step overlap by one
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
    targets = randomised(TargetGenerator(COUNTS, Grid(8, 4, 5), hidden=6, hidden_global=9, out_dim=4))
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
