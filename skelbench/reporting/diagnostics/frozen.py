"""A run's frozen encoder with its clips as in evaluation, and changes of a view before it is encoded.

R rows (bodies), T frames, J joints, N tokens, D width, n clips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import Configured
from skelbench.evaluation.features import PreparedClips
from skelbench.evaluation.preprocessing import Preprocessing
from skelbench.evaluation.protocol import advances
from skelbench.pipeline.encoders import load_encoder
from skelbench.pipeline.evaluate import check_finished, eval_spec
from skelbench.pipeline.leakage_checks import clips_of
from skelbench.pipeline.session import Session
from skelbench.records.run_dir import RunDir
from skelbench.reporting.controls import Controls
from skelbench.training.build import grid_of
from skelbench.views.augmentations import Augment, rotation
from skelbench.views.view import View

Change = Callable[[View], View]


def turned(degrees: float) -> Change:
    """Return a change that turns every body about the vertical axis (Y) through the origin; 360 is 0, exactly."""
    angles_13 = torch.deg2rad(torch.tensor([[0.0, degrees % 360.0, 0.0]], dtype=torch.float64))
    turn_33 = rotation(angles_13)[0]
    return lambda view: view.with_x(view.x_RTJC @ turn_33.T.to(view.x_RTJC))


def reversed_in_time(view: View) -> View:
    """Return ``view`` with the last frame first."""
    if view.real_RT is not None:
        raise SkelbenchError("padded views cannot be reversed in time; evaluate with resize=ends or half-pixel")
    x_RTJC, confidence_RTJ = view.x_RTJC.flip(1), view.confidence_RTJ
    confidence_RTJ = None if confidence_RTJ is None else confidence_RTJ.flip(1)
    if view.stream == "motion":  # frame t is the step to t + 1, negated here; the last frame has none
        x_RTJC = torch.cat([-x_RTJC[:, 1:], torch.zeros_like(x_RTJC[:, :1])], 1)
        if confidence_RTJ is not None:
            confidence_RTJ = torch.cat([confidence_RTJ[:, 1:], confidence_RTJ[:, -1:]], 1)
    return replace(view, x_RTJC=x_RTJC, confidence_RTJ=confidence_RTJ)


def evenly(ids: np.ndarray, labels: np.ndarray, most: int) -> np.ndarray:
    """At most ``most`` of the clips ``ids``, ascending, evenly spread over the classes; ``labels`` of all clips."""
    by_class = ids[np.lexsort((ids, labels[ids]))]
    return np.sort(by_class[np.linspace(0, len(ids) - 1, min(most, len(ids))).round().astype(np.int64)])


def sides(clips: PreparedClips, split: str, most: int, min_frames: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """At most ``most`` training and test clips of ``split``, evenly spread over the classes."""
    parts, labels = clips.store.split(split, min_frames), clips.store.labels
    return evenly(parts.train, labels, most), evenly(parts.test, labels, most)


class Frozen:
    """The encoder of run ``run`` after epoch ``checkpoint``, evaluated as the protocol ``linear`` does.

    ``like``: the run whose evaluation is followed, for an untrained baseline. Raises :class:`SkelbenchError` for a run
    that is not finished and for changed data.
    """

    def __init__(self, session: Session, run: RunDir, checkpoint: str = "last", like: Configured | None = None) -> None:
        check_finished(run, checkpoint)
        self.session, self.run, self.checkpoint = session, run, checkpoint
        self.run_spec = run.spec
        self.spec = eval_spec(session.host, run, "linear", checkpoint, like=like)
        store = clips_of(session, self.spec, run)
        look = Preprocessing.of(self.spec, self.spec.streams[0])
        how = grid_of(self.run_spec, store.topology), torch.device(session.device), self.run_spec.train.precision
        self.clips = PreparedClips(store, look, *how)
        run.encoder(checkpoint)  # raise for a missing snapshot before the first measurement

    @property
    def label(self) -> str:
        """Displayed name: ``slim 8x25``, ``slim:glcl-only 8x25@50``."""
        place = "" if self.checkpoint == "last" else f"@{self.checkpoint}"
        return f"{self.run.title} {self.run_spec.tokens}x{self.clips.grid.joints}{place}"

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that decide a result: the run, its epoch, and the view of its clips."""
        unread = {"protocol_config", "protocol_version", "protocol_source", "protocol", "seed"}
        return self.spec.model_dump(mode="json", exclude=unread)

    def sides(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """At most ``most`` training and test clips of the run's split, evenly spread over the classes."""
        return sides(self.clips, self.spec.data.split, most, self.spec.data.min_frames)

    @cached_property
    def encoder(self) -> torch.nn.Module:
        return load_encoder(self.session, self.run, self.checkpoint, self.clips.store.topology, self.clips.look.stream)

    @cached_property
    def baseline(self) -> Frozen | None:
        """The untrained run with the same encoder, grid, data and seed, if the results directory holds it."""
        if self.run_spec.method == "untrained":
            return None
        untrained = Controls(self.session.results.read()).of("untrained", self.run_spec)
        return Frozen(self.session, RunDir(untrained.path), like=self.run) if untrained else None

    def features(
        self,
        ids: np.ndarray,
        augment: tuple[Augment, ...] = (),
        change: Change | None = None,
        report: Callable[[int], Any] | None = None,
    ) -> np.ndarray:
        """Pooled features float32 [n, D] of the clips ``ids``; ``report`` gets the number of further clips."""
        builder = self.clips.builder(augment=augment, change=change)
        progress = advances(report) if report else None
        features_nD = self.clips.features(self.encoder, ids, builder, progress=progress)
        self._check(bool(np.isfinite(features_nD).all()))
        return features_nD

    def tokens(self, ids: np.ndarray, report: Callable[[int], Any]) -> Iterator[Tensor]:
        """Yield token features float32 [R, N, D] of the bodies that are present in the clips ``ids``, in batches."""
        device, tokens = self.clips.device, self.clips.grid.tokens
        present = replace(self.clips, look=self.clips.look.model_copy(update={"bodies": "valid"}))
        for view in present.views(ids):
            with (
                torch.no_grad(),
                torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.run_spec.train.precision == "bf16"),
            ):
                encoded = self.encoder(view)
            if encoded.per_clip or encoded.tokens_RND.shape[1] != tokens:
                raise SkelbenchError(
                    f"{self.label}: its encoder does not return all {tokens} tokens of every body, so none can be "
                    "predicted from its neighbors; choose a run with an encoder that does"
                )
            tokens_RND = encoded.tokens_RND.float()
            self._check(bool(torch.isfinite(tokens_RND).all()))
            yield tokens_RND
            report(view.clips)

    def _check(self, finite: bool) -> None:
        if not finite:
            raise SkelbenchError(f"{self.run.name}: some features are not finite; check whether its training diverged")


def subjects(session: Session, patterns: list[str]) -> dict[str, Frozen]:
    """The runs named by ``patterns``, each followed by its untrained baseline if there is one, by displayed name.

    Raises:
        SkelbenchError: they were trained on different data or splits.
    """
    by_run: dict[tuple[str, str], Frozen] = {}
    for pattern in patterns:
        named = Frozen(session, *session.results.find(pattern))
        for encoder in filter(None, (named, named.baseline)):
            by_run.setdefault((encoder.run.name, encoder.checkpoint), encoder)
    every = list(by_run.values())
    first = every[0].spec.data
    for encoder in every:
        data = encoder.spec.data
        if data != first:
            raise SkelbenchError(
                f"{every[0].run.name} and {encoder.run.name} are on different data ({first.title}/{first.split} and "
                f"{data.title}/{data.split}); show runs on the same data and split together"
            )
    labels = [encoder.label for encoder in every]
    return {
        label if labels.count(label) == 1 else f"{label} ({encoder.run_spec.id})": encoder
        for label, encoder in zip(labels, every)
    }
