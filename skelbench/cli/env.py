"""``skelbench env``: versions, devices and settings, to paste into an issue."""

from __future__ import annotations

import json
import os
import platform
from typing import Annotated, Any

import typer

PACKAGES = ("torch", "timm", "numpy", "scipy", "scikit-learn", "pandas", "pydantic", "typer", "fvcore")


def env(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print versions, hardware and settings for a bug report.

    It also works if torch cannot be imported. It prints only skelbench's own environment variables.
    """
    from skelbench.core.console import out

    facts = gathered()
    if as_json:
        out.print(json.dumps(facts, indent=1, ensure_ascii=False), soft_wrap=True)
    else:
        _show(facts)


def gathered() -> dict[str, Any]:
    """Return all facts as plain data; a torch that cannot be imported is an error message among the ``problems``."""
    from skelbench.core import user_config
    from skelbench.core.threads import usable_cores
    from skelbench.core.version import __version__, installed
    from skelbench.plugin.host import get_host
    from skelbench.plugin.status import one_line

    plugins = get_host().plugins
    failed = [f"plugin {item.name} ({item.source}): {item.state}: {item.error}" for item in plugins if item.error]
    devices: dict[str, str] = {}
    threads = None
    try:
        devices, threads = _torch()
    except Exception as error:  # a broken installation of torch
        failed.append(f"torch cannot be used: {one_line(error)}")
    versions = {"skelbench": __version__, "python": platform.python_version()}
    versions |= {name: installed(name) or "not installed" for name in PACKAGES}
    return {
        "versions": versions | {item.dist: item.version for item in plugins if item.dist},
        "platform": platform.platform(),
        "devices": devices,
        "cores": {"usable": usable_cores(), "of the machine": os.cpu_count() or 1},
        "threads": threads,
        "settings": {key: _setting(key) for key in user_config.SETTINGS},
        "problems": failed,
    }


def _torch() -> tuple[dict[str, str], int]:
    """Devices and threads."""
    import torch

    from skelbench.core.threads import limit_threads
    from skelbench.records.environment import hardware

    devices = {name: hardware(name) for name in ("cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count())))}
    limit_threads()
    return devices, torch.get_num_threads()


def _setting(key: str) -> dict[str, Any]:
    """Value of a setting, and its source."""
    from skelbench.core import user_config
    from skelbench.data.store.roots import data_root
    from skelbench.records.store import default_root

    folders = {"results": default_root, "data": data_root}
    value, source = user_config.found(key)
    if key in folders:
        value = str(folders[key]().absolute())
    value = user_config.SETTINGS[key].default if value is None else value
    return {"value": list(map(str, value)) if isinstance(value, tuple) else value, "from": source}


def _show(facts: dict[str, Any]) -> None:
    from skelbench.core.console import out, print_facts, styled
    from skelbench.core.text import plain

    print_facts([*facts["versions"].items(), ("platform", facts["platform"])], title="Versions")
    cores = facts["cores"]
    usable = f"{cores['usable']} of {cores['of the machine']}"
    print_facts([*facts["devices"].items(), ("usable cores", usable), ("threads", facts["threads"])], title="\nDevices")
    settings = [
        (key, f"{', '.join(value['value']) if isinstance(value['value'], list) else value['value']}  ({value['from']})")
        for key, value in facts["settings"].items()
    ]
    print_facts(settings, title="\nSettings and their sources")
    for problem in facts["problems"]:
        out.print(styled(("problem:", "bold red"), f" {plain(problem)}"), soft_wrap=True)
