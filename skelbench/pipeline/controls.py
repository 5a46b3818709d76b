"""The controls beside a run, each a run of its own: the untrained twin, and coordinates without a network."""

from __future__ import annotations

from typing import Any

from skelbench.core.spec import RunSpec, twin_fields
from skelbench.pipeline.resolve import Resolved
from skelbench.pipeline.settings import NO_PATCH, still
from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import Host


def control(resolved: Resolved, host: Host) -> Resolved:
    """The untrained twin: same encoder, grid, data, precision and seed, no training; the run that `skelbench run
    untrained` makes."""
    spec, method = resolved.spec, host.get("methods", "untrained")
    seen = {"train": still(spec.train.precision), "components": _topology(spec)}
    twin = RunSpec(**_method(host, method), **seen, **twin_fields(spec))
    # A twin has no variant: where a variant changes the encoder, its twin is that of a changed preset.
    changed = {
        key: value
        for key, value in resolved.from_preset.items()
        if key.startswith("encoder.") or key == "train.precision"
    }
    shared = resolved.preset, changed, method, resolved.encoder, resolved.store
    return Resolved(twin, *shared, setting=resolved.setting)


def raw_control(resolved: Resolved, host: Host) -> Resolved:
    """The run of the control ``raw`` on the same data and clip length: the one that ``skelbench run raw`` makes."""
    spec, method = resolved.spec, host.get("methods", "raw")
    encoder = host.get("encoders", method.recipe["encoder"])
    run = RunSpec(
        **_method(host, method),
        encoder=encoder.name,
        encoder_version=encoder.version,
        encoder_source=host.origin(encoder).source_hash,
        components=_topology(spec),
        grid=spec.grid.model_copy(update=NO_PATCH),
        data=spec.data,
        train=still("fp32"),
    )
    return Resolved(run, resolved.preset, {}, method, encoder, resolved.store)


def _method(host: Host, method: MethodSpec) -> dict[str, Any]:
    """A control's part of the run spec."""
    return {
        "method": method.name,
        "method_version": method.version,
        "method_source": host.origin(method).source_hash,
        "method_config": host.config(method)().model_dump(mode="json"),
    }


def _topology(spec: RunSpec) -> dict[str, str]:
    """The skeleton, of the components of a run: the only one that a control has too."""
    return {name: version for name, version in spec.components.items() if name.startswith("topologies ")}
