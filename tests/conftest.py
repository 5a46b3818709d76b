"""A small dataset, small models, and places of their own for every test."""

import gc
import os
import sys

# Before anything imports torch: threads that wait for each other on shared cores cost more than they bring.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Without compiled modules on disk every process of the tests would compile the same files again.
os.environ["PYTHONDONTWRITEBYTECODE"] = ""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from small import silent_session, tiny_run, write_small_store

from skelbench.core.threads import usable_cores

sys.dont_write_bytecode = False
gc.disable()  # imports make a million objects and no garbage


def pytest_collection_finish() -> None:
    """Enable the garbage collector again."""
    gc.enable()


def pytest_collection_modifyitems(items) -> None:
    """Begin with the slowest tests, so that no process ends long after the others."""
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/training/test_ranks", "tests/test_gpu_benchmark")))


# A busy machine is no reason for a test to fail.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


def pytest_xdist_auto_num_workers(config) -> int:
    """For folders a worker, of a GB, per usable core; none for files and single tests, done before workers start."""
    cores = min(usable_cores(), 8)
    folders = any((config.invocation_params.dir / word.split("::")[0]).is_dir() for word in config.args)
    return cores if cores > 1 and folders else 0


@pytest.fixture(scope="session", autouse=True)
def own_environment(tmp_path_factory):
    """Variables of the user are not read, except the places of data for tests, and no test writes the user's cache."""
    for name in [name for name in os.environ if name.startswith("SKELBENCH_") or name in ("RANK", "WORLD_SIZE")]:
        if name not in ("SKELBENCH_PAPER", "SKELBENCH_SHARED_DATA"):
            del os.environ[name]
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.getbasetemp() / "cache")


@pytest.fixture(autouse=True)
def nothing_stays():
    """Variables, named plugins, the number of threads and PyTorch's random state are the same before every test."""
    import torch

    from skelbench.plugin.host import request_files

    variables, threads = dict(os.environ), torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
    torch.set_num_threads(threads)
    os.environ.clear()
    os.environ.update(variables)
    request_files([])


@pytest.fixture
def data_root(tmp_path) -> Path:
    """A data root that holds the dataset ``small``."""
    root = tmp_path / "data"
    root.mkdir()
    write_small_store(root)
    return root


@pytest.fixture
def host():
    """The built-in and shipped plugins, read once for all tests with the same places."""
    from skelbench.plugin.host import get_host

    return get_host()


@pytest.fixture
def resolved(data_root, host):
    """``resolved("slim", epochs=2, **settings)``: :func:`small.tiny_run` on ``small``."""
    return partial(tiny_run, data_root, host)


@pytest.fixture
def trainer(resolved, host, tmp_path):
    """``trainer("gfp", **settings)``: a trainer of such a run, its method in training mode."""
    from skelbench.records.run_dir import RunDir
    from skelbench.training.build import build_method
    from skelbench.training.loop import Trainer

    def make(name, device="cpu", **settings):
        made = resolved(name, **settings)
        method = build_method(made.spec, host, made.store.topology, device)
        method.train()
        return Trainer(made.spec, method, made.store, RunDir(tmp_path), device)

    return make


@pytest.fixture
def session(tmp_path, data_root, host):
    """A session over results of its own, on the CPU, without progress."""
    return silent_session(data_root, host, tmp_path / "results")


@pytest.fixture
def noting(session):
    """``(session, notes)``: a session, and the list of the notes that its progress received."""
    said = []

    @contextmanager
    def progress(**_):
        yield lambda advance=1, note=None, **fields: said.extend([note] if note else [])

    return replace(session, progress=progress), said


@pytest.fixture
def make_features():
    """Gaussian classes: ``separation`` 0 makes labels independent of the features."""
    import numpy as np

    from skelbench.evaluation.protocol import Features

    def make(n_train=200, n_test=300, width=16, classes=5, separation=1.0, seed=0):
        rng = np.random.default_rng(seed)
        centers = rng.normal(size=(classes, width)) * separation
        y = np.concatenate([np.arange(n_train) % classes, np.arange(n_test) % classes])
        x = centers[y] + rng.normal(size=(len(y), width))
        ids = rng.permutation(10_000)[: len(y)]

        def again(keyed, crop, augment, dropout=0.0, progress=None, noisy=False):
            """The training features with noise by clip, as augmentation makes it."""
            if progress:
                progress(n_train // 2, n_train)
                progress(n_train, n_train)
            noise = 0.3 * keyed.normal(ids[:n_train], width).numpy()
            return (x[:n_train] + noise).astype(np.float32)

        parts = x[:n_train], y[:n_train], x[n_train:], y[n_train:], ids[:n_train], ids[n_train:]
        return Features(*parts, num_classes=classes, again=again)

    return make
