from collections.abc import Mapping

import pytest
import torch
from torch import nn

from skelbench.core.spec import RunSpec
from skelbench.evaluation.cost import report
from skelbench.evaluation.cost.step import count_step
from skelbench.methods.contract import Method, Step
from skelbench.models import ahead
from skelbench.views.view import View

FRAMES, JOINTS, WIDTH, CLASSES = 4, 5, 8, 6
INPUTS = FRAMES * JOINTS * 3


class Product(torch.autograd.Function):
    """A loss whose forward makes its gradients ahead: one product forward, two that are the gradient's."""

    @staticmethod
    def forward(ctx, x, weight):
        y = x @ weight.T
        with ahead.gradients():
            ctx.save_for_backward(y @ weight, y.T @ x)
        return y.square().sum() / 2

    @staticmethod
    def backward(ctx, grad):
        grad_x, grad_weight = ctx.saved_tensors
        return grad * grad_x, grad * grad_weight


class Rows(nn.Module):
    """Takes a view, not a tensor, as encoders do."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(INPUTS, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)

    def forward(self, view: View):
        return {"rows": self.second(self.layer(view.x_RTJC.flatten(1)).relu())}


class Distil(Method):
    """Student on two views, teacher on one, head on the student, a loss outside of every module."""

    roles: Mapping[str, str] = {"student": "student", "teacher": "teacher", "heads": "head"}
    peeks = False

    def __init__(self):
        super().__init__(None, None)
        self.student, self.teacher = Rows(), Rows().requires_grad_(False)
        self.heads = nn.ModuleDict({"one": nn.Linear(WIDTH, WIDTH)})
        self.prototypes = nn.Parameter(torch.randn(CLASSES, WIDTH))
        self.register_buffer("center", torch.zeros(WIDTH))

    def training_step(self, views, step: Step):
        with torch.no_grad():
            target = self.teacher(views["whole"])["rows"]
            self.center += target.mean(0)
        noise = torch.randn(1, generator=step.generator, device=target.device)
        if self.peeks and not bool((noise < 1e9).all()):
            raise AssertionError
        whole, part = (self.heads["one"](self.student(views[name])["rows"]) for name in ("whole", "part"))
        loss = (whole - target - self.center).square().mean() + Product.apply(part, self.prototypes)
        return {"loss": loss}


class Peeking(Distil):
    peeks = True


def views(clips, bodies=2, absent=()):
    x_BMTJC = torch.randn(clips, bodies, FRAMES, JOINTS, 3)
    valid_BM = torch.ones(clips, bodies, dtype=torch.bool)
    for clip, body in absent:
        valid_BM[clip, body] = False
    whole = View.of(x_BMTJC, valid_BM)
    part = View.of(x_BMTJC.repeat(3, 1, 1, 1, 1), valid_BM.repeat(3, 1))
    return {"whole": whole, "part": View(part.x_RTJC, part.rows_R, clips, bodies, count=3)}


STEP = Step(index=0, total=10, epoch=0.0, generator=torch.Generator(), uniform=lambda *args, **kwargs: None)

# Per body: the student runs on 1 + 3 rows, the teacher on 1. Backward of a linear layer: one product for the weight,
# one for the input unless that is the data.
ROW = INPUTS * WIDTH + WIDTH * WIDTH
EXPECTED = {
    "student": {"forward": 4 * ROW, "backward": 4 * (INPUTS * WIDTH + 2 * WIDTH * WIDTH)},
    "teacher": {"forward": ROW, "backward": 0},
    "head": {"forward": 4 * WIDTH * WIDTH, "backward": 4 * 2 * WIDTH * WIDTH},
    "other": {"forward": 3 * WIDTH * CLASSES, "backward": 2 * 3 * WIDTH * CLASSES},
}


class Mixed(Distil):
    """Norms, attention weights, reductions and joined tensors, whose shapes are found without PyTorch's kernels."""

    def __init__(self):
        super().__init__()
        self.norms = nn.Sequential(nn.LayerNorm(WIDTH), nn.BatchNorm1d(WIDTH), nn.GELU())

    def training_step(self, views, step: Step):
        rows = self.norms(self.student(views["part"])["rows"])
        both = torch.stack([rows, torch.cat([rows[1:], rows[:1]])]).softmax(-1) @ rows.T
        joint = torch.where(both > 0, both / both.norm(dim=-1, keepdim=True), both.mean(-1, keepdim=True))
        return {"loss": (joint @ rows).log_softmax(-1).mean()}


def test_counting_on_shapes_equals_a_real_step():
    real, on_shapes = (
        count_step(Mixed().to(device), {name: view.to(device) for name, view in views(3).items()}, STEP)
        for device in ("cpu", "meta")
    )
    assert on_shapes.device == "meta" and on_shapes.by_role == real.by_role


