import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made.clips import open_writer, random_clips, write_store

from skelbench.core.errors import SkelbenchError
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.source import ClipSource


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return ClipStore.open(write_store(tmp_path_factory.mktemp("root") / "made", random_clips(9)))


def rows_of(batch, b):
    """Clip b of a batch as [M, T, J, 3], element by element from the definition in ClipBatch."""
    length, bodies, offset = (int(v[b]) for v in (batch.length, batch.bodies, batch.offset))
    x = np.zeros((bodies, length, batch.frames_FJ.shape[1], 3), dtype=np.float32)
    for m, t, c in np.ndindex(bodies, length, 3):
        x[m, t, :, c] = batch.frames_FJ[offset + (m * 3 + c) * length + t].cpu().numpy()
    return x


@settings(max_examples=30, deadline=None)
@given(ids=st.lists(st.integers(0, 8), min_size=1, max_size=12))
def test_resident_and_streamed_batches_hold_the_same_bits(shared, ids):
    ids = np.array(ids)
    resident, streamed = ClipSource(shared, resident=True), ClipSource(shared, resident=False)
    for batch in (resident.gather(ids), streamed.gather(ids)):
        assert batch.max_bodies == 2
        np.testing.assert_array_equal(batch.ids, ids)
        for b, i in enumerate(ids):
            np.testing.assert_array_equal(rows_of(batch, b), shared.clip(i))
    assert len(streamed.gather(ids).frames_FJ) == sum(3 * shared.lengths[i] * shared.bodies[i] for i in ids)


@pytest.mark.parametrize("resident", [True, False])
def test_a_changed_bit_stops_its_batch(store, resident):
    data = bytearray((store.path / "frames.npy").read_bytes())
    data[-1] ^= 1
    (store.path / "frames.npy").write_bytes(data)
    source, last = ClipSource(ClipStore.open(store.path), resident=resident), len(store) - 1
    for ids in (np.arange(last), np.array([0, last])):
        if last not in ids:
            source.gather(ids)
            continue
        with pytest.raises(SkelbenchError, match=f"clip {last} is not what was written"):
            source.gather(ids)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("resident", [True, False, None])
def test_on_a_gpu(shared, resident):
    source = ClipSource(shared, "cuda", resident)
    assert source.resident or resident is False
    rng = np.random.default_rng(0)
    for _ in range(20):
        batch = source.gather(ids := rng.integers(0, 9, 6))
        assert batch.frames_FJ.is_cuda
        for b, i in enumerate(ids):
            np.testing.assert_array_equal(rows_of(batch, b), shared.clip(i))


@pytest.mark.parametrize("resident", [True, False])
def test_confidence_comes_with_the_clips(tmp_path, resident):
    clips, rng = random_clips(9), np.random.default_rng(1)
    sure = [rng.uniform(0, 1, x.shape[:3]).astype(np.float32) for x in clips]
    with open_writer(tmp_path / "sure") as writer:
        for i, (x, c) in enumerate(zip(clips, sure)):
            writer.add(x, i % 3, subject=i, camera=1 + i % 3, confidence_MTJ=c)
    source = ClipSource(ClipStore.open(tmp_path / "sure"), resident=resident)
    batch = source.gather(np.array([7, 2, 7]))
    for b, i in enumerate((7, 2, 7)):
        np.testing.assert_array_equal(rows_of(batch, b), source.store.clip(i))
        length, start = int(batch.length[b]), int(batch.offset[b]) // 3
        rows = batch.confidence_FJ[start : start + len(clips[i]) * length].numpy()
        np.testing.assert_array_equal(rows.reshape(sure[i].shape), sure[i])


@pytest.mark.parametrize("second_body", ["zero", "repeat"])
def test_a_second_body_that_is_stored_empty_is_absent(tmp_path, second_body):
    """The NTU pipeline makes room for a second body that merging may leave empty: nobody is there or repeated."""
    one, two, empty = random_clips(3)[0][:1], np.ones((2, 12, 25, 3), np.float32), np.ones((2, 12, 25, 3), np.float32)
    empty[1] = 0
    with open_writer(tmp_path / "made") as writer:
        for i, (x, flags) in enumerate(((one, False), (two, False), (empty, True))):
            writer.add(x, i, subject=i, camera=1 + i, empty_body=flags)
    batch = ClipSource(ClipStore.open(tmp_path / "made"), second_body=second_body).gather(np.arange(3))
    np.testing.assert_array_equal(batch.bodies, [1 + (second_body == "repeat"), 2, 1])
    np.testing.assert_array_equal(batch.stored, [1, 2, 2])
    assert batch.max_bodies == 2
