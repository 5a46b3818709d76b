"""Linear probe whose learning rate and weight decay are chosen on training subjects that are held out.

Shapes: P settings: probes that are trained side by side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Annotated, ClassVar

import numpy as np
import torch
from pydantic import Field

from skelbench.core.errors import SkelbenchError
from skelbench.core.threads import one_thread
from skelbench.data.store.splits import HELD_SHARE, Split, hold_out
from skelbench.evaluation.linear import Linear, fit_linear
from skelbench.evaluation.probe import Part, stratified
from skelbench.evaluation.protocol import Features, Progress, Protocol, ProtocolResult, share
from skelbench.plugin import ProtocolSpec, hookimpl
from skelbench.records.measures import Measure

NAME = "linear-swept"


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    summary = "linear probe, learning rate and weight decay chosen from a grid on held-out training subjects"
    return [ProtocolSpec(name=NAME, target=":LinearSwept", summary=summary)]


class LinearSwept(Protocol):
    """The neutral linear probe with the learning rate and weight decay that suit the features.

    A probe of every pair of ``lrs`` and ``weight_decays`` is trained without a fifth of the training subjects; the pair
    that is best on their clips (ties: the lower loss) is trained again on all training clips, as ``linear`` trains.
    Test labels choose nothing.

    Metrics: as ``linear`` for the probe trained again; ``accuracy_selected``, of the chosen probe before;
    ``chosen_lr``, ``chosen_weight_decay``, ``held_out_accuracy``. Rows "sweep" of the curve are the grid, scored on
    held-out clips.
    """

    measures: ClassVar[Mapping[str, Measure]] = {
        "chosen_lr": Measure("learning rate"),
        "chosen_weight_decay": Measure("weight decay"),
        "held_out_accuracy": Measure("held-out accuracy", share=True),
    }

    lrs: tuple[Annotated[float, Field(gt=0)], ...] = Field((1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2), min_length=1)
    """Peak learning rates, not scaled by the batch size."""
    weight_decays: tuple[Annotated[float, Field(ge=0)], ...] = Field((0.0, 0.1, 1.0), min_length=1)
    """Decoupled weight decays."""
    batch_size: int = Field(256, ge=1, description="Clips of a step.")
    epochs: int = Field(20, ge=1, description="Planned length in passes over the training clips.")
    min_steps: int = Field(2000, ge=0, description="Least number of steps of the planned length.")

    def evaluate(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> ProtocolResult:
        """Sweep the grid, choose a setting, train with it again."""
        kept_n, held_n, notes = held_out(features)
        train = Part.of(features.train_x, features.train_y, device)
        pairs = list(product(self.lrs, self.weight_decays))
        classes = features.num_classes
        with one_thread(self.batch_size * train.x_nD.shape[1] * classes * len(pairs)):
            heads = fit_linear(train.take(kept_n), classes, self.recipe(), seed, share(progress, 0, 2), pairs=pairs)
        losses, accuracies, _ = heads.score(train.take(held_n))
        best = max(range(len(pairs)), key=lambda p: (math.isfinite(losses[p]), accuracies[p], -losses[p]))
        _, (on_test,), _ = heads.only(best).score(Part.of(features.test_x, features.test_y, device))
        lr, weight_decay = pairs[best]
        if len(self.lrs) > 2 and lr in (min(self.lrs), max(self.lrs)):
            notes.append(f"the chosen learning rate {lr:g} is at an end of the grid; widen it with --set lrs=[...]")

        result = self.recipe(lr=lr, weight_decay=weight_decay).evaluate(features, seed, device, share(progress, 1, 2))
        chosen = {"chosen_lr": lr, "chosen_weight_decay": weight_decay, "held_out_accuracy": accuracies[best]}
        sweep = [
            {
                "fit": "sweep",
                "lr": pair[0],
                "weight_decay": pair[1],
                "val_loss": losses[p] if math.isfinite(losses[p]) else None,
                "val_accuracy": accuracies[p],
                "chosen": p == best,
                **({"test_accuracy": on_test} if p == best else {}),
            }
            for p, pair in enumerate(pairs)
        ]
        return replace(
            result,
            metrics={**result.metrics, "accuracy_selected": on_test, **chosen},
            curve=[*sweep, *result.curve],
            notes=[*result.notes, *notes],
        )

    def recipe(self, **settings: float) -> Linear:
        """Return the protocol that trains one probe with these settings."""
        lengths = {name: getattr(self, name) for name in ("batch_size", "epochs", "min_steps")}
        return Linear(tolerance=None, val_share=0, **lengths, **settings)


def held_out(features: Features) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Indices (kept, held) of training clips, ascending, and notes.

    A fifth of the subjects, chosen by a hash of their number: the same for every encoder and seed. Without two
    subjects, a fifth of the clips, stratified by class.
    """
    subjects = features.train_subjects
    if subjects is not None and len(np.unique(subjects)) > 1:
        everything = Split("train", np.arange(len(subjects)), np.arange(0))
        split = hold_out(everything, NAME, {"subject": subjects, "label": features.train_y}).split
        return split.train, split.test, []
    kept_n, held_n = stratified(features.train_y, HELD_SHARE, seed=0)
    if not len(held_n):
        raise SkelbenchError(
            f"{NAME} has nothing to choose settings by: the training clips are of one subject and no class has two of "
            "them; use --protocol linear, whose settings are fixed"
        )
    note = f"subjects are not known: settings were chosen on {len(held_n)} training clips, stratified by class"
    return kept_n, held_n, [note]
