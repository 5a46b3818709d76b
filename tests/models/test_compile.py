"""What is compiled, when, and what is said where nothing can be."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from skelbench.core.spec import TrainSpec
from skelbench.models.attention import Group, rope_table
from skelbench.models.compile import compile_parts
from skelbench.models.heads import PrototypeHead
from skelbench.models.vit import Block, ViTConfig
from skelbench.training.memory_saving import recompute_blocks

CPU = torch.device("cpu")


@pytest.fixture
def method():
    return nn.ModuleDict({"encoder": nn.ModuleList([Block(ViTConfig(dim=8, depth=1, heads=2)) for _ in range(2)])})


def compiled(method):
    return [part for part in method.modules() if part._compiled_call_impl is not None]


@pytest.fixture
def with_prototypes(method):
    method["head"] = PrototypeHead(8, prototypes=4, hidden=8, bottleneck=4)
    return method


@pytest.mark.parametrize("how", ["auto", "off"])
def test_on_a_cpu_nothing_is_compiled_unasked(with_prototypes, how):
    assert compile_parts(with_prototypes, CPU, how) == (False, "") and not compiled(with_prototypes)


def test_on_a_gpu_tiles_alone_are_unless_the_same_bits_are_wanted(with_prototypes, monkeypatch):
    asked = []
    monkeypatch.setattr("skelbench.models.compile.fuse", lambda device, on: asked.append(on))
    gpu = torch.device("cuda")
    assert compile_parts(with_prototypes, gpu, "auto") == (False, "") and asked == [False, False], "4 prototypes"
    monkeypatch.setattr("skelbench.models.compile.MANY", 4)
    assert compile_parts(with_prototypes, gpu, "auto") == (True, "") and not compiled(with_prototypes)
    assert asked == [False, False, False, True]
    asked.clear()
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    assert compile_parts(with_prototypes, gpu, "auto") == (False, "") and asked == [False]


def test_blocks_are_compiled_and_their_copies_are_not(method, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda forward, *args, **options: forward)
    names = list(method.state_dict())
    assert compile_parts(method, CPU, "on") == (True, "")
    assert compiled(method) == list(method["encoder"]) and not compiled(copy.deepcopy(method))
    assert list(method.state_dict()) == names


def test_compiled_blocks_that_are_computed_again_give_what_plain_ones_give(method, monkeypatch):
    """Traced as for any compiler, of rows of two lengths; what a compiler makes of it is not ours."""
    x_tD, groups = torch.randn(6 + 4, 8), [Group(2, 3, rope_table(torch.arange(3)[None], 4, 100.0)), Group(1, 4)]

    def outcome(of):
        y_tD = x_tD
        for block in of["encoder"]:
            y_tD = block(y_tD, groups)
        y_tD.square().sum().backward()
        return [y_tD.detach(), *(p.grad for p in of.parameters())]

    both = copy.deepcopy(method)
    recompute_blocks(both)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    assert compile_parts(both, CPU, "on") == (True, "") and compiled(both) == list(both["encoder"])
    for mine, theirs in zip(outcome(both), outcome(method), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_without_a_compiler_a_line_is_said_and_training_goes_on(method, monkeypatch):
    def broken(forward, *args, **options):
        raise RuntimeError("no compiler\nfound")

    monkeypatch.setattr(torch, "compile", broken)
    done, said = compile_parts(method, CPU, "on")
    assert not done and said.startswith("steps run uncompiled: ") and "no compiler" in said and "\n" not in said
    assert not compiled(method)


def test_compiling_is_no_part_of_what_a_run_is():
    assert TrainSpec(compile="on").model_dump() == TrainSpec().model_dump()
