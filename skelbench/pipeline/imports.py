"""A published checkpoint as a finished run; nothing is written if its weights do not fit."""

from __future__ import annotations

import time

from skelbench.methods.contract import Method
from skelbench.methods.imported import Imported
from skelbench.pipeline.checkpoint_file import Checkpoint, fit
from skelbench.pipeline.resolve import Resolved
from skelbench.pipeline.run_lock import alone, clear
from skelbench.pipeline.session import Session
from skelbench.records.environment import environment
from skelbench.records.run_dir import RunDir
from skelbench.records.state_file import write_state
from skelbench.training.build import build_method
from skelbench.training.checkpoint import save_encoders


def import_weights(
    session: Session, resolved: Resolved, checkpoint: Checkpoint, imported: Imported, force: bool = False
) -> RunDir:
    """A finished run whose weights come from a file instead of training; nothing is written if they do not fit."""
    spec = resolved.spec
    method = build_method(spec, session.host, resolved.store.topology)
    whole = fit(method, imported.weights, str(checkpoint.path))
    session.results.prepare()
    facts = {
        "file": checkpoint.path.name,
        "sha256": checkpoint.sha256,
        "epoch": checkpoint.epoch,
        "tensors": len(checkpoint.state),
        "read": f"encoder and {_rest(method)}" if whole else "encoder alone",
        "settings": dict(imported.settings),
        "left_out": list(imported.leftover),
    }
    ran_on = {"environment": environment(session.device)}
    run = session.results.open(spec, resolved.preset, resolved.modified, ran_on, resolved.setting, resolved.variant)
    with alone(run):
        if force:
            clear(run, **ran_on)
        if run.outcome != "done":
            weights = {name: x for name, x in method.state_dict().items() if name in imported.weights}
            write_state(run.checkpoint, {"id": spec.id, "step": 0, "method": weights})
            save_encoders(run, spec.id, method, checkpoint.epoch)
            unknown = {"clips_seen": None, "train_seconds": None}
            run.update(outcome="done", imported=facts, steps=0, finished=time.time(), **unknown)
    return run


def _rest(method: Method) -> str:
    return "decoder" if "decoder" in method.roles.values() else "heads"
