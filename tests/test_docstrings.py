"""Docstrings of everything that authors import have examples, and all examples are true."""

import doctest
import importlib
import inspect
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[1]
MODELS = (
    "contrast", "decoder", "decorrelation", "ema", "encoder", "heads", "information", "losses", "prototype_loss",
    "prototype_objective", "rank", "schedule", "tokenizer", "vit", "optim.groups", "optim.optimizers",
    "optim.schedules",
)  # fmt: skip
FOR_AUTHORS = ("methods", "views", "views.skeleton.grid", "views.skeleton.topology")
WITHOUT = {"Config", "Block", "skelbench_encoders", "groups_of", "result_problem"}
"""Names without an example: a base class, a part of the ViT, a hook, and functions that only the harness calls.
Components list their settings, and their family shows how they are written."""


def documented(name):
    """Classes and functions that ``skelbench.NAME`` offers, with their names there."""
    module = importlib.import_module(f"skelbench.{name}")
    own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    names = getattr(module, "__all__", [key for key in own if not key.startswith("_")])
    found = {key: getattr(module, key) for key in names}
    return {key: value for key, value in found.items() if inspect.isclass(value) or inspect.isfunction(value)}


@pytest.mark.parametrize("name", [*FOR_AUTHORS, *(f"models.{module}" for module in MODELS)])
def test_everything_that_authors_import_has_an_example(name):
    missing = {
        key
        for key, value in documented(name).items()
        if ">>>" not in (value.__doc__ or "") and not getattr(value, "kind", "")
    }
    assert missing <= WITHOUT


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
