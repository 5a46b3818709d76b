"""Interface of encoders: attributes, input and output. The shipped ViT is in :mod:`skelbench.models.vit`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import Stream
from skelbench.plugin.plugin_errors import lacking, wrong
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import Topology
from skelbench.views.view import View

ABILITIES: Mapping[str, str] = {
    "drop-tokens": "encode only some of the tokens",
    "drop-lines": "skip whole joints and whole patches of frames",
    "replace-tokens": "replace tokens by a mask token",
    "tokens": "return a token per joint and patch of frames",
    "cells": "return features by joint and stretch of frames, and their mean as readout",
    "time-and-space": "return separate features over time and over joints",
    "granularities": "return both for finer and coarser stretches of frames and groups of joints",
    "steps": "return features of each patch of frames, or of each frame",
    "short-views": "encode views with fewer frames than the grid",
    "fuse-streams": "take joints, bones and motion as one input",
}
"""Abilities that an encoder may have and a method may require (``MethodSpec.requires``)."""


@dataclass(frozen=True)
class Encoded:
    """Output of an encoder: one entry per present body (R rows), or per clip if ``per_clip``.

    >>> encoded = Encoded(tokens_RND=torch.randn(2, 50, 8), pooled_RD=torch.randn(2, 16), cls_RD=torch.randn(2, 8))
    >>> encoded.summary_RD.shape, sorted(encoded.readouts)
    (torch.Size([2, 8]), ['cls', 'pooled'])
    """

    tokens_RND: Tensor
    """Features after the final norm: all N tokens of the grid, or the K visible ones. With only the ability "cells":
    T' x J stretches, time-major; frames if ``by_frame``; otherwise any sequence, or none (N = 0)."""
    pooled_RD: Tensor
    """Readout used downstream (may be wider than D, for example class token and mean token concatenated)."""
    cls_RD: Tensor | None = None
    per_clip: bool = False
    by_frame: bool = False
    """Whether tokens are the T frames, without positions of joints."""
    levels: Mapping[str, Tensor] = field(default_factory=dict)
    """Further readouts by name, with rows as in ``pooled_RD``; the setting ``readout`` of an evaluation chooses one."""

    @property
    def summary_RD(self) -> Tensor:
        """Summary of the view in one vector: the class token, or the readout of an encoder without one."""
        return self.pooled_RD if self.cls_RD is None else self.cls_RD

    def clip_summary(self, view: View) -> Tensor:
        """:attr:`summary_RD` with one entry per view of a clip, [count * B, D]."""
        return self.of_clips(self.summary_RD, view)

    def of_clips(self, x_RD: Tensor, view: View) -> Tensor:
        """Feature ``x_RD`` with one entry per view of a clip, [count * B, D]: the mean over present bodies."""
        return x_RD if self.per_clip else view.per_clip(x_RD)

    def time_and_space(self, joints: int) -> tuple[Tensor, Tensor]:
        """[R, D] each ("time-and-space"): readouts ``time`` and ``space`` of two branches; else the maximum over
        patches of the tokens' mean over ``joints``, and the maximum over joints of their mean over patches."""
        if "time" in self.levels:
            return self.levels["time"], self.levels["space"]
        tokens_RPJD = self.tokens_RND.unflatten(1, (-1, joints))
        return tokens_RPJD.mean(2).amax(1), tokens_RPJD.mean(1).amax(1)

    def granularities(self, joints: int, count: int) -> tuple[Tensor, Tensor]:
        """[R, G, D] over time and over joints at G granularities, the finest first ("granularities").

        Readouts ``times`` and ``spaces`` ([R, G * D]); else ``count`` maxima of the tokens' mean over ``joints``, and
        over patches; each granularity averages pairs of neighbors of the finer one and drops an unpaired last one.
        """
        if "times" in self.levels:
            times_RGD, spaces_RGD = (
                self.levels[name].unflatten(1, (-1, self.tokens_RND.shape[2])) for name in ("times", "spaces")
            )
            return times_RGD, spaces_RGD
        tokens_RPJD = self.tokens_RND.unflatten(1, (-1, joints))
        return _coarser(tokens_RPJD.mean(2), count), _coarser(tokens_RPJD.mean(1), count)

    def steps(self, joints: int) -> Tensor:
        """[R, S, D] ("steps"): frames, or the mean over ``joints`` of the tokens of each patch of frames."""
        return self.tokens_RND if self.by_frame else self.tokens_RND.unflatten(1, (-1, joints)).mean(2)

    @property
    def readouts(self) -> dict[str, Tensor]:
        """Features of a whole view: ``cls``, if it has one, and ``pooled``."""
        return {name: x for name, x in {"cls": self.cls_RD, "pooled": self.pooled_RD}.items() if x is not None}


