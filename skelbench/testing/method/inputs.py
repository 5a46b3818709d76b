"""Checks of a method's descriptor, of clips, skeletons and labels that it gets, and of the encoder that it gives."""

from __future__ import annotations

from skelbench.core.errors import Diverged, SkelbenchError
from skelbench.core.spec import section, validated
from skelbench.evaluation.cost.report import step_cost
from skelbench.methods.contract import Method
from skelbench.models.encoder import Encoder, evaluating
from skelbench.plugin.plugin_errors import Mistake
from skelbench.testing.check import Failed, Skipped
from skelbench.testing.clips import differs, view_of
from skelbench.testing.device import check_step
from skelbench.testing.method.subject import MethodSubject, brief, check_finite, one_step
from skelbench.testing.settings import check_settings, check_summary
from skelbench.training.build import build_encoder, grid_of
from skelbench.views.skeleton.grid import BUDGETS


def settings(m: MethodSubject) -> None:
    """Settings and texts of the descriptor."""
    about, own = m.descriptor, m.host.subclass(m.descriptor, Method).Config
    check_summary(about)
    if about.trains and not about.citation.strip():
        raise Failed("a citation, which every table of its results needs", "citation is empty", "its MethodSpec")
    if not about.config and own is not Method.Config:
        raise Failed("every Config announced", f"{own.__name__} is not", f'MethodSpec(..., config=":{own.__name__}")')
    config = m.host.config(about)
    check_settings(config, {}, f"method {about.name}")
    for preset, values in about.presets.items():
        validated(config, section({**about.recipe, **values}, "method"), f"preset {preset} of its MethodSpec")
    known = [f"method.{name}" for name in config.model_fields]
    if unknown := [key for key in about.space if key.startswith("method.") and key not in known]:
        raise Failed(f"a search space of {', '.join(known) or 'no settings'}", unknown[0], "space of its MethodSpec")
    if without := [name for name, x in config.model_fields.items() if not x.description]:
        raise Failed("a description of every setting", f"none of {', '.join(without)}", config.__name__)


def builds(m: MethodSubject) -> None:
    m.host.subclass(m.descriptor, Method)
    encoder = m.method().inference_encoder()
    if not isinstance(encoder, Encoder):
        raise Failed("an inference_encoder() made by context.encoder()", f"it is a {type(encoder).__name__}")
    if m.descriptor.trains:
        m.trainer().views(0)
    for name in m.descriptor.variants:
        m.resolved(variant=name)


def bodies(m: MethodSubject) -> None:
    training = m.trainer()
    count = training.source.store.bodies[training.ids]
    for number in (1, 2):
        views = training.views_of(0, training.ids[count == number][:4])
        for turn in training.method.turns:
            check_finite(training.forward(views, training.step_info(0, turn)), f"clips of {number} bodies each")


def clip_lengths(m: MethodSubject) -> None:
    for tokens, (frames, _) in BUDGETS.items():
        one_step(m.trainer(tokens=tokens), 0, f"{tokens} tokens in time ({frames} frames)")


def native(m: MethodSubject) -> None:
    if not m.descriptor.native:
        raise Skipped("its published setting is the shared one")
    one_step(m.trainer(native=True), 0, "the published setting")


def another_skeleton(m: MethodSubject) -> None:
    _on_skeleton(m, "stick7")


def flat_poses(m: MethodSubject) -> None:
    _on_skeleton(m, "coco17")


def _on_skeleton(m: MethodSubject, dataset: str) -> None:
    try:
        training = m.trainer(dataset)
        for step in range(2):
            one_step(training, step, f"the skeleton {dataset}")
    except (Diverged, Mistake):
        raise
    except SkelbenchError as error:
        raise Skipped(f"it rejects this skeleton: {error}") from error


def labels(m: MethodSubject) -> None:
    before, after = m.losses(), m.losses("relabelled")
    if before != after:
        seen = f"{brief(before)} becomes {brief(after)} where every clip has another label"
        raise Failed("the same losses whatever the labels of the clips", seen, "inputs besides the views")


def features(m: MethodSubject) -> None:
    """Features by the method's encoder, and by an encoder of the run with the same weights."""
    run, encoder = m.resolved(), m.method().inference_encoder()
    probed = build_encoder(run.spec, m.host, run.store.topology)
    probed.load_state_dict(encoder.state_dict())
    grid = grid_of(run.spec, run.store.topology)
    view = view_of(run.store.topology, grid, ((1, 0), (1, 1)), stream=encoder.stream)
    with evaluating(encoder), evaluating(probed):
        if differs(probed(view).pooled_RD, encoder(view).pooled_RD):
            raise Failed("the same features by another encoder with its weights", "others", "hooks on the encoder")


def devices(m: MethodSubject) -> None:
    check_step(m.trainer())


def cost(m: MethodSubject) -> None:
    run, method = m.resolved(), m.method()
    if not run.spec.views:
        raise Skipped("it has no training step")
    counted = step_cost(run.spec, m.host, run.store.topology)
    if "student" not in counted["by_role"] or not counted["flops_per_clip"] > 0:
        raise Failed("a module with the role 'student' that does the work", "none", "roles of the method's class")
    for name, role in method.roles.items():
        learns = any(p.dim() > 1 for p in method.get_submodule(name).parameters())
        if learns and role not in counted["by_role"]:
            look = f"training_step, which calls it as a module: self.{name}(x)"
            raise Failed(f"a step in which {name} has the cost of role {role!r}", f"{name} is never called", look)
