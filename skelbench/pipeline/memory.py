"""Fitting a run into a GPU's memory: what a step takes, what is chosen so that it fits, what is said if it does not.

What is chosen leaves the numbers as they are, up to rounding, so it is recorded beside a run and is no part of its
identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, get_args

import torch

from skelbench.core import distributed
from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.cost.peak import step_peak
from skelbench.plugin.status import one_line
from skelbench.records.run_dir import RunDir
from skelbench.training.gradient_accumulation import obstacle, pieces_of
from skelbench.training.loop import Trainer

FEW = (4, 8)
"""Clips of the steps that are computed, small ones and those that look at values, to tell the memory of larger ones: it
grows linearly."""
SMALL = 2e9
"""FLOPs of a clip below which a few are sooner computed than followed without values."""
MUCH = 4 * 2**30
"""Bytes of a run from which it is worth while to say what other ways of training take."""
ROOM = 0.9
"""Share of a card's free memory that a step may fill: gaps between blocks, and what kernels take while they work."""
GIB = 2**30

Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True)
class Line:
    """Bytes as they grow with the clips of a piece."""

    fixed: float
    per_clip: float

    def at(self, clips: float) -> float:
        """Bytes of so many clips."""
        return self.fixed + self.per_clip * clips


@dataclass(frozen=True)
class Choice:
    """How memory is saved, and why: a run's ``memory`` in run.json."""

    recompute: bool
    accumulate: int
    step_bytes: float | None = None
    """What a step is estimated to take besides what is there before it; None where nothing had to be chosen."""
    free_bytes: float | None = None


def held_bytes(trainer: Trainer) -> int:
    """Bytes of parameters and buffers."""
    return sum(x.numel() * x.element_size() for x in (*trainer.method.parameters(), *trainer.method.buffers()))


def state_bytes(trainer: Trainer) -> int:
    """Bytes of two moments of every parameter that learns."""
    return 2 * sum(p.numel() * p.element_size() for p in trainer.method.parameters() if p.requires_grad)


