"""The figures that ship with skelbench: each takes a :class:`skelbench.reporting.inputs.TableInputs` and returns a
matplotlib ``Figure``, made without pyplot: no window, no display, no state left behind."""

from skelbench.core.errors import SkelbenchError


class NothingToDraw(SkelbenchError):
    """No finished run fits the figure; the message says what to run, and no file is written."""
