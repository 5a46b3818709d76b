"""``skelbench study`` as a user types it: what is refused, listed and handed to each trial's process."""

from dataclasses import replace
from pathlib import Path

import pytest

import skelbench
from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.core.files import write_json
from skelbench.pipeline.controls import conclude, measure_cost
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.session import Session
from skelbench.pipeline.studies.runner import claim_of, command, own_modules, processes
from skelbench.pipeline.studies.study import Study
from skelbench.pipeline.studies.trials import complete, recognize, status

TINY = {"epochs": 1, "batch_size": 4, "encoder.dim": 16, "encoder.depth": 1}


def written(place, text, name="grid.toml"):
    path = place / name
    path.write_text(text)
    return str(path)


def tree(folder):
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.fixture
def run_study(place, capsys):
    """``run_study(*words)`` -> (exit code, stdout, stderr)."""

    def call(*words):
        capsys.readouterr()
        code = main(["study", *words, "--device", "cpu", "--plugin", str(place / "bees.py")])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


GRID = """
dataset = "small"
[grid]
method = ["calm", "skeletonmae"]
[set]
tokens = 8
epochs = 1
batch_size = 4
encoder.dim = 16
"""


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["token-budgt"], "'token-budget'"),
        (["nowhere.toml"], "does not exist"),
        (["batch", "--dataset", "small", "--preset", "quik"], "'quick'"),
        (["batch", "--dataset", "small", "--tokens", "eight"], "--tokens"),
        (["batch", "--dataset", "small", "--set", "patch=4"], "patch=4"),
        (["batch", "--dataset", "small", "--set", "lrr=1"], "trial slim:half-batch-equal-steps 8t s0"),
        (["variant.toml"], "'glcl-only'"),
        (["probe.toml"], "'knn'"),
        (["table.toml"], "--probe linear,knn"),
        (["budget.toml"], "clips=6x4"),
        (["grid.toml", "--set", "preset=small", "--preset", "quick"], "--preset"),
        (["late.toml"], "train.lr=-1.0"),
    ],
)
def test_a_mistake_in_any_trial_is_one_error_before_anything_starts(words, key, place, run_study):
    written(place, GRID)
    written(place, GRID.replace("calm", "slim:glcl-onyl"), "variant.toml")
    written(place, "probe = 'knnn'" + GRID, "probe.toml")
    written(place, "table = 'linear'\nprobe = 'knn'" + GRID, "table.toml")
    written(place, "budget = 'clips=6x4'" + GRID, "budget.toml")
    written(place, GRID + "[[trials]]\nmethod = 'calm'\ntrain.lr = -1.0\n", "late.toml")
    code, out, err = run_study(*words)
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert code == 2 and len(errors) == 1 and key in errors[0] and not out, err
    assert not (place / "results").exists()


def test_studies_are_listed_and_shown(place, run_study):
    for words in ([], ["list"]):
        code, out, _ = run_study(*words)
        assert code == 0 and "token-budget" in out and "target-control" in out
    code, shown, _ = run_study("token-budget", "--show", "--dataset", "small", "--tokens", "8,30", "--seeds", "3")
    assert code == 0
    mine = written(place, shown, "mine.toml")
    assert run_study(mine, "--show")[1] == shown
    assert "tokens = [8, 30]" in shown and 'dataset = "small"' in shown and "seeds = [3]" in shown


def test_the_dry_run_lists_every_trial_and_writes_nothing(place, run_study, monkeypatch):
    path = written(place, GRID + "[[trials]]\nmethod = 'raises'\n[[trials]]\nmethod = 'calm'\n")
    before = tree(place)
    code, out, err = run_study(path, "--dry-run", "--seeds", "0,1")
    assert code == 0 and tree(place) == before
    assert "data small/half" in out
    rows = [line.split() for line in out.splitlines() if " new " in line]
    order = [(method, seed) for seed in "01" for method in ("calm", "skeletonmae", "raises")]
    assert [(row[0], row[2]) for row in rows] == order
    assert len({row[3] for row in rows}) == 6
    assert [row[-2:] for row in rows if row[0] == "raises"] == [["?", "?"]] * 2
    assert "6 trials, 0 done, 2 of unknown duration" in out and "2 of the trials are the same run" in err


# ---------------------------------------------------------------------------------------------------- trials
@pytest.fixture
def trials_of(place, tmp_path):
    """``trials_of(study, device)``: its trials on the dataset ``small``, and a session."""
    from contextlib import nullcontext

    from skelbench.plugin.host import Host
    from skelbench.records.store import ResultStore

    host = Host([place / "bees.py"])
    store = ResultStore(tmp_path / "own")
    session = Session(host, store, place / "data", "cpu", lambda **_: nullcontext(lambda *args, **fields: None))
    return lambda study: (complete(study, host, place / "data", "cpu"), session)


