"""Checks of a method's descriptor and settings, and of clips, skeletons and labels that it gets."""

from __future__ import annotations

from skelbench.core.errors import Diverged, SkelbenchError
from skelbench.core.spec import section, validated
from skelbench.methods.contract import Method
from skelbench.models.encoder import Encoder
from skelbench.plugin.plugin_errors import Mistake
from skelbench.testing.check import Failed, Skipped
from skelbench.testing.method.subject import MethodSubject, brief, check_finite, one_step
from skelbench.testing.settings import check_fields, check_settings
from skelbench.views.skeleton.grid import BUDGETS


def settings(m: MethodSubject) -> None:
    """Settings and texts of the descriptor."""
    wanted = {"summary": "which `skelbench plugins list` shows"}
    wanted |= {"citation": "which every table of its results needs"} if m.descriptor.trains else {}
    check_fields(m.descriptor, wanted)
    own = m.host.subclass(m.descriptor, Method).Config
    if not m.descriptor.config and own is not Method.Config:
        raise Failed("every Config announced", f"{own.__name__} is not", f'MethodSpec(..., config=":{own.__name__}")')
    config = m.host.config(m.descriptor)
    check_settings(config, {}, f"method {m.descriptor.name}")
    for preset, values in m.descriptor.presets.items():
        validated(config, section({**m.descriptor.recipe, **values}, "method"), f"preset {preset} of its MethodSpec")
    for key in m.descriptor.space:
        part, _, name = key.partition(".")
        if part == "method" and name not in config.model_fields:
            expected = f"settings of {config.__name__} in the search space: {', '.join(config.model_fields) or 'none'}"
            raise Failed(expected, key, "space of its MethodSpec")
    if without := [name for name, x in config.model_fields.items() if not x.description]:
        raise Failed(
            "a description of every setting, which `skelbench plugins info` shows",
            f"none of {', '.join(without)}",
            f"{config.__name__}: Field(..., description=...), or a string below the field",
        )


def builds(m: MethodSubject) -> None:
    target = m.host.load(m.descriptor)
    if not (isinstance(target, type) and issubclass(target, Method)):
        raise Failed("a subclass of skelbench.methods.Method", f"{target!r}", f"target={m.descriptor.target!r}")
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
    for what, ids in (
        ("one body each", training.ids[count == 1][:4]),
        ("two bodies each", training.ids[count == 2][:4]),
    ):
        views = training.views_of(0, ids)
        for turn in training.method.turns:
            check_finite(training.forward(views, training.step_info(0, turn)), f"clips of {what}")


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
