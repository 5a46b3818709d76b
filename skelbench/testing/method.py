"""What every method must do, whatever its idea."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from skelbench import distributed
from skelbench.cost.macs import count_encoder
from skelbench.cost.report import step_cost
from skelbench.errors import Diverged, SkelbenchError
from skelbench.methods.contract import Method
from skelbench.nn.encoder import Encoder, evaluating
from skelbench.nn.rank import effective_rank
from skelbench.plugin.descriptors import Descriptor, MethodSpec
from skelbench.plugin.host import Host
from skelbench.plugin.mistakes import Mistake
from skelbench.results.run_dir import RunDir
from skelbench.run.resolve import Resolved
from skelbench.skeleton.grid import BUDGETS
from skelbench.skeleton.topology import COCO17, get_topology
from skelbench.testing.announcement import check_announcement
from skelbench.testing.check import Check, Failed, Skipped
from skelbench.testing.fake_cuda import DEVICE, fake_cuda, on_device
from skelbench.testing.processes import grouped
from skelbench.testing.settings import check_settings
from skelbench.testing.tiny import tiny_run, write_store
from skelbench.testing.twin import check_twin
from skelbench.train.build import build_method, grid_of
from skelbench.train.loop import Trainer
from skelbench.train.pieces import obstacle
from skelbench.views.keyed import Keyed
from skelbench.views.view import View

STORES: Mapping[str, Callable[[], dict[str, Any]]] = {
    "small": dict,
    "relabelled": lambda: {"turn": 1},
    "stick7": lambda: {"topology": get_topology("stick7")},
    "coco17": lambda: {"topology": COCO17, "flat": True, "missing": 0.1},
}


@lru_cache
def _folder() -> tempfile.TemporaryDirectory:
    """Of this process, removed with it."""
    return tempfile.TemporaryDirectory(prefix="skelbench-check-")


@lru_cache
def _store(name: str) -> Path:
    """The data root, in which there is a store of this name."""
    root = Path(_folder().name)
    write_store(root, name, **STORES[name]())
    return root


@dataclass(eq=False)
class MethodSubject:
    """A method at a tiny size."""

    host: Host
    descriptor: MethodSpec
    unbuildable: bool = False
    """Whether it was found out that it cannot be built."""
    _resolved: dict[Any, Resolved] = field(default_factory=dict)

    def resolved(self, dataset: str = "small", **settings: Any) -> Resolved:
        """A tiny run of it: see :func:`skelbench.testing.tiny.tiny_run`."""
        if self.unbuildable:
            raise Skipped("it cannot be built")
        key = dataset, *sorted(settings.items())
        if key not in self._resolved:
            self._resolved[key] = tiny_run(_store(dataset), self.host, self.descriptor, dataset, **settings)
        return self._resolved[key]

    def method(self, dataset: str = "small", **settings: Any) -> Method:
        """It, as initialised, in training mode."""
        made = self.resolved(dataset, **settings)
        return build_method(made.spec, self.host, made.store.topology).train()

    def trainer(self, dataset: str = "small", **settings: Any) -> Trainer:
        """A trainer that has not begun. Skipped, of a method that is not trained."""
        if not self.descriptor.trains:
            raise Skipped("it is not trained")
        made = self.resolved(dataset, **settings)
        return Trainer(made.spec, self.method(dataset, **settings), made.store, RunDir(Path(_folder().name)), "cpu")

    @property
    def source(self) -> str:
        """Where its descriptor stands."""
        return self.host.origin(self.descriptor).source


def kit(host: Host, descriptor: Descriptor) -> tuple[MethodSubject, list[Check[MethodSubject]]]:
    """A method and its checks."""
    assert isinstance(descriptor, MethodSpec)
    return MethodSubject(host, descriptor), CHECKS


# ------------------------------------------------------------------------------------------ what it says of itself
def announcement(m: MethodSubject) -> None:
    wanted = {"summary": "which `skelbench plugins list` shows"}
    wanted |= {"citation": "which every table of its results needs"} if m.descriptor.trains else {}
    check_announcement(m.host, m.descriptor, wanted)


def settings(m: MethodSubject) -> None:
    check_settings(m.host.config(m.descriptor), {}, f"method {m.descriptor.name}")


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
    modules = dict(method.named_modules())
    if strays := [name for name in method.roles if name not in modules]:
        raise Failed(
            "roles that name modules of the method", f"{strays[0]!r} is none of them", f"{type(method).__name__}.roles"
        )
    if not isinstance(method.inference_encoder(), Encoder):
        kind = type(method.inference_encoder()).__name__
        raise Failed("an inference_encoder() that is an encoder, from context.encoder()", f"it is a {kind}")


# ------------------------------------------------------------------------------------------ what it is given
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
        _finite(_forward(training, _views(training, ids)), f"clips of {what}")


def clip_lengths(m: MethodSubject) -> None:
    for tokens in BUDGETS:
        training = m.trainer(tokens=tokens)
        _step(training, 0, f"{tokens} tokens in time ({BUDGETS[tokens][0]} frames)")
        _check_tokens(training)


def native(m: MethodSubject) -> None:
    if not m.descriptor.native:
        raise Skipped("the shared setting is its own")
    _step(m.trainer(native=True), 0, "the native setting")


def another_skeleton(m: MethodSubject) -> None:
    _on_skeleton(m, "stick7")


def flat_poses(m: MethodSubject) -> None:
    _on_skeleton(m, "coco17")


def _on_skeleton(m: MethodSubject, dataset: str) -> None:
    try:
        training = m.trainer(dataset)
        for step in range(2):
            _step(training, step, f"the skeleton {dataset}")
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
        tokens = encoder(_plain(training, encoder)).tokens_RND.shape[1]
    if tokens != grid.tokens:
        seen = f"{tokens} tokens for {grid.times} patches of {grid.joints} joints"
        raise Failed("a token per joint and patch, as the encoder's abilities say", seen)


def labels(m: MethodSubject) -> None:
    losses = [_losses(m.trainer(dataset), 2) for dataset in ("small", "relabelled")]
    if losses[0] != losses[1]:
        raise Failed(
            "the same losses whatever the labels of the clips",
            f"{_brief(losses[0])} becomes {_brief(losses[1])} where every clip has another label",
            "how training_step comes by anything but its views",
        )


# ------------------------------------------------------------------------------------------ what it learns with
def gradients(m: MethodSubject) -> None:
    training = m.trainer()
    method, views = training.method, training.views(0)
    for turn in method.turns:
        training.forward(views, training.step_info(0, turn))["loss"].backward()
    trained = {name: p for name, p in method.named_parameters() if p.requires_grad}
    if without := [name for name, p in trained.items() if p.grad is None]:
        raise Failed(
            "a gradient in every trainable parameter",
            f"none in {_few(without)}",
            "what training_step does not use; what is not meant to be trained: requires_grad_(False)",
        )
    updated = {id(p) for each in training.optim.optimizers.values() for g in each.param_groups for p in g["params"]}
    if idle := [name for name, p in trained.items() if id(p) not in updated]:
        raise Failed("every trainable parameter in optim_groups", f"{_few(idle)} in none", "optim_groups")
    for name, p in _teachers(method):
        if p.requires_grad or p.grad is not None:
            seen = f"{name} has requires_grad={p.requires_grad}"
            raise Failed("no gradient in a teacher", seen, "skelbench.nn.ema_copy, which makes a frozen copy")


def teacher(m: MethodSubject) -> None:
    training = m.trainer()
    if not (teachers := dict(_teachers(training.method))):
        raise Skipped("no module has the role 'teacher'")
    before = {name: p.detach().clone() for name, p in teachers.items()}
    for step in (training.total // 2, training.total // 2 + 1):
        training.train_step(step, training.views(step))
    if all(torch.equal(before[name], p) for name, p in teachers.items()):
        raise Failed(
            "a teacher that follows the student",
            "it is after two steps what it was before",
            "after_step, which moves it (skelbench.nn.ema_update)",
        )


def _teachers(method: Method) -> Iterator[tuple[str, nn.Parameter]]:
    for name, role in method.roles.items():
        if role == "teacher":
            for inner, p in method.get_submodule(name).named_parameters():
                yield f"{name}.{inner}", p


def bf16(m: MethodSubject) -> None:
    """One step from the same weights in both precisions, the second of a run: queues are filled, weights have moved."""
    exact, rounded = m.trainer(), m.trainer(**BF16)
    _step(exact, 0)
    rounded.method.load_state_dict(exact.method.state_dict())
    (loss, gradient), (other, apart) = _loss_and_gradient(exact), _loss_and_gradient(rounded)
    look = "sums, differences of near numbers, powers and logarithms: do them in float32 (skelbench.nn.precision)"
    if not abs(other - loss) <= BF16_LOSS * abs(loss):
        raise Failed(
            f"in bf16 autocast a loss within {BF16_LOSS:.0%} of float32's", f"{other:.4g}, not {loss:.4g}", look
        )
    normed = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in exact.method.modules())
    share = float((apart - gradient).norm() / gradient.norm())
    if not normed and not share <= BF16_GRADIENT:
        expected = f"in bf16 autocast a gradient within {BF16_GRADIENT:.0%} of float32's norm"
        raise Failed(expected, f"one that is {share:.0%} of it away", look)
    for step in range(1, 3):
        _step(rounded, step, "bf16 autocast")


def _loss_and_gradient(training: Trainer) -> tuple[float, Tensor]:
    """Sum of the losses of a second step's turns, and the gradients of all parameters in one row."""
    total, views = 0.0, training.views(1)
    for turn in training.method.turns:
        info = training.step_info(1, turn)
        torch.manual_seed(0)  # of the modules' own noise
        total += float(training._backward(training.forward, views, info)["loss"].detach())
    found = [p.grad.flatten().double() for p in training.method.parameters() if p.grad is not None]
    training.method.zero_grad()
    return total, torch.cat(found)


