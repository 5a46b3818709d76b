"""``skelbench suite``: what is frozen beside what is here, which runs are rows, and the table of them."""

import csv
import json
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
from tests.suites.conftest import write_run

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import EvalSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.splits import NameRule, RandomRule
from skelbench.pipeline.controls import control
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.plugin.host import Host, get_host
from skelbench.records.run_dir import ReadRun
from skelbench.records.store import ResultStore
from skelbench.reporting.render import FORMATS, render
from skelbench.reporting.suites import freeze, match
from skelbench.reporting.suites.freeze import Plan
from skelbench.reporting.suites.match import Recorded, data, differences, installation
from skelbench.reporting.suites.rows import evaluation_reasons, run_reasons
from skelbench.reporting.suites.suite import Suite, find_suite, read_suite
from skelbench.reporting.suites.table import SuiteInputs, leaderboard, stamped


def edit(path, change):
    """A JSON file, changed."""
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


# ------------------------------------------------------------------------------------------------ the one that ships
def test_freezing_the_plan_again_gives_the_file_that_ships(monkeypatch):
    """A change of a protocol, preset or component moves rows: then the suite needs another file, and another name."""
    host = Host()
    file = Path(host.get("suites", "skeleton-v1").file)
    shipped = read_suite(file)
    # To make the clips of `synthetic` takes half a minute; `skelbench suite skeleton-v1` compares them where they are.
    monkeypatch.setattr(freeze, "data_of", lambda store, *_: shipped.datasets[store])
    plan = freeze.read_plan(file.with_suffix(".toml"))
    again = freeze.freeze(plan, host, {"synthetic": "synthetic"}, freeze.fixed_datasets(host))
    assert again.model_dump(mode="json") == json.loads(file.read_text()) and shipped.hash == "06e6f1cd9c030e92"
    assert shipped.datasets["synthetic"].fingerprint and all(
        split.sha256 and set(split.labels) == {"0.01", "0.1"} for split in shipped.datasets["synthetic"].splits.values()
    )


def test_the_hash_is_of_everything_but_the_summary():
    suite = find_suite(Host(), "skeleton-v1")
    values = suite.model_dump(mode="json")
    assert Suite.model_validate(values | {"summary": "another"}).hash == suite.hash
    for name, other in {"seeds": [0], "encoder": "stgcn", "results_format": 3, "evaluation": {}}.items():
        assert Suite.model_validate(values | {name: other}).hash != suite.hash


# ------------------------------------------------------------------------------------------------ what is here
def test_suites_are_listed_and_shown_with_their_hashes(place):
    suite = read_suite(place.suite)
    code, out, _ = place.call("suite")
    assert code == 0 and "skeleton-v1" in out and suite.hash in out
    code, out, err = place.call("suite", "tiny-v1")
    assert code == 0 and f"this installation is what tiny-v1 ({suite.hash}) froze" in out
    assert "is recorded when it is first used" in err  # the small data set is nobody else's
    assert place.call("suite", "tiny-v2")[0] == 2


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda s: s["protocols"]["linear"].update(version=7), "protocol linear: version is 1 here and 7 in the suite"),
        (lambda s: s["protocols"]["linear"]["config"].update(lr=0.5), "config.lr is 0.01 here and 0.5 in the suite"),
        (lambda s: s["presets"]["quick"]["values"].update({"train.lr": 1.0}), "values.train.lr is 0.002 here"),
        (lambda s: s["components"].update({"masks tube": "9"}), "masks tube: it is 1 here and 9 in the suite"),
        (lambda s: s["components"].update({"masks gone": "1"}), "masks gone cannot be had here: unknown mask"),
        (lambda s: s["label_lists"].update(example_sha256="0" * 64), "rule of label lists"),
        (lambda s: s["cost"].update(encoder="by guess"), "cost convention, encoder"),
        (lambda s: s["datasets"]["small"].update(classes=9), "has 4 classes, 9 in the suite"),
        (lambda s: s["datasets"]["small"].update(fingerprint="0" * 64), "had 000000000000 in the suite"),
        (
            lambda s: s["datasets"]["small"]["splits"]["half"].update(rule={"field": "camera", "train": [1]}),
            "data set small: split half",
        ),
    ],
)
def test_everything_that_differs_is_said(looked, change, said):
    values = looked.suite.model_dump(mode="json")
    change(values)
    suite, host = Suite.model_validate(values), get_host()
    recorded = Recorded(suite, ResultStore(looked.built / "results"))
    checks = [*installation(suite, host), *data(suite, host, looked.built / "data", recorded)]
    (wrong,) = [check for check in checks if check.state == "differs"]
    assert said in wrong.sentence


