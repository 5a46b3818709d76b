"""The results directory: one directory per run, no central database.

A damaged file stops no command that looks at all runs: what it holds is left out, with a warning that names it, and
the rest is as ever. Only what asks for that very file fails.

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
from skelbench.core.threads import uncollected
from skelbench.core.user_config import said
from skelbench.records import cache
from skelbench.records.errors import if_whole, warn_once
from skelbench.records.run_dir import ReadRun, RunDir

FORMAT = 2
"""2: views, optimiser and schedule stand in a run's spec as plain data; ids are others than those of format 1."""
DIGITS = 4
"""Of a part of an id that is digits alone: of fewer one slip in a run's number would name another run."""
_MARK = "skelbench.json"


def default_root() -> Path:
    """What ``SKELBENCH_RESULTS`` or ``skelbench.toml`` says, else ``results`` in the current directory."""
    return said("results") or Path("results")


def _by_another_budget(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a run of one length is asked for by another budget, or by another word for the same one."""
    return before != now and any(key.startswith("budget ") for key in (*before, *now))


class ResultStore:
    """All runs below one directory. ``progress``: shown where many are read that were not before."""

    def __init__(self, root: Path | str | None = None, progress: cache.Progress | None = None) -> None:
        self.root = Path(root) if root is not None else default_root()
        self._progress = progress

    def check_readable(self) -> None:
        """Refuse a file in its place, and a directory written by a newer or an earlier version."""
        if self.root.exists() and not self.root.is_dir():
            raise SkelbenchError(f"results directory {self.root} is a file; use another with --results")
        mark = self.root / _MARK
        if not mark.exists():
            return
        try:
            version = int(read_json(mark)["format"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise SkelbenchError(f"{mark} is damaged; restore it or use another directory with --results") from error
        if version < FORMAT:
            raise SkelbenchError(
                f"results directory {self.root} was written by an earlier skelbench (format {version}, this one reads "
                f"{FORMAT}); keep it under another name, or use another directory with --results"
            )
        if version > FORMAT:
            raise SkelbenchError(
                f"results directory {self.root} has format {version}, newer than this skelbench reads ({FORMAT}); "
                "upgrade skelbench or use another directory with --results"
            )

    def prepare(self) -> None:
        """Make the directory and prove that it can be written, before any work is done."""
        self.check_readable()
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            write_json(self.root / _MARK, {"format": FORMAT})
        except OSError as error:
            raise SkelbenchError(
                f"results directory {self.root} cannot be written ({error.strerror or error}); "
                "free some space, fix its permissions, or use another with --results"
            ) from error

    def runs(self) -> Iterator[RunDir]:
        """Every run, by name, but for damaged ones and copies."""
        return (RunDir(run.path) for run in self.read())

    def read(self) -> list[ReadRun]:
        """The same, as they are now: run.json of each is read once, or not at all where it is as it was."""
        with uncollected():
            whole = [*filter(None, self._read())]
        by_id: dict[str, ReadRun] = {}
        for run in sorted(whole, key=lambda run: (not run.name.endswith(f"-{run.about['id']}"), run.name)):
            twin = by_id.setdefault(run.about["id"], run)
            if twin is not run:
                warn_once(f"{run.path} is a copy of run {twin.name}; remove one of them")
        return sorted(by_id.values(), key=lambda run: run.name)

    def _read(self) -> Iterator[ReadRun | None]:
        names = self._names()
        if len(names) < cache.LEAST:
            yield from (if_whole(directory.read) for directory in self._of(names))
            return
        found = [(name, stamps) for name in names if (stamps := cache.scan(f"{self.root}/{name}"))]
        kept = cache.ResultsCache(self.root, [name for name, _ in found], self._progress)
        abouts = [kept.get("runs", name, stamps.mark) for name, stamps in found]
        with kept.filling(len(found), abouts.count(None), "reading runs") as report:
            for (name, stamps), about in zip(found, abouts, strict=True):
                if about:
                    run = ReadRun(self.root / name, kept, stamps, name)
                    run.about = about
                    yield run
                elif whole := if_whole(RunDir(self.root / name).read):
                    whole.cache, whole.stamps = kept, stamps
                    kept.put("runs", name, stamps.mark, whole.about)
                    yield whole
                report(1)

    def numbered(self) -> list[ReadRun]:
        """The same, the oldest first: a run's place in this list, from 1, is its number."""
        return sorted(self.read(), key=lambda run: (run.about["created"], run.name))

    def _directories(self) -> Iterator[RunDir]:
        """Every directory with something of a run in it."""
        return self._of(self._names())

    def _of(self, names: Sequence[str]) -> Iterator[RunDir]:
        for name in names:
            if any(os.path.lexists(f"{self.root}/{name}/{sign}") for sign in cache.SIGNS):
                yield RunDir(self.root / name)

    def _names(self) -> list[str]:
        """Of everything in it that is not hidden."""
        self.check_readable()
        return sorted(name for name in os.listdir(self.root) if name[0] != ".") if self.root.is_dir() else []

    def find(self, pattern: str) -> tuple[RunDir, str]:
        """The run named by its name, id, title, number, or an unambiguous part of name or id; ``RUN@50`` also names a
        snapshot.

        ``slim`` means the method rather than its variants, ``slim:glcl-only`` the variant. A whole name, id or title
        goes before the number (``7``, ``#7``) of :meth:`numbered`, which goes before a part of one; fewer digits than
        :data:`DIGITS` are no part of an id, as most ids have a 7.
        """
        name, _, checkpoint = pattern.partition("@")
        if not name:  # a part of every name; as of a shell variable that is not set
            raise SkelbenchError(f"{pattern!r} names no run; give a name, id, title or number, `skelbench runs list`")
        named, runs = list(self._directories()), self.read()
        matches: Sequence[RunDir] = [run for run in named if name == run.name] or [
            run for run in named if name == run.name.rsplit("-", 1)[-1]
        ]
        matches = matches or [run for run in runs if name == run.title]
        matches = matches or self._numbered(name, len(runs))
        number = name.isascii() and name.isdigit()  # too high a one: a part of an id, not of a seed or a grid
        if not matches and not (number and len(name) < DIGITS):
            matches = [run for run in named if file_name(name) in (run.name.rsplit("-", 1)[-1] if number else run.name)]
        if len(matches) == 1:
            return RunDir(matches[0].path).checked(), checkpoint or "last"
        if matches:
            names = ", ".join(run.name for run in matches[:5])
            raise SkelbenchError(f"{name!r} fits {len(matches)} runs ({names}...); give more of the name or the id")
        known = {part for run in runs for part in (run.name, run.title, run.name.rsplit("-", 1)[-1])}
        if not known:
            raise SkelbenchError(f"there is no run {name!r} in {self.root}: it holds none; see `skelbench run --help`")
        if number:
            raise self._no_number(name, len(runs))
        raise SkelbenchError(did_you_mean(name, sorted(known), "run", "`skelbench runs list` shows all"))

    def whole(self, pattern: str) -> RunDir:
        """The run that :meth:`find` finds, where what is asked for is done with all of it.

        Raises:
            SkelbenchError: a snapshot is named.
        """
        run, checkpoint = self.find(pattern)
        if checkpoint != "last":
            raise SkelbenchError(f"{pattern} is a snapshot; name a run, which goes with all its snapshots")
        return run

    def _no_number(self, name: str, count: int) -> SkelbenchError:
        there = f"runs have the numbers 1 to {count}" if count else "it holds none"
        return SkelbenchError(f"there is no run {name} in {self.root}: {there}; see `skelbench runs list`")

    def _numbered(self, name: str, count: int) -> list[ReadRun]:
        """The run of the number that ``name`` is; none where it is no number, or a bare one that is too high and may be
        a part of an id."""
        if not (digits := name.removeprefix("#")).isascii() or not digits.isdigit():
            return []
        if 1 <= int(digits) <= count:
            return [self.numbered()[int(digits) - 1]]
        if name != digits:
            raise self._no_number(name, count)
        return []

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
        """The directory of ``spec``, made if new. ``facts`` (environment, command, ...) are written for a new run."""
        with Lease(self.root / ".lock", math.inf):  # for an instant: two processes may ask for the same untrained run
            run = self.by_id(spec.id)
            if run is not None:
                if run.spec.model_dump(mode="json") != spec.model_dump(mode="json"):
                    raise run.damaged(ValueError("its spec is not that of its id"))
                if run.info["modified"] and not modified:
                    # The same run, now asked for by the preset, or preset and variant, that it equals.
                    run.update(preset=preset, variant=variant, modified={})
                elif _by_another_budget(run.info["modified"], modified):
                    # Rows over seeds are told apart by these words, and one seed may have been asked for otherwise.
                    run.update("budget", modified=dict(modified), **{k: facts[k] for k in ("budget",) if k in facts})
                if setting != run.info.get("setting", "shared") and not modified:
                    run.update(setting=setting)  # settings typed one by one that make up the method's native setting
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
