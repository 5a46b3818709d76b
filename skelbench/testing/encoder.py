"""Checks of encoders: what they say of themselves, and what a method or a probe may rely on.

R rows (bodies, or clips of an encoder that returns one row per clip), N tokens, D width.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from skelbench.cost.macs import count_encoder
from skelbench.errors import SkelbenchError, did_you_mean
from skelbench.evaluate.finetune_settings import layers_of
from skelbench.nn.encoder import ABILITIES, Encoded, Encoder, evaluating, lines
from skelbench.plugin.descriptors import Descriptor
from skelbench.plugin.host import Host
from skelbench.plugin.mistakes import Mistake
from skelbench.skeleton.grid import Grid
from skelbench.skeleton.topology import NTU25, Topology
from skelbench.spec import validated
from skelbench.testing.announcement import announcement
from skelbench.testing.check import Check, Failed, Skipped, rests_on
from skelbench.testing.clips import SKELETONS, differs, view_of
from skelbench.testing.fake_cuda import DEVICE, backward, fake_cuda, on_device, view_on_device
from skelbench.testing.settings import check_settings
from skelbench.views.streams import SINGLE
from skelbench.views.view import View

GRID = Grid(32, 8, NTU25.num_joints)
GRIDS = (GRID, Grid(16, 4, NTU25.num_joints), Grid(24, 8, NTU25.num_joints), Grid(64, 8, NTU25.num_joints))
VALID = ((1, 0), (1, 1), (1, 0))
"""Which bodies of three clips are there: four rows of encoders that see one body at a time."""
GRANULARITIES = 3
"""Asked of an encoder that makes them of its tokens."""
ROUNDING = 1e-4
"""Share of the largest feature by which two passes may differ that sum in another order."""


@dataclass
class EncoderSubject:
    """An encoder family at its smallest size: that of its preset ``quick`` where it has one."""

    host: Host
    descriptor: Descriptor
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Over those of the preset."""

    @cached_property
    def config(self) -> Any:
        """Validated settings."""
        values = dict(getattr(self.descriptor, "presets", {}).get("quick", {})) | dict(self.settings)
        return validated(self.host.config(self.descriptor), values, "encoder")

    @cached_property
    def cls(self) -> Any:
        """What the target names."""
        return self.host.load(self.descriptor)

    def make(self, grid: Grid = GRID, topology: Topology = NTU25, seed: int = 0) -> Encoder:
        """A freshly initialised encoder in eval mode."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.cls(self.config, topology, grid).eval()

    @cached_property
    def encoder(self) -> Encoder:
        """The one that most checks look at; none changes it."""
        return self.make()

    @cached_property
    def view(self) -> View:
        """Three clips, one with two bodies."""
        return self.make_view()

    def make_view(
        self, grid: Grid = GRID, topology: Topology = NTU25, valid: Sequence[Sequence[int]] = VALID, **fields: Any
    ) -> View:
        """A view as the encoder wants it."""
        return view_of(topology, grid, valid, **{"stream": self.encoder.stream, **fields})

    def needs(self, ability: str) -> Encoder:
        """An encoder prepared for ``ability``; skips the check if it does not claim it."""
        if ability not in self.encoder.abilities:
            raise Skipped(f"it does not claim {ability!r}")
        encoder = self.make()
        encoder.prepare(frozenset({ability}))
        return encoder


def _run(encoder: Encoder, view: View, **how: Any) -> Encoded:
    with evaluating(encoder):
        return encoder(view, **how)


def _outputs(encoded: Encoded) -> dict[str, Tensor]:
    named = {"tokens_RND": encoded.tokens_RND, "pooled_RD": encoded.pooled_RD, "cls_RD": encoded.cls_RD}
    named |= {f"levels[{name!r}]": level for name, level in encoded.levels.items()}
    return {name: x for name, x in named.items() if x is not None}


def _same(a: Encoded, b: Encoded, what: str, look: str, tolerance: float = ROUNDING) -> None:
    """Fails with ``what`` was expected where the outputs of two passes differ."""
    first, second = _outputs(a), _outputs(b)
    for name in second:
        if name not in first or (apart := differs(first[name], second[name], tolerance)):
            shapes = list(first[name].shape), list(second[name].shape)
            seen = f"{name} differs by {apart:.1%}" if shapes[0] == shapes[1] else f"{name} is {shapes[0]}, {shapes[1]}"
            raise Failed(what, seen, look)


# ------------------------------------------------------------------------------------------------ what it says
def settings(subject: EncoderSubject) -> None:
    check_settings(subject.host.config(subject.descriptor), subject.config.model_dump(), "encoder")


def form(subject: EncoderSubject) -> None:
    cls = subject.cls
    if not (isinstance(cls, type) and issubclass(cls, Encoder)):
        raise Failed("a subclass of skelbench.nn.encoder.Encoder", f"{cls!r}", "target of its EncoderSpec")
    encoder = subject.encoder
    for name in ("width", "features", "bodies", "summary_width"):
        value = getattr(encoder, name, None)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise Failed(f"{name}, a positive integer", repr(value), f"{cls.__name__}.__init__, which sets it")
    if unknown := sorted(frozenset(encoder.abilities) - ABILITIES.keys()):
        raise Failed(
            "abilities that skelbench knows", did_you_mean(unknown[0], list(ABILITIES), "ability"), "abilities"
        )
    own = {id(parameter) for parameter in encoder.parameters()}
    if any(id(parameter) not in own for parameter in encoder.stem()):
        raise Failed("stem() gives parameters of the encoder", "others are among them", f"{cls.__name__}.stem")
    layers_of(encoder)


def seeded(subject: EncoderSubject) -> None:
    first, again = subject.make(seed=3).state_dict(), subject.make(seed=3).state_dict()
    for name, value in first.items():
        if not torch.equal(value, again[name]):
            look = f"how {name} is initialised: by torch's global generator alone"
            raise Failed("the same weights from the same seed", f"{name} differs", look)
    other = subject.make(seed=4)
    drawn = [name for name, p in other.named_parameters() if not torch.equal(p, first[name])]
    if not drawn and any(p.requires_grad for p in other.parameters()):
        raise Failed("other weights from another seed", "all are the same", "a seed that is set while it is built")


# ------------------------------------------------------------------------------------------------ shapes
def _check_shapes(encoder: Encoder, view: View, encoded: Any) -> None:
    if not isinstance(encoded, Encoded):
        raise Failed("forward returns an Encoded", f"a {type(encoded).__name__}", "the end of forward")
    rows = view.count * view.clips if encoded.per_clip else view.rows
    what = "clips: per_clip is set" if encoded.per_clip else "present bodies"
    wanted = {"pooled_RD": (rows, encoder.features)}
    if encoder.has_class_token:
        wanted["cls_RD"] = (rows, encoder.width)
    elif encoded.cls_RD is not None:
        raise Failed("cls_RD only where has_class_token is set", "it is there", "has_class_token")
    outputs = _outputs(encoded)
    for name, shape in wanted.items():
        if name not in outputs or tuple(outputs[name].shape) != shape:
            seen = f"{list(outputs[name].shape)}" if name in outputs else "None"
            look = "features and width, which must be those of what forward returns"
            raise Failed(f"{name} of {list(shape)} ({rows} {what})", seen, look)
    tokens = tuple(encoded.tokens_RND.shape)
    if len(tokens) != 3 or (tokens[0], tokens[2]) != (rows, encoder.width):
        raise Failed(f"tokens_RND of [{rows}, N, {encoder.width}]", str(list(tokens)), "width, and the end of forward")
    for name, x in outputs.items():
        if x.shape[0] != rows:
            raise Failed(f"{rows} rows of {name}", str(list(x.shape)), "the end of forward")
        if not torch.isfinite(x).all():
            raise Failed(f"finite {name}", f"{(~torch.isfinite(x)).sum()} numbers are not", "forward")
    if encoded.summary_RD.shape[1] != encoder.summary_width:
        seen = f"{encoded.summary_RD.shape[1]}"
        raise Failed(f"summary_RD {encoder.summary_width} wide", seen, "summary_width and has_class_token")


def shapes(subject: EncoderSubject) -> None:
    for valid in (((1, 0),), ((1, 1),), ((1,), (1,)), VALID):
        view = subject.make_view(valid=valid)
        _check_shapes(subject.encoder, view, _run(subject.encoder, view))


def grids(subject: EncoderSubject) -> None:
    for grid in GRIDS:
        encoder = subject.make(grid)
        _check_shapes(encoder, view := subject.make_view(grid), _run(encoder, view))


def skeletons(subject: EncoderSubject) -> None:
    refused = []
    for topology in SKELETONS:
        grid = GRID._replace(joints=topology.num_joints)
        try:
            encoder = subject.make(grid, topology)
        except Mistake:
            raise
        except SkelbenchError as error:
            refused.append(str(error))
            continue
        _check_shapes(encoder, view := subject.make_view(grid, topology), _run(encoder, view))
    if len(refused) == len(SKELETONS):
        raise Failed("at least one of the skeletons ntu25 and coco17 fits", refused[0], "what it asks of a topology")


# ------------------------------------------------------------------------------------------------ what is relied on
def deterministic(subject: EncoderSubject) -> None:
    encoder, passes = subject.encoder, []
    for seed in (0, 1):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            passes.append(_run(encoder, subject.view))
    look = "dropout and noise, which must be off in eval mode"
    _same(passes[0], passes[1], "the same features twice in eval mode", look, tolerance=0)


def input_kept(subject: EncoderSubject) -> None:
    view, before = subject.make_view(), subject.view
    _run(subject.encoder, view)
    if not torch.equal(view.x_RTJC, before.x_RTJC):
        look = "operations in place (add_, relu_, inplace=True) on view.x_RTJC"
        raise Failed("the view as it was", "forward changed its coordinates", look)


def clips_apart(subject: EncoderSubject) -> None:
    rests_on(deterministic, subject, "deterministic")
    whole = _run(subject.encoder, subject.view)
    row = 0
    for clip, valid in enumerate(VALID):
        present = 1 if whole.per_clip else sum(valid)
        x_1MTJC = subject.view.x_BMTJC[clip : clip + 1]
        alone = View.of(x_1MTJC, torch.tensor([valid], dtype=torch.bool), stream=subject.view.stream)
        expected = {name: x[row : row + present] for name, x in _outputs(whole).items()}
        row += present
        for name, x in _outputs(_run(subject.encoder, alone)).items():
            if apart := differs(x, expected[name], ROUNDING):
                raise Failed(
                    "a clip has the same features alone and among others, in eval mode",
                    f"{name} of clip {clip} differs by {apart:.1%}",
                    "statistics over the batch: batch norm without running ones, a mean over rows",
                )


def absent_bodies(subject: EncoderSubject) -> None:
    rests_on(deterministic, subject, "deterministic")
    view = subject.make_view(valid=((1, 0),))
    without = View.of(view.x_BMTJC[:, :1], stream=view.stream)
    _same(
        _run(subject.encoder, without),
        _run(subject.encoder, view),
        "an empty body slot changes nothing",
        "how absent bodies are read: they are zeros",
    )


def nothing_moves(subject: EncoderSubject) -> None:
    encoder = subject.make().train()
    view = subject.view.with_x(torch.zeros_like(subject.view.x_RTJC))
    with torch.random.fork_rng(devices=[]):
        outputs = _outputs(encoder(view))
    total = sum((x.sum() for x in outputs.values()), torch.zeros(()))
    if total.requires_grad:
        total.backward()
    numbers = outputs | {f"the gradient of {n}": p.grad for n, p in encoder.named_parameters() if p.grad is not None}
    for name, x in numbers.items():
        if not torch.isfinite(x).all():
            look = "divisions and square roots: norms of bones and of motion can be 0"
            raise Failed("finite numbers for joints that all lie at the origin", f"{name} is not", look)


def gradients(subject: EncoderSubject) -> None:
    encoder = subject.make().train()
    if not any(p.requires_grad for p in encoder.parameters()):
        raise Skipped("it has no parameters")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        outputs = _outputs(encoder(subject.view)).values()
        torch.stack([(torch.randn_like(x) * x).sum() for x in outputs]).sum().backward()
    for name, parameter in encoder.named_parameters():
        if parameter.requires_grad and parameter.grad is None:
            raise Failed(
                "a gradient for every parameter",
                f"{name} gets none",
                "what its output goes into: a detach, or a layer that is built and not used (make it in prepare)",
            )
        if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
            raise Failed("finite gradients", f"that of {name} is not", "divisions, logarithms, square roots of 0")


def state(subject: EncoderSubject) -> None:
    rests_on(deterministic, subject, "deterministic")
    file, other = io.BytesIO(), subject.make(seed=5)
    torch.save(subject.encoder.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    what = "the same features from weights that were saved and loaded"
    look = "what is neither parameter nor buffer but was drawn: register it"
    _same(_run(other, subject.view), _run(subject.encoder, subject.view), what, look, tolerance=0)
    twin = copy.deepcopy(subject.encoder)
    _same(_run(twin, subject.view), _run(subject.encoder, subject.view), "a copy is the same", look, tolerance=0)


def prepared(subject: EncoderSubject) -> None:
    encoder = subject.make()
    bare = set(encoder.state_dict())
    before = torch.random.get_rng_state()
    encoder.prepare(frozenset(encoder.abilities))
    if not torch.equal(before, torch.random.get_rng_state()):
        torch.random.set_rng_state(before)
        look = "prepare: begin with constants, so that weights do not hang on what a method requires"
        raise Failed("prepare draws no random numbers", "it draws some", look)
    if more := sorted(set(encoder.state_dict()) - bare - set(encoder.prepared_state)):
        raise Failed("what prepare makes is named in prepared_state", f"{more[0]} is not", "prepared_state")
    encoder.prepare(frozenset())
    if rest := sorted(set(encoder.state_dict()) - bare):
        look = "prepare, which must take back what less does not need"
        raise Failed("prepare(frozenset()) leaves nothing but the encoder", f"{rest[0]} stays", look)


def bf16(subject: EncoderSubject) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        encoded = _run(subject.encoder, subject.view)
    _check_shapes(subject.encoder, subject.view, encoded)


def dtype(subject: EncoderSubject) -> None:
    for kind in (torch.float32, torch.float64):
        encoder = subject.make().to(kind)
        view = subject.view.with_x(subject.view.x_RTJC.to(kind))
        for name, x in _outputs(_run(encoder, view)).items():
            if x.dtype != kind:
                look = "tensors made in forward: give them dtype and device of the coordinates"
                raise Failed(f"{kind} in, {kind} out", f"{name} is {x.dtype}", look)


def cost(subject: EncoderSubject) -> None:
    count = count_encoder(subject.encoder, GRID, NTU25)  # SkelbenchError where counters or closed form disagree
    if count.macs == 0 and any(p.dim() > 1 for p in subject.encoder.parameters()):
        look = "operations that the counters do not see; see skelbench.cost.handles"
        raise Failed("more than 0 multiply-accumulates", "0", look)
    if "drop-tokens" in subject.encoder.abilities:
        count_encoder(subject.needs("drop-tokens"), GRID, NTU25, visible=GRID.tokens // 4)


def devices(subject: EncoderSubject) -> None:
    encoder, view = subject.make().train(), subject.view
    with fake_cuda():
        outputs = _outputs(on_device(encoder)(view_on_device(view)))
        for name, x in outputs.items():
            if x.device != DEVICE:
                raise Failed(f"{name} on the device of the view", f"it is on {x.device}", "tensors made in forward")
        total = sum((x.sum() for x in outputs.values()), torch.zeros((), device=DEVICE))
        if total.requires_grad:
            backward(total)


# ------------------------------------------------------------------------------------------------ abilities
def drop_tokens(subject: EncoderSubject) -> None:
    rests_on(deterministic, subject, "deterministic")
    encoder, view = subject.needs("drop-tokens"), subject.view
    keep_RK = torch.stack([torch.arange(row, GRID.tokens, 4) for row in range(view.rows)])
    _check_dropping(encoder, view, keep_RK, keep_RK, torch.arange(GRID.tokens).expand(view.rows, -1))


def drop_lines(subject: EncoderSubject) -> None:
    rests_on(deterministic, subject, "deterministic")
    encoder, view, rows = subject.needs("drop-lines"), subject.view, subject.view.rows
    patches_RP = torch.tensor([[0, 2], [1, 3], [2, 3], [0, 1]])[:rows]
    joints_RJ = torch.stack([torch.arange(row % 3, GRID.joints, 3)[:8] for row in range(rows)])
    keep_RPJ = lines(patches_RP, joints_RJ, GRID.joints)
    every_RPJ = lines(
        torch.arange(GRID.times).expand(rows, -1), torch.arange(GRID.joints).expand(rows, -1), GRID.joints
    )
    _check_dropping(encoder, view, keep_RPJ, keep_RPJ.flatten(1), every_RPJ)


def _check_dropping(encoder: Encoder, view: View, keep: Tensor, keep_RK: Tensor, every: Tensor) -> None:
    part = _run(encoder, view, keep_RK=keep)
    if "tokens" in encoder.abilities and part.tokens_RND.shape[1] != keep_RK.shape[1]:
        raise Failed(
            f"{keep_RK.shape[1]} tokens, the visible ones", str(part.tokens_RND.shape[1]), "keep_RK in forward"
        )
    look = "where keep_RK is applied: before anything mixes tokens"
    unseen = _run(encoder, _elsewhere(view, keep_RK, hidden=False), keep_RK=keep)
    _same(unseen, part, "tokens that are left out have no effect", look)
    _depends(_run(encoder, _elsewhere(view, keep_RK, hidden=True), keep_RK=keep), part, "tokens that stay", look)
    _same(_run(encoder, view, keep_RK=every), _run(encoder, view), "to keep every token is to leave none out", look)


def replace_tokens(subject: EncoderSubject) -> None:
    rests_on(deterministic, subject, "deterministic")
    encoder, view = subject.needs("replace-tokens"), subject.view
    for parameter in encoder.parameters():  # a mask token of zeros could not be told from content that is dropped
        if parameter.requires_grad and not parameter.any():
            torch.nn.init.constant_(parameter, 0.1)
    mask_RN = torch.zeros(view.rows, GRID.tokens, dtype=torch.bool)
    mask_RN[:, ::3] = True
    hidden_RK = mask_RN.nonzero()[:, 1].view(view.rows, -1)
    part = _run(encoder, view, mask_RN=mask_RN)
    look = "where mask_RN is applied: on the projected patches, before anything mixes tokens"
    if "tokens" in encoder.abilities and part.tokens_RND.shape[1] != GRID.tokens:
        raise Failed(f"all {GRID.tokens} tokens, hidden ones too", str(part.tokens_RND.shape[1]), look)
    unseen = _run(encoder, _elsewhere(view, hidden_RK, hidden=True), mask_RN=mask_RN)
    _same(unseen, part, "what stands at hidden tokens has no effect", look)
    _depends(_run(encoder, view), part, "the mask", look)
    plain = _run(encoder, view, mask_RN=torch.zeros_like(mask_RN))
    _same(plain, _run(encoder, view), "a mask that hides nothing changes nothing", look)


def _elsewhere(view: View, tokens_RK: Tensor, hidden: bool) -> View:
    """``view`` with other coordinates at ``tokens_RK`` (``hidden``), or at all others."""
    there_RN = torch.zeros(view.rows, GRID.tokens, dtype=torch.bool).scatter(1, tokens_RK, True)
    there_RPJ = (there_RN if hidden else ~there_RN).unflatten(1, (GRID.times, GRID.joints))
    there_RTJ1 = there_RPJ.repeat_interleave(GRID.patch, 1)[..., None]
    return view.with_x(torch.where(there_RTJ1, view.x_RTJC.flip(1, 3) + 0.5, view.x_RTJC))


def _depends(other: Encoded, encoded: Encoded, on: str, look: str) -> None:
    if not differs(other.pooled_RD, encoded.pooled_RD, 1e-7):
        raise Failed(f"features that depend on {on}", "they are the same whatever it is", look)


def tokens(subject: EncoderSubject) -> None:
    subject.needs("tokens")
    for grid in GRIDS:
        encoder, view = subject.make(grid), subject.make_view(grid)
        if (found := _run(encoder, view).tokens_RND.shape[1]) != grid.tokens:
            what = (
                f"{grid.times} x {grid.joints} = {grid.tokens} tokens of {grid.frames} frames, patches of {grid.patch}"
            )
            raise Failed(what, f"{found}", "tokens_RND: no class token, a token per joint and patch of frames")


def cells(subject: EncoderSubject) -> None:
    encoded = _run(subject.needs("cells"), subject.view)
    if (found := encoded.tokens_RND.shape[1]) % GRID.joints or not found:
        raise Failed(f"stretches of frames times {GRID.joints} joints", f"{found} tokens", "tokens_RND")
    if "tokens" in subject.encoder.abilities:  # which has a readout of its own
        return
    if apart := differs(encoded.pooled_RD, encoded.tokens_RND.mean(1), ROUNDING):
        raise Failed("pooled_RD, the mean of the cells", f"they differ by {apart:.1%}", "pooled_RD")


def time_and_space(subject: EncoderSubject) -> None:
    encoder = subject.needs("time-and-space")
    encoded = _run(encoder, subject.view)
    time_RD, space_RD = encoded.time_and_space(GRID.joints)
    shape = (encoded.pooled_RD.shape[0], encoder.width)
    for name, x in (("time", time_RD), ("space", space_RD)):
        if tuple(x.shape) != shape or not torch.isfinite(x).all():
            look = "levels 'time' and 'space', or tokens by patch and joint"
            raise Failed(f"a finite feature over {name} of {list(shape)}", str(list(x.shape)), look)
    if not differs(time_RD, space_RD):
        raise Failed("features over time apart from those over joints", "they are the same", "levels of Encoded")


def granularities(subject: EncoderSubject) -> None:
    encoder = subject.needs("granularities")
    encoded = _run(encoder, subject.view)
    rows, count = encoded.pooled_RD.shape[0], encoder.granularities or GRANULARITIES
    for name, x in zip(("time", "space"), encoded.granularities(GRID.joints, count)):
        if tuple(x.shape) != (rows, count, encoder.width) or not torch.isfinite(x).all():
            expected = f"finite features over {name} of {[rows, count, encoder.width]}"
            raise Failed(expected, str(list(x.shape)), "levels 'times' and 'spaces', or tokens by patch and joint")
        if not differs(x[:, 0], x[:, 1]):
            raise Failed(
                f"finer features over {name} apart from coarser ones", "they are the same", "levels of Encoded"
            )


def steps(subject: EncoderSubject) -> None:
    encoder = subject.needs("steps")
    encoded = _run(encoder, subject.view)
    wanted = GRID.frames if encoded.by_frame else GRID.times
    if (found := encoded.steps(GRID.joints).shape[1]) != wanted:
        raise Failed(f"features at {wanted} steps of {GRID.frames} frames", f"{found}", "tokens_RND, by_frame")


def short_views(subject: EncoderSubject) -> None:
    encoder = subject.needs("short-views")
    for frames in range(GRID.patch, GRID.frames, GRID.patch):
        view = subject.make_view(GRID.at(frames))
        encoded = _run(encoder, view)
        _check_shapes(encoder, view, encoded)
        if "tokens" in encoder.abilities and encoded.tokens_RND.shape[1] != GRID.at(frames).tokens:
            seen = str(encoded.tokens_RND.shape[1])
            raise Failed(f"{GRID.at(frames).tokens} tokens of a view of {frames} frames", seen, "tokens_RND")


def summary(subject: EncoderSubject) -> None:
    if not subject.encoder.summarises:
        raise Skipped("it makes no summary alone")
    views = [subject.view]
    if "short-views" in subject.encoder.abilities:
        views.append(subject.make_view(GRID.at(GRID.patch)))
    for view in views:
        whole, brief = (_run(subject.encoder, view, **how) for how in ({}, {"summary": True}))
        if apart := differs(whole.summary_RD, brief.summary_RD, ROUNDING):
            raise Failed("the summary of the whole pass", f"it differs by {apart:.1%}", "forward(..., summary=True)")


def fuse_streams(subject: EncoderSubject) -> None:
    encoder = subject.needs("fuse-streams")
    for stream in ("fused", *SINGLE):
        view = replace(subject.view, stream=stream)
        _check_shapes(encoder, view, _run(encoder, view))


CHECKS: tuple[Check[EncoderSubject], ...] = (
    announcement(summary="which `skelbench plugins list` shows"),
    Check(
        "form",
        "it derives from Encoder and says what it can do, how wide its features are and which layers it has",
        form,
    ),
    Check("settings", "its settings survive a record, and unknown ones are refused", settings),
    Check("seeded", "a seed decides its initial weights", seeded),
    Check("shapes", "features have the shapes it states, of clips with one body and with two", shapes),
    Check("grids", "it works on token grids of several lengths and patches", grids),
    Check("skeletons", "it works on several skeletons, or refuses one in a sentence", skeletons),
    Check("deterministic", "in eval mode the same view gives the same features", deterministic),
    Check("input-kept", "it leaves the view as it is", input_kept),
    Check("clips-apart", "in eval mode a clip does not see the others of its batch", clips_apart),
    Check("absent-bodies", "a body slot that is empty has no effect", absent_bodies),
    Check("nothing-moves", "bodies whose joints all lie at the origin give finite numbers", nothing_moves),
    Check("gradients", "every parameter gets a gradient", gradients),
    Check("state", "its state dict holds all of it, and a copy is the same", state),
    Check("prepared", "prepare makes what is required and nothing else", prepared),
    Check("bf16", "in bfloat16 shapes are the same and all is finite", bf16),
    Check("dtype", "features have the dtype of coordinates and weights", dtype),
    Check("devices", "on a GPU all of it is there, and nothing waits for the host", devices),
    Check("cost", "all counters, and its closed form, agree on its cost within 1 %", cost),
    Check("drop-tokens", f"it can {ABILITIES['drop-tokens']}, if it says so", drop_tokens),
    Check("drop-lines", f"it can {ABILITIES['drop-lines']}, if it says so", drop_lines),
    Check("replace-tokens", f"it can {ABILITIES['replace-tokens']}, if it says so", replace_tokens),
    Check("tokens", f"it can {ABILITIES['tokens']}, if it says so", tokens),
    Check("cells", f"it can {ABILITIES['cells']}, if it says so", cells),
    Check("time-and-space", f"it can {ABILITIES['time-and-space']}, if it says so", time_and_space),
    Check("granularities", f"it can {ABILITIES['granularities']}, if it says so", granularities),
    Check("steps", f"it can {ABILITIES['steps']}, if it says so", steps),
    Check("short-views", f"it can {ABILITIES['short-views']}, if it says so", short_views),
    Check("summary", "a pass of which only the summary is asked gives that of the whole pass", summary),
    Check("fuse-streams", f"it can {ABILITIES['fuse-streams']}, if it says so", fuse_streams),
)


def kit(
    host: Host, descriptor: Descriptor, settings: Mapping[str, Any] | None = None
) -> tuple[EncoderSubject, Sequence[Check[EncoderSubject]]]:
    """What is checked of an encoder, and its checks. ``settings``: over those of its preset ``quick``."""
    return EncoderSubject(host, descriptor, settings or {}), CHECKS