def step_line(
    trainer: Trainer, precision: Precision, again: bool, flops_per_clip: float, accelerator: bool | None = None
) -> Line:
    """Most bytes at a time of the forward and backward pass of a piece, from steps of two sizes: without values, a
    quarter of this process's clips and all of them, which take no longer than few. ``accelerator``: as a GPU makes
    them; None = as the trainer's device does.

    Raises:
        Exception: whatever stops a step; a real error shows again in training.
    """
    method, share = trainer.method, trainer.spec.train.batch_size // trainer.world
    ids, gpu = trainer.order(0), trainer.device.type != "cpu" if accelerator is None else accelerator

    def measured(sizes: tuple[int, int], shapes_alone: bool) -> Line:
        clips = sorted({min(share, max(size, method.min_clips)) for size in sizes})
        batches = [trainer.views_of(0, ids[:n]) for n in clips]
        rows = [next(iter(views.values())) for views in batches]
        infos = [trainer.step_info(step) for step, _ in trainer.middles]
        how = precision, again, shapes_alone, gpu
        peaks = [max(step_peak(method, views, info, *how) for info in infos) for views in batches]
        # By bodies, since clips have one or two of them.
        bodies = [view.rows / view.count for view in rows]
        if len(peaks) == 1 or bodies[0] == bodies[1]:
            return Line(0.0, peaks[-1] / clips[-1])
        per_body = max(0.0, (peaks[1] - peaks[0]) / (bodies[1] - bodies[0]))
        return Line(max(0.0, peaks[1] - per_body * bodies[1]), per_body * trainer.bodies_per_clip)

    if flops_per_clip < SMALL:
        return measured(FEW, shapes_alone=False)
    try:
        return measured((share // 4, share), shapes_alone=True)
    except Exception:  # it looks at values
        return measured(FEW, shapes_alone=False)


def free_bytes(device: torch.device) -> float | None:
    """What this process can still take of a GPU's memory; None on the CPU, which is never told to save any."""
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(free + unused)


def settle_memory(trainer: Trainer, run: RunDir, flops_per_clip: Callable[[], float]) -> tuple[Choice, str]:
    """Have ``trainer`` save as much memory as its GPU makes it, unless the settings say how; what was chosen, and what
    to say of it. A run that is continued keeps what was chosen for it.

    Raises:
        SkelbenchError: no way of training takes as little as there is.
    """
    train, free = trainer.spec.train, free_bytes(trainer.device)
    before = run.info.get("memory") if run.checkpoint.exists() else None
    chosen = Choice(trainer.recomputes, trainer.pieces)
    if free is None or "auto" not in (train.recompute, train.accumulate):
        return chosen, ""
    pieces = before["accumulate"] if before and train.accumulate == "auto" else chosen.accumulate
    clips = train.batch_size // trainer.world
    if before and pieces in (1, *pieces_of(clips, trainer.method.min_clips)):  # with other processes it may not be
        again = before["recompute"] if train.recompute == "auto" else chosen.recompute
        chosen = Choice(bool(again), int(pieces), before.get("step_bytes"), before.get("free_bytes"))
    else:
        chosen = choose(trainer, min(distributed.all_say(free)), flops_per_clip())
    trainer.save_memory(chosen.recompute, chosen.accumulate)
    return chosen, told(chosen)


def choose(trainer: Trainer, free: float, flops_per_clip: float) -> Choice:
    """The first that fits of: as it is, blocks computed again, and the batch in as few pieces as need be besides."""
    spec, method = trainer.spec, trainer.method
    line = partial(step_line, trainer, spec.train.precision, flops_per_clip=flops_per_clip)
    clips, state = spec.train.batch_size // trainer.world, state_bytes(trainer)
    gradients = state // 2
    said: list[str] = []
    lines: dict[bool, Line] = {}
    for again in (False, True):
        if spec.train.recompute == ("off" if again else "on"):
            continue
        lines[again] = line(again=again)
        pieces = 1 if spec.train.accumulate == "auto" else spec.train.accumulate
        needed = state + lines[again].at(clips / pieces) + (gradients if pieces > 1 else 0)
        if needed <= ROOM * free:
            return Choice(again, pieces, needed, free)
        said.append(f"{needed / GIB:.1f} GiB{' with blocks computed again' if again else ''}")
    again, least = max(lines), obstacle(method, spec)
    for pieces in pieces_of(clips, method.min_clips) if spec.train.accumulate == "auto" and not least else []:
        if (needed := state + gradients + lines[again].at(clips / pieces)) <= ROOM * free:
            return Choice(again, pieces, needed, free)
    fits = int((ROOM * free - state - lines[again].fixed) / max(1.0, lines[again].per_clip)) * trainer.world
    advice = f"--batch-size {fits}" if fits >= method.min_clips * trainer.world else "a smaller preset"
    raise SkelbenchError(
        f"a step of {spec.train.batch_size} clips in {spec.train.precision} takes about {', '.join(said)}, and "
        f"{trainer.device} has {free / GIB:.1f} GiB free; set {advice}"
        + (f" (in pieces it cannot be taken: {least})" if least else "")
    )


def run_bytes(trainer: Trainer, precision: Precision, again: bool, flops_per_clip: float) -> float:
    """Bytes of a run, parameters and all."""
    clips = trainer.spec.train.batch_size / trainer.world / trainer.pieces
    fixed = held_bytes(trainer) + state_bytes(trainer) * (1.5 if trainer.pieces > 1 else 1.0)
    return fixed + step_line(trainer, precision, again, flops_per_clip).at(clips)


def table(
    trainer: Trainer, flops_per_clip: float, known: Mapping[tuple[str, bool], float] = MappingProxyType({})
) -> dict[str, dict[str, float]]:
    """:func:`run_bytes` by precision and by whether blocks are ``kept`` or ``recomputed``; ``known``: those that were
    found before, as each takes seconds, by precision and whether blocks are computed again."""

    def found(precision: Precision, again: bool) -> float:
        way = precision, again
        return known[way] if way in known else run_bytes(trainer, precision, again, flops_per_clip)

    return {
        precision: {"kept": found(precision, False), "recomputed": found(precision, True)}
        for precision in get_args(Precision)
    }


def told(chosen: Choice) -> str:
    """What to say of it; "" = nothing is saved."""
    ways = ["blocks are computed again in the backward pass"] if chosen.recompute else []
    ways += [f"a batch is taken in {chosen.accumulate} pieces"] if chosen.accumulate > 1 else []
    if not ways:
        return ""
    why = ""
    if chosen.step_bytes and chosen.free_bytes:
        why = f", so that a step takes about {chosen.step_bytes / GIB:.1f} of {chosen.free_bytes / GIB:.1f} GiB"
    return f"to save memory {' and '.join(ways)}{why}"


def ways_left(trainer: Trainer) -> list[str]:
    """Settings by which a step of ``trainer`` would take less memory and its numbers stay as they are, to rounding."""
    ways = [] if trainer.recomputes else ["train.recompute=on"]
    clips = trainer.spec.train.batch_size // trainer.world
    more = [n for n in pieces_of(clips, trainer.method.min_clips) if n > trainer.pieces]
    if more and not obstacle(trainer.method, trainer.spec):
        ways.append(f"train.accumulate={more[0]}")
    return ways


def recorded(chosen: Choice) -> dict[str, Any]:
    """Fields of run.json: of a run that saves memory, or on a GPU might have."""
    if chosen.free_bytes is None and not chosen.recompute and chosen.accumulate == 1:
        return {}
    return {"memory": {name: value for name, value in asdict(chosen).items() if value is not None}}


def out_of_memory(error: BaseException | None) -> BaseException | None:
    """What says that there was no memory left, on whatever device, ``error`` or what it was raised from; torch says so
    of the CPU in words alone."""
    while error is not None:
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error):
            return error
        error = error.__cause__
    return None


def full(error: BaseException, doing: str, device: str, advice: str) -> SkelbenchError | None:
    """The one sentence of an ``error`` that says that memory ran out; None: it says something else."""
    if (cause := out_of_memory(error)) is None:
        return None
    there = torch.device(device)
    has = f" (which has {torch.cuda.mem_get_info(there)[1] / GIB:.1f} GiB)" if there.type == "cuda" else ""
    return SkelbenchError(f"out of memory on {device}{has} {doing}: {one_line(cause)}; {advice}")


@contextmanager
def memory_told(doing: str, device: str) -> Iterator[None]:
    """An error within that says that memory ran out becomes a :class:`SkelbenchError` that says what to do."""
    try:
        yield
    except Exception as error:
        if told_so := full(error, doing, device, "free memory of it, or give --device cpu"):
            raise told_so from error
        raise
