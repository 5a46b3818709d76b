"""The tables that ship with skelbench: each takes a :class:`Context` and returns a ``Table``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from skelbench.results.store import ResultStore

if TYPE_CHECKING:
    import pandas

    from skelbench.cost.rows import CostRow
    from skelbench.plugin.host import Host
    from skelbench.report.table import Table


@dataclass
class Context:
    """What a table may be built from."""

    host: Host
    store: ResultStore
    exact_only: bool = True
    """Leave out runs whose settings were changed from their preset (``--all`` shows them)."""
    only: Collection[str] | None = None
    """Names of the runs that may fill a table; None = every run."""
    progress: Callable[..., Any] | None = None
    """``progress(total=, label=, unit=)`` -> context manager that yields ``report(advance)``; ``None`` = silent."""

    @cached_property
    def every(self) -> pandas.DataFrame:
        """Every evaluation record of a finished run (columns: ``skelbench.report.frame``)."""
        from skelbench.report.frame import frame

        every = frame(self.store)
        return every if self.only is None else every[every["run"].isin(self.only)]

    @property
    def frame(self) -> pandas.DataFrame:
        """The records that may fill a table."""
        return self.every[self.every["exact"].astype(bool)] if self.exact_only else self.every

    @property
    def left_out(self) -> int:
        """Runs that ``--all`` would add."""
        return self.every["run"].nunique() - self.frame["run"].nunique()


def linear(context: Context) -> Table:
    """Accuracy of every evaluated run beside its untrained encoder."""
    from skelbench.report.linear import build

    return build(context.frame)


def token_budget(context: Context) -> Table:
    """Methods at 8, 15 and 30 temporal tokens: accuracy, cost, and the drop against 30."""
    from skelbench.report.token_budget import build

    return build(context.frame, context.store)


def target_control(context: Context) -> Table:
    """SLiM with four targets of masked prediction: accuracy, fall of the loss, effective rank."""
    from skelbench.report.target_control import build

    return build(context.frame, context.store)


def objective(context: Context) -> Table:
    """SLiM's objectives, alone and together."""
    return _ablation("OBJECTIVE", context)


def stm(context: Context) -> Table:
    """SLiM's masks of global and local views."""
    return _ablation("STM", context)


def saa(context: Context) -> Table:
    """SLiM's augmentations, each off, limited or full."""
    return _ablation("SAA", context)


def centring(context: Context) -> Table:
    """How SLiM's teacher is centred."""
    return _ablation("CENTRING", context)


def batch(context: Context) -> Table:
    """SLiM with half the batch."""
    return _ablation("BATCH", context)


def _ablation(name: str, context: Context) -> Table:
    from skelbench.report import ablation, study_rows

    return study_rows.build(getattr(ablation, name), context.frame, context.store)


def flops(context: Context) -> Table:
    """Cost at the paper's token grids; needs no run."""
    from skelbench.report.flops import build

    return build(_costs(context))


def flops_detail(context: Context) -> Table:
    """Cost of a pre-training step by module; needs no run."""
    from skelbench.report.flops_detail import build

    return build(_costs(context))


def _costs(context: Context) -> Iterator[CostRow]:
    """Every method counted on every grid, with progress."""
    from skelbench.cost.rows import flops_cells, flops_rows

    cells = flops_cells(context.host)
    started = context.progress or (lambda **_: nullcontext(lambda advance: None))
    with started(total=len(cells), label="counting cost", unit="rows") as report:

        def one_by_one() -> Iterator[Any]:
            for cell in cells:
                yield cell
                report(1)

        yield from flops_rows(context.host, one_by_one())
