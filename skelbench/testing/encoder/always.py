"""What every encoder does: what it says of itself, and what a method or a probe may rely on.

R rows (bodies, or clips of an encoder that returns one row per clip), N tokens, D width.
"""

from __future__ import annotations

import copy
import io
from typing import Any

import torch

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.evaluation.cost.macs import count_encoder
from skelbench.evaluation.finetune_settings import layers_of
from skelbench.models.encoder import ABILITIES, Encoded, Encoder
from skelbench.plugin.plugin_errors import Mistake
from skelbench.testing.check import Failed, Skipped, rests_on
from skelbench.testing.clips import SKELETONS, differs, twice
from skelbench.testing.encoder.subject import GRID, GRIDS, ROUNDING, VALID, EncoderSubject, check_same, outputs_of, run
from skelbench.testing.fake_cuda import DEVICE, backward, fake_cuda, on_device, view_on_device
from skelbench.testing.settings import check_presets, check_settings
from skelbench.views.skeleton.topology import NTU25
from skelbench.views.view import View


def settings(subject: EncoderSubject) -> None:
    cls = subject.host.config(subject.descriptor)
    check_presets(cls, getattr(subject.descriptor, "presets", {}), "presets of its EncoderSpec")
    check_settings(cls, subject.config.model_dump(), "encoder")


def form(subject: EncoderSubject) -> None:
    cls = subject.cls
    if not (isinstance(cls, type) and issubclass(cls, Encoder)):
        raise Failed("a subclass of skelbench.models.encoder.Encoder", f"{cls!r}", "target of its EncoderSpec")
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
def check_shapes(encoder: Encoder, view: View, encoded: Any) -> None:
    if not isinstance(encoded, Encoded):
        raise Failed("forward returns an Encoded", f"a {type(encoded).__name__}", "the end of forward")
    rows = view.count * view.clips if encoded.per_clip else view.rows
    what = "clips: per_clip is set" if encoded.per_clip else "present bodies"
    wanted = {"pooled_RD": (rows, encoder.features)}
    if encoder.has_class_token:
        wanted["cls_RD"] = (rows, encoder.width)
    elif encoded.cls_RD is not None:
        raise Failed("cls_RD only where has_class_token is set", "it is there", "has_class_token")
    outputs = outputs_of(encoded)
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
        check_shapes(subject.encoder, view, run(subject.encoder, view))


def grids(subject: EncoderSubject) -> None:
    for grid in GRIDS:
        encoder = subject.make(grid)
        check_shapes(encoder, view := subject.make_view(grid), run(encoder, view))


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
        check_shapes(encoder, view := subject.make_view(grid, topology), run(encoder, view))
    if len(refused) == len(SKELETONS):
        raise Failed("at least one of the skeletons ntu25 and coco17 fits", refused[0], "what it asks of a topology")


# ------------------------------------------------------------------------------------------------ what is relied on
def deterministic(subject: EncoderSubject) -> None:
    passes = twice(lambda: run(subject.encoder, subject.view))
    look = "dropout and noise, which must be off in eval mode"
    check_same(*passes, "the same features twice in eval mode", look, tolerance=0)


def input_kept(subject: EncoderSubject) -> None:
    view, before = subject.make_view(), subject.view
    run(subject.encoder, view)
    if not torch.equal(view.x_RTJC, before.x_RTJC):
        look = "operations in place (add_, relu_, inplace=True) on view.x_RTJC"
        raise Failed("the view as it was", "forward changed its coordinates", look)


def clips_apart(subject: EncoderSubject) -> None:
    rests_on(deterministic, subject, "deterministic")
    whole = run(subject.encoder, subject.view)
    row = 0
    for clip, valid in enumerate(VALID):
        present = 1 if whole.per_clip else sum(valid)
        x_1MTJC = subject.view.x_BMTJC[clip : clip + 1]
        alone = View.of(x_1MTJC, torch.tensor([valid], dtype=torch.bool), stream=subject.view.stream)
        expected = {name: x[row : row + present] for name, x in outputs_of(whole).items()}
        row += present
        for name, x in outputs_of(run(subject.encoder, alone)).items():
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
    check_same(
        run(subject.encoder, without),
        run(subject.encoder, view),
        "an empty body slot changes nothing",
        "how absent bodies are read: they are zeros",
    )


def nothing_moves(subject: EncoderSubject) -> None:
    encoder = subject.make().train()
    view = subject.view.with_x(torch.zeros_like(subject.view.x_RTJC))
    with torch.random.fork_rng(devices=[]):
        outputs = outputs_of(encoder(view))
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
        outputs = outputs_of(encoder(subject.view)).values()
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
    check_same(run(other, subject.view), run(subject.encoder, subject.view), what, look, tolerance=0)
    twin = copy.deepcopy(subject.encoder)
    check_same(run(twin, subject.view), run(subject.encoder, subject.view), "a copy is the same", look, tolerance=0)


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
        encoded = run(subject.encoder, subject.view)
    check_shapes(subject.encoder, subject.view, encoded)


def dtype(subject: EncoderSubject) -> None:
    for kind in (torch.float32, torch.float64):
        encoder = subject.make().to(kind)
        view = subject.view.with_x(subject.view.x_RTJC.to(kind))
        for name, x in outputs_of(run(encoder, view)).items():
            if x.dtype != kind:
                look = "tensors made in forward: give them dtype and device of the coordinates"
                raise Failed(f"{kind} in, {kind} out", f"{name} is {x.dtype}", look)


def cost(subject: EncoderSubject) -> None:
    count = count_encoder(subject.encoder, GRID, NTU25)  # SkelbenchError where counters or closed form disagree
    if count.macs == 0 and any(p.dim() > 1 for p in subject.encoder.parameters()):
        look = "operations that the counters do not see; see skelbench.evaluation.cost.handles"
        raise Failed("more than 0 multiply-accumulates", "0", look)
    if "drop-tokens" in subject.encoder.abilities:
        count_encoder(subject.needs("drop-tokens"), GRID, NTU25, visible=GRID.tokens // 4)


def devices(subject: EncoderSubject) -> None:
    encoder, view = subject.make().train(), subject.view
    with fake_cuda():
        outputs = outputs_of(on_device(encoder)(view_on_device(view)))
        for name, x in outputs.items():
            if x.device != DEVICE:
                raise Failed(f"{name} on the device of the view", f"it is on {x.device}", "tensors made in forward")
        total = sum((x.sum() for x in outputs.values()), torch.zeros((), device=DEVICE))
        if total.requires_grad:
            backward(total)
