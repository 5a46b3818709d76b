import functools
import subprocess
import sys
import threading

import numpy as np
import pytest

from benchmarks.synthetic_baselines import nearest_neighbour, resized, settings
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.synthetic import dataset as synthetic
from skelbench.data.synthetic.actions import ACTIONS
from skelbench.views.skeleton.topology import NTU25

NAMES = [action.name for action in ACTIONS]
J = {name: i for i, name in enumerate(NTU25.joints)}


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """Eight subjects, every action, one repetition: 768 clips."""
    path = tmp_path_factory.mktemp("synthetic") / "part"
    return ClipStore.open(synthetic.generate(path, subjects=range(1, 9), repetitions=1))


def small(path, **changes):
    return ClipStore.open(synthetic.generate(path, **(dict(subjects=(1, 2), labels=(0, 29, 31)) | changes)))


def test_shape_of_the_data_set(part):
    assert len(ACTIONS) == len(set(NAMES)) == part.num_classes == 32
    assert [action.people for action in ACTIONS] == [1] * 28 + [2] * 4
    assert len(part) == 8 * 32 * 3
    np.testing.assert_array_equal(part.bodies, np.where(part.labels >= 28, 2, 1))
    assert part.lengths.min() >= 40 and part.lengths.max() <= 150 and len(set(part.lengths)) > 50
    assert set(part.index["camera"]) == {1, 2, 3}


def test_splits_are_those_of_ntu(part):
    subject, camera, setup = (part.index[name] for name in ("subject", "camera", "setup"))
    rules = {"cross-subject": subject % 2 == 1, "cross-view": camera >= 2, "cross-setup": setup % 2 == 0}
    for name, trains in rules.items():
        split = part.split(name)
        np.testing.assert_array_equal(split.train, np.flatnonzero(trains))
        np.testing.assert_array_equal(split.test, np.flatnonzero(~trains))
        assert set(part.labels[split.train]) == set(part.labels[split.test]) == set(range(32))
    assert part.split().name == "cross-view"


def test_clips_are_centred_and_origins_lie_before_the_camera(part):
    for i in range(0, len(part), 37):
        assert not part.clip(i)[0, 0, NTU25.center].any()
    x, y, z = part.index["origin"].T
    assert abs(x).max() < 1.2 and abs(y).max() < 1.5 and z.min() > 1.5 and z.max() < 5


def test_the_same_bits_every_time_and_whatever_else_is_made(tmp_path):
    whole = small(tmp_path / "whole")
    again = small(tmp_path / "again")
    assert whole.fingerprint == again.fingerprint
    turned = small(tmp_path / "turned", subjects=(2, 1), labels=(31, 29), repetitions=1)
    for i in range(len(turned)):
        key = {name: turned.index[name][i] for name in ("label", "subject", "camera", "trial")}
        (twin,) = np.flatnonzero(np.all([whole.index[name] == value for name, value in key.items()], axis=0))
        np.testing.assert_array_equal(turned.clip(i), whole.clip(twin))


def test_the_data_set_is_still_version_1(tmp_path):
    """If this fails, NAME must change with it: results on other clips would carry the same name."""
    made = small(tmp_path / "made")
    assert synthetic.NAME == "synthetic-v1"
    assert made.meta.frames_sha256 == "14840b4a4f19069e268301b8776e057e127d2ff9010f7120224f3f2ab322cd6d"


def test_people_have_their_own_proportions_and_keep_them(part):
    def thigh(i):
        x = part.clip(i)
        return np.median(np.linalg.norm(x[0, :, J["left knee"]] - x[0, :, J["left hip"]], axis=-1))

    one_person = part.labels < 28
    lengths = [[thigh(i) for i in np.flatnonzero(one_person & (part.index["subject"] == s))[::9]] for s in range(1, 9)]
    assert max(np.std(own) for own in lengths) < 0.01
    assert np.std([np.mean(own) for own in lengths]) > 0.025


