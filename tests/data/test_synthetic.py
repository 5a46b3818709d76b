import functools
import subprocess
import sys
import threading

import numpy as np
import pytest

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


def test_synthetic_splits_are_those_of_ntu(part):
    subject, camera, setup = (part.index[name] for name in ("subject", "camera", "setup"))
    rules = {"cross-subject": subject % 2 == 1, "cross-view": camera >= 2, "cross-setup": setup % 2 == 0}
    for name, trains in rules.items():
        split = part.split(name)
        np.testing.assert_array_equal(split.train, np.flatnonzero(trains))
        np.testing.assert_array_equal(split.test, np.flatnonzero(~trains))
        assert set(part.labels[split.train]) == set(part.labels[split.test]) == set(range(32))
    assert part.split().name == "cross-view"


def test_clips_are_reproducible_and_independent_of_other_clips(tmp_path):
    whole = small(tmp_path / "whole")
    again = small(tmp_path / "again")
    assert whole.fingerprint == again.fingerprint
    turned = small(tmp_path / "turned", subjects=(2, 1), labels=(31, 29), repetitions=1)
    for i in range(len(turned)):
        key = {name: turned.index[name][i] for name in ("label", "subject", "camera", "trial")}
        (twin,) = np.flatnonzero(np.all([whole.index[name] == value for name, value in key.items()], axis=0))
        np.testing.assert_array_equal(turned.clip(i), whole.clip(twin))


def test_the_dataset_is_still_version_1(tmp_path):
    """If this fails, NAME must change with it: results on other clips would carry the same name."""
    made = small(tmp_path / "made")
    assert synthetic.NAME == "synthetic-v1"
    assert made.meta.frames_sha256 == "14840b4a4f19069e268301b8776e057e127d2ff9010f7120224f3f2ab322cd6d"


def test_two_processes_make_the_built_in_dataset_once(tmp_path, monkeypatch):
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