def test_rows_are_not_made_where_something_differs(place):
    edit(place.suite, lambda s: s["protocols"]["linear"].update(version=7))
    code, out, err = place.call("suite", "tiny-v1")
    assert code == 1 and "protocol linear: version is 1 here and 7 in the suite" in err and "1 parts differ" in out
    code, _, err = place.call("suite", "run", "skeletonmae", "--suite", "tiny-v1", "--dry-run")
    assert code == 2 and "rows made here would be none of tiny-v1" in err


def test_rows_are_not_made_where_clips_would_be_degraded_otherwise(place):
    edit(place.suite, lambda s: s["components"].update({"masks tube": "9", "degradations missing": "7"}))
    code, _, err = place.call("suite", "run", "skeletonmae", "--suite", "tiny-v1", "--dry-run")
    assert code == 2 and "degradations missing: it is 1 here and 7 in the suite" in err
    edit(place.suite, lambda s: s["components"].update({"degradations missing": "1"}))
    assert place.call("suite", "run", "skeletonmae", "--suite", "tiny-v1", "--dry-run")[0] == 0  # it has no such mask


def test_lists_and_shares_of_clips_are_frozen_as_other_rules_are(looked):
    store = ClipStore.open(looked.built / "data" / "small")
    names = np.array([f"clip-{i:03d}" for i in range(len(store))])
    listed = NameRule(field="name", train=tuple(names[::2]), test=tuple(names[1::2]))
    store.index["name"] = names
    object.__setattr__(store.meta, "splits", {"listed": listed, "drawn": RandomRule(test=0.3)})
    frozen = freeze.by_rule(freeze.data_of(store, ["listed", "drawn"], looked.suite.label_lists))
    frozen = type(frozen).model_validate_json(frozen.model_dump_json())
    assert match._by_rule(frozen, store, "data set mine") == ""
    for name, other in (("listed", listed.model_copy(update={"train": listed.test, "test": listed.train})),
                        ("drawn", RandomRule(test=0.3, seed=7))):  # fmt: skip
        object.__setattr__(store.meta, "splits", {"listed": listed, "drawn": RandomRule(test=0.3)} | {name: other})
        assert f"split {name} trains or tests other clips than the suite's" in match._by_rule(frozen, store, "it")


def test_an_encoder_of_a_single_file_is_frozen_with_its_code_and_a_protocol_of_one_refused(looked, tmp_path):
    plan = Plan.model_validate(tomllib.loads((looked.built / "plan.toml").read_text()))
    stores = {"small": ClipStore.open(looked.built / "data" / "small")}
    encoder, protocol = tmp_path / "narrow.py", tmp_path / "probe.py"
    for kind, path in (("encoder", encoder), ("protocol", protocol)):
        assert main(["plugins", "new", kind, path.stem, "-o", str(tmp_path)]) == 0
    identities = []
    for more in ("", "# another\n"):
        encoder.write_text(encoder.read_text() + more)
        suite = freeze.freeze(plan.model_copy(update={"encoder": "narrow"}), Host([encoder]), stores, [])
        identities.append((suite.components["encoders narrow"], suite.hash))
    assert len({one for one, _ in identities}) == len({one for _, one in identities}) == 2
    with pytest.raises(SkelbenchError, match="protocol probe is that of a single file"):
        freeze.freeze(plan.model_copy(update={"protocols": ("probe",)}), Host([protocol]), stores, [])


@pytest.mark.parametrize("text", ["{", "[1]", '{"name": "x"}', '{"name": NaN}', "[" * 5000])
def test_a_file_that_holds_no_suite_is_refused(place, text):
    (place.suite).write_text(text)
    code, out, err = place.call("suite", "tiny-v1")
    assert code == 2 and err.count("error: ") == 1 and "tiny-v1.json" in err


