"""Pre-training as a step that finishes, resumes or is skipped."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from skelbench.core import distributed
from skelbench.core.errors import FailedOnRankZero, Interrupted, PeerLost, SkelbenchError, Stopped
from skelbench.core.spec import RunSpec
from skelbench.core.threads import fastest_threads, limit_threads, threads_are_named, usable_cores
from skelbench.methods.contract import Method
from skelbench.models.encoder import Encoder
from skelbench.pipeline.memory import MemorySaving, memory_error, memory_record, next_saving, resume_saving
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
from skelbench.training.anomalies import UNMOVED
from skelbench.training.build import build_method
from skelbench.training.checkpoint import load_state, load_weights, save_encoders
from skelbench.training.compiled import compile_parts
from skelbench.training.loop import Trainer

THEN = ", then "
"""Separator of hardware names in run.json if a run was trained on several, in order of use."""


def pretrain(session: Session, resolved: Resolved, force: bool = False) -> RunDir:
    """Train ``resolved`` to the end, or continue, or return at once when it is done."""
    locked: list[RunDir] = []  # with the lock, in the first process

    def opened() -> tuple[Path, bool]:
        session.results.prepare()
        facts = {"environment": environment(session.device), **resolved.budget}
        run = resolved.open_run(session.results, facts)
        stack.enter_context(alone(run, patience=1.0 if resolved.method.trains else 60.0))
        locked.append(run)
        if force:
            clear(run, **facts)
        # A baseline may be added without its weights, which follow from its seed.
        lacks_weights = not resolved.method.trains and FIELD in run.info and not run.encoder().exists()
        return run.path, run.outcome == "done" and not lacks_weights

    check_parent(resolved.method, resolved.spec, resolved.setting)
    with ExitStack() as stack:  # the first process makes and locks the directory, the others join it
        path, finished = distributed.first(opened)
        run = locked[0] if locked else RunDir(path)
        return run if finished else _train(session, resolved, run)


def _train(session: Session, resolved: Resolved, run: RunDir) -> RunDir:
    """Train ``run`` from its last state to the end; record the outcome and tell observers."""
    spec, chief = resolved.spec, not distributed.rank()
    identity = {"id": spec.id, "name": run.name, "directory": str(run.path), "spec": spec.model_dump(mode="json")}
    trains = resolved.method.trains
    observers = Observing(session.host, session.observe if chief and trains else (), identity)

    def record(*removed: str, **fields: Any) -> None:
        if chief:
            run.check_held()
            run.update(*removed, **fields)

    outcome, facts = "failed", {"steps": 0, "clips_seen": 0, "train_seconds": 0.0}
    attempt = _Attempt(session, resolved, run, record, observers)
    observers.tell("run_started")
    try:
        if trains:
            facts = attempt.train()
        elif chief:
            method = build_method(spec, session.host, resolved.store.topology, session.device)
            save_encoders(run, spec.id, method, 0)
        outcome = "done"
        record("reason", outcome=outcome, finished=time.time(), **facts)
    except Stopped as error:
        outcome = error.outcome
        record(outcome=outcome, step=error.step, **({} if isinstance(error, Interrupted) else {"reason": str(error)}))
        distributed.all_say("recorded")  # torchrun ends all processes as soon as one has ended
        if not chief:
            raise FailedOnRankZero(str(error), error.exit_code) from error
        raise
    except PeerLost as error:
        outcome = "interrupted"
        record(outcome=outcome, reason=str(error))
        raise
    except KeyboardInterrupt:  # the loop saves its state itself
        outcome = "interrupted"
        record(outcome=outcome)
        raise
    except (Exception, SystemExit) as error:
        doing = f"with batches of {spec.train.batch_size} clips in {spec.train.precision}"
        message = memory_error(error, doing, session.device, _memory_advice(spec, run))
        with suppress(OSError):  # a full disk must not replace the error that is reported
            record(outcome=outcome, reason=one_line(message or error))
        if message:
            raise message from error
        raise
    finally:
        observers.tell("run_finished", outcome=outcome)
    if attempt.stopped_in_last_step:
        raise KeyboardInterrupt
    return run


@dataclass
class _Attempt:
    """One command's training of a run, which retries with less memory if a GPU has too little."""

    session: Session
    resolved: Resolved
    run: RunDir
    record: Callable[..., None]
    observers: Observing
    stopped_in_last_step: bool = False

    def train(self) -> dict[str, Any]:
        """Train to the end; return the facts of run.json."""
        saving: MemorySaving | None = None
        while True:
            trainer = self._trainer(saving)
            try:
                return self._run(trainer, saving)
            except torch.OutOfMemoryError:
                saving = next_saving(trainer)
                if saving is None or trainer.world > 1:  # other processes are in the middle of their step
                    raise
            del trainer
            gc.collect()
            torch.cuda.empty_cache()

    def _trainer(self, saving: MemorySaving | None) -> Trainer:
        session, spec, topology = self.session, self.resolved.spec, self.resolved.store.topology
        method = build_method(spec, session.host, topology, session.device)
        if spec.init_from:
            after = self.resolved.method.stage.after if self.resolved.method.stage else ()
            warm_start(session.results, method, spec.method, spec.init_from, after)
        trainer = Trainer(spec, method, self.resolved.store, self.run, session.device)
        if saving:
            trainer.save_memory(saving.recompute, saving.accumulate)
        else:
            resume_saving(trainer, self.run)
        return trainer

    def _run(self, trainer: Trainer, saving: MemorySaving | None) -> dict[str, Any]:
        spec, run, encoder = self.resolved.spec, self.run, trainer.method.inference_encoder()
        starts = not run.checkpoint.exists()
        initial = [weight.detach().clone() for weight in encoder.parameters()] if starts else []
        clips = trainer.total * spec.train.batch_size
        label = f"{self.resolved.title} {spec.tokens}x{self.resolved.store.topology.num_joints}"
        with self.session.progress(total=clips, label=label, unit="clips") as report:
            for note in filter(None, self._prepare(trainer, saving)):
                report(0, note=note)
            seconds = trainer.train(
                report,
                lambda step, line: self.observers.tell("log", step=step, metrics=line),
                self.record,
                partial(self.observers.measure, trainer),
            )
            self.stopped_in_last_step = trainer.stopped_in_last_step
            facts = {"steps": trainer.total, "clips_seen": clips, "train_seconds": seconds}
            if initial and all(map(torch.equal, initial, encoder.parameters())):
                report(0, note=f"warning: {UNMOVED}")
                facts["unmoved"] = True
        return facts

    def _prepare(self, trainer: Trainer, saving: MemorySaving | None) -> Iterator[str]:
        """Choose threads and compile, record it; yield notes for the user."""
        run = self.run
        if run.info.get("step") and not run.checkpoint.exists():
            yield f"{run.checkpoint} is missing, so the run starts again"
        if saving:
            yield f"out of memory: trying again with {' and '.join(saving.settings)}"
        yield settle_threads(trainer, run)
        train = trainer.spec.train
        compiled, note = compile_parts(trainer.method, trainer.device, train.compile, train.precision)
        yield note
        machine = environment(self.session.device)
        before = run.checkpoint.exists() and run.info.get("environment", {}).get("hardware")
        if before and before.split(THEN)[-1] != machine["hardware"]:
            machine["hardware"] = before + THEN + machine["hardware"]
            yield f"was trained so far on {before}: its rows will say {machine['hardware']}"
        elif before:
            machine["hardware"] = before
        facts = {"environment": machine, "train_clips": len(trainer.ids)} | ({"compiled": True} if compiled else {})
        self.record("step", "reason", "memory", "compiled", outcome="running", **facts, **memory_record(trainer))


