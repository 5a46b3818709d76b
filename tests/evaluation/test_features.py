import numpy as np
import pytest
import torch
from torch import nn

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation import features as features_module
from skelbench.evaluation.features import PreparedClips, read_out
from skelbench.evaluation.preprocessing import Preprocessing
from skelbench.models.encoder import Encoded
from skelbench.views.clips import ClipBatch
from skelbench.views.skeleton.grid import Grid
from skelbench.views.view import View

CLIPS, M, T, J, D = 23, 3, 4, 5, 6


class FakeSource:
    """A store of equally long clips with 1 to M bodies, values drawn per clip."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.bodies = rng.integers(1, M + 1, CLIPS)
        self.clips = [rng.normal(size=(m, 3, T, J)).astype(np.float32) for m in self.bodies]
        self.gathered = []

    def gather(self, ids):
        self.gathered.append(list(ids))
        rows = [self.clips[i].reshape(-1, J) for i in ids]
        offset = np.cumsum([0] + [len(r) for r in rows[:-1]])
        length = np.full(len(ids), T)
        return ClipBatch(np.asarray(ids), torch.from_numpy(np.concatenate(rows)), offset, length, self.bodies[ids], M)


def builder(slots="valid"):
    def build(batch: ClipBatch, keyed) -> dict[str, View]:
        x = torch.zeros(len(batch.ids), M, T, J, 3)
        valid = torch.zeros(len(batch.ids), M, dtype=torch.bool)
        for b, (start, bodies) in enumerate(zip(batch.offset, batch.bodies)):
            flat = batch.frames_FJ[start : start + bodies * 3 * T]
            x[b, :bodies] = flat.view(bodies, 3, T, J).permute(0, 2, 3, 1)
            valid[b, :bodies] = True
        return {"eval": View.of(x, valid if slots == "valid" else None)}

    return build


class TokenEncoder(nn.Module):
    """One token per frame and joint, and a readout that is none of their means."""

    def forward(self, view, mask_RN=None, keep_RK=None):
        tokens = view.x_RTJC.flatten(1, 2)
        return Encoded(tokens_RND=tokens, pooled_RD=tokens.amax(1))


class FakeEncoder(nn.Module):
    """Batch norm and dropout would make the result depend on mode and batch."""

    def __init__(self, per_clip=False):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.norm, self.drop = nn.Linear(T * J * 3, D), nn.BatchNorm1d(D), nn.Dropout(0.5)
        self.per_clip = per_clip

    def forward(self, view, mask_RN=None, keep_RK=None):
        x = view.x_BMTJC.sum(1) if self.per_clip else view.x_RTJC
        pooled = self.drop(self.norm(self.embed(x.flatten(1)))) + 1
        return Encoded(tokens_RND=pooled[:, None], pooled_RD=pooled, per_clip=self.per_clip)


def reference(source, encoder, clip, pooling, slots):
    """Body after body, clip after clip."""
    encoder.eval()
    rows = []
    for m in range(M):
        present = m < source.bodies[clip]
        body = source.clips[clip][m] if present else np.zeros((3, T, J), dtype=np.float32)
        with torch.no_grad():
            one = View.of(torch.from_numpy(body).permute(1, 2, 0)[None, None])
            rows.append(encoder(one).pooled_RD[0].numpy() if present or slots == "all" else None)
    present = [row for row in rows if row is not None]
    if pooling == "valid-mean":
        return sum(present) / len(present)
    if pooling == "valid-sum":
        return sum(present)
    if pooling == "all-mean":
        return sum(present) / M
    return np.concatenate([np.zeros(D) if row is None else row for row in rows])


GRID = Grid(T, 1, J)


def extract(encoder, source, ids, builder, **look):
    return PreparedClips(None, Preprocessing(**look), GRID, torch.device("cpu")).features(encoder, ids, builder, source)


@pytest.mark.parametrize("slots", ["valid", "all"])
@pytest.mark.parametrize("pooling", ["valid-mean", "valid-sum", "all-mean", "concat"])
def test_pooling_equals_the_loop_and_rows_follow_ids(pooling, slots, monkeypatch):
    monkeypatch.setattr(features_module, "BATCH", 5)
    source, encoder = FakeSource(), FakeEncoder()
    assert len(set(source.bodies)) == M
    ids = np.random.default_rng(1).permutation(CLIPS)[:17]
    features = extract(encoder, source, ids, builder(slots), bodies_pool=pooling)
    assert features.dtype == np.float32 and features.shape == (17, M * D if pooling == "concat" else D)
    for row, clip in zip(features, ids):
        np.testing.assert_allclose(row, reference(source, encoder, clip, pooling, slots), rtol=1e-5, atol=1e-6)


def test_encoder_keeps_its_mode_and_its_statistics():
    encoder = FakeEncoder().train()
    encoder.norm.eval()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    extract(encoder, FakeSource(), np.arange(8), builder())
    assert encoder.training and encoder.drop.training and not encoder.norm.training
    assert all(torch.equal(before[name], value) for name, value in encoder.state_dict().items())
    assert all(parameter.grad is None for parameter in encoder.parameters())


@pytest.mark.parametrize("readout", ["pooled", "mean", "joints"])
def test_readouts_equal_the_loop_over_tokens(readout):
    source = FakeSource()
    ids = [2, 7, 11]
    features = extract(TokenEncoder(), source, ids, builder("all"), bodies_pool="all-mean", readout=readout)
    for row, clip in zip(features, ids):
        bodies = np.zeros((M, T, J, 3), dtype=np.float32)
        for m in range(source.bodies[clip]):
            bodies[m] = source.clips[clip][m].transpose(1, 2, 0)
        if readout == "pooled":
            expected = [sum(body.max(axis=(0, 1))[c] for body in bodies) / M for c in range(3)]
        elif readout == "mean":
            expected = bodies.mean(axis=(0, 1, 2))
        else:
            expected = [bodies[:, :, j, c].mean() for j in range(J) for c in range(3)]
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-6)


def test_a_readout_by_joint_needs_all_tokens_of_every_body():
    few = Encoded(tokens_RND=torch.zeros(2, T * J - 1, D), pooled_RD=torch.zeros(2, D))
    with pytest.raises(SkelbenchError, match=f"all {T * J} tokens of every body, this one returns {T * J - 1} tokens"):
        read_out(few, "joints", GRID)
    merged = Encoded(tokens_RND=torch.zeros(2, T * J, D), pooled_RD=torch.zeros(2, D), per_clip=True)
    with pytest.raises(SkelbenchError, match="one row per clip; use a protocol that averages"):
        read_out(merged, "joints", GRID)
    with pytest.raises(SkelbenchError, match="mean or joints, not pooled"):
        read_out(few, "pooled", GRID, dropout=0.5)


def test_dropout_falls_on_single_numbers_before_they_are_averaged():
    encoded = Encoded(tokens_RND=torch.ones(400, T * J, D), pooled_RD=torch.zeros(400, D))
    rows = read_out(encoded, "joints", GRID, 0.3, torch.Generator().manual_seed(0)).pooled_RD
    kept = rows * 0.7 * T  # of the T numbers behind each feature
    assert torch.allclose(kept, kept.round(), atol=1e-4) and set(kept.round().unique().tolist()) == set(range(T + 1))
    assert rows.mean().item() == pytest.approx(1, abs=0.01)
    assert (kept / T).var().item() == pytest.approx(0.3 * 0.7 / T, rel=0.05)