def test_a_plan_makes_the_suite_that_it_says(place):
    suite = read_suite(place.suite)
    plan = Plan.model_validate(tomllib.loads((place.root / "plan.toml").read_text()))
    assert (suite.seeds, tuple(suite.protocols), tuple(suite.presets)) == (plan.seeds, plan.protocols, plan.presets)
    assert suite.datasets["small"].fingerprint == "" and suite.datasets["small"].splits["half"].rule
    code, _, err = place.call("suite", "freeze", place.root / "plan.toml", "-o", place.root / "no" / "x" / "s.json")
    assert code == 0
    (place.root / "plan.toml").write_text('name = "x"\npresets = ["huge"]\n[datasets]\nsmall = ["half"]\n')
    code, _, err = place.call("suite", "freeze", place.root / "plan.toml", "-o", place.root / "s.json")
    assert code == 2 and "preset 'huge'" in err and not (place.root / "s.json").exists()


# ------------------------------------------------------------------------------------------------ rows
def judged(place, **changes):
    suite, store = find_suite(get_host([str(place.suite.with_name("own.py"))]), "tiny-v1"), ResultStore(place.results)
    run = ReadRun(place.run)
    return run_reasons(suite, Recorded(suite, store), run.info | changes, run.spec)


def test_a_run_is_a_row_by_what_it_is(place):
    assert judged(place) == []
    assert "not done" in judged(place, outcome="running")[0]
    assert "settings were changed" in judged(place, modified={"train.lr": 1})[0]
    assert "native" in judged(place, setting="native")[0]
    assert "preset paper is none" in judged(place, preset="paper")[0]
    (reason,) = judged(place, suites={"tiny-v1": "0" * 16})
    assert "with hash 0000000000000000" in reason


@pytest.mark.parametrize(
    "path, value, said",
    [
        ("seed", 2, "seed 2 is none of the suite's"),
        ("grid.patch", 4, "token grid 64/4"),
        ("encoder_config.dim", 48, "encoder.dim is 48, 64 in preset quick"),
        ("train.epochs", 1.0, "clips, 10,000 in preset quick"),
        ("train.batch_size", 2, "its batch is 2"),
        ("train.centre", "body", "train.centre is body, clip in the suite"),
        ("data.name", "other", "other half is no data set and split"),
        ("init_from", "abc", "did not begin with new weights"),
        ("components.masks random-tokens", "2", "masks random-tokens has version 2, 1 in the suite"),
    ],
)
def test_a_run_that_differs_in_anything_frozen_is_no_row(place, path, value, said):
    suite, store = read_suite(place.suite), ResultStore(place.results)
    run = ReadRun(place.run)
    values = run.spec.model_dump(mode="json")
    *outer, last = path.split(".")
    inner = values
    for key in outer:
        inner = inner[key]
    inner[last] = value
    found = run_reasons(suite, Recorded(suite, store), run.info, type(run.spec).model_validate(values))
    assert any(said in reason for reason in found), found


def test_an_evaluation_by_other_settings_is_none_of_the_suite(place):
    suite, run = read_suite(place.suite), ReadRun(place.run)
    for record in run.records():
        values = record["spec"]
        assert evaluation_reasons(suite, run, EvalSpec.model_validate(values)) == []
        for change in ({"protocol_version": 2}, {"seed": 5}, {"checkpoint": "3"}, {"share": 0.5}, {"readout": "mean"}):
            (reason,) = evaluation_reasons(suite, run, EvalSpec.model_validate(values | change))
            assert next(iter(change)) in reason


def test_what_a_preset_decides_of_a_protocol_is_frozen_and_held_against(place):
    suite, run = read_suite(place.suite), ReadRun(place.run)
    (record,) = (record for record in run.records() if record["spec"]["protocol"] == "linear")
    frozen = suite.protocols["linear"]
    assert "presets" not in frozen.model_dump(mode="json"), "suites of before keep their hash"
    shorter = {name: frozen.model_copy(update={"presets": {"quick": {"epochs": 3}}}) for name in ("linear",)}
    scaled = suite.model_copy(update={"protocols": {**suite.protocols, **shorter}})
    assert run.preset == "quick" and scaled.hash != suite.hash
    plain = EvalSpec.model_validate(record["spec"])
    short = plain.model_copy(update={"protocol_config": {**plain.protocol_config, "epochs": 3}})
    assert evaluation_reasons(scaled, run, short) == evaluation_reasons(suite, run, plain) == []
    assert evaluation_reasons(scaled, run, plain) and evaluation_reasons(suite, run, short)
    assert evaluation_reasons(scaled, run, plain, "paper") == [], "a control beside a run of another preset"


