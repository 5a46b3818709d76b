"""Several processes give the result of one: training, uneven shares, resuming with another number, evaluation; and an
error in one of them ends all. Two groups, of two and of three processes, are formed once and do all work for groups of
this size."""

import io
import json
import os
import re
import signal
import warnings
from contextlib import contextmanager, redirect_stderr
from functools import partial

import numpy as np
import pytest
import torch
from small import METHODS, silent_session, tiny_run, write_small_store

from skelbench.cli.main import report
from skelbench.core import distributed
from skelbench.core.errors import FailedOnRankZero, Interrupted
from skelbench.core.leases import Lease
from skelbench.evaluation import features
from skelbench.pipeline import evaluate as evaluation
from skelbench.pipeline.evaluate import eval_spec, evaluate, feature_sets
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.session import open_session
from skelbench.plugin.host import get_host
from skelbench.records.run_dir import RunDir
from skelbench.records.store import ResultStore
from skelbench.testing.processes import grouped
from skelbench.training.build import build_method
from skelbench.training.loop import Trainer

BATCH = 7
"""Clips that neither two nor three processes share evenly; some with a second body."""
VARIANTS = ("slim:target-features-predictor", "slim:center-running", "usdrl:no-correlation")
"""With modules, state or untrained parameters that their method's own setting does not have."""
SETTINGS = {
    "actclr second": {"method.first": 0.0},
    "slim koleo": {"method.koleo": 0.1},
    "halp hallucinating": {"method.first": 0.0, "method.queue": 3},  # from the second step on
    "skeletonclr batch-norm": {"encoder.dropout": 0.0, "train.batch_norm": "synchronized"},
}
OF_ALL = ("rank_", "teacher_entropy_", "prototypes_used_")
"""Diagnostics over all processes' rows. With more than 1,024 rows they are samples, and differ slightly."""
CASES = (*METHODS, *VARIANTS, *SETTINGS)
OF_THREE = ("slim", "skeletonclr batch-norm")
"""Methods that three processes train too."""
PLAIN = {"optimizer": "sgd", "schedule": "constant", "train.lr": 1e-3, "train.clip_grad": 1.0}
"""Adam divides rounding by rounding where a gradient is 0."""
RUNS = ("skeletonclr", "sjepa")
"""Methods that are stopped and continued: a queue and momentum; a running center and Adam."""
EPOCHS = 3
PROBES = {
    "knn": {},
    "retrieval": {},
    "linear@slim": {"epochs": 4},
    "linear@cmd": {"epochs": 2, "val_share": 0.0},
    "semi@10": {"label_share": 0.5, "draws": 2, "epochs": 2, "batch_size": 4, "min_steps": 0},
}


def made(folder, case, **asked):
    """A tiny run of a case."""
    title, _, _ = case.partition(" ")
    name, _, variant = title.partition(":")
    host = get_host()
    sets = dict(host.get("methods", name).variants[variant] if variant else {})
    sets |= SETTINGS.get(case, {}) | asked.pop("sets", {})
    sets |= {"method.local_counts": (1, 0, 0)} if name == "slim" else {}
    return tiny_run(folder, host, name, sets=sets, native="batch-norm" in case, **asked)


def steps(run, folder):
    """Figures, gradients and state of the second step of this process's share of the batches."""
    method = build_method(run.spec, get_host(), run.store.topology).train()
    trainer = Trainer(run.spec, method, run.store, RunDir(folder), "cpu")
    trainer.train_step(0, trainer.views(0))
    views, step = trainer.views(1), trainer.step_info(1)
    with trainer.diagnostics.record_step(1) as watched:
        reported = trainer.forward(views, step)
        reported["loss"].backward()
    with torch.no_grad():
        method.after_step(step)
    return {
        "rows": next(iter(views.values())).rows,
        "figures": {key: float(value.detach()) for key, value in distributed.mean_figures(reported).items()},
        "watched": {key: value for key, value in watched.items() if key.startswith(OF_ALL)},
        "gradients": {key: p.grad for key, p in method.named_parameters() if p.grad is not None},
        "state": method.state_dict(),
    }


@contextmanager
def patched(owner, name, value):
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def at_step(number, act):
    """Trainer.train_step with ``act()`` before the step of that number."""
    train_step = Trainer.train_step

    def acting(self, step, views):
        if step == number:
            act(self)
        return train_step(self, step, views)

    return patched(Trainer, "train_step", acting)


def told_to_stop(trainer):
    if trainer.rank == trainer.world - 1:
        os.kill(os.getpid(), signal.SIGTERM)


