"""Runs of figures that show features of encoders, and these features.

These figures (``map``, ``retrieval``) compute: the first one of a run loads its weights and data and runs its encoder,
on the GPU if there is one, and stores the features in the run's directory. Every other figure reads records only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skelbench.records.run_dir import ReadRun
from skelbench.reporting.figures import NothingToDraw

if TYPE_CHECKING:
    from skelbench.data.store.clip_store import ClipStore
    from skelbench.evaluation.protocol import Features
    from skelbench.reporting.inputs import TableInputs

HOW = "no trained run is in {root} yet; start with: skelbench run METHOD --tokens 8"


def asked(inputs: TableInputs, most: int) -> list[tuple[ReadRun, str]]:
    """The named runs, each with its checkpoint; without names every trained run.

    Raises:
        NothingToDraw: there is none, or more than ``most``, so that runs have to be named.
    """
    by_name = {run.name: run for run in inputs.runs}
    named = inputs.checkpoints or [(name, "last") for name in inputs.only or ()]
    found = [(by_name[name], checkpoint) for name, checkpoint in named if name in by_name]
    if not named:
        trained = [run for run in inputs.runs if run.outcome == "done" and run.spec.views]
        found = [(run, "last") for run in filter(inputs.admits, trained)]
    if not found:
        raise NothingToDraw(HOW.format(root=inputs.store.root))
    if len(found) > most:
        names = ", ".join(sorted(run.name for run, _ in found)[:3])
        room = "one run" if most == 1 else f"{most} runs"
        raise NothingToDraw(
            f"{len(found)} runs could be drawn, and a figure has room for {room}: name with --run ({names}, ...)"
        )
    return found


def features_of(inputs: TableInputs, run: ReadRun, checkpoint: str) -> tuple[Features, ClipStore]:
    """Features of the clips of a run's own split, and the clips: read from the run's directory, else computed there."""
    from skelbench.pipeline.kept_features import kept_features
    from skelbench.pipeline.session import Session, pick_device, prepare

    prepare(device := pick_device(None))
    session = Session(inputs.host, inputs.store, inputs.data_place, device, inputs.track)
    return kept_features(session, run, checkpoint)


def title_of(inputs: TableInputs, run: ReadRun, checkpoint: str) -> str:
    """``SLiM at 8 tokens``, ``SLiM:glcl-only at 8 tokens @50``."""
    at = "" if checkpoint == "last" else f" @{checkpoint}"
    return f"{inputs.host.spelling(run.title)} at {run.spec.tokens} tokens{at}"


def facts_of(run: ReadRun) -> str:
    """``preset quick, seed 0``: with a plus where settings were changed."""
    return f"preset {run.info['preset']}{'+' if run.info['modified'] else ''}, seed {run.spec.seed}"