def _coarser(x_RnD: Tensor, count: int) -> Tensor:
    """Return [R, count, D]: maxima of means over more and more neighbors."""
    pooled = [x_RnD.amax(1)]
    for _ in range(count - 1):
        pairs = x_RnD.shape[1] // 2
        x_RnD = x_RnD[:, : 2 * pairs].unflatten(1, (pairs, 2)).mean(2) if pairs else x_RnD
        pooled.append(x_RnD.amax(1))
    return torch.stack(pooled, 1)


class Standardization(NamedTuple):
    """Constants that standardize x, y, z, in meters: (x - mean) / std.

    >>> Standardization(mean=(0.0, 0.0, 0.0), std=(0.4, 0.4, 0.4)).std
    (0.4, 0.4, 0.4)
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]


class Encoder(nn.Module):
    """Base class of encoder plugins: ``__init__(config, topology, grid)``, with an empty config if it has no settings.

    A subclass sets ``width`` and ``features``, lists its ``abilities`` and implements :meth:`forward`.

    >>> class Flat(Encoder):
    ...     def __init__(self, config, topology, grid):
    ...         super().__init__(config, topology, grid)
    ...         self.width = self.features = 8
    ...         self.project = nn.Linear(grid.frames * grid.joints * 3, self.width)
    ...
    ...     def forward(self, view, mask_RN=None, keep_RK=None):
    ...         pooled_RD = self.project(view.x_RTJC.flatten(1))
    ...         return Encoded(tokens_RND=pooled_RD[:, :0, None], pooled_RD=pooled_RD)
    >>> from skelbench.views.skeleton.topology import NTU25
    >>> encoder = Flat(None, NTU25, Grid(frames=16, patch=8, joints=25))
    >>> encoder(View.of(torch.randn(2, 1, 16, 25, 3))).pooled_RD.shape, encoder.summary_width
    (torch.Size([2, 8]), 8)
    """

    abilities: frozenset[str] = frozenset()
    """Names from :data:`ABILITIES`."""
    width: int
    """D of tokens."""
    features: int
    """Width of ``pooled_RD``."""
    has_class_token: bool = False
    """Whether it returns ``cls_RD``."""
    summarizes: bool = False
    """Whether its ``forward`` takes ``summary=True``: the caller will read only ``summary_RD``. The encoder then
    computes less and returns the summary as ``pooled_RD``. Other encoders never get the argument."""
    bodies: int = 1
    """Number of bodies in one pass: the body slots of an encoder that returns one row per clip."""
    granularities: int = 0
    """Number of granularities that the encoder itself has; 0 = the method's number, computed from the tokens."""
    prepared_state: tuple[str, ...] = ()
    """Names in its state dict of tensors from :meth:`prepare`; weights of the same encoder may lack them."""

    def __init__(self, config: Any, topology: Topology, grid: Grid) -> None:
        super().__init__()
        self.config, self.topology, self.grid = config, topology, grid

    @property
    def summary_width(self) -> int:
        """Width of ``Encoded.summary_RD``."""
        return self.width if self.has_class_token else self.features

    @property
    def stream(self) -> Stream:
        """Stream of the default input: all streams, if the encoder can take them."""
        return "fused" if "fuse-streams" in self.abilities else "joint"

    @property
    def standardization(self) -> Standardization | None:
        """Constants that standardize coordinates first; None = coordinates are used unchanged."""
        return None

    def prepare(self, requires: frozenset[str]) -> None:
        """Create the parts that ``requires`` needs beyond the encoder, such as a mask token for "replace-tokens".

        Called after construction, with a subset of ``abilities``; it draws no random numbers. A method that needs
        less may call it again with a smaller set.
        """

    def stem(self) -> tuple[nn.Parameter, ...]:
        """Return the parameters that project the input; some methods train them more slowly (DINOv2)."""
        return ()

    def layers(self) -> Sequence[Iterable[nn.Parameter]]:
        """Return all parameters in groups from the input to the last layer, each once, for layer decay; the last
        group is trained like the classifier. One group: one rate for all."""
        return (self.parameters(),)

    def set_drop_path(self, rate: float) -> bool:
        """Drop residual branches of rows in training (stochastic depth), with a probability from 0 in the first
        block to ``rate`` in the last. Return False if the encoder never drops anything.
        """
        return False

    def forward(self, view: View, mask_RN: Tensor | None = None, keep_RK: Tensor | None = None) -> Encoded:
        """Encode the present bodies of ``view``.

        ``mask_RN`` (bool [R, N]) replaces masked tokens by the mask token; ``keep_RK`` (int64 [R, K], ascending)
        drops all other tokens. At most one of the two. N follows the view, which may be shorter than the grid's T.
        For "drop-lines", ``keep_RK`` has three dimensions, [R, P', J']: the tokens of P' patches of frames and J'
        joints, from :func:`lines`.
        """
        raise lacking(self, "forward(self, view)")

    def __call__(self, view: View, *args: Any, summary: bool = False, **options: Any) -> Encoded:
        """Call :meth:`forward`; raise SkelbenchError if the result is not an :class:`Encoded`, or its rows or widths
        differ from the declared ones. ``summary``: the caller will read only ``summary_RD``."""
        summary = summary and self.summarizes
        encoded = super().__call__(view, *args, **options, **({"summary": True} if summary else {}))
        if not torch.jit.is_tracing():
            self._check(encoded, view, summary)
        return encoded

    def _check(self, encoded: Any, view: View, summary: bool) -> None:
        if not isinstance(encoded, Encoded):
            message = f"returned a {type(encoded).__name__}, not an Encoded(tokens_RND=..., pooled_RD=...)"
            raise wrong(self.forward, message)
        rows = view.count * view.clips if encoded.per_clip else view.rows
        kind = "views of clips, as per_clip says" if encoded.per_clip else "bodies in the view"
        pooled = self.summary_width if summary else self.features
        for name, width in {"pooled_RD": pooled, "cls_RD": self.width, "tokens_RND": self.width}.items():
            x = getattr(encoded, name)
            shape: list[Any] = list(getattr(x, "shape", []))
            right: list[Any] = [rows, width]
            if name == "tokens_RND":
                right.insert(1, shape[1] if len(shape) == 3 else "N")
            none = x is None if name == "cls_RD" else right[1] == 0
            if shape != right and not none:
                raise wrong(self.forward, f"returned {name} of shape {shape}, not {right}: {rows} rows ({kind})")

    def closed_form_macs(self, grid: Grid, visible: int | None = None) -> dict[str, int]:
        """Multiply-accumulates of matrix products for one pass (:attr:`bodies`), by part ("embed", "attention", ...).

        ``visible``: encode only that many tokens (the patch embedding still sees all N). Empty = no closed form.
        """
        return {}


