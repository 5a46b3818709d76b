"""Which evaluations a table, a figure or a page is about: chosen by name, one way for all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields
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
    """Of an evaluation those that it tests on; of a run what it was trained on."""
    method: tuple[str, ...] = ()
    """``slim`` with its variants, or one variant, ``slim:glcl-only``."""
    protocol: tuple[str, ...] = ()
    """Of a run: it was evaluated by one of them."""
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
        """Whether a row of which these are known is wanted; ``tag`` is a collection, what is not given is not asked.

        Names may stand as tables write them: ``small+``, ``pku2 (from ntu60 xsub)``.
        """
        return all(self._takes(kind, value) for kind, value in facts.items())

    def _takes(self, kind: str, value: str | Collection[str]) -> bool:
        if not (wanted := getattr(self, kind)):
            return True
        return not _names(kind, value).isdisjoint(wanted)

    def runs(self, runs: Sequence[ReadRun]) -> list[Any]:
        """Those of ``runs`` that are wanted."""
        from skelbench.records.run_dir import shown

        found = [run for run in runs if self.takes(**_facts(run))] if self else [*runs]
        if not self.protocol:
            return found
        return [run for run in shown(found, "evaluations", "reading evaluations") if self._evaluated(run)]

    def _evaluated(self, run: ReadRun) -> bool:
        return any(self.takes(protocol=one["protocol"]) for one in run.evaluations)

    def rows(self, frame: DataFrame) -> DataFrame:
        """Those of the rows of :func:`skelbench.reporting.frame.frame` that are wanted. Paired tests against the
        controls
        are in the frame already: a control need not be wanted itself."""
        import numpy as np

        columns = {"dataset": "dataset", "method": "title", "protocol": "protocol", "preset": "preset", "tag": "tags"}
        for kind, column in columns.items():
            if getattr(self, kind):
                wanted = [self._takes(kind, value) for value in frame[column]]
                frame = frame[np.array(wanted, bool)]  # an empty list would be taken for names of columns
        return frame

    def of_table(self, table: Table, name: str) -> Table:
        """``table`` with the wanted rows alone, by its own columns: of one that is not made of evaluations. A column
        ``plugin`` says what a method is called here where ``method`` spells it as papers do.

        Raises:
            SkelbenchError: it has no column for one of the kinds.
        """
        from dataclasses import replace

        kinds = [one.name for one in fields(self) if getattr(self, one.name)]
        keys = {column.key for column in table.columns}
        if table.rows:
            self.check_told(name, keys)
        columns = {kind: "plugin" if kind == "method" and "plugin" in keys else kind for kind in kinds}
        wanted = (
            row for row in table.rows if self.takes(**{kind: str(row[key].value) for kind, key in columns.items()})
        )
        return replace(table, rows=tuple(wanted))

    def check_told(self, name: str, kinds: Collection[str]) -> None:
        """Refuse what the rows of the table ``name``, which say ``kinds``, cannot be chosen by.

        Raises:
            SkelbenchError: says which.
        """
        for one in fields(self):
            if getattr(self, one.name) and one.name not in kinds:
                raise SkelbenchError(f"table {name} does not say a row's {_CALLED[one.name]}; leave --{one.name} out")

    def narrowed(self, table: Table, name: str) -> Table:
        """``table``, which the host calls ``name``: if it is made of evaluations, these were chosen before."""
        if not self or "run" in {column.key for column in table.columns}:
            return table
        return self.of_table(table, name)

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
    """What is known of a run without looking at its evaluations."""
    return {
        "dataset": run.about["data"],
        "method": run.title,
        "preset": run.about["preset"],
        "tag": run.tags,
    }


def _names(kind: str, value: str | Collection[str]) -> set[str]:
    """What a value answers to."""
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
