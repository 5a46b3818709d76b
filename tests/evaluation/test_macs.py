import warnings

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.cost.handles import matrix_product_handles
from skelbench.evaluation.cost.macs import count_encoder
from skelbench.models.encoder import Encoded, Encoder
from skelbench.views.skeleton.grid import Grid


class Topo:
    """Stands for a topology where only the number of joints matters."""

    def __init__(self, joints: int) -> None:
        self.num_joints = joints


class PlainViT(Encoder):
    """Linear patches, pre-norm blocks, optional class token; attention fused or written as two products."""

    def __init__(self, grid, width=32, depth=2, heads=4, cls=False, fused=True, honest=True):
        super().__init__(None, None, grid)
        self.width = self.features = width
        self.heads, self.fused, self.honest = heads, fused, honest
        self.embed = nn.Linear(3 * grid.patch, width)
        self.cls = nn.Parameter(torch.zeros(1, 1, width)) if cls else None
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(depth))
        self.proj = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(depth)
        )

    def attend(self, q, k, v):
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v)
        return (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1) @ v

    def forward(self, view, mask_RN=None, keep_RK=None):
        x = view.x_RTJC
        R, T, J, C = x.shape
        patch = self.grid.patch
        x = x.reshape(R, T // patch, patch, J, C).transpose(2, 3).reshape(R, -1, patch * C)
        x = self.embed(x)
        if keep_RK is not None:
            x = x.gather(1, keep_RK[..., None].expand(-1, -1, x.shape[-1]))
        if self.cls is not None:
            x = torch.cat([self.cls.expand(R, -1, -1), x], 1)
        for i, (qkv, proj, mlp) in enumerate(zip(self.qkv, self.proj, self.mlp, strict=True)):
            q, k, v = qkv(self.norms[2 * i](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            x = x + proj(self.attend(q, k, v).transpose(1, 2).flatten(2))
            x = x + mlp(self.norms[2 * i + 1](x))
        return Encoded(tokens_RND=x, pooled_RD=x.mean(1))

    def closed_form_macs(self, grid, visible=None):
        D, depth = self.width, len(self.qkv)
        N = (grid.tokens if visible is None else visible) + (self.cls is not None)
        parts = {
            "embed": grid.tokens * grid.patch * 3 * D,
            "attention": depth * (4 * D * D * N + 2 * D * N * N),
            "mlp": depth * 8 * D * D * N,
        }
        return parts if self.honest else {**parts, "mlp": 0}


GRID = Grid(frames=16, patch=4, joints=5)
TOPOLOGY = Topo(5)


def handled(function, *inputs):
    """MACs by our handles of a function of tensors, and what they left out."""

    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            if isinstance(function, nn.Module):
                self.inner = function

        def forward(self, *args):
            return function(*args)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from fvcore.nn import FlopCountAnalysis
    analysis = FlopCountAnalysis(Module(), inputs).clear_op_handles().set_op_handle(**matrix_product_handles())
    analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).tracer_warnings("none")
    return analysis.total(), analysis.unsupported_ops()


@settings(max_examples=15)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 6), st.integers(1, 6), st.integers(1, 5), st.integers(1, 5))
def test_attention_handle_equals_the_two_products(batch, heads, queries, keys, width, value_width):
    q, k = torch.rand(batch, heads, queries, width), torch.rand(batch, heads, keys, width)
    v = torch.rand(batch, heads, keys, value_width)
    fused, _ = handled(F.scaled_dot_product_attention, q, k, v)
    plain, _ = handled(lambda q, k, v: (q @ k.transpose(-2, -1)).softmax(-1) @ v, q, k, v)
    assert fused == plain == batch * heads * queries * keys * (width + value_width)


