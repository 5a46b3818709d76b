import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from literal_vit import feed_forward, layer_norm, linear, randomized
from skelbench_plugins.amr.query import QueryDecoder, tokens_per_query
from torch.utils.flop_counter import FlopCounterMode

from skelbench.views.skeleton.grid import Grid

GRID = Grid(12, 2, 5)  # six temporal tokens
KEEP_RK = torch.tensor([[1, 6, 14, 20], [0, 2, 9, 29]])


def build(memory_positions=True):
    torch.manual_seed(0)
    sizes = {"dim_in": 12, "dim": 16, "depth": 2, "heads": 2}
    return randomized(QueryDecoder(**sizes, ratio=4, grid=GRID, out_dim=7, memory_positions=memory_positions))


@given(ratio=st.integers(0, 40), times=st.integers(1, 40))
def test_tokens_per_query_is_the_largest_divisor_that_fits(ratio, times):
    assert tokens_per_query(ratio, times) == max([r for r in range(1, ratio + 1) if times % r == 0], default=1)


@pytest.mark.parametrize("memory_positions", [True, False])
def test_forward_written_out_query_by_query(memory_positions):
    decoder = build(memory_positions)
    tokens_RKZ = torch.randn(2, 4, 12)
    out = decoder(tokens_RKZ, KEEP_RK)
    assert decoder.per_query == 3 and out.shape == (2, 30, 7)
    state = {name: value.detach().double() for name, value in decoder.state_dict().items()}

    def cross(name, x_D, memory_KZ):
        """One query over the memory; two heads of width 8."""
        q, kv = linear(state, f"{name}.query", x_D), linear(state, f"{name}.key_value", memory_KZ)
        heads = []
        for h in (slice(0, 8), slice(8, 16)):
            key, value = kv[:, :16][:, h], kv[:, 16:][:, h]
            heads.append(torch.softmax(key @ q[h] / math.sqrt(8), 0) @ value)
        return linear(state, f"{name}.proj", torch.cat(heads))

    for row in range(2):
        memory = []
        for place, token in zip(KEEP_RK[row].tolist(), tokens_RKZ[row].double()):
            if memory_positions:
                token = token + state["memory_time"][place // 5] + state["memory_joint"][place % 5]
            memory.append(token)
        memory = torch.stack(memory)
        for segment in range(2):
            for joint in range(5):
                x = state["query"][segment * 5 + joint] + state["segment_embed"][segment] + state["joint_embed"][joint]
                for l in range(2):
                    x = x + cross(f"blocks.{l}.attn", layer_norm(state, f"blocks.{l}.norm1", x, 1e-5), memory)
                    normed = layer_norm(state, f"blocks.{l}.norm2", x, 1e-5)
                    x = x + feed_forward(state, f"blocks.{l}.mlp", normed, "gelu")
                values = linear(state, "predict", layer_norm(state, "norm", x, 1e-5))
                for r in range(3):
                    token = (segment * 3 + r) * 5 + joint
                    torch.testing.assert_close(
                        out[row, token].double(), values[7 * r : 7 * r + 7], rtol=1e-3, atol=1e-4
                    )


def test_five_layers_cost_what_the_paper_implies():
    """The paper's 3.8 GFLOPs for two bodies leave 1.93 for the decoder's layers."""
    with torch.device("meta"):
        decoder = QueryDecoder(256, 256, 5, 8, ratio=6, grid=Grid(120, 4, 25), out_dim=12)
        queries, visible = torch.empty(1, 125, 256), torch.empty(1, 74, 256)
    with FlopCounterMode(display=False) as counter:
        for block in decoder.blocks:
            block(queries, visible)
    assert 2 * counter.get_total_flops() / 1e9 == pytest.approx(1.93, abs=0.005)
