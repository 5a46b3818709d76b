"""The results directory: one directory per run, no central database.

A damaged file stops no command that reads all runs: the run or record is skipped with a warning that names the file.
Only a command that asks for the damaged file fails.

results/
  skelbench.json                       format version of the directory
  slim-synthetic-cross-view-8t-quick-s0-1a2b3c4d5e6f/    slim.glcl-only-...: a variant
    run.json                           spec, preset, variant, command, environment, outcome
    metrics.jsonl                      one line per logged step
    last.pt                            everything needed to continue
    encoder.safetensors                the inference encoder after the last step
    encoder.bone.safetensors           of a stream, where the method has an encoder for it
    encoder@12.5.safetensors           kept snapshots, by epoch
    cost.json                          MACs, step FLOPs, latency, memory
    eval-<eval_id>.json, .npz          one record and its per-clip predictions per evaluation
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.files import read_json, write_json
from skelbench.core.leases import Lease
from skelbench.core.spec import RunSpec, file_name, titled
from skelbench.core.user_config import said
from skelbench.records.errors import if_whole, warn_once
from skelbench.records.run_dir import ReadRun, RunDir

FORMAT = 2
"""Format 2 has views, optimizer and schedule as plain data in the spec, so its ids differ from ids of format 1."""
DIGITS = 4
"""Smallest number of digits that name a run as a part of its id, so that a mistyped number names no run."""
_MARK = "skelbench.json"
_SIGNS = ("run.json", "metrics.jsonl", "last.pt")
"""A folder with one of these files is a run, perhaps a damaged one."""


def default_root() -> Path:
    """``SKELBENCH_RESULTS`` or the setting in ``skelbench.toml``, else ``results`` in the current directory."""
    return said("results") or Path("results")


class ResultStore:
    """All runs below one directory."""

    def __init__(self, root: Path | str | None = None) -> None:
        self.root = Path(root) if root is not None else default_root()

    def check_readable(self) -> None:
        """Raise SkelbenchError for a file in place of the directory, and for a directory of another format version."""
        if self.root.exists() and not self.root.is_dir():
            raise SkelbenchError(f"results directory {self.root} is a file; use another with --results")
        mark = self.root / _MARK
        if not mark.exists():
            return
        try:
            version = int(read_json(mark)["format"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise SkelbenchError(f"{mark} is damaged; restore it or use another directory with --results") from error
        if version != FORMAT:
            relation = "written by an earlier skelbench" if version < FORMAT else "newer than this skelbench reads"
            raise SkelbenchError(
                f"results directory {self.root} has format {version}, {relation} (this skelbench: {FORMAT}); use "
                "another directory with --results"
            )

    def prepare(self) -> None:
        """Make the directory and check that it can be written, before any work is done."""
        self.check_readable()
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            write_json(self.root / _MARK, {"format": FORMAT})
        except OSError as error:
            raise SkelbenchError(
                f"results directory {self.root} cannot be written ({error.strerror or error}); "
                "free some space, fix its permissions, or use another with --results"
            ) from error

    def read(self) -> list[ReadRun]:
        """Every run as it is now, by name, without damaged ones and copies; run.json of each is read once."""
        runs = [*filter(None, (if_whole(run.read) for run in self._directories()))]
        by_id: dict[str, ReadRun] = {}
        for run in sorted(runs, key=lambda run: (not run.name.endswith(f"-{run.about['id']}"), run.name)):
            first = by_id.setdefault(run.about["id"], run)
            if first is not run:
                warn_once(f"{run.path} is a copy of run {first.name}; remove one of them")
        return sorted(by_id.values(), key=lambda run: run.name)

    def runs(self) -> Iterator[RunDir]:
        """The runs of :meth:`read`, each reads its files again."""
        return (RunDir(run.path) for run in self.read())

    def numbered(self) -> list[ReadRun]:
        """Return the same runs, oldest first; a run's number is its position in this list, from 1."""
        return sorted(self.read(), key=lambda run: (run.about["created"], run.name))

    def _directories(self) -> Iterator[RunDir]:
        """Every directory with a file of a run that is not hidden, by name."""
        self.check_readable()
        for name in sorted(os.listdir(self.root)) if self.root.is_dir() else ():
            if name[0] != "." and any(os.path.lexists(self.root / name / sign) for sign in _SIGNS):
                yield RunDir(self.root / name)

    def find(self, pattern: str) -> tuple[RunDir, str]:
        """(run, checkpoint) of a name, id, title, number, or unambiguous part of name or id; ``RUN@50`` is a snapshot.

        ``slim`` means the method rather than its variants, ``slim:glcl-only`` the variant. A whole name, id or title
        goes before the number (``7``, ``#7``) of :meth:`numbered`, and the number before a part. Fewer digits than
        :data:`DIGITS` do not match an id, because most ids have a 7.
        """
        name, _, checkpoint = pattern.partition("@")
        if not name:  # a part of every name, for example of a shell variable that is not set
            raise SkelbenchError(f"{pattern!r} names no run; give a name, id, title or number, `skelbench runs list`")
        named, runs, number = list(self._directories()), self.read(), name.removeprefix("#")
        digits = number.isdecimal()
        too_short = digits and (name != number or len(name) < DIGITS)  # part of a seed, a token grid or most ids
        choices: tuple[Sequence[RunDir], ...] = (
            [run for run in named if name == run.name],
            [run for run in named if name == _id(run)],
            [run for run in runs if name == run.title],
            self.numbered()[int(number) - 1 : int(number)] if digits and int(number) else [],
            [] if too_short else [run for run in named if file_name(name) in (_id(run) if digits else run.name)],
        )
        matches = next(filter(None, choices), [])
        if len(matches) == 1:
            return RunDir(matches[0].path).checked(), checkpoint or "last"
        if matches:
            names = ", ".join(run.name for run in matches[:5]) + (", ..." if len(matches) > 5 else "")
            raise SkelbenchError(f"{name!r} fits {len(matches)} runs; give the name or the id of one: {names}")
        spellings = {part for run in runs for part in (run.name, run.title, _id(run))}
        if not spellings:
            raise SkelbenchError(f"no runs in {self.root}. Train one first: skelbench run slim --tokens 8")
        if digits:
            hint = f"runs have the numbers 1 to {len(runs)}"
            raise SkelbenchError(f"there is no run {name} in {self.root}: {hint}; see `skelbench runs list`")
        raise SkelbenchError(did_you_mean(name, sorted(spellings), "run", "`skelbench runs list` shows all"))

    def whole(self, pattern: str) -> RunDir:
        """The run of :meth:`find`; SkelbenchError for a snapshot."""
        run, checkpoint = self.find(pattern)
        if checkpoint != "last":
            raise SkelbenchError(f"{pattern} is a snapshot; name a run, which goes with all its snapshots")
        return run

    def by_id(self, pretrain_id: str) -> RunDir | None:
        """The run with this pretrain_id."""
        return next((run.checked() for run in self._directories() if run.name.endswith(f"-{pretrain_id}")), None)

    def open(
        self,
        spec: RunSpec,
        preset: str,
        modified: Mapping[str, Any],
        facts: Mapping[str, Any],
        setting: str = "shared",
        variant: str = "",
    ) -> RunDir:
        """Return the directory of ``spec``, made if new with ``facts`` (environment, command, ...)."""
        with Lease(self.root / ".lock", math.inf):  # briefly: two processes may ask for the same untrained run
            if run := self.by_id(spec.id):
                self._rename(run, spec, preset, modified, facts, setting, variant)
                return run
            label = (preset if setting == "shared" else f"{preset}-{setting}") + ("+" if modified else "")
            title = file_name(titled(spec.method, variant))
            data = file_name(f"{spec.data.name}-{spec.data.split}-{spec.tokens}t")
            path = self.root / f"{title}-{data}-{label}-s{spec.seed}-{spec.id}"
            path.mkdir(parents=True, exist_ok=True)
            info: dict[str, Any] = {"id": spec.id, "name": path.name, "preset": preset, "variant": variant}
            info |= {"setting": setting, "modified": dict(modified), "outcome": "new", "created": time.time(), **facts}
            write_json(path / "run.json", {**info, "spec": spec.model_dump(mode="json")})
            return RunDir(path)

    def _rename(
        self, run: RunDir, spec: RunSpec, preset: str, modified: Mapping[str, Any], facts: Mapping[str, Any],
        setting: str, variant: str,
    ) -> None:  # fmt: skip
        """Record the preset and variant under which an existing run is requested again, unless they are recorded."""
        with run.damage():
            if run.spec.model_dump(mode="json") != spec.model_dump(mode="json"):
                raise ValueError("its spec does not match its id")
        before = run.info["modified"]
        if before and not modified:  # requested by the preset and variant that the run equals
            run.update(preset=preset, variant=variant, modified={})
        elif before != modified and any(key.startswith("budget ") for key in (*before, *modified)):
            # Another budget, or another form of it: rows over seeds differ by these words.
            run.update("budget", modified=dict(modified), **{k: facts[k] for k in ("budget",) if k in facts})
        if setting != run.info.get("setting", "shared") and not modified:
            run.update(setting=setting)  # settings typed one by one that equal the method's published setting


def _id(run: RunDir) -> str:
    """Id at the end of the name of a run's folder."""
    return run.name.rsplit("-", 1)[-1]
