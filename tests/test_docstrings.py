"""Examples in docstrings are true."""

import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "path",
    [str(path.relative_to(ROOT)) for path in sorted((ROOT / "skelbench").rglob("*.py")) if ">>> " in path.read_text()],
)
def test_examples_are_true(path):
    module = importlib.import_module(path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"))
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    wrong = []
    for example in doctest.DocTestFinder().find(module, extraglobs={"np": np, "torch": torch}):
        torch.manual_seed(0)
        runner.run(example, out=wrong.append)
    assert not wrong, "".join(wrong)
