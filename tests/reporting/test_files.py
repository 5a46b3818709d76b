"""Pictures as files: what is in them, and what the command says."""

import base64
import json

import numpy as np
import pytest
from chromium import BINARY, run_page
from PIL import Image
from small import write_small_store

from skelbench.cli.main import main
from skelbench.data.store.clip_store import ClipStore
from skelbench.reporting.skeletons.draw import save_strip
from skelbench.reporting.skeletons.page import page_data, save_page
from skelbench.reporting.skeletons.scene import COLORS, HIDDEN, Panel, Scene, clip_scene, middle
from skelbench.views.skeleton.topology import NTU25


@pytest.fixture
def scene(tmp_path):
    write_small_store(tmp_path)
    return clip_scene(ClipStore.open(tmp_path / "small"), 3)


def masked(scene, hidden):
    """The clip next to a view with a masked token from ``hidden`` on."""
    x_MTJC = scene.panels[0].x_MTJC[:, :16]
    hidden_MPJ = np.zeros((len(x_MTJC), 4, 25), dtype=bool)
    hidden_MPJ[:, hidden:] = True
    return Scene(scene.title, NTU25, (*scene.panels, Panel("view", x_MTJC, "note", hidden_MPJ)), 30.0)


def amount(image, color):
    """Pixels of about that color."""
    wanted = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return int((np.abs(np.asarray(image.convert("RGB"), dtype=int) - wanted).max(axis=2) < 24).sum())


def test_a_strip_shows_both_sides_of_both_bodies_and_hidden_joints(scene, tmp_path):
    sizes = {}
    for hidden in (0, 3):
        save_strip(masked(scene, hidden), tmp_path / "two.png")
        two = Image.open(tmp_path / "two.png")
        sizes[hidden] = amount(two, HIDDEN), amount(two, COLORS[0][0])
    for body in range(2):
        for side in range(2):
            assert amount(two, COLORS[body][side]) > 100
    assert sizes[0][0] > sizes[3][0] and sizes[0][1] < sizes[3][1]


# ------------------------------------------------------------------------------------------------ the page
def test_a_page_holds_the_coordinates_to_a_tenth_of_a_millimeter(scene):
    data, stored = page_data(scene), scene.panels[0]
    x_MTJC = np.frombuffer(base64.b64decode(data["x"]), dtype="<i2").reshape(stored.x_MTJC.shape) * data["unit"]
    assert np.abs(x_MTJC + middle(stored) - stored.x_MTJC).max() < 1e-4


def test_a_page_is_complete_and_self_contained(scene, tmp_path):
    nasty = "a <!--<script> </script><script>alert(1)</script> & <b>"
    save_page(Scene(nasty, NTU25, scene.panels, 30.0), tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert "http" not in text and "src=" not in text and "@import" not in text and "url(" not in text
    body = text.split('<script type="application/json" id="scene">')[1]
    data = body.split("</script>")[0]
    assert json.loads(data)["title"] == nasty and "<" not in data
    assert text.count("</script>") == 2 and "<!--" not in text and "/*SCENE*/" not in text


@pytest.mark.skipif(BINARY is None, reason="needs chromium")
def test_a_browser_draws_the_page(scene, tmp_path):
    save_page(scene, tmp_path / "a.html")
    dom, console = run_page(tmp_path / "a.html", tmp_path / "profile")
    assert console == [] and "body 2, left</span>" in dom


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
    assert "getContext" in (root / "a.HTML").read_text()


def test_show_draws_the_views_of_a_method(root, capsys):
    command = ["data", "show", "small", "--clip", "4", "--view", "skeletonmae", "--tokens", "15", "-o", "v.png"]
    assert main(command) == 0
    assert "What skeletonmae sees of small, clip 4" in capsys.readouterr().out
    first = (root / "v.png").read_bytes()
    assert main([*command, "--set", "mask_ratio=0.5"]) == 0 and (root / "v.png").read_bytes() != first
    assert main(command) == 0 and (root / "v.png").read_bytes() == first


@pytest.mark.parametrize(
    "arguments,said",
    [
        (["--clip", "24"], "clips 0 to 23, there is no clip 24"),
        (["-o", "a.jpg"], "end the name in .gif, .png or .html"),
        (["--tokens", "8"], "name it with --view METHOD"),
        (["--view", "slmi"], "did you mean 'slim'"),
        (["--view", "slim", "-o", "a.gif"], "end the name in .png"),
    ],
)
def test_impossible_pictures_are_one_error_and_leave_nothing(root, capsys, arguments, said):
    assert main(["data", "show", "small", *arguments]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: ") and said in printed
    assert not [path for kind in ("gif", "png", "html") for path in root.glob(f"*.{kind}")]
