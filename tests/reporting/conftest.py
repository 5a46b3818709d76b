"""Results that tests of tables make."""

import pytest
from fabricated import Fabricated


@pytest.fixture
def made(tmp_path):
    """A results directory for made runs."""
    return Fabricated(tmp_path / "results")