def test_differences_name_the_place():
    assert list(differences({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "d": 4})) == [
        ("a.b", 1, 3), ("c", 2, None), ("d", None, 4),
    ]  # fmt: skip


def test_two_commands_record_their_data_beside_each_other(looked, tmp_path):
    """Each read what was recorded before the other wrote."""
    store = ResultStore(tmp_path)
    suite = looked.suite.model_copy(
        update={"datasets": {name: looked.suite.datasets["small"] for name in ("small", "other")}}
    )
    clips = ClipStore.open(looked.built / "data" / "small")
    first, second = Recorded(suite, store), Recorded(suite, store)
    first.record("small", clips)
    second.record("other", clips)
    assert set(Recorded(suite, store).datasets) == {"small", "other"}


# ------------------------------------------------------------------------------------------------ table
TABLE = ("suite", "table", "tiny-v1", "--format", "csv")


def test_every_format_prints_name_and_hash(looked):
    host = get_host()
    inputs = SuiteInputs(host, ResultStore(looked.built / "results"), suite=looked.suite)
    for built in (leaderboard(inputs), host.load(host.get("tables", "linear"))(inputs)):
        table = stamped(built, looked.suite, inputs.added)
        for format_ in FORMATS:
            text = render(table, format_)
            assert "tiny-v1" in text and looked.suite.hash in text and "skeletonmae" in text, format_


def test_another_table_is_made_of_its_rows_and_written_to_a_file(place):
    suite, output = read_suite(place.suite), place.root / "table.tex"
    assert place.call("suite", "table", "tiny-v1", "--table", "linear", "-o", output)[0] == 0
    assert suite.hash in output.read_text() and "tabular" in output.read_text()


def test_the_table_has_means_over_all_seeds_and_leaves_out_with_the_reason(place):
    code, out, err = place.call("suite", "table", "tiny-v1", "--format", "csv")
    rows = {row["method"]: row for row in csv.DictReader(out.splitlines())}
    assert code == 0 and "left out" not in err and [*rows] == ["skeletonmae", "raw", "untrained"]
    records = [
        record["metrics"]["accuracy"]
        for run in place.results.glob("skeletonmae-*")
        for record in ReadRun(run).records()
        if record["spec"]["protocol"] == "linear"
    ]
    mine = rows["skeletonmae"]
    assert float(mine["linear"]) == pytest.approx(50 * sum(records)) and len(records) == 2
    assert (mine["seeds"], mine["complete"], rows["raw"]["seeds"]) == ("2/2", "True", "1/1")
    edit(place.run / "run.json", lambda info: info.update(suites={"tiny-v1": "0" * 16}))
    code, out, err = place.call("suite", "table", "tiny-v1", "--format", "csv")
    rows = {row["method"]: row for row in csv.DictReader(out.splitlines())}
    assert code == 0 and f"left out: {place.run.name}: it was made for tiny-v1 with hash 000" in err
    assert (rows["skeletonmae"]["seeds"], rows["skeletonmae"]["complete"]) == ("1/2", "False")


def test_a_figure_that_one_seed_lacks_is_not_ranked(place):
    def marks():
        _, out, _ = place.call("suite", "table", "tiny-v1", "--format", "md")
        (line,) = [line for line in out.splitlines() if line.startswith("| skeletonmae")]
        return line.count("**") // 2, "fewer seeds than the suite's: not ranked" in out

    def evaluations(seed):
        for path in place.results.glob(f"skeletonmae-*-s{seed}-*/eval-*.json"):
            yield json.loads(path.read_text())["spec"]["protocol"], path

    assert marks() == (0, False)  # as good as the untrained encoder
    edit(dict(evaluations(0))["linear"], lambda record: record["metrics"].update(accuracy=0.9))
    edit(dict(evaluations(0))["knn"], lambda record: record["metrics"].update(accuracy=0.9))
    assert marks() == (2, False)
    dict(evaluations(1))["knn"].unlink()
    assert marks() == (1, True)
    dict(evaluations(0))["knn"].unlink()  # of what no seed has nothing is said
    assert marks() == (1, False)


