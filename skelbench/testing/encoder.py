"""Checks of encoders: their declared properties, and properties that methods and probes rely on.

R rows (bodies, or clips of an encoder that returns one row per clip), N tokens, D width.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.spec import validated
from skelbench.evaluation.cost.macs import count_encoder
from skelbench.evaluation.finetune_settings import layers_of
from skelbench.models.encoder import ABILITIES, Encoded, Encoder, evaluating, lines
from skelbench.plugin.descriptors import Descriptor, EncoderSpec
from skelbench.plugin.host import Host
from skelbench.plugin.plugin_errors import Mistake
from skelbench.testing.check import Check, Failed, Skipped
from skelbench.testing.clips import SKELETONS, differs, twice, view_of
from skelbench.testing.device import DEVICE, on_fake_device
from skelbench.testing.settings import check_presets, check_settings, check_summary
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25, Topology
from skelbench.views.streams import SINGLE
from skelbench.views.view import View

GRID = Grid(32, 8, NTU25.num_joints)
GRIDS = (Grid(16, 4, NTU25.num_joints), Grid(64, 8, NTU25.num_joints))
VALID = ((1, 0), (1, 1), (1, 0))
"""Bodies of three clips that are present."""
ROUNDING = 1e-4
"""Largest relative difference of two passes that sum in another order."""


@dataclass
class EncoderSubject:
    """An encoder at its smallest size: its preset ``quick``, and ``settings``."""

    host: Host
    descriptor: Descriptor
    settings: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def config(self) -> Any:
        """Validated settings."""
        values = {**getattr(self.descriptor, "presets", {}).get("quick", {}), **self.settings}
        return validated(self.host.config(self.descriptor), values, "encoder")

    def make(self, grid: Grid = GRID, topology: Topology = NTU25, seed: int = 0) -> Encoder:
        """Return an initialized encoder in eval mode."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.host.load(self.descriptor)(self.config, topology, grid).eval()

    @cached_property
    def encoder(self) -> Encoder:
        """Encoder that several checks share; no check changes it."""
        return self.make()

    def view(
        self, grid: Grid = GRID, topology: Topology = NTU25, valid: Sequence[Sequence[int]] = VALID, **fields: Any
    ) -> View:
        """Return three clips, one with two bodies."""
        return view_of(topology, grid, valid, **{"stream": self.encoder.stream, **fields})

    def needs(self, ability: str) -> Encoder:
        """Return an encoder prepared for ``ability``; skip the check if it does not have it."""
        if ability not in self.encoder.abilities:
            raise Skipped(f"it does not have the ability {ability!r}")
        encoder = self.make()
        encoder.prepare(frozenset({ability}))
        return encoder


def run(encoder: Encoder, view: View, **how: Any) -> Encoded:
    with evaluating(encoder):
        return encoder(view, **how)


def outputs_of(encoded: Encoded) -> dict[str, Tensor]:
    named = {"tokens_RND": encoded.tokens_RND, "pooled_RD": encoded.pooled_RD, "cls_RD": encoded.cls_RD}
    named |= {f"levels[{name!r}]": level for name, level in encoded.levels.items()}
    return {name: x for name, x in named.items() if x is not None}


def check_same(a: Encoded, b: Encoded, expected: str, look: str, tolerance: float = ROUNDING) -> None:
    """Fail if the outputs of two passes differ."""
    first = outputs_of(a)
    for name, x in outputs_of(b).items():
        if name not in first or (difference := differs(first[name], x, tolerance)):
            raise Failed(expected, f"{name} differs by {difference:.1%}" if name in first else f"no {name}", look)


