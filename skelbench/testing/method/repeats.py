"""Checks of seeds, resumed runs, several processes and pieces of a batch."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from skelbench.core import distributed
from skelbench.testing.check import Failed, Skipped
from skelbench.testing.method.subject import (
    PHASED,
    MethodSubject,
    brief,
    check_finite,
    gradients_of,
    one_step,
    own_folder,
    phase_starts,
)
from skelbench.testing.processes import grouped
from skelbench.training.memory_saving import obstacle


def seeded(m: MethodSubject) -> None:
    first, other, training = m.losses(), m.losses(seed=1), m.trainer()
    again = [one_step(training, step) for step in range(2)]
    if first != again:
        look = "random numbers that do not come from step"
        raise Failed("the same losses from the same seed", f"{brief(first)}, then {brief(again)}", look)
    if first[1:] == other[1:]:  # the first may be equal: there is no earlier clip to compare with
        raise Failed("other losses from another seed", f"{brief(first)} with seeds 0 and 1", "manual_seed")


def resume(m: MethodSubject) -> None:
    """Runs that stop two steps after the start of each phase; two further steps are compared."""
    expected = "a resumed run that is the same as an uninterrupted run, bit by bit"
    look = "state besides parameters and buffers"
    with tempfile.TemporaryDirectory(dir=own_folder().name) as folder:
        whole = m.trainer(folder=folder, **PHASED)
        stops = [start + 2 for start in phase_starts(whole)]
        for step in range(min(stops[-1] + 2, whole.total)):
            if step in stops:
                whole.checkpointer.save(step, 0.0)
                resumed = m.trainer(folder=folder, **PHASED)
                resumed.checkpointer.load()
            loss = one_step(whole, step)
            if step >= stops[0] and step in {stop + more for stop in stops for more in (0, 1)}:
                other = one_step(resumed, step)
                if loss != other:
                    raise Failed(expected, f"step {step} has loss {other:.7g}, uninterrupted {loss:.7g}", look)
                states = whole.method.state_dict(), resumed.method.state_dict()
                if changed := [name for name, x in states[0].items() if not _same(x, states[1][name])]:
                    raise Failed(expected, f"{changed[0]} differs after step {step}", look)


def processes(m: MethodSubject) -> None:
    if torch.cuda.is_available():
        raise Skipped("processes cannot be forked where PyTorch sees a GPU; hide it: CUDA_VISIBLE_DEVICES=")
    whole = _first_step(m)
    with tempfile.TemporaryDirectory(dir=own_folder().name) as folder:

        def half() -> None:
            warnings.simplefilter("ignore")  # of PyTorch, about its next version
            torch.set_num_threads(1)  # OpenMP threads do not survive a fork
            distributed.start_from_environment("cpu")
            torch.save(_first_step(m), Path(folder) / str(distributed.rank()))
            distributed.leave()

        for code, message in grouped(half):
            if code:
                seen = message.strip().rpartition("\n")[2] or f"exit code {code}"
                raise Failed("a step on each of two processes", seen)
        ranks = [torch.load(Path(folder) / str(rank)) for rank in range(2)]
    _check_same_step(
        whole, ranks, "means (step.mean), comparisons (step.gather), random numbers (step.uniform), batch norm"
    )


def pieces(m: MethodSubject) -> None:
    training = m.trainer(batch_size=6)
    if reason := obstacle(training.method, training.spec):
        raise Skipped(reason)
    parts = [_first_step(m, **{"train.accumulate": 3})]
    _check_same_step(_first_step(m), parts, "means (step.mean) and queues (step.keep), or the reason in whole_batch")


def _check_same_step(whole: dict[str, Any], parts: list[dict[str, Any]], look: str) -> None:
    """Fail unless each of ``parts`` has the gradients and state of the ``whole``, and together its loss."""
    expected = "gradients and state of the whole batch"
    loss = torch.stack([part["loss"] for part in parts]).mean()
    if not torch.allclose(loss, whole["loss"], rtol=1e-5, atol=1e-7):
        raise Failed(expected, f"the loss is {float(loss):.7g}, not {float(whole['loss']):.7g}", look)
    largest = max(float(gradient.abs().max()) for gradient in whole["gradients"].values())
    for kind, atol in (("gradients", 1e-5 * largest), ("state", 1e-6)):
        for name, value in whole[kind].items():
            if not all(_same(part[kind].get(name), value, rtol=1e-3, atol=atol) for part in parts):
                raise Failed(expected, f"{name} differs", look)


def _same(value: Any, other: Any, rtol: float = 0.0, atol: float = 0.0) -> bool:
    """Whether tensors are close, and other state (``get_extra_state``) is equal."""
    if isinstance(value, Tensor) and isinstance(other, Tensor):
        return value.shape == other.shape and torch.allclose(value, other, rtol=rtol, atol=atol, equal_nan=True)
    return bool(value == other)


def _first_step(m: MethodSubject, **settings: Any) -> dict[str, Any]:
    """Loss, gradients and state after ``after_step``, of this process's share of the first batch.

    It counts as the second step, so that queues have keys.
    """
    training = m.trainer(batch_size=6, **settings)
    batch, method, loss = training.batch(0), training.method, torch.zeros(())
    gradients: dict[str, Tensor] = {}
    for turn in method.turns:
        info = training.step_info(1, turn, training.micro_batches)
        loss = loss + training.gradients(batch, info)["loss"].detach()
        gradients |= {f"{name} ({turn})": x for name, x in gradients_of(method).items()}
        method.zero_grad()
    check_finite({"loss": loss, **gradients}, "the first step")
    with torch.no_grad():
        method.after_step(info)
    return {"loss": loss, "gradients": gradients, "state": method.state_dict()}
