"""What a person does with runs that are there: gives them tags and a note, takes them away."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.leases import Busy, Lease
from skelbench.records.run_dir import PROBES, RunDir
from skelbench.records.store import ResultStore

_GONE = ".removed-"
"""Begins the name of a run that is being deleted; nobody looks at hidden folders."""
_TAG = re.compile(r"\w[\w.+-]{0,39}")
NOTE = 500
"""Characters of a note at most."""


def tag(run: RunDir, tags: Sequence[str]) -> tuple[str, ...]:
    """Give ``run`` these tags too; returns all it has.

    Raises:
        SkelbenchError: one is no word that a command line and a list can hold.
    """
    for word in tags:
        if not _TAG.fullmatch(word):
            raise SkelbenchError(
                f"tag {word!r}: give a word of at most 40 letters, digits and . _ + -, which begins with no sign"
            )
    return _keep_tags(run, [*run.tags, *tags])


def untag(run: RunDir, tags: Collection[str]) -> tuple[str, ...]:
    """Take these tags from ``run``; returns what it still has.

    Raises:
        SkelbenchError: it has no such tag; says the nearest.
    """
    for word in tags:
        if word not in run.tags:
            raise SkelbenchError(f"run {run.name}: {did_you_mean(word, run.tags, 'tag')}")
    return _keep_tags(run, [word for word in run.tags if word not in tags])


def _keep_tags(run: RunDir, tags: Sequence[str]) -> tuple[str, ...]:
    kept = tuple(dict.fromkeys(tags))
    if kept:
        run.update(tags=list(kept))
    else:
        run.update("tags")
    return kept


def note(run: RunDir, text: str) -> None:
    """Keep ``text``, one line, with ``run`` in place of an earlier note; empty takes it away."""
    line = " ".join(text.split())
    if len(line) > NOTE:
        raise SkelbenchError(f"a note has {NOTE} characters at most, this one {len(line)}; shorten it")
    if line:
        run.update(note=line)
    else:
        run.update("note")


def heirs(store: ResultStore, runs: Sequence[RunDir]) -> list[tuple[str, str]]:
    """(run, other) where ``run``, which stays, starts from the weights of ``other``, one of ``runs``."""
    parents = {run.spec.id: run.name for run in runs}
    names = set(parents.values())
    found = [(run.name, parents.get(run.spec.init_from or "")) for run in store.read() if run.name not in names]
    return [(name, parent) for name, parent in found if parent]


def remove(store: ResultStore, runs: Sequence[RunDir], force: bool = False) -> None:
    """Delete ``runs``, all or none of them; ``force``: also those that others start from, which keep their results.

    Raises:
        SkelbenchError: a process works in one of them, another run starts from one, or one is a link or cannot be
            moved.
    """
    if link := next((run for run in runs if run.path.is_symlink()), None):
        raise SkelbenchError(f"run {link.name} is a link to another folder; nothing was removed, remove {link.path}")
    if not force and (found := heirs(store, runs)):
        heir, parent = found[0]
        raise SkelbenchError(
            f"run {heir} starts from {parent}, and could not be made again without it; remove both, or give --force"
        )
    with ExitStack() as held:
        for run in runs:
            for lock in (run.lock(), Lease(run.path / PROBES)):
                try:
                    held.enter_context(lock)
                except Busy as busy:
                    raise SkelbenchError(
                        f"another process works on run {run.name}; stop it or wait for its end, nothing was removed"
                    ) from busy
        hidden = _hide(store, runs)
    # From here on they are gone for everyone; what a kill leaves of them the next removal takes.
    for path in {*hidden, *store.root.glob(f"{_GONE}*")}:
        shutil.rmtree(path, ignore_errors=True)


def _hide(store: ResultStore, runs: Sequence[RunDir]) -> list[Path]:
    """Rename the folders of ``runs``; back again where one cannot be."""
    moved: list[tuple[Path, Path]] = []
    try:
        for run in runs:
            hidden = store.root / f"{_GONE}{run.name}"
            if hidden.exists():  # what a kill left of an earlier one of this name
                shutil.rmtree(hidden)
            os.rename(run.path, hidden)
            moved.append((run.path, hidden))
    except OSError as error:
        for path, hidden in moved:
            os.rename(hidden, path)
        raise SkelbenchError(
            f"run {run.name} cannot be removed ({error.strerror or error}); nothing was removed, check the permissions "
            f"of {store.root}"
        ) from error
    return [hidden for _, hidden in moved]
