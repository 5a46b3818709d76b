"""A frozen encoder gives what probes see, whatever form clips come in."""

import numpy as np
import pytest
import torch
from small import write_small_store

import skelbench
from skelbench.core.errors import SkelbenchError
from skelbench.data.store.clip_store import ClipStore
from skelbench.pipeline.evaluate import eval_spec, feature_sets
from skelbench.views.skeleton.topology import COCO17


def seen_by_probes(session, run, **fields):
    """Test features as a protocol gets them, and the part of the data that they are of."""
    directory = run._directory
    (features,) = feature_sets(session, directory, eval_spec(session.host, directory, "knn", **fields)).values()
    return features.test_x, skelbench.dataset("small", part="test", data=session.data_root)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"train.bodies": "all-slots"},
        {"data.second_body": "repeat"},
        {"train.align": "first-frame", "train.center": "body"},
        {"method": "cmd", "native": True},
    ],
    ids=["shared", "all-slots", "second-body", "aligned", "per-clip"],
)
def test_features_equal_the_probe_features(trained, session, settings):
    run = trained(**settings)
    expected, part = seen_by_probes(session, run)
    encoder = run.encoder(device="cpu")
    assert np.array_equal(encoder.embed(part), expected) and expected.dtype == np.float32
    clips = [part[i][0].numpy() for i in range(len(part))]
    assert np.array_equal(encoder.embed(clips), expected)
    assert np.array_equal(encoder.embed(part.store, ids=part.ids), expected)
    assert np.allclose(encoder.embed(clips, batch_size=5), expected, atol=1e-5)
    clips_of_one_body = [clip for clip in clips if len(clip) == 1]
    flat = [clip[0] for clip in clips_of_one_body]
    assert np.array_equal(encoder.embed(flat), encoder.embed(clips_of_one_body))


def test_arrays_and_tensors_with_absent_bodies(trained):
    encoder = trained().encoder(device="cpu")
    x_BMTJC = np.random.default_rng(0).normal(size=(3, 2, 40, 25, 3)).astype(np.float32)
    x_BMTJC[1, 1] = x_BMTJC[2, 0, :5] = 0
    expected = encoder.embed([x_BMTJC[0], x_BMTJC[1, 0], x_BMTJC[2]])
    assert np.array_equal(encoder.embed(x_BMTJC), expected)
    assert np.array_equal(encoder.embed(torch.from_numpy(x_BMTJC)), expected)
    moved = x_BMTJC + (x_BMTJC != 0) * np.float32(3)
    centered = encoder.embed(moved, subtract_origin=True)
    assert np.allclose(centered, encoder.embed(x_BMTJC, subtract_origin=True), atol=1e-4)
    assert not np.allclose(encoder.embed(moved), expected, atol=1e-2)


def test_ids_refer_to_the_given_clips(trained, session):
    run = trained()
    encoder, part = run.encoder(device="cpu"), skelbench.dataset("small", part="test", data=session.data_root)
    every = encoder.embed(part)
    assert np.allclose(encoder.embed(part, ids=part.ids[[2, 0]]), every[[2, 0]], atol=1e-5)
    clips = [clip for clip, _ in (part[i] for i in range(3))]
    assert np.allclose(encoder.embed(clips, ids=[2, 0]), every[[2, 0]], atol=1e-5)
    assert np.allclose(encoder.embed(part, ids=part.labels == 1), every[part.labels == 1], atol=1e-5)
    for ids, said in (
        ([], "no clip was chosen"),
        ([0.7, 1.2], "clip 0.7 is none of the 12"),
        ([len(part.store)], "is none of the 12 that are given"),
    ):
        with pytest.raises(SkelbenchError, match=said):
            encoder.embed(part, ids=ids)


def test_a_batch_equals_its_clips_without_padding(trained, session):
    encoder = trained().encoder(device="cpu")
    part = skelbench.dataset("small", part="test", data=session.data_root)
    batch = part.collate([part[i] for i in range(len(part))])
    assert len(set(batch.frames.tolist())) > 1 and np.array_equal(encoder.embed(batch), encoder.embed(part))
    clips = [clip.requires_grad_() for clip, _ in (part[i] for i in range(3))]
    assert np.allclose(encoder.embed(clips), encoder.embed(part)[:3], atol=1e-5)


