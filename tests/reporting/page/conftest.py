"""Hostile results, made once for the tests of a file."""

import pytest
from hostile import write_results


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The folder of :func:`write_results`: ``data`` and ``results``."""
    return write_results(tmp_path_factory.mktemp("hostile"))
