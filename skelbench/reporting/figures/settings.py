"""Drawing of a named figure with the settings that were typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import Spec, validated
from skelbench.plugin import FigureSpec
from skelbench.plugin.host import Host
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.filters import Filters
from skelbench.reporting.inputs import TableInputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("method", "dataset")


def settings_of(host: Host, figure: FigureSpec, typed: Mapping[str, Any], filters: Filters) -> Spec:
    """``typed`` (``--set``) as the figure's ``config`` reads them. If a figure has a setting ``method`` or ``dataset``,
    the filter of this name sets it and does not select runs.

    Raises:
        SkelbenchError: a setting is unknown or invalid, or is given twice.
    """
    config, settings = host.config(figure), dict(typed)
    for kind in KINDS:
        names = getattr(filters, kind)
        if names and kind in config.model_fields:
            if kind in settings:
                raise SkelbenchError(f"--{kind} and --set {kind}={settings[kind]} say the same; leave one of them out")
            settings[kind] = ",".join(names)
    return validated(config, settings, f"figure {figure.name}")


def draw(inputs: TableInputs, figure: FigureSpec, settings: Mapping[str, Any]) -> Figure:
    """Draw ``figure``. One filter by protocol is also the protocol that the figure shows.

    Raises:
        SkelbenchError: a setting is wrong, or no run fits (:class:`NothingToDraw`).
    """
    from matplotlib.figure import Figure

    inputs.settings = settings_of(inputs.host, figure, settings, inputs.filters)
    if len(inputs.filters.protocol) == 1:
        (inputs.protocol,) = inputs.filters.protocol
    try:
        drawn = inputs.host.load(figure)(inputs)
    except NothingToDraw as nothing:
        raise NothingToDraw(f"of {inputs.filters}: {nothing}" if inputs.filters else str(nothing)) from nothing
    return inputs.host.checked(figure, drawn, Figure, "matplotlib Figure")
