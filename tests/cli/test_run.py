"""The commands as a user types them, on a small dataset with small models."""

import json
import os
import shutil
from contextlib import redirect_stderr, redirect_stdout
from functools import partial

import pytest
from small import TINY, TINY_METHOD, on_two_processes, write_small_store

from skelbench.cli.main import main

pytestmark = pytest.mark.usefixtures("shipped_plugins")


def command(method="slim", *more, **changes):
    settings = TINY | {f"method.{key}": value for key, value in TINY_METHOD.get(method, {}).items()} | changes
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    shape = ["--dataset", "small", "--clip-length", "32", "--patch", "8", "--epochs", "1", "--batch-size", "4"]
    return ["run", method, *shape, *sets, *more]


def test_run_probe_and_compare_in_an_empty_folder(small, capsys, fails):
    assert main(command("slim")) == 0
    shown = capsys.readouterr().out
    for said in ("untrained", "raw", "minus it", "linear", "knn", "GMACs per body", "Next:", "skelbench compare"):
        assert said in shown
    assert len(list((small / "results").glob("*/run.json"))) == 3  # the method and its controls

    assert main(command("slim")) == 0  # everything is there: nothing is trained or probed again
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-12:] == shown.splitlines()[-12:] and "clips/s" not in printed.err
    assert "nothing was trained" in printed.err

    assert main(["compare", "--all", "--format", "json"]) == 0
    text = capsys.readouterr().out
    assert "slim" in json.dumps(json.loads(text)) and "untrained" in text
    # Runs with changed settings do not fill the rows of a preset.
    assert main(["compare", "--format", "csv"]) == 0
    assert "slim" not in capsys.readouterr().out
    assert main(["runs", "list"]) == 0
    assert "slim" in capsys.readouterr().out
    assert main(["eval", "slim", "--protocol", "knn@5"]) == 0
    assert "knn@5" in capsys.readouterr().out
    (record,) = (
        path
        for path in (small / "results").glob("slim-*/eval-*.json")
        if json.loads(path.read_text())["spec"]["protocol"] == "knn"
    )
    record.write_text('{"id"')
    fails(["eval", "slim", "--protocol", "knn"], f"{record.name} is damaged; remove it and evaluate again")
    assert main(["eval", "slim", "--protocol", "knn", "--force"]) == 0
    fails(["eval", "slim", "--split", "halv"], "did you mean 'half'?")
    fails(["eval", "slim@7"], "kept no snapshot at epoch 7")
    fails(["eval", "slim", "--protocol", "liner"], "did you mean 'linear'?")


def test_a_dry_run_prints_the_plan_and_writes_nothing(small, capsys):
    assert main(command("skeletonmae", "--dry-run", "--set", "optimizer=sgd")) == 0
    shown = capsys.readouterr().out
    for said in ("pretrain id", "eval id, linear", "parameters", "GFLOPs per clip", "time"):
        assert said in shown
    rows = {words[-3]: words[-2:] for line in shown.splitlines() if len(words := line.split()) >= 3}
    assert rows["batch_size"] == ["4", "12"] and rows["optimizer"] == ["sgd", "adamw"]  # next to the preset's values
    assert not (small / "results").exists()


def test_a_dry_run_as_json_has_the_id_of_the_run(small, capsys):
    assert main(command("skeletonmae", "--dry-run", "--json", "--seeds", "0,1")) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["state"], first["spec"]["seed"], second["spec"]["seed"]) == ("new", 0, 1)
    training = first["training"]
    assert training["steps"] == 3 and training["flops"] == 12 * training["flops_per_clip"] > 0
    assert set(first["evaluations"]) == {"linear", "knn"} and set(first["controls"]) == {"untrained", "raw"}
    assert main(command("skeletonmae", "--probe", "none")) == 0
    assert list((small / "results").glob(f"skeletonmae-*-{first['id']}"))


