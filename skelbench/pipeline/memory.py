"""Out of memory: how a run retries with less, and the error message if it cannot.

Recomputed blocks and micro-batches change numbers by rounding at most, so they are recorded in run.json and are not
part of the id of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import torch

from skelbench.core.errors import SkelbenchError
from skelbench.plugin.status import one_line
from skelbench.records.run_dir import RunDir
from skelbench.training.loop import Trainer
from skelbench.training.memory_saving import Recompute, micro_batch_counts, obstacle


@dataclass(frozen=True)
class MemorySaving:
    """``memory`` of run.json: what blocks recompute in the backward pass, and the number of micro-batches."""

    recompute: Recompute
    accumulate: int

    @property
    def settings(self) -> list[str]:
        """Settings that give this saving, as the user could type them."""
        recompute = [f"train.recompute={self.recompute}"] if self.recompute != "off" else []
        return recompute + ([f"train.accumulate={self.accumulate}"] if self.accumulate > 1 else [])


def resume_saving(trainer: Trainer, run: RunDir) -> None:
    """Save as much memory as the run did before it was stopped, unless the settings name an amount."""
    train, before = trainer.spec.train, run.info.get("memory")
    if not before or not run.checkpoint.exists():
        return
    possible = (1, *micro_batch_counts(train.batch_size // trainer.world, trainer.method.min_clips))
    recompute = before["recompute"] if train.recompute == "auto" else trainer.recompute
    accumulate = before["accumulate"] if train.accumulate == "auto" else trainer.micro_batches
    if accumulate in possible:  # it may be impossible with another number of processes
        trainer.save_memory(recompute, int(accumulate))


def next_saving(trainer: Trainer) -> MemorySaving | None:
    """Return the next way to need less memory that the settings allow: recompute more, then use smaller pieces."""
    train = trainer.spec.train
    if trainer.recompute != "on" and train.recompute == "auto":
        return MemorySaving("elementwise" if trainer.recompute == "off" else "on", trainer.micro_batches)
    clips = train.batch_size // trainer.world
    more = [n for n in micro_batch_counts(clips, trainer.method.min_clips) if n > trainer.micro_batches]
    if train.accumulate == "auto" and more and not obstacle(trainer.method, trainer.spec):
        doubled = [n for n in more if n >= 2 * trainer.micro_batches]
        return MemorySaving(trainer.recompute, (doubled or more)[0])
    return None


def memory_record(trainer: Trainer) -> dict[str, object]:
    """Fields of run.json for a run that saves memory."""
    saving = MemorySaving(trainer.recompute, trainer.micro_batches)
    return {"memory": asdict(saving)} if saving.settings else {}


def memory_error(error: BaseException, doing: str, device: str, advice: str) -> SkelbenchError | None:
    """Return the error message for an out-of-memory ``error`` or its cause; None if it is not about memory."""
    cause: BaseException | None = error
    while cause is not None:  # torch has no class of error for the CPU
        if isinstance(cause, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(cause):
            target = torch.device(device)
            has = f" (which has {torch.cuda.mem_get_info(target)[1] / 2**30:.1f} GiB)" if target.type == "cuda" else ""
            return SkelbenchError(f"out of memory on {device}{has} {doing}: {one_line(cause)}; {advice}")
        cause = cause.__cause__
    return None


@contextmanager
def memory_errors(doing: str, device: str) -> Iterator[None]:
    """Turn an out-of-memory error within into a :class:`SkelbenchError` that says what to do."""
    try:
        yield
    except Exception as error:
        if message := memory_error(error, doing, device, "free memory of it, or give --device cpu"):
            raise message from error
        raise
