"""Two processes with half of the batch each are one process with all of it, in variants too; methods as they are:
``skelbench.testing``."""

import pytest
import torch
from small import on_two_processes, tiny_run, write_small_store

from skelbench import distributed
from skelbench.plugin.host import get_host
from skelbench.results.store import RunDir
from skelbench.train.build import build_method
from skelbench.train.loop import Trainer

BATCH = 6
VARIANTS = (
    "slim:target-coordinates",
    "slim:target-features",
    "slim:target-features-predictor",
    "slim:centre-running",
    "slim:cl-only",
    "slim koleo=0.1",
    "usdrl:no-correlation",
)
"""Variants, or settings, with modules, state or untrained parameters that their method's own setting does not have."""


def first_step(run, folder):
    """Loss, gradients and the state that ``after_step`` leaves, of this process's share of the first batch.

    It counts as the second step, so that queues are taken to hold the keys of one.
    """
    host = get_host()
    title, _, setting = run.partition(" ")
    name, _, variant = title.partition(":")
    sets = dict(host.get("methods", name).variants[variant] if variant else {})
    if setting:
        key, _, value = setting.partition("=")
        sets[f"method.{key}"] = float(value)
    made = tiny_run(folder, host, name, epochs=1, batch_size=BATCH, sets=sets)
    method = build_method(made.spec, host, made.store.topology)
    method.train()
    training = Trainer(made.spec, method, made.store, RunDir(folder), "cpu")
    views = training.views(0)
    loss = training.forward(views, training.step_info(1))["loss"]
    loss.backward()
    with torch.no_grad():
        method.after_step(training.step_info(1))
    gradients = {key: p.grad for key, p in method.named_parameters() if p.grad is not None}
    rows = next(iter(views.values())).rows
    return {"rows": rows, "loss": loss.detach(), "gradients": gradients, "state": method.state_dict()}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What each of two processes found, by method."""
    folder = tmp_path_factory.mktemp("ranks")
    write_small_store(folder)

    def half():
        distributed.start_from_environment("cpu")
        found = {name: first_step(name, folder) for name in VARIANTS}
        torch.save(found, folder / f"rank{distributed.rank()}.pt")
        distributed.leave()

    on_two_processes(half)
    return folder, [torch.load(folder / f"rank{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("name", VARIANTS)
def test_gradients_and_state_are_those_of_one_process(name, both):
    folder, ranks = both
    first, second, whole = ranks[0][name], ranks[1][name], first_step(name, folder)
    assert first["rows"] + second["rows"] == whole["rows"] and first["rows"] != second["rows"]
    torch.testing.assert_close((first["loss"] + second["loss"]) / 2, whole["loss"], rtol=1e-5, atol=1e-7)
    largest = max(float(gradient.abs().max()) for gradient in whole["gradients"].values())
    for part, atol in (("gradients", 1e-5 * largest), ("state", 1e-6)):
        assert first[part].keys() == second[part].keys() == whole[part].keys()
        for key, value in whole[part].items():
            for mine in (first[part][key], second[part][key]):
                torch.testing.assert_close(mine, value, rtol=1e-3, atol=atol, msg=lambda m, k=key: f"{k}: {m}")
