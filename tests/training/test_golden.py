"""Losses of the first steps of every method, as numbers: a change of code that changes them changes results.

``PYTHONPATH=tests python tests/training/test_golden.py`` writes the numbers again. If numbers change, results
change: raise the method's ``version`` with them.
"""

import json
import tempfile
from pathlib import Path

import pytest
from small import COMPARING, METHODS, tiny_run, write_small_store

from skelbench.plugin.host import Host, get_host
from skelbench.records.run_dir import RunDir
from skelbench.training.build import build_method
from skelbench.training.loop import Trainer

GOLDEN = Path(__file__).with_name("golden_losses.json")
STEPS = 4
COMPARED = {"skeattnclr, native": 2}
"""Steps of methods that have fewer: rounding grows tenfold a step, and in the third kernels for three instruction
sets of one processor (``ATEN_CPU_CAPABILITY``) differ by 2 %."""


def losses(made, run):
    """Everything that is reported in the first steps: list of {name: value}."""
    method = build_method(made.spec, get_host(), made.store.topology)
    method.train()
    training = Trainer(made.spec, method, made.store, run, "cpu")
    steps = [training.train_step(step, training.views(step)) for step in range(STEPS)]
    return [{name: float(value) for name, value in step.items()} for step in steps]


@pytest.mark.parametrize("setting", ["shared", "native"])
@pytest.mark.parametrize("name", METHODS)
def test_the_first_steps_have_golden_losses(name, setting, resolved, tmp_path):
    expected = json.loads(GOLDEN.read_text())[f"{name}, {setting}"]
    found = losses(resolved(name, native=setting == "native", batch_size=6), RunDir(tmp_path))
    assert len(found) == len(expected) == STEPS
    compared = COMPARED.get(f"{name}, {setting}", STEPS)
    for step, (mine, theirs) in enumerate(zip(found[:compared], expected)):
        # Batch norm over 6 clips multiplies rounding, which differs between processors, from step to step.
        assert mine == pytest.approx(theirs, rel=2e-3 * 3**step if name in COMPARING else 2e-4, abs=1e-6)


def test_every_method_has_golden_losses():
    assert set(json.loads(GOLDEN.read_text())) == {f"{name}, {s}" for name in METHODS for s in ("shared", "native")}


def write(folder):
    """Make :data:`GOLDEN` from the code as it is."""
    write_small_store(folder)
    numbers = {}
    for name in METHODS:
        for setting in ("shared", "native"):
            made = tiny_run(folder, Host(), name, batch_size=6, native=setting == "native")
            numbers[f"{name}, {setting}"] = losses(made, RunDir(folder))
    GOLDEN.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
