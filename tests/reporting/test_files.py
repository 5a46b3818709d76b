"""Pictures as files: what is in them, and what the command says."""

import base64
import errno
import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small import write_small_store

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.data.store.clip_store import ClipStore
from skelbench.reporting.skeletons.draw import (
    MIN_DELAY_MS,
    _lines,
    animation_frames,
    fitted,
    save_animation,
    save_strip,
)
from skelbench.reporting.skeletons.page import page_data, save_page
from skelbench.reporting.skeletons.scene import COLOURS, HIDDEN, Panel, Scene, clip_scene, middle
from skelbench.views.skeleton.topology import NTU25


@pytest.fixture
def scene(tmp_path):
    write_small_store(tmp_path)
    return clip_scene(ClipStore.open(tmp_path / "small"), 3)


def masked(scene, hidden):
    """The clip beside a view of which a token is hidden from ``hidden`` on."""
    x_MTJC = scene.panels[0].x_MTJC[:, :16]
    hidden_MPJ = np.zeros((len(x_MTJC), 4, 25), dtype=bool)
    hidden_MPJ[:, hidden:] = True
    return Scene(scene.title, NTU25, (*scene.panels, Panel("view", x_MTJC, "note", hidden_MPJ)), 30.0)


def amount(image, colour):
    """Pixels of about that colour."""
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return int((np.abs(np.asarray(image.convert("RGB"), dtype=int) - wanted).max(axis=2) < 24).sum())


def test_a_strip_shows_both_sides_of_both_bodies_and_hidden_joints(scene, tmp_path):
    save_strip(scene, tmp_path / "one.png")
    one = Image.open(tmp_path / "one.png")
    for body in range(2):
        for side in range(2):
            assert amount(one, COLOURS[body][side]) > 100
    sizes = {}
    for hidden in (0, 2, 4):
        save_strip(masked(scene, hidden), tmp_path / "two.png")
        two = Image.open(tmp_path / "two.png")
        sizes[hidden] = amount(two, HIDDEN), amount(two, COLOURS[0][0])
    assert sizes[0][0] > sizes[2][0] > sizes[4][0] and sizes[0][1] < sizes[2][1] < sizes[4][1]