def test_each_process_gets_exactly_its_trial(trials_of, place, monkeypatch):
    """The command line of a trial, parsed as every other, resolves to the trial's id."""
    import skelbench.pipeline.resolve

    study = Study(
        name="odd",
        dataset="small",
        seeds=(7,),
        preset="small",
        set={"batch_size": 4, "encoder.dim": 16},
        grid={"method": ("slim:glcl-only", "mamp", "calm"), "tokens": (8, 15), "train.lr": (1e-5, 0.1 + 0.2)},
        trials=(
            {"method": "slim", "betas": (0.9, 0.95), "centering": "none", "encoder.cls": False, "data.name": "small"},
            {"method": "mamp", "native": True, "precision": "bf16", "clip_grad": "none", "split": "half"},
        ),
    )
    trials, session = trials_of(study)
    assert len(trials) == 14
    resolve, seen = skelbench.pipeline.resolve.resolve, []

    def caught(request, host, *rest):
        seen.append(resolve(request, host, *rest))
        raise SkelbenchError("that is enough")

    monkeypatch.setattr(skelbench.pipeline.resolve, "resolve", caught)
    for trial in trials:
        assert main(command(trial, ["knn"], session)) == 2
        got = seen.pop()
        own = trial.resolved
        assert (got.spec, got.preset, got.variant) == (own.spec, own.preset, own.variant)
        assert got.modified == own.modified


def test_processes_take_no_modules_from_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert own_modules() == ["-P"]
    monkeypatch.chdir(Path(skelbench.__file__).parents[1])  # skelbench itself may be found there alone
    assert own_modules() == []


def test_equal_trials_occur_once_and_under_the_plain_name(trials_of):
    study = Study(
        name="equal",
        dataset="small",
        seeds=(0,),
        set=TINY,  # a batch of its own leaves nothing of the variant
        grid={"method": ("slim:half-batch", "slim", "mamp"), "tokens": (8,)},
        trials=({"method": "mamp", "tokens": 8, "lr": 2e-3}, {"method": "mamp", "tokens": 8, "lr": 0.5}),
        preset="quick",
    )
    trials, _ = trials_of(study)
    assert [trial.title for trial in trials] == ["slim 8t s0", "mamp 8t s0", "mamp 8t lr=0.5 s0"]


def test_a_trial_is_done_when_its_run_is_complete(trials_of, monkeypatch):
    (trial,), session = trials_of(Study(name="one", dataset="small", seeds=(0,), set={**TINY, "method": "calm"}))
    protocols = ["knn"]

    def state():
        return str(status(trial, session, protocols))

    assert state() == "new"
    run = pretrain(session, trial.resolved)
    assert state() == "probes missing"
    steps = run.info["steps"]
    lines = run.metrics.read_text().splitlines(keepends=True)
    for outcome in ("interrupted", "running", "diverged"):  # killed while it ran: nobody works there any more
        run.update(outcome=outcome)
        run.metrics.write_text("".join(lines[: steps // 3]) + '{"clips_seen": 1')
        shown = "interrupted" if outcome == "running" else outcome
        assert state() == f"{shown} at 33 %"
    run.update(outcome="done")
    twin = pretrain(session, trial.baseline)
    for part in (run, twin):
        evaluate(session, part, eval_spec(session.host, part, "knn", like=run), like=run)
    assert state() == "probes missing"
    before = run.info
    with monkeypatch.context() as patch:
        patch.setattr("skelbench.pipeline.controls.measure_cost", lambda *_: 1 / 0)
        conclude(session, run, trial.resolved, protocols)
    assert run.info["uncounted"] == "division by zero" and state() == "done", "it would be issued again for ever"
    write_json(run.path / "run.json", before)
    measure_cost(session, run, trial.resolved.store)
    assert state() == "done"
    protocols.append("linear")
    assert state() == "probes missing"
    assert status(trial, session, []).done


def test_a_run_with_typed_settings_is_recognized_as_a_trial(trials_of):
    (trial,), session = trials_of(Study(name="one", dataset="small", seeds=(0,), set={**TINY, "method": "calm"}))
    run = session.results.by_id(trial.id) or pretrain(session, trial.resolved)
    recognize(trial, status(trial, session, []), session)
    assert run.info["modified"] and run.info["preset"] == "quick"
    exact = replace(trial, resolved=replace(trial.resolved, preset="tiny", variant="plain", modified={}))
    recognize(exact, status(exact, session, []), session)
    assert (run.info["preset"], run.info["variant"], run.info["modified"]) == ("tiny", "plain", {})
    assert run.title == "calm:plain" and run.outcome == "done"


def test_two_studies_never_start_the_same_trial(trials_of, tmp_path):
    (trial,), _ = trials_of(Study(name="two", dataset="small", seeds=(9,), set={**TINY, "method": "calm"}))
    folder = tmp_path / "own" / "studies"
    claim = claim_of(trial, folder)
    assert claim is not None and claim_of(trial, folder) is None
    claim.release()
    assert claim_of(trial, folder) is not None


def test_cores_are_divided_among_trials(monkeypatch):
    monkeypatch.setattr("skelbench.pipeline.studies.runner.usable_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert processes("cpu", None) == (4, 2) and processes("cpu", 3) == (3, 2) and processes("cpu", 16) == (16, 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert processes("cpu", 2) == (2, 3)
    assert processes("cuda:1", None) == (1, None) and processes("cuda", 2) == (2, None)