def train(folder, results, case, stop=None, **asked):
    """The run of a case in the folder ``results``, to its end, or stopped in step ``stop``."""
    run = made(folder, case, epochs=EPOCHS, batch_size=6, **asked)
    session = open_session(folder / results, folder, "cpu") if distributed.several() else None
    session = session or silent_session(folder, get_host(), folder / results)
    if stop is None:
        return session, pretrain(session, run)
    with (
        at_step(stop, told_to_stop),
        pytest.raises(FailedOnRankZero if distributed.rank() else Interrupted, match="step"),
    ):
        pretrain(session, run)
    return session, None


def probe(session, run, force=False):
    """Records of all probes, made of pieces that are smaller than what there is of clips; features."""
    found = {}
    with patched(features, "BATCH", 2):
        for protocol, config in PROBES.items():
            spec = eval_spec(session.host, run, protocol, config=config)
            found[protocol] = evaluate(session, run, spec, force)
        session.features.clear()
        (sets,) = feature_sets(session, run, spec).values()
    return found, sets.train_x, sets.test_x


def ended(folder, work):
    """Output and exit code of a process that does ``work``; kept in a file."""
    said, code = io.StringIO(), 0
    with redirect_stderr(said):
        try:
            work()
        except BaseException as error:
            code = report(error)
    (folder / f"end of {distributed.rank()}").write_text(json.dumps([code, said.getvalue().splitlines()]))


def by_two(folder):
    for case in RUNS:
        train(folder, "whole", case)
        train(folder, "broken", case, stop=1)
        train(folder, "broken", case)
        train(folder, "resumed", case, stop=1)

    def fails(trainer):
        if trainer.rank:
            raise ValueError("on this one alone")

    with at_step(3, fails):
        ended(folder / "failed", lambda: train(folder, "failed", "mamp"))