@pytest.mark.parametrize("kind,gates", [(nn.GRU, 3), (nn.LSTM, 4), (nn.RNN, 1)])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("packed", [False, True])
def test_recurrent_handle_equals_the_hand_formula(kind, gates, directions, packed):
    inputs, hidden, layers = 6, 5, 3
    net = kind(inputs, hidden, layers, batch_first=True, bidirectional=directions == 2)
    x, steps = torch.rand(2, 7, inputs), 2 * 7
    function = net
    if packed:
        steps = 7 + 4

        class Packed(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = net

            def forward(self, x):
                return self.net(nn.utils.rnn.pack_padded_sequence(x, torch.tensor([7, 4]), batch_first=True))[0].data

        function = Packed()
    per_step = 0
    for layer in range(layers):
        width = inputs if layer == 0 else directions * hidden
        per_step += directions * gates * hidden * (width + hidden)
    assert handled(function, x)[0] == steps * per_step


@pytest.mark.parametrize(
    "function,shapes,macs",
    [
        (torch.matmul, [(4, 4), (2, 3, 4, 5)], 2 * 3 * 4 * 5 * 4),  # broadcast on the left
        (torch.matmul, [(2, 3, 4), (4,)], 2 * 3 * 4),
        (torch.addmm, [(3, 5), (3, 4), (4, 5)], 3 * 4 * 5),
        (torch.baddbmm, [(2, 3, 5), (2, 3, 4), (2, 4, 5)], 2 * 3 * 4 * 5),
        (lambda a, b: torch.einsum("rtjc,jk->rtkc", a, b), [(2, 3, 4, 5), (4, 6)], 2 * 3 * 4 * 5 * 6),
        (nn.Conv2d(3, 8, (4, 1), stride=(4, 1)), [(2, 3, 16, 5)], 2 * 4 * 5 * 8 * 12),
    ],
)
def test_products(function, shapes, macs):
    assert handled(function, *(torch.rand(shape) for shape in shapes))[0] == macs


@pytest.mark.parametrize("cls", [False, True])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("visible", [None, 7])
def test_three_counters_agree_exactly_on_a_vit(cls, fused, visible):
    encoder = PlainViT(GRID, cls=cls, fused=fused)
    count = count_encoder(encoder, GRID, TOPOLOGY, visible=visible)
    assert count.macs == count.fvcore == count.torch_flop_counter == count.closed_form == sum(count.by_part.values())
    assert count.tokens == (20 if visible is None else visible)
    assert count.flops(2) == 4 * count.macs
    assert count.uncounted_ops["layer_norm"] == 4 and "linear" not in count.uncounted_ops
    assert set(count.versions) == {"fvcore", "torch"} and "2 x MACs" in count.convention


def test_a_wrong_closed_form_is_rejected_with_the_numbers():
    with pytest.raises(SkelbenchError, match=r"disagree by .* PlainViT .*closed form.*layer_norm x4"):
        count_encoder(PlainViT(GRID, honest=False), GRID, TOPOLOGY)


class Recurrent(Encoder):
    """GRU over frames; no closed form."""

    def __init__(self, layers=2, kind=nn.GRU):
        super().__init__(None, None, GRID)
        self.width, self.features = 8, 4
        self.rnn = kind(15, 8, layers, batch_first=True)
        self.readout = nn.Linear(8, 4)

    def forward(self, view, mask_RN=None, keep_RK=None):
        tokens, _ = self.rnn(view.x_RTJC.flatten(2))
        return Encoded(tokens_RND=tokens, pooled_RD=self.readout(tokens[:, -1]))


class Convolution(Encoder):
    """Over frames, padded by name."""

    def __init__(self, padding, groups):
        super().__init__(None, None, GRID)
        self.width = self.features = 8
        self.conv = nn.Conv1d(15, 8, 3, padding=padding, dilation=2)
        self.out = nn.Conv1d(8, 8, 3, padding="same", groups=groups)

    def forward(self, view, mask_RN=None, keep_RK=None):
        y_RDT = self.out(self.conv(view.x_RTJC.flatten(2).transpose(1, 2)))
        return Encoded(tokens_RND=y_RDT.transpose(1, 2), pooled_RD=y_RDT.mean(2))


@pytest.mark.parametrize("padding,shorter", [("same", 0), ("valid", 4)])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_with_named_padding_is_counted(padding, shorter, groups):
    count = count_encoder(Convolution(padding, groups), GRID, TOPOLOGY)
    assert count.macs == (GRID.frames - shorter) * 3 * (15 * 8 + 8 * 8 // groups)


@pytest.mark.parametrize("kind,gates", [(nn.GRU, 3), (nn.LSTM, 4)])
def test_recurrent_encoder_without_closed_form(kind, gates):
    count = count_encoder(Recurrent(kind=kind), GRID, TOPOLOGY)
    rnn = 16 * gates * 8 * ((15 + 8) + (8 + 8))
    assert count.closed_form is None
    assert count.by_part == {"rnn": rnn, "readout": 32}
    assert count.macs == count.torch_flop_counter == rnn + 32
