"""Results and options from which tables and figures are built."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.core.text import counted
from skelbench.data.store.splits import for_choosing
from skelbench.plugin.descriptors import Descriptor, TableSpec
from skelbench.plugin.host import Host
from skelbench.records.measures import Measure
from skelbench.records.run_dir import ReadRun
from skelbench.records.store import ResultStore
from skelbench.reporting.filters import Filters

if TYPE_CHECKING:
    import pandas

    from skelbench.reporting.table import Table

Settings = TypeVar("Settings", bound=Spec)


def read_inputs(host: Host, store: ResultStore, filters: Filters, all: bool = False, **options: Any) -> TableInputs:
    """Return the inputs from a results directory. ``all``: also runs with changed settings; ``options``: more fields.

    Raises:
        SkelbenchError: the directory cannot be read, or a filter has an unknown name; names the nearest.
    """
    store.check_readable()
    inputs = TableInputs(host, store, exact_only=not all, filters=filters, **options)
    filters.check(inputs.stored, host)
    return inputs


@dataclass
class TableInputs:
    """The results that a table or figure may show, and the plugins that add rows to it."""

    host: Host
    store: ResultStore
    exact_only: bool = True
    """Exclude runs whose settings were changed from their preset (``--all`` shows them)."""
    only: Collection[str] | None = None
    """Names of the runs that may fill a table; None = every run."""
    filters: Filters = Filters()
    """Filter of datasets, methods, protocols, presets and tags; each table and figure obeys it."""
    checkpoints: Collection[tuple[str, str]] | None = None
    """Runs and checkpoints of figures that show one protocol; None = the last checkpoints."""
    progress: Callable[..., Any] | None = None
    """``progress(total=, label=, unit=)`` -> context manager that yields ``report(advance)``; ``None`` = silent."""

    recount: bool = False
    """Count costs again instead of reading counts that ship with skelbench or are cached (``--recount``)."""
    best_on_test: bool = False
    """Show the highest test accuracy of the probe's checkpoints too (``--best-on-test``)."""
    significance: bool = False
    """Show which rows are significantly different (``--significance``)."""
    against: str = ""
    """Show the difference of every row to this METHOD or METHOD:VARIANT (``--against``)."""
    protocol: str = "linear"
    """Protocol of figures that show one (``--protocol``)."""
    budgets: bool = True
    """Whether tables show runs with only another training budget, in blocks of their own."""
    also_shown: Collection[str] = frozenset()
    """Runs with changed settings that a table shows anyway (``scaling``: other lengths)."""
    data_root: Path | None = None
    """Folder of datasets, for the names of classes; None = the usual place."""
    settings: Spec = field(default_factory=Spec)
    """Settings of a figure (``--set``): an instance of the class that its descriptor's ``config`` names."""

    @cached_property
    def stored(self) -> list[ReadRun]:
        """Every run, as it was when this was first called."""
        return self.store.read()

    @cached_property
    def runs(self) -> list[ReadRun]:
        """The wanted runs."""
        return self.filters.runs(self.stored) if self.filters else self.stored

    @cached_property
    def every(self) -> pandas.DataFrame:
        """Every evaluation record of a finished run (columns: ``skelbench.reporting.frame``). Trials of tuning, on
        held-out training subjects, are there only if ``only`` names them."""
        from skelbench.reporting.frame import frame

        every = self.filters.rows(frame(self.stored))  # an excluded run may be the control of a wanted run
        if self.only is not None:
            return every[every["run"].isin(self.only)]
        return every[~every["split"].astype(str).map(for_choosing).astype(bool)]

    def admits(self, run: ReadRun) -> bool:
        """Whether the settings of ``run`` allow to show it."""
        return not (self.exact_only and run.about["modified"])

    @property
    def frame(self) -> pandas.DataFrame:
        """A copy of the records that may fill a table."""
        return self.every[self.every["exact"].astype(bool)] if self.exact_only else self.every.copy()

    @property
    def compared(self) -> pandas.DataFrame:
        """``frame`` with runs that differ only in the training budget, which is in column ``budget``."""
        if not self.budgets:
            return self.frame.assign(budget="")
        budgeted = self.every["budget"].astype(str) != ""
        rows = self.every[budgeted | self.every["exact"].astype(bool)] if self.exact_only else self.every.copy()
        self.also_shown = {*self.also_shown, *self.every["run"][budgeted]}
        presets = rows["preset"].where(rows["budget"] == "", rows["preset"].astype(str).str.removesuffix("+"))
        return rows.assign(preset=presets, changed=rows["changed"].where(rows["budget"] == "", ""))

    @property
    def measures(self) -> dict[str, Measure]:
        """Metrics of the records, by name."""
        return {name: how for measures in self.compared["measures"] for name, (_, how) in measures.items()}

    @property
    def added_notes(self) -> list[str]:
        """Note on the number of runs that were added from files."""
        visible = self.every["run"].isin({*self.frame["run"], *self.also_shown}) & self.every["added"].notna()
        count, where = self.every["run"][visible].nunique(), "`skelbench runs list --columns +added`"
        return [f"Added from files, not made here: {count} runs ({where})."] if count else []

    def check_answered(self, name: str, table: Table | None = None) -> None:
        """Reject options that table ``name`` has no column for; ``table`` None = no table of this name has one."""
        listed = [column.key for column in table.columns] if table else []
        keys = {"significance": "letters", "against": "against", "best_on_test": "accuracy_best_on_test"}
        for option, key in keys.items():
            if getattr(self, option) and (not table or table.rows) and not any(name.endswith(key) for name in listed):
                flag = option.replace("_", "-")
                raise SkelbenchError(f"table {name} does not support --{flag}; leave it out or use table linear")

    def table(self, name: str) -> Table:
        """The selected rows of table ``name``, with notes on filters and added files.

        Raises:
            SkelbenchError: unknown table, or one without columns for the options that are set.
        """
        descriptor = self.host.get("tables", name)
        assert isinstance(descriptor, TableSpec)
        if descriptor.counts:
            self.check_answered(name)
        table = self.built(descriptor)
        self.check_answered(name, table)
        if descriptor.needs_runs and table.rows:
            table = replace(table, notes=(*table.notes, *self.added_notes))
        if not self.filters:
            return table
        tested = self.significance or self.against or any(column.key == "p_value" for column in table.columns)
        fewer = tested and (self.filters.method or self.filters.tag)
        adjusted = "; p is adjusted over the rows that are shown" if fewer else ""
        none = f"Table {name} has nothing of {self.filters}; `skelbench runs show RUN` has every evaluation of a run."
        notes = (f"Only {self.filters}{adjusted}.", *table.notes) if table.rows else (none,)
        return replace(table, notes=notes)

    def built(self, descriptor: Descriptor) -> Table:
        """The table of ``descriptor``, with the names of methods as papers spell them."""
        from skelbench.reporting.table import Table

        value = self.host.load(descriptor)(self)
        table = self.host.checked(descriptor, value, Table, "skelbench.reporting.table.Table")
        keys = {column.key for column in table.columns} & {"method", "title"}
        names = {str(row[key].value) for row in table.rows for key in keys if not row[key].published}
        spelled = {name: self.host.spelling(name) for name in names}
        columns = [replace(column, names=spelled) if column.key in keys else column for column in table.columns]
        return replace(table, name=descriptor.name, columns=tuple(columns))

    @property
    def left_out(self) -> str:
        """Rows that ``--all`` would add: ``2 runs with changed settings and 12 evaluations of ...``; "" for none."""
        every = self.every[~self.every["run"].isin(set(self.also_shown))] if self.exact_only else self.every[:0]
        exact = every["exact"].astype(bool)
        shown = every["run"].isin(set(every["run"][exact]))
        counts = {"run": every["run"][~shown].nunique(), "evaluation": int((shown & ~exact).sum())}
        ends = {"run": "with changed settings", "evaluation": "of snapshots or with changed settings"}
        return " and ".join(f"{counted(n, noun)} {ends[noun]}" for noun, n in counts.items() if n)

    @property
    def data_place(self) -> Path:
        """Folder of datasets."""
        from skelbench.data.store.roots import data_root

        return self.data_root or data_root()

    def settings_as(self, kind: type[Settings]) -> Settings:
        """Settings of the figure; its defaults if none were given."""
        return self.settings if isinstance(self.settings, kind) else kind()

    @contextmanager
    def track(self, **about: Any) -> Iterator[Callable[..., None]]:
        """``with inputs.track(total=, label=, unit=) as report``: ``progress``, or nothing where that is None."""
        if self.progress is None:
            yield lambda *_, **__: None
            return
        with self.progress(**about) as report:
            yield report
