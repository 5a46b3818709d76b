"""A figure's own settings, from what was typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import Spec, validated
from skelbench.plugin import FigureSpec
from skelbench.plugin.host import Host
from skelbench.reporting.filters import Filters

KINDS = ("method", "dataset")


def settings_of(host: Host, figure: FigureSpec, typed: Mapping[str, Any], filters: Filters) -> Spec:
    """``typed`` (``--set``) as the figure's ``config`` reads them. A figure with a setting ``method`` or ``dataset`` is
    about these, not about runs: the filter of that name is the setting.

    Raises:
        SkelbenchError: a setting is not known or not valid, or is given both ways.
    """
    config, settings = host.config(figure), dict(typed)
    for kind in KINDS:
        names = getattr(filters, kind)
        if names and kind in config.model_fields:
            if kind in settings:
                raise SkelbenchError(f"--{kind} and --set {kind}={settings[kind]} say the same; leave one of them out")
            settings[kind] = ",".join(names)
    return validated(config, settings, f"figure {figure.name}")
