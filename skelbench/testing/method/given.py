"""What a method says of itself, and what it is given: clips, skeletons, settings, labels."""

from __future__ import annotations

from skelbench.core.errors import Diverged, SkelbenchError
from skelbench.core.spec import section, validated
from skelbench.methods.contract import Method
from skelbench.models.encoder import Encoder, evaluating
from skelbench.plugin.plugin_errors import Mistake
from skelbench.testing.announcement import check_announcement
from skelbench.testing.check import Failed, Skipped
from skelbench.testing.method.subject import (
    MethodSubject,
    brief,
    check_finite,
    forward,
    losses_of,
    one_step,
    plain_view,
)
from skelbench.testing.settings import check_settings
from skelbench.training.build import grid_of
from skelbench.training.loop import Trainer
from skelbench.views.skeleton.grid import BUDGETS


def announcement(m: MethodSubject) -> None:
    wanted = {"summary": "which `skelbench plugins list` shows"}
    wanted |= {"citation": "which every table of its results needs"} if m.descriptor.trains else {}
    check_announcement(m.host, m.descriptor, wanted)


def settings(m: MethodSubject) -> None:
    own = m.host.subclass(m.descriptor, Method).Config
    if not m.descriptor.config and own is not Method.Config:
        raise Failed("every Config announced", f"{own.__name__} is not", f'MethodSpec(..., config=":{own.__name__}")')
    config = m.host.config(m.descriptor)
    check_settings(config, {}, f"method {m.descriptor.name}")
    for preset, values in m.descriptor.presets.items():  # which may be its own
        every = {**m.descriptor.recipe, **values}
        validated(config, section(every, "method"), f"preset {preset} of its MethodSpec")
    for key in m.descriptor.space:
        part, _, name = key.partition(".")
        if part == "method" and name not in config.model_fields:
            wanted = f"settings of {config.__name__} in the search space: {', '.join(config.model_fields) or 'none'}"
            raise Failed(wanted, key, "space of its MethodSpec")


def described(m: MethodSubject) -> None:
    config = m.host.config(m.descriptor)
    without = [name for name, field in config.model_fields.items() if not field.description]
    if without:
        raise Failed(
            "a description of every setting, which `skelbench plugins info` shows",
            f"none of {', '.join(without)}",
            f"{config.__name__}: Field(..., description=...), or a string below the field",
        )


def builds(m: MethodSubject) -> None:
    try:
        target = m.host.load(m.descriptor)
        if not (isinstance(target, type) and issubclass(target, Method)):
            raise Failed("a subclass of skelbench.methods.Method", f"{target!r}", f"target={m.descriptor.target!r}")
        method = m.method()
        if m.descriptor.trains:
            m.trainer().views(0)
    except Exception:
        m.unbuildable = True
        raise
    if not isinstance(method.inference_encoder(), Encoder):
        kind = type(method.inference_encoder()).__name__
        raise Failed("an inference_encoder() that is an encoder, from context.encoder()", f"it is a {kind}")


def variants(m: MethodSubject) -> None:
    if not m.descriptor.variants:
        raise Skipped("it has no variants")
    for name in m.descriptor.variants:
        m.resolved(variant=name)


def bodies(m: MethodSubject) -> None:
    training = m.trainer()
    count = training.source.store.bodies[training.ids]
    for what, ids in (
        ("one body each", training.ids[count == 1][:4]),
        ("two bodies each", training.ids[count == 2][:4]),
        ("one body or two", training.ids[:4]),
    ):
        check_finite(forward(training, training.views_of(0, ids)), f"clips of {what}")


def clip_lengths(m: MethodSubject) -> None:
    for tokens in BUDGETS:
        training = m.trainer(tokens=tokens)
        one_step(training, 0, f"{tokens} tokens in time ({BUDGETS[tokens][0]} frames)")
        _check_tokens(training)


def native(m: MethodSubject) -> None:
    if not m.descriptor.native:
        raise Skipped("the shared setting is its own")
    one_step(m.trainer(native=True), 0, "the native setting")


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
        raise Skipped(f"it refuses this skeleton: {error}") from error
    _check_tokens(training)


def _check_tokens(training: Trainer) -> None:
    """An encoder that says so returns a token per joint and patch."""
    encoder = training.method.inference_encoder()
    if "tokens" not in encoder.abilities:
        return
    grid = grid_of(training.spec, training.source.store.topology)
    with evaluating(encoder):
        tokens = encoder(plain_view(training, encoder)).tokens_RND.shape[1]
    if tokens != grid.tokens:
        seen = f"{tokens} tokens for {grid.times} patches of {grid.joints} joints"
        raise Failed("a token per joint and patch, as the encoder's abilities say", seen)


def labels(m: MethodSubject) -> None:
    losses = [losses_of(m.trainer(dataset), 2) for dataset in ("small", "relabelled")]
    if losses[0] != losses[1]:
        raise Failed(
            "the same losses whatever the labels of the clips",
            f"{brief(losses[0])} becomes {brief(losses[1])} where every clip has another label",
            "how training_step comes by anything but its views",
        )