def test_an_animation_keeps_the_clips_pace_and_moves(scene, tmp_path):
    told = []
    save_animation(scene, tmp_path / "a.gif", told.append)
    with Image.open(tmp_path / "a.gif") as gif:
        assert gif.n_frames == animation_frames(scene) == len(told) and gif.info["loop"] == 0
        seconds = gif.n_frames * gif.info["duration"] / 1000
        frames = []
        for k in range(gif.n_frames):
            gif.seek(k)
            frames.append(np.asarray(gif.convert("RGB"), dtype=int))
    length = scene.panels[0].frames / scene.fps
    assert seconds == pytest.approx(length, rel=0.25) and gif.info["duration"] >= MIN_DELAY_MS
    assert all(np.abs(a - b).max() > 50 for a, b in zip(frames, frames[1:]))
    assert np.abs(frames[0] - frames[-1])[: frames[0].shape[0] // 8].max() < 16, "the title stands still"


def test_an_animation_of_views_runs_every_view_to_its_end(scene, tmp_path):
    save_animation(masked(scene, 2), tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as gif:
        assert 0 < gif.n_frames <= animation_frames(masked(scene, 2)), "equal frames in a row are one"
        gif.seek(0)
        before = amount(gif, HIDDEN)
        gif.seek(gif.n_frames - 1)
        assert amount(gif, HIDDEN) > before + 50, "the last tokens are hidden, the first are not"


def test_a_clip_of_one_frame_can_be_drawn(tmp_path, scene):
    still = Scene("one", NTU25, (Panel("p", scene.panels[0].x_MTJC[:1, :1]),), 30.0)
    save_strip(still, tmp_path / "a.png")
    save_animation(still, tmp_path / "a.gif")
    save_page(still, tmp_path / "a.html")
    assert {path.stat().st_size > 500 for path in tmp_path.glob("a.*")} == {True}


def test_names_are_never_taken_for_formulas(scene, tmp_path, monkeypatch):
    def no_formula(*_, **__):
        raise AssertionError("a formula was read")

    monkeypatch.setattr("matplotlib.mathtext.MathTextParser.parse", no_formula)
    name, both = "a $\\frac{$ b, $5 to $10", masked(scene, 2)
    both = replace(both, title=name, panels=tuple(replace(panel, title=name, note=name) for panel in both.panels))
    for each in (both, replace(both, panels=both.panels[:1])):
        save_strip(each, tmp_path / "a.png")
        save_animation(each, tmp_path / "a.gif")


def test_a_picture_that_cannot_be_written_leaves_the_old_one(scene, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for save, name in ((save_strip, "a.png"), (save_animation, "a.gif"), (save_page, "a.html")):
        (tmp_path / name).write_bytes(b"old")
        with pytest.raises(SkelbenchError, match=f"cannot write .*{name}: No space left on device; free space"):
            save(scene, tmp_path / name)
        assert (tmp_path / name).read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.glob("*a.*")) == ["a.gif", "a.html", "a.png"]


def test_an_absent_body_is_not_drawn_and_a_far_one_is_pointed_to(scene, tmp_path):
    shown = {}
    x_TJC = scene.panels[0].x_MTJC[0]
    for name, second in {"alone": None, "absent": 0 * x_TJC, "far": x_TJC + np.array([0, 60, 0])}.items():
        x_MTJC = x_TJC[None] if second is None else np.stack([x_TJC, second])
        save_strip(Scene("t", NTU25, (Panel("p", x_MTJC),), 30.0), tmp_path / "a.png")
        shown[name] = np.asarray(Image.open(tmp_path / "a.png").convert("RGB")).astype(int)
    assert np.array_equal(shown["alone"], shown["absent"])
    figures = slice(60, -80)  # below the title, above the legend
    differs = np.abs(shown["alone"] - shown["far"])[figures].max(axis=2) > 24
    assert 9 * 20 < differs.sum() < 9 * 1000, "nine pointers, and the first body as it was"


@pytest.mark.parametrize("title", ["word " * 200, "W" * 1000, "short", ""])
@pytest.mark.parametrize("lines", [1, 2])
def test_titles_stay_on_the_picture(title, lines, tmp_path):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    text = fitted(title, 4.0, 9, lines)
    figure = Figure(figsize=(4.2, 1), dpi=100)
    drawn = figure.text(0, 0, text, fontsize=9).get_window_extent(FigureCanvasAgg(figure).get_renderer())
    assert drawn.width <= 4.1 * 100 and text.count("\n") < lines
    assert text.endswith("…") == (len(title) > 20)
    kept = "".join(text.rstrip("…").split())
    assert "".join(title.split()).startswith(kept)


@pytest.mark.parametrize("widths", [[8, 8, 4, 4, 2, 2, 2, 2], [5, 5, 2, 3], [8], [3, 8, 3]])
def test_panels_are_set_on_lines_without_overlap(widths):
    lines = _lines(widths, 8)
    assert [panel for line in lines for panel, _ in line] == list(range(len(widths)))
    for line in lines:
        ends = [column + widths[panel] for panel, column in line]
        assert max(ends) <= 8 and all(end <= column for end, (_, column) in zip(ends, line[1:]))


# ------------------------------------------------------------------------------------------------ the page
def decoded(panel, name, kind, *shape):
    return np.frombuffer(base64.b64decode(panel[name]), dtype=kind).reshape(shape)


def test_a_page_holds_the_coordinates_to_a_tenth_of_a_millimetre_and_the_mask(scene):
    both = masked(scene, 1)
    data = page_data(both)
    for panel, stored in zip(data["panels"], both.panels):
        shape = (panel["bodies"], panel["frames"], 25, 3)
        assert shape == stored.x_MTJC.shape
        x_MTJC = decoded(panel, "x", "<i2", *shape) * panel["unit"] + middle(stored)
        assert np.abs(x_MTJC - stored.x_MTJC).max() < 1e-4
    hidden = decoded(data["panels"][1], "hidden", np.uint8, 2, 4, 25)
    assert np.array_equal(hidden, both.panels[1].hidden_MPJ) and data["panels"][0]["hidden"] is None


def test_a_page_is_whole_and_asks_for_nothing_from_elsewhere(scene, tmp_path):
    nasty = "a <!--<script> </script><script>alert(1)</script> & <b>"
    save_page(Scene(nasty, NTU25, scene.panels, 30.0), tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert "http" not in text and "src=" not in text and "@import" not in text and "url(" not in text
    body = text.split('<script type="application/json" id="scene">')[1]
    data = body.split("</script>")[0]
    assert json.loads(data)["title"] == nasty and "<" not in data
    assert text.count("</script>") == 2 and "<!--" not in text and "/*SCENE*/" not in text


RUN_PAGE = Path(__file__).with_name("run_page.js")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the page's script")
@pytest.mark.parametrize("hidden", [0, 4])
def test_the_pages_script_draws_what_the_strip_draws(scene, tmp_path, hidden):
    """Points on the canvas are the projected joints; playing, the slider and dragging do what they say."""
    both = masked(scene, hidden)
    save_page(both, tmp_path / "a.html")
    ran = subprocess.run(
        ["node", str(RUN_PAGE), str(tmp_path / "a.html")], capture_output=True, text=True, check=True, timeout=60
    )
    said = json.loads(ran.stdout)
    assert said["title"] == both.title and said["canvases"] == 2 and said["legend"][-1] == "hidden by the mask"
    for panel, dots in zip(both.panels, said["dots"]):
        frame = round(0.5 * (panel.frames - 1))
        seen = (panel.x_MTJC[:, frame] - middle(panel)).reshape(-1, 3) @ both.camera.T
        x, y = 200 + seen[:, 0] * 100 / both.size, 100 - seen[:, 1] * 100 / both.size
        expected = np.stack([x, y], 1)
        assert len(dots) == len(expected)
        nearest = np.abs(np.array(dots)[:, None] - expected).max(2).min(1)
        assert nearest.max() < 0.5, "pixels"
    assert said["hidden"] == (50 if hidden == 0 else 0)
    assert said["undistorted"], "when the window's height alone changes"
    assert said["moved"] and said["turned"] and said["paused"] == "Play" and said["playing"] == "Pause"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the page's script")
def test_the_page_leaves_absent_bodies_out_and_points_to_far_ones(scene, tmp_path):
    x_MTJC = scene.panels[0].x_MTJC.repeat(2, axis=0)[:3].copy()
    x_MTJC[1], x_MTJC[2] = 0, x_MTJC[0] + np.array([0, 500, 0])
    both = Scene("t", NTU25, (Panel("p", x_MTJC), Panel("q", x_MTJC[:1])), 30.0)
    save_page(both, tmp_path / "a.html")
    ran = subprocess.run(["node", str(RUN_PAGE), str(tmp_path / "a.html")], capture_output=True, text=True, check=True)
    said = json.loads(ran.stdout)
    assert [len(dots) for dots in said["dots"]] == [25, 25] and [len(at) for at in said["pointers"]] == [1, 0]
    assert said["legend"][:3] == ["body 1, left", "body 1, right", "body 3, left"]
    assert said["legend"][-1].endswith("outside the picture")
    panel = page_data(both)["panels"][0]
    x_TJC = decoded(panel, "x", "<i2", 3, panel["frames"], 25, 3)[0] * panel["unit"] + middle(both.panels[0])
    assert np.abs(x_TJC - x_MTJC[0]).max() < 1e-3, "a far body makes the near one coarse"


# ------------------------------------------------------------------------------------------------ the command
@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("SKELBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    write_small_store(tmp_path / "data")
    return tmp_path


def test_show_writes_each_kind_of_picture(root, capsys):
    assert main(["data", "show", "small", "--clip", "3"]) == 0
    assert "small, clip 3: d (class 3), subject 1, 41 frames" in capsys.readouterr().out
    for name in ("a.png", "a.HTML"):
        assert main(["data", "show", "small", "--clip", "3", "-o", name]) == 0
    assert Image.open(root / "small-3.gif").n_frames > 10 and Image.open(root / "a.png").width > 500
    assert "<canvas" not in (root / "a.HTML").read_text() and "getContext" in (root / "a.HTML").read_text()


def test_show_what_a_method_sees(root, capsys):
    command = ["data", "show", "small", "--clip", "4", "--view", "skeletonmae", "--tokens", "15", "-o", "v.png"]
    assert main(command) == 0
    assert "What skeletonmae sees of small, clip 4" in capsys.readouterr().out
    first = (root / "v.png").read_bytes()
    assert main(command) == 0 and (root / "v.png").read_bytes() == first
    assert main([*command, "--step", "1"]) == 0 and (root / "v.png").read_bytes() != first
    assert main([*command, "--set", "mask_ratio=0.5"]) == 0 and (root / "v.png").read_bytes() != first


@pytest.mark.parametrize(
    "arguments,said",
    [
        (["--clip", "24"], "clips 0 to 23, there is no clip 24"),
        (["--clip", "-1"], "no clip '-1'"),
        (["-o", "a.jpg"], "end the name in .gif, .png or .html"),
        (["-o", "nowhere/a.png"], "there is no folder nowhere"),
        (["-o", "folder.png"], "-o folder.png is a folder; name a file in it"),
        (["-o", "folder.gif"], "-o folder.gif is a folder; name a file in it"),
        (["-o", "folder.html"], "-o folder.html is a folder; name a file in it"),
        (["-o", f"{'a' * 300}.png"], "File name too long; choose another place"),
        (["-o", f"{'a' * 300}/a.png"], "there is no folder aaa"),
        (["--tokens", "8"], "name it with --view METHOD"),
        (["--view", "slmi"], "did you mean 'slim'"),
        (["--view", "slim", "--tokens", "9"], "tokens 9 is not one of"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence_and_leaves_nothing(root, capsys, arguments, said):
    folders = {root / f"folder.{kind}" for kind in ("png", "gif", "html")}
    for folder in folders:
        folder.mkdir()
    assert main(["data", "show", "small", *arguments]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: ") and said in printed
    assert {path for kind in ("gif", "png", "html") for path in root.glob(f"*.{kind}")} == folders
