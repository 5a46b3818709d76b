import numpy as np
import pytest

from skelbench.evaluation.protocol import Features


@pytest.fixture(autouse=True)
def one_thread():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def make_features():
    """Gaussian classes: ``separation`` 0 makes labels independent of the features."""

    def make(n_train=200, n_test=300, width=16, classes=5, separation=1.0, seed=0) -> Features:
        rng = np.random.default_rng(seed)
        centres = rng.normal(size=(classes, width)) * separation
        y = np.concatenate([np.arange(n_train) % classes, np.arange(n_test) % classes])
        x = centres[y] + rng.normal(size=(len(y), width))
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
