import torch
from torch import nn

from skelbench.models.two_branch import PostNormLayer, sequences, sine_positions

T, J, D = 6, 25, 8


def test_each_sequence_has_every_coordinate_in_its_place():
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


def test_sines_and_cosines_alternate():
    table = sine_positions(5, 6)
    for place in range(5):
        for pair in range(3):
            angle = torch.tensor(place * 10000.0 ** (-2 * pair / 6))
            expected = torch.stack([angle.sin(), angle.cos()])
            assert torch.allclose(table[place, 2 * pair : 2 * pair + 2], expected, atol=1e-6)
