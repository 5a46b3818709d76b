"""``skelbench env``: what there is and what is in effect, to paste into an issue."""

from __future__ import annotations

import json
import os
import platform
from typing import Annotated, Any

import typer

PACKAGES = ("torch", "timm", "numpy", "scipy", "scikit-learn", "pandas", "pydantic", "typer", "fvcore")


def env(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """Versions, devices, cores, folders in effect and who set them, plugins with problems: to paste into an issue.

    It works where other things do not, and shows no variables but skelbench's own.
    """
    from skelbench.core.console import out

    facts = gathered()
    if as_json:
        out.print(json.dumps(facts, indent=1, ensure_ascii=False), soft_wrap=True)
        return
    _show(facts)


def gathered() -> dict[str, Any]:
    """All of it, as plain data; what cannot be found out is a sentence among the ``problems``."""
    from skelbench.core.threads import usable_cores

    problems: list[str] = []
    torch_facts = _torch(problems)
    settings = _settings(problems)
    distributions = _plugins(problems)
    return {
        "versions": _versions() | distributions,
        "platform": platform.platform(),
        "devices": torch_facts["devices"],
        "cores": {"usable": usable_cores(), "of the machine": os.cpu_count() or 1},
        "threads": torch_facts["threads"],
        "settings": settings,
        "problems": problems,
    }


def _versions() -> dict[str, str]:
    from skelbench.core.version import __version__, installed

    packages = {name: installed(name) or "not installed" for name in PACKAGES}
    return {"skelbench": __version__, "python": platform.python_version()} | packages


def _torch(problems: list[str]) -> dict[str, Any]:
    """Devices and threads; empty without a torch that works."""
    try:
        import torch

        from skelbench.core.threads import limit_threads
        from skelbench.records.environment import hardware

        devices = {"cpu": hardware("cpu")}
        devices |= {f"cuda:{i}": hardware(f"cuda:{i}") for i in range(torch.cuda.device_count())}
        limit_threads()
        return {"devices": devices, "threads": torch.get_num_threads()}
    except Exception as error:  # whatever a broken installation raises
        problems.append(f"torch cannot be used: {type(error).__name__}: {' '.join(str(error).split())}")
        return {"devices": {}, "threads": None}


def _settings(problems: list[str]) -> dict[str, Any]:
    """What is in effect, and where that comes from."""
    from skelbench.core import user_config
    from skelbench.core.errors import SkelbenchError
    from skelbench.data.store.roots import data_root
    from skelbench.records.store import default_root

    effect: dict[str, Any] = {"results": default_root, "data": data_root}
    facts: dict[str, Any] = {}
    for key, setting in user_config.SETTINGS.items():
        try:
            value, source = user_config.found(key)
            shown = str(effect[key]().absolute()) if key in effect else setting.default if value is None else value
            facts[key] = {"value": list(map(str, shown)) if isinstance(shown, tuple) else shown, "from": source}
        except SkelbenchError as error:
            if str(error) not in problems:
                problems.append(str(error))
    return facts


def _plugins(problems: list[str]) -> dict[str, str]:
    """Versions of the distributions that bring plugins."""
    from skelbench.plugin.host import get_host
    from skelbench.plugin.status import one_line

    try:
        plugins = get_host().plugins
    except Exception as error:  # a broken file of settings, or SKELBENCH_STRICT
        if (said := one_line(error)) not in problems:
            problems.append(said)
        return {}
    problems += [f"plugin {each.name} ({each.source}): {each.state}: {each.error}" for each in plugins if each.error]
    return {each.dist: each.version for each in plugins if each.dist}


def _show(facts: dict[str, Any]) -> None:
    from skelbench.core.console import out, print_facts, styled
    from skelbench.core.text import plain

    print_facts([*facts["versions"].items(), ("platform", facts["platform"])], title="Versions")
    cores = facts["cores"]
    usable = f"{cores['usable']} of {cores['of the machine']}"
    print_facts([*facts["devices"].items(), ("usable cores", usable), ("threads", facts["threads"])], title="\nDevices")
    settings = [
        (key, f"{', '.join(said['value']) if isinstance(said['value'], list) else said['value']}  ({said['from']})")
        for key, said in facts["settings"].items()
    ]
    print_facts(settings, title="\nSettings, and who set them")
    for problem in facts["problems"]:
        out.print(styled(("problem:", "bold red"), f" {plain(problem)}"), soft_wrap=True)
