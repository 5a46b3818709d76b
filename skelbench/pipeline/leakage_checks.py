"""Clips of an evaluation, and whether its encoder was trained on them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import DataSpec, EvalSpec, RunSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.pipeline.resolve import open_dataset
from skelbench.pipeline.session import Session
from skelbench.records.errors import if_whole
from skelbench.records.run_dir import RunDir


def clips_of(session: Session, spec: EvalSpec, run: RunDir) -> ClipStore:
    """Open the dataset of ``spec``, an evaluation of ``run``; raise if it has changed since the training."""
    try:
        store = open_dataset(spec.data.name, session.host, session.data_root)
    except SkelbenchError as error:
        if run.plugin_files and spec.data.name == run.spec.data.name not in session.host.names("datasets"):
            how = f"run {run.name} was made with{run.plugin_files}: if that makes the dataset, give it here too"
            raise SkelbenchError(f"{error}; {how}") from error
        raise
    if spec.data.fingerprint and store.fingerprint != spec.data.fingerprint:
        raise SkelbenchError(
            f"dataset {spec.data.name} has changed since this run was made (fingerprint {store.fingerprint[:12]}, "
            f"was {spec.data.fingerprint[:12]}); restore it, or run the training again on the new data"
        )
    return store


def source_of(session: Session, data: DataSpec) -> ClipStore | None:
    """Return the dataset of a run's training; None if it is not here."""
    try:
        return open_dataset(data.name, session.host, session.data_root)
    except SkelbenchError:
        return None


def check_alike(source: DataSpec, clips: ClipStore | None, target: DataSpec, topology: str) -> None:
    """Raise SkelbenchError if an encoder trained on ``source`` (``clips`` if available) cannot read ``target``."""
    if source.dimensions != target.dimensions:
        raise SkelbenchError(
            f"the encoder was trained on {source.dimensions}-D poses of {source.name}, those of {target.name} are "
            f"{target.dimensions}-D; choose a dataset with poses of the same kind"
        )
    if clips is not None and clips.meta.topology != topology:
        raise SkelbenchError(
            f"the encoder was trained on skeleton {clips.meta.topology} of {source.name}, the clips of "
            f"{target.name} have skeleton {topology}; choose a dataset with the same skeleton"
        )


def not_new(run: RunSpec, there: ClipStore | None, store: ClipStore, test: np.ndarray) -> Iterator[str]:
    """Note if test clips of another split or dataset are training clips; ``there``: the run's dataset if here."""
    source = run.data
    if not run.views or there is None or there.fingerprint != source.fingerprint:
        return
    trained = there.split(source.split, source.min_frames).train
    overlap = np.intersect1d(test, trained) if there is store else store.recurring(test, there, trained)
    if len(overlap):
        yield (
            f"{len(overlap):,} of the {len(test):,} test clips are training clips of {source.title} {source.split}, on "
            "which the encoder was trained; its accuracy is not the accuracy on unseen clips"
        )


def not_new_to_parents(session: Session, run: RunSpec, store: ClipStore, test: np.ndarray) -> Iterator[str]:
    """:func:`not_new` for the runs from which a run has its first weights."""
    while run.init_from:
        parent = if_whole(partial(session.results.by_id, run.init_from))
        if parent is None:
            yield (
                f"the encoder began with the weights of run {run.init_from}, which is not here, so its training clips "
                "may include test clips"
            )
            return
        run = parent.spec
        source = store if run.data.name == store.meta.name else source_of(session, run.data)
        yield from (f"by run {parent.name}, whose weights it began with: {note}"
                    for note in not_new(run, source, store, test))  # fmt: skip