@pytest.mark.parametrize("clips", [2, 7])
def test_every_view_role_and_phase_by_hand(clips):
    cost = count_step(Distil(), views(clips), STEP)
    assert cost.device == "cpu" and cost.clips == clips and cost.bodies_per_clip == 2
    assert cost.by_role == {
        role: {phase: 2 * macs for phase, macs in phases.items()} for role, phases in EXPECTED.items()
    }
    assert cost.forward_macs == 2 * sum(phases["forward"] for phases in EXPECTED.values())
    assert cost.backward_macs == 2 * sum(phases["backward"] for phases in EXPECTED.values())
    assert cost.total_flops_per_clip == 2 * (cost.forward_macs + cost.backward_macs)


def test_absent_bodies_cost_nothing():
    cost = count_step(Distil(), views(4, absent=[(0, 1), (2, 1)]), STEP)
    full = count_step(Distil(), views(4), STEP)
    assert cost.bodies_per_clip == 1.5
    assert cost.total_macs == pytest.approx(0.75 * full.total_macs)


def test_a_step_that_needs_values_is_executed(monkeypatch):
    def on(device, count):
        return {name: view.to(device) for name, view in views(count).items()}

    monkeypatch.setattr(report, "fake_views", lambda spec, topology, clips, bodies, device: on(device, 6))
    found = []
    for kind in (Peeking, Distil):
        monkeypatch.setattr(report, "build_method", lambda *given, kind=kind: kind().to(given[-1]))
        monkeypatch.setattr(report, "meta_method", lambda *given, kind=kind: kind().to("meta"))
        found.append(report.step_cost(RunSpec(method="peeking"), None, None))
    assert [cost["device"] for cost in found] == ["cpu", "meta"]
    assert found[0]["by_role"] == found[1]["by_role"]


@pytest.mark.parametrize("kind", [Distil, Peeking])
def test_counting_does_not_change_the_method(kind):
    method, generator = kind().eval(), STEP.generator.get_state()
    before = {name: value.clone() for name, value in method.state_dict().items()}
    count_step(method, views(2), STEP)
    assert all(torch.equal(value, before[name]) for name, value in method.state_dict().items())
    assert all(p.grad is None for p in method.parameters()) and not method.training
    assert not method.student._forward_hooks and torch.equal(generator, STEP.generator.get_state())


class InTurns(Distil):
    turns = ("main", "critic")

    def training_step(self, views, step: Step):
        rows = self.student(views["part"])["rows"]
        return {"loss": self.heads["one"](rows).sum() if step.turn == "critic" else rows.sum()}


def test_every_turn_of_a_step_is_counted():
    cost, alone = count_step(InTurns(), views(2), STEP), InTurns()
    alone.turns = ("critic",)
    student = count_step(alone, views(2), STEP).by_role["student"]
    assert cost.by_role["student"] == {way: 2 * macs for way, macs in student.items()}
    assert cost.by_role["head"]["forward"] == 2 * 3 * WIDTH * WIDTH


class InPhases(Distil):
    """A quarter of its schedule without its head, the rest with it and, if queues are full, products with keys."""

    seen: list[tuple[str, float]] = []

    def phases(self):
        return [("begin", 0.0), ("skipped", 0.25), ("end", 0.25)]

    def training_step(self, views, step: Step):
        self.seen.append((step.phase, step.fraction))
        rows = self.student(views["whole"])["rows"]
        if step.phase == "begin":
            return {"loss": rows.sum()}
        keys = rows.new_zeros(CLASSES, WIDTH)[: step.index]
        return {"loss": (self.heads["one"](rows) @ keys.T).sum()}


def test_phases_count_by_their_fraction_of_a_long_schedule(monkeypatch):
    monkeypatch.setattr(report, "build_method", lambda *_: InPhases())
    monkeypatch.setattr(report, "fake_views", lambda spec, topology, clips, bodies, device: views(clips, bodies))
    cost = report.step_cost(RunSpec(method="phases"), None, None)
    assert InPhases.seen == [("begin", 0.125), ("end", 0.625)]
    assert cost["by_role"]["student"]["forward"] == 2 * ROW
    assert cost["by_role"]["head"] == {"forward": 0.75 * 2 * WIDTH * WIDTH, "backward": 0.75 * 2 * 2 * WIDTH * WIDTH}
    assert cost["by_role"]["other"]["forward"] == 0.75 * 2 * CLASSES * WIDTH
    assert cost["forward_macs"] == sum(macs["forward"] for macs in cost["by_role"].values())
    assert cost["flops_per_clip"] == cost["forward_macs"] + cost["backward_macs"]  # 2 FLOPs each, of one body of two