BF16: Mapping[str, Any] = {"train.precision": "bf16"}
BF16_LOSS, BF16_GRADIENT = 0.05, 0.3
"""A number of 8 bits is off by up to 0.4 %, and a step's roundings add up. Of the methods that ship, on three steps of
4, 6 and 12 clips, losses moved by up to 3 % (PSTL; mostly 0.1 %) and gradients by up to 16 % of their norm (CMD;
mostly 1 %). Gradients through batch norm, of PSTL, UmURL and USDRL, moved by up to all of it: a deviation over few
clips is a small number that everything is divided by. Only their losses are compared."""


def learns(m: MethodSubject) -> None:
    """Two copies are trained on a batch each, until each is better on its own batch than the other copy is on it.

    That is told by the sums over both batches, so it does not matter which is harder. Predicting zero, a mean or any
    constant is as good on both, and so is a method whose targets are noise; of what is left of a loss that falls to
    nothing whatever the clip, the difference is no share of what it was before. What ``after_step`` moves (a teacher,
    a centre) is held still after a first step, which fills queues.
    """
    first, second = (m.trainer(epochs=1000, wide=True, **LEARNING) for _ in range(2))
    for training in (first, second):
        training.train_step(0, _views(training, training.ids[-4:]))
    clips = 2 if first.method.min_clips < 2 else 4
    batches = [_views(first, first.ids[i : i + clips]) for i in (0, clips)]
    before = sum(_loss(first, batch) for batch in batches)
    share = of_before = 0.0
    for step in range(1, LEARNING_STEPS + 1):
        for training, views in zip((first, second), batches):
            for turn in training.method.turns:
                training.forward(views, training.step_info(1, turn))["loss"].backward()
                training.optim.step(1, training.optim.norms(turn), turn)
        if step % 20 == 0:
            own = _loss(first, batches[0]) + _loss(second, batches[1])
            others = _loss(first, batches[1]) + _loss(second, batches[0])
            share, of_before = (
                (others - own) / max(abs(own), abs(others)),
                (others - own) / max(abs(before), before - own),
            )
            if share > LEARNED and of_before > LEARNED_OF_BEFORE:
                return
    raise Failed(
        f"a loss on the clips it is trained on that is lower than on others, by {LEARNED:.0%} of it and by "
        f"{LEARNED_OF_BEFORE:.0%} of what it was",
        f"lower by {share:.1%} and {of_before:.1%} after {LEARNING_STEPS} steps",
        "a target that does not depend on the clip, or a detach on the way of the loss",
    )


