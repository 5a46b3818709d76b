"""Results, tables and figures, as frames and as output of a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skelbench.api.arguments import keywords
from skelbench.api.place import path_of
from skelbench.api.plugins import use_plugins
from skelbench.plugin.descriptors import FigureSpec, TableSpec
from skelbench.records.store import ResultStore
from skelbench.reporting.figures.settings import draw
from skelbench.reporting.filters import Filters
from skelbench.reporting.inputs import TableInputs, read_inputs
from skelbench.reporting.render import render
from skelbench.reporting.table import Table

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


def _inputs(results: Path | str | None, all: bool, only: Mapping[str, Any]) -> TableInputs:
    return read_inputs(use_plugins(), ResultStore(path_of(results)), Filters(**only), all)


def results(path: Path | str | None = None) -> pandas.DataFrame:
    """All evaluations of finished runs below ``path``, a row each: what tables are made from.

    Accuracies are shares. Columns: method, variant, dataset, split, token grid, preset, whether it is ``exact``,
    hardware, seed, protocol, stream, checkpoint, accuracy, the paired tests against the controls, cost, ...
    (``skelbench.reporting.frame.frame`` says what each is).
    """
    from skelbench.reporting.frame import frame

    return frame(_inputs(path, True, {}).runs)


class TableView:
    """A table as ``skelbench compare`` shows it: a notebook shows it laid out, ``print`` as text."""

    def __init__(self, table: Table, left_out: str = "") -> None:
        self.table = table
        self.left_out = left_out
        """Runs and evaluations that ``all=True`` would add, in words; "" for none."""

    def frame(self) -> pandas.DataFrame:
        """Raw numbers, one column per column of the table, hidden ones included."""
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
        note = f"<p>Not shown: {self.left_out}; all=True shows them.</p>"
        return self.render("html") + (note if self.left_out else "")


@keywords(Filters)
def compare(
    table: str = "linear",
    *,
    all: bool = False,
    significance: bool = False,
    against: str = "",
    best_on_test: bool = False,
    results: Path | str | None = None,
    **only: Any,
) -> TableView:
    """A table over the results: ``skelbench compare``, from Python.

    ``table``: linear, token-budget, target-control, flops (which needs no run), or one of a plugin. ``all``: also runs
    whose settings were changed from their preset. ``significance``: significantly different rows.
    ``against``: difference of every row from this method. ``best_on_test``:
    the highest test accuracy of a probe's checkpoints too.

    Raises:
        SkelbenchError: there is no such table, dataset, ...; names the nearest.
    """
    inputs = _inputs(results, all, only)
    inputs.significance, inputs.best_on_test = significance, best_on_test
    inputs.against = against
    built, descriptor = inputs.table(table), inputs.host.get("tables", table)
    needs_runs = isinstance(descriptor, TableSpec) and descriptor.needs_runs
    return TableView(built, inputs.left_out if needs_runs else "")


@keywords(Filters)
def plot(
    figure: str,
    *,
    all: bool = False,
    results: Path | str | None = None,
    data: Path | str | None = None,
    settings: Mapping[str, Any] | None = None,
    **only: Any,
) -> Figure:
    """A figure over the results, as matplotlib has it: ``skelbench plot``, from Python. A notebook shows it;
    ``figure.savefig("curves.pdf")`` writes it.

    ``figure``: curves, token-budget, gallery, ..., or one of a plugin. ``all``: as in :func:`compare`. ``data``: where
    datasets are. ``settings``: the figure's own, ``{"clip": 3}`` of gallery. ``method`` is also the method that
    gallery and coverage show.

    Raises:
        SkelbenchError: there is no such figure, or no run that it could show; says what to run.
    """
    inputs = _inputs(results, all, only)
    inputs.data_root = path_of(data)
    descriptor = inputs.host.get("figures", figure)
    assert isinstance(descriptor, FigureSpec)
    drawn = draw(inputs, descriptor, settings or {})
    _show_figures()
    return drawn


@keywords(Filters)
def report(
    path: Path | str = "report.html",
    *,
    all: bool = False,
    tables: Iterable[str] | None = None,
    skeletons: bool = True,
    results: Path | str | None = None,
    data: Path | str | None = None,
    **only: Any,
) -> Path:
    """All results as one page that loads nothing from anywhere: ``skelbench report``, from Python. Returns where it is.

    ``all``: as in :func:`compare`. ``tables``: these alone; None = all but those that count models. ``skeletons``: with
    test clips of the most accurate run and their nearest training clips, which takes the features of its dataset.

    Raises:
        SkelbenchError: there is no run yet, or nothing can be written there.
    """
    from skelbench.reporting.page.build import save

    inputs = _inputs(results, all, only)
    inputs.data_root = path_of(data)
    file = Path(path).expanduser()
    save(file, inputs, skeletons, None if tables is None else list(tables))
    return file


def _show_figures() -> None:
    """Let a notebook show figures, which it otherwise does only after an import of pyplot."""
    try:
        from IPython import get_ipython
        from IPython.core.pylabtools import select_figure_formats
    except ImportError:
        return
    from matplotlib.figure import Figure

    shell: Any = get_ipython()
    if shell is not None and Figure not in shell.display_formatter.formatters["image/png"].type_printers:
        select_figure_formats(shell, {"png"})
