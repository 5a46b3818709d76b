"""Checks of the encoder that a method gives, of devices and of cost."""

from __future__ import annotations

import torch

from skelbench.evaluation.cost.macs import count_encoder
from skelbench.evaluation.cost.report import step_cost
from skelbench.models.encoder import evaluating
from skelbench.testing.check import Failed
from skelbench.testing.device import check_step
from skelbench.testing.method.subject import MethodSubject
from skelbench.training.build import build_encoder, grid_of
from skelbench.views.view import View


def features(m: MethodSubject) -> None:
    """Features of clips twice, by the run's encoder with the same weights, alone, and next to an absent second body."""
    run = m.resolved()
    encoder, probed = m.method().inference_encoder(), build_encoder(run.spec, m.host, run.store.topology)
    probed.load_state_dict(encoder.state_dict())
    grid = grid_of(run.spec, run.store.topology)
    x_BMTJC = torch.randn(5, 1, grid.frames, grid.joints, 3, generator=torch.Generator().manual_seed(0))
    slots_BMTJC = torch.cat([x_BMTJC, 1000 * torch.ones_like(x_BMTJC)], 1)
    absent = View.of(slots_BMTJC, torch.tensor([[True, False]]).repeat(5, 1), stream=encoder.stream)
    whole = View.of(x_BMTJC, stream=encoder.stream)
    with evaluating(encoder), evaluating(probed):
        expected = encoder(whole).pooled_RD
        alone = torch.cat([encoder(View.of(x[None], stream=encoder.stream)).pooled_RD for x in x_BMTJC])
        for what, x_RD, look in (
            ("computed again", encoder(whole).pooled_RD, "noise that does not depend on self.training"),
            ("alone in its batch", alone, "statistics of the batch in evaluation"),
            ("next to an absent second body", encoder(absent).pooled_RD, "empty body slots"),
            ("by the run's encoder with its weights", probed(whole).pooled_RD, "hooks on the encoder"),
        ):
            tolerance = 1e-4 * float(expected.abs().max())
            if x_RD.shape != expected.shape or not torch.allclose(x_RD, expected, rtol=1e-3, atol=tolerance):
                raise Failed(f"the same features of a clip {what}", f"others {what}", look)


def devices(m: MethodSubject) -> None:
    check_step(m.trainer())


def cost(m: MethodSubject) -> None:
    run, method = m.resolved(), m.method()
    topology, encoder = run.store.topology, method.inference_encoder()
    if any(True for _ in encoder.parameters()):
        count_encoder(encoder, grid_of(run.spec, topology), topology)
    if not run.spec.views:
        return
    counted = step_cost(run.spec, m.host, topology)
    student = counted["by_role"].get("student")
    if student is None or not counted["flops_per_clip"] > 0:
        raise Failed("a module with the role 'student' that does the work", "none", "roles of the method's class")
    for name, role in method.roles.items():
        learns = any(p.dim() > 1 for p in method.get_submodule(name).parameters())
        if learns and role not in counted["by_role"]:
            look = f"training_step, which calls it as a module: self.{name}(x)"
            raise Failed(f"a step in which {name} has the cost of role {role!r}", f"{name} is never called", look)
    if not student["backward"] * len(method.turns) > student["forward"]:  # each turn may pass through it
        seen = f"forward {student['forward']:,.0f} MACs, backward {student['backward']:,.0f}"
        raise Failed("a backward pass of the student that costs more than its forward pass", seen, "roles")
