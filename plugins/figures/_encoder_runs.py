"""Runs and features for the figures that run an encoder (``map``, ``retrieval``); other figures read records only.

The first figure of a run loads its weights and data, and stores the features in the run's directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skelbench.records.run_dir import ReadRun
from skelbench.reporting.figures import NothingToDraw

if TYPE_CHECKING:
    from skelbench.data.store.clip_store import ClipStore
    from skelbench.evaluation.protocol import Features
    from skelbench.reporting.inputs import TableInputs


def chosen_runs(inputs: TableInputs, most: int) -> list[tuple[ReadRun, str]]:
    """The named runs, each with its checkpoint; without names every trained run.

    Raises:
        NothingToDraw: there is none, or more than ``most``, so that runs have to be named.
    """
    by_name = {run.name: run for run in inputs.runs}
    named = inputs.checkpoints or [(name, "last") for name in inputs.only or ()]
    runs = [(by_name[name], checkpoint) for name, checkpoint in named if name in by_name]
    if not named:
        trained = [run for run in inputs.runs if run.outcome == "done" and run.spec.views]
        runs = [(run, "last") for run in filter(inputs.admits, trained)]
    if not runs:
        raise NothingToDraw(
            f"no trained run is in {inputs.store.root} yet; start with: skelbench run METHOD --tokens 8"
        )
    if len(runs) > most:
        names = ", ".join(sorted(run.name for run, _ in runs)[:3])
        raise NothingToDraw(f"{len(runs)} runs fit, and a figure shows at most {most}: name with --run ({names}, ...)")
    return runs


def features_of(inputs: TableInputs, run: ReadRun, checkpoint: str) -> tuple[Features, ClipStore]:
    """Features of the clips of a run's own split, and the clips."""
    from skelbench.pipeline.evaluate import own_features
    from skelbench.pipeline.session import Session, pick_device, prepare

    prepare(device := pick_device(None))
    session = Session(inputs.host, inputs.store, inputs.data_place, device, inputs.track)
    return own_features(session, run, checkpoint)


def title_of(inputs: TableInputs, run: ReadRun, checkpoint: str) -> str:
    """``SLiM at 8 tokens``, ``SLiM:glcl-only at 8 tokens @50``."""
    at = "" if checkpoint == "last" else f" @{checkpoint}"
    return f"{inputs.host.spelling(run.title)} at {run.spec.tokens} tokens{at}"


def facts_of(run: ReadRun) -> str:
    """``preset quick, seed 0``; with a plus if settings were changed."""
    return f"preset {run.info['preset']}{'+' if run.info['modified'] else ''}, seed {run.spec.seed}"
