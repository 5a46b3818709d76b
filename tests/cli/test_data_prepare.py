"""`data prepare` as a user types it: exit codes, lines, what an interruption leaves."""

import os
import signal
import time

import pytest
from made.ntu import make_recordings, sample_names
from made.pku import make_pku

from skelbench.cli.main import main
from skelbench.data.store.clip_store import ClipStore
from tests.campaign import warm


@pytest.fixture(scope="module")
def ntu(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ntu")
    make_recordings(folder, 24)
    return folder


@pytest.fixture(scope="module")
def pku(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pku") / "raw"
    make_pku(folder, 1, 4, frames=80, actions=3)
    return folder


def test_prepare_then_info(ntu, tmp_path, capsys):
    assert main(["data", "prepare", "ntu60", "--raw", str(ntu)]) == 0
    printed = capsys.readouterr()
    assert "ntu60: 24 clips in " in printed.out and "next: skelbench data verify ntu60" in printed.out
    assert "prepare ntu60: 24/24 files (100 %)" in printed.err
    assert main(["data", "info", "ntu60"]) == 0
    assert "ctrgcn-denoise/1" in capsys.readouterr().out


def test_an_existing_dataset_is_replaced_only_with_force(ntu, capsys):
    command = ["data", "prepare", "ntu60", "--raw", str(ntu), "--name", "mine", "--workers", "1"]
    assert main(command) == 0
    capsys.readouterr()
    assert main(command) == 2
    assert "mine exists already; choose another name, or replace it with --force" in capsys.readouterr().err
    assert main([*command, "--force"]) == 0


def test_skipped_files_are_listed_with_exit_code_3(ntu, tmp_path, capsys):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "S001C001P040R002A001.skeleton").write_bytes(b"\0" * 500)
    (tmp_path / "more" / "[red]S1.skeleton").write_bytes(b"")
    command = ["data", "prepare", "ntu60", "--raw", str(ntu), "--raw", str(tmp_path / "more")]
    assert main(command) == 3
    printed = capsys.readouterr()
    assert "ntu60: 24 clips" in printed.out
    for line in (
        "skipped: [red]S1.skeleton: its name is not like S001C002P003R002A013, or names no such sample",
        "skipped: S001C001P040R002A001.skeleton: frame 0: ",
        "2 skipped unexpectedly",
    ):
        assert line in printed.err


@pytest.mark.parametrize(("arguments", "message"), [
    (["ntu60", "--raw", "nowhere"], "there is nothing at nowhere; name a folder or a zip file"),
    (["ntu60"], "Missing option '--raw'"),
    (["ntu60", "--raw", ".", "--name", "synthetic"], "built-in dataset"),
])  # fmt: skip
def test_mistakes_are_one_error(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["data", "prepare", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_prepare_pku(pku, capsys):
    assert main(["data", "prepare", "pku2", "--raw", str(pku)]) == 0
    assert "pku2: 36 clips" in capsys.readouterr().out


def test_an_interruption_leaves_no_partial_dataset(ntu, tmp_path):
    links = tmp_path / "links"
    links.mkdir()
    for i, name in enumerate(sample_names(2000, 17, 60, 40)):  # enough for seconds of work
        os.link(sorted(ntu.iterdir())[i % 24], links / f"{name}.skeleton")
    root = tmp_path / "data"
    command = ["data", "prepare", "ntu60", "--data-root", str(root), "--raw"]
    running = warm.start([*command, str(links), "--workers", "2"], tmp_path / "log")
    partial = root / ".ntu60.partial" / "frames.npy"
    while (ended := warm.wait(running, 0)) is None and not (partial.exists() and partial.stat().st_size > 200_000):
        time.sleep(0.02)
    assert ended is None, (tmp_path / "log").read_text()
    os.killpg(running, signal.SIGINT)  # to the worker processes as well, as a terminal does
    assert warm.wait(running) == 130 and "Traceback" not in (tmp_path / "log").read_text()
    assert not (root / ".ntu60.partial").exists() and not (root / "ntu60").exists()
    assert main([*command, str(ntu)]) == 0
    assert len(ClipStore.open(root / "ntu60")) == 24
    assert [path.name for path in root.iterdir() if path.is_dir()] == ["ntu60"]