LEARNING: Mapping[str, Any] = {"optimizer": "adamw", "schedule": "constant", "train.lr": 3e-3}
LEARNING_STEPS = 160
LEARNED, LEARNED_OF_BEFORE = 0.1, 0.01


def collapse(m: MethodSubject) -> None:
    training = m.trainer(epochs=1000, batch_size=8, wide=True, **LEARNING)
    encoder, fixed = training.method.inference_encoder(), training.watch.fixed
    assert fixed is not None and fixed.turned is not None

    def looked_at() -> tuple[float, float]:
        """Effective rank of the clips' features around their mean, and how far they are from it, as a share."""
        with evaluating(encoder):
            x_RD = encoder(fixed.turned).pooled_RD
        apart = (x_RD - x_RD.mean(0)).norm() / x_RD.norm()
        return float(effective_rank(x_RD, centred=True)), float(apart)

    _, apart_before = looked_at()
    for step in range(COLLAPSE_STEPS):
        _step(training, step)
    rank, apart = looked_at()
    if rank < RANK or apart < APART * apart_before:
        raise Failed(
            f"features of different clips of effective rank {RANK} or more, that keep {APART:.0%} of their distances",
            f"effective rank {rank:.2f}, {apart / apart_before:.1%} of their distances after {COLLAPSE_STEPS} steps",
            "what keeps features of different clips apart: negatives, a predictor and a stopped gradient, variance",
        )