def check_shapes(encoder: Encoder, view: View) -> Encoded:
    """Run ``encoder`` and fail unless all outputs are finite and have the shapes that it states."""
    encoded = run(encoder, view)
    rows = view.count * view.clips if encoded.per_clip else view.rows
    outputs = outputs_of(encoded) | {"summary_RD": encoded.summary_RD}
    tokens = encoded.tokens_RND.shape[1]
    if "tokens" in encoder.abilities:  # one per joint and patch
        tokens = encoder.grid.tokens * view.x_RTJC.shape[1] // encoder.grid.frames
    shapes = {"pooled_RD": (rows, encoder.features), "tokens_RND": (rows, tokens, encoder.width)}
    shapes |= {"summary_RD": (rows, encoder.summary_width)}
    shapes |= {"cls_RD": (rows, encoder.width)} if encoder.has_class_token else {}
    for name, shape in shapes.items():
        if name not in outputs or tuple(outputs[name].shape) != shape:
            message = f"{list(outputs[name].shape)}" if name in outputs else "None"
            raise Failed(f"{name} of {list(shape)}", message, "features, width and tokens_RND (no class token)")
    for name, x in outputs.items():
        if x.shape[0] != rows or not torch.isfinite(x).all():
            raise Failed(f"finite {name} with {rows} rows", f"{list(x.shape)}, or not finite", "forward")
    return encoded


# ------------------------------------------------------------------------------------------------ description
def form(subject: EncoderSubject) -> None:
    descriptor = subject.descriptor
    assert isinstance(descriptor, EncoderSpec)
    check_summary(descriptor)
    subject.host.subclass(descriptor, Encoder)
    if unknown := sorted(frozenset(subject.encoder.abilities) - ABILITIES.keys()):
        raise Failed("abilities that exist", did_you_mean(unknown[0], list(ABILITIES), "ability"), "abilities")
    layers_of(subject.encoder)
    cls = subject.host.config(descriptor)
    check_presets(cls, descriptor.presets)
    check_settings(cls, subject.config.model_dump(), "encoder")


# ------------------------------------------------------------------------------------------------ features
def shapes(subject: EncoderSubject) -> None:
    for valid in (((1, 0),), ((1, 1),), VALID):
        check_shapes(subject.encoder, subject.view(valid=valid))
    for grid in GRIDS:
        check_shapes(subject.make(grid), subject.view(grid))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        check_shapes(subject.encoder, subject.view())
    outputs = outputs_of(run(subject.make().double(), subject.view().with_x(subject.view().x_RTJC.double())))
    if wrong := [name for name, x in outputs.items() if x.dtype != torch.float64]:
        raise Failed("float64 in, float64 out", f"{wrong[0]} is {outputs[wrong[0]].dtype}", "tensors made in forward")


def skeletons(subject: EncoderSubject) -> None:
    rejections = []
    for topology in SKELETONS:
        grid = GRID._replace(joints=topology.num_joints)
        try:
            encoder = subject.make(grid, topology)
        except Mistake:
            raise
        except SkelbenchError as error:
            rejections.append(str(error))
            continue
        check_shapes(encoder, subject.view(grid, topology))
    if len(rejections) == len(SKELETONS):
        raise Failed("ntu25 or coco17 fits", rejections[0], "what it needs of a topology")


def deterministic(subject: EncoderSubject) -> None:
    view, before = subject.view(), subject.view()
    passes = twice(lambda: run(subject.encoder, view))
    check_same(*passes, "the same features twice in eval mode", "dropout and noise, off in eval mode", tolerance=0)
    if not torch.equal(view.x_RTJC, before.x_RTJC):
        raise Failed("the view as it was", "forward changed view.x_RTJC", "operations in place")


def clips_apart(subject: EncoderSubject) -> None:
    view = subject.view()
    together, row = run(subject.encoder, view), 0
    for clip, valid in enumerate(VALID):
        count = 1 if together.per_clip else sum(valid)
        expected = {name: x[row : row + count] for name, x in outputs_of(together).items()}
        row += count
        # The clip in a batch of its own, without its empty body slot.
        single = View.of(view.x_BMTJC[clip : clip + 1, : sum(valid)], stream=view.stream)
        for name, x in outputs_of(run(subject.encoder, single)).items():
            if difference := differs(x, expected[name], ROUNDING):
                message = f"{name} of clip {clip} differs by {difference:.1%}"
                look = "statistics over the batch, means over rows, and empty body slots"
                raise Failed("the same features of a clip alone and among others", message, look)


