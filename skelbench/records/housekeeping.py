"""Tags and removal of runs (``skelbench runs tag|rm``)."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Sequence
from contextlib import ExitStack

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.leases import Busy, Lease
from skelbench.records.run_dir import PROBES, RunDir
from skelbench.records.store import ResultStore

_REMOVED = ".removed-"
"""Prefix of the folder of a run that is being deleted; hidden folders are not runs."""
_TAG = re.compile(r"\w[\w.+-]{0,39}")


def tag(run: RunDir, tags: Sequence[str]) -> tuple[str, ...]:
    """Add ``tags`` to ``run`` and return all its tags; SkelbenchError for a tag that is not a short word."""
    for word in tags:
        if not _TAG.fullmatch(word):
            raise SkelbenchError(f"tag {word!r}: give a word of at most 40 letters, digits and . _ + -")
    return _keep_tags(run, [*run.tags, *tags])


def untag(run: RunDir, tags: Collection[str]) -> tuple[str, ...]:
    """Remove ``tags`` from ``run`` and return the others; SkelbenchError for a tag that the run does not have."""
    for word in tags:
        if word not in run.tags:
            raise SkelbenchError(f"run {run.name}: {did_you_mean(word, run.tags, 'tag')}")
    return _keep_tags(run, [word for word in run.tags if word not in tags])


def _keep_tags(run: RunDir, tags: Sequence[str]) -> tuple[str, ...]:
    unique = list(dict.fromkeys(tags))
    run.update("tags", **({"tags": unique} if unique else {}))
    return tuple(unique)


def remove(store: ResultStore, runs: Sequence[RunDir], force: bool = False) -> None:
    """Delete ``runs``; ``force``: also runs that others start from.

    Raises:
        SkelbenchError: a process works in a run, another run starts from it, or it is a link or cannot be moved.
    """
    if link := next((run for run in runs if run.path.is_symlink()), None):
        raise SkelbenchError(f"run {link.name} is a link to another folder; nothing was removed, remove {link.path}")
    parents = {run.spec.id: run.name for run in runs}
    for dependent in () if force else store.read():
        if dependent.name not in parents.values() and (parent := parents.get(dependent.spec.init_from or "")):
            raise SkelbenchError(
                f"run {dependent.name} starts from {parent} and needs it to be made again; remove both, or give --force"
            )
    with ExitStack() as stack:
        for run in runs:
            for lock in (run.lock(), Lease(run.path / PROBES)):
                try:
                    stack.enter_context(lock)
                except Busy as busy:
                    raise SkelbenchError(
                        f"another process works on run {run.name}; stop it or wait for its end, nothing was removed"
                    ) from busy
        for run in runs:
            hidden = store.root / f"{_REMOVED}{run.name}"
            shutil.rmtree(hidden, ignore_errors=True)  # of an earlier removal that was killed
            try:
                os.rename(run.path, hidden)
            except OSError as error:
                reason = f"{error.strerror or error}; check the permissions of {store.root}"
                raise SkelbenchError(f"run {run.name} cannot be removed: {reason}") from error
    # The runs are gone for everyone now. The next removal deletes folders that stay after a kill.
    for path in store.root.glob(f"{_REMOVED}*"):
        shutil.rmtree(path, ignore_errors=True)