RANK, APART = 2.0, 0.1
COLLAPSE_STEPS = 40


def _loss(training: Trainer, views: Mapping[str, View]) -> float:
    with torch.no_grad():
        return float(training.method(views, training.step_info(1))["loss"])


# ------------------------------------------------------------------------------------------ what is repeatable
def seeded(m: MethodSubject) -> None:
    first, again, other = (_losses(m.trainer(seed=seed), 2) for seed in (0, 0, 1))
    if first != again:
        seen = f"{_brief(first)}, then {_brief(again)}"
        raise Failed("the same losses from the same seed", seen, "random numbers that are not step's")
    if first[1:] == other[1:]:  # the first step's may be the same: there is no earlier clip to tell its own from
        seen = f"{_brief(first)} with seeds 0 and 1"
        raise Failed("other losses from another seed", seen, "manual_seed, or weights that are not drawn")


def resume(m: MethodSubject) -> None:
    with tempfile.TemporaryDirectory(dir=_folder().name) as folder:
        whole, first, second = (m.trainer() for _ in range(3))
        first.run = second.run = RunDir(Path(folder))
        expected = [_step(whole, step) for step in range(4)]
        seen = [_step(first, step) for step in range(2)]
        first.save(2, 0.0)
        done, _ = second.load()
        seen += [_step(second, step) for step in range(done, 4)]
    look = "what the method keeps besides parameters and buffers, and random numbers that are not step's"
    if seen != expected:
        at = next(i for i in range(4) if seen[i] != expected[i])
        said = f"step {at} has loss {seen[at]:.7g}, uninterrupted {expected[at]:.7g}"
        raise Failed("a run that was stopped and continued is the same, bit by bit", said, look)
    theirs = second.method.state_dict()
    for name, x in whole.method.state_dict().items():
        if not torch.equal(x, theirs[name]):
            said = f"{name} is another after it"
            raise Failed("a run that was stopped and continued is the same, bit by bit", said, look)


def processes(m: MethodSubject) -> None:
    if torch.cuda.is_available():
        raise Skipped("processes cannot be forked where PyTorch sees a GPU; hide it: CUDA_VISIBLE_DEVICES=")
    m.trainer(batch_size=6)
    with tempfile.TemporaryDirectory(dir=_folder().name) as folder:

        def half() -> None:
            warnings.simplefilter("ignore")  # PyTorch's own, of its next version
            torch.set_num_threads(1)  # threads of OpenMP do not survive a fork
            distributed.start_from_environment("cpu")
            torch.save(_first_step(m), Path(folder) / str(distributed.rank()))
            distributed.leave()

        for code, said in grouped(half):
            if code:
                raise Failed("a step on each of two processes", said.strip().rpartition("\n")[2] or f"exit code {code}")
        ranks = [torch.load(Path(folder) / str(rank)) for rank in range(2)]
    _same_step(
        _first_step(m),
        ranks,
        "gradients and state of two processes with half of the batch each that are those of one with all of it",
        "means over the batch (step.mean), what is compared over it (step.gather), queues and centres in after_step; "
        "batch norm of a process's own clips is excused by expected_failures",
    )


