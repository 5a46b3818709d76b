"""``skelbench runs export|verify|add``: what is handed on is whole, what was changed is refused, nothing does harm."""

import csv
import hashlib
import io
import json
import stat
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small import silent_session
from tests.suites.conftest import write_run

from skelbench.core.spec import EvalSpec, RunSpec
from skelbench.evaluation.cost.count import CONVENTION
from skelbench.pipeline.controls import control
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.plugin.host import get_host
from skelbench.records.archive import MOST_BYTES, Unreadable, load_json, load_predictions, opened
from skelbench.records.pack import pack
from skelbench.records.run_dir import ReadRun
from skelbench.records.store import ResultStore


@pytest.fixture
def exported(place):
    """The file of a row and its controls."""
    path = place.root / "mine.zip"
    code, out, _ = place.call("runs", "export", place.run.name, "-o", path)
    assert code == 0 and "3 runs" in out and "tiny-v1" in out
    return path


def members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def rewritten(data, change, honest=True):
    """The file with ``change(members)`` done to it; ``honest``: by somebody who makes the manifest agree."""
    held = members(data)
    change(held)
    if honest:
        manifest = json.loads(held["manifest.json"])
        counted = {name: data for name, data in held.items() if name != "manifest.json"}
        manifest["members"] = {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in counted.items()
        }
        held["manifest.json"] = json.dumps(manifest).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, data in held.items():
            file.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def row(run, held, name):
    """The name of a member of the row itself; of records that of protocol ``name``."""
    for path in sorted(held):
        if run.name not in path:
            continue
        if path.endswith(name) or (path.endswith(".json") and f'"protocol": "{name}"'.encode() in held[path]):
            return path
    raise AssertionError(name)


def changed(run, name, change):
    """A change of members that edits one JSON file of the row."""

    def edit(held):
        path = row(run, held, name)
        value = json.loads(held[path])
        change(value)
        held[path] = json.dumps(value).encode()

    return edit


def wrong(looked, data):
    """What does not hold, in one text."""
    return "\n".join(one.detail for one in looked.checked(data) if one.holds is False)


def refused(place, data, said, code):
    """``verify`` says it in a sentence, ``add`` refuses, and nothing is left anywhere."""
    path, other = place.root / "hostile.zip", place.root / "other"
    path.write_bytes(data)
    found, out, err = place.call("runs", "verify", path)
    assert found == code and said in out + err, out + err
    found, out, err = place.call("runs", "add", path, "--results", other)
    assert found == 2 and err.count("error: ") == 1 and "Traceback" not in err
    assert not other.exists() and "added" not in out


# ------------------------------------------------------------------------------------------------ whole
def test_the_same_records_give_the_same_bytes_without_weights(place, exported):
    again = place.root / "again.zip"
    (place.run / "encoder.safetensors").write_bytes(b"weights")
    assert place.call("runs", "export", place.run.name, "-o", again)[0] == 0
    assert again.read_bytes() == exported.read_bytes()
    code, _, err = place.call("runs", "export", place.run.name, "-o", again, "--weights", "--alone")
    assert code == 2 and "is there already" in err and again.read_bytes() == exported.read_bytes()
    assert place.call("runs", "export", place.run.name, "-o", again, "--weights", "--alone", "--force")[0] == 0
    names = [*members(again.read_bytes())]
    assert f"runs/{place.run.name}/encoder.safetensors" in names and not any("untrained" in name for name in names)
    assert place.call("runs", "verify", again)[0] == 0


def test_controls_that_come_along_are_no_rows_that_were_asked_for(place):
    path = place.run / "run.json"
    info = json.loads(path.read_text())
    path.write_text(json.dumps({**info, "modified": {"train.lr": 1.0}}))
    code, out, _ = place.call("runs", "export", place.run.name, "-o", place.root / "own.zip")
    assert code == 0 and "3 runs" in out and "rows of" not in out


