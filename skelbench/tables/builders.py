"""The tables that ship with skelbench: each takes a :class:`Context` and returns a ``Table``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from skelbench.results.store import ResultStore

if TYPE_CHECKING:
    import pandas

    from skelbench.plugin.host import Host
    from skelbench.tables.table import Table


@dataclass
class Context:
    """What a table may be built from."""

    host: Host
    store: ResultStore
    exact_only: bool = True
    """Leave out runs whose settings were changed from their preset (``--all`` shows them)."""

    @cached_property
    def every(self) -> pandas.DataFrame:
        """Every evaluation record of a finished run (columns: ``skelbench.results.frame``)."""
        from skelbench.results.frame import frame

        return frame(self.store)

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
    from skelbench.tables.linear import build

    return build(context.frame)


def flops(context: Context) -> Table:
    """Cost at the paper's token grids; needs no run."""
    from skelbench.cost.rows import flops_rows
    from skelbench.tables.flops import build

    return build(flops_rows(context.host))