def pieces(m: MethodSubject) -> None:
    training = m.trainer(batch_size=6)
    if reason := obstacle(training.method, training.spec):
        raise Skipped(reason)
    _same_step(
        _first_step(m),
        [_first_step(m, **{"train.accumulate": 3})],
        "gradients and state of a batch in three pieces that are those of the batch at once",
        "means over the batch (step.mean), queues and centres in after_step (step.keep); or say in whole_batch what "
        "needs all clips of a step",
    )


def recomputed(m: MethodSubject) -> None:
    whole, again = (_first_step(m, **{"train.recompute": how}) for how in ("off", "on"))
    if (name := next((n for n, g in whole["gradients"].items() if not torch.equal(g, again["gradients"][n])), "")) or (
        not torch.equal(whole["loss"], again["loss"])
    ):
        raise Failed(
            "the same gradients, bit by bit, where blocks are computed again in the backward pass",
            f"the gradient of {name} is another" if name else "the loss is another",
            "what blocks in an nn.ModuleList read besides their arguments and torch's random numbers",
        )


def _same_step(whole: dict[str, Any], parts: list[dict[str, Any]], expected: str, look: str) -> None:
    """Raise :class:`Failed` unless each of ``parts`` has the gradients and state of the ``whole``, and all its loss."""
    loss = torch.stack([part["loss"] for part in parts]).mean()
    if not torch.allclose(loss, whole["loss"], rtol=1e-5, atol=1e-7):
        raise Failed(expected, f"the loss is {float(loss):.7g}, not {float(whole['loss']):.7g}", look)
    largest = max(float(gradient.abs().max()) for gradient in whole["gradients"].values())
    for kind, atol in (("gradients", 1e-5 * largest), ("state", 1e-6)):
        for name, value in whole[kind].items():
            for mine in (part[kind].get(name) for part in parts):
                if mine is None or not torch.allclose(mine, value, rtol=1e-3, atol=atol, equal_nan=True):
                    what = "gradient of " if kind == "gradients" else ""
                    raise Failed(expected, f"{what}{name} is another", look)


def _first_step(m: MethodSubject, **settings: Any) -> dict[str, Any]:
    """Loss, gradients and the state that ``after_step`` leaves, of this process's share of the first batch.

    It counts as the second step, so that queues are taken to hold the keys of one.
    """
    training = m.trainer(batch_size=6, **settings)
    batch, method, loss = training.batch(0), training.method, torch.zeros(())
    gradients: dict[str, Tensor] = {}
    for turn in method.turns:
        info = training.step_info(1, turn, training.pieces)
        reported = training.gradients(batch, info)
        loss = loss + reported["loss"].detach()
        after = "" if turn == method.turns[0] else f" ({turn})"
        gradients |= {name + after: p.grad for name, p in method.named_parameters() if p.grad is not None}
        method.zero_grad()  # as between turns of the loop
    with torch.no_grad():
        method.after_step(info)
    return {"loss": loss, "gradients": gradients, "state": method.state_dict()}


# ------------------------------------------------------------------------------------------ the encoder it gives
def repeats(m: MethodSubject) -> None:
    encoder, x_BMTJC = _encoder(m)
    with evaluating(encoder):
        first, again = (encoder(View.of(x_BMTJC, stream=encoder.stream)).pooled_RD for _ in range(2))
    if not torch.equal(first, again):
        seen = f"they differ by up to {float((first - again).abs().max()):.2g}"
        raise Failed("the same features of the same clip, in evaluation", seen, "noise that does not ask self.training")


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


# ------------------------------------------------------------------------------------------ where it runs
def devices(m: MethodSubject) -> None:
    method, made = m.trainer(**BF16).method, m.resolved(**BF16)
    with fake_cuda():
        training = Trainer(made.spec, on_device(method), made.store, RunDir(Path(_folder().name)), str(DEVICE))
        views = training.views(0)
        if strays := [name for name, view in views.items() if view.x_RTJC.device != DEVICE]:
            raise Failed("views on the device", f"{strays[0]} is not")
        with training.watch.look(1):
            training.train_step(0, views)


