"""Content of a picture: frames, hidden joints, camera; and a method's views of a clip."""

import numpy as np
import pytest
from made.people import person
from small import TINY, write_small_store

from skelbench.core.errors import SkelbenchError
from skelbench.data.store.clip_store import ClipStore
from skelbench.reporting.skeletons.scene import Panel, Scene, clip_scene
from skelbench.reporting.skeletons.views import view_scene
from skelbench.views.skeleton.topology import NTU25, topologies


def scene_of(x_MTJC, topology=NTU25, **changed):
    return Scene("t", topology, (Panel("p", x_MTJC),), 30.0, **changed)


@pytest.mark.parametrize("topology", topologies().values(), ids=topologies())
@pytest.mark.parametrize("turn_deg", [0, 250])
def test_one_body_is_seen_from_the_front_in_any_direction(topology, turn_deg):
    a = np.deg2rad(turn_deg)
    around = np.array([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
    x_MTJC = person(topology, label=20, frames=20) @ around.T
    scene = scene_of(x_MTJC, topology)
    left, right = (x_MTJC[0, :, topology.joints.index(f"{side} hip")].mean(0) for side in ("left", "right"))
    assert (scene.camera[0] @ (left - right)) / np.linalg.norm(left - right) > 0.75, "its left is on the right"


def test_a_clip_without_bodies_is_rejected(tmp_path):
    write_small_store(tmp_path)
    store = ClipStore.open(tmp_path / "small")
    for value in (1.5, np.nan):
        store.frames_FJ[:] = value
        with pytest.raises(SkelbenchError, match="clip 3 .* cannot be drawn, it shows nobody or is damaged"):
            clip_scene(store, 3)


# ------------------------------------------------------------------------------------------------ views
@pytest.fixture
def made(host, data_root):
    """``made(method, dataset)``: a run of the paper's size of views."""
    from skelbench.pipeline.request import Request
    from skelbench.pipeline.resolve import resolve

    def made(method, dataset="small", **sets):
        request = Request(method=method, dataset=dataset, tokens=8, preset="small", sets=TINY | sets)
        return resolve(request, host, data_root, "cpu")

    return made


def test_a_scene_shows_the_views_of_the_training(made, host, tmp_path, clip=3):
    from skelbench.records.run_dir import RunDir
    from skelbench.training.build import build_method
    from skelbench.training.loop import Trainer

    resolved = made("slim")
    store, spec = resolved.store, resolved.spec
    scene = view_scene(store, clip, spec, step=5)
    trainer = Trainer(spec, build_method(spec, host, store.topology), store, RunDir(tmp_path), "cpu")
    trainer.order = lambda step: np.array([clip])
    views = trainer.views(5)
    panels = iter(scene.panels[1:])
    assert len(scene.panels) == 1 + sum(view.count for view in views.values()) == 9
    for view in views.values():
        for x, mask in zip(view.chunk(view.x_RTJC), view.chunk(view.mask_RN)):
            panel = next(panels)
            assert np.array_equal(panel.x_MTJC, x.numpy())
            for frame in range(panel.frames):
                token = mask.unflatten(1, (-1, 25))[:, frame // 8]
                assert np.array_equal(panel.hidden(frame), token.numpy())
    assert np.array_equal(scene.panels[0].x_MTJC, store.clip(clip))
    assert not np.array_equal(view_scene(store, clip, spec, step=6).panels[1].x_MTJC, scene.panels[1].x_MTJC)


def test_flat_poses_are_seen_flat_with_their_confidence(made, data_root):
    write_small_store(data_root, "flat", topology=topologies()["coco17"], flat=True)
    resolved = made("slim", "flat")
    resolved.store.check(np.array([1]))  # before the map, unlike the file, is changed
    resolved.store.confidence_FJ[:, [3, 4]] = 0
    scene = view_scene(resolved.store, 1, resolved.spec)
    assert scene.flat and all(not panel.x_MTJC[..., 2].any() for panel in scene.panels)
    for panel in scene.panels:
        assert not panel.there_MTJ[:, 0, [3, 4]].any() and panel.there_MTJ[:, 0, :3].any()
