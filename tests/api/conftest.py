"""Runs as notebooks have them, on the small dataset with small models."""

import pytest


@pytest.fixture(autouse=True)
def own_places(monkeypatch, tmp_path):
    """Everything that is looked up in the environment lies below the test's directory."""
    monkeypatch.setenv("SKELBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SKELBENCH_RESULTS", str(tmp_path / "results"))


@pytest.fixture
def trained(session, resolved):
    """``trained("skeletonmae", **settings)``: such a run of one epoch, unprobed."""
    import skelbench
    from skelbench.pipeline.pretrain import pretrain

    def make(method="skeletonmae", **settings):
        return skelbench.Run(pretrain(session, resolved(method, epochs=1, **settings)), session.data_root)

    return make
