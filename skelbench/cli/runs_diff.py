"""``skelbench runs diff``: the settings in which two runs differ, and their accuracies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from skelbench.cli.options import ReadResults
from skelbench.core.spec import RunSpec
from skelbench.core.text import setting_text
from skelbench.records.run_dir import RunDir

Differences = dict[str, tuple[Any, Any]]
"""Setting -> its values in two runs; None where a run has no such setting."""


def diff(
    first: Annotated[str, typer.Argument(help="Run name, id, number, or an unambiguous part.")],
    second: Annotated[str, typer.Argument(help="The run to compare it with.")],
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
    results: ReadResults = None,
) -> None:
    """Settings in which two runs differ, and the test accuracies of both."""
    from skelbench.core.console import make_table, out
    from skelbench.records.store import ResultStore

    runs = [ResultStore(results).whole(name) for name in (first, second)]
    changed, accuracies = differences(*(run.spec for run in runs)), [_accuracies(run) for run in runs]
    names = dict.fromkeys(name for own in accuracies for name in own)
    accuracy = {name: tuple(own.get(name) for own in accuracies) for name in names}
    if as_json:
        facts = {"runs": [run.name for run in runs], "settings": changed, "accuracy": accuracy}
        out.print(json.dumps(facts, indent=2), soft_wrap=True)
        return
    rows = [(key, *map(_short, values)) for key, values in changed.items()]
    rows += [(name, *("" if x is None else f"{x:.1%}" for x in values)) for name, values in accuracy.items()]
    out.print(make_table(("", *(f"{run.title} {run.spec.id}" for run in runs)), rows))
    if not changed:
        out.print("No setting differs.")


def differences(first: RunSpec, second: RunSpec) -> Differences:
    """Settings in which two specs differ; views, which mostly follow from other settings, come last.

    Settings of a component that only one of the specs has are skipped.
    """
    old, new = _settings(first), _settings(second)
    keys = [key for key in {**old, **new} if (key in old and key in new) or key.startswith(("data.", "train."))]
    keys.sort(key=lambda key: key.startswith("view "))
    return {key: (old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)}


def nearest(spec: RunSpec, runs: Iterable[RunDir]) -> tuple[RunDir, Differences] | None:
    """The run of the same method with the fewest settings that differ from ``spec``, of several the newest."""
    alike = [(run, differences(run.spec, spec)) for run in runs if run.spec.method == spec.method]
    return min(alike, key=lambda entry: (len(entry[1]), -entry[0].about["created"]), default=None)


def sentence(changed: Mapping[str, tuple[Any, Any]]) -> str:
    """``train.lr 0.002 -> 0.001, the code of mine and 3 more``."""
    shown = [
        f"the {key}" if key.startswith("code of ") else f"{key} {_short(old)} -> {_short(new)}"
        for key, (old, new) in [*changed.items()][:3]
    ]
    return ", ".join(shown) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")


def _settings(spec: RunSpec) -> dict[str, Any]:
    """All settings of a spec by the names that users type, with code and versions."""
    plain = spec.model_dump(mode="json")
    values: dict[str, Any] = {}
    for key, value in plain.items():
        part, _, what = key.rpartition("_")
        if key == "views":
            values |= {f"view {view}.{inner}": x for view, fields in value.items() for inner, x in fields.items()}
        elif isinstance(value, dict):
            prefix = "version of " if key == "components" else f"{key.removesuffix('_config')}."
            values |= {prefix + inner: x for inner, x in value.items()}
        elif what in ("source", "version"):
            values[f"{what.replace('source', 'code')} of {plain[part]}"] = value
        else:
            values[key] = value
    return values


def _short(value: Any) -> str:
    """A setting as text, with the beginnings of hashes."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1", setting_text(value))


def _accuracies(run: RunDir) -> dict[str, float]:
    """Accuracy of each protocol's standard evaluation of the final weights."""
    return {record["spec"]["protocol"]: record["metrics"]["accuracy"] for record in run.records() if record["standard"]}
