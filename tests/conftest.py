"""A small data set, small models, and places of their own for every test."""

import os
from pathlib import Path

import pytest
from small import TINY, TINY_METHOD, write_small_store

os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture
def data_root(tmp_path) -> Path:
    """A data root that holds the data set ``small``."""
    root = tmp_path / "data"
    root.mkdir()
    write_small_store(root)
    return root


@pytest.fixture
def host():
    """The built-in and shipped plugins."""
    from skelbench.plugin.host import Host

    return Host()


@pytest.fixture
def resolved(data_root, host):
    """``resolved("slim", epochs=2, **settings)``: a complete tiny run on ``small``; keys without a dot: method's.

    ``native`` asks for the method's own setting, ``dataset`` for another store below ``data_root``.
    """
    from skelbench.run.request import Request
    from skelbench.run.resolve import resolve

    def make(method="slim", epochs=2, batch_size=4, seed=0, tokens=None, native=None, dataset="small", **sets):
        settings = TINY | {f"method.{key}": value for key, value in TINY_METHOD.get(method, {}).items()}
        settings |= {(key if "." in key else f"method.{key}"): value for key, value in sets.items()}
        request = Request(
            method=method,
            dataset=dataset,
            preset="paper",
            native=native,
            epochs=epochs,
            batch_size=batch_size,
            seed=seed,
            clip_length=None if tokens else 32,
            patch=None if tokens else 8,
            tokens=tokens,
            sets=settings,
        )
        return resolve(request, host, data_root, "cpu")

    return make


@pytest.fixture
def trainer(resolved, host, tmp_path):
    """``trainer("gfp", **settings)``: a trainer of such a run, its method in training mode."""
    from skelbench.results.store import RunDir
    from skelbench.train.build import build_method
    from skelbench.train.loop import Trainer

    def make(name, device="cpu", **settings):
        made = resolved(name, **settings)
        method = build_method(made.spec, host, made.store.topology, device)
        method.train()
        return Trainer(made.spec, method, made.store, RunDir(tmp_path), device)

    return make


@pytest.fixture
def session(tmp_path, data_root, host):
    """A session over results of its own, on the CPU, without progress."""
    from contextlib import contextmanager

    from skelbench.results.store import ResultStore
    from skelbench.run.session import Session

    @contextmanager
    def silent(**_):
        yield lambda *args, **kwargs: None

    return Session(host, ResultStore(tmp_path / "results"), data_root, "cpu", silent)
