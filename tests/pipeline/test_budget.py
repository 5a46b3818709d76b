"""Training length for a budget: the same for every method, and the same run for the same request."""

import json

import pytest
from small import silent_session, tiny, write_small_store

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.cost import BODIES
from skelbench.evaluation.cost.report import step_cost
from skelbench.pipeline import length as lengths
from skelbench.pipeline import pace
from skelbench.pipeline.budget import Budget
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.training.loop import total_steps


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("budget")
    write_small_store(root)
    return root


@pytest.fixture
def made(root, host):
    """``made("slim", budget="steps=3", timer=None, **request)``: a run of preset quick on ``small``."""

    def make(method="skeletonmae", budget=None, timer=None, **fields):
        spending = Budget.parse(budget) if budget else None
        request = Request(method, "small", **{"preset": "quick", "tokens": 8, "budget": spending} | fields)
        return resolve(request, host, root, "cpu", timer)

    return make


def steps(resolved):
    return total_steps(resolved.spec, len(resolved.store.split("half").train))


@pytest.mark.parametrize(
    ("text", "kind", "amount"),
    [
        ("clips=40k", "clips", 40_000),
        (" steps=1_000 ", "steps", 1000),
        ("flops=1.5P", "flops", 1.5e15),
        ("minutes=2.5", "minutes", 2.5),
    ],
)
def test_a_printed_budget_is_parsed_to_the_same_budget(text, kind, amount):
    budget = Budget.parse(text)
    assert budget == Budget(kind, amount) and Budget.parse(str(budget)) == budget and "+" not in str(budget)


@pytest.mark.parametrize("text", ["", "40k", "clips=-4", "clips=1.5", "flops=1e999", "hours=3", 5])
def test_a_wrong_budget_is_rejected(text):
    with pytest.raises(SkelbenchError, match="write for example clips=40k"):
        Budget.parse(text)


def test_methods_with_one_budget_differ_by_less_than_a_step(made, host):
    asked = 3e12
    for method in ("skeletonmae", "mamp"):
        resolved = made(method, "flops=3T")
        spec = resolved.spec
        flops = resolved.length.flops_per_clip
        assert flops == BODIES * step_cost(spec, host, resolved.store.topology)["flops_per_clip"]
        step = flops * spec.train.batch_size
        assert abs(steps(resolved) * step - asked) <= step / 2
        assert resolved.modified == {"budget flops": "3e12"} and resolved.length.steps == steps(resolved)


def test_a_budget_equal_to_the_preset_names_the_same_run(made, host):
    plain = made()
    assert plain.length is None
    length, batch = steps(plain), plain.spec.train.batch_size
    flops = BODIES * step_cost(plain.spec, host, plain.store.topology)["flops_per_clip"] * length * batch
    for budget in ("clips=10000", "clips=10k", f"steps={length}", f"flops={flops:.9g}"):
        same = made(budget=budget)
        assert same.spec.id == plain.spec.id and not same.modified and same.length.steps == length
    # Other lengths are their steps, not the words.
    ids = {made(budget=budget).spec.id for budget in ("steps=50", f"clips={50 * batch}", f"clips={50 * batch + 1}")}
    assert len(ids) == 1 and plain.spec.id not in ids
    passes = made("slim", "steps=30", preset="release", sets=tiny("slim") | {"train.batch_size": 4})
    assert steps(passes) == 30 and passes.spec.train.iters_per_epoch  # an epoch stays what it was


def test_impossible_budgets_are_errors(made, monkeypatch):
    with pytest.raises(SkelbenchError, match="budget steps=9 and train.epochs=3.* both say how long"):
        made(budget="steps=9", epochs=3.0)
    with pytest.raises(SkelbenchError, match="flops=10 is less than one step of 12 clips of method skeletonmae"):
        made(budget="flops=10")
    monkeypatch.setattr(lengths, "_counted", {})
    monkeypatch.setattr("skelbench.evaluation.cost.report.step_cost", lambda *_: {"flops_per_clip": 0.0})
    with pytest.raises(SkelbenchError, match=r"cannot be counted \(it holds no matrix product\)"):
        made(budget="flops=3T")


@pytest.mark.parametrize("method", ["untrained", "raw"])
def test_a_control_never_trains(made, method):
    resolved = made(method, "minutes=3", tokens=None)
    assert resolved.spec.id == made(method, tokens=None).spec.id and not resolved.modified
    assert f"{method} does not train: budget minutes=3 changes nothing" in resolved.notes


def test_minutes_use_the_first_timing(made, root, host, tmp_path, monkeypatch):
    session = silent_session(root, host, tmp_path / "results")
    seconds = iter([0.5, 0.25, 9.0])
    monkeypatch.setattr(pace.Timer, "_seconds_per_step", lambda *_: next(seconds))
    timer = pace.Timer(session, keep=True)
    assert steps(made(budget="minutes=2", timer=pace.Timer(session, keep=False))) == 240
    assert not session.results.root.exists()
    first = made(budget="minutes=2", timer=timer)
    assert first.length.record() == {"asked": "minutes=2", "steps": 480, "clips": 480 * 12, "seconds_per_step": 0.25}
    assert made(budget="minutes=2", timer=timer).spec == first.spec == made(budget="steps=480").spec
    assert steps(made(budget="minutes=4", seed=3, timer=timer)) == 960  # the pace is no matter of length or seed
    assert steps(made("mamp", budget="minutes=3", timer=timer)) == 20


def test_real_steps_are_timed(made, root, host, tmp_path, monkeypatch):
    monkeypatch.setattr(pace, "SECONDS", 0.0)
    session = silent_session(root, host, tmp_path / "results")
    sets = tiny("skeletonmae") | {"train.batch_size": 4}
    resolved = made(budget="minutes=1", timer=pace.Timer(session, keep=True), sets=sets)
    (file,) = (session.results.root / "pace").iterdir()
    seconds = json.loads(file.read_text())["seconds_per_step"]
    assert 0 < seconds < 60 and steps(resolved) == round(60 / seconds) and not list(session.results.runs())