def by_three(folder):
    for case in RUNS:
        session, run = train(folder, "resumed", case)
    if distributed.rank():  # the first process writes
        evaluation.write_json = evaluation.write_atomic = None
    torch.save(probe(session, run), folder / f"probed by {distributed.rank()}")

    def not_finite(trainer):
        if trainer.rank == 1:
            step = trainer.method.training_step
            trainer.method.training_step = lambda *a: {k: v * float("nan") for k, v in step(*a).items()}

    with at_step(3, not_finite):
        ended(folder / "diverged", lambda: train(folder, "diverged", "mamp"))

    def dies(trainer):
        if trainer.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    with at_step(3, dies):
        ended(folder / "killed", lambda: train(folder, "killed", "mamp"))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder with all that groups of two and three processes did, what they found, and how they ended; made once
    for all workers of the tests."""
    place = tmp_path_factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place
    folder = place / "ranks"
    with Lease(place / "ranks.lock", float("inf")):
        if not (folder / "all").exists():
            folder.mkdir()
            torch.save(all_done(folder), folder / "all")
    return folder, *torch.load(folder / "all", weights_only=False)


def all_done(folder):
    """Results by number of processes, and exit codes."""
    write_small_store(folder)
    for name in ("failed", "diverged", "killed"):
        (folder / name).mkdir()
    runs = {case: made(folder, case, epochs=4, batch_size=BATCH, sets=PLAIN) for case in CASES}
    found = {1: [{case: steps(run, folder) for case, run in runs.items()}]}

    def group(after):
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        distributed.start_from_environment("cpu")
        world, rank = distributed.world(), distributed.rank()
        mine = {case: run for case, run in runs.items() if world == 2 or case in OF_THREE}
        torch.save({case: steps(run, folder) for case, run in mine.items()}, folder / f"steps by {world}, {rank}")
        after(folder)

    ends = {2: grouped(partial(group, by_two), 2)}
    for case in RUNS:
        train(folder, "resumed", case, stop=3)
    ends[3] = grouped(partial(group, by_three), 3)
    for world, of in ends.items():
        assert not any(said for _, said in of), of
        found[world] = [torch.load(folder / f"steps by {world}, {rank}") for rank in range(world)]
    return found, {world: [code for code, _ in of] for world, of in ends.items()}


def close(mine, theirs, rtol, atol):
    assert mine.keys() == theirs.keys()
    for key, value in theirs.items():
        torch.testing.assert_close(mine[key], value, rtol=rtol, atol=atol, msg=lambda m, k=key: f"{k}: {m}")


@pytest.mark.parametrize("case", CASES)
def test_gradients_state_and_metrics_equal_one_process(case, done):
    _, found, _ = done
    ((whole,), *groups) = ([each[case] for each in of] for of in found.values() if case in of[0])
    largest = max(float(gradient.abs().max()) for gradient in whole["gradients"].values())
    assert len(groups) == 1 + (case in OF_THREE)
    for shares in groups:
        assert sum(share["rows"] for share in shares) == whole["rows"]
        for share in shares:
            assert share["figures"] == pytest.approx(whole["figures"], rel=1e-4, abs=1e-6)
            assert share["watched"] == pytest.approx(whole["watched"], rel=0.02)
            close(share["gradients"], whole["gradients"], 1e-3, 3e-5 * largest)
            close(share["state"], whole["state"], 1e-3, 2e-6)


def tensors(state, name=""):
    """All tensors of a nested state, by their keys."""
    if isinstance(state, torch.Tensor):
        return {name: state}
    items = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else ()
    return {key: x for inner, value in items for key, x in tensors(value, f"{name}.{inner}").items()}


def kept(folder, results, case):
    """The state of a run at its end, and what was logged, but for times."""
    (run,) = (run for run in ResultStore(folder / results).runs() if run.spec.method == case)
    assert run.outcome == "done"
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    logged = [{k: v for k, v in line.items() if k not in ("seconds", "clips_per_s")} for line in lines]
    return tensors(torch.load(run.checkpoint, weights_only=True)), logged


@pytest.mark.parametrize("case", RUNS)
def test_stopped_runs_resume_bitwise_or_to_rounding_with_other_processes(case, done):
    folder, _, _ = done
    whole, broken, resumed = (kept(folder, results, case) for results in ("whole", "broken", "resumed"))
    assert len(whole[1]) == 6 and any("queue" in key or "center" in key for key in whole[0])
    assert not any(key.startswith(".optimizer") for key in whole[0])  # of a run that has ended
    close(broken[0], whole[0], 0, 0)
    assert broken[1] == whole[1]
    told = [{k: x for k, x in state.items() if "qkv.bias" not in k} for state in (resumed[0], whole[0])]
    close(*told, 1e-3, 2e-5)  # a bias of all keys changes no attention, so Adam moves it by rounding alone
    for mine, theirs in zip(resumed[1], whole[1], strict=True):
        assert mine == pytest.approx(theirs, rel=2e-3, abs=1e-6)


def test_all_processes_probe_and_one_writes(done):
    folder, _, _ = done
    first, *others = (torch.load(folder / f"probed by {rank}", weights_only=False) for rank in range(3))
    session = silent_session(folder, get_host(), folder / "resumed")
    (run,) = (run for run in session.results.runs() if run.spec.method == RUNS[-1])
    kept_records = {path.name for path in run.path.glob("eval-*")}
    assert len(kept_records) == 2 * len(PROBES)
    records, *sides = probe(session, run, force=True)
    assert {path.name for path in run.path.glob("eval-*")} == kept_records
    for mine, *mine_sides in (first, *others):
        assert all(np.array_equal(x, y) for x, y in zip(mine_sides, sides))
        for name, record in records.items():
            assert mine[name]["metrics"] == record["metrics"] and mine[name]["curve"] == record["curve"], name
            assert mine[name]["environment"]["processes"] == 3 and mine[name]["finished"] == first[0][name]["finished"]


def ends_of(folder, name):
    """Exit codes and sentences of the processes that said how they ended; the run they made."""
    (run,) = ResultStore(folder / name).runs()
    return {path.name[-1]: json.loads(path.read_text()) for path in sorted((folder / name).glob("end of *"))}, run


def test_a_failing_process_ends_the_other_with_an_error(done):
    folder, _, codes = done
    assert codes[2] == [0, 0]
    ends, run = ends_of(folder, "failed")
    assert ends["1"][0] == 1 and ends["1"][1][-1].startswith("error: internal error: ValueError: on this one alone")
    code, said = ends["0"]
    assert code == 1 and re.fullmatch(r"error: another of the 2 processes .* has ended.*same command again.*", said[-1])
    assert run.outcome == "interrupted"


def test_a_killed_process_ends_the_others_and_the_run_resumes(done):
    folder, _, codes = done
    assert codes[3] == [0, -9, 0]
    ends, run = ends_of(folder, "killed")
    assert list(ends) == ["0", "2"]
    assert [code for code, _ in ends.values()] == [1, 1]
    assert all("same command again" in said[-1] for _, said in ends.values())
    assert run.outcome == "interrupted" and not [
        line for _, said in ends.values() for line in said if "Traceback" in line
    ]
    train(folder, "killed", "mamp")
    train(folder, "unbroken", "mamp")
    close(kept(folder, "killed", "mamp")[0], kept(folder, "unbroken", "mamp")[0], 1e-3, 2e-4)


def test_a_nonfinite_loss_of_one_process_is_reported_once(done):
    folder, _, _ = done
    ends, run = ends_of(folder, "diverged")
    assert [code for code, _ in ends.values()] == [2, 2, 2]
    assert "the loss became nan at step 3 of 6" in ends["0"][1][-1]
    assert not ends["1"][1] and not ends["2"][1]
    assert run.outcome == "diverged" and run.info["step"] == 3
