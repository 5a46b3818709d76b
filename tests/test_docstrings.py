"""Examples in docstrings of what authors import: they are there, and they are true."""

import doctest
import importlib
import inspect

import numpy as np
import pytest
import torch

MODELS = ("contrast", "decoder", "decorrelation", "ema", "encoder", "heads", "information", "losses", "prototype_loss")
MODELS += ("prototype_objective", "rank", "schedule", "tokenizer", "vit")
WITH_EXAMPLES = (
    "methods",
    "views",
    "views.skeleton.grid",
    "views.skeleton.topology",
    "models.optim.groups",
    "models.optim.optimizers",
    "models.optim.schedules",
    *(f"models.{module}" for module in MODELS),
)
"""Whose every class and function that is imported from there has an example."""
OTHERS = (
    "plugin",
    "core.component",
    "evaluation.protocol",
    "data.store.splits",
    "data.store.writer",
    "reporting.study_rows",
    "reporting.table",
    "pipeline.studies.study",
    "testing",
)
WITHOUT = {"Config", "Block", "skelbench_encoders", "groups_of"}
"""The base of all settings under its name here, a part of the ViT, an announcement, a helper of the harness."""


def documented(name):
    """Classes and functions that ``skelbench.NAME`` offers, with their names there."""
    module = importlib.import_module(f"skelbench.{name}")
    own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    names = getattr(module, "__all__", [key for key in own if not key.startswith("_")])
    found = {key: getattr(module, key) for key in names}
    return {key: value for key, value in found.items() if inspect.isclass(value) or inspect.isfunction(value)}


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_everything_that_authors_import_has_an_example(name):
    missing = {key for key, value in documented(name).items() if ">>>" not in (value.__doc__ or "")}
    assert missing <= WITHOUT


@pytest.mark.parametrize("name", [*WITH_EXAMPLES, *OTHERS])
def test_examples_are_true(name):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(optionflags=flags)
    wrong = []
    for key, value in documented(name).items():
        module = inspect.getmodule(value)
        names = vars(module) | {"np": np, "torch": torch}
        for example in finder.find(value, key, module=module, globs=names):
            torch.manual_seed(0)
            runner.run(example, out=wrong.append)
    assert not wrong, "".join(wrong)
