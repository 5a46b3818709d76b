import numpy as np
import pytest
import torch
from torch import nn

from skelbench.data.clips import ClipBatch
from skelbench.evaluate.features import extract
from skelbench.nn.encoder import Encoded
from skelbench.skeleton.view import View

CLIPS, M, T, J, D = 23, 3, 4, 5, 6


class FakeSource:
    """A store of equally long clips with 1 to M bodies, values drawn per clip."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.bodies = rng.integers(1, M + 1, CLIPS)
        self.clips = [rng.normal(size=(m, 3, T, J)).astype(np.float32) for m in self.bodies]
        self.announced, self.gathered = [], []

    def prefetch(self, ids):
        self.announced.append(list(ids))

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


@pytest.mark.parametrize("slots", ["valid", "all"])
@pytest.mark.parametrize("pooling", ["valid-mean", "valid-sum", "all-mean", "concat"])
def test_pooling_equals_the_loop_and_rows_follow_ids(pooling, slots):
    source, encoder = FakeSource(), FakeEncoder()
    assert len(set(source.bodies)) == M
    ids = np.random.default_rng(1).permutation(CLIPS)[:17]
    features = extract(encoder, source, ids, builder(slots), pooling, batch_size=5)
    assert features.dtype == np.float32 and features.shape == (17, M * D if pooling == "concat" else D)
    for row, clip in zip(features, ids):
        np.testing.assert_allclose(row, reference(source, encoder, clip, pooling, slots), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch_size", [1, 2, 7, 23, 100])
def test_batch_size_changes_nothing(batch_size):
    whole = extract(FakeEncoder(), FakeSource(), np.arange(CLIPS), builder(), batch_size=CLIPS)
    parts = extract(FakeEncoder(), FakeSource(), np.arange(CLIPS), builder(), batch_size=batch_size)
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)


def test_encoder_that_pools_bodies_itself():
    source, encoder = FakeSource(), FakeEncoder(per_clip=True)
    features = [extract(encoder, source, [4, 9], builder(), pooling) for pooling in ("valid-mean", "concat")]
    assert features[0].shape == (2, D) and np.array_equal(*features)


def test_encoder_keeps_its_mode_and_its_statistics():
    encoder = FakeEncoder().train()
    encoder.norm.eval()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    extract(encoder, FakeSource(), np.arange(8), builder())
    assert encoder.training and encoder.drop.training and not encoder.norm.training
    assert all(torch.equal(before[name], value) for name, value in encoder.state_dict().items())
    assert all(parameter.grad is None for parameter in encoder.parameters())


def test_encoder_gets_its_mode_back_after_a_failure():
    encoder = FakeEncoder().train()
    with pytest.raises(KeyError):
        extract(encoder, FakeSource(), np.arange(3), lambda batch, keyed: {})
    assert encoder.training


def test_bf16_is_close_and_comes_back_as_float32():
    exact = extract(FakeEncoder(), FakeSource(), np.arange(CLIPS), builder())
    rough = extract(FakeEncoder(), FakeSource(), np.arange(CLIPS), builder(), precision="bf16")
    assert rough.dtype == np.float32 and not np.array_equal(rough, exact)
    np.testing.assert_allclose(rough, exact, atol=0.05)


def test_the_next_batch_is_announced_and_progress_counts_clips():
    source, seen = FakeSource(), []
    extract(FakeEncoder(), source, np.arange(10), builder(), batch_size=4, progress=lambda *done: seen.append(done))
    assert source.announced == source.gathered[1:] == [[4, 5, 6, 7], [8, 9]]
    assert seen == [(4, 10), (8, 10), (10, 10)]


def test_more_than_one_view_per_clip_is_refused():
    def twice(batch, keyed):
        view = builder()(batch, keyed)["eval"]
        return {"eval": View(view.x_RTJC, view.rows_R, view.clips // 2, view.bodies, count=2)}

    with pytest.raises(ValueError, match="one view per clip"):
        extract(FakeEncoder(), FakeSource(), np.arange(4), twice)
