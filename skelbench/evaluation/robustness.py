"""Accuracy of a linear probe of clean clips on degraded test clips (SLiM, "Robustness to Missing and Noisy Joints").

Encoder and probe are the same for every condition. Each condition is measured on several draws, seeds of
:mod:`skelbench.views.degradations`: the same corrupted clips for every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field

from skelbench.core.component import Share
from skelbench.core.hashing import derive_seed
from skelbench.evaluation.downstream import Downstream, EncoderProtocol
from skelbench.evaluation.hidden import CANNOT
from skelbench.evaluation.linear import Linear
from skelbench.evaluation.protocol import Measure, Progress, ProtocolResult, advances
from skelbench.plugin import ProtocolSpec, hookimpl
from skelbench.plugin.plugin_errors import lacking
from skelbench.views.degradations import JointNoise, MissingJoints, ParentFill, ZeroFill, joints_lost
from skelbench.views.transfer import fetch, send

Step = MissingJoints | ParentFill | ZeroFill | JointNoise
SHARES = (0.12, 0.2, 0.32)
"""Fractions of joints: 3, 5 and 8 of NTU's 25."""


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    return [
        ProtocolSpec(
            name="robustness",
            target=":Robustness",
            summary="linear probe trained on clean clips, tested with missing joints and with noise",
        ),
        ProtocolSpec(
            name="missing-representation",
            target=":MissingRepresentation",
            summary="linear probe trained on clean clips, tested with missing joints marked or filled in",
        ),
    ]


class DegradedLinear(EncoderProtocol, Linear):
    """A linear probe of clean training clips, on unchanged test clips and under ``conditions``.

    Metrics named as in ``linear`` are measured on unchanged clips. Each condition, such as ``missing_0.12``, adds
    ``accuracy_NAME``, the mean over draws, ``accuracy_NAME_sd``, the sample standard deviation over draws, and
    ``predicted_NAME`` [draws, n_test]. If the encoder cannot handle a condition, its row gives the reason.
    """

    draws: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (0, 1, 2), min_length=1, description="seeds of the corruption, the same for every run"
    )

    def conditions(self) -> Iterator[Step]:
        """Degradations of test clips, in the order of tables."""
        raise lacking(self, "conditions(self)")

    @property
    def measures(self) -> Mapping[str, Measure]:  # type: ignore[override]
        measures = {}
        for step in self.conditions():
            title = name_of(step).replace("_", " ")
            measures[f"accuracy_{name_of(step)}"] = Measure(title, share=True)
            measures[f"accuracy_{name_of(step)}_sd"] = Measure(f"{title} sd", share=True)
        return measures

    def evaluate_encoder(
        self, task: Downstream, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> ProtocolResult:
        """Train the same probe, bit for bit, as ``linear`` with the evaluation's seed."""
        encoder, joints = task.encoder(), task.grid.joints
        able = [step for step in self.conditions() if task.hiding or not step.declares]
        total, done = len(task.train_ids) + len(task.test_ids) * (1 + len(able) * len(self.draws)), 0

        def advance(clips: int) -> None:
            nonlocal done
            done += clips
            if progress:
                progress(done, total)

        count = advances(advance)
        features = task.features(encoder, count)
        result, head = self.fitted(features, derive_seed(task.spec.seed, "probe", "linear"), device)
        metrics, predictions, rows, cannot_be = dict(result.metrics), dict(result.predictions), [], []
        for step in self.conditions():
            row: dict[str, Any] = {"condition": title_of(step, joints), "name": name_of(step)}
            if step not in able:
                cannot_be.append(row["condition"])
                rows.append(row | {"accuracy": None, "cannot": CANNOT})
                continue
            scores = []
            for draw in self.draws:
                x_nD = torch.from_numpy(
                    task.clips.features(encoder, task.test_ids, source=task.source([step], draw), progress=count)
                )
                scores.append(fetch(head.logits(send(x_nD, device))).numpy())
            figures, outcomes = task.score(np.stack(scores))
            own = {name: figures[name] for name in ("accuracy", "accuracy_sd") if name in figures}
            metrics |= {name.replace("accuracy", f"accuracy_{name_of(step)}"): value for name, value in own.items()}
            predictions[f"predicted_{name_of(step)}"] = outcomes["predicted"]
            rows.append(row | own | {"draws": (outcomes["predicted"] == outcomes["labels"]).mean(1).tolist()})
        notes = [*result.notes]
        if cannot_be:
            notes.append(f"{', '.join(cannot_be)}: cannot be measured; {CANNOT}")
        if able:
            notes.append(
                "degraded test clips: the probe of clean training clips, means over draws of the corruption (seeds "
                f"{', '.join(map(str, self.draws))}); sd: over these draws, not over pre-training"
            )
        return ProtocolResult(metrics, predictions, [*result.curve, *rows], notes, result.scores, result.logits)


class Robustness(DegradedLinear):
    """``robustness``: joints declared missing and Gaussian noise (SLiM, table "Test-time robustness", a).

    The defaults are 3, 5 and 8 of 25 joints, and 0.01, 0.03 and 0.05 mean bone lengths.
    """

    missing: tuple[Share, ...] = Field(SHARES, description="fractions of the joints, rounded half up")
    noise: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (0.01, 0.03, 0.05), description="standard deviations, in mean bone lengths of the clip"
    )

    def conditions(self) -> Iterator[Step]:
        yield from (MissingJoints(share=share) for share in self.missing)
        yield from (JointNoise(sigma=sigma) for sigma in self.noise)


class MissingRepresentation(DegradedLinear):
    """``missing-representation``: the same missing joints declared, or presented unflagged at their parents' place or
    at the origin (SLiM, table "Test-time robustness", b). The defaults are 3, 5 and 8 of 25 joints."""

    missing: tuple[Share, ...] = Field(SHARES, description="fractions of the joints, rounded half up")

    def conditions(self) -> Iterator[Step]:
        for kind in (MissingJoints, ParentFill, ZeroFill):
            yield from (kind(share=share) for share in self.missing)


def name_of(step: Step) -> str:
    """Name in metrics and predictions, such as ``zero-fill_0.2`` and ``noise_0.01``."""
    return f"{step.kind}_{step.sigma if isinstance(step, JointNoise) else step.share:g}"


def title_of(step: Step, joints: int) -> str:
    """Title in tables, such as ``missing 3/25`` and ``noise 0.01``."""
    if isinstance(step, JointNoise):
        return f"{step.kind} {step.sigma:g}"
    return f"{step.kind} {joints_lost(step.share, joints)}/{joints}"
