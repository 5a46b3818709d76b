"""Pre-training as a step that finishes, continues where it stopped, or is skipped when it is done."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from skelbench.core import distributed
from skelbench.core.errors import Elsewhere, Interrupted, Left, SkelbenchError, Stopped
from skelbench.core.spec import RunSpec
from skelbench.core.threads import fastest_threads, limit_threads, threads_are_named, usable_cores
from skelbench.evaluation.cost.report import flops_per_clip
from skelbench.methods.contract import Method
from skelbench.models.encoder import Encoder
from skelbench.pipeline.memory import full, recorded, settle_memory, ways_left
from skelbench.pipeline.observe import Observing
from skelbench.pipeline.resolve import Resolved
from skelbench.pipeline.run_lock import alone, clear
from skelbench.pipeline.session import Session
from skelbench.pipeline.warm_start import check_parent, check_state
from skelbench.plugin.status import one_line
from skelbench.records.environment import environment
from skelbench.records.provenance import FIELD
from skelbench.records.run_dir import RunDir
from skelbench.records.store import ResultStore
from skelbench.training.build import build_method
from skelbench.training.checkpoint import load_state, load_weights, save_encoders
from skelbench.training.collapse import UNMOVED
from skelbench.training.compiled import compile_parts
from skelbench.training.loop import Trainer

THEN = ", then "
"""Between the hardware of a run's sittings, where it went on on another."""
PATIENCE = 60.0
"""Seconds in which all processes must see what the first one has made."""


def pretrain(session: Session, resolved: Resolved, force: bool = False) -> RunDir:
    """Train ``resolved`` to the end, or continue, or return at once when it is done."""

    mine: list[RunDir] = []  # with the lock that the first process holds, which it looks at before it writes

    def opened() -> tuple[Path, bool]:
        session.results.prepare()
        facts = {"environment": environment(session.device)}
        facts |= {"budget": resolved.length.record()} if resolved.length else {}
        how = resolved.preset, resolved.modified, facts, resolved.setting, resolved.variant
        run = session.results.open(resolved.spec, *how)
        held.enter_context(alone(run, patience=1.0 if resolved.method.trains else 60.0))
        mine.append(run)
        if force:
            clear(run, **facts)
        return run.path, run.outcome == "done" and not _lacks_weights(resolved, run)

    check_parent(resolved.method, resolved.spec, resolved.setting)
    with ExitStack() as held:  # the first process makes and locks the directory, the others join it
        path, done = distributed.first(opened)
        _await(path)
        run = mine[0] if mine else RunDir(path)
        return run if done else _train(session, resolved, run)


def _await(path: Path) -> None:
    """Wait until this process sees the run's directory, which a network file system may show late."""
    end = time.monotonic() + PATIENCE
    while not (path / "run.json").exists():
        if time.monotonic() > end:
            raise SkelbenchError(
                f"this process does not see {path}, which the first one has made; all processes of a run need the same "
                "results directory: choose one that all machines share with --results"
            )
        time.sleep(0.1)


def _lacks_weights(resolved: Resolved, run: RunDir) -> bool:
    """Whether it is a control that was added without its weights: they are its seed's, and made here in an instant."""
    return not resolved.method.trains and FIELD in run.info and not run.encoder().exists()


def _train(session: Session, resolved: Resolved, run: RunDir) -> RunDir:
    spec, chief = resolved.spec, not distributed.rank()
    identity = {"id": spec.id, "name": run.name, "directory": str(run.path), "spec": spec.model_dump(mode="json")}
    trains = resolved.method.trains
    observers = Observing(session.host, session.observe if chief and trains else (), identity)

    def tell(event: str, **values: Any) -> None:
        if chief:
            session.host.notify(f"skelbench_{event}", run=identity, **values)
            observers.tell(event, **values)

    def record(*gone: str, **fields: Any) -> None:
        if chief:
            run.check_held()
            run.update(*gone, **fields)

    outcome, facts = "failed", {"steps": 0, "clips_seen": 0, "train_seconds": 0.0}
    trainer: Trainer | None = None
    tell("run_started")
    try:
        method = build_method(spec, session.host, resolved.store.topology, session.device)
        if not trains:
            if chief:
                save_encoders(run, spec.id, method, 0)
        else:
            if spec.init_from:
                after = resolved.method.stage.after if resolved.method.stage else ()
                warm_start(session.results, method, spec.method, spec.init_from, after)
            trainer = Trainer(spec, method, resolved.store, run, session.device)
            anew = not run.checkpoint.exists()
            first = [weight.detach().clone() for weight in method.inference_encoder().parameters()] if anew else []
            clips = trainer.total * spec.train.batch_size
            label = f"{resolved.title} {spec.tokens}x{resolved.store.topology.num_joints}"
            with session.progress(total=clips, label=label, unit="clips") as report:
                if run.info.get("step") and not run.checkpoint.exists():
                    report(0, note=f"{run.checkpoint} is missing, which held what was done: the run begins anew")
                chosen, saved = settle_memory(
                    trainer, run, partial(flops_per_clip, spec, session.host, resolved.store.topology)
                )
                for note in filter(None, (settle_threads(trainer, run), saved)):
                    report(0, note=note)
                compiled, note = compile_parts(trainer.method, trainer.device, spec.train.compile)
                if note:
                    report(0, note=note)
                here = environment(session.device)
                if run.checkpoint.exists() and (before := run.info.get("environment", {}).get("hardware")):
                    here["hardware"] = _through(before, here["hardware"])
                    if here["hardware"] != before:
                        report(0, note=f"was trained so far on {before}: its rows will say {here['hardware']}")
                # Where it was stopped before and why is past, and so is how it was made to fit and to be fast.
                now = {"environment": here, "train_clips": len(trainer.ids)}
                now |= {"compiled": True} if compiled else {}
                record("step", "reason", "memory", "compiled", outcome="running", **now, **recorded(chosen))
                seconds = trainer.fit(
                    report,
                    log=lambda step, line: tell("log", step=step, metrics=line),
                    signs=record,
                )
                facts = {"steps": trainer.total, "clips_seen": clips, "train_seconds": seconds}
                if first and all(map(torch.equal, first, method.inference_encoder().parameters())):
                    report(0, note=UNMOVED)
                    facts["unmoved"] = True
        outcome = "done"
        record("reason", outcome=outcome, finished=time.time(), **facts)
    except Stopped as error:
        outcome = error.outcome
        record(outcome=outcome, step=error.step, **({} if isinstance(error, Interrupted) else {"reason": str(error)}))
        if not isinstance(error, Left):  # all stopped at the same step, for the same reason
            distributed.all_say("recorded")  # torchrun ends all as soon as one has ended
            if not chief:
                raise Elsewhere(str(error), error.exit_code) from error
        raise
    except KeyboardInterrupt:  # outside the loop, which saves what there is
        outcome = "interrupted"
        record(outcome=outcome)
        raise
    except (Exception, SystemExit) as error:
        doing = f"with batches of {spec.train.batch_size} clips in {spec.train.precision}"
        said = full(error, doing, session.device, _advice(spec, run, trainer))
        with suppress(OSError):  # a full disk has no room for why, which must not take the place of what failed
            record(outcome=outcome, reason=one_line(said or error))
        if said:
            raise said from error
        raise
    finally:
        tell("run_finished", outcome=outcome)
    if trainer and trainer.stop_asked:  # in its last step, which was made, and so was all that follows from it
        raise KeyboardInterrupt
    return run


