"""The encoder that a method gives, where it runs, and what it costs."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from skelbench.evaluation.cost.macs import count_encoder
from skelbench.evaluation.cost.report import step_cost
from skelbench.models.encoder import Encoder, evaluating
from skelbench.records.run_dir import RunDir
from skelbench.testing.check import Failed, Skipped
from skelbench.testing.fake_cuda import DEVICE, fake_cuda, on_device
from skelbench.testing.method.learning import BF16
from skelbench.testing.method.subject import MethodSubject, own_folder
from skelbench.testing.twin import check_twin
from skelbench.training.build import build_encoder, grid_of
from skelbench.training.loop import Trainer
from skelbench.views.view import View


def repeats(m: MethodSubject) -> None:
    encoder, x_BMTJC = _encoder(m)
    with evaluating(encoder):
        first, again = (encoder(View.of(x_BMTJC, stream=encoder.stream)).pooled_RD for _ in range(2))
    if not torch.equal(first, again):
        seen = f"they differ by up to {float((first - again).abs().max()):.2g}"
        raise Failed("the same features of the same clip, in evaluation", seen, "noise that does not ask self.training")


def probed(m: MethodSubject) -> None:
    encoder, x_BMTJC = _encoder(m)
    made = m.resolved()
    other = build_encoder(made.spec, m.host, made.store.topology)
    other.load_state_dict(encoder.state_dict())
    with evaluating(encoder), evaluating(other):
        mine, theirs = (each(View.of(x_BMTJC, stream=encoder.stream)).pooled_RD for each in (encoder, other))
    if mine.shape != theirs.shape or not torch.allclose(mine, theirs, rtol=1e-4, atol=1e-5 * float(mine.abs().max())):
        raise Failed(
            "the features of the run's encoder with the weights of inference_encoder(), which are what is probed",
            f"shape {tuple(theirs.shape)}, not {tuple(mine.shape)}"
            if mine.shape != theirs.shape
            else f"they differ by up to {float((mine - theirs).abs().max()):.2g}",
            "hooks, and what else is done to self.encoder that its weights do not say",
        )


def apart(m: MethodSubject) -> None:
    encoder, x_BMTJC = _encoder(m)
    slots_BMTJC = torch.cat([x_BMTJC, 1000 * torch.ones_like(x_BMTJC)], 1)
    valid_BM = torch.tensor([[True, False]]).repeat(len(x_BMTJC), 1)
    stream = encoder.stream
    with evaluating(encoder):
        together = encoder(View.of(x_BMTJC, stream=stream)).pooled_RD
        alone = torch.cat([encoder(View.of(x[None], stream=stream)).pooled_RD for x in x_BMTJC])
        beside = encoder(View.of(slots_BMTJC, valid_BM, stream=stream)).pooled_RD
    for what, other in (("alone in its batch", alone), ("beside an absent second body", beside)):
        _same_features(together, other, what)


def _encoder(m: MethodSubject) -> tuple[Encoder, Tensor]:
    """The inference encoder, and coordinates [5, 1, T, J, 3] for it."""
    made = m.resolved()
    grid = grid_of(made.spec, made.store.topology)
    drawn = torch.Generator().manual_seed(0)
    return m.method().inference_encoder(), torch.randn(5, 1, grid.frames, grid.joints, 3, generator=drawn)


def _same_features(x_RD: Tensor, other_RD: Tensor, what: str) -> None:
    if x_RD.shape != other_RD.shape:
        seen = f"shape {tuple(x_RD.shape)} becomes {tuple(other_RD.shape)} {what}"
    elif not torch.allclose(x_RD, other_RD, rtol=1e-3, atol=1e-4 * float(x_RD.abs().max())):
        seen = f"features of a clip {what} differ by up to {float((x_RD - other_RD).abs().max()):.2g}"
    else:
        return
    raise Failed(
        "features of a clip that do not depend on the others of its batch",
        seen,
        "statistics of the batch in evaluation, and attention over rows",
    )


def devices(m: MethodSubject) -> None:
    method, made = m.trainer(**BF16).method, m.resolved(**BF16)
    with fake_cuda():
        training = Trainer(made.spec, on_device(method), made.store, RunDir(Path(own_folder().name)), str(DEVICE))
        views = training.views(0)
        if strays := [name for name, view in views.items() if view.x_RTJC.device != DEVICE]:
            raise Failed("views on the device", f"{strays[0]} is not")
        with training.diagnostics.record_step(1):
            training.train_step(0, views)


def cost(m: MethodSubject) -> None:
    made = m.resolved()
    topology = made.store.topology
    method = m.method()
    encoder = method.inference_encoder()
    if any(True for _ in encoder.parameters()):
        count_encoder(encoder, grid_of(made.spec, topology), topology)
    if not made.spec.views:
        return
    counted = step_cost(made.spec, m.host, topology)
    if not counted["flops_per_clip"] > 0:
        raise Failed("a cost of a training step", "no matrix product was counted", "skelbench.evaluation.cost.handles")
    student = counted["by_role"].get("student")
    if student is None:
        raise Failed("a module with the role 'student' that does the work", "none", "roles of the method's class")
    parts = [(name, role, method.get_submodule(name)) for name, role in method.roles.items()]
    learnt = [(name, role) for name, role, part in parts if any(p.dim() > 1 for p in part.parameters())]
    if idle := [(name, role) for name, role in learnt if role not in counted["by_role"]]:
        name, role = idle[0]
        raise Failed(
            f"a step in which {name} has the cost of role {role!r}",
            f"{name} is never called",
            f"roles, and training_step, which calls it as a module: self.{name}(x)",
        )
    # Each turn may pass through it for one that learns.
    if not student["backward"] * len(method.turns) > student["forward"]:
        raise Failed(
            "a backward pass of the student that costs more than its forward pass",
            f"forward {student['forward']:,.0f} MACs, backward {student['backward']:,.0f}",
            "roles, which name the module that learns",
        )


def above_untrained(m: MethodSubject) -> None:
    if not m.descriptor.trains:
        raise Skipped("it is not trained")
    check_twin(m.host, m.host.name(m.descriptor))
