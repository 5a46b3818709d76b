"""Filters by name, the same for tables, figures and the page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.plugin.descriptors import MethodSpec

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.plugin.host import Host
    from skelbench.records.run_dir import ReadRun
    from skelbench.reporting.table import Table

_CALLED = {"dataset": "data set", "method": "method", "protocol": "protocol", "preset": "preset", "tag": "tag"}


@dataclass(frozen=True)
class Filters:
    """Names of which a row must have one of each kind; an empty kind takes all.

    >>> Filters(method=("slim",)).takes(method="slim:glcl-only")
    True
    >>> Filters(method=("slim",), dataset=("ntu60",)).takes(method="slim", dataset="pku2 (from ntu60 xsub)")
    False
    """

    dataset: tuple[str, ...] = ()
    """Data sets that an evaluation tests on, or that a run was trained on."""
    method: tuple[str, ...] = ()
    """``slim`` with its variants, or one variant, ``slim:glcl-only``."""
    protocol: tuple[str, ...] = ()
    """Protocols of evaluations; a run needs an evaluation by one of them."""
    preset: tuple[str, ...] = ()
    """Also with changed settings."""
    tag: tuple[str, ...] = ()
    """Given by ``skelbench runs tag``."""

    def __bool__(self) -> bool:
        return any(getattr(self, one.name) for one in fields(self))

    def __str__(self) -> str:
        """``method slim or mamp, preset small``."""
        kinds = ((one.name, getattr(self, one.name)) for one in fields(self))
        return ", ".join(f"{_CALLED[kind]} {' or '.join(names)}" for kind, names in kinds if names)

    def takes(self, **facts: str | Collection[str]) -> bool:
        """Whether a row with these facts is wanted; ``tag`` is a collection, kinds that are not given do not count.

        Names may be written as in tables: ``small+``, ``pku2 (from ntu60 xsub)``.
        """
        return all(
            not getattr(self, kind) or not _names(kind, value).isdisjoint(getattr(self, kind))
            for kind, value in facts.items()
        )

    def runs(self, runs: Sequence[ReadRun]) -> list[Any]:
        """The wanted ``runs``."""
        from skelbench.records.run_dir import shown

        found = [run for run in runs if self.takes(**_facts(run))] if self else [*runs]
        if not self.protocol:
            return found
        every = shown(found, "evaluations", "reading evaluations")
        return [run for run in every if any(self.takes(protocol=one["protocol"]) for one in run.evaluations)]

    def rows(self, frame: DataFrame) -> DataFrame:
        """The wanted rows of :func:`skelbench.reporting.frame.frame`.

        Paired tests against the controls are in the frame already: a control need not be wanted itself.
        """
        import numpy as np

        columns = {"dataset": "dataset", "method": "title", "protocol": "protocol", "preset": "preset", "tag": "tags"}
        for kind, column in columns.items():
            if getattr(self, kind):
                wanted = [self.takes(**{kind: value}) for value in frame[column]]
                frame = frame[np.array(wanted, bool)]  # an empty list would be taken for names of columns
        return frame

    def narrowed(self, table: Table, name: str) -> Table:
        """The wanted rows of ``table``, which the host calls ``name``; evaluations were chosen before.

        A column ``plugin`` has a method's name here where ``method`` spells it as papers do.
        """
        keys = {column.key for column in table.columns}
        if not self or "run" in keys:
            return table
        if table.rows:
            self.check_told(name, keys)
        kinds = [one.name for one in fields(self) if getattr(self, one.name)]
        columns = {kind: "plugin" if kind == "method" and "plugin" in keys else kind for kind in kinds}
        rows = [row for row in table.rows if self.takes(**{kind: str(row[key].value) for kind, key in columns.items()})]
        return replace(table, rows=tuple(rows))

    def check_told(self, name: str, kinds: Collection[str]) -> None:
        """Reject a filter by a kind that the rows of table ``name``, which have ``kinds``, cannot be chosen by."""
        for one in fields(self):
            if getattr(self, one.name) and one.name not in kinds:
                raise SkelbenchError(f"table {name} does not say a row's {_CALLED[one.name]}; leave --{one.name} out")

    def check(self, runs: Sequence[ReadRun], host: Host) -> None:
        """Refuse a name that neither ``runs`` nor plugins know.

        Raises:
            SkelbenchError: says the nearest that is known.
        """
        known = {
            "dataset": lambda: [*host.names("datasets"), *_datasets(runs)],
            "method": lambda: [*_methods(host), *(name for run in runs for name in _names("method", run.title))],
            "protocol": lambda: [*host.names("protocols")],
            "preset": lambda: [*_presets(host), *(run.about["preset"] for run in runs)],
            "tag": lambda: [tag for run in runs for tag in run.tags],
        }
        for kind, names in known.items():
            if wanted := getattr(self, kind):
                there = set(names())
                for name in wanted:
                    if name not in there:
                        otherwise = "no run has one yet: skelbench runs tag RUN TAG" if kind == "tag" else ""
                        said = otherwise if not there else ""
                        raise SkelbenchError(did_you_mean(name, there, _CALLED[kind], said))


def _facts(run: ReadRun) -> dict[str, Any]:
    """Facts of a run without its evaluations."""
    return {
        "dataset": run.about["data"],
        "method": run.title,
        "preset": run.about["preset"],
        "tag": run.tags,
    }


def _names(kind: str, value: str | Collection[str]) -> set[str]:
    """Names that a filter can use for a value."""
    if not isinstance(value, str):
        return set(value)
    if kind == "tag":
        return {tag.strip() for tag in value.split(",")}
    if kind == "method":
        return {value, value.rpartition(":")[0] or value}  # the name of a plugin may be a path with a colon
    return {value, value.partition(" (")[0].removesuffix("+")}


def _datasets(runs: Sequence[ReadRun]) -> Iterator[str]:
    from skelbench.records.run_dir import shown

    for run in shown(runs, "evaluations", "reading evaluations"):
        yield run.about["dataset"]
        yield from (one["dataset"] for one in run.evaluations)


def _methods(host: Host) -> Iterator[str]:
    for method in host.all("methods"):
        assert isinstance(method, MethodSpec)
        yield method.name
        yield from (f"{method.name}:{variant}" for variant in method.variants)


def _presets(host: Host) -> Iterator[str]:
    from skelbench.pipeline.presets import BLURB

    yield from BLURB
    for method in host.all("methods"):
        assert isinstance(method, MethodSpec)
        yield from method.presets
