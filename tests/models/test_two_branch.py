import pytest
import torch
from torch import nn

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.cost.macs import count_encoder
from skelbench.models.encoder import side_by_side
from skelbench.models.two_branch import (
    Branches,
    Embedding,
    PostNormLayer,
    TwoBranchEncoder,
    embedding_macs,
    post_norm_macs,
    sequences,
    sine_positions,
)
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

T, J, D = 6, 25, 8
GRID = Grid(T, 2, J)


class Plain(TwoBranchEncoder):
    def __init__(self, bodies=2):
        super().__init__(None, NTU25, GRID, D, bodies)
        self.embed = Embedding(bodies, GRID, D)
        self.layer = PostNormLayer(D, 2, 2 * D)

    def branches(self, x_BMTJC):
        return Branches(*map(self.layer, self.embed(x_BMTJC)))

    def closed_form_macs(self, grid, visible=None):
        layers = (post_norm_macs(tokens, D, 2 * D) for tokens in (grid.frames, self.bodies * grid.joints))
        return {"embed": embedding_macs(self.bodies, grid, D), "layers": sum(layers)}


def test_each_sequence_holds_every_coordinate_in_its_place():
    x_BMTJC = torch.randn(2, 2, T, J, 3)
    time, space = sequences(x_BMTJC)
    for b, m, t, j, c in [(0, 0, 0, 0, 0), (1, 1, 5, 24, 2), (0, 1, 3, 7, 1)]:
        assert time[b, t, (m * J + j) * 3 + c] == x_BMTJC[b, m, t, j, c] == space[b, m * J + j, t * 3 + c]
    assert time.shape == (2, T, 2 * J * 3) and space.shape == (2, 2 * J, T * 3)


def test_the_layer_is_pytorchs_post_norm_layer():
    ours, theirs = PostNormLayer(D, 2, 12), nn.TransformerEncoderLayer(D, 2, 12, dropout=0.0, batch_first=True)
    for mine, other in (
        (ours.attn.qkv, (theirs.self_attn.in_proj_weight, theirs.self_attn.in_proj_bias)),
        (ours.attn.proj, theirs.self_attn.out_proj.parameters()),
        (ours.mlp[0], theirs.linear1.parameters()),
        (ours.mlp[3], theirs.linear2.parameters()),
        (ours.norm1, theirs.norm1.parameters()),
        (ours.norm2, theirs.norm2.parameters()),
    ):
        for p, q in zip(mine.parameters(), other):
            q.data = torch.randn_like(q)
            p.data = q.data.clone()
    x_BnD = torch.randn(3, 5, D)
    assert torch.allclose(ours(x_BnD), theirs(x_BnD), atol=1e-5)


def test_sines_and_cosines_take_turns():
    table = sine_positions(5, 6)
    for place in range(5):
        for pair in range(3):
            angle = torch.tensor(place * 10000.0 ** (-2 * pair / 6))
            expected = torch.stack([angle.sin(), angle.cos()])
            assert torch.allclose(table[place, 2 * pair : 2 * pair + 2], expected, atol=1e-6)


def test_a_clip_is_one_row_and_clips_do_not_see_each_other():
    encoder, x_BMTJC = Plain().eval(), torch.randn(3, 2, T, J, 3)
    valid_BM = torch.tensor([[True, True], [True, False], [True, True]])
    encoded = encoder(View.of(x_BMTJC, valid_BM))
    assert encoded.per_clip and encoded.pooled_RD.shape == (3, encoder.features) == (3, 2 * D)
    zeroed = x_BMTJC * valid_BM[:, :, None, None, None]
    alone = torch.cat([encoder(View.of(clip[None])).pooled_RD for clip in zeroed])
    assert torch.allclose(encoded.pooled_RD, alone, atol=1e-5)
    time_BD, space_BD = encoded.pooled_RD.chunk(2, 1)
    assert torch.equal(time_BD, encoded.tokens_RND[:, :T].amax(1)) and torch.equal(time_BD, encoded.levels["time"])
    assert torch.equal(space_BD, encoded.tokens_RND[:, T:].amax(1)) and torch.equal(space_BD, encoded.levels["space"])


def test_a_clip_of_one_slot_is_one_with_an_empty_second():
    encoder, x_BMTJC = Plain().eval(), torch.randn(2, 1, T, J, 3)
    padded = torch.cat([x_BMTJC, torch.zeros_like(x_BMTJC)], 1)
    assert torch.equal(encoder(View.of(x_BMTJC)).pooled_RD, encoder(View.of(padded)).pooled_RD)


@pytest.mark.parametrize(
    "shape,word",
    [((1, 3, T, J, 3), "encoder.bodies=3"), ((1, 2, T - 2, J, 3), "not of 4 and 25"), ((1, 2, T, J - 1, 3), "24")],
)
def test_what_does_not_fit_is_refused(shape, word):
    with pytest.raises(SkelbenchError, match=word):
        Plain()(View.of(torch.zeros(shape)))


def test_slots_beyond_the_data_sets_are_zeros():
    x_BMTJC = torch.randn(2, 1, T, J, 3)
    assert torch.equal(side_by_side(View.of(x_BMTJC), 1), x_BMTJC)
    assert torch.equal(side_by_side(View.of(x_BMTJC), 3)[:, 1:], torch.zeros(2, 2, T, J, 3))


def test_macs_are_those_of_a_clip():
    count = count_encoder(Plain(), GRID, NTU25)
    assert count.closed_form == count.fvcore == count.torch_flop_counter
    assert count.flops(1) == count.flops(2) == 2 * count.macs and count.flops(3) == 4 * count.macs
