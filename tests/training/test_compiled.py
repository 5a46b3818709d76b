"""Compiled parts of a step: when they are used, and that numbers stay the same."""

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from skelbench.core.spec import TrainSpec
from skelbench.models.heads import PrototypeHead
from skelbench.models.vit import ViT, ViTConfig
from skelbench.training import compiled
from skelbench.training.compiled import compile_blocks, compile_parts
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25
from skelbench.views.view import View

METHOD = nn.ModuleDict({"head": PrototypeHead(8, prototypes=4, hidden=8, bottleneck=4)})
CPU, GPU = torch.device("cpu"), torch.device("cuda")


def test_kernels_are_chosen_on_a_gpu_in_bf16(monkeypatch):
    asked = []
    monkeypatch.setattr(compiled, "use_kernel", lambda on, *heads: asked.append((on, len(heads))))
    assert compile_parts(METHOD, GPU, "auto") == (True, "") and asked == [(False, 0), (True, 1)]
    for method, device, mode, precision in (
        (METHOD, CPU, "auto", "bf16"),
        (METHOD, GPU, "auto", "fp32"),
        (METHOD, GPU, "off", "bf16"),
        (nn.Linear(1, 1), GPU, "auto", "bf16"),
    ):
        assert compile_parts(method, device, mode, precision) == (False, "")


def test_without_a_compiler_or_a_gpu_training_continues_with_a_note(monkeypatch):
    def broken(on, *heads):
        if on:
            raise RuntimeError("no compiler\nfound")

    monkeypatch.setattr(compiled, "use_kernel", broken)
    done, note = compile_parts(METHOD, GPU, "auto")
    assert not done and note.startswith("steps run uncompiled: ") and "no compiler" in note and "\n" not in note
    assert compile_parts(METHOD, CPU, "blocks") == (False, "train.compile=blocks needs a GPU")


def test_compiled_code_does_not_change_the_identity_of_a_run():
    assert TrainSpec(compile="blocks").model_dump() == TrainSpec().model_dump()


def test_steps_with_compiled_blocks_differ_by_rounding_only(trainer):
    """Losses and gradients of steps with 7 and 9 bodies, computed as 32 rows. All blocks of the encoder share their
    code, and all of the decoder."""
    plain, other = (trainer("mamp", batch_size=6) for _ in range(2))
    counter = CompileCounterWithBackend("aot_eager")
    compile_blocks(other.method, backend=counter, fullgraph=True)
    rows = set()
    for step in range(4):
        views = plain.views(step)
        rows |= {len(view.x_RTJC) for view in views.values()}
        loss, again = (each.gradients(views, each.step_info(step))["loss"].item() for each in (plain, other))
        assert again == pytest.approx(loss, rel=1e-5)
    for (key, p), q in zip(plain.method.named_parameters(), other.method.parameters()):
        if p.grad is not None:
            torch.testing.assert_close(q.grad, p.grad, rtol=1e-3, atol=1e-5 * float(p.grad.abs().max()), msg=key)
    assert rows == {7, 9} and counter.frame_count == 2  # encoder and decoder


def test_a_compiled_vit_gives_the_same_summary():
    """Rotated queries and keys, visible tokens that differ between rows, and only the class token in the last block."""
    grid = Grid(frames=16, patch=8, joints=25)
    vit = ViT(ViTConfig(dim=16, depth=2, heads=2, registers=1), NTU25, grid)
    view = View.of(torch.randn(9, 1, 16, 25, 3))
    keep_RK = torch.rand(9, 50).argsort(1)[:, :20]
    expected_RD = vit(view, keep_RK=keep_RK, summary=True).summary_RD
    compile_blocks(vit, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(vit(view, keep_RK=keep_RK, summary=True).summary_RD, expected_RD)
