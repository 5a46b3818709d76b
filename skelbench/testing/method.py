"""Checks of methods, at a tiny size and on the CPU."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from skelbench.core import distributed
from skelbench.core.errors import Diverged, SkelbenchError
from skelbench.core.settings import settings as documented_settings
from skelbench.core.spec import section, validated
from skelbench.evaluation.cost.report import step_cost
from skelbench.methods.contract import Method
from skelbench.models.encoder import Encoder, evaluating
from skelbench.plugin.descriptors import Descriptor, MethodSpec
from skelbench.plugin.host import Host
from skelbench.plugin.plugin_errors import Mistake
from skelbench.testing.check import Check, Failed, Skipped
from skelbench.testing.clips import differs, view_of
from skelbench.testing.device import check_step
from skelbench.testing.method_subject import (
    PHASED,
    MethodSubject,
    brief,
    check_finite,
    gradients_of,
    one_step,
    own_folder,
    phase_starts,
)
from skelbench.testing.processes import grouped
from skelbench.testing.settings import check_settings, check_summary
from skelbench.training.build import build_encoder, grid_of
from skelbench.training.loop import Trainer
from skelbench.training.memory_saving import obstacle
from skelbench.views.skeleton.grid import BUDGETS
from skelbench.views.view import View


# ------------------------------------------------------------------------------------------------ descriptor
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
    settings = [f"method.{name}" for name in config.model_fields]
    if unknown := [key for key in about.space if key.startswith("method.") and key not in settings]:
        raise Failed(f"a search space of {', '.join(settings) or 'no settings'}", unknown[0], "space of its MethodSpec")
    if without := [setting.name for setting in documented_settings(config) if not setting.doc]:
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
    before, after = m.losses(), m.losses("relabeled")
    if before != after:
        text = f"{brief(before)} becomes {brief(after)} where every clip has another label"
        raise Failed("the same losses whatever the labels of the clips", text, "inputs besides the views")


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


# ------------------------------------------------------------------------------------------------ learning
LEARNING: Mapping[str, Any] = {"optimizer": "adamw", "schedule": "constant", "train.lr": 3e-3}
LEARNING_STEPS = 160
LEARNED, LEARNED_OF_BEFORE = 0.1, 0.01
BF16_LOSS, BF16_NEAR = 0.05, 0.01
"""Relative and absolute difference of losses: losses of shipped methods change by at most 3 %, mostly by 0.1 %."""


def gradients(m: MethodSubject) -> None:
    """Gradients of the first step of each phase."""
    training = m.trainer(**PHASED)
    method, starts = training.method, phase_starts(training)
    reached: set[str] = set()
    for step in range(starts[-1] + 1):
        if step in starts:
            views, where = training.views(step), f"the first step of phase {training.step_info(step).phase}"
            for turn in method.turns:
                out = training.forward(views, training.step_info(step, turn))
                check_finite(out, where)
                out["loss"].backward()
            check_finite(gradients_of(method), where)
            reached |= {name for name, p in method.named_parameters() if p.grad is not None}
            method.zero_grad()
        if step < starts[-1]:
            one_step(training, step)
    optimizers = training.optimization.optimizers.values()
    updated = {id(p) for optimizer in optimizers for g in optimizer.param_groups for p in g["params"]}
    trained = {name: p for name, p in method.named_parameters() if p.requires_grad}
    if idle := sorted(trained.keys() - reached):
        raise Failed("a gradient in every trainable parameter", f"none in {', '.join(idle[:4])}", "training_step")
    if idle := [name for name, p in trained.items() if id(p) not in updated]:
        raise Failed("every trainable parameter in optim_groups", f"none in {', '.join(idle[:4])}", "optim_groups")
    for name, p in _teachers(method):
        if p.requires_grad or name in reached:
            raise Failed("no gradient in a teacher", name, "skelbench.models.ema_copy, which makes a frozen copy")


def teacher(m: MethodSubject) -> None:
    training = m.trainer()
    before = {name: p.detach().clone() for name, p in _teachers(training.method)}
    if not before:
        raise Skipped("no module has the role 'teacher'")
    for step in (training.total // 2, training.total // 2 + 1):
        training.train_step(step, training.views(step))
    moved = {name for name, p in _teachers(training.method) if not torch.equal(before[name], p)}
    for module in (name for name, role in training.method.roles.items() if role == "teacher"):
        own = {name for name in before if name.startswith(f"{module}.")}
        if own and not own & moved:
            text = f"{module} is the same after two steps"
            raise Failed("a teacher that follows the student", text, "after_step (skelbench.models.ema_update)")


def _teachers(method: Method) -> Iterator[tuple[str, nn.Parameter]]:
    for name, role in method.roles.items():
        if role == "teacher":
            for inner, p in method.get_submodule(name).named_parameters():
                yield f"{name}.{inner}", p


def bf16(m: MethodSubject) -> None:
    """Loss of the second step (queues are filled) from the same weights in both precisions."""
    exact, rounded = m.trainer(), m.trainer(**{"train.precision": "bf16"})
    one_step(exact, 0)
    rounded.method.load_state_dict(exact.method.state_dict())
    loss, bf16 = (one_step(training, 1, "bf16 autocast") for training in (exact, rounded))
    if not abs(bf16 - loss) <= max(BF16_LOSS * abs(loss), BF16_NEAR):
        expected = f"in bf16 autocast a loss within {BF16_LOSS:.0%} or {BF16_NEAR} of float32's"
        raise Failed(expected, f"{bf16:.4g}, not {loss:.4g}", "float32 for sums and logarithms (models.precision)")


def learns(m: MethodSubject) -> None:
    """Train one copy on each of two batches, until each copy is better on its own batch than the other copy.

    A constant prediction, or a method with random targets, is equally good on both. ``after_step`` (teacher,
    center) runs only once, to fill queues.
    """
    first, second = (m.trainer(epochs=1000, wide=True, **LEARNING) for _ in range(2))
    for training in (first, second):
        training.train_step(0, training.views_of(0, training.ids[-4:]))
    clips = 2 if first.method.min_clips < 2 else 4
    batches = [first.views_of(0, first.ids[i : i + clips]) for i in (0, clips)]
    before = sum(_loss(first, batch) for batch in batches)
    share = of_before = own = crossed = 0.0
    for step in range(1, LEARNING_STEPS + 1):
        for training, views in zip((first, second), batches):
            for turn in training.method.turns:
                training.forward(views, training.step_info(1, turn))["loss"].backward()
                training.optimization.step(1, training.optimization.norms(turn), turn)
        if step % 20 == 0:
            own = _loss(first, batches[0]) + _loss(second, batches[1])
            crossed = _loss(first, batches[1]) + _loss(second, batches[0])
            share = (crossed - own) / max(abs(own), abs(crossed))
            of_before = (crossed - own) / max(abs(before), before - own)
            if share > LEARNED and of_before > LEARNED_OF_BEFORE:
                return
    expected = f"a loss lower on training clips, by {LEARNED:.0%} and {LEARNED_OF_BEFORE:.0%} of the loss before"
    text = (
        f"lower by {share:.1%} and {of_before:.1%} after {LEARNING_STEPS} steps ({own / 2:.4g} and {crossed / 2:.4g})"
    )
    raise Failed(expected, text, "a target that does not depend on the clip, or a detach before the loss")


def _loss(training: Trainer, views: Mapping[str, View]) -> float:
    with torch.no_grad():
        return float(training.method(views, training.step_info(1))["loss"])


# ------------------------------------------------------------------------------------------------ seeds
def seeded(m: MethodSubject) -> None:
    first, second, training = m.losses(), m.losses(seed=1), m.trainer()
    again = [one_step(training, step) for step in range(2)]
    if first != again:
        look = "random numbers that do not come from step"
        raise Failed("the same losses from the same seed", f"{brief(first)}, then {brief(again)}", look)
    if first[1:] == second[1:]:  # the first losses may be equal: no earlier clip is in the queue
        raise Failed("other losses from another seed", f"{brief(first)} with seeds 0 and 1", "manual_seed")


def resume(m: MethodSubject) -> None:
    """Runs that stop two steps after the start of each phase; two further steps are compared."""
    expected = "a resumed run that is the same as an uninterrupted run, bit by bit"
    look = "state besides parameters and buffers"
    with tempfile.TemporaryDirectory(dir=own_folder().name) as folder:
        uninterrupted = m.trainer(folder=folder, **PHASED)
        stops = [start + 2 for start in phase_starts(uninterrupted)]
        for step in range(min(stops[-1] + 2, uninterrupted.total)):
            if step in stops:
                uninterrupted.checkpointer.save(step, 0.0)
                resumed = m.trainer(folder=folder, **PHASED)
                resumed.checkpointer.load()
            loss = one_step(uninterrupted, step)
            if step >= stops[0] and step in {stop + more for stop in stops for more in (0, 1)}:
                resumed_loss = one_step(resumed, step)
                if loss != resumed_loss:
                    raise Failed(expected, f"step {step} has loss {resumed_loss:.7g}, uninterrupted {loss:.7g}", look)
                states = uninterrupted.method.state_dict(), resumed.method.state_dict()
                if changed := [name for name, x in states[0].items() if not _same(x, states[1][name])]:
                    raise Failed(expected, f"{changed[0]} differs after step {step}", look)


def processes(m: MethodSubject) -> None:
    if torch.cuda.is_available():
        raise Skipped("processes cannot be forked where PyTorch sees a GPU; hide it: CUDA_VISIBLE_DEVICES=")
    whole_batch = _first_step(m)
    with tempfile.TemporaryDirectory(dir=own_folder().name) as folder:

        def half() -> None:
            warnings.simplefilter("ignore")  # PyTorch warns about its next version
            torch.set_num_threads(1)  # OpenMP threads do not survive a fork
            distributed.start_from_environment("cpu")
            torch.save(_first_step(m), Path(folder) / str(distributed.rank()))
            distributed.leave()

        for code, text in grouped(half):
            if code:
                problem = text.strip().rpartition("\n")[2] or f"exit code {code}"
                raise Failed("a step on each of two processes", problem)
        ranks = [torch.load(Path(folder) / str(rank)) for rank in range(2)]
    _check_same_step(
        whole_batch, ranks, "means (step.mean), comparisons (step.gather), random numbers (step.uniform), batch norm"
    )


def pieces(m: MethodSubject) -> None:
    training = m.trainer(batch_size=6)
    if reason := obstacle(training.method, training.spec):
        raise Skipped(reason)
    parts = [_first_step(m, **{"train.accumulate": 3})]
    _check_same_step(_first_step(m), parts, "means (step.mean) and queues (step.keep), or the reason in whole_batch")


def _check_same_step(single: dict[str, Any], parts: list[dict[str, Any]], look: str) -> None:
    """Fail unless each of ``parts`` has the gradients and state of ``single``, and together its loss."""
    expected = "gradients and state of the whole batch"
    loss = torch.stack([part["loss"] for part in parts]).mean()
    if not torch.allclose(loss, single["loss"], rtol=1e-5, atol=1e-7):
        raise Failed(expected, f"the loss is {float(loss):.7g}, not {float(single['loss']):.7g}", look)
    largest = max(float(gradient.abs().max()) for gradient in single["gradients"].values())
    for kind, atol in (("gradients", 1e-5 * largest), ("state", 1e-6)):
        for name, value in single[kind].items():
            if not all(_same(part[kind].get(name), value, rtol=1e-3, atol=atol) for part in parts):
                raise Failed(expected, f"{name} differs", look)


def _same(value: Any, expected: Any, rtol: float = 0.0, atol: float = 0.0) -> bool:
    """Whether tensors are close, and other state (``get_extra_state``) is equal."""
    if isinstance(value, Tensor) and isinstance(expected, Tensor):
        return value.shape == expected.shape and torch.allclose(value, expected, rtol=rtol, atol=atol, equal_nan=True)
    return bool(value == expected)


def _first_step(m: MethodSubject, **settings: Any) -> dict[str, Any]:
    """Loss, gradients and state after ``after_step``, of this process's share of the first batch.

    It counts as the second step, so that queues have keys.
    """
    training = m.trainer(batch_size=6, **settings)
    batch, method, loss = training.batch(0), training.method, torch.zeros(())
    gradients: dict[str, Tensor] = {}
    for turn in method.turns:
        info = training.step_info(1, turn, training.micro_batches)
        loss = loss + training.gradients(batch, info)["loss"].detach()
        gradients |= {f"{name} ({turn})": x for name, x in gradients_of(method).items()}
        method.zero_grad()
    check_finite({"loss": loss, **gradients}, "the first step")
    with torch.no_grad():
        method.after_step(info)
    return {"loss": loss, "gradients": gradients, "state": method.state_dict()}


def kit(kind: str, host: Host, descriptor: Descriptor) -> tuple[MethodSubject, list[Check[MethodSubject]]]:
    """Subject of the checks of a method, and the checks."""
    assert isinstance(descriptor, MethodSpec)
    return MethodSubject(host, descriptor), CHECKS


CHECKS = [
    Check("settings", "it has summary and citation; its settings are described and survive a record", settings),
    Check("builds", "its modules and views are built, in every variant", builds),
    Check("bodies", "it trains on clips of one body and of two", bodies),
    Check("clip-lengths", "it trains on every token budget", clip_lengths),
    Check("native", "it trains in its published setting", native),
    Check("another-skeleton", "it trains on a skeleton of seven joints, or rejects it", another_skeleton),
    Check("flat-poses", "it trains on 2-D poses with missing joints, or rejects them", flat_poses),
    Check("labels", "it learns nothing from labels", labels),
    Check("gradients", "gradients reach every trainable parameter, and no teacher", gradients),
    Check("teacher", "its teacher follows the student", teacher),
    Check("bf16", "the loss in bf16 autocast is finite and near float32", bf16),
    Check("learns", "it learns the batch it is trained on, more than another batch", learns),
    Check("seed", "the same seed gives the same losses, another seed others", seeded),
    Check("resume", "a resumed run is the same as an uninterrupted run, bit by bit", resume),
    Check("processes", "two processes with half of the batch each are one with all of it", processes),
    Check("pieces", "a batch in three pieces is the batch at once, unless it says why not", pieces),
    Check("features", "features depend on nothing but the clip and the encoder's weights", features),
    Check("devices", "a step on a GPU mixes no devices", devices),
    Check("cost", "a step can be counted by the roles of its modules", cost),
]
