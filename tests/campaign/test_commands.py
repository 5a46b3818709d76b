"""A run that is killed, started several times at once, or runs out of disk space ends as an unbroken one."""

import errno
import json
import os
import shutil
import signal
import sys
from functools import partial

import numpy as np
import pytest
from made.files import mamp_arrays
from small import write_small_store

from skelbench.data.store.clip_store import ClipStore
from skelbench.records.store import ResultStore

from . import warm

RUN = (
    "run skeletonmae --dataset small --tokens 8 --preset quick --probe knn --device cpu --set epochs=6 --set "
    "batch_size=4 --set encoder.dim=16 --set encoder.depth=1 --set encoder.heads=2 --set method.decoder_dim=16 --set "
    "method.decoder_depth=1 --set method.decoder_heads=2"
).split()
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
"""Audit events of a change of files, next to opening for writing."""


def quicken() -> None:
    """Save the state after every step, and time a forward pass once."""
    import skelbench.evaluation.cost.report as report
    import skelbench.training.loop as loop

    report.latency = partial(report.latency, warmup=0, repeats=1)
    loop.CHECKPOINT_SECONDS = 0.0


def at_change(folder, act) -> None:
    """In this process, call ``act(n)`` before the n-th change of a file below ``folder``, locks and logs excluded."""
    count = 0

    def hook(event, values):
        nonlocal count
        writes = event == "open" and isinstance(values[2], int) and values[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if not (writes or event in CHANGES) or not isinstance(values[0], str | os.PathLike):
            return
        path = os.fspath(values[0])
        if path.startswith(f"{folder}/") and not path.endswith("log") and ".lock" not in path:
            count += 1
            act(count)

    sys.addaudithook(hook)


def kill_at(folder, number) -> None:
    at_change(folder, lambda n: n == number and os.kill(os.getpid(), signal.SIGKILL))


def full_from(folder, number) -> None:
    """Every change of a file below ``folder`` fails from the ``number``-th on."""

    def fail(n):
        if n >= number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    at_change(folder, fail)


class Place:
    """A folder with ``data`` and ``results`` that commands run in."""

    def __init__(self, folder, data) -> None:
        self.folder = folder
        folder.mkdir()
        shutil.copytree(data, folder / "data")
        np.savez(folder / "clips.npz", **mamp_arrays())

    def start(self, words, break_=None):
        """Start a command; ``break_(folder)`` is called in it before."""
        places = ["--data-root", str(self.folder / "data")]
        places += ["--results", str(self.folder / "results")] if words[0] == "run" else []

        def first():
            quicken()
            if break_:
                break_(self.folder)

        return warm.start([*words, *places], self.folder / "log", first=first)

    def run(self, words, break_=None):
        """(exit code, printed text) of a command."""
        (self.folder / "log").unlink(missing_ok=True)
        code = warm.wait(self.start(words, break_))
        return code, (self.folder / "log").read_text()

    def trained(self):
        """Weights, losses and predictions of the finished runs; checks that no temporary file stays."""
        found = {}
        for run in ResultStore(self.folder / "results").read():
            assert run.outcome == "done"
            found[run.name, "weights"] = (run.path / "encoder.safetensors").read_bytes()
            if run.metrics.exists():
                lines = map(json.loads, run.metrics.read_text().splitlines())
                found[run.name, "losses"] = [(line["step"], line["loss"]) for line in lines]
            for path in sorted(run.path.glob("eval-*.npz")):
                with np.load(path) as arrays:
                    found[run.name, path.name] = arrays["predicted"].tolist()
        return found


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """(data root, results of an unbroken run, number of file changes that it makes)."""
    import skelbench.cli.run  # noqa: F401  what children share is imported once
    import skelbench.evaluation.cost.report
    import skelbench.training.loop  # noqa: F401

    folder = tmp_path_factory.mktemp("unbroken")
    (folder / "data").mkdir()
    write_small_store(folder / "data")
    place = Place(folder / "place", folder / "data")
    counted = folder / "counted"
    counted.touch()

    def count(where):
        file = os.open(counted, os.O_WRONLY | os.O_APPEND)
        at_change(where, lambda _: os.write(file, b"."))

    code, text = place.run(RUN, count)
    assert code == 0, text
    return folder / "data", place.trained(), counted.stat().st_size


@pytest.fixture
def place(unbroken, tmp_path):
    return Place(tmp_path / "place", unbroken[0])


def test_a_killed_run_resumes_to_the_same_weights(place, unbroken):
    _, whole, changes = unbroken
    for share in (0.3, 0.5):
        code, _ = place.run(RUN, lambda folder, share=share: kill_at(folder, int(share * changes)))
        assert code == -signal.SIGKILL
    code, text = place.run(RUN)
    assert code == 0, text
    assert place.trained() == whole


def test_several_processes_on_one_run_train_it_once(place, unbroken):
    children = [place.start(RUN) for _ in range(3)]
    codes = [warm.wait(child) for child in children]
    text = (place.folder / "log").read_text()
    assert 0 in codes and set(codes) <= {0, 2} and "Traceback" not in text, text
    assert text.count("another process") >= codes.count(2)
    assert place.run(RUN)[0] == 0
    assert place.trained() == unbroken[1]


def test_a_full_disk_is_one_error_and_the_run_resumes(place, unbroken):
    _, whole, changes = unbroken
    code, text = place.run(RUN, lambda folder: full_from(folder, changes // 2))
    assert code == 2 and text.count("error: ") == 1 and "Traceback" not in text, text
    code, text = place.run(RUN)
    assert code == 0, text
    assert place.trained() == whole


@pytest.mark.parametrize(("break_", "number"), [(kill_at, 2), (full_from, 5)])
def test_an_interrupted_import_leaves_no_dataset_or_a_complete_one(place, break_, number):
    words = ["data", "import", str(place.folder / "clips.npz"), "--name", "theirs"]
    code, text = place.run(words, lambda folder: break_(folder, number))
    assert code != 0 and "Traceback" not in text, text
    again, text = place.run(words)
    assert again == 0 or "exists already" in text, text
    arrays = mamp_arrays()
    assert len(ClipStore.open(place.folder / "data" / "theirs")) == len(arrays["x_train"]) + len(arrays["x_test"])
    assert not [path for path in (place.folder / "data").rglob("*") if path.suffix in (".tmp", ".partial")]
