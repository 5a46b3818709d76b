"""Results, tables and figures, as frames and as what a notebook shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from skelbench.api import arguments
from skelbench.api.place import path_of
from skelbench.api.plugins import use_plugins
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.plugin.descriptors import FigureSpec, TableSpec
from skelbench.records.store import ResultStore
from skelbench.reporting.figures.settings import settings_of
from skelbench.reporting.filters import Filters
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.render import render
from skelbench.reporting.table import Table

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class Only(TypedDict, total=False):
    """Filters of tables, figures and the report, each by one name or several: ``method="slim"``,
    ``dataset=["ntu60", "pku2"]``. A name that nobody has is a :class:`SkelbenchError` that names the nearest."""

    dataset: str | Iterable[str]
    method: str | Iterable[str]
    """METHOD with its variants, or METHOD:VARIANT."""
    protocol: str | Iterable[str]
    preset: str | Iterable[str]
    tag: str | Iterable[str]


def _inputs(results: Path | str | None, all: bool, only: Only | None = None) -> TableInputs:
    store = ResultStore(path_of(results))
    store.check_readable()
    named: dict[str, Any] = dict(only or {})
    if unknown := [kind for kind in named if kind not in Only.__annotations__]:
        raise SkelbenchError(did_you_mean(unknown[0], list(Only.__annotations__), "argument"))
    filters = Filters(
        **{kind: (one,) if isinstance(one, str) else tuple(arguments.names(one, kind)) for kind, one in named.items()}
    )
    inputs = TableInputs(use_plugins(), store, exact_only=not all, filters=filters)
    inputs.check_filters()
    return inputs


def results(path: Path | str | None = None) -> pandas.DataFrame:
    """All evaluations of finished runs below ``path``, a row each: what tables are made from.

    Accuracies are shares. Columns: method, variant, data set, split, token grid, preset, whether it is ``exact``,
    hardware, seed, protocol, stream, checkpoint, accuracy, the paired tests against the controls, cost, ...
    (``skelbench.reporting.frame.frame`` says what each is).
    """
    from skelbench.reporting.frame import frame

    return frame(_inputs(path, True).runs)


class TableView:
    """A table as ``skelbench compare`` shows it: a notebook shows it laid out, ``print`` as text."""

    def __init__(self, table: Table, left_out: int = 0) -> None:
        self.table = table
        self.left_out = left_out
        """Runs with settings changed from their preset, which ``all=True`` would add."""

    def frame(self) -> pandas.DataFrame:
        """Raw numbers, a column per column of the table, those that are not shown too."""
        import pandas

        columns = [column.key for column in self.table.columns]
        return pandas.DataFrame({key: self.table.values(key) for key in columns}, columns=columns)

    def render(self, format: str = "terminal") -> str:
        """Text: terminal, md, csv, json, latex or html."""
        return render(self.table, format)

    def __str__(self) -> str:
        return self.render()

    def __repr__(self) -> str:
        return self.render()

    def _repr_html_(self) -> str:
        note = f"<p>{self.left_out} runs made or evaluated with changed settings are left out; all=True shows them.</p>"
        return self.render("html") + (note if self.left_out else "")


def compare(
    table: str = "linear",
    *,
    all: bool = False,
    significance: bool = False,
    against: str = "",
    best_on_test: bool = False,
    results: Path | str | None = None,
    **only: Unpack[Only],
) -> TableView:
    """A table over the results: ``skelbench compare``, from Python.

    ``table``: linear, token-budget, target-control, flops (which needs no run), or one of a plugin. ``all``: also runs
    whose settings were changed from their preset. ``significance``: significantly different rows.
    ``against``: difference of every row from this method. ``best_on_test``:
    the highest test accuracy of a probe's checkpoints too. ``dataset``, ``method``, ``protocol``, ``preset``, ``tag``:
    only rows of these, one name or several.

    Raises:
        SkelbenchError: there is no such table, data set, ...; names the nearest.
    """
    inputs = _inputs(results, all, only)
    inputs.significance, inputs.best_on_test = significance, best_on_test
    inputs.against = against
    built, descriptor = inputs.table(table), inputs.host.get("tables", table)
    needs_runs = isinstance(descriptor, TableSpec) and descriptor.needs_runs
    return TableView(built, inputs.left_out if needs_runs else 0)


def plot(
    figure: str,
    *,
    all: bool = False,
    results: Path | str | None = None,
    data: Path | str | None = None,
    settings: Mapping[str, Any] | None = None,
    **only: Unpack[Only],
) -> Figure:
    """A figure over the results, as matplotlib has it: ``skelbench plot``, from Python. A notebook shows it;
    ``figure.savefig("curves.pdf")`` writes it.

    ``figure``: curves, token-budget, gallery, ..., or one of a plugin. ``all``: as in :func:`compare`. ``data``: where
    data sets are. ``settings``: the figure's own, ``{"clip": 3}`` of gallery. ``dataset``, ``method``, ...: as in
    :func:`compare`; what figures of a method (gallery, coverage) are of.

    Raises:
        SkelbenchError: there is no such figure, or no run that it could show; says what to run.
    """
    from matplotlib.figure import Figure

    inputs = _inputs(results, all, only)
    descriptor = inputs.host.get("figures", figure)
    assert isinstance(descriptor, FigureSpec)
    inputs.settings = settings_of(inputs.host, descriptor, dict(settings or {}), inputs.filters)
    if len(inputs.filters.protocol) == 1:
        (inputs.protocol,) = inputs.filters.protocol
    inputs.data_root = path_of(data)
    drawn = inputs.host.checked(descriptor, inputs.host.load(descriptor)(inputs), Figure, "matplotlib Figure")
    _show_figures()
    return drawn


def report(
    path: Path | str = "report.html",
    *,
    all: bool = False,
    tables: Iterable[str] | None = None,
    skeletons: bool = True,
    results: Path | str | None = None,
    data: Path | str | None = None,
    **only: Unpack[Only],
) -> Path:
    """All results as one page that loads nothing from anywhere: ``skelbench report``, from Python. Returns where it is.

    ``all``, ``dataset``, ``method``, ...: as in :func:`compare`. ``tables``: these alone; None = all but those that
    count models. ``skeletons``: with test clips of the most accurate run and their nearest training clips, which
    takes the features of its data set.

    Raises:
        SkelbenchError: there is no run yet, or nothing can be written there.
    """
    from skelbench.reporting.page.build import save

    inputs = _inputs(results, all, only)
    inputs.data_root = path_of(data)
    file = Path(path).expanduser()
    save(file, inputs, skeletons, None if tables is None else arguments.names(tables, "tables"))
    return file


def _show_figures() -> None:
    """Have a notebook show figures, which it does by itself only after pyplot was imported."""
    try:
        from IPython import get_ipython
        from IPython.core.pylabtools import select_figure_formats
    except ImportError:
        return
    from matplotlib.figure import Figure

    shell: Any = get_ipython()
    if shell is not None and Figure not in shell.display_formatter.formatters["image/png"].type_printers:
        select_figure_formats(shell, {"png"})