def lines(patches_RP: Tensor, joints_RJ: Tensor, joints: int) -> Tensor:
    """int64 [R, P', J']: tokens of the given patches of frames and joints, both ascending, of a grid of ``joints``.

    >>> lines(torch.tensor([[0, 2]]), torch.tensor([[1, 3]]), joints=25)
    tensor([[[ 1,  3],
             [51, 53]]])
    """
    return patches_RP[:, :, None] * joints + joints_RJ[:, None, :]


def side_by_side(view: View, bodies: int) -> Tensor:
    """float32 [count * B, M, T, J, 3] with M = ``bodies`` slots, zeros where there is no body.

    Raises:
        SkelbenchError: the dataset's clips have more.

    >>> side_by_side(View.of(torch.ones(2, 1, 16, 25, 3)), bodies=2).shape
    torch.Size([2, 2, 16, 25, 3])
    """
    x_BMTJC = view.x_BMTJC
    if view.bodies > bodies:
        raise SkelbenchError(
            f"clips have {view.bodies} bodies but this encoder reads {bodies} side by side; "
            f"give --set encoder.bodies={view.bodies}"
        )
    return torch.cat([x_BMTJC, x_BMTJC.new_zeros(x_BMTJC.shape[0], bodies - view.bodies, *x_BMTJC.shape[2:])], 1)


def real_frames(view: View) -> Tensor | None:
    """Mask of the frames of each clip that are not padding, bool [count * B, T]; None = nothing is padded.

    >>> view = View.of(torch.ones(2, 1, 4, 25, 3), real_RT=torch.tensor([[True] * 4, [True] * 3 + [False]]))
    >>> real_frames(view).sum(1)
    tensor([4, 3])
    """
    if view.real_RT is None:
        return None
    real_GT = view.real_RT.new_zeros(view.count * view.clips * view.bodies, view.real_RT.shape[1])
    return real_GT.index_copy(0, view.rows_R, view.real_RT).unflatten(0, (-1, view.bodies)).any(1)


@contextmanager
def evaluating(encoder: nn.Module) -> Iterator[None]:
    """Context with ``encoder`` in eval mode and without gradients; afterwards each module has its earlier mode.

    >>> dropout = nn.Dropout(0.5)
    >>> with evaluating(dropout):
    ...     print(dropout.training)
    False
    >>> dropout.training
    True
    """
    modes = [(module, module.training) for module in encoder.modules()]
    encoder.eval()
    try:
        with torch.no_grad():  # not inference_mode: tables that an encoder caches here must stay usable in training
            yield
    finally:
        for module, mode in modes:
            module.training = mode