def test_a_control_has_a_row_for_every_stream_that_it_was_looked_at_by(place):
    """It is evaluated as the runs that it stands beside: its bones are no further seeds of its joints."""
    before = {row["method"]: row for row in csv.DictReader(place.call(*TABLE)[1].splitlines())}["untrained"]
    for seed in (0, 1):
        request = Request("skeletonclr:bone", dataset="small", tokens=8, preset="quick", seed=seed)
        made = resolve(request, get_host(), place.root / "data", "cpu")
        write_run(place.results, made, variant="bone")
        twin = write_run(place.results, control(made, get_host()), like=made)
        for path in twin.glob("eval-*.json"):
            if json.loads(path.read_text())["spec"]["streams"] == ["bone"]:
                edit(path, lambda record: record["metrics"].update(accuracy=0.0))
    rows = [row for row in csv.DictReader(place.call(*TABLE)[1].splitlines()) if row["method"] == "untrained"]
    figures = {row["stream"]: (row["seeds"], row["linear"], row["linear_pm_over"]) for row in rows}
    assert figures == {
        "joint": ("2/2", before["linear"], "2 seeds"),
        "bone": ("2/2", "0.0", "2 seeds"),
    }


def test_coordinates_that_stand_beside_no_row_have_none(place):
    """They are of the preset by which they were first asked for, which may be none of the suite's."""
    (raw,) = place.results.glob("raw-*")
    edit(raw / "run.json", lambda info: info.update(preset="ablation"))
    for run in {*place.results.glob("*-s[01]-*")} - {raw}:
        shutil.rmtree(run)
    code, out, _ = place.call("suite", "table", "tiny-v1", "--format", "csv")
    assert code == 0 and len(out.splitlines()) == 1  # headers


def test_an_empty_store_has_a_table_that_says_what_to_do(place):
    code, out, _ = place.call("suite", "table", "--results", place.root / "data")
    assert code == 0 and "skelbench suite run METHOD" in out


# ------------------------------------------------------------------------------------------------ run
def test_the_runs_of_a_row_are_listed_and_what_is_no_row_refused(place):
    code, out, _ = place.call("suite", "run", "skeletonmae", "--suite", "tiny-v1", "--dry-run")
    spec = ReadRun(place.run).spec
    assert code == 0 and spec.id in out and "2 trials" in out
    for words, said in (
        (["untrained"], "is a control"),
        (["slm"], "did you mean 'slim'"),
        (["skeletonmae", "--dataset", "ntu60"], "unknown data set"),
        (["skeletonmae", "--preset", "paper"], "unknown preset"),
        (["skeletonmae", "--tokens", "30"], "unknown number of temporal tokens"),
        (["skeletonmae", "--probe", "semi@1"], "unknown protocol"),
    ):
        code, _, err = place.call("suite", "run", *words, "--suite", "tiny-v1")
        assert code == 2 and said in err, err


def test_runs_that_are_done_are_marked_and_data_recorded(place):
    """Costs are there too, so nothing is left to do."""
    cost = {"grid": "8 x 25", "encoder": {"macs": 1}, "parameters": {"encoder": 1, "trainable": 1}, "step": None}
    cost |= {"latency": {f"batch {n}": {"median_ms": 1.0, "clips_per_s": 1.0} for n in (1, 64)}}
    cost |= {"peak_memory": {"bytes": 1.0, "how": "made up"}}
    for run in place.results.glob("*-s?-*"):
        (run / "cost.json").write_text(json.dumps(cost))
    code, out, _ = place.call("suite", "run", "skeletonmae", "--suite", "tiny-v1")
    suite = read_suite(place.suite)
    assert code == 0 and "2 of 2 runs done" in out and suite.hash in out
    assert json.loads((place.run / "run.json").read_text())["suites"] == {"tiny-v1": suite.hash}
    known = json.loads((place.results / "suites" / "tiny-v1.json").read_text())
    assert known["datasets"]["small"]["fingerprint"] == ReadRun(place.run).spec.data.fingerprint
    edit(place.results / "suites" / "tiny-v1.json", lambda it: it["datasets"]["small"].update(fingerprint="0" * 64))
    code, _, err = place.call("suite", "run", "skeletonmae", "--suite", "tiny-v1", "--dry-run")
    assert code == 2 and "has fingerprint" in err
    (place.results / "suites" / "tiny-v1.json").write_text("[]")
    code, _, err = place.call("suite", "table", "tiny-v1")
    assert code == 2 and "is damaged" in err
