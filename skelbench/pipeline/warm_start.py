"""First-stage runs for second-stage methods.

A second stage without a first stage, or with the run of another method, is rejected before anything is written.
"""

from __future__ import annotations

from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import RunSpec
from skelbench.plugin.descriptors import MethodSpec
from skelbench.records.run_dir import RunDir
from skelbench.records.store import ResultStore


def finished(results: ResultStore, pattern: str) -> RunDir:
    """Return the finished run to start from; raise SkelbenchError if there is none."""
    run, checkpoint = results.find(pattern)
    if checkpoint != "last" or run.outcome != "done":
        raise SkelbenchError(
            f"--init-from {pattern}: a run can start from the final weights of a finished run only; "
            f"{run.name}: {run.outcome}"
        )
    check_state(run)
    return run


def check_state(parent: RunDir) -> None:
    """Raise SkelbenchError for a trained run without its state: its id would stand for a start with other weights."""
    if parent.info.get("steps") and not parent.checkpoint.exists():
        raise SkelbenchError(
            f"--init-from {parent.name}: its training state ({parent.checkpoint.name}) is not here, as of runs that "
            f"were added from a file; train it here (`skelbench run {parent.title} ... --force`), or copy that file"
        )


def without_parent(method: MethodSpec, native: bool) -> dict[str, Any]:
    """Settings of a run that starts from no other run."""
    return dict(method.stage.alone) if method.stage and not native else {}


def check_parent(method: MethodSpec, spec: RunSpec, setting: str) -> None:
    """Raise SkelbenchError for a second stage without a run to start from."""
    stage = method.stage
    if not stage or spec.init_from or spec.imported or (stage.alone and setting != "native"):
        return
    first, native = stage.after[0], " --native" if setting == "native" else ""
    advice = "; in the shared setting it can also make its first stage itself" if stage.alone else ""
    raise SkelbenchError(
        f"method {spec.method} is the second stage of {' or '.join(stage.after)} and needs a finished run of it: train "
        f"one with `skelbench run {first}{native}`, then add --init-from RUN{advice}"
    )


def check_fits(method: MethodSpec, spec: RunSpec, parent: RunDir) -> None:
    """Raise SkelbenchError for a second stage whose first stage is not ``parent``."""
    stage, first = method.stage, parent.spec
    if not stage:
        return
    if first.method not in stage.after:
        raise SkelbenchError(
            f"--init-from {parent.name}: method {spec.method} is the second stage of {' or '.join(stage.after)}, and "
            f"that is a run of {first.method}"
        )
    for part, ours, stored in (
        ("encoder", (spec.encoder, spec.encoder_config), (first.encoder, first.encoder_config)),
        ("token grid", (spec.grid.frames, spec.grid.patch), (first.grid.frames, first.grid.patch)),
        ("stream", spec.method_config.get("stream"), first.method_config.get("stream")),
    ):
        if ours != stored:
            raise SkelbenchError(
                f"--init-from {parent.name}: its {part} is {stored}, and this run has {ours}; both stages need the same"
            )


def is_first_stage(method: MethodSpec, spec: RunSpec, variant: str, preset: str, setting: str, parent: RunDir) -> bool:
    """Whether ``parent`` is the published first stage: the bare preset on the same clips and seed, in the variant (a
    stream) that both stages have."""
    info, first = parent.info, parent.spec
    return bool(
        method.stage
        and not (info["modified"] or first.imported)
        and info.get("variant", "") in ("", variant)
        and (info["preset"], info.get("setting", "shared")) == (preset, setting)
        and (first.data, first.seed) == (spec.data, spec.seed)
    )