def cost(m: MethodSubject) -> None:
    made = m.resolved()
    topology = made.store.topology
    encoder = m.method().inference_encoder()
    if any(True for _ in encoder.parameters()):
        count_encoder(encoder, grid_of(made.spec, topology), topology)
    if not made.spec.views:
        return
    counted = step_cost(made.spec, m.host, topology)
    if not counted["flops_per_clip"] > 0:
        raise Failed("a cost of a training step", "no matrix product was counted", "skelbench.cost.handles")
    student = counted["by_role"].get("student")
    if student is None:
        raise Failed("a module with the role 'student' that does the work", "none", "roles of the method's class")
    if not student["backward"] > student["forward"]:
        raise Failed(
            "a backward pass of the student that costs more than its forward pass",
            f"forward {student['forward']:,.0f} MACs, backward {student['backward']:,.0f}",
            "roles, which name the module that learns",
        )


def above_untrained(m: MethodSubject) -> None:
    if not m.descriptor.trains:
        raise Skipped("it is not trained")
    check_twin(m.host, m.host.name(m.descriptor))


# ------------------------------------------------------------------------------------------ what they share
def _views(training: Trainer, ids: np.ndarray) -> dict[str, View]:
    return training.builder(training.source.gather(ids), Keyed(training.spec.seed, 0))


def _plain(training: Trainer, encoder: Encoder) -> View:
    """One clip of noise on the run's grid."""
    grid = grid_of(training.spec, training.source.store.topology)
    return View.of(torch.randn(1, 1, grid.frames, grid.joints, 3), stream=encoder.stream)


def _forward(training: Trainer, views: dict[str, View]) -> dict[str, Tensor]:
    turns = (training.forward(views, training.step_info(0, turn)) for turn in training.method.turns)
    return {f"{i} {name}": value for i, out in enumerate(turns) for name, value in out.items()}


def _finite(out: Mapping[str, Any], where: str) -> None:
    for name, value in out.items():
        if not math.isfinite(float(torch.as_tensor(value).detach())):
            raise Failed("finite figures", f"{name.split()[-1]} is {float(value)} with {where}")


def _step(training: Trainer, step: int, where: str = "") -> float:
    """The loss of ``step``, which is made."""
    out = training.train_step(step, training.views(step))
    _finite(out, where or f"step {step}")
    return float(out["loss"])


def _losses(training: Trainer, steps: int) -> list[float]:
    return [_step(training, step) for step in range(steps)]


def _brief(losses: list[float]) -> str:
    return ", ".join(f"{loss:.7g}" for loss in losses)


def _few(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


CHECKS = [
    Check("announcement", "it has a summary and a citation, and is listed without torch", announcement),
    Check("settings", "its settings have defaults, are recorded whole and refuse what they do not know", settings),
    Check("settings-described", "every setting is described", described),
    Check("builds", "its modules and views can be made at a tiny size", builds),
    Check("variants", "every variant makes a run", variants),
    Check("bodies", "it trains on clips of one body and of two", bodies),
    Check("clip-lengths", "it trains on every token budget", clip_lengths),
    Check("native", "it trains in its native setting", native),
    Check("another-skeleton", "it trains on a skeleton of seven joints, or refuses it", another_skeleton),
    Check("flat-poses", "it trains on 2-D poses of which joints are missing, or refuses them", flat_poses),
    Check("labels", "it learns nothing from labels", labels),
    Check("gradients", "gradients reach every trainable parameter, and no teacher", gradients),
    Check("teacher", "its teacher follows the student", teacher),
    Check("bf16", "bf16 autocast is finite and near float32", bf16),
    Check("learns", "it learns the batch it is trained on, more than another", learns),
    Check("collapse", "features of different clips do not become one", collapse),
    Check("seed", "the same seed gives the same losses, another seed others", seeded),
    Check("resume", "a run that was stopped and continued is the same, bit by bit", resume),
    Check("processes", "two processes with half of the batch each are one with all of it", processes),
    Check("pieces", "a batch in three pieces is the batch at once, unless it says why not", pieces),
    Check("recompute", "blocks that are computed again in the backward pass change no bit", recomputed),
    Check("repeatable-features", "its encoder gives the same features twice", repeats),
    Check("clips-apart", "features of a clip depend on no other clip, nor on a body that is not there", apart),
    Check("devices", "views and a whole step on a GPU mix no devices and wait for nothing", devices),
    Check("cost", "a step can be counted, and its encoder by three counters that agree", cost),
    Check("above-untrained", "trained on 8,000 clips it is better than untrained", above_untrained, thorough=True),
]
