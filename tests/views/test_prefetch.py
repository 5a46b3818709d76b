"""Views of the next step are made beside training: on a stream of their own, in order, and handed over to it."""

import threading
from contextlib import contextmanager

import pytest
import torch

from skelbench.views import prefetch

GPU = torch.device("cuda", 1)


class Streams:
    """Replacement of ``torch.cuda`` that records calls to streams."""

    def __init__(self):
        self.said, self.current = [], threading.local()

    def Stream(self, device):
        return Stream(self, f"views on {device}")

    def current_stream(self, device):
        return getattr(self.current, "stream", None) or Stream(self, f"training on {device}")

    @contextmanager
    def stream(self, stream):
        self.current.stream = stream
        yield
        self.current.stream = None


class Stream:
    def __init__(self, streams, name):
        self.streams, self.name = streams, name

    def wait_stream(self, other):
        self.streams.said.append(f"{self.name}: wait for all of {other.name}")

    def record_event(self):
        self.streams.said.append(f"{self.name}: made")
        return f"what {self.name} made"

    def wait_event(self, event):
        self.streams.said.append(f"{self.name}: wait for {event}")


class Kept:
    """Replacement of a view: the streams that use its memory."""

    def __init__(self):
        self.by = []

    def record_stream(self, stream):
        self.by.append(stream.name)


@pytest.fixture
def streams(monkeypatch):
    made = Streams()
    monkeypatch.setattr(prefetch, "cuda", made)
    return made


def test_views_are_built_on_their_own_stream(streams):
    where = {}

    def make(step):
        where[step] = streams.current_stream(GPU).name
        return {"view": Kept()}

    done = []
    for step, views in prefetch.prefetched(make, range(3), GPU):
        done.append(step)
        assert views["view"].by == ["training on cuda:1"]
        assert streams.said[-1] == "training on cuda:1: wait for what views on cuda:1 made"
    assert done == [0, 1, 2] and set(where.values()) == {"views on cuda:1"} and list(where) == [0, 1, 2]
    assert streams.said[0] == "views on cuda:1: wait for all of training on cuda:1"


def test_errors_of_views_are_raised_in_their_step(streams):
    def make(step):
        if step == 1:
            raise ZeroDivisionError
        return {}

    steps = prefetch.prefetched(make, range(3), GPU)
    assert next(steps)[0] == 0
    with pytest.raises(ZeroDivisionError):
        next(steps)