def test_what_is_whole_holds_and_is_added_once_with_its_origin(place, exported):
    packed = exported
    code, out, err = place.call("runs", "verify", packed, "--suite", "tiny-v1")
    assert code == 0 and "does not hold" not in out and "a row of tiny-v1" in out, out + err
    assert "linear: metrics" in out and "those of small half here" in out
    assert "skeletonmae with preset quick has this spec here too" in out
    other = place.root / "other"
    code, out, err = place.call("runs", "add", packed, "--results", other, "--suite", "tiny-v1")
    assert code == 0 and out.count("added ") == 3, err
    mine, theirs = ReadRun(place.run), ReadRun(other / place.run.name)
    origin = theirs.info.pop("added")
    assert theirs.info == mine.info and theirs.records() == mine.records()
    assert origin["sha256"] == hashlib.sha256(packed.read_bytes()).hexdigest() and origin["file"] == "mine.zip"
    before = {path: path.stat().st_mtime_ns for path in other.glob("*/*.json")}
    code, out, _ = place.call("runs", "add", packed, "--results", other)
    assert code == 0 and out.count("is here already") == 3
    assert {path: path.stat().st_mtime_ns for path in other.glob("*/*.json")} == before
    assert not [*other.glob(".adding-*")] and len(ResultStore(other).read()) == 3
    next((other / place.run.name).glob("eval-*.json")).unlink()  # as from a file of before the last evaluation
    code, out, _ = place.call("runs", "add", packed, "--results", other)
    assert (
        code == 0 and out.count(f"1 of its evaluations in the file are not here: `skelbench runs rm {mine.name}`") == 1
    )
    assert place.call("runs", "rm", mine.name, "--yes", "--results", other)[0] == 0
    assert place.call("runs", "add", packed, "--results", other)[1].count("added ") == 1
    assert ReadRun(other / place.run.name).records() == mine.records()


def test_tables_show_what_was_added_beside_the_rest(place, exported):
    other = place.root / "other"
    assert place.call("runs", "add", exported, "--results", other)[0] == 0
    code, out, _ = place.call("compare", "--results", other, "--format", "md")
    assert code == 0 and "not made here but added from a file" in out and "mine.zip (sha256" in out
    code, out, _ = place.call("suite", "table", "tiny-v1", "--results", other, "--format", "csv")
    rows = {one["method"]: one for one in csv.DictReader(out.splitlines())}
    assert code == 0 and rows["skeletonmae"]["added"].startswith("mine.zip") and rows["skeletonmae"]["seeds"] == "1/2"
    code, out, _ = place.call("compare", "--format", "md")
    assert "added from" not in out
    code, _, err = place.call("runs", "export", place.run.name, "--results", other, "-o", place.root / "x.zip")
    assert code == 2 and "was not made here but added" in err and not (place.root / "x.zip").exists()


def test_a_run_that_is_here_is_kept_however_far_it_is(place, exported):
    record = place.run / "run.json"
    info = json.loads(record.read_text()) | {"outcome": "interrupted", "step": 3, "note": "mine"}
    record.write_text(json.dumps(info))
    code, out, _ = place.call("runs", "add", exported)
    assert code == 0 and f"{place.run.name} is here already, interrupted, and stays as it is" in out
    assert "added " not in out and json.loads(record.read_text()) == info and not [*place.results.glob(".adding-*")]


def test_an_added_run_is_listed_as_such_until_it_is_made_here(place, exported):
    other = place.root / "other"
    assert place.call("runs", "add", exported, "--results", other)[0] == 0
    assert all(one["added"].startswith("mine.zip (sha256 ") for one in json.loads(
        place.call("runs", "list", "--json", "--results", other)[1]))  # fmt: skip
    assert "mine.zip" in place.call("runs", "list", "--results", other)[1]
    assert "added from" not in place.call("runs", "list")[1]
    assert "mine.zip" in place.call("runs", "show", place.run.name, "--results", other)[1]
    host, root = get_host(), place.root / "data"
    row = resolve(Request("skeletonmae", dataset="small", tokens=8, preset="quick", seed=0), host, root, "cpu")
    session, beside = silent_session(root, host, other), control(row, host)
    run = pretrain(session, beside)  # somebody else's control has no weights, which a run of one's own needs
    assert run.encoder().exists() and run.info["added"]["file"] == "mine.zip" and run.records()
    run = pretrain(session, beside, force=True)
    assert run.encoder().exists() and "added" not in run.info and not run.records()