def test_cameras_stand_70_degrees_apart(part):
    def heading(i):
        across = part.clip(i)[0, :, J["right hip"]] - part.clip(i)[0, :, J["left hip"]]
        return np.rad2deg(np.arctan2(-across[:, 2].mean(), across[:, 0].mean()))

    one_person = part.labels < 28
    for camera, expected in ((1, 70), (2, 0), (3, -70)):
        seen = [heading(i) for i in np.flatnonzero(one_person & (part.index["camera"] == camera))[::5]]
        assert abs(np.median(seen) - expected) < 8 and np.std(seen) < 15


def test_the_left_is_left_in_every_camera_and_up_is_up(part):
    for i in np.flatnonzero(part.labels < 28)[::11]:
        x = part.clip(i)[0, 0]
        right, up = x[J["right hip"]] - x[J["left hip"]], x[J["neck"]] - x[J["spine base"]]
        toes = np.mean([x[J[f"{s} foot"]] - x[J[f"{s} ankle"]] for s in ("left", "right")], axis=0)
        assert np.cross(right, up) @ toes < 0 and up[1] > 0


def test_order_and_direction_are_what_tells_pairs_apart():
    """Undoing posture and idling is not needed: these differences are larger than both."""
    for subject in (1, 2, 3):

        def take(name, subject=subject):
            return synthetic.perform(NAMES.index(name), subject, 1, 2)[0]

        for name, squat_first in (("arms up, then squat", False), ("squat, then arms up", True)):
            x = take(name)
            lowest, highest = x[:, J["spine base"], 1].argmin(), x[:, J["left wrist"], 1].argmax()
            assert (lowest < highest) == squat_first
        for name, sign in (("sit down", -1), ("stand up", 1)):
            height = take(name)[:, J["spine base"], 1]
            assert sign * (height[-5:].mean() - height[:5].mean()) > 0.2
        for name, sign in (("arm circles forward", 1), ("arm circles backward", -1)):
            x = take(name)
            arm = x[:, J["left elbow"]] - x[:, J["left shoulder"]]
            turned = np.unwrap(np.arctan2(-arm[:, 2], -arm[:, 1]))
            assert sign * (turned[-1] - turned[0]) > 3 * np.pi
        for side, other in (("left", "right"), ("right", "left")):
            x = take(f"wave {side} hand")
            assert x[:, J[f"{side} hand"], 1].max() > x[:, J[f"{other} hand"], 1].max() + 0.1


def test_a_new_view_is_what_defeats_raw_coordinates(part):
    """Full-size figures: python -m benchmarks.synthetic_baselines."""
    raw, turned = resized(part, heading=True), resized(part, heading=False)
    within, across = list(settings(part).values())[:2]
    accuracy = {
        (name, view): nearest_neighbour(x, part.labels, *ids)
        for name, x in (("raw", raw), ("turned", turned))
        for view, ids in (("within", within), ("across", across))
    }
    assert 0.6 < accuracy["raw", "within"] < 0.95
    assert accuracy["raw", "across"] < accuracy["raw", "within"] - 0.3
    assert accuracy["turned", "across"] > accuracy["raw", "across"] + 0.3


def test_the_built_in_set_is_made_once_even_by_two_at_a_time(tmp_path, monkeypatch):
    calls = []
    generate = functools.partial(synthetic.generate, subjects=(1, 2), labels=(0,))
    monkeypatch.setattr(synthetic, "generate", lambda path, **how: calls.append(path) or generate(path, **how))
    seen, stores = [], []

    def open_it():
        stores.append(synthetic.open_synthetic(tmp_path, progress=lambda done, total: seen.append((done, total))))

    threads = [threading.Thread(target=open_it) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    open_it()
    assert calls == [tmp_path / "synthetic-v1"]
    assert seen == [(3, 12), (6, 12), (9, 12), (12, 12)]
    assert len(stores) == 3 and len({store.fingerprint for store in stores}) == 1


def test_data_needs_no_torch():
    names = ("store.writer", "store.roots", "importers", "synthetic.dataset", "raw.ntu.prepare", "raw.pku.prepare")
    modules = ", ".join(f"skelbench.data.{name}" for name in names)
    subprocess.run([sys.executable, "-c", f"import sys, {modules}\nassert 'torch' not in sys.modules"], check=True)
