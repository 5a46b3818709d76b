"""When the prototype loss is compiled, and the note where it cannot be."""

import pytest
import torch
from torch import nn

from skelbench.core.spec import TrainSpec
from skelbench.models.compile import compile_parts
from skelbench.models.heads import PrototypeHead

CPU, GPU = torch.device("cpu"), torch.device("cuda")
METHOD = nn.ModuleDict({"head": PrototypeHead(8, prototypes=4, hidden=8, bottleneck=4)})


@pytest.mark.parametrize("how", ["auto", "off"])
def test_on_a_cpu_nothing_is_compiled_unasked(how):
    assert compile_parts(METHOD, CPU, how) == (False, "")


def test_on_a_gpu_many_prototypes_are_in_bf16(monkeypatch):
    asked = []
    monkeypatch.setattr("skelbench.models.compile.use_kernel", lambda on, *heads: asked.append((on, len(heads))))
    assert compile_parts(METHOD, GPU, "auto") == (False, "") and asked == [(False, 0)], "4 prototypes"
    monkeypatch.setattr("skelbench.models.compile.MANY", 4)
    assert compile_parts(METHOD, GPU, "auto") == (True, "") and asked[1:] == [(False, 0), (True, 1)]
    assert compile_parts(METHOD, GPU, "auto", "fp32") == (False, "")


def test_without_a_compiler_or_prototypes_training_goes_on_with_a_note(monkeypatch):
    def broken(on, *heads):
        if on:
            raise RuntimeError("no compiler\nfound")

    monkeypatch.setattr("skelbench.models.compile.use_kernel", broken)
    done, note = compile_parts(METHOD, GPU, "on")
    assert not done and note.startswith("steps run uncompiled: ") and "no compiler" in note and "\n" not in note
    for method, device, reason in ((nn.Linear(1, 1), GPU, "no prototypes"), (METHOD, CPU, "needs a GPU")):
        done, note = compile_parts(method, device, "on")
        assert not done and reason in note


def test_compiling_does_not_change_the_identity_of_a_run():
    assert TrainSpec(compile="on").model_dump() == TrainSpec().model_dump()