def gradients(subject: EncoderSubject) -> None:
    encoder = subject.make().train()
    if not any(p.requires_grad for p in encoder.parameters()):
        raise Skipped("it has no parameters")
    for view in (subject.view(), subject.view().with_x(torch.zeros_like(subject.view().x_RTJC))):
        encoder.zero_grad()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            torch.stack([(torch.randn_like(x) * x).sum() for x in outputs_of(encoder(view)).values()]).sum().backward()
        for name, parameter in encoder.named_parameters():
            if parameter.requires_grad and parameter.grad is None:
                raise Failed("a gradient for every parameter", f"{name} gets none", "a detach, or an unused layer")
            if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
                look = "divisions and square roots: norms of bones and of motion can be 0"
                raise Failed("finite gradients, also for joints at the origin", f"{name} has others", look)


def state(subject: EncoderSubject) -> None:
    file, reloaded = io.BytesIO(), subject.make(seed=5)
    torch.save(subject.encoder.state_dict(), file)
    file.seek(0)
    reloaded.load_state_dict(torch.load(file, weights_only=True))
    expected, look = "the same features from loaded weights", "drawn tensors: register_buffer"
    check_same(run(reloaded, subject.view()), run(subject.encoder, subject.view()), expected, look, tolerance=0)


def devices(subject: EncoderSubject) -> None:
    def check(encoder: Encoder, views: dict[str, View]) -> None:
        for name, x in outputs_of(encoder(views["x"])).items():
            if x.device != DEVICE:
                raise Failed(f"{name} on the device of the view", f"it is on {x.device}", "tensors made in forward")

    on_fake_device(subject.make().train(), {"x": subject.view()}, check)


def cost(subject: EncoderSubject) -> None:
    count = count_encoder(subject.encoder, GRID, NTU25)  # SkelbenchError if counters or closed form disagree
    if count.macs == 0 and any(p.dim() > 1 for p in subject.encoder.parameters()):
        raise Failed("more than 0 multiply-accumulates", "0", "skelbench.evaluation.cost.handles")


# ------------------------------------------------------------------------------------------------ abilities
def dropping(ability: str, subject: EncoderSubject) -> None:
    encoder, view = subject.needs(ability), subject.view()
    keep = keep_RK = torch.stack([torch.arange(row, GRID.tokens, 4) for row in range(view.rows)])
    if ability == "drop-lines":
        keep = lines(torch.tensor([[0, 2]]).repeat(view.rows, 1), torch.arange(8).repeat(view.rows, 1), GRID.joints)
        keep_RK = keep.flatten(1)
    part = run(encoder, view, keep_RK=keep)
    if "tokens" in encoder.abilities and part.tokens_RND.shape[1] != keep_RK.shape[1]:
        raise Failed(f"{keep_RK.shape[1]} visible tokens", str(part.tokens_RND.shape[1]), "keep_RK in forward")
    dropped, visible = (run(encoder, _elsewhere(view, keep_RK, at), keep_RK=keep) for at in (False, True))
    _check_hidden(part, dropped, visible, "keep_RK")


def replace_tokens(subject: EncoderSubject) -> None:
    encoder, view = subject.needs("replace-tokens"), subject.view()
    for parameter in encoder.parameters():  # a mask token of zeros could not be distinguished from content 0
        if parameter.requires_grad and not parameter.any():
            torch.nn.init.constant_(parameter, 0.1)
    mask_RN = torch.zeros(view.rows, GRID.tokens, dtype=torch.bool)
    mask_RN[:, ::3] = True
    masked_RK = mask_RN.nonzero()[:, 1].view(view.rows, -1)
    masked = run(encoder, _elsewhere(view, masked_RK, at=True), mask_RN=mask_RN)
    _check_hidden(run(encoder, view, mask_RN=mask_RN), masked, run(encoder, view), "mask_RN")