def _memory_advice(spec: RunSpec, run: RunDir) -> str:
    """Settings that need less memory, first those that keep the id of the run."""
    remedy = "a smaller --batch-size or preset" + (", or --precision bf16" if spec.train.precision == "fp32" else "")
    again = "the last state is kept, so run the same command again" if run.checkpoint.exists() else "run again"
    return f"{again} with --set train.recompute=on or --set train.accumulate=2, or choose {remedy}"


_settled: tuple[int, int] | None = None
"""Number of threads of this process: initially, and as chosen for the last run that it trained."""


def settle_threads(trainer: Trainer, run: RunDir) -> str:
    """Choose the fastest number of CPU threads by timing steps; return a note for the user, "" for none.

    A resumed run keeps its number, because its bits depend on it. A number that the user or ``torchrun`` names stays.
    """
    if trainer.device.type != "cpu" or threads_are_named() or trainer.world > 1:  # the choice is for one process
        return ""
    global _settled
    if _settled and torch.get_num_threads() == _settled[1]:  # another run of this process has chosen
        torch.set_num_threads(_settled[0])
    most = torch.get_num_threads()
    if run.checkpoint.exists():
        limit_threads(before := run.info.get("environment", {}).get("threads"))
        _settled = most, torch.get_num_threads()
        if before and _settled[1] < before:
            return f"resumed with {_settled[1]} of its {before} threads: equal to rounding, not bit by bit"
    elif usable_cores() > 1:
        chosen = fastest_threads(trainer.trial())
        _settled = most, chosen
        if chosen < most:
            count = f"{chosen} thread{'s' if chosen > 1 else ''}"
            return f"using {count}: measured faster than {most} (busy cores or small steps)"
    return ""


def warm_start(results: ResultStore, method: Method, name: str, parent_id: str, after: Collection[str] = ()) -> None:
    """Weights of the parent: all tensors that fit by name and shape; its inference encoder goes into every encoder.

    The same method, and a second stage of a method named in ``after``, keep each encoder that the parent has too.

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
        load_weights(parent.encoder(), module, parent_id, module.prepared_state)
