"""Filters by name, the same for tables, figures and the page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.pipeline.request import Arguments, Names, Option
from skelbench.plugin.descriptors import MethodSpec

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.plugin.host import Host
    from skelbench.records.run_dir import ReadRun

_COLUMNS = {
    "dataset": "dataset", "split": "split", "method": "title", "protocol": "protocol", "preset": "preset",
    "tag": "tags",
}  # fmt: skip
"""Column of the frame of evaluations by kind."""


class Filters(Arguments):
    """Wanted names by kind: a row needs one of each kind; an empty kind takes all. Several are comma separated."""

    dataset: Annotated[Names, Option(metavar="NAMES", panel="Rows")] = ()
    """Only runs trained or tested on these datasets."""
    split: Annotated[Names, Option(metavar="NAMES", panel="Rows")] = ()
    """Only evaluations on these splits, such as cross-view."""
    method: Annotated[Names, Option(metavar="NAMES", panel="Rows")] = ()
    """Only these methods: METHOD with all variants, or METHOD:VARIANT."""
    protocol: Annotated[Names, Option(metavar="NAMES", panel="Rows")] = ()
    """Only evaluations with these protocols."""
    preset: Annotated[Names, Option(metavar="NAMES", panel="Rows")] = ()
    """Only runs of these presets."""
    tag: Annotated[Names, Option(metavar="NAMES", panel="Rows")] = ()
    """Only runs with these tags (see `skelbench runs tag`)."""

    @property
    def wanted(self) -> dict[str, tuple[str, ...]]:
        """Names by kind, without kinds that accept all."""
        return {kind: names for kind in _COLUMNS if (names := getattr(self, kind))}

    def __bool__(self) -> bool:
        return bool(self.wanted)

    def __str__(self) -> str:
        """``method slim or mamp, preset small``."""
        return ", ".join(f"{kind} {' or '.join(names)}" for kind, names in self.wanted.items())

    def takes(self, **facts: str | Collection[str]) -> bool:
        """Whether a row with these facts is wanted; ``tag`` is a collection. A kind without a fact is not checked.
        Names may be written as in tables: ``small+``, ``pku2 (from ntu60 xsub)``."""
        return all(
            not getattr(self, kind) or not _names(kind, value).isdisjoint(getattr(self, kind))
            for kind, value in facts.items()
        )

    def runs(self, runs: Sequence[ReadRun]) -> list[Any]:
        """The wanted ``runs``."""
        runs_kept = [
            run
            for run in runs
            if self.takes(dataset=run.about["data"], method=run.title, preset=run.about["preset"], tag=run.tags)
        ]
        if not self.protocol:
            return runs_kept
        return [
            run for run in runs_kept if any(self.takes(protocol=record["spec"]["protocol"]) for record in run.records())
        ]

    def rows(self, frame: DataFrame) -> DataFrame:
        """The wanted rows of :func:`skelbench.reporting.frame.frame`. The frame already has the paired tests against
        the controls, so a filter may exclude controls."""
        for kind in self.wanted:
            frame = frame.loc[[self.takes(**{kind: value}) for value in frame[_COLUMNS[kind]]]]
        return frame

    def check_told(self, name: str, kinds: Collection[str]) -> None:
        """Reject a filter of a kind that table ``name`` does not support; it supports ``kinds``."""
        for kind in self.wanted:
            if kind not in kinds:
                raise SkelbenchError(f"table {name} does not say a row's {kind}; leave --{kind} out")

    def check(self, runs: Sequence[ReadRun], host: Host) -> None:
        """Reject a name that neither ``runs`` nor plugins know; the error has the nearest known name."""
        if not self:
            return
        from skelbench.pipeline.presets import BLURB

        def datasets() -> Iterator[str]:
            yield from host.names("datasets")
            for run in runs:
                yield from (run.about["dataset"], *(record["spec"]["data"]["name"] for record in run.records()))

        methods = [spec for spec in host.all("methods") if isinstance(spec, MethodSpec)]
        variants = (f"{spec.name}:{variant}" for spec in methods for variant in spec.variants)
        values: dict[str, Callable[[], Iterable[str]]] = {
            "dataset": datasets,
            "split": lambda: chain(*({record["spec"]["data"]["split"] for record in run.records()} for run in runs)),
            "method": lambda: chain(
                host.names("methods"), variants, *(_names("method", title) for title in {run.title for run in runs})
            ),
            "protocol": lambda: host.names("protocols"),
            "preset": lambda: chain(BLURB, *(spec.presets for spec in methods), (run.about["preset"] for run in runs)),
            "tag": lambda: chain(*(run.tags for run in runs)),
        }
        for kind, names in self.wanted.items():
            present = set(values[kind]())
            hint = "no run has one yet: skelbench runs tag RUN TAG" if kind == "tag" and not present else ""
            if unknown := [name for name in names if name not in present]:
                raise SkelbenchError(did_you_mean(unknown[0], present, kind, hint))


def _names(kind: str, value: str | Collection[str]) -> set[str]:
    """Names that a filter can use for a value."""
    if not isinstance(value, str):
        return set(value)
    if kind == "tag":
        return {tag.strip() for tag in value.split(",")}
    if kind == "method":
        return {value, value.partition(":")[0]}
    return {value, value.partition(" (")[0].removesuffix("+")}