def test_a_toml_file_sets_what_the_command_line_does_not(small, capsys):
    text = 'dataset = "small"\nseed = 3\n[train]\nlr = 5e-4\nepochs = 7\n[encoder]\ndim = 24\nheads = 2\n'
    (small / "run.toml").write_text(text)
    arguments = ["run", "skeletonmae", "--config", str(small / "run.toml"), "--clip-length", "32", "--patch", "8"]
    arguments += ["--batch-size", "4", "--epochs", "1", "--dry-run", "--json"]
    assert main(arguments) == 0
    spec = json.loads(capsys.readouterr().out)["spec"]
    assert (spec["seed"], spec["train"]["lr"], spec["encoder_config"]["dim"]) == (3, 5e-4, 24)
    assert spec["train"]["epochs"] == 1


def test_a_dry_run_names_the_nearest_run_and_a_saved_file_gives_the_same_run(small, capsys):
    def plan(*words):
        assert main([*words, "--dry-run", "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert main(command("skeletonmae", "--probe", "none")) == 0
    capsys.readouterr()
    file = str(small / "saved.toml")
    first = plan(*command("skeletonmae", "--seed", "2", "--set", "optimizer=sgd", "--save-toml", file, lr=0.5))
    nearest, settings = first["nearest"]
    assert nearest.startswith("skeletonmae-small") and settings["seed"] == [0, 2]
    assert settings["optimizer"] == ["adamw", "sgd"] and settings["train.lr"][1] == 0.5
    assert plan("run", "skeletonmae", "--config", file)["id"] == first["id"]
    assert plan(*command("skeletonmae"))["nearest"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "slm"], "'slim'"),
        (["run", "slim", "--dataset", "small", "--split", "halv"], "'half'"),
        (["run", "slim", "--preset", "smal"], "'small'"),
        (["run", "slim", "--tokens", "9"], "8, 15 or 30"),
        (["run", "slim", "--tokens", "8", "--patch", "4"], "--patch"),
        (["run", "slim", "--dataset", "small", "--set", "lrr=1"], "'train.lr'"),
        (["run", "slim", "--budget", "hours=3"], "minutes=M"),
        (["run", "slim", "--dataset", "small", "--json"], "--dry-run"),
        (["run", "slim", "--dataset", "small", "--batch-size", "99"], "larger than"),
        (["run", "slim", "--dataset", "small", "--device", "gpu"], "device"),
        (["run", "skeletonmae", "--dataset", "small", "--set", "decoder_heads=5"], "cannot be built"),
        (["run", "slim", "--init-from", "nothing"], "no runs in"),
        (["run", "slim", "--set", "encoder=5"], "encoder=5 is no name"),
        (["run", "slim", "--dry-run", "--save-toml", "nowhere/saved.toml"], "no folder nowhere"),
    ],
)
def test_bad_input_is_one_error_and_writes_nothing(small, arguments, said, fails):
    fails(arguments, said, shown=True)
    assert not list((small / "results").glob("*"))


def test_bad_toml_names_file_and_key(small, fails):
    path = small / "run.toml"
    for text, said in (("datset = 'small'\n", "'dataset'"), ("lr = = 1\n", "cannot be read as TOML")):
        path.write_text(text)
        fails(["run", "slim", "--config", str(path)], said)


def test_results_that_cannot_be_written_stop_the_run_before_training(small, fails):
    blocked = small / "blocked"
    blocked.write_text("a file, not a folder")
    fails(command("mamp", "--results", str(blocked)), "is a file; use another", shown=True)
    newer = small / "newer"
    newer.mkdir()
    (newer / "skelbench.json").write_text('{"format": 99}')
    fails(command("mamp", "--results", str(newer)), "newer than this skelbench reads", shown=True)


def test_changed_data_is_an_error(small, fails):
    assert main(command("skeletonmae", "--probe", "none")) == 0
    shutil.rmtree(small / "data" / "small")
    write_small_store(small / "data", seed=1)
    fails(["eval", "skeletonmae"], "has changed since this run was made")