def test_a_run_that_is_not_done_is_not_packed(place):
    info = json.loads((place.run / "run.json").read_text())
    (place.run / "run.json").write_text(json.dumps(info | {"outcome": "interrupted"}))
    code, _, err = place.call("runs", "export", place.run.name, "-o", place.root / "x.zip")
    assert code == 2 and "is not done but interrupted" in err and not (place.root / "x.zip").exists()


# ------------------------------------------------------------------------------------------------ changed
def places(data):
    """(name, first byte, bytes) of what every member holds."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        for info in file.infolist():
            yield info.filename, info.header_offset + 30 + len(info.filename), info.file_size


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_byte_that_is_flipped_in_any_member_is_seen(looked, data):
    for name, start, size in places(looked.packed):
        at, bit = start + data.draw(st.integers(0, size - 1)), 1 << data.draw(st.integers(0, 7))
        flipped = looked.packed[:at] + bytes([looked.packed[at] ^ bit]) + looked.packed[at + 1 :]
        try:
            assert name in wrong(looked, flipped)
        except Unreadable as error:
            assert name == "manifest.json" and name in str(error)


def test_a_file_that_ends_in_any_member_is_refused(looked):
    for _, start, size in places(looked.packed):
        with pytest.raises(Unreadable, match="only a part of one|is no record of a run"):  # predictions are a zip too
            looked.checked(looked.packed[: start + size // 2])


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_occurs_twice_or_is_gone_is_refused(looked):
    for name, content in members(looked.packed).items():
        with pytest.raises(Unreadable, match="occurs twice"):
            looked.checked(one_more(looked.packed, name, content))
        without = {"manifest.json": "holds no manifest.json"}.get(name, f"{name} is missing")
        lacking = rewritten(looked.packed, lambda held, name=name: held.pop(name), honest=False)
        try:
            assert without in wrong(looked, lacking)
        except Unreadable as error:
            assert without in str(error)


@pytest.mark.parametrize(
    "name, change, said",
    [
        ("linear", lambda r: r["metrics"].update(accuracy=0.99), "accuracy is 0.99 in the record and"),
        ("knn", lambda r: r["metrics"].update(macro_accuracy=0.9), "macro_accuracy is 0.9 in the record"),
        ("knn", lambda r: r["metrics"].update(n_test=7.0), "n_test is 7.0 in the record"),
        ("knn", lambda r: r["metrics"].update(accuracy=2.0), "accuracy: input should be less"),
        ("linear", lambda r: r["spec"]["protocol_config"].update(lr=1.0), "its spec has hash"),
        ("linear", lambda r: r.update(predictions="../../x.npz"), "its predictions are not in the file"),
        ("linear", lambda r: r["spec"].update(pretrain_id="0" * 12), "it is of another run"),
        ("run.json", lambda r: r["spec"].update(seed=1), "its spec is not that of its id"),
        ("run.json", lambda r: r.update(steps=7), "are not 9,996 clips"),
        ("run.json", lambda r: r.update(steps=7, clips_seen=7.0 * r["spec"]["train"]["batch_size"]), "its spec makes"),
        ("run.json", lambda r: r.update(outcome="running"), "it is not done but running"),
        ("run.json", lambda r: r.update(spec=[]), "should be a valid dictionary"),
        ("run.json", lambda r: r.update(name="else"), "of another name"),
        ("run.json", lambda r: r.pop("train_clips"), "it does not say how many clips it trained on"),
        (
            "run.json",
            lambda r: r.update(train_clips=24),
            "it says that it trained on 24 clips, small half has 12",
        ),
        ("metrics.jsonl", lambda r: r.update(step=3), "metrics.jsonl ends at step 3"),
        ("metrics.jsonl", lambda r: r.update(loss=float("nan")), "NaN is not a number"),
    ],
)
def test_a_changed_record_is_refused_even_if_the_manifest_agrees(looked, name, change, said):
    change = changed(looked.run, name, change)
    assert said in wrong(looked, rewritten(looked.packed, change))


def test_a_training_without_its_log_is_refused(looked):
    without = rewritten(looked.packed, lambda held: held.pop(row(looked.run, held, "metrics.jsonl")))
    assert "its metrics.jsonl is missing" in wrong(looked, without)


@pytest.mark.parametrize(
    ("encoder", "said"),
    [
        ({"convention": CONVENTION, "fvcore": 100.0, "torch_flop_counter": 100.0}, ""),
        ({"fvcore": 100.0, "torch_flop_counter": 100.0}, "by the convention of this skelbench"),
        ({"convention": CONVENTION, "fvcore": 100.0}, "it has no count by torch_flop_counter"),
        ({"convention": CONVENTION, "fvcore": 100.0, "torch_flop_counter": 90.0}, "torch_flop_counter counts 90.0"),
    ],
)
def test_a_cost_is_one_that_all_counters_have_counted(looked, encoder, said):
    times = {"median_ms": 2.0, "clips_per_s": 500.0}
    cost = {"grid": "8 x 25", "encoder": {"macs": 100, "bodies": 1, **encoder}, "step": None}
    cost |= {"parameters": {"encoder": 10, "trainable": 20}, "latency": {"batch 1": times, "batch 64": times}}
    cost |= {"peak_memory": {"bytes": 1.0, "how": "made up"}}

    def add(held):
        held[row(looked.run, held, "run.json").replace("run.json", "cost.json")] = json.dumps(cost).encode()

    found = wrong(looked, rewritten(looked.packed, add))
    assert said in found and bool(said) == bool(found)


@pytest.mark.parametrize("standard", [True, False])
def test_an_evaluation_with_settings_of_its_own_is_not_standard(looked, standard):
    def edit(held):
        path = row(looked.run, held, "knn")
        record = json.loads(held.pop(path))
        record["spec"]["protocol_config"]["k"] = 3
        own = EvalSpec.model_validate(record["spec"]).id
        new = path.replace(record["id"], own)
        held[new.replace(".json", ".npz")] = held.pop(path.replace(".json", ".npz"))
        record |= {"id": own, "standard": standard, "predictions": f"eval-{own}.npz"}
        held[new] = json.dumps(record).encode()

    found = wrong(looked, rewritten(looked.packed, edit))
    assert found == (
        "it says that nothing but the protocol was asked for, but protocol_config differ" if standard else ""
    )


def test_what_does_not_hold_is_not_added(place, looked):
    change = changed(looked.run, "linear", lambda r: r["metrics"].update(accuracy=0.99))
    assert "it was changed" in wrong(looked, rewritten(looked.packed, change, honest=False))
    refused(place, rewritten(looked.packed, change), "accuracy is 0.99 in the record and", code=1)


def test_of_several_files_all_are_added_or_none(place, exported):
    """One command takes what lies in a folder; a file that does not hold keeps all of them out."""
    one, other = place.root / "one.zip", place.root / "other"
    assert place.call("runs", "export", place.run.name, "--alone", "-o", one)[0] == 0
    wrong = place.root / "wrong.zip"
    change = changed(place.run, "linear", lambda record: record["metrics"].update(accuracy=0.99))
    wrong.write_bytes(rewritten(one.read_bytes(), change))
    code, out, _ = place.call("runs", "verify", one, wrong)
    assert code == 1 and out.count("linear: metrics") == 2 and "1 of " in out
    code, out, err = place.call("runs", "add", one, wrong, "--results", other)
    assert code == 2 and f"{wrong} was not added; nor was any other file" in err.replace("\n", " ")
    assert not other.exists() and "added " not in out
    code, out, _ = place.call("runs", "add", one, exported, "--results", other)
    assert code == 0 and out.count("added ") == 3 and out.count("is here already") == 1 and out.count("Next:") == 1
    assert place.call("runs", "verify", one, exported)[0] == 0


def predictions(run, **arrays):
    def edit(held):
        path = row(run, held, "linear").replace(".json", ".npz")
        out = io.BytesIO()
        np.savez(
            out,
            **{**np.load(io.BytesIO(held[path])), **{k: v(np.load(io.BytesIO(held[path]))) for k, v in arrays.items()}},
        )
        held[path] = out.getvalue()

    return edit  # fmt: skip


@pytest.mark.parametrize(
    "arrays, said",
    [
        ({"predicted": lambda a: a["labels"]}, "by its predictions"),
        ({"labels": lambda a: np.roll(a["labels"], 1), "predicted": lambda a: np.roll(a["predicted"], 1)}, "data set"),
        ({"ids": lambda a: a["ids"] + 1}, "other clips than the test clips"),
        ({"ids": lambda a: a["ids"] * 0}, "a clip occurs twice"),
        ({"labels": lambda a: a["labels"] - 9}, "a label is no number of a class"),
        ({"predicted": lambda a: a["predicted"][:-1]}, "predicted is not one class for every clip"),
        ({"predicted": lambda a: a["predicted"].astype(float)}, "holds no whole numbers"),
        ({"labels": lambda a: a["labels"].astype(np.uint64)}, "holds no whole numbers"),
        ({"ids": lambda a: a["ids"] > 3}, "holds no whole numbers"),
        ({"labels": lambda a: np.array([{}] * len(a["labels"]), dtype=object)}, "it holds no predictions"),
    ],
)
def test_predictions_that_do_not_give_the_metrics_or_are_of_other_clips(looked, arrays, said):
    assert said in wrong(looked, rewritten(looked.packed, predictions(looked.run, **arrays)))


def test_a_row_of_another_suite_is_refused_where_one_is_asked_for(place, looked):
    packed = looked.root / "mine.zip"
    code, out, _ = place.call("runs", "verify", packed, "--suite", "skeleton-v1")
    assert code == 1 and "no row of skeleton-v1" in out
    code, _, err = place.call("runs", "add", packed, "--suite", "skeleton-v1", "--results", place.root / "other")
    assert code == 2 and "suite skeleton-v1" in err
    suite = json.loads((place.suite).read_text())
    (place.suite).write_text(json.dumps(suite | {"seeds": [0]}))
    code, out, _ = place.call("runs", "verify", packed, "--suite", "tiny-v1")
    assert code == 1 and "the file was made for hash" in out


def test_settings_that_are_not_the_presets_are_seen_where_it_is_here(looked):
    """A spec that hashes to its id, under the name of a preset that it is not."""

    def lie(held):
        old = looked.run.name
        info = json.loads(held[f"runs/{old}/run.json"])
        info["spec"]["train"]["lr"] = 0.5
        spec = RunSpec.model_validate(info["spec"])
        name = f"{old[:-12]}{spec.id}"
        info |= {"id": spec.id, "name": name}
        for path in [path for path in held if path.startswith(f"runs/{old}/")]:
            data = held.pop(path)
            if "eval-" not in path:
                held[path.replace(old, name)] = data
        held[f"runs/{name}/run.json"] = json.dumps(info).encode()
        manifest = json.loads(held["manifest.json"])
        manifest["runs"][name] = spec.id
        del manifest["runs"][old]
        held["manifest.json"] = json.dumps(manifest).encode()

    found = wrong(looked, rewritten(looked.packed, lie))
    assert "it says that nothing was changed from preset quick, but train differ" in found


@pytest.mark.parametrize(
    ("sets", "holds", "said"), [({}, True, "natively"), ({"encoder.base": 5}, None, "no method here has")]
)
def test_a_native_twin_is_known_by_the_method_whose_encoder_it_has(looked, tmp_path, sets, holds, said):
    """``untrained`` itself has no native encoder: by its name alone any of them would be a changed one."""
    request = Request("skeletonclr", dataset="small", native=True, preset="quick", sets=sets)
    twin = control(resolve(request, get_host(), looked.built / "data", "cpu"), get_host())
    pack([ReadRun(write_run(tmp_path, twin, setting="native"))], tmp_path / "twin.zip", {})
    (found,) = [one for one in looked.checked((tmp_path / "twin.zip").read_bytes()) if one.check == "preset"]
    assert found.holds is holds and said in found.detail


# ------------------------------------------------------------------------------------------------ hostile
def one_more(data, name, content, **fields):
    """The file with one more member."""
    out = io.BytesIO(data)
    with zipfile.ZipFile(out, "a") as file:
        info = zipfile.ZipInfo(name)
        for key, value in fields.items():
            setattr(info, key, value)
        file.writestr(info, content)
    return out.getvalue()


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "name, fields, said",
    [
        ("../../evil.json", {}, "is no record of a run"),
        ("/tmp/evil.json", {}, "is no record of a run"),
        ("runs/RUN/../x/run.json", {}, "is no record of a run"),
        ("runs/RUN/last.pt", {}, "is no record of a run"),
        ("runs/RUN/run.json\x1b[31m", {}, "is no record of a run"),
        ("runs/RUN/eval-0123456789ab.json", {"external_attr": (stat.S_IFLNK | 0o777) << 16}, "is a link"),
        ("runs/RUN/run.json", {}, "occurs twice"),
        ("runs/RUN/eval-0123456789ab.json", {"compress_type": zipfile.ZIP_DEFLATED}, "is compressed"),
    ],
)
def test_members_that_are_no_records_are_refused_unread(looked, name, fields, said):
    with pytest.raises(Unreadable, match=f"{said}.*; nothing was read"):
        looked.checked(one_more(looked.packed, name.replace("RUN", looked.run.name), b"0" * 100_000, **fields))


def test_a_hostile_file_is_one_sentence(place, looked):
    refused(place, one_more(looked.packed, "../../evil.json", b"{}"), "is no record of a run", code=2)


def test_a_list_of_members_without_end_is_not_read(looked, monkeypatch):
    monkeypatch.setattr("skelbench.records.archive.MOST_LISTED", 500)
    with pytest.raises(Unreadable, match="the list of its members is longer than 500 bytes"):
        looked.checked(looked.packed)
    monkeypatch.undo()
    monkeypatch.setattr("skelbench.records.archive.MOST_MEMBERS", 3)
    with pytest.raises(Unreadable, match="more than 3; nothing was read"):
        looked.checked(looked.packed)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"not a zip",
        lambda data: data[:-3],
        lambda data: data.replace(b"manifest.json", b"manifest.jsom"),
    ],
)
def test_what_is_no_such_file_is_said(looked, damage):
    with pytest.raises(Unreadable, match="x.zip"):
        looked.checked(damage(looked.packed))


@pytest.mark.parametrize(
    "text",
    ['{"a": NaN}', '{"a": 1e999}', "[" * 100_000, '{"a": 1, "a": 2}', "1" * 5000, b"\xff"],
)
def test_json_that_is_no_json_is_refused(text):
    with pytest.raises(ValueError):
        load_json(text if isinstance(text, bytes) else text.encode())


def test_a_manifest_that_says_anything_else_is_refused(looked):
    for change in ({"format": 9}, {"members": []}, {"more": 1}, {"runs": {"x": 1}}):
        text = json.dumps(change).encode()
        other = rewritten(looked.packed, lambda held, text=text: held.update({"manifest.json": text}), honest=False)
        with pytest.raises(Unreadable, match="manifest.json"):
            looked.checked(other)
    with pytest.raises(Unreadable, match="cannot be read"), opened(looked.root):
        pass
    with pytest.raises(Unreadable, match="there is no file"), opened(looked.root / "none.zip"):
        pass


def test_arrays_that_say_they_are_large_make_no_room(monkeypatch):
    monkeypatch.setitem(MOST_BYTES, ".npz", 2**20)
    out = io.BytesIO()
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<i8", "fortran_order": False, "shape": (2**50,)})
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("ids.npy", head.getvalue())
    with pytest.raises(ValueError, match="not of the size that it says"):
        load_predictions(out.getvalue())
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("ids.npy", bytes(2**21))
    with pytest.raises(ValueError, match="too large"):
        load_predictions(out.getvalue())
