from functools import partial

import pytest


@pytest.fixture
def made(trainer, request):
    """``made(**settings)``: a trainer of the tiny method that the folder is named after."""
    return partial(trainer, request.path.parent.name)