def test_inputs_of_the_exported_model(trained, session):
    encoder, part = trained().encoder(device="cpu"), skelbench.dataset("small", part="test", data=session.data_root)
    bodies = np.array([part[i][0].shape[0] for i in range(len(part))])
    x_BMTJC, present_BM = encoder.prepare(part)
    assert x_BMTJC.shape == (len(part), 2, 32, 25, 3) and np.array_equal(present_BM.sum(1), bodies)


@pytest.mark.parametrize(
    ("clips", "said"),
    [
        (np.zeros((2, 9, 17, 3)), "25 joints"),
        (np.zeros((9, 25, 3)), r"clip\[None\]"),
        ([], "no clip"),
        ([np.full((9, 25, 3), np.nan)], "clip 0 holds coordinates that are not finite"),
    ],
)
def test_unreadable_clips_are_errors(trained, clips, said):
    with pytest.raises(SkelbenchError, match=said):
        trained("untrained").encoder(device="cpu").embed(clips)


def test_load_encoder_finds_the_named_encoder(trained, session, tmp_path):
    run = trained()
    by_name = skelbench.load_encoder(run.name, device="cpu", results=session.results.root)
    by_path = skelbench.load_encoder(run.path, "0.6667", device="cpu")
    snapshot = skelbench.load_encoder(f"{run.name}@0.6667", device="cpu", results=session.results.root)
    x = np.random.default_rng(0).normal(size=(2, 30, 25, 3))
    assert np.array_equal(by_path.embed(x), snapshot.embed(x)) and not np.array_equal(
        by_name.embed(x), snapshot.embed(x)
    )
    assert np.allclose(run.encoder(stream="bone", device="cpu").embed(x), seen_as_bones(run, x), atol=1e-4)
    assert "vit of skeletonmae" in repr(by_name)
    other = ClipStore.open(write_small_store(tmp_path, "flat", topology=COCO17))
    with pytest.raises(SkelbenchError, match="skeleton coco17"):
        by_name.embed(other)
    with pytest.raises(SkelbenchError, match="neither the directory of a run nor an exported encoder"):
        skelbench.load_encoder(tmp_path)
    run._directory.update(outcome="interrupted")
    with pytest.raises(SkelbenchError, match="is not done but interrupted"):
        run.encoder()


def seen_as_bones(run, x):
    """Features of coordinates that are bones already, seen as joints."""
    from skelbench.views.skeleton.topology import NTU25

    return run.encoder(device="cpu").embed(x - x[:, :, list(NTU25.bones)])


def test_embedding_is_a_pipeline_step(trained, session):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    run = trained()
    train, test = (skelbench.dataset("small", part=part, data=session.data_root) for part in ("train", "test"))
    step = skelbench.SkeletonEmbedding(run, device="cpu", batch_size=64)
    assert clone(step).get_params() == step.get_params() and step.get_params()["batch_size"] == 64
    pipeline = make_pipeline(step, LogisticRegression()).fit(train, train.labels)
    assert pipeline.predict(test).shape == (len(test),)
    features = step.fit_transform(train)
    by_hand = LogisticRegression().fit(features, train.labels)
    assert np.array_equal(pipeline.predict(test), by_hand.predict(run.encoder(device="cpu").embed(test)))
    other = trained(seed=5)
    assert np.array_equal(step.set_params(run=other).transform(train), other.encoder(device="cpu").embed(train))


def test_datasets_are_map_style(session):
    from torch.utils.data import DataLoader

    train, test = (skelbench.dataset("small", part=part, data=session.data_root) for part in ("train", "test"))
    every = skelbench.dataset("small", part="all", data=session.data_root)
    assert (len(train), len(test), len(every)) == (12, 12, 24) and train.split == "half"
    assert train.classes == tuple("abcd") and train.store.topology.name == "ntu25" and set(train.subjects % 2) == {1}
    clip, label = train[-1]
    stored = train.store.clip(int(train.ids[-1]))
    assert np.array_equal(clip.numpy(), stored) and label == train.labels[-1] and len(list(train)) == len(train)
    batch = next(iter(DataLoader(every, batch_size=24, collate_fn=every.collate)))
    assert batch.clips.shape == (24, 2, 48, 25, 3) and batch.labels.tolist() == every.labels.tolist()
    assert batch.frames.tolist() == every.store.lengths.tolist() and set(batch.bodies.tolist()) == {1, 2}
    shortest = int(batch.frames.argmin())
    assert not batch.clips[shortest, :, batch.frames[shortest] :].any() and batch.clips[shortest, 0].any()
    with pytest.raises(SkelbenchError, match="did you mean 'half'"):
        skelbench.dataset("small", "haf", data=session.data_root)
