"""Parameter groups: what decays, what is held still, which rates are scaled, whose turn it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn

from skelbench.errors import SkelbenchError

GROUP_KEYS = {"wd_scale", "lr_scale", "frozen_until", "clip", "turn"}
"""What a parameter group may say besides ``params`` (see ``Method.optim_groups``)."""


def default_groups(module: nn.Module) -> Iterator[dict[str, Any]]:
    """Two groups: parameters with weight decay, and biases, norms and other 1-D parameters without."""
    decay: list[nn.Parameter] = []
    plain: list[nn.Parameter] = []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            (plain if parameter.ndim <= 1 or name.endswith("bias") else decay).append(parameter)
    yield {"params": decay, "wd_scale": 1.0}
    yield {"params": plain, "wd_scale": 0.0}


def merged(groups: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Groups with equal settings become one: few large groups update faster than many small ones."""
    by_settings: dict[tuple[Any, ...], dict[str, Any]] = {}
    for group in groups:
        settings = {key: value for key, value in group.items() if key != "params"}
        if unknown := settings.keys() - GROUP_KEYS:
            raise SkelbenchError(
                f"optim_groups of the method uses {', '.join(sorted(unknown))}, which the harness does not know; "
                f"known besides params: {', '.join(sorted(GROUP_KEYS))}"
            )
        key = tuple(sorted(settings.items()))
        by_settings.setdefault(key, {**settings, "params": []})["params"].extend(group["params"])
    return [group for group in by_settings.values() if group["params"]]
