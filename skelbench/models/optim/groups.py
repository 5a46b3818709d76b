"""Parameter groups: weight decay, freezing, scaled rates, and the optimizer of each parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from torch import nn

from skelbench.core.errors import did_you_mean
from skelbench.plugin.plugin_errors import plugin_code, wrong

GROUP_KEYS = {"wd_scale", "lr_scale", "frozen_until", "clip", "turn"}
"""Keys of a parameter group besides ``params`` (see ``Method.optim_groups``)."""


def default_groups(module: nn.Module) -> Iterator[dict[str, Any]]:
    """Two groups: parameters with weight decay, and biases, norms and other 1-D parameters without.

    >>> [(len(group["params"]), group["wd_scale"]) for group in default_groups(nn.Linear(2, 2))]
    [(1, 1.0), (1, 0.0)]
    """
    decay: list[nn.Parameter] = []
    plain: list[nn.Parameter] = []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            (plain if parameter.ndim <= 1 or name.endswith("bias") else decay).append(parameter)
    yield {"params": decay, "wd_scale": 1.0}
    yield {"params": plain, "wd_scale": 0.0}


def one_group(module: nn.Module) -> Iterator[dict[str, Any]]:
    """One group of all trained parameters, with decay for biases and norms too, as in many public codes.

    >>> [len(group["params"]) for group in one_group(nn.Linear(2, 2))]
    [2]
    """
    yield {"params": [parameter for parameter in module.parameters() if parameter.requires_grad]}


def groups_of(method: nn.Module) -> list[dict[str, Any]]:
    """Return the groups of ``method.optim_groups()``, with every trained parameter once.

    Raises:
        SkelbenchError: ``optim_groups`` returns anything else; names the function.
    """
    give: Callable[[], Iterable[dict[str, Any]]] = method.optim_groups  # type: ignore[assignment]
    with plugin_code(give, "()"):
        groups = give()
        groups = list(groups) if isinstance(groups, Iterable) else [groups]
    names = {parameter: name for name, parameter in method.named_parameters()}
    parameters_seen: set[nn.Parameter] = set()
    for group in groups:
        if not isinstance(group, Mapping) or "params" not in group:
            raise wrong(give, f'gives {group!r:.60} as a group; give a dict, {{"params": [...], "lr_scale": 0.1}}')
        if unknown := sorted(group.keys() - GROUP_KEYS - {"params"}):
            raise wrong(give, did_you_mean(unknown[0], GROUP_KEYS, "key of a group"))
        if isinstance(group["params"], nn.Parameter) or not isinstance(group["params"], Iterable):
            raise wrong(give, 'gives a group whose "params" are not a list of parameters; put them into one')
        group["params"] = list(group["params"])
        for parameter in group["params"]:
            if not isinstance(parameter, nn.Parameter):
                raise wrong(give, f"gives a {type(parameter).__name__} as a parameter; write list(module.parameters())")
            if parameter in parameters_seen:
                raise wrong(give, f"gives {names.get(parameter, 'a parameter')} twice; leave it in one group")
            parameters_seen.add(parameter)
    missed = [name for parameter, name in names.items() if parameter.requires_grad and parameter not in parameters_seen]
    if missed:
        more = f" and {len(missed) - 1} more" * (len(missed) > 1)
        raise wrong(
            give, f"lacks {missed[0]}{more}, which would never be trained; give them a group, or requires_grad_(False)"
        )
    return groups


def merged(groups: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge groups with equal settings: few large groups update faster than many small ones.

    >>> a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> [len(group["params"]) for group in merged([*default_groups(a), *default_groups(b)])]
    [2, 2]
    """
    by_settings: dict[tuple[Any, ...], dict[str, Any]] = {}
    for group in groups:
        settings = {key: value for key, value in group.items() if key != "params"}
        key = tuple(sorted(settings.items()))
        by_settings.setdefault(key, {**settings, "params": []})["params"].extend(group["params"])
    return [group for group in by_settings.values() if group["params"]]