def _through(before: str, here: str) -> str:
    """The label of hardware of a run that goes on, here, after ``before``."""
    return before if before.split(THEN)[-1] == here else THEN.join([before, here])


def _advice(spec: RunSpec, run: RunDir, trainer: Trainer | None) -> str:
    """What needs less memory; first what leaves the numbers as they are, so that the same run goes on."""
    other = "a smaller --batch-size or preset" + (", or --precision bf16" if spec.train.precision == "fp32" else "")
    same = ways_left(trainer) if trainer else []
    if not same:
        return f"choose {other}"
    kept = "the last state is kept, so issue the same command again" if run.checkpoint.exists() else "run again"
    return f"{kept} with {' or '.join(f'--set {way}' for way in same)}, or choose {other}"


_settled: tuple[int, int] | None = None
"""Threads of this process before, and since, they were chosen for the last run that it trained."""


def settle_threads(trainer: Trainer, run: RunDir) -> str:
    """On a CPU: the number of threads with which a step is fastest now; a run that is continued keeps its number, since
    bits depend on it. What the user names, or ``torchrun`` for its processes, stays. Returns what to say of it."""
    if trainer.device.type != "cpu" or threads_are_named() or trainer.world > 1:  # a trial is one process's
        return ""
    global _settled
    if _settled and torch.get_num_threads() == _settled[1]:  # chosen for another run of this process
        torch.set_num_threads(_settled[0])
    most = torch.get_num_threads()
    if run.checkpoint.exists():
        limit_threads(before := run.info.get("environment", {}).get("threads"))
        _settled = most, torch.get_num_threads()
        if before and _settled[1] < before:
            return f"goes on with {_settled[1]} of its {before} threads: equal to rounding, not bit by bit"
    elif usable_cores() > 1:
        chosen = fastest_threads(trainer.trial())
        _settled = most, chosen
        if chosen < most:
            count = f"{chosen} thread{'s' if chosen > 1 else ''}"
            return f"trained with {count}, faster here and now than {most}: cores are busy, or steps small"
    return ""


def warm_start(results: ResultStore, method: Method, name: str, parent_id: str, after: Collection[str] = ()) -> None:
    """Weights of the parent: all that fit by name and shape, and its inference encoder in every encoder.

    So a second stage of the same method starts where the first ended, and another method with the parent's encoder.
    The same method, and the second stage of one that is named in ``after``, take each encoder that the parent has too
    as it is.

    Raises:
        SkelbenchError: there is no such run, its state is not here, or its encoder does not fit.
    """
    parent = results.by_id(parent_id)
    if parent is None or parent.outcome != "done":
        raise SkelbenchError(f"--init-from {parent_id}: no finished run with that id in {results.root}")
    check_state(parent)
    fitting: dict[str, Tensor] = {}
    if parent.checkpoint.exists():
        weights, own = load_state(parent.checkpoint, parent_id)["method"], method.state_dict()
        fitting = {name: x for name, x in weights.items() if name in own and own[name].shape == x.shape}
        method.load_state_dict(fitting, strict=False)
    staged = parent.spec.method in (name, *after)
    for path, module in method.named_modules():
        if not isinstance(module, Encoder):
            continue
        needed = module.state_dict().keys() - set(module.prepared_state)
        if staged and all(f"{path}.{x}" in fitting for x in needed):
            continue
        # A method that replaces hidden tokens may start from one that drops them, and the other way round.
        load_weights(parent.encoder(), module, parent_id, module.prepared_state)