def test_streams_of_a_run_and_of_several_runs(small, capsys, fails):
    for method in ("skeletonmae", "mamp"):
        assert main(command(method, "--probe", "none")) == 0
    several = ["eval", "skeletonmae", "mamp", "--stream", "joint,motion", "--fusion", "features", "--protocol", "knn"]
    assert main(several) == 0
    assert "(features)" in capsys.readouterr().out
    (run,), (first,) = ((small / "results").glob(f"{method}-*") for method in ("mamp", "skeletonmae"))
    specs = [json.loads(path.read_text())["spec"] for path in first.glob("eval-*.json")]
    assert [run.name.rsplit("-", 1)[-1]] in [spec["partners"] for spec in specs]

    for arguments, said in (
        (["--stream", "joint,bone"], "--fusion"),
        (["--stream", "joint,bnoe", "--fusion", "scores"], "'bone'"),
        (["mamp", "--stream", "joint,bone,motion", "--fusion", "scores"], "3 streams"),
        (["--readout", "jionts"], "'joints'"),
    ):
        fails(["eval", "skeletonmae", *arguments], said)


def test_flops_need_no_runs_and_no_data(tmp_path, capsys, monkeypatch):
    """Counts for one table are reused by the other."""
    from skelbench.evaluation.cost import count as cost

    every = cost.flops_grids

    def some(host):
        return [cell for cell in every(host) if cell[0].name == "skeletonmae" and cell[1].frames == 120]

    monkeypatch.setattr(cost, "flops_grids", some)
    for table in ("flops", "flops-detail"):
        assert main(["compare", "--table", table, "--format", "csv"]) == 0
        printed = capsys.readouterr()
        rows = [line.split(",") for line in printed.out.splitlines()]
        assert any("SkeletonMAE" in row for row in rows) and any("MAMP" in row for row in rows)
        assert "2/2 rows (100 %)" in printed.err
        monkeypatch.setattr("skelbench.evaluation.cost.report.flops_rows", lambda *_: pytest.fail("counted again"))
    assert not (tmp_path / "results").exists()


def test_changed_settings_are_not_the_exact_preset(small, capsys, host):
    """The resolved settings decide, not what was typed."""
    from skelbench.pipeline.controls import control
    from skelbench.pipeline.request import Request, parse_value
    from skelbench.pipeline.resolve import resolve

    def modified(**request):
        sets = {key: parse_value(value) for key, value in request.pop("sets", {}).items()}
        request = Request(method="slim", dataset="small", preset="quick", sets=sets, **request)
        made = resolve(request, host, small / "data", "cpu")
        return dict(made.modified), made

    assert modified()[0] == {}
    assert modified(tokens=30, seed=5)[0] == {}  # grid, data and seed are what presets are compared over
    assert modified(sets={"momentum": "0.96", "betas": "[0.9, 0.999]", "centering": "sinkhorn"})[0] == {}
    changed, made = modified(epochs=150)  # the number of the method's native schedule, but not of the preset's
    assert set(changed) == {"train.epochs"} and made.spec.train.epochs == 150
    assert modified(sets={"centering": "none"})[0] == {"method.centering": "none"}
    assert modified(sets={"clip_grad": "none"})[0] == {"train.clip_grad": None}
    changed, made = modified(sets={"train.iters_per_epoch": "10", "batch_size": "4"})
    assert made.spec.train.iters_per_epoch == 10 and made.spec.train.epochs == 10_000 / 40
    # A trial schedule leaves the control that exact runs share as it is.
    assert control(modified(epochs=1)[1], host).modified == {}
    assert set(control(modified(sets={"encoder.depth": "1"})[1], host).modified) == {"encoder.depth"}


def test_torchrun_through_the_command_line(small):
    """Two gloo processes train and evaluate together; the first alone says what was found, and counts costs."""

    def one(*words):
        with (small / f"said by {os.environ['RANK']}").open("a") as out, redirect_stdout(out):
            with redirect_stderr(out):
                assert main(["compare"]) == 2
            assert main([*words]) == 0

    on_two_processes(partial(one, *command("mamp", "--probe", "knn")))
    on_two_processes(partial(one, "eval", "mamp", "--protocol", "knn@5"))
    said = (small / "said by 0").read_text()
    assert (
        "minus it" in said
        and "knn@5" in said
        and said.count("is the work of one process") == 2
        and not (small / "said by 1").read_text()
    )
    runs = [json.loads(path.read_text()) for path in (small / "results").glob("*/run.json")]
    assert len(runs) == 3 and {run["outcome"] for run in runs} == {"done"}