def _check_hidden(part: Encoded, other_hidden: Encoded, other_visible: Encoded, how: str) -> None:
    """Fail unless changes of masked tokens have no effect, and changes of visible tokens do."""
    look = f"where {how} is applied: before anything mixes tokens"
    check_same(other_hidden, part, "masked tokens have no effect", look)
    if not differs(other_visible.pooled_RD, part.pooled_RD, 1e-7):
        raise Failed("features that depend on the visible tokens", "they do not", look)


def _elsewhere(view: View, tokens_RK: Tensor, at: bool) -> View:
    """Return ``view`` with other coordinates at ``tokens_RK`` (``at``), or at all others."""
    there_RN = torch.zeros(view.rows, GRID.tokens, dtype=torch.bool).scatter(1, tokens_RK, True)
    there_RPJ = (there_RN if at else ~there_RN).unflatten(1, (GRID.times, GRID.joints))
    there_RTJ1 = there_RPJ.repeat_interleave(GRID.patch, 1)[..., None]
    return view.with_x(torch.where(there_RTJ1, view.x_RTJC.flip(1, 3) + 0.5, view.x_RTJC))


def abilities(subject: EncoderSubject) -> None:
    """Features by time, joint, granularity and step, short views and all streams, if the encoder has the ability."""
    encoder, views = subject.encoder, [subject.view()]
    if "short-views" in encoder.abilities:
        views += [subject.view(GRID.at(frames)) for frames in range(GRID.patch, GRID.frames, GRID.patch)]
    if "fuse-streams" in encoder.abilities:
        views += [replace(views[0], stream=stream) for stream in ("fused", *SINGLE)]
    encoded = [check_shapes(encoder, view) for view in views][0]
    checks: list[tuple[Tensor, tuple[int, ...]]] = []
    rows, width, count = encoded.pooled_RD.shape[0], encoder.width, encoder.granularities or 3
    if "time-and-space" in encoder.abilities:
        checks += [(x, (rows, width)) for x in encoded.time_and_space(GRID.joints)]
    if "granularities" in encoder.abilities:
        checks += [(x, (rows, count, width)) for x in encoded.granularities(GRID.joints, count)]
    if "steps" in encoder.abilities:
        steps = GRID.frames if encoded.by_frame else GRID.times
        checks += [(x, (rows, steps, x.shape[-1])) for x in (encoded.steps(GRID.joints),)]
    if encoder.summarizes:
        checks += [(run(encoder, views[0], summary=True).summary_RD, tuple(encoded.summary_RD.shape))]
    for x, shape in checks:
        if tuple(x.shape) != shape or not torch.isfinite(x).all():
            raise Failed(f"finite features of {list(shape)}", str(list(x.shape)), "levels of Encoded, or tokens_RND")


def kit(kind: str, host: Host, descriptor: Descriptor) -> tuple[EncoderSubject, Sequence[Check[EncoderSubject]]]:
    """Return the subject of the checks of an encoder, and the checks."""
    return EncoderSubject(host, descriptor), CHECKS


CHECKS: tuple[Check[EncoderSubject], ...] = (
    Check("form", "it derives from Encoder, states abilities and layers, and its settings survive a record", form),
    Check("shapes", "features have the stated shapes on every grid, in bfloat16 and in float64", shapes),
    Check("skeletons", "it works on several skeletons, or rejects one with an error message", skeletons),
    Check("deterministic", "in eval mode the same view gives the same features and stays as it is", deterministic),
    Check("clips-apart", "in eval mode other clips and empty body slots have no effect", clips_apart),
    Check("gradients", "every parameter gets a finite gradient", gradients),
    Check("state", "its state dict holds all that is drawn", state),
    Check("devices", "on a GPU it mixes no devices", devices),
    Check("cost", "three counters and its closed form agree on its cost within 1 %", cost),
    *(Check(x, f"it can {ABILITIES[x]}, if it says so", partial(dropping, x)) for x in ("drop-tokens", "drop-lines")),
    Check("replace-tokens", f"it can {ABILITIES['replace-tokens']}, if it says so", replace_tokens),
    Check("abilities", "it gives features by time, joint and step, and takes short views, if it says so", abilities),
)
