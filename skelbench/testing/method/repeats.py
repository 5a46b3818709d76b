"""What is the same again: another seed, a continued run, several processes, pieces of a batch."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from skelbench.core import distributed
from skelbench.records.run_dir import RunDir
from skelbench.testing.check import Failed, Skipped
from skelbench.testing.method.subject import (
    FIRST,
    PHASED,
    MethodSubject,
    brief,
    check_finite,
    gradients_of,
    losses_of,
    one_step,
    own_folder,
    phase_starts,
)
from skelbench.testing.processes import grouped
from skelbench.training.gradient_accumulation import obstacle


def seeded(m: MethodSubject) -> None:
    first, again, other = (losses_of(m.trainer(seed=seed), 2) for seed in (0, 0, 1))
    if first != again:
        seen = f"{brief(first)}, then {brief(again)}"
        raise Failed("the same losses from the same seed", seen, "random numbers that are not step's")
    if first[1:] == other[1:]:  # the first step's may be the same: there is no earlier clip to tell its own from
        seen = f"{brief(first)} with seeds 0 and 1"
        raise Failed("other losses from another seed", seen, "manual_seed, or weights that are not drawn")


def resume(m: MethodSubject) -> None:
    """Stopped after two steps of each phase."""
    for start in phase_starts(m.trainer(**PHASED)):
        _resumed(m, start + 2, start + 4)


def _resumed(m: MethodSubject, stop: int, end: int) -> None:
    with tempfile.TemporaryDirectory(dir=own_folder().name) as folder:
        whole, first, second = (m.trainer(**PHASED) for _ in range(3))
        first.run = second.run = RunDir(Path(folder))
        end = min(end, whole.total)
        expected = [one_step(whole, step) for step in range(end)]
        seen = [one_step(first, step) for step in range(min(stop, end))]
        first.save(len(seen), 0.0)
        done, _ = second.load()
        seen += [one_step(second, step) for step in range(done, end)]
    look = "what the method keeps besides parameters and buffers, and random numbers that are not step's"
    if seen != expected:
        at = next(i for i in range(end) if seen[i] != expected[i])
        said = f"step {at} has loss {seen[at]:.7g}, uninterrupted {expected[at]:.7g}"
        raise Failed("a run that was stopped and continued is the same, bit by bit", said, look)
    theirs = second.method.state_dict()
    for name, x in whole.method.state_dict().items():
        if not _same(x, theirs[name]):
            said = f"{name} is another after it"
            raise Failed("a run that was stopped and continued is the same, bit by bit", said, look)


def processes(m: MethodSubject) -> None:
    if torch.cuda.is_available():
        raise Skipped("processes cannot be forked where PyTorch sees a GPU; hide it: CUDA_VISIBLE_DEVICES=")
    whole = _first_step(m)
    with tempfile.TemporaryDirectory(dir=own_folder().name) as folder:

        def half() -> None:
            warnings.simplefilter("ignore")  # PyTorch's own, of its next version
            torch.set_num_threads(1)  # threads of OpenMP do not survive a fork
            distributed.start_from_environment("cpu")
            torch.save(_first_step(m), Path(folder) / str(distributed.rank()))
            distributed.leave()

        for code, said in grouped(half):
            if code:
                raise Failed("a step on each of two processes", said.strip().rpartition("\n")[2] or f"exit code {code}")
        ranks = [torch.load(Path(folder) / str(rank)) for rank in range(2)]
    _same_step(
        whole,
        ranks,
        "gradients and state of two processes with half of the batch each that are those of one with all of it",
        "means over the batch (step.mean), what is compared over it (step.gather), queues and centres in after_step; "
        "random numbers, which are the same on any number of processes by step.uniform alone; "
        'batch norm, which takes the clips of all processes with recipe={"train.batch_norm": "synchronised"}',
    )


def pieces(m: MethodSubject) -> None:
    training = m.trainer(batch_size=6)
    if reason := obstacle(training.method, training.spec):
        raise Skipped(reason)
    _same_step(
        _first_step(m),
        [_first_step(m, **{"train.accumulate": 3})],
        "gradients and state of a batch in three pieces that are those of the batch at once",
        "means over the batch (step.mean), queues and centres in after_step (step.keep); or say in whole_batch what "
        "needs all clips of a step",
    )


def recomputed(m: MethodSubject) -> None:
    whole, again = (_first_step(m, **{"train.recompute": how}) for how in ("off", "on"))
    if (name := next((n for n, g in whole["gradients"].items() if not torch.equal(g, again["gradients"][n])), "")) or (
        not torch.equal(whole["loss"], again["loss"])
    ):
        raise Failed(
            "the same gradients, bit by bit, where blocks are computed again in the backward pass",
            f"the {name} is another" if name else "the loss is another",
            "what blocks in an nn.ModuleList read besides their arguments and torch's random numbers",
        )


def _same_step(whole: dict[str, Any], parts: list[dict[str, Any]], expected: str, look: str) -> None:
    """Raise :class:`Failed` unless each of ``parts`` has the gradients and state of the ``whole``, and all its loss."""
    loss = torch.stack([part["loss"] for part in parts]).mean()
    if not torch.allclose(loss, whole["loss"], rtol=1e-5, atol=1e-7):
        raise Failed(expected, f"the loss is {float(loss):.7g}, not {float(whole['loss']):.7g}", look)
    largest = max(float(gradient.abs().max()) for gradient in whole["gradients"].values())
    for kind, atol in (("gradients", 1e-5 * largest), ("state", 1e-6)):
        for name, value in whole[kind].items():
            for mine in (part[kind].get(name) for part in parts):
                if not _same(mine, value, partial(torch.allclose, rtol=1e-3, atol=atol, equal_nan=True)):
                    raise Failed(expected, f"{name} is another", look)


def _same(mine: Any, other: Any, alike: Callable[..., bool] = torch.equal) -> bool:
    """Tensors that are ``alike``; what else a state dict holds (``get_extra_state``) must be equal."""
    if isinstance(mine, Tensor) and isinstance(other, Tensor):
        return alike(mine, other)
    return bool(mine == other)


def _first_step(m: MethodSubject, **settings: Any) -> dict[str, Any]:
    """Loss, gradients and the state that ``after_step`` leaves, of this process's share of the first batch.

    It counts as the second step, so that queues are taken to hold the keys of one.
    """
    training = m.trainer(batch_size=6, **settings)
    batch, method, loss = training.batch(0), training.method, torch.zeros(())
    gradients: dict[str, Tensor] = {}
    for turn in method.turns:
        info = training.step_info(1, turn, training.micro_batches)
        reported = training.gradients(batch, info)
        loss = loss + reported["loss"].detach()
        after = "" if turn == method.turns[0] else f" ({turn})"
        gradients |= {name + after: x for name, x in gradients_of(method).items()}
        method.zero_grad()  # as between turns of the loop
    check_finite({"loss": loss, **gradients}, FIRST)  # what is not finite is like nothing, itself included
    with torch.no_grad():
        method.after_step(info)
    return {"loss": loss, "gradients": gradients, "state": method.state_dict()}
