"""Clip features of a frozen encoder.

Shapes: n clips in all, B clips of a batch, M body slots, R present bodies (rows), D feature width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from skelbench.core import distributed
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.hashing import derive_seed
from skelbench.core.spec import EvaluationResize, Pooling
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.source import ClipSource
from skelbench.data.store.splits import Split
from skelbench.evaluation.hidden import Hiding, encode
from skelbench.evaluation.preprocessing import Preprocessing
from skelbench.evaluation.protocol import Features, Progress
from skelbench.models.encoder import Encoded, evaluating
from skelbench.views.augmentations import Augment
from skelbench.views.builder import ViewBuilder
from skelbench.views.clips import ClipBatch
from skelbench.views.crops import Center, Crop, Resize
from skelbench.views.keyed import Keyed
from skelbench.views.prefetch import prefetched
from skelbench.views.skeleton.grid import Grid
from skelbench.views.spec import ViewSpec
from skelbench.views.transfer import fetch
from skelbench.views.view import View

Builder = Callable[[ClipBatch, Any], dict[str, View]]
"""``builder(batch, keyed)`` returns one view named "eval", one per clip (a ViewBuilder)."""

BATCH = 256
UNDRAWN = Keyed(0, 0)
"""Key of views in which nothing is random."""


@dataclass(frozen=True)
class PreparedClips:
    """Clips of a store as encoders see them in evaluation."""

    store: ClipStore
    look: Preprocessing
    grid: Grid
    device: torch.device
    precision: Literal["fp32", "bf16"] = "fp32"
    """Autocast type of the forward pass."""
    hiding: Hiding = ""
    """Way in which the encoder learned to work with missing tokens; "" = it did not."""
    min_confidence: float = 0.0
    """Tokens below this mean confidence are hidden from the encoder."""

    @cached_property
    def source(self) -> ClipSource:
        """The clips on their way to the device, copied and aligned once."""
        return ClipSource(self.store, self.device, second_body=self.look.second_body, align=self.look.align)

    def builder(
        self,
        crop: Crop | None = None,
        augment: tuple[Augment, ...] = (),
        resize: EvaluationResize | None = None,
        change: Callable[[View], View] | None = None,
    ) -> Builder:
        """Maker of one view per clip, named "eval"; without arguments as in evaluation. ``change`` is
        applied to the view.

        Random crops draw their frames where an evaluation takes the first frame of each bin."""
        look, how_resized = self.look, resize or self.look.resize
        drawn: Resize = "release" if crop is not None and how_resized == "bin-starts" else how_resized
        crop = crop or Center(share=look.share)
        view = ViewSpec(frames=self.grid.frames, crop=crop, augment=augment, resize=drawn, stream=look.stream)
        how = look.bodies, self.device, look.center, look.dimensions
        build = ViewBuilder({"eval": view}, self.store.topology, self.grid.patch, *how)
        return (lambda batch, keyed: {"eval": change(build(batch, keyed)["eval"])}) if change else build

    def views(self, ids: np.ndarray, batch_size: int | None = None) -> Iterator[View]:
        """Views of the clips ``ids`` as evaluated, batch by batch, on the device."""
        build, size = self.builder(), batch_size or BATCH
        for start in range(0, len(ids), size):
            yield build(self.source.gather(ids[start : start + size]), UNDRAWN)["eval"].to(self.device)

    def clip_features(
        self,
        encoder: nn.Module,
        view: View,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> Tensor:
        """float32 [B, D] (D times M for "concat"), with gradient. ``dropout``, drawn by ``generator``, zeroes numbers
        of tokens before these are averaged. ``options`` go to the encoder."""
        if dropout and self.min_confidence and self.hiding == "drop-tokens":
            raise SkelbenchError(
                "this protocol applies dropout to tokens, which --min-confidence removes from some bodies; leave out "
                "--min-confidence"
            )
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16"):
            encoded = encode(encoder, view, self.hiding, self.grid.patch, self.min_confidence, **options)
        encoded = read_out(encoded, self.look.readout, self.grid, dropout, generator)
        return pool_bodies(encoded, view, self.look.bodies_pool)

    def features(
        self,
        encoder: nn.Module,
        ids: np.ndarray,
        builder: Builder | None = None,
        source: ClipSource | None = None,
        keyed: Keyed = UNDRAWN,
        dropout: float = 0.0,
        noisy: bool = False,
        progress: Progress | None = None,
        batch_size: int | None = None,
    ) -> np.ndarray:
        """Features of the clips ``ids``: float32 [n, D]; row i belongs to ``ids[i]``.

        The encoder runs in eval mode without gradients; its mode is restored. ``keyed`` goes to the builder and seeds
        dropout along ``ids``. ``noisy``: all layers but batch norm are in training mode. Processes share the clips,
        unless features are drawn along ``ids``.
        """
        ids, source, builder = np.asarray(ids, dtype=np.int64), source or self.source, builder or self.builder()
        noise, size = None, batch_size or BATCH
        if dropout:
            noise = torch.Generator(self.device).manual_seed(derive_seed("dropout", keyed.seed, keyed.step))
        features: list[Tensor] = []
        starts, shared = range(0, len(ids), size), False
        if not dropout and not noisy:
            starts, shared = distributed.own_pieces(len(ids), size)
        end = min(starts.stop, len(ids))
        with evaluating(encoder), drawing(encoder, keyed, self.device) if noisy else nullcontext():
            batches = prefetched(lambda i: builder(source.gather(ids[i : i + size]), keyed), starts, self.device)
            for start, views in batches:
                features.append(self.clip_features(encoder, views["eval"].to(self.device), dropout, noise))
                if progress:
                    clips_done, clips_total = min(start + size, end) - starts.start, end - starts.start
                    progress(clips_done * len(ids) // clips_total, len(ids))
        if not features:
            return np.zeros((0, 0), dtype=np.float32)
        x_nD = torch.cat(features)
        return fetch(distributed.gather(x_nD) if shared else x_nD).numpy()


def split_features(encoder: nn.Module, clips: PreparedClips, split: Split, report: Progress | None = None) -> Features:
    """Features of the training and test clips of ``split``; ``report`` counts clips of one side, then of the other."""
    store = clips.store

    def again(
        keyed: Keyed,
        crop: Crop,
        augment: tuple[Augment, ...],
        dropout: float = 0.0,
        progress: Progress | None = None,
        noisy: bool = False,
    ) -> np.ndarray:
        builder = clips.builder(crop, augment)
        return clips.features(encoder, split.train, builder, None, keyed, dropout, noisy, progress)

    return Features(
        train_x=clips.features(encoder, split.train, progress=report),
        train_y=store.labels[split.train],
        test_x=clips.features(encoder, split.test, progress=report),
        test_y=store.labels[split.test],
        train_ids=split.train,
        test_ids=split.test,
        num_classes=store.num_classes,
        again=again,
        train_subjects=store.index["subject"][split.train],
    )


@contextmanager
def drawing(encoder: nn.Module, keyed: Keyed, device: torch.device) -> Iterator[None]:
    """Context with all of ``encoder`` but batch norm in training mode, and torch's generators seeded by ``keyed``. Use
    it within :func:`~skelbench.models.encoder.evaluating`, which restores modes."""
    for module in encoder.modules():
        module.training = not isinstance(module, _BatchNorm)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(derive_seed("noise", keyed.seed, keyed.step))
        yield


def read_out(
    encoded: Encoded,
    readout: str,
    grid: Grid | None = None,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
) -> Encoded:
    """``encoded`` with the features of ``readout`` as ``pooled_RD``: D wide, J * D for "joints".

    "pooled" is the encoder's own readout, "mean" the mean over all tokens (no class token), "joints" the mean over time
    with the joints side by side, any other name a level of the encoder. "joints" needs ``grid`` and an encoder that
    returns all its tokens for every body. Without tokens every readout is ``pooled_RD``. ``dropout``: on numbers of
    tokens, before tokens are averaged.
    """
    if not encoded.tokens_RND.shape[1]:
        encoded, readout = replace(encoded, tokens_RND=encoded.pooled_RD[:, None]), "mean"
    if readout not in ("mean", "joints"):
        if dropout:
            raise SkelbenchError(
                f"dropout on tokens needs a readout that averages tokens: mean or joints, not {readout}"
            )
        levels = {"pooled": encoded.pooled_RD, **encoded.levels}
        if readout not in levels:
            raise SkelbenchError(did_you_mean(readout, ["mean", "joints", *levels], "readout of this encoder"))
        return replace(encoded, pooled_RD=levels[readout])
    tokens_RND = encoded.tokens_RND.float()
    if dropout:
        kept_RND = torch.rand(tokens_RND.shape, generator=generator, device=tokens_RND.device) >= dropout
        tokens_RND = tokens_RND * kept_RND / (1 - dropout)
    if readout == "mean":
        return replace(encoded, pooled_RD=tokens_RND.mean(1))
    if grid is None:
        raise ValueError("a readout that keeps joints needs the token grid")
    if encoded.per_clip or tokens_RND.shape[1] != grid.tokens:
        rows = "one row per clip" if encoded.per_clip else f"{tokens_RND.shape[1]} tokens"
        raise SkelbenchError(
            f"a readout that keeps joints needs an encoder that returns all {grid.tokens} tokens of every body, this "
            f"one returns {rows}; use a protocol that averages, such as linear or linear@mamp"
        )
    return replace(encoded, pooled_RD=tokens_RND.unflatten(1, (-1, grid.joints)).mean(1).flatten(1))


def pool_bodies(encoded: Encoded, view: View, pooling: Pooling) -> Tensor:
    """One feature per clip, float32 [B, D] ([B, M * D] for "concat"), from one per present body.

    "valid-mean" and "valid-sum" run over the rows of the clip, "all-mean" divides their sum by M, "concat" puts slots
    side by side, zeros for an absent body.
    """
    pooled_RD = encoded.pooled_RD.float()
    if encoded.per_clip:
        return pooled_RD
    # Through a dense grid, not index_add: the order of summation is then fixed on every device.
    dense_BMD = pooled_RD.new_zeros(view.clips * view.bodies, pooled_RD.shape[1])
    dense_BMD[view.rows_R] = pooled_RD
    dense_BMD = dense_BMD.unflatten(0, (view.clips, view.bodies))
    if pooling == "concat":
        return dense_BMD.flatten(1)
    sum_BD = dense_BMD.sum(1)
    if pooling == "valid-sum":
        return sum_BD
    if pooling == "all-mean":
        return sum_BD / view.bodies
    if pooling == "valid-mean":
        return sum_BD / view.valid_BM.sum(1, keepdim=True).clamp(min=1)
    raise ValueError(f"unknown body pooling {pooling!r}")
